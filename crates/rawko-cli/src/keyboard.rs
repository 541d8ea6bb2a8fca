//! The terminal's keyboard while a view is up: keys come one by one, without Enter and without echo. Signals keep their
//! keys: Ctrl-C and Ctrl-Z work as always, whatever this process does.
//!
//! The terminal gets its old settings back: at the end, on a panic, after a second signal, and while the process is
//! stopped. [`Keyboard::close`] may be called from anywhere, any number of times.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};
use tokio::sync::oneshot;

use crate::console::can_ask;

/// How often the reader looks whether the keyboard was closed.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The same while the process is in the background, where it must not read.
const BACKGROUND: Duration = Duration::from_millis(200);

/// The keyboard, shared by those who may have to give it back. Closed at first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keyboard(Arc<Mutex<KeyboardState>>);

#[derive(Debug, Default)]
struct KeyboardState {
    /// The terminal's modes as they were found, while it is open.
    found: Option<Termios>,
    /// Where the answer to the open question goes.
    question: Option<oneshot::Sender<bool>>,
    /// What a server wants to know.
    line: Option<LineQuestion>,
}

/// A question that is answered with a line.
#[derive(Debug)]
struct LineQuestion {
    /// What is shown above the view, once.
    above: Vec<String>,
    prompt: String,
    answer: oneshot::Sender<Option<String>>,
}

/// Closes the keyboard when it is dropped, also by a panic.
#[derive(Debug)]
pub(crate) struct ClosesKeyboard(Keyboard);

impl Drop for ClosesKeyboard {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Keyboard {
    /// Takes the keys from now on. `None` where there is no keyboard: standard input is no terminal, or belongs to another
    /// process.
    pub(crate) fn open(&self) -> Option<Receiver<Vec<u8>>> {
        if !can_ask() || !is_in_foreground() {
            return None;
        }
        let found = tcgetattr(io::stdin()).ok()?;
        {
            let mut shared = self.shared();
            take(&found).ok()?;
            shared.found = Some(found);
        }
        let (sender, keys) = channel();
        let keyboard = self.clone();
        let read = move || keyboard.read(&sender);
        match std::thread::Builder::new().name("keyboard".to_owned()).spawn(read) {
            Ok(_) => Some(keys),
            Err(_) => {
                self.close();
                None
            }
        }
    }

    /// Whether keys come here.
    pub(crate) fn is_open(&self) -> bool {
        self.shared().found.is_some()
    }

    /// Takes the keys again after the process was stopped and continued: shells set modes of their own meanwhile.
    pub(crate) fn reopen(&self) {
        let shared = self.shared();
        let Some(found) = shared.found.as_ref().filter(|_| is_in_foreground()) else { return };
        let is_cooked = tcgetattr(io::stdin()).is_ok_and(|now| now.local_modes.contains(LocalModes::ICANON));
        if is_cooked {
            let _ = take(found);
        }
    }

    /// Gives the terminal back until [`Keyboard::reopen`].
    pub(crate) fn release(&self) {
        restore(self.shared().found.as_ref());
    }

    /// Gives the terminal back.
    pub(crate) fn close(&self) {
        let mut shared = self.shared();
        shared.line = None;
        restore(shared.found.take().as_ref());
    }

    /// Something that closes it when dropped.
    pub(crate) fn closes(&self) -> ClosesKeyboard {
        ClosesKeyboard(self.clone())
    }

    /// The answer to the question that the view shows. `None` if the view ends without one.
    pub(crate) async fn answer(&self) -> Option<bool> {
        let (sender, answer) = oneshot::channel();
        self.shared().question = Some(sender);
        answer.await.ok()
    }

    /// Whether a question waits for an answer.
    pub(crate) fn is_asked(&self) -> bool {
        self.shared().question.as_ref().is_some_and(|question| !question.is_closed())
    }

    /// Answers the open question.
    pub(crate) fn give(&self, answer: bool) {
        if let Some(question) = self.shared().question.take() {
            let _ = question.send(answer);
        }
    }

    /// The line that the user types in the view after `prompt`, with `above` above the view. `None` if they decline, or
    /// the view ends.
    pub(crate) async fn line(&self, above: Vec<String>, prompt: &str) -> Option<String> {
        let (answer, given) = oneshot::channel();
        self.shared().line = Some(LineQuestion { above, prompt: prompt.to_owned(), answer });
        given.await.ok().flatten()
    }

    /// The prompt of the line that is waited for, and the lines that are still to be shown above the view.
    pub(crate) fn asks_line(&self) -> Option<(Vec<String>, String)> {
        let mut shared = self.shared();
        let question = shared.line.as_mut().filter(|question| !question.answer.is_closed())?;
        Some((std::mem::take(&mut question.above), question.prompt.clone()))
    }

    /// Gives the line, or says that there is none.
    pub(crate) fn give_line(&self, line: Option<String>) {
        if let Some(question) = self.shared().line.take() {
            let _ = question.answer.send(line);
        }
    }

    fn shared(&self) -> MutexGuard<'_, KeyboardState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what is typed until the keyboard is closed.
    fn read(&self, keys: &Sender<Vec<u8>>) {
        let stdin = io::stdin();
        while self.is_open() {
            // Reading in the background would stop the process.
            if !is_in_foreground() {
                std::thread::sleep(BACKGROUND);
                continue;
            }
            match bytes(stdin.as_fd()) {
                Ok(None) => {}
                Ok(Some(bytes)) if self.is_open() => {
                    if bytes.is_empty() || keys.send(bytes).is_err() {
                        return;
                    }
                }
                Ok(Some(_)) | Err(_) => return,
            }
        }
    }
}

/// What was typed since; nothing after a while, empty at the end of the input.
fn bytes(input: BorrowedFd<'_>) -> rustix::io::Result<Option<Vec<u8>>> {
    let mut ready = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
    match poll(&mut ready, Some(&LOOK)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(error),
    }
    let mut buffer = [0; 1024];
    let read = rustix::io::read(input, &mut buffer)?;
    Ok(Some(buffer[..read].to_vec()))
}

/// Takes single keys of a terminal with these modes. A paste is marked as one, so that it is not taken for keys.
fn take(found: &Termios) -> io::Result<()> {
    tcsetattr(io::stdin(), OptionalActions::Now, &single_keys(found))?;
    io::stderr().write_all(b"\x1b[?2004h")
}

/// These modes without lines and echo. Signals keep their keys, and output is processed as before.
fn single_keys(found: &Termios) -> Termios {
    let mut modes = found.clone();
    modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    modes.special_codes[SpecialCodeIndex::VMIN] = 1;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    modes
}

/// In the background the terminal is another process's, which has its own modes.
fn restore(found: Option<&Termios>) {
    if let Some(found) = found.filter(|_| is_in_foreground()) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, found);
        let _ = io::stderr().write_all(b"\x1b[?2004l");
    }
}

/// Whether the terminal is this process's, and not the shell's or another job's.
pub(crate) fn is_in_foreground() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}
