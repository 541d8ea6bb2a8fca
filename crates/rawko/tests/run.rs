//! Whole runs through the SDK: a real folder, real tools, a real journal; the model's answers are scripted.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/scripted.rs"]
mod scripted;

use std::path::Path;
use std::sync::Arc;

use rawko::config::TrustStore;
use rawko::journal::{Record, SessionStatus, SessionStore};
use rawko::provider::{Provider, ProviderSession};
use rawko::tools::{BoxFuture, Tool, ToolContext};
use rawko::{Outcome, Rawko, RawkoBuilder, RunEvent};
use rawko_core::ErrorCode;
use rawko_core::session::{EffectAnswer, Event, Note, Status};
use rawko_core::tool::{ToolAccess, ToolOutcome, ToolSpec};
use scripted::{complete, finish, journal_of, report, select, tool, unconfined};
use serde_json::{Value, json};

fn builder(project: &Path, replies: Value) -> RawkoBuilder {
    scripted::builder(project, &replies).permissions(unconfined())
}

async fn run(builder: RawkoBuilder) -> (Outcome, Vec<RunEvent>) {
    let rawko = builder.build().unwrap();
    let run = rawko.run("do it").unwrap();
    let id = run.session_id().to_owned();
    let (outcome, events) = finish(run).await;
    // Whatever a test is about, its session leads to what it recorded. A dry run leaves no session.
    if let Ok(path) = rawko.sessions().find(&id) {
        assert_eq!(rawko::replay(&rawko::journal::read(&path).unwrap()).difference, None);
    }
    (outcome, events)
}

#[tokio::test]
async fn a_task_changes_a_file_and_everything_is_reported_and_journaled() {
    let dir = tempfile::tempdir().unwrap();
    let replies = json!([
        select("developer"),
        tool("developer", "Write", json!({"file_path": "hello.txt", "content": "hi\n"})),
        tool("developer", "Bash", json!({"command": "cat hello.txt; exit 3"})),
        report("developer"),
        complete(),
    ]);
    let (outcome, events) = run(builder(dir.path(), replies)).await;
    assert_eq!((outcome.status, outcome.agent_summary.as_deref()), (Status::Claimed, Some("all done")));
    assert_eq!(outcome.files_modified, ["hello.txt"]);
    assert_eq!(std::fs::read_to_string(dir.path().join("hello.txt")).unwrap(), "hi\n");

    assert!(matches!(events.first(), Some(RunEvent::SessionStarted { .. })));
    assert!(
        matches!(events.last(), Some(RunEvent::SessionFinished { outcome, .. }) if outcome.status == Status::Claimed)
    );
    let finished = events.iter().filter(|event| matches!(event, RunEvent::SessionFinished { .. })).count();
    assert_eq!(finished, 1);
    let exit = events.iter().find_map(|event| match event {
        RunEvent::Note(Note::ToolFinished { tool, outcome, .. }) if tool == "Bash" => {
            Some((outcome.exit_code, outcome.content.clone()))
        }
        _ => None,
    });
    let (exit, output) = exit.unwrap();
    assert_eq!(exit, Some(3));
    assert!(output.contains("hi"), "{output}");

    let journal = journal_of(dir.path());
    assert_eq!(journal.torn_bytes, 0);
    // Folding the events of the journal gives the same end, without model or tools.
    let mut session = rawko_core::session::Session::new();
    let mut finish = None;
    for record in &journal.records {
        if let Record::Event(stamped) = record {
            finish = session.apply(stamped).effects.into_iter().last().or(finish);
        }
    }
    assert_eq!(session.state(), rawko_core::machine::State::Complete);
    assert_eq!(finish, Some(rawko_core::session::Effect::Finish { outcome: Box::new(outcome) }));

    let listed = SessionStore::of_project(dir.path()).list().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].status, listed[0].task.as_str()), (SessionStatus::Ended, "do it"));
    let ignore = dir.path().join(".rawko/sessions/.gitignore");
    assert_eq!(std::fs::read_to_string(ignore).unwrap(), "*\n");
}

#[cfg(unix)]
#[tokio::test]
async fn the_journal_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    run(builder(dir.path(), json!([select("developer"), report("developer"), complete()]))).await;
    let path = SessionStore::of_project(dir.path()).find("last").unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn every_effect_is_in_the_journal_before_its_answer() {
    let dir = tempfile::tempdir().unwrap();
    let replies = json!([
        select("developer"),
        tool("developer", "Bash", json!({"command": "true"})),
        report("developer"),
        complete()
    ]);
    run(builder(dir.path(), replies)).await;
    let mut issued = std::collections::BTreeSet::new();
    for record in journal_of(dir.path()).records {
        match record {
            Record::Step(step) => {
                let ids = step.effects.iter().filter_map(|effect| {
                    serde_json::to_value(effect).unwrap().get("id").and_then(Value::as_u64)
                });
                issued.extend(ids);
            }
            Record::Event(stamped) => match stamped.event {
                Event::Answered { effect, answer: EffectAnswer::ModelReplied { .. } }
                | Event::Answered { effect, answer: EffectAnswer::ToolFinished { .. } } => {
                    assert!(issued.contains(&effect.0), "{effect} was answered before it was journaled");
                }
                _ => {}
            },
        }
    }
    assert!(issued.len() >= 5);
}

#[tokio::test]
async fn a_wait_of_ten_minutes_is_reported_with_its_end_and_can_be_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let limited = json!({"code": "rate_limited", "message": "slow down", "retryAfterMs": 600_000});
    let replies = json!([select("developer"), {"for": "developer", "error": limited}]);
    let mut run = builder(dir.path(), replies).build().unwrap().run("do it").unwrap();
    let mut events = run.events();
    let control = run.control();
    let watching = async move {
        let (mut started, mut waits) = (None, Vec::new());
        while let Some(event) = events.next().await {
            match event {
                RunEvent::SessionStarted { at, .. } => started = Some(at),
                RunEvent::Waiting { reason, until, after_ms, attempt, .. } => {
                    waits.push((reason, until.since(started.unwrap()) >= after_ms, after_ms, attempt));
                    control.cancel("too long for me");
                }
                _ => {}
            }
        }
        waits
    };
    let begun = std::time::Instant::now();
    let (outcome, waits) = futures_util::join!(run.into_future(), watching);
    assert_eq!(outcome.unwrap().status, Status::Cancelled);
    assert!(begun.elapsed().as_secs() < 60);
    assert_eq!(waits, [(ErrorCode::RateLimited, true, 600_000, 2)]);
}

#[tokio::test]
async fn cancelling_ends_a_running_command_and_closes_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let command = "touch started; sleep 300; touch survived";
    let replies = json!([select("developer"), tool("developer", "Bash", json!({"command": command}))]);
    let mut run = builder(dir.path(), replies).build().unwrap().run("do it").unwrap();
    let mut events = run.events();
    let control = run.control();
    let watching = async move {
        let mut last = None;
        while let Some(event) = events.next().await {
            if matches!(&event, RunEvent::Note(Note::ToolCalled { call, .. }) if call.name == "Bash") {
                control.cancel("test");
            }
            last = Some(event);
        }
        last
    };
    let begun = std::time::Instant::now();
    let (outcome, last) = futures_util::join!(run.into_future(), watching);
    assert_eq!(outcome.unwrap().status, Status::Cancelled);
    assert!(
        matches!(last, Some(RunEvent::SessionFinished { outcome, .. }) if outcome.status == Status::Cancelled)
    );
    assert!(begun.elapsed() < std::time::Duration::from_secs(60), "it did not wait for the command");
    let listed = SessionStore::of_project(dir.path()).list().unwrap();
    assert_eq!(listed[0].outcome.as_ref().unwrap().status, Status::Cancelled);
}

/// A tool of the embedder's own.
struct FixedTool(ToolSpec);

impl Tool for FixedTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, input: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            ToolOutcome::ok(format!("{} asked {} and the answer is 42", context.agent, input["question"]))
        })
    }
}

#[tokio::test]
async fn custom_tools_are_offered_validated_and_run() {
    let dir = tempfile::tempdir().unwrap();
    let spec = ToolSpec {
        name: "Answer".into(),
        description: "Knows it.".into(),
        input_schema: json!({"type": "object", "required": ["question"], "properties": {"question": {"type": "string"}}}),
        access: ToolAccess::ReadOnly,
    };
    let replies = json!([
        select("everyone"),
        {"for": "everyone", "tools": [
            {"name": "Answer", "input": {"question": "why"}},
            {"name": "Answer", "input": {}}
        ]},
        report("everyone"),
        complete(),
    ]);
    std::fs::create_dir_all(dir.path().join(".rawko/agents")).unwrap();
    let agent = "name: everyone\nsystemPrompt: You ask.\n";
    std::fs::write(dir.path().join(".rawko/agents/everyone.yaml"), agent).unwrap();
    let builder = builder(dir.path(), replies).tool(Arc::new(FixedTool(spec))).trusted(true);
    let (outcome, events) = run(builder).await;
    assert_eq!(outcome.status, Status::Claimed);
    let results: Vec<(String, bool)> = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::Note(Note::ToolFinished { tool, outcome, .. }) if tool == "Answer" => {
                Some((outcome.content.clone(), outcome.is_error))
            }
            _ => None,
        })
        .collect();
    assert!(results[0].0.contains("the answer is 42") && !results[0].1, "{results:?}");
    assert!(results[1].0.contains("question") && results[1].1, "{results:?}");
}

/// A tool that panics with a secret in its words, before and while it works.
struct PanickingTool(ToolSpec);

const CANARY: &str = "sk-canary-panic-2c8f51";

impl Tool for PanickingTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, input: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        assert!(input["question"] != "early", "no answer with the key {CANARY}");
        Box::pin(async move { panic!("no answer with the key {CANARY}") })
    }
}

#[tokio::test]
async fn a_tool_that_panics_with_a_secret_reveals_it_to_no_one() {
    let dir = tempfile::tempdir().unwrap();
    let spec = ToolSpec {
        name: "Answer".into(),
        description: "Breaks.".into(),
        input_schema: json!({"type": "object"}),
        access: ToolAccess::ReadOnly,
    };
    let replies = json!([
        select("developer"),
        tool("developer", "Answer", json!({"question": "early"})),
        tool("developer", "Answer", json!({"question": "late"})),
        report("developer"),
        complete(),
    ]);
    let (outcome, events) =
        run(builder(dir.path(), replies).tool(Arc::new(PanickingTool(spec))).secret(CANARY)).await;
    assert_eq!(outcome.status, Status::Claimed, "{outcome:?}");
    let broke = events.iter().filter(
        |event| matches!(event, RunEvent::Note(Note::ToolFinished { tool, outcome, .. }) if tool == "Answer" && outcome.is_error),
    );
    assert_eq!(broke.count(), 2, "{events:?}");
    assert!(!serde_json::to_string(&events).unwrap().contains(CANARY), "{events:?}");
    let store = SessionStore::of_project(dir.path());
    let journal = std::fs::read_to_string(store.find("last").unwrap()).unwrap();
    assert!(!journal.contains(CANARY), "{journal}");
}

#[tokio::test]
async fn a_script_that_runs_dry_ends_as_failed_and_says_who_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (outcome, events) = run(builder(dir.path(), json!([select("developer")]))).await;
    assert_eq!(outcome.status, Status::Failed);
    assert_eq!(outcome.error.as_ref().unwrap().code, ErrorCode::ConfigError);
    assert!(outcome.summary.contains("developer"), "{}", outcome.summary);
    assert!(events.iter().any(|event| matches!(event, RunEvent::Error { .. })));
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let replies = json!([
        select("planner"),
        tool("planner", "UpdatePlan", json!({"steps": [{"description": "fix it"}]})),
        tool("planner", "Bash", json!({"command": "touch made"})),
        tool("planner", "Report", json!({"outcome": "success", "summary": "planned"})),
        {"for": "evaluate", "decision": {"decision": "CONTINUE", "reason": "r"}},
    ]);
    let (outcome, events) = run(builder(dir.path(), replies).dry_run(true)).await;
    assert_eq!(outcome.status, Status::Limited);
    assert!(events.iter().any(|event| matches!(event, RunEvent::Note(Note::PlanUpdated { .. }))));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the folder is as empty as before");
}

#[tokio::test]
async fn a_changed_configuration_is_picked_up_between_iterations_and_a_broken_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let agents = dir.path().join(".rawko/agents");
    std::fs::create_dir_all(&agents).unwrap();
    let plain = "name: helper\nsystemPrompt: You help.\ntools: {allowed: [Read, Write, Change]}\n";
    std::fs::write(agents.join("helper.yaml"), plain).unwrap();
    // Agents cannot write below .rawko, so the change comes from a tool that acts as the user's editor, and as the
    // user's trust where the text asks for it.
    struct Change(ToolSpec, TrustStore);
    impl Tool for Change {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }
        fn run<'a>(&'a self, input: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
            let path = context.root.join(".rawko/agents/helper.yaml");
            std::fs::write(path, input["text"].as_str().unwrap()).unwrap();
            if input["trust"] == true {
                let builder = Rawko::builder().project(&context.root).env(|_| None).trusted(true);
                let tool = Arc::new(Change(self.0.clone(), self.1.clone()));
                let rawko = builder.tool(tool).build().unwrap();
                self.1.trust(&context.root, rawko.config().project_digest.as_ref().unwrap(), &[]).unwrap();
            }
            Box::pin(async { ToolOutcome::ok("changed") })
        }
    }
    let change = |text: &str, trust: bool| tool("helper", "Change", json!({ "text": text, "trust": trust }));
    let evaluate =
        json!({"for": "evaluate", "decision": {"decision": "SELECT_MODE", "mode": "helper", "reason": "r"}});
    let blocked = format!("{plain}\nlimits: {{maxIterations: 7}}\n").replace("Write, ", "");
    let write = tool("helper", "Write", json!({"file_path": "a", "content": "a"}));
    let replies = json!([
        select("helper"),
        change(&blocked, true),
        write,
        report("helper"),
        evaluate,
        tool("helper", "Write", json!({"file_path": "b", "content": "b"})),
        change("name: [broken", false),
        report("helper"),
        evaluate,
        change(plain, false),
        report("helper"),
        evaluate,
        tool("helper", "Write", json!({"file_path": "c", "content": "c"})),
        report("helper"),
        complete(),
    ]);
    let spec = ToolSpec {
        name: "Change".into(),
        description: "c".into(),
        input_schema: json!({"type": "object"}),
        access: ToolAccess::Mutating,
    };
    let state = tempfile::tempdir().unwrap();
    let store = TrustStore::new(state.path());
    let (outcome, events) = run(builder(dir.path(), replies)
        .trusted(true)
        .trust_store(store.clone())
        .tool(Arc::new(Change(spec, store))))
    .await;
    assert_eq!(outcome.status, Status::Claimed, "{outcome:?}");
    assert!(dir.path().join("a").exists(), "in the middle of an iteration the old rules hold");
    assert!(!dir.path().join("b").exists(), "in the next one the new ones do");
    assert!(!dir.path().join("c").exists(), "what is not trusted is not taken");
    let warnings: Vec<&String> = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::Note(Note::Warned { message }) => Some(message),
            _ => None,
        })
        .collect();
    assert!(warnings.iter().any(|text| text.contains("the new one applies from now on")), "{warnings:?}");
    assert!(warnings.iter().any(|text| text.contains("rawko trust")), "{warnings:?}");
    assert!(
        warnings.iter().any(|text| text.contains("has errors") && text.contains("helper.yaml")),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn what_cannot_begin_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let check = |builder: RawkoBuilder, task: &str, part: &str| {
        let error = builder.build().and_then(|rawko| rawko.run(task).map(|_| ())).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    let plain = || Rawko::builder().project(dir.path()).env(|_| None);
    check(plain(), "  ", "task is empty");
    check(plain(), "t", "ANTHROPIC_API_KEY");
    check(plain().first_agent("nobody"), "t", "no agent `nobody`");
    check(Rawko::builder().project(dir.path().join("missing")), "t", "missing");
    std::fs::create_dir_all(dir.path().join(".rawko")).unwrap();
    std::fs::write(
        dir.path().join(".rawko/config.yaml"),
        "provider:\n  claude:\n    baseUrl: http://evil.example\n",
    )
    .unwrap();
    check(plain(), "t", "not trusted");
    std::fs::write(dir.path().join(".rawko/config.yaml"), "constraint: {}\n").unwrap();
    check(plain(), "t", "constraint");
    let sessions = dir.path().join(".rawko/sessions");
    std::fs::write(dir.path().join(".rawko/config.yaml"), "").unwrap();
    std::fs::write(&sessions, "a file where a folder should be").unwrap();
    check(builder(dir.path(), json!([])), "t", "sessions");
}

/// A provider with a bug.
struct Broken;

impl Provider for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    fn default_model(&self) -> &str {
        "m"
    }

    fn open(&self) -> Box<dyn ProviderSession> {
        panic!("a bug")
    }
}

#[tokio::test]
async fn a_provider_that_panics_ends_the_run_and_does_not_hang_it() {
    let dir = tempfile::tempdir().unwrap();
    let builder = Rawko::builder().project(dir.path()).env(|_| None).provider(Arc::new(Broken));
    let patience = std::time::Duration::from_secs(30);
    let (outcome, _) = tokio::time::timeout(patience, run(builder)).await.expect("it ends");
    assert_eq!(outcome.status, Status::Failed);
    assert!(outcome.summary.contains("the provider `broken` broke"), "{}", outcome.summary);
}

#[tokio::test]
async fn a_function_sees_every_call_and_a_denial_is_a_result() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "one\n").unwrap();
    let replies = json!([
        select("developer"),
        tool("developer", "Read", json!({"file_path": "a.txt"})),
        tool("developer", "Write", json!({"file_path": "b.txt", "content": "two\n"})),
        tool("developer", "Bash", json!({"command": "true"})),
        report("developer"),
        complete(),
    ]);
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let calls = Arc::clone(&seen);
    let builder = builder(dir.path(), replies).on_call(move |call: rawko::GrantedCall| {
        let is_denied = call.call.name == "Write";
        calls.lock().unwrap().push((call.agent, call.call.name, call.access));
        async move {
            if is_denied {
                rawko::CallVerdict::deny("nothing is written today")
            } else {
                rawko::CallVerdict::Allow
            }
        }
    });
    let (outcome, events) = run(builder).await;
    assert_eq!(outcome.status, Status::Claimed);
    let expected =
        [("Read", ToolAccess::ReadOnly), ("Write", ToolAccess::Mutating), ("Bash", ToolAccess::Mutating)]
            .map(|(tool, access)| ("developer".to_owned(), tool.to_owned(), access));
    assert_eq!(*seen.lock().unwrap(), expected);
    assert!(!dir.path().join("b.txt").exists());
    let results: Vec<(String, bool, String)> = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::Note(Note::ToolFinished { tool, outcome, .. }) if tool != "Report" => {
                Some((tool.clone(), outcome.is_error, outcome.content.clone()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(results.iter().map(|(_, is_error, _)| *is_error).collect::<Vec<_>>(), [false, true, false]);
    assert!(results[1].2.contains("nothing is written today"), "{results:?}");
    // The journal has it, so that a replay needs no function: `run` has replayed it.
    let recorded = journal_of(dir.path()).records.into_iter().find_map(|record| match record {
        Record::Event(stamped) => match stamped.event {
            Event::Answered { answer: EffectAnswer::ToolFinished { outcome }, .. } => outcome.hooks?.blocked,
            _ => None,
        },
        Record::Step(_) => None,
    });
    assert_eq!(recorded.as_deref(), Some("nothing is written today"));
}

#[test]
fn a_session_with_hooks_is_not_given_to_a_fleet() {
    let dir = tempfile::tempdir().unwrap();
    let opens = || {
        let rawko = builder(dir.path(), json!([])).trusted(true).build().unwrap();
        rawko.opening(None, "do it", "/work").map(drop)
    };
    opens().unwrap();
    std::fs::create_dir(dir.path().join(".claude")).unwrap();
    let hooks = json!({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}});
    std::fs::write(dir.path().join(".claude/settings.json"), hooks.to_string()).unwrap();
    let refused = opens().unwrap_err().to_string();
    assert!(refused.contains("hooks do not run on the workers of a fleet"), "{refused}");
}
