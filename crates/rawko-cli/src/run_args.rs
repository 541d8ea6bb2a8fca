//! The options that `run`, `resume` and `fork` share, and the way from a prepared run to its output and exit status.
//! How the run is prepared is up to the command.

use std::path::Path;

use clap::Args;
use rawko::checkpoint::Checkpoints;
use rawko::{LandingPolicy, Notifications, Rawko, RawkoBuilder, Run, RunControl, RunEvent};
use rawko_core::integrity::DoubtReason;
use rawko_core::session::{Outcome, Status};
use rawko_core::{ErrorCode, ErrorInfo};
use rustix::process::{Signal, getpid, kill_process};

use crate::approval_prompt::at_terminal;
use crate::commands::steer::SteerRequest;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::recorded::recall;
use crate::reporters::{OutputFormat, Steer, Summary, Verbosity, reporter};
use crate::runtime::block_on;
use crate::server_question;
use crate::verify_args::VerifyArgs;
use crate::watch::{EndedRun, watch};
use crate::workspace::Workspace;

/// Options of every command that carries out a run.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SharedRunArgs {
    /// Output format: text for people, json for the result as one JSON object, stream-json for every event as one
    /// object a line [env: RAWKO_OUTPUT]
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<OutputFormat>,
    /// Also show rules, latencies, cache hits and tool output
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
    /// Show only the result
    #[arg(long, short)]
    quiet: bool,
    /// Print nothing but the agents' answer, and ask nothing; without a task, read it from standard input
    #[arg(long, short)]
    print: bool,
    /// Begin even if another session works in this folder; both report it
    #[arg(long)]
    anyway: bool,
    /// When the work of an isolated run lands in the project: verified, claimed, always, branch (as a commit)
    /// or never [default: verified]
    #[arg(long, value_name = "WHEN", value_parser = landing_policy)]
    land: Option<LandingPolicy>,
    #[command(flatten)]
    pub(crate) verify: VerifyArgs,
}

fn landing_policy(text: &str) -> Result<LandingPolicy, String> {
    let found = LandingPolicy::ALL.into_iter().find(|policy| policy.as_str() == text);
    found.ok_or_else(|| "it is verified, claimed, always, branch or never".to_owned())
}

impl SharedRunArgs {
    /// Carries out the run that `prepare` gives, and reports it, with the permissions that were given as options. In JSON,
    /// a run that could not begin is reported like any other that failed.
    pub(crate) fn carry(
        &self,
        workspace: &Workspace,
        (dry_run, granted): (bool, String),
        prepare: impl FnOnce() -> Result<Run, Failure>,
    ) -> Result<Exit, Failure> {
        let format = self.format(workspace)?;
        let result = prepare().and_then(|run| self.carry_out(workspace, run, format, (dry_run, granted)));
        if let Err(failure) = &result {
            report_as_json(workspace, failure, format);
        }
        result
    }

    /// What the options set besides the configuration: verification, and whom to ask at the terminal.
    pub(crate) fn apply(&self, workspace: &Workspace, builder: RawkoBuilder) -> RawkoBuilder {
        let builder = self.verify.apply(builder);
        let is_text = self.format(workspace).is_ok_and(|format| format == OutputFormat::Text);
        let builder = builder.beside_others(self.anyway).unattended(self.print);
        let builder = self.land.map_or(builder.clone(), |policy| builder.land(policy));
        let asks = is_text && !self.quiet && !self.print;
        if !asks {
            return builder;
        }
        let (console, keyboard) = (workspace.console, &workspace.keyboard);
        server_question::at_terminal(
            at_terminal(builder, console, keyboard.clone()),
            console,
            keyboard.clone(),
        )
    }

    /// Builds it. A command that only answers a question does not ask for trust.
    pub(crate) fn build(&self, workspace: &Workspace, builder: RawkoBuilder) -> Result<Rawko, Failure> {
        let builder = self.apply(workspace, builder);
        if self.print { Ok(builder.build()?) } else { workspace.build(builder) }
    }

    /// Whether nothing but the answer is printed.
    pub(crate) fn prints(&self) -> bool {
        self.print
    }

    /// How much is shown.
    pub(crate) fn verbosity(&self) -> Verbosity {
        match (self.quiet || (self.print && !self.verbose), self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, true) => Verbosity::Verbose,
            (false, false) => Verbosity::Normal,
        }
    }

    /// The output format, from the option or the environment.
    pub(crate) fn format(&self, workspace: &Workspace) -> Result<OutputFormat, Failure> {
        use clap::ValueEnum as _;
        match (self.output, workspace.environment.var("RAWKO_OUTPUT")) {
            (Some(format), _) => Ok(format),
            (None, None) => Ok(OutputFormat::Text),
            (None, Some(text)) => OutputFormat::from_str(text.trim(), false).map_err(|_| {
                Failure::usage(format!("RAWKO_OUTPUT is `{text}`"))
                    .with_hint("set it to text, json or stream-json, or unset it")
            }),
        }
    }

    fn carry_out(
        &self,
        workspace: &Workspace,
        mut run: Run,
        format: OutputFormat,
        (dry_run, granted): (bool, String),
    ) -> Result<Exit, Failure> {
        let notifications = run.take_notifications();
        let journal = run.journal_path().display().to_string();
        // With `-q` nothing is offered.
        let is_quiet = self.verbosity() == Verbosity::Quiet;
        let no_memories = run.missing_memories().filter(|_| !is_quiet).map(Path::to_owned);
        let mut ended = follow(workspace, run, format, self.verbosity(), !self.print)?;
        if format == OutputFormat::Text
            && let Some(summary) = Summary::of(&ended.finished, Some(journal), dry_run)
        {
            let not_kept = self.verify.as_options();
            let has_diff = workspace.project().is_ok_and(|project| Checkpoints::is_available(&project));
            let summary = Summary { not_kept, granted, has_diff, no_memories, ..summary };
            let text =
                if self.print && !dry_run { summary.answer() } else { summary.text(&workspace.console) };
            let written = workspace.console.write(&text);
            // If standard output has no reader, the exit status still says how the run ended.
            if let Err(failure) = written.map_err(Failure::from)
                && !matches!(failure, Failure::PipeClosed)
            {
                return Err(failure);
            }
        }
        // The result is out, so a slow program holds nothing up.
        for problem in notifications.map(Notifications::finish).unwrap_or_default() {
            let label = workspace.console.error_paint().warning("warning:");
            let _ = workspace.console.write_error(&format!("{label} {}\n", clean_line(&problem)));
        }
        ended.send_telemetry(&workspace.console);
        // JSON is the result, so failing to write it is a failure. Text progress on standard error is not.
        let unwritten = ended.unwritten.filter(|_| format != OutputFormat::Text);
        match ended.broken.or(unwritten) {
            Some(failure) => {
                failure.report(&workspace.console);
                Ok(failure.exit())
            }
            None => self.judge(workspace, &ended.finished, dry_run),
        }
    }

    /// The exit status. An end that is not proven fails where `--require-verified` or `--require-proof` was given.
    fn judge(&self, workspace: &Workspace, finished: &RunEvent, dry_run: bool) -> Result<Exit, Failure> {
        let exit = exit_of(finished, dry_run);
        let Some(outcome) = finished.outcome().filter(|_| !dry_run) else { return Ok(exit) };
        let Some((option, why)) = self.verify.unsatisfied(outcome) else { return Ok(exit) };
        let failure = unproven(outcome, option, &why);
        failure.report(&workspace.console);
        Ok(failure.exit())
    }
}

/// Carries out a prepared run and reports it. `asks` says that somebody may be asked for something.
pub(crate) fn follow(
    workspace: &Workspace,
    run: Run,
    format: OutputFormat,
    verbosity: Verbosity,
    asks: bool,
) -> Result<EndedRun, Failure> {
    // Whatever happens, the terminal is given back.
    let _closes = workspace.keyboard.closes();
    let steer = steering(run.control());
    let mut reporter =
        reporter(workspace.console, format, (verbosity, asks), &workspace.keyboard, Some(steer));
    if reporter.is_animated() {
        recall(run.journal_path(), reporter.as_mut());
    }
    block_on(watch(run, reporter, format == OutputFormat::StreamJson))
}

/// What the keys of a view do to a run.
fn steering(control: RunControl) -> Steer {
    Box::new(move |wanted| match wanted {
        SteerRequest::Override(command) => drop(control.steer(command)),
        // The same as Ctrl-C, the second time too.
        SteerRequest::Cancel => {
            let _ = kill_process(getpid(), Signal::INT);
        }
    })
}

/// The exit status of a run with this last event.
pub(crate) fn exit_of(finished: &RunEvent, dry_run: bool) -> Exit {
    match finished.outcome() {
        // A dry run ends by design after its first iteration.
        Some(Outcome { status: Status::Limited, error: None, .. }) if dry_run => Exit::Success,
        Some(outcome) => Exit::of_outcome(outcome),
        None => Exit::Failed,
    }
}

/// The failure for a run that ended with less than `option` asks for.
fn unproven(outcome: &Outcome, option: &str, why: &str) -> Failure {
    let hint = match outcome.doubt.as_ref().map_or(DoubtReason::NothingToRun, |doubt| doubt.reason) {
        _ if outcome.status == Status::Verified => {
            "read the change, or ask for a test of it: rawko continue \"add a test\""
        }
        DoubtReason::NothingToRun => {
            "name the command: --verify \"cargo test\", or `verify:` in .rawko/config.yaml; `rawko doctor` shows what was found"
        }
        DoubtReason::RedBefore => {
            "mend what was red before the run, or name the checks that count: --verify \"CMD\""
        }
        DoubtReason::Unavailable => "install what is missing, or name another check: --verify \"CMD\"",
        DoubtReason::Unchanged => "read the summary: what the agents found may be all that was asked for",
        DoubtReason::ChecksChanged => {
            "look at what became of the tests: rawko diff\nif that is meant: --allow-changed-checks"
        }
        DoubtReason::TreeChanged | DoubtReason::TreeUnknown => {
            "let git ignore the files that the commands create, so that they leave the tree unchanged"
        }
        DoubtReason::Stale => "end what still writes to the project, and run the commands again",
    };
    let status = outcome.status.as_str();
    let message = format!("the run ended as {status}, but {option} was given: {}", clean_line(why));
    Failure::new(Exit::Failed, message).with_hint(hint)
}

fn report_as_json(workspace: &Workspace, failure: &Failure, format: OutputFormat) {
    let code = match failure.exit() {
        Exit::Usage => ErrorCode::ConfigError,
        Exit::Provider => ErrorCode::AuthenticationFailed,
        Exit::Untrusted => ErrorCode::PermissionError,
        Exit::Success | Exit::Failed | Exit::Limited | Exit::Cancelled => ErrorCode::Unknown,
    };
    let error = ErrorInfo::new(code, failure.message());
    let finished = RunEvent::finished("", Outcome::failed(error.clone()));
    let events = match format {
        OutputFormat::Text => Vec::new(),
        OutputFormat::Json => vec![finished],
        OutputFormat::StreamJson => vec![RunEvent::Error { error }, finished],
    };
    for event in events {
        // The failure is reported on standard error in any case.
        let _ = workspace.console.json_line(&event);
    }
}

#[cfg(test)]
mod tests {
    use rawko_core::integrity::Doubt;

    use super::*;

    #[track_caller]
    fn check(reason: DoubtReason, message: &str, hint: &str) {
        let doubt = Some(Doubt { reason, message: message.to_owned() });
        let ended = Outcome::failed(ErrorInfo::new(ErrorCode::Unknown, ""));
        let outcome = Outcome { status: Status::Claimed, doubt, ..ended };
        let failure = unproven(&outcome, "--require-verified", message);
        assert!(failure.message().ends_with(message), "{}", failure.message());
        assert!(format!("{failure:?}").contains(hint), "{failure:?}");
    }

    #[test]
    fn an_end_without_a_proof_says_why_and_what_to_try() {
        check(DoubtReason::ChecksChanged, "tests/a.py was weakened", "rawko diff");
        check(DoubtReason::TreeChanged, "the commands change the tree", "git ignore");
        check(DoubtReason::Unchanged, "the run changed nothing", "read the summary");
        check(DoubtReason::RedBefore, "it was red before", "mend what was red");
        check(DoubtReason::Unavailable, "`tox` is missing", "install what is missing");
    }
}
