//! `rawko demo`: a whole run in a throw-away project, with answers from a script in the place of a model's.

use std::sync::Arc;

use clap::Args;
use rawko::core::session::Status;
use rawko::provider::Scripted;
use rawko::{Rawko, RunEvent};
use serde_json::json;

use crate::demo::{Project, TASK, TEST_COMMAND, TestRun, script};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, clean, indent};
use crate::reporters::{Detail, Format, Summary};
use crate::telling::{exit_of, follow};
use crate::workspace::Workspace;

/// How long the script thinks where somebody watches: long enough to be followed.
const PACE_MS: u64 = 50;

/// Options of `rawko demo`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Leave the project behind, to look around in it
    #[arg(long)]
    keep: bool,
    /// Tell rules, latencies and the tools' output too
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
    /// Tell nothing but the result
    #[arg(long, short)]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows a run.
pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<Exit, Failure> {
    let console = &workspace.console;
    let paint = console.paint();
    let project = Project::create()?;
    let before = project.test()?;
    if !arguments.json {
        console.write(&opening(&project, &before, paint))?;
    }
    let detail = match (arguments.quiet || arguments.json, arguments.verbose) {
        (true, _) => Detail::Quiet,
        (false, true) => Detail::Verbose,
        (false, false) => Detail::Normal,
    };
    let watched = console.is_watched() && detail != Detail::Quiet;
    let script = script(if watched { PACE_MS } else { 0 })?;
    // The user's own configuration and environment have no part in this.
    let rawko = Rawko::builder()
        .project(project.folder())
        .env(|_| None)
        .trusted(true)
        .verify([TEST_COMMAND])
        .provider(Arc::new(Scripted::new(script)))
        .build()?;
    let run = rawko.run(TASK)?;
    let journal = run.journal_path().display().to_string();
    let ended = follow(workspace, run, Format::Text, detail)?;
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
        return Ok(exit);
    }
    let journal = folder.is_some().then_some(journal);
    let mut text = String::from("\n");
    text.push_str(&verdict(&ended.finished, &after, paint));
    if let Some(summary) = Summary::of(&ended.finished, journal, false) {
        text.push_str(&summary.facts(paint));
    }
    text.push_str(&format!("\n{}\n{}\n", paint.strong("git diff"), colored(&diff, paint)));
    text.push_str(&format!("{}\n{}\n", paint.strong("The tests, run once more"), tests(&after, paint)));
    if let Some(folder) = folder {
        text.push_str(&format!("The project stays in {}\n\n", folder.display()));
    }
    text.push_str(CLOSING);
    console.write(&text)?;
    if let Some(failure) = ended.broken {
        failure.tell(console);
    }
    Ok(exit)
}

const CLOSING: &str = "\
The model's answers came from a script. To have a real model do real work:
  export ANTHROPIC_API_KEY=…        or another provider: rawko providers list
  cd your-project
  rawko \"fix the failing test\"      a model on this machine: --provider ollama --model NAME
";

fn opening(project: &Project, before: &TestRun, paint: Paint) -> String {
    format!(
        "{}\n\
         A small project with a bug is in {}.\n\
         The model's answers are scripted: no key, no network, no cost. Everything else is real: the state\n\
         machine, the agents and their rights, the tools, the edits and the tests.\n\n\
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

/// How the run ended, and what the demonstration itself knows beyond that: it ran the tests.
fn verdict(finished: &RunEvent, after: &TestRun, paint: Paint) -> String {
    let verified = matches!(finished, RunEvent::SessionFinished { status: Status::Verified, .. });
    let text = match (verified, after.is_green()) {
        (true, true) => paint.good("Verified: the agents say that it is done, and the tests agree"),
        (true, false) => paint.bad("The run ended as verified, but the tests disagree"),
        (false, _) => paint.bad("The run did not come to a verified end"),
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
