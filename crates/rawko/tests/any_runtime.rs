//! Commands under `#[tokio::main]`, whose runtime has threads before `main` is entered: then this program cannot be its own
//! helper, and another one is.
//!
//! The test program is such a program, so it has a main of its own. The program of an example, which can be a helper,
//! takes the place of an installed `rawko`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "support/scripted.rs"]
mod scripted;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use rawko::{Error, Note, Outcome, RawkoBuilder, RunEvent};
use scripted::{complete, report, select, tool};
use serde_json::json;

#[tokio::main]
async fn main() {
    // Too late: the runtime has threads.
    rawko::tools::run_helper_if_asked();
    let runtime = tokio::runtime::Handle::current();
    let trial = |name: &str, test: fn() -> std::pin::Pin<Box<dyn Future<Output = ()>>>| {
        let runtime = runtime.clone();
        Trial::test(name, move || {
            runtime.block_on(test());
            Ok(())
        })
    };
    let all = vec![
        trial("a_call_that_comes_late_is_said", || Box::pin(a_call_that_comes_late_is_said())),
        trial("an_installed_rawko_confines_commands", || Box::pin(an_installed_rawko_confines_commands())),
        trial("the_named_helper_confines_commands", || Box::pin(the_named_helper_confines_commands())),
        trial("what_is_no_helper_is_an_error", || Box::pin(what_is_no_helper_is_an_error())),
    ];
    // Elsewhere nothing confines commands.
    let tests = if cfg!(target_os = "linux") { all } else { Vec::new() };
    let arguments = Arguments::from_args();
    let conclusion = tokio::task::spawn_blocking(move || libtest_mimic::run(&arguments, tests)).await;
    conclusion.expect("the tests").exit();
}

async fn a_call_that_comes_late_is_said() {
    let tried = run("/usr/bin:/bin", |builder| builder).await.unwrap();
    assert!(tried.failed, "{tried:?}");
    for part in ["threads when it called", "#[tokio::main]", "RawkoBuilder::helper", "plain `fn main`"] {
        assert!(tried.said.contains(part), "{part:?} is missing in {tried:?}");
    }
    assert_eq!((tried.confined.as_deref(), tried.outcome.files_modified.len()), (None, 0));
}

async fn an_installed_rawko_confines_commands() {
    let installed = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::hard_link(example("minimal"), installed.path().join("rawko")).unwrap();
    let path = format!("{}:/usr/bin:/bin", installed.path().display());
    check_confined(&run(&path, |builder| builder).await.unwrap());
}

async fn the_named_helper_confines_commands() {
    check_confined(&run("/usr/bin:/bin", |builder| builder.helper(example("minimal"))).await.unwrap());
}

async fn what_is_no_helper_is_an_error() {
    // This very program: a helper that has threads.
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    for (program, expected) in [
        (own, "threads when it called `run_helper_if_asked()`, as a program under `#[tokio::main]` has"),
        ("/bin/true", "said nothing"),
        ("/nowhere/rawko", "could not be started: No such file"),
    ] {
        let result = run("/usr/bin:/bin", |builder| builder.helper(program)).await;
        let Err(Error::Setup { message, hint }) = result else { panic!("{result:?}") };
        assert!(message.contains(program) && message.contains(expected), "{message}");
        assert!(hint.contains("RawkoBuilder::helper"), "{hint}");
    }
}

/// The result of a run with one call of Bash.
#[derive(Debug)]
struct Tried {
    outcome: Outcome,
    /// By what commands were confined, as the run's first event says.
    confined: Option<String>,
    /// Whether the call failed.
    failed: bool,
    /// What it printed, or why it failed.
    said: String,
}

/// Runs it in a project of its own, where programs are looked up in `path`.
async fn run(path: &str, change: impl FnOnce(RawkoBuilder) -> RawkoBuilder) -> Result<Tried, Error> {
    let script = json!([
        select("developer"),
        tool("developer", "Bash", json!({"command": "echo ran > made; cat made"})),
        report("developer"),
        complete(),
    ]);
    let project = tempfile::tempdir().unwrap();
    let home = project.path().display().to_string();
    let variables: HashMap<&str, String> = [("PATH", path.to_owned()), ("HOME", home)].into();
    let builder = scripted::builder(project.path(), &script)
        .env(move |name| variables.get(name).cloned())
        .verify(Vec::<String>::new())
        .trusted(true);
    let mut run = change(builder).build()?.run("do it")?;
    let mut events = run.events();
    let outcome = tokio::time::timeout(Duration::from_secs(120), run).await.expect("the run hangs")?;
    let (mut confined, mut result) = (None, None);
    while let Some(event) = events.next().await {
        match event {
            RunEvent::SessionStarted { confined: by, .. } => confined = by,
            RunEvent::Note(Note::ToolFinished { tool, outcome, .. }) if tool == "Bash" => {
                result = Some(outcome);
            }
            _ => {}
        }
    }
    let result = result.unwrap_or_else(|| panic!("there was no call: {outcome:?}"));
    Ok(Tried { outcome, confined, failed: result.is_error, said: result.content })
}

#[track_caller]
fn check_confined(tried: &Tried) {
    assert!(!tried.failed && tried.said.contains("ran"), "{tried:?}");
    assert_eq!(tried.outcome.files_modified, ["made"]);
    let confined = tried.confined.as_deref().unwrap_or_default();
    assert!(confined.contains("filter of system calls"), "{tried:?}");
}

/// The program that was built of an example.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    assert!(built.is_file(), "{} is not built: cargo build -p rawko --examples", built.display());
    built
}
