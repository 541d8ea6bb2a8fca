//! Asks the person at the terminal for a call that is not granted. The reporter shows the question; this reads the
//! answer, or gets it from the view that owns the keyboard.
//!
//! Input typed before the question was shown is no answer, and neither is the end of the input.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rawko::RawkoBuilder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};

use crate::console::{Console, can_ask};
use crate::keyboard::Keyboard;

/// How long the question is shown before an answer counts.
const SHOWN: Duration = Duration::from_millis(300);
/// How often the reader checks whether someone else has answered.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// The longest line that is read.
const LONGEST: usize = 1_000;

/// Has the builder ask at the terminal, if there is one.
pub(crate) fn at_terminal(builder: RawkoBuilder, console: Console, keyboard: Keyboard) -> RawkoBuilder {
    if !can_ask() {
        return builder;
    }
    builder.on_approval("terminal", move |_| {
        let keyboard = keyboard.clone();
        async move { asked(console, &keyboard).await }
    })
}

/// The answer of the person at the terminal.
async fn asked(console: Console, keyboard: &Keyboard) -> Option<bool> {
    tokio::time::sleep(SHOWN).await;
    // A view that has the keyboard asks itself.
    if keyboard.is_open() {
        return keyboard.answer().await;
    }
    // Dropped with this future: when someone else has answered, or the run ends.
    let open = OpenPrompt(Arc::new(AtomicBool::new(true)));
    let flag = Arc::clone(&open.0);
    let read = tokio::task::spawn_blocking(move || {
        let stdin = io::stdin();
        let _ = tcflush(&stdin, QueueSelector::IFlush);
        answer(stdin.as_fd(), &flag, &mut || {
            // A view shows the question without it.
            if !console.is_watched() {
                prompt(&console);
            }
        })
    });
    let answer = read.await.ok().flatten();
    drop(open);
    answer
}

/// Asks for a call that was shown. Only a clear yes is one.
pub(crate) fn ask(console: &Console) -> bool {
    let stdin = io::stdin();
    let _ = tcflush(&stdin, QueueSelector::IFlush);
    answer(stdin.as_fd(), &AtomicBool::new(true), &mut || prompt(console)).unwrap_or_default()
}

fn prompt(console: &Console) {
    let _ = console.write_error("Allow this call? [y/N] ");
}

struct OpenPrompt(Arc<AtomicBool>);

impl Drop for OpenPrompt {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Shows this at the terminal, and reads a line; `None` at the end of the input.
pub(crate) async fn line_of_terminal(console: Console, prompt: String) -> Option<String> {
    // Dropped with this future: when the question is over.
    let open = OpenPrompt(Arc::new(AtomicBool::new(true)));
    let flag = Arc::clone(&open.0);
    let read = tokio::task::spawn_blocking(move || {
        let stdin = io::stdin();
        let _ = tcflush(&stdin, QueueSelector::IFlush);
        let _ = console.write_error(&prompt);
        line(stdin.as_fd(), &flag)
    });
    let line = read.await.ok().flatten();
    drop(open);
    line
}

/// Reads lines until one is an answer; an empty one is a no. `None` at the end of the input, or once the question is closed.
fn answer(input: BorrowedFd<'_>, open: &AtomicBool, prompt: &mut dyn FnMut()) -> Option<bool> {
    loop {
        prompt();
        match line(input, open)?.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => return Some(true),
            "" | "n" | "no" => return Some(false),
            _ => {}
        }
    }
}

/// A line; `None` at the end of the input, or once nothing waits for it any more.
fn line(input: BorrowedFd<'_>, open: &AtomicBool) -> Option<String> {
    let mut line = Vec::new();
    while open.load(Ordering::Relaxed) {
        let mut ready = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
        match poll(&mut ready, Some(&LOOK)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return None,
        }
        let mut byte = [0];
        if rustix::io::read(input, &mut byte).ok()? == 0 {
            return None;
        }
        if byte[0] != b'\n' {
            line.extend(Some(byte[0]).filter(|_| line.len() < LONGEST));
            continue;
        }
        return Some(String::from_utf8_lossy(&line).into_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[track_caller]
    fn check(typed: &str, expected: Option<bool>, prompts: usize) {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(typed.as_bytes()).unwrap();
        drop(writer);
        let mut prompted = 0;
        let got = answer(reader.as_fd(), &AtomicBool::new(true), &mut || prompted += 1);
        assert_eq!((got, prompted), (expected, prompts), "{typed:?}");
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        check("y\n", Some(true), 1);
        check(" YES \n", Some(true), 1);
        check("n\n", Some(false), 1);
        check("\n", Some(false), 1);
        check("maybe\ny\n", Some(true), 2);
        check("yellow\nno\n", Some(false), 2);
        check("", None, 1);
        check("y", None, 1);
    }

    #[test]
    fn a_question_that_is_closed_reads_no_more() {
        let (reader, mut writer) = io::pipe().unwrap();
        let open = AtomicBool::new(false);
        writer.write_all(b"y\n").unwrap();
        assert_eq!(answer(reader.as_fd(), &open, &mut || {}), None);
        open.store(true, Ordering::Relaxed);
        assert_eq!(
            answer(reader.as_fd(), &open, &mut || {}),
            Some(true),
            "it was left for the next question"
        );
    }
}
