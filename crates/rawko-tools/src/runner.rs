//! Commands that rawko itself runs, on behalf of no agent: those that verify that a task is done.
//!
//! They are run as `Bash` runs an agent's: `bash -c` in the project, a process group of its own, a bare environment
//! without any key, nothing on stdin, and the whole tree ended when the time is up, when nobody waits any more, and when
//! this process dies. Whether they may be run is not asked here: they come from a configuration that the user trusts.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rawko_core::facts::CommandRun;

use crate::process::{Cause, CommandLine, HeadAndTail, Leash, Lifeline, Program, PullOnDrop, environment};

/// Bytes of output that are kept, half of them from its head.
const MAX_OUTPUT: usize = 8_000;

/// Runs such commands in one place.
#[derive(Debug, Clone)]
pub struct CommandRunner {
    root: PathBuf,
    /// Variables that the commands may see besides the base that every command sees.
    named: Vec<String>,
    lifeline: Lifeline,
}

impl CommandRunner {
    /// Runs them in `root`. They see the variables `named`, as far as their names are not those of secrets.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>, named: Vec<String>) -> Self {
        Self { root: root.into(), named, lifeline: Lifeline::default() }
    }

    /// Runs one to its end, or until `timeout` has passed. Dropping the future ends it, with everything it started.
    pub async fn run(&self, command: &str, timeout: Duration) -> CommandRun {
        let line = CommandLine {
            program: Program::Shell(command.to_owned()),
            directory: self.root.clone(),
            environment: environment(std::env::vars_os(), &self.named),
            timeout: Some(timeout),
            lifeline: self.lifeline.clone(),
        };
        let begun = Instant::now();
        let leash = Leash::default();
        let held = PullOnDrop::new(&leash);
        let done = tokio::task::spawn_blocking(move || wait_for(&leash, &line)).await;
        drop(held);
        let (exit_code, output) =
            done.unwrap_or_else(|error| (None, format!("[not run to its end: {error}]")));
        let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        CommandRun { command: command.to_owned(), exit_code, output, duration_ms }
    }
}

fn wait_for(leash: &Leash, line: &CommandLine) -> (Option<i32>, String) {
    let mut output = HeadAndTail::new(MAX_OUTPUT);
    let finished = leash.start(line).and_then(|running| running.finish(&mut |_, bytes| output.push(bytes)));
    let cause = match finished {
        Ok(finished) => finished.cause,
        Err(error) => {
            let place = line.directory.display();
            return (None, format!("[the shell could not be run in `{place}`: {error}]"));
        }
    };
    let mut text = output.text();
    let note = match cause {
        Cause::Exited { code: Some(_), .. } => return (cause.exit_code(), text),
        Cause::Exited { code: None, .. } | Cause::GivenUp => format!("[{}]", cause.text()),
        Cause::TimedOut => format!(
            "[timed out: the command did not end within {} s and was killed with everything it started]",
            line.timeout.unwrap_or_default().as_secs_f64()
        ),
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&note);
    (None, text)
}
