//! `Bash`: a shell command, with its whole process tree on a leash.

use std::fmt::Write as _;
use std::time::Duration;

use rawko_core::error::ErrorCode;
use rawko_core::tool::{ToolAccess, ToolOutcome, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::call::{blocking, parse, spec};
use crate::process::{Cause, CommandLine, Finished, Leash, Lifeline, environment, run};
use crate::tool::{BoxFuture, Tool, ToolContext};

const DEFAULT_TIMEOUT_MS: u64 = 120_000;
const MAX_TIMEOUT_MS: u64 = 600_000;
/// Bytes of output that are kept, half of them from its head.
const MAX_OUTPUT: usize = 30_000;
/// What one argument may hold on Linux, with room to spare.
const MAX_COMMAND: usize = 100_000;

const DESCRIPTION: &str = "\
Runs a command with `bash -c` in the project root and returns its output (stdout and stderr together) and exit code. \
Every call is a new shell: `cd` and variables do not carry over, so join dependent steps with `&&`. There is no \
terminal and no stdin: give programs what they need as arguments, and pass flags that keep them from asking. \
Everything the command starts is ended when the call ends, background processes included. Long output is cut in the \
middle. Prefer Read, Edit, Write, Glob and Grep for files; use Bash to build, test, and run programs and git.";

/// Arguments of `Bash`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BashInput {
    /// The command.
    #[schemars(length(min = 1))]
    command: String,
    /// Most milliseconds it may take (default 120000, at most 600000). Then it is killed.
    #[schemars(range(min = 1, max = 600_000))]
    timeout: Option<u64>,
    /// What the command does, in five to ten words, for the people who watch.
    #[allow(dead_code, reason = "it is for the journal and the people who read it")]
    description: Option<String>,
}

/// The tool.
#[derive(Debug)]
pub struct Bash {
    spec: ToolSpec,
    lifeline: Lifeline,
}

impl Bash {
    /// The tool.
    #[must_use]
    pub fn new() -> Self {
        let spec = spec::<BashInput>("Bash", DESCRIPTION, ToolAccess::Mutating);
        Self { spec, lifeline: Lifeline::default() }
    }
}

impl Default for Bash {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, input: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let input: BashInput = match parse("Bash", input) {
                Ok(input) => input,
                Err(outcome) => return outcome,
            };
            let context = context.clone();
            let leash = Leash::default();
            let held = PullOnDrop(leash.clone());
            let lifeline = self.lifeline.clone();
            let outcome = blocking(move |_| bash(input, &context, &leash, lifeline)).await;
            drop(held);
            outcome
        })
    }
}

/// Kills the command when the call is given up: at once, in the thread that drops it.
struct PullOnDrop(Leash);

impl Drop for PullOnDrop {
    fn drop(&mut self) {
        self.0.pull();
    }
}

fn bash(input: BashInput, context: &ToolContext, leash: &Leash, lifeline: Lifeline) -> ToolOutcome {
    if input.command.contains('\0') {
        return ToolOutcome::error(ErrorCode::ValidationError, "Bash: the command contains a NUL.");
    }
    if input.command.len() > MAX_COMMAND {
        let message =
            format!("Bash: the command is longer than {MAX_COMMAND} bytes. Write it to a file and run that.");
        return ToolOutcome::error(ErrorCode::ValidationError, message);
    }
    let timeout = input.timeout.unwrap_or(DEFAULT_TIMEOUT_MS).min(MAX_TIMEOUT_MS);
    let named = context.permissions.env.as_deref().unwrap_or_default();
    let line = CommandLine {
        command: input.command,
        directory: context.root.clone(),
        environment: environment(std::env::vars_os(), named),
        timeout: Duration::from_millis(timeout),
        lifeline,
    };
    match run(&line, leash, MAX_OUTPUT, &*context.progress) {
        Ok(finished) => outcome(&finished, timeout),
        Err(error) => {
            let message =
                format!("Bash: the shell could not be run in `{}`: {error}.", line.directory.display());
            ToolOutcome::error(ErrorCode::ToolFailure, message)
        }
    }
}

fn outcome(finished: &Finished, timeout_ms: u64) -> ToolOutcome {
    let mut text = finished.output.text();
    if text.is_empty() {
        text.push_str("(no output)");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    // Writing to a String cannot fail.
    let (exit_code, error_code) = match finished.cause {
        Cause::Exited { code: Some(code), .. } => {
            let _ = write!(text, "[exit code {code}]");
            (Some(code), (code != 0).then_some(ErrorCode::ToolFailure))
        }
        Cause::Exited { code: None, signal } => {
            let signal = signal.map_or_else(|| "a signal".to_owned(), |s| format!("signal {s}"));
            let _ = write!(text, "[ended by {signal}]");
            (None, Some(ErrorCode::ToolFailure))
        }
        Cause::TimedOut => {
            let _ = write!(
                text,
                "[timed out: the command did not end within {timeout_ms} ms and was killed with everything it started. \
                 Make it do less, or pass a longer timeout (at most {MAX_TIMEOUT_MS}).]"
            );
            (None, Some(ErrorCode::Timeout))
        }
    };
    if finished.left_behind > 0 && finished.cause != Cause::TimedOut {
        let count = finished.left_behind;
        let _ = write!(text, "\n[{count} background process(es) of the command were ended with it]");
    }
    ToolOutcome { exit_code, is_error: error_code.is_some(), error_code, ..ToolOutcome::ok(text) }
}
