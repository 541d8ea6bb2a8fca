//! A task's input besides its words: a pipe, files, and text written in an editor.
//!
//! Standard input is read if it is a pipe or a file, never from a terminal. A pipe may have been inherited from a
//! parent process that never writes to it, as in CI, so its first byte is waited for only briefly.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use rawko::{Attachment, attachment};
use rawko_core::text::truncate;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, fstat};

use crate::editor;
use crate::failure::Failure;
use crate::output::{clean_line, counted};
use crate::workspace::Workspace;

/// Maximum bytes of a task from standard input.
const LONGEST_TASK: u64 = 1024 * 1024;
/// Maximum bytes of a file or of piped input. Agents are shown a part of a long text.
const LONGEST_FILE: u64 = 16 * 1024 * 1024;
/// The most files.
const MOST_FILES: usize = 20;
/// How long the first byte of a pipe is waited for, in seconds.
const PATIENCE: i64 = 3;
/// How often a pipe is checked that has no writer yet.
const LOOK: Duration = Duration::from_millis(50);
/// What piped input is called.
const PIPED: &str = "standard input";

/// Options for what a task is given.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InputArgs {
    /// Give the agents this file with the task, text or a picture; `-` is standard input, however long it takes. May be
    /// repeated
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// Write the task in $VISUAL or $EDITOR
    #[arg(long, short)]
    edit: bool,
}

impl InputArgs {
    /// Whether the task is written in an editor.
    pub(crate) fn is_edited(&self) -> bool {
        self.edit
    }
}

/// A task, and what is given with it.
#[derive(Debug)]
pub(crate) struct Given {
    /// The task.
    pub(crate) task: String,
    /// What is given with it.
    pub(crate) attachments: Vec<Attachment>,
}

/// What standard input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StdinKind {
    /// A pipe or a socket.
    Pipe,
    /// A file.
    File,
    /// A terminal, `/dev/null`, or nothing.
    None,
}

/// Reads the task and what is given with it. Without words, `reads_task` takes the task from standard input.
///
/// # Errors
/// If there is no task, or something cannot be read.
pub(crate) fn read(
    workspace: &Workspace,
    words: &[String],
    options: &InputArgs,
    reads_task: bool,
    is_quiet: bool,
) -> Result<Given, Failure> {
    let source = source();
    let is_task = matches!(words, [only] if only == "-")
        || (words.is_empty() && !options.edit && reads_task && source != StdinKind::None);
    if words.is_empty() && !is_task && !options.edit {
        return Err(Failure::no_task());
    }
    let names_stdin = options.file.iter().any(|path| path == Path::new("-"));
    if is_task && names_stdin {
        return Err(Failure::usage("standard input cannot be both the task and a file")
            .with_hint("write the task in words: rawko --file - \"review this\""));
    }
    let text = if is_task { task_of_stdin()? } else { words.join(" ") };
    let mut attachments = Vec::new();
    if !is_task && !names_stdin {
        attachments.extend(piped(workspace, source)?);
    }
    if options.file.len() > MOST_FILES {
        return Err(Failure::usage(format!("more than {MOST_FILES} files are given"))
            .with_hint("name them in the task: agents can read the files of the project"));
    }
    for path in &options.file {
        attachments.push(file(workspace, path)?);
    }
    if !is_quiet {
        for given in &attachments {
            let size = match &given.image {
                Some(_) => "a picture".to_owned(),
                None => counted(given.text.len() as u64, "byte"),
            };
            let _ = workspace.console.write_error(&format!("given: {} ({size})\n", clean_line(&given.name)));
        }
    }
    let text = if options.edit { editor::task(workspace, &text)? } else { text };
    Ok(Given { task: checked(text)?, attachments })
}

fn checked(text: String) -> Result<String, Failure> {
    if text.trim().is_empty() {
        return Err(Failure::no_task());
    }
    if !text.contains(char::is_alphanumeric) {
        // The hints of rawko have three dots in place of a task.
        let shown = truncate(&clean_line(text.trim()), 20);
        return Err(Failure::usage(format!("the task `{shown}` has no word"))
            .with_hint("say in a sentence what to do, in place of the dots of a hint"));
    }
    Ok(text)
}

fn task_of_stdin() -> Result<String, Failure> {
    let bytes = bounded(std::io::stdin().lock(), LONGEST_TASK).map_err(|error| {
        Failure::usage(format!("cannot read the task from standard input: {error}"))
            .with_hint("pipe it in: echo \"add a test\" | rawko -")
    })?;
    let Some(bytes) = bytes else {
        return Err(Failure::usage("the task on standard input is longer than 1 MiB")
            .with_hint("give the material as a file: rawko --file FILE \"what to do with it\""));
    };
    String::from_utf8(bytes).map_err(|_| {
        Failure::usage("the task on standard input is not UTF-8 text")
            .with_hint("convert it first, or name the file in the task")
    })
}

/// The bytes of `input`; `None` if there are more than `max`.
fn bounded(input: impl Read, max: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    input.take(max + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= max).then_some(bytes))
}

fn source() -> StdinKind {
    match fstat(std::io::stdin()).map(|found| FileType::from_raw_mode(found.st_mode)) {
        Ok(FileType::Fifo | FileType::Socket) => StdinKind::Pipe,
        Ok(FileType::RegularFile) => StdinKind::File,
        Ok(_) | Err(_) => StdinKind::None,
    }
}

/// What is piped in, if something is.
fn piped(workspace: &Workspace, source: StdinKind) -> Result<Option<Attachment>, Failure> {
    if source == StdinKind::None {
        return Ok(None);
    }
    if source == StdinKind::Pipe && !is_written_to() {
        let line = format!(
            "{} nothing came on standard input within {PATIENCE} seconds, so it is left out; to wait for it: --file -, to leave it \
             out at once: < /dev/null\n",
            workspace.console.error_paint().warning("warning:")
        );
        let _ = workspace.console.write_error(&line);
        return Ok(None);
    }
    let given = from_stdin()?;
    Ok(Some(given).filter(|given| given.image.is_some() || !given.text.trim().is_empty()))
}

/// Whether something, or the end, comes soon.
fn is_written_to() -> bool {
    let stdin = std::io::stdin();
    let patience = Timespec { tv_sec: PATIENCE, tv_nsec: 0 };
    loop {
        match poll(&mut [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)], Some(&patience)) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            // Then reading says what is wrong with it.
            Err(_) => return true,
        }
    }
}

fn from_stdin() -> Result<Attachment, Failure> {
    let bytes = bounded(std::io::stdin().lock(), LONGEST_FILE)
        .map_err(|error| Failure::usage(format!("cannot read standard input: {error}")))?;
    made(PIPED, bytes)
}

fn file(workspace: &Workspace, path: &Path) -> Result<Attachment, Failure> {
    if path == Path::new("-") {
        return from_stdin();
    }
    let name = path.display().to_string();
    let real = workspace.folder().join(path);
    let cannot = |why: String| {
        Failure::usage(format!("cannot read {name}: {why}"))
            .with_hint("name a file of text, or a picture, with --file")
    };
    if let Some(target) = leads_out(workspace.project().ok().as_deref(), &real) {
        let target = target.display();
        return Err(Failure::usage(format!("{name} is a link out of the project, to {target}"))
            .with_hint(format!("if you mean that file, name it: --file {target}")));
    }
    let found = std::fs::metadata(&real).map_err(|error| cannot(error.to_string()))?;
    if found.is_dir() {
        return Err(cannot("it is a folder".to_owned()));
    }
    let bytes = if found.file_type().is_fifo() {
        of_pipe(workspace, &name, &real)
    } else {
        File::open(&real).and_then(|file| bounded(file, LONGEST_FILE))
    };
    made(&name, bytes.map_err(|error| cannot(error.to_string()))?)
}

/// Where a path in the project really is, if a link leads out of it: a repository may bring such a link along.
fn leads_out(project: Option<&Path>, path: &Path) -> Option<PathBuf> {
    let project = project?.canonicalize().ok()?;
    let folder = path.parent()?.canonicalize().ok()?;
    let is_within = folder.starts_with(&project) || path.starts_with(&project);
    path.canonicalize().ok().filter(|real| is_within && !real.starts_with(&project))
}

/// The data from a pipe, such as one that the shell makes of `<(command)`. A pipe without a writer is not waited for.
fn of_pipe(workspace: &Workspace, name: &str, path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut pipe = File::options().read(true).custom_flags(flags).open(path)?;
    let patience = Duration::from_secs(PATIENCE.unsigned_abs());
    let deadline = Instant::now() + patience;
    let (mut bytes, mut buffer, mut is_reported) = (Vec::new(), vec![0; 64 * 1024], false);
    loop {
        match pipe.read(&mut buffer) {
            // It has no writer yet.
            Ok(0) if bytes.is_empty() && !is_reported && Instant::now() < deadline => {
                std::thread::sleep(LOOK);
            }
            Ok(0) if bytes.is_empty() && !is_reported => {
                let why = format!("it is a pipe to which no process has written within {PATIENCE} seconds");
                return Err(std::io::Error::other(why));
            }
            Ok(0) => return Ok(Some(bytes)),
            Ok(length) => {
                bytes.extend_from_slice(&buffer[..length]);
                if bytes.len() as u64 > LONGEST_FILE {
                    return Ok(None);
                }
            }
            // It has a writer, which may take long.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let ready = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)];
                let wait = Timespec { tv_sec: PATIENCE, tv_nsec: 0 };
                if matches!(poll(&mut { ready }, Some(&wait)), Ok(0))
                    && !std::mem::replace(&mut is_reported, true)
                {
                    let _ = workspace.console.write_error(&format!("waiting for {}\n", clean_line(name)));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn made(name: &str, bytes: Option<Vec<u8>>) -> Result<Attachment, Failure> {
    let Some(bytes) = bytes else {
        return Err(Failure::usage(format!("{name} is longer than {} MiB", LONGEST_FILE / 1024 / 1024))
            .with_hint("put it into the project, and name it in the task: agents can read a part of it"));
    };
    attachment(name, bytes).map_err(|error| {
        Failure::usage(error.to_string()).with_hint("give text, or a PNG, JPEG, GIF or WebP picture")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_is_not_read_whole() {
        assert_eq!(bounded(&b"abc"[..], 3).unwrap(), Some(b"abc".to_vec()));
        assert_eq!(bounded(&b"abcd"[..], 3).unwrap(), None);
        assert!(made("x", None).unwrap_err().message().contains("16 MiB"));
    }
}
