//! How a run is told: the options of every command that carries one out, and what becomes of its end.
//!
//! Owns the way from a prepared run to text or JSON and an exit status, the same for a new run, a resumed one and a
//! fork. What is run is the command's business.

use clap::Args;
use rawko::core::facts::Verification;
use rawko::core::session::{Outcome, Status};
use rawko::core::{ErrorCode, ErrorInfo};
use rawko::{Run, RunEvent};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::proving::Proving;
use crate::reporters::{Detail, Format, Summary, reporter};
use crate::watch::{Ended, block_on, watch};
use crate::workspace::Workspace;

/// Options of every command that carries a run out.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Telling {
    /// Output for people (text), the result as one JSON object (json), or every event as one object a line
    /// (stream-json) [env: RAWKO_OUTPUT]
    #[arg(long, value_enum, value_name = "FORM", hide_possible_values = true)]
    output: Option<Format>,
    /// Tell rules, latencies, cache hits and the tools' output too
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
    /// Tell nothing but the result
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    pub(crate) proving: Proving,
}

impl Telling {
    /// Carries out what `prepare` prepares, and tells it. Programs that read the output learn of a run that could not
    /// even begin as of any other that failed.
    pub(crate) fn carry(
        &self,
        workspace: &Workspace,
        dry_run: bool,
        prepare: impl FnOnce() -> Result<Run, Failure>,
    ) -> Result<Exit, Failure> {
        let format = self.format(workspace)?;
        let result = prepare().and_then(|run| self.carry_out(workspace, run, format, dry_run));
        if let Err(failure) = &result {
            tell_programs(workspace, failure, format);
        }
        result
    }

    /// How much is told.
    pub(crate) fn detail(&self) -> Detail {
        match (self.quiet, self.verbose) {
            (true, _) => Detail::Quiet,
            (false, true) => Detail::Verbose,
            (false, false) => Detail::Normal,
        }
    }

    /// In which form.
    pub(crate) fn format(&self, workspace: &Workspace) -> Result<Format, Failure> {
        use clap::ValueEnum as _;
        match (self.output, workspace.environment.var("RAWKO_OUTPUT")) {
            (Some(format), _) => Ok(format),
            (None, None) => Ok(Format::Text),
            (None, Some(text)) => Format::from_str(text.trim(), false).map_err(|_| {
                Failure::usage(format!("RAWKO_OUTPUT is `{text}`"))
                    .with_hint("set it to text, json or stream-json, or unset it")
            }),
        }
    }

    fn carry_out(
        &self,
        workspace: &Workspace,
        run: Run,
        format: Format,
        dry_run: bool,
    ) -> Result<Exit, Failure> {
        let journal = run.journal_path().display().to_string();
        let ended = follow(workspace, run, format, self.detail())?;
        if format == Format::Text
            && let Some(summary) = Summary::of(&ended.finished, Some(journal), dry_run)
        {
            let written = workspace.console.write(&summary.text(workspace.console.paint()));
            // Where nobody reads the words, the exit status still tells how it ended.
            if let Err(failure) = written.map_err(Failure::from)
                && !matches!(failure, Failure::PipeClosed)
            {
                return Err(failure);
            }
        }
        // Text is told on standard error, where nothing is lost but the telling; an object or a stream is the result.
        let unwritten = ended.unwritten.filter(|_| format != Format::Text);
        match ended.broken.or(unwritten) {
            Some(failure) => {
                failure.tell(&workspace.console);
                Ok(failure.exit())
            }
            None => self.judge(workspace, &ended.finished, dry_run),
        }
    }

    /// How the program ends, and why where that is not what the run's end says.
    fn judge(&self, workspace: &Workspace, finished: &RunEvent, dry_run: bool) -> Result<Exit, Failure> {
        let exit = exit_of(finished, dry_run);
        let RunEvent::SessionFinished { status: Status::Claimed, verification, .. } = finished else {
            return Ok(exit);
        };
        if dry_run || !self.proving.is_required() {
            return Ok(exit);
        }
        let failure = unproven(verification.as_ref());
        failure.tell(&workspace.console);
        Ok(failure.exit())
    }
}

/// Carries a prepared run to its end.
pub(crate) fn follow(
    workspace: &Workspace,
    run: Run,
    format: Format,
    detail: Detail,
) -> Result<Ended, Failure> {
    let reporter = reporter(workspace.console, format, detail);
    block_on(watch(run, reporter, format == Format::StreamJson))
}

/// How a run with this last event ends the program.
pub(crate) fn exit_of(finished: &RunEvent, dry_run: bool) -> Exit {
    match finished {
        // A dry run is meant to end after its first iteration.
        RunEvent::SessionFinished { status: Status::Limited, error: None, .. } if dry_run => Exit::Success,
        RunEvent::SessionFinished { status, error, .. } => Exit::of_run(*status, error.as_ref()),
        _ => Exit::Failed,
    }
}

/// A claim where proof was asked for.
fn unproven(verification: Option<&Verification>) -> Failure {
    let (why, hint) = match verification {
        None => (
            "no command verified it",
            "say what does: --verify \"cargo test\", or `verify:` in .rawko/config.yaml; `rawko doctor` tells what was found",
        ),
        Some(_) => (
            "its verification commands passed, but not on a tree that is known and was left as it is",
            "let the commands leave the tree as they find it: have git ignore what they make",
        ),
    };
    let message = format!("the run ended as claimed, and verified was required: {why}");
    Failure::new(Exit::Failed, message).with_hint(hint)
}

fn tell_programs(workspace: &Workspace, failure: &Failure, format: Format) {
    let code = match failure.exit() {
        Exit::Usage => ErrorCode::ConfigError,
        Exit::Provider => ErrorCode::AuthenticationFailed,
        Exit::Untrusted => ErrorCode::PermissionError,
        Exit::Success | Exit::Failed | Exit::Limited | Exit::Cancelled => ErrorCode::Unknown,
    };
    let error = ErrorInfo::new(code, failure.message());
    let finished = RunEvent::finished("", &Outcome::failed(error.clone()));
    let events = match format {
        Format::Text => Vec::new(),
        Format::Json => vec![finished],
        Format::StreamJson => vec![RunEvent::Error { error }, finished],
    };
    for event in events {
        // The failure itself is told on standard error, whatever becomes of this.
        let _ = workspace.console.json_line(&event);
    }
}
