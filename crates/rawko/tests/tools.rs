//! Tools that the configuration names, and processes that outlive their call, in whole runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/scripted.rs"]
mod scripted;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rawko::{Error, Outcome, RawkoBuilder, RunEvent};
use rawko_core::agent::Permissions;
use rawko_core::session::{Note, Status};
use scripted::{complete, finish, report, select, unconfined, write};
use serde_json::{Value, json};

const CONFIG: &str = "\
tools:
  - name: Ticket
    description: Closes a ticket.
    inputSchema: {type: object, properties: {number: {type: integer}}, required: [number]}
    command: [.rawko/tools/ticket, closed]
  - name: Never
    description: Does not end.
    command: [sleep, '300']
    access: read_only
    timeout: 50ms
";

const TICKET: &str = "#!/bin/bash
read -r input
echo \"$1 $input\" > ticket.txt
echo '{\"content\": \"closed it\", \"filesModified\": [\"ticket.txt\"]}'
";

/// A project whose developer has the configured tools and Bash.
fn project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), ".rawko/config.yaml", CONFIG);
    let developer = "name: developer\nsystemPrompt: You develop.\ntools: {allowed: [Ticket, Never, Bash]}\n";
    write(dir.path(), ".rawko/agents/developer.yaml", developer);
    write(dir.path(), ".rawko/tools/ticket", TICKET);
    let ticket = dir.path().join(".rawko/tools/ticket");
    std::fs::set_permissions(ticket, std::fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn builder(project: &Path, calls: Value) -> RawkoBuilder {
    let mut replies = vec![select("developer")];
    let call = |call: &Value| json!({"for": "developer", "tools": [call]});
    replies.extend(calls.as_array().unwrap().iter().map(call));
    replies.extend([report("developer"), complete()]);
    scripted::builder(project, &Value::Array(replies)).permissions(unconfined())
}

/// The outcome, and for each tool call its tool, whether it failed, and what came of it.
async fn run(builder: RawkoBuilder) -> (Outcome, Vec<(String, bool, String)>) {
    let (outcome, events) = finish(builder.trusted(true).build().unwrap().run("do it").unwrap()).await;
    let results = events.into_iter().filter_map(|event| match event {
        RunEvent::Note(Note::ToolFinished { tool, outcome, .. }) => {
            Some((tool, outcome.is_error, outcome.content))
        }
        _ => None,
    });
    let results = results.collect();
    (outcome, results)
}

#[tokio::test]
async fn a_configured_tool_runs_as_the_agents_own() {
    let dir = project();
    let calls = json!([
        {"name": "Ticket", "input": {"number": 7}},
        {"name": "Ticket", "input": {"number": "seven"}},
        {"name": "Never", "input": {}},
    ]);
    let (outcome, results) = run(builder(dir.path(), calls)).await;
    assert_eq!((outcome.status, outcome.files_modified), (Status::Claimed, vec!["ticket.txt".to_owned()]));
    let written = std::fs::read_to_string(dir.path().join("ticket.txt")).unwrap();
    assert_eq!(written, "closed {\"number\":7}\n");
    let [ok, invalid, slow, ..] = results.as_slice() else { panic!("{results:?}") };
    assert_eq!(ok, &("Ticket".to_owned(), false, "closed it".to_owned()));
    assert!(invalid.1 && invalid.2.contains("`number`"), "{invalid:?}");
    assert!(slow.1 && slow.2.contains("did not end within 50 ms"), "{slow:?}");
}

#[test]
fn configured_tools_are_among_the_projects_tools() {
    let dir = project();
    let rawko = builder(dir.path(), json!([])).trusted(true).build().unwrap();
    let registry = rawko.tools().unwrap();
    assert_eq!(
        registry.names(),
        ["Bash", "Edit", "Glob", "Grep", "Never", "Read", "Ticket", "WebFetch", "Write"]
    );
    let offered: Vec<String> = rawko.setup().unwrap().tools.into_iter().map(|tool| tool.name).collect();
    assert!(offered.iter().any(|name| name == "Ticket"), "{offered:?}");
}

#[test]
fn an_untrusted_folder_names_no_program_to_run() {
    let dir = project();
    let Err(Error::Untrusted { claims, .. }) = builder(dir.path(), json!([])).build() else {
        panic!("it was taken at its word")
    };
    let said: Vec<&str> = claims.iter().map(|claim| claim.message.as_str()).collect();
    for program in ["the tool `Ticket` would run `.rawko/tools/ticket closed`", "the tool `Never` would run"]
    {
        assert!(said.iter().any(|claim| claim.starts_with(program)), "{said:?}");
    }
}

#[tokio::test]
async fn a_program_that_can_be_no_helper_runs_no_command() {
    let dir = project();
    let calls = json!([
        {"name": "Bash", "input": {"command": "echo RAN > ran"}},
        {"name": "Ticket", "input": {"number": 7}},
    ]);
    let builder = builder(dir.path(), calls).permissions(Permissions::default()).verify(["echo RAN > ran"]);
    let degraded = builder.clone().trusted(true).build().unwrap().degraded().unwrap();
    assert!(degraded[0].starts_with("no command runs"), "{degraded:?}");
    let (outcome, results) = run(builder).await;
    for (_, failed, said) in &results[..2] {
        assert!(
            *failed && said.contains("run_helper_if_asked()") && said.contains("permissions.sandbox"),
            "{said}"
        );
    }
    assert_eq!(outcome.status, Status::Claimed, "nothing verifies it");
    assert!(!dir.path().join("ran").exists());
}

/// A test is a function of a program that is not its own helper. Another program can be.
#[tokio::test]
async fn a_test_function_has_the_sandbox_by_another_programs_help() {
    let dir = project();
    // An agent without Write changes nothing in the project, which the sandbox alone can hold its commands to.
    let calls = json!([
        {"name": "Bash", "input": {"command": "echo it ran; touch ran || echo and wrote nothing"}},
        {"name": "Ticket", "input": {"number": 7}},
    ]);
    let built = std::env::current_exe().unwrap();
    let helper = built.parent().and_then(Path::parent).unwrap().join("examples/minimal");
    assert!(helper.is_file(), "{} is not built: cargo build -p rawko --examples", helper.display());
    let builder = builder(dir.path(), calls).permissions(Permissions::default()).helper(helper);
    let degraded = builder.clone().trusted(true).build().unwrap().degraded().unwrap();
    assert!(!degraded.iter().any(|text| text.contains("no command runs")), "{degraded:?}");
    let (_, results) = run(builder).await;
    let [bash, ticket, ..] = results.as_slice() else { panic!("{results:?}") };
    assert!(!bash.1 && bash.2.contains("it ran") && bash.2.contains("and wrote nothing"), "{bash:?}");
    assert_eq!(ticket, &("Ticket".to_owned(), false, "closed it".to_owned()));
    assert!(!dir.path().join("ran").exists() && !dir.path().join("ticket.txt").exists());
}

/// Whether a process is there and not merely waiting to be reaped.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

#[tokio::test]
async fn a_background_job_ends_with_the_run_and_in_order() {
    let dir = project();
    let job =
        "trap 'echo bye > farewell; exit' TERM; echo $$ > pid; echo up; while true; do sleep 0.01; done";
    let look = "until [ -s pid ]; do sleep 0.01; done; kill -0 $(cat pid) && echo it runs";
    let calls = json!([
        {"name": "Bash", "input": {"command": job, "run_in_background": true}},
        {"name": "Bash", "input": {"command": look}},
    ]);
    let (outcome, results) = run(builder(dir.path(), calls)).await;
    assert_eq!(outcome.status, Status::Claimed);
    assert!(results[0].2.starts_with("[background job 1: started]"), "{results:?}");
    assert!(results[1].2.starts_with("it runs\n[exit code 0]\n\n[background job 1: running"), "{results:?}");
    let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
    assert!(!is_alive(&pid), "the job outlived the run");
    assert_eq!(std::fs::read_to_string(dir.path().join("farewell")).unwrap(), "bye\n");
}
