//! Secrets in everything that a run comes across: none reaches the journal, its blobs, a watcher or a later request, and
//! what was recorded leads to the same requests again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use rawko::provider::{EventStream, Provider, ProviderEvent, ProviderSession};
use rawko::{Rawko, RunEvent};
use rawko_core::message::{Content, Message, StopReason, ToolCall};
use rawko_core::request::{ModelRequest, Purpose};
use rawko_core::session::Status;
use rawko_core::{ErrorCode, ErrorInfo, Usage};
use serde_json::json;

const CANARY: &str = "sk-canary-7f31a0c2";

/// A model that has the canary in everything it says.
#[derive(Default)]
struct Leaky {
    asked: Arc<Mutex<Vec<ModelRequest>>>,
}

struct LeakySession {
    asked: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Provider for Leaky {
    fn name(&self) -> &str {
        "leaky"
    }

    fn default_model(&self) -> &str {
        "m"
    }

    fn open(&self) -> Box<dyn ProviderSession> {
        Box::new(LeakySession { asked: Arc::clone(&self.asked) })
    }
}

impl ProviderSession for LeakySession {
    fn send(&mut self, request: ModelRequest) -> EventStream<'_> {
        let mut asked = self.asked.lock().unwrap();
        asked.push(request.clone());
        let agent_turns =
            asked.iter().filter(|request| matches!(request.purpose, Purpose::Agent { .. })).count();
        let say = |text: &str, call: Option<(&str, serde_json::Value)>| {
            let (head, tail) = CANARY.split_at(7);
            let mut content =
                vec![Content::Thinking { thinking: format!("hm {CANARY}"), signature: Some("s".into()) }];
            content.push(Content::text(format!("{text}{CANARY}")));
            let stop_reason = if call.is_some() { StopReason::ToolUse } else { StopReason::EndTurn };
            content.extend(call.map(|(name, input)| {
                let id = format!("call-{}", asked.len());
                Content::ToolUse(ToolCall {
                    id,
                    name: name.into(),
                    input,
                    invalid_input: None,
                    withheld: None,
                })
            }));
            vec![
                // The key comes in two pieces.
                ProviderEvent::TextDelta(format!("{text}{head}")),
                ProviderEvent::TextDelta(tail.to_owned()),
                ProviderEvent::MessageDone {
                    message: Message { role: rawko_core::message::Role::Assistant, content },
                    usage: Usage::default(),
                    stop_reason,
                },
            ]
        };
        let decide = |decision: serde_json::Value| {
            let mut content = vec![Content::text(CANARY)];
            content.push(Content::text(decision.to_string()));
            let name = request.tools.first().map_or("decide", |tool| tool.name.as_str());
            content.push(Content::ToolUse(ToolCall {
                id: "d".into(),
                name: name.to_owned(),
                input: decision,
                invalid_input: None,
                withheld: None,
            }));
            vec![ProviderEvent::MessageDone {
                message: Message { role: rawko_core::message::Role::Assistant, content },
                usage: Usage::default(),
                stop_reason: StopReason::ToolUse,
            }]
        };
        let events = match (&request.purpose, agent_turns) {
            (Purpose::Select, _) => decide(
                json!({"decision": "SELECT_MODE", "mode": "developer", "reason": format!("because {CANARY}")}),
            ),
            (Purpose::Evaluate, _) => {
                decide(json!({"decision": "COMPLETE", "summary": format!("done {CANARY}"), "reason": "r"}))
            }
            (Purpose::Agent { .. }, 1) => say("reading ", Some(("Bash", json!({"command": "cat keys.txt"})))),
            (Purpose::Agent { .. }, 2) => {
                say("writing ", Some(("Write", json!({"file_path": "out.txt", "content": CANARY}))))
            }
            (Purpose::Agent { .. }, 3) => {
                let message = format!("the server says {CANARY}");
                vec![ProviderEvent::Error {
                    error: ErrorInfo::new(ErrorCode::NetworkError, message),
                    usage: None,
                }]
            }
            (Purpose::Agent { .. }, 4) => say("big ", Some(("Read", json!({"file_path": "big.txt"})))),
            (Purpose::Agent { .. } | Purpose::Summarize { .. } | Purpose::Remember { .. }, _) => {
                let summary = format!("did {CANARY} {}", "x".repeat(70_000));
                say("", Some(("Report", json!({"outcome": "success", "summary": summary}))))
            }
        };
        Box::pin(futures_util::stream::iter(events).boxed())
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}

#[tokio::test]
async fn a_secret_is_nowhere_and_a_resume_comes_to_the_same_requests() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("keys.txt"), format!("KEY={CANARY}\n")).unwrap();
    std::fs::write(dir.path().join("big.txt"), format!("{}{CANARY}\n", "line\n".repeat(300))).unwrap();
    let leaky = Leaky::default();
    let asked = Arc::clone(&leaky.asked);
    let rawko = Rawko::builder()
        .project(dir.path())
        .env(|_| None)
        .provider(Arc::new(leaky))
        .secret(CANARY)
        .build()
        .unwrap();
    let mut run = rawko.run(&format!("use {CANARY} wisely")).unwrap();
    let mut events = run.events();
    let outcome = run.await.unwrap();
    assert_eq!(outcome.status, Status::Claimed, "{outcome:?}");
    assert!(!outcome.summary.contains(CANARY));

    let mut spoken = String::new();
    while let Some(event) = events.next().await {
        let text = serde_json::to_string(&event).unwrap();
        assert!(!text.contains(CANARY), "{text}");
        if let RunEvent::TextDelta { text, .. } = event {
            spoken.push_str(&text);
        }
    }
    assert!(!spoken.contains(CANARY), "{spoken}");
    assert!(spoken.contains("reading [redacted]"), "{spoken}");

    let sessions = dir.path().join(".rawko/sessions");
    let files = files_below(&sessions);
    assert!(files.iter().any(|file| file.parent().unwrap().ends_with("blobs")), "a long text went to a blob");
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let found = bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
        assert!(!found, "the canary is in {}", file.display());
    }
    // A file is written as the model wants it or not at all.
    assert!(!dir.path().join("out.txt").exists());
    let why = "`content` holds a secret of the program that started this run";
    let explains = |request: &ModelRequest| format!("{:?}", request.messages).contains(why);
    assert!(
        asked.lock().unwrap().iter().any(explains),
        "the agent does not learn why its file was not written"
    );

    // No request holds it, and what was recorded leads to the same requests, digest by digest.
    for request in asked.lock().unwrap().iter() {
        let sent = format!("{:?} {:?}", request.system, request.messages);
        assert!(!sent.contains(CANARY), "{sent}");
    }
    let journal = rawko::journal::read(&rawko.sessions().find("last").unwrap()).unwrap();
    let folded = rawko::journal::fold(&journal);
    assert_eq!(folded.divergence, None);
    assert_eq!(folded.session.state(), rawko_core::machine::State::Complete);
    assert_eq!(folded.answered.len(), asked.lock().unwrap().len());
}
