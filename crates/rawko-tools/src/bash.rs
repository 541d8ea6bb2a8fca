//! `Bash`: runs a shell command, and ends its whole process tree with it.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rawko_core::error::ErrorCode;
use rawko_core::policy::named_directories;
use rawko_core::text::truncate;
use rawko_core::tool::{JobChanges, Refusal, ToolAccess, ToolOutcome, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::access::{leads_out, lexical};
use crate::background::{JobReport, Jobs};
use crate::call::{blocking, parse, parse_checked, spec};
use crate::confinement::Confinement;
use crate::named_files::NamedFiles;
use crate::process::{
    Cause, CommandLine, Finished, HeadAndTail, Invocation, KillHandle, KillOnDrop, OrphanReaper, is_recorded,
};
use crate::refusals::record;
use crate::tool::{BoxFuture, CallRefusal, Tool, ToolContext};

const DEFAULT_TIMEOUT_MS: u64 = 120_000;
const MAX_TIMEOUT_MS: u64 = 600_000;
/// Bytes of output that are kept: half from the beginning, half from the end.
const MAX_OUTPUT: usize = 30_000;
/// The longest argument on Linux, with room to spare.
const MAX_COMMAND: usize = 100_000;

const DESCRIPTION: &str = "\
Runs a command with `bash -c` in the project root and returns its output (stdout and stderr together) and exit code. \
Every call is a new shell: `cd` and variables do not carry over, so join dependent steps with `&&`. There is no \
terminal and no stdin: give programs what they need as arguments, and pass flags that turn prompts off. \
Everything the command starts is ended when the call ends, `&` and `nohup` included: for a server or a long build, \
pass `run_in_background` instead. Long output is cut in the middle. Prefer Read, Edit, Write, Glob and Grep for \
files; use Bash to build, test, and run programs and git.";

/// Arguments of `Bash`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BashInput {
    /// The command.
    #[schemars(length(min = 1))]
    command: String,
    /// Timeout in milliseconds, after which the command is killed (default 120000, at most 600000; in the background: no
    /// limit unless given).
    #[schemars(range(min = 1, max = 600_000))]
    timeout: Option<u64>,
    /// What the command does, in five to ten words, for the people who watch.
    #[allow(dead_code, reason = "it is for the journal and the people who read it")]
    description: Option<String>,
    /// Return at once with a job number and let the command go on. Its output and its end come with the results of your
    /// later Bash calls. It is ended together with the run.
    run_in_background: Option<bool>,
    /// The number of a background job of yours that is ended first; the command runs when it is gone. To end a job and no
    /// more, give `true` as the command.
    stop_job: Option<u32>,
}

/// The `Bash` tool.
#[derive(Debug)]
pub(crate) struct Bash {
    spec: ToolSpec,
    jobs: Arc<Jobs>,
    reaper: OrphanReaper,
}

impl Bash {
    /// A `Bash` tool with background jobs of its own.
    pub(crate) fn new() -> Self {
        let spec = spec::<BashInput>("Bash", DESCRIPTION, ToolAccess::Mutating);
        Self { spec, jobs: Arc::default(), reaper: OrphanReaper::default() }
    }
}

impl Drop for Bash {
    fn drop(&mut self) {
        self.jobs.end();
    }
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, input: &Value, context: &ToolContext) -> Result<(), CallRefusal> {
        let input: BashInput = parse_checked("Bash", input)?;
        context.may_run_commands()?;
        // Every directory counts as existing: one that is missing now may exist when the call runs.
        stays_inside(&input.command, context, &|_| true)
    }

    fn run<'a>(&'a self, input: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let input: BashInput = match parse("Bash", input) {
                Ok(input) => input,
                Err(outcome) => return outcome,
            };
            let is_directory = |path: &str| context.root.join(path).is_dir();
            if let Err(CallRefusal { message, .. }) = stays_inside(&input.command, context, &is_directory) {
                return ToolOutcome::error(ErrorCode::PermissionError, message);
            }
            let line = match command_line(&input, context, &self.reaper) {
                Ok(line) => line,
                Err(outcome) => return outcome,
            };
            if let Some(job) = input.stop_job
                && let Err(outcome) = self.stop(job, context).await
            {
                return outcome;
            }
            let mut outcome = if input.run_in_background == Some(true) {
                // Reports on other jobs come first: they are older.
                let JobReport { text, ended, refused } = self.jobs.report(&context.agent);
                let mut outcome = self.start(line, context).await;
                outcome.content.insert_str(0, &text);
                note_ended(&mut outcome, ended);
                record(&mut outcome, refused);
                return outcome;
            } else {
                wait_for(&input.command, line, context).await
            };
            let JobReport { text, ended, refused } = self.jobs.report(&context.agent);
            if !text.is_empty() {
                let _ = write!(outcome.content, "\n\n{}", text.trim_end());
            }
            note_ended(&mut outcome, ended);
            record(&mut outcome, refused);
            outcome
        })
    }

    fn resumed(&self, jobs: u32) {
        self.jobs.number_after(jobs);
    }

    fn end(&self) {
        self.jobs.end();
    }

    fn interrupt(&self) {
        self.jobs.interrupt();
    }
}

/// Records which jobs have been reported as ended.
fn note_ended(outcome: &mut ToolOutcome, ended: Vec<u32>) {
    if !ended.is_empty() {
        outcome.jobs.get_or_insert_default().ended = ended;
    }
}

impl Bash {
    /// Ends a background job and waits for its end, which is reported as usual.
    async fn stop(&self, job: u32, context: &ToolContext) -> Result<(), ToolOutcome> {
        let (jobs, agent) = (Arc::clone(&self.jobs), context.agent.clone());
        let stopped = tokio::task::spawn_blocking(move || jobs.stop(&agent, job)).await;
        let why = match stopped {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(refusal)) => refusal.to_string(),
            Err(error) => error.to_string(),
        };
        Err(ToolOutcome::error(ErrorCode::ValidationError, format!("Bash: the command was not run: {why}.")))
    }

    /// Starts a background job.
    async fn start(&self, line: CommandLine, context: &ToolContext) -> ToolOutcome {
        let jobs = Arc::clone(&self.jobs);
        let agent = context.agent.clone();
        blocking(move |_| match jobs.start(agent, &line) {
            Ok(job) => ToolOutcome {
                jobs: Some(Box::new(JobChanges { started: Some(job), ended: Vec::new() })),
                ..ToolOutcome::ok(format!(
                    "[background job {job}: started] Its output and its end come with the results of your later Bash calls. \
                     `stop_job: {job}` in one of them ends it."
                ))
            },
            Err(refusal) => ToolOutcome::error(ErrorCode::ToolFailure, format!("Bash: {refusal}.")),
        })
        .await
    }
}

/// Where only listed programs may run, refuses `cd` and `git -C` to a directory outside the project. The policy in the
/// core judges their text; this follows links.
fn stays_inside(
    command: &str,
    context: &ToolContext,
    is_directory: &dyn Fn(&str) -> bool,
) -> Result<(), CallRefusal> {
    // The person who approved the command saw where it goes.
    if context.permissions.run.is_none() || context.approved.contains(&Refusal::Command) {
        return Ok(());
    }
    let refusal = |why: String| CallRefusal {
        rule: "outside of the project".to_owned(),
        message: format!("The command was not run: {why}. Stay inside the project."),
    };
    // The sandbox gives an agent that may write a folder of its own there.
    let has_scratch = matches!(context.confinement, Confinement::Sandboxed(_))
        && context.permissions.write.as_ref().is_some_and(|paths| !paths.is_empty());
    for path in named_directories(command, is_directory).map_err(refusal)? {
        if has_scratch && lexical(Path::new(&path)).starts_with("/tmp") {
            continue;
        }
        match leads_out(&context.root, &path) {
            Ok(None) => {}
            Ok(Some(real)) => {
                let (path, real) = (truncate(&path, 200), truncate(&real.display().to_string(), 200));
                return Err(refusal(format!(
                    "the directory `{path}` is outside of the project, at `{real}`"
                )));
            }
            Err(error) => return Err(refusal(format!("the project cannot be found: {error}"))),
        }
    }
    Ok(())
}

fn command_line(
    input: &BashInput,
    context: &ToolContext,
    reaper: &OrphanReaper,
) -> Result<CommandLine, ToolOutcome> {
    if input.command.contains('\0') {
        return Err(ToolOutcome::error(ErrorCode::ValidationError, "Bash: the command contains a NUL."));
    }
    if input.command.len() > MAX_COMMAND {
        let message =
            format!("Bash: the command is longer than {MAX_COMMAND} bytes. Write it to a file and run that.");
        return Err(ToolOutcome::error(ErrorCode::ValidationError, message));
    }
    let waits = input.run_in_background != Some(true);
    let records_pipe = waits && is_recorded(&input.command);
    let default = waits.then_some(DEFAULT_TIMEOUT_MS);
    let timeout = input.timeout.or(default).map(|ms| Duration::from_millis(ms.min(MAX_TIMEOUT_MS)));
    Ok(CommandLine {
        program: Invocation::Shell { text: input.command.clone(), records_pipe },
        directory: context.root.clone(),
        environment: context.environment(),
        timeout,
        reaper: reaper.clone(),
        confined: context
            .confined()
            .map_err(|why| ToolOutcome::error(ErrorCode::PermissionError, format!("Bash: {why}.")))?,
    })
}

/// Runs a command and waits for its end.
async fn wait_for(command: &str, line: CommandLine, context: &ToolContext) -> ToolOutcome {
    let handle = KillHandle::default();
    let guard = KillOnDrop::new(&handle);
    let watch = Arc::clone(&context.progress);
    let command = command.to_owned();
    let outcome = blocking(move |_| {
        let mut output = HeadAndTail::new(MAX_OUTPUT);
        let named = NamedFiles::before(&command, &line.directory);
        let finished = handle.start(&line).and_then(|running| {
            running.finish(&mut |_, bytes| {
                output.push(bytes);
                watch(&String::from_utf8_lossy(bytes));
            })
        });
        match finished {
            Ok(finished) => {
                let mut outcome = outcome(finished, &output, line.timeout);
                if let Some(confined) = &line.confined {
                    explain_git(&mut outcome.content);
                    explain_sockets(&mut outcome.content, confined.sandbox.is_full());
                }
                outcome.named_files_changed = named.changed();
                outcome
            }
            Err(error) => {
                let message =
                    format!("Bash: the shell could not be run in `{}`: {error}.", line.directory.display());
                ToolOutcome::error(ErrorCode::ToolFailure, message)
            }
        }
    })
    .await;
    drop(guard);
    outcome
}

/// What git says where the sandbox holds something, and what it means.
const GIT_IS_HELD: [(&str, &str); 2] = [
    (
        "could not write config file",
        "git's configuration is read-only in the sandbox. For one call, give the setting as `git -c NAME=VALUE …`; for \
         good, only the user can set it",
    ),
    (
        "unable to unlink old",
        "what permissions.deny names cannot be changed, so git left it as it was, and the rest may be of the other commit: \
         `git checkout -f BRANCH` leads back",
    ),
];

/// Explains an error of git's that only says that a file is in use.
fn explain_git(text: &mut String) {
    for (said, meaning) in GIT_IS_HELD {
        let says = |line: &str| {
            line.contains(said)
                && ["Device or resource busy", "Read-only file system"].iter().any(|why| line.contains(why))
        };
        if text.lines().any(says) {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n[{meaning}]");
        }
    }
}

/// Says why there are no Unix sockets where there are none. In a full sandbox no program prints this because of one.
fn explain_sockets(text: &mut String, is_full: bool) {
    if !is_full && text.contains("Address family not supported by protocol") {
        text.push_str(
            "\n[The sandbox refused a Unix socket: without namespaces, which this machine does not offer, those of other \
             programs could not be distinguished. Do without it, or name it in your report.]",
        );
    }
}

fn outcome(finished: Finished, output: &HeadAndTail, timeout: Option<Duration>) -> ToolOutcome {
    let mut text = output.text();
    if text.is_empty() {
        text.push_str("(no output)");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    // Writing to a String cannot fail.
    let _ = match finished.cause {
        Cause::Exited { .. } | Cause::OutOfMemory { .. } | Cause::Cancelled => {
            write!(text, "[{}]", finished.cause.text())
        }
        Cause::TimedOut => write!(
            text,
            "[timed out: the command did not end within {} ms and was killed with everything it started. \
             Make it do less, pass a longer timeout (at most {MAX_TIMEOUT_MS}), or run it in the background.]",
            timeout.unwrap_or_default().as_millis()
        ),
    };
    if finished.leftovers > 0 && matches!(finished.cause, Cause::Exited { .. }) {
        let count = finished.leftovers;
        let _ = write!(text, "\n[{count} background process(es) of the command were ended with it]");
    }
    let error_code = finished.cause.error_code();
    let mut outcome = ToolOutcome {
        pipe_status: finished.pipe_status,
        exit_code: finished.cause.exit_code(),
        is_error: error_code.is_some(),
        error_code,
        ..ToolOutcome::ok(text)
    };
    finished.refusals.take().add_to(&mut outcome);
    outcome
}
