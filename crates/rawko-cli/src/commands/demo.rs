//! `rawko demo`: a whole run in a temporary project, with scripted answers instead of a model's.

use std::sync::Arc;

use clap::Args;
use rawko::provider::Scripted;
use rawko::{Rawko, RunEvent};
use rawko_core::session::Status;
use serde_json::json;

use crate::demo::{DemoProject, TASK, TEST_COMMAND, TestRun, script};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, clean, indent};
use crate::reporters::{OutputFormat, Summary, Verbosity};
use crate::run_args::{exit_of, follow};
use crate::workspace::Workspace;

/// Delay before each scripted answer on a terminal, so that a person can follow.
const PACE_MS: u64 = 50;

/// Options of `rawko demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Keep the project folder afterwards
    #[arg(long)]
    keep: bool,
    /// Also show rules, latencies and tool output
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
    /// Show only the result
    #[arg(long, short)]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows a run.
pub(crate) fn run(workspace: &Workspace, arguments: &DemoArgs) -> Result<Exit, Failure> {
    let console = &workspace.console;
    let paint = console.paint();
    let project = DemoProject::create(workspace.environment)?;
    let before = project.test()?;
    if !arguments.json {
        console.write(&opening(&project, &before, paint))?;
    }
    let verbosity = match (arguments.quiet || arguments.json, arguments.verbose) {
        (true, _) => Verbosity::Quiet,
        (false, true) => Verbosity::Verbose,
        (false, false) => Verbosity::Normal,
    };
    let watched = console.is_watched() && verbosity != Verbosity::Quiet;
    let script = script(if watched { PACE_MS } else { 0 })?;
    // The user's own configuration and environment are not used, but for where telemetry goes.
    let environment = workspace.environment;
    let telemetry = |name: &str| name.starts_with("OTEL_") || name == "TRACEPARENT";
    let rawko = Rawko::builder()
        .project(project.folder())
        .env(move |name| environment.var(name).filter(|_| telemetry(name)))
        .trusted(true)
        .verify([TEST_COMMAND])
        .provider(Arc::new(Scripted::new(script)))
        .build()?;
    let run = rawko.run(TASK)?;
    let journal = run.journal_path().display().to_string();
    let mut ended = follow(workspace, run, OutputFormat::Text, verbosity, true)?;
    let after = project.test()?;
    let diff = project.diff()?;
    let exit = match exit_of(&ended.finished, false) {
        Exit::Success if after.is_green() && !before.is_green() => Exit::Success,
        Exit::Success => Exit::Failed,
        other => other,
    };
    let folder = arguments.keep.then(|| project.keep());
    if arguments.json {
        console.json(&json!({
            "scripted": true,
            "before": before,
            "after": after,
            "diff": diff,
            "finished": ended.finished,
            "folder": folder,
        }))?;
        ended.send_telemetry(console);
        return Ok(exit);
    }
    let journal = folder.is_some().then_some(journal);
    let mut text = String::from("\n");
    text.push_str(&verdict(&ended.finished, &after, paint));
    if let Some(summary) = Summary::of(&ended.finished, journal, false) {
        text.push_str(&summary.facts(paint));
    }
    text.push_str(&format!("\n{}\n{}\n", paint.strong("git diff"), colored(&diff, paint)));
    text.push_str(&format!("{}\n{}\n", paint.strong("The tests afterwards"), tests(&after, paint)));
    if let Some(folder) = folder {
        text.push_str(&format!("The project is kept in {}\n\n", folder.display()));
    }
    text.push_str(CLOSING);
    console.write(&text)?;
    ended.send_telemetry(console);
    if let Some(failure) = ended.broken {
        failure.report(console);
    }
    Ok(exit)
}

const CLOSING: &str = "\
The model's answers came from a script. To use a real model:
  export ANTHROPIC_API_KEY=…        or another provider: rawko providers list
  cd your-project
  rawko \"fix the failing test\"
With a model on this machine: rawko --provider ollama --model NAME \"a task\"
";

fn opening(project: &DemoProject, before: &TestRun, paint: Paint) -> String {
    format!(
        "{}\n\
         A small project with a bug is in {}.\n\
         The model's answers are scripted: no key, no network, no cost. Everything else is real: the state\n\
         machine, the agents and their permissions, the tools, the edits and the tests.\n\n\
         {}\n{}\n",
        paint.strong("rawko demo"),
        project.folder().display(),
        paint.strong("The tests before"),
        tests(before, paint)
    )
}

fn tests(run: &TestRun, paint: Paint) -> String {
    let lines: Vec<String> = clean(run.output.trim_end())
        .lines()
        .map(|line| match line.split_whitespace().next() {
            Some("ok") => paint.good(line),
            Some("FAIL") => paint.bad(line),
            _ => line.to_owned(),
        })
        .collect();
    let exit = run.exit_code.map_or("ended by a signal".to_owned(), |code| format!("exit {code}"));
    let exit = if run.is_green() { paint.good(&exit) } else { paint.bad(&exit) };
    format!("  $ bash tests/run.sh\n{}\n  {exit}\n", indent(&lines.join("\n"), 2))
}

/// How the run ended, and whether the tests, which the demo ran itself, agree.
fn verdict(finished: &RunEvent, after: &TestRun, paint: Paint) -> String {
    let verified = finished.outcome().is_some_and(|outcome| outcome.status == Status::Verified);
    let text = match (verified, after.is_green()) {
        (true, true) => paint.good("Verified: the agents say the task is done, and the tests pass"),
        (true, false) => paint.bad("The run ended as verified, but the tests fail"),
        (false, _) => paint.bad("The run did not end as verified"),
    };
    format!("{text}\n\n")
}

fn colored(diff: &str, paint: Paint) -> String {
    let lines: Vec<String> = clean(diff)
        .lines()
        .map(|line| match line.as_bytes().first() {
            Some(b'+') if !line.starts_with("+++") => paint.good(line),
            Some(b'-') if !line.starts_with("---") => paint.bad(line),
            Some(b'@') => paint.name(line),
            _ => line.to_owned(),
        })
        .collect();
    format!("{}\n", indent(&lines.join("\n"), 2))
}
