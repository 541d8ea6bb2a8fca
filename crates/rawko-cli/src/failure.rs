//! Why a command failed, for people: what failed, and what to try. The only place where an error becomes text, hint and exit
//! status.

use std::io;

use rawko::config::TrustError;
use rawko::journal::JournalError;

use unicode_width::UnicodeWidthStr as _;

use crate::console::{Console, error_columns};
use crate::exit::Exit;
use crate::output::{clean, room, wrap};

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error to report.
    Report(FailureReport),
    /// The reader of standard output is gone. That is not an error.
    PipeClosed,
}

/// The parts of an error report.
#[derive(Debug)]
pub(crate) struct FailureReport {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// A failure with this exit status. The message says what failed and where.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self::Report(FailureReport { exit, message: message.into(), hint: None })
    }

    /// A command line or a configuration that cannot be used.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Adds a hint: what to try.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        if let Self::Report(report) = &mut self {
            report.hint = Some(hint.into());
        }
        self
    }

    /// The user stopped the command.
    pub(crate) fn interrupted() -> Self {
        Self::new(Exit::Cancelled, "interrupted")
    }

    /// There is no task, or an empty one.
    pub(crate) fn no_task() -> Self {
        Self::usage("no task was given").with_hint(
            "describe the task: rawko \"add a --version flag\"\n\
             see a whole run without a key: rawko demo\n\
             see all commands and options: rawko --help",
        )
    }

    /// The record of trusted folders could not be written.
    pub(crate) fn trust_not_stored(error: TrustError) -> Self {
        Self::new(Exit::Failed, format!("cannot store the trust: {error}"))
            .with_hint("check the permissions of that file and its folder")
    }

    /// The exit status.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Report(report) => report.exit,
            Self::PipeClosed => Exit::Success,
        }
    }

    /// What failed.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Report(report) => &report.message,
            Self::PipeClosed => "the reader of the output is gone",
        }
    }

    /// What to try.
    pub(crate) fn hint(&self) -> Option<&str> {
        match self {
            Self::Report(report) => report.hint.as_deref(),
            Self::PipeClosed => None,
        }
    }

    /// Writes the report to standard error.
    pub(crate) fn report(&self, console: &Console) {
        let Self::Report(report) = self else { return };
        let paint = console.error_paint();
        let columns = error_columns();
        let message = in_columns(&clean(&report.message), "error: ".len(), columns);
        // Some messages have a heading of their own.
        let mut text = match message.strip_prefix("error: ") {
            Some(rest) => format!("{} {}\n", paint.error("error:"), rest.trim_end()),
            None => format!("{} {}\n", paint.error("error:"), message.trim_end()),
        };
        if let Some(hint) = &report.hint {
            let hint = in_columns(&console.commands(&clean(hint)), "hint: ".len(), columns);
            let indented = hint.trim_end().replace('\n', "\n      ");
            text.push_str(&format!("{} {indented}\n", paint.hint("hint:")));
        }
        // If standard error is closed too, only the exit status is left.
        let _ = console.write_error(&text);
    }
}

/// Breaks lines that are too long for the terminal between words. A command that is named at the end of a line has one of its
/// own, whole: it is to be copied.
fn in_columns(text: &str, margin: usize, columns: Option<usize>) -> String {
    let Some(columns) = columns.map(|columns| room(columns, margin)) else {
        return text.to_owned();
    };
    let lines = text.lines().map(|line| match line.rsplit_once(": rawko ") {
        // A line of a file, with its caret, and what belongs to it.
        _ if line.width() <= columns || line.starts_with([' ', '|']) || is_of_file(line) => line.to_owned(),
        Some((words, command)) => format!("{}\n  rawko {command}", wrap(&format!("{words}:"), columns)),
        None => wrap(line, columns),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether it is a line of a file, with its number before it.
fn is_of_file(line: &str) -> bool {
    line.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(" |")
}

impl From<io::Error> for Failure {
    /// For errors of writing to standard output. All other I/O errors are described where they happen.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::PipeClosed,
            _ => Self::new(Exit::Failed, format!("cannot write to standard output: {error}"))
                .with_hint("check the disk or the program that reads the output"),
        }
    }
}

impl From<rawko::Error> for Failure {
    fn from(error: rawko::Error) -> Self {
        use rawko::Error as E;
        let message = error.to_string();
        match error {
            E::EmptyTask => Self::no_task(),
            E::Project { path, source } => {
                Self::usage(format!("cannot work in {}: {source}", path.display()))
                    .with_hint("name an existing folder with --cwd DIR")
            }
            E::Config(_) => Self::usage(message),
            E::Setup { message, hint } => Self::usage(message).with_hint(hint),
            E::NoKey { provider, variable } => Self::new(Exit::Provider, message).with_hint(format!(
                "set it: export {variable}=…\n\
                 or use another provider than `{provider}`: --provider NAME (`rawko providers list`), \
                 e.g. `--provider ollama` for a model on this machine\n\
                 `rawko demo` shows a run without any key"
            )),
            E::Untrusted { folder: _, claims } => {
                let claims = crate::trust_shown::claims(&claims);
                Self::new(Exit::Untrusted, format!("{message}:\n{}", claims.trim_end())).with_hint(
                    "read these settings, then trust the folder with `rawko trust`, or this one run with --yes",
                )
            }
            E::UntrustedJournal { session, reasons: _, again: _ } => Self::new(Exit::Untrusted, message).with_hint(format!(
                "read it with `rawko sessions show {session}`, then use --yes to trust it"
            )),
            E::LimitStands { session, limit, summary: _ } => {
                Self::usage(message).with_hint(format!("raise it: rawko resume {session} {}", limit.option()))
            }
            E::LimitSpent { session, limit, .. } => Self::usage(message).with_hint(format!(
                "what was used before counts; give a higher one: rawko resume {session} {}",
                limit.option()
            )),
            E::Trust(_) => Self::new(Exit::Untrusted, message)
                .with_hint("no folder is trusted while that file cannot be read; --yes trusts this one run"),
            E::Journal(error) => of_journal(&error, message),
            E::NewestNotResumed { session, source, older } => {
                let hint = source
                    .hint()
                    .unwrap_or_else(|| format!("see what is wrong with it: rawko sessions show {session}"));
                Self::new(Exit::Failed, message).with_hint(match older {
                    Some(older) => format!("{hint}\nto resume an older session instead: rawko resume {older}"),
                    None => hint,
                })
            }
            E::Diverged { session, divergence: _ } => Self::new(Exit::Failed, message).with_hint(format!(
                "`rawko replay {session}` shows the difference; resume the session with the rawko that recorded it, or \
                 start a new one from a record before the difference: rawko fork {session} --at N"
            )),
            E::StillHeld { pid, .. } => Self::new(Exit::Failed, message).with_hint(match pid {
                Some(pid) => format!("wait longer with --wait TIME, or end it at once: kill -KILL {pid}"),
                None => "its process was not found, or belongs to another user: end it where it runs".to_owned(),
            }),
            E::CommandsLeft { session, .. } => Self::new(Exit::Failed, message)
                .with_hint(format!("wait until they have ended, then: rawko resume {session}")),
            E::Busy { .. } => Self::new(Exit::Failed, message)
                .with_hint("wait for its end, work in a tree of its own with --isolated, or in the same files with --anyway"),
            E::Suspended { session } => {
                Self::new(Exit::Failed, message).with_hint(format!("to go on with it: rawko resume {session}"))
            }
            E::Panicked { .. } => Self::new(Exit::Failed, message)
                .with_hint("this is a fault of rawko; to go on with the session: rawko resume"),
            E::Interrupted => Self::new(Exit::Failed, message),
            // An error of a newer SDK, for which this version has no hint.
            _ => Self::new(Exit::Failed, message),
        }
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        rawko::Error::from(error).into()
    }
}

/// Adds the hint of a journal error.
fn of_journal(error: &JournalError, message: String) -> Failure {
    let failure = match error {
        JournalError::NotFound { .. } | JournalError::Ambiguous { .. } | JournalError::Sound { .. } => {
            Failure::usage(message)
        }
        _ => Failure::new(Exit::Failed, message),
    };
    match error.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words_and_commands_are_whole() {
        let hint =
            "values are in a file, and are changed there; to see each: rawko config show --all --of-this";
        let broken =
            "values are in a file, and are\nchanged there; to see each:\n  rawko config show --all --of-this";
        assert_eq!(in_columns(hint, 6, Some(36)), broken);
        assert_eq!(in_columns(hint, 6, Some(200)), hint);
        assert_eq!(in_columns(hint, 6, None), hint);
        for line in [
            "12 | name: a long line of a file, which is shown",
            "   | ^^^^^^^^ here is something that is too long",
        ] {
            assert_eq!(in_columns(line, 6, Some(30)), line);
        }
    }
}
