//! A program with the core of the SDK alone (`default-features = false`), for `scripts/test-sdk-core.sh`: it has a provider of its
//! own, carries a task to a verified end, and sees that what is left out is named where it is asked for.

use std::path::Path;
use std::sync::Arc;

use futures_util::stream;
use rawko::{Content, EventStream, Message, ModelRequest, Provider, ProviderEvent, ProviderSession};
use rawko::{Purpose, Rawko, RawkoBuilder, Role, Status, StopReason, ToolCall, Usage};
use serde_json::{Value, json};

/// The first bytes of a PNG picture.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

struct Rules;

impl Provider for Rules {
    fn name(&self) -> &str {
        "rules"
    }
    fn default_model(&self) -> &str {
        "rules-1"
    }
    fn open(&self) -> Box<dyn ProviderSession> {
        Box::new(Self)
    }
}

impl ProviderSession for Rules {
    fn send(&mut self, request: ModelRequest) -> EventStream<'_> {
        let (message, stop_reason) = answer(&request);
        let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
        Box::pin(stream::iter([ProviderEvent::MessageDone { message, usage, stop_reason }]))
    }
}

fn answer(request: &ModelRequest) -> (Message, StopReason) {
    let text = match request.purpose {
        Purpose::Select => {
            r#"{"decision": "SELECT_MODE", "mode": "developer", "reason": "it is to be written"}"#
        }
        Purpose::Evaluate => {
            r#"{"decision": "COMPLETE", "summary": "written", "reason": "the check passes"}"#
        }
        Purpose::Agent { .. } => return turn(request),
        Purpose::Remember { .. } | Purpose::Summarize { .. } => "nothing",
    };
    (Message::assistant(text), StopReason::EndTurn)
}

/// The developer reads, writes and runs a command, and reports.
fn turn(request: &ModelRequest) -> (Message, StopReason) {
    let seen = format!("{request:?}");
    let calls = if seen.contains("call-bash") {
        for part in ["the feature `pictures`", "hello from a shell"] {
            assert!(seen.contains(part), "{part:?} is missing in {seen}");
        }
        vec![call("report", "Report", json!({ "outcome": "success", "summary": "It is written." }))]
    } else {
        vec![
            call("read", "Read", json!({ "file_path": "logo.png" })),
            call("write", "Write", json!({ "file_path": "greeting.txt", "content": "hello\n" })),
            call("bash", "Bash", json!({ "command": "echo hello from a shell" })),
        ]
    };
    (Message { role: Role::Assistant, content: calls }, StopReason::ToolUse)
}

fn call(id: &str, name: &str, input: Value) -> Content {
    let (id, name) = (format!("call-{id}"), name.to_owned());
    Content::ToolUse(ToolCall { id, name, input, invalid_input: None, withheld: None })
}

fn builder(project: &Path) -> RawkoBuilder {
    Rawko::builder().project(project).isolated_from_user().trusted(true)
}

/// The error names the feature.
#[track_caller]
fn names<T>(feature: &str, asked: Result<T, rawko::Error>) {
    let Err(error) = asked else { panic!("the feature `{feature}` is not missed") };
    let named =
        format!("needs the feature `{feature}` of the crate `rawko`, and this program was built without it");
    assert!(error.to_string().contains(&named), "{error}");
    println!("{error}");
}

fn check_what_is_left_out(project: &Path) {
    let configured = |config: &str| builder(project).provider(Arc::new(Rules)).config(config);
    names("mcp", configured("mcp: {servers: {docs: {command: docs-server}}}").build());
    names("http", configured("notify: [{url: 'https://chat.example.com/hook'}]").build());
    names("web", configured("web: {search: {searxng: 'http://localhost:8888'}}").build());
    let reader =
        json!({ "name": "reader", "systemPrompt": "You read.", "tools": { "allowed": ["WebFetch"] } });
    names("web", configured("{}").agent(reader).build());
    let with_openai = builder(project).config("provider: {default: openai}").build();
    names("http", with_openai.and_then(|rawko| rawko.run("Write a greeting").map(drop)));
    let refused =
        rawko::attachment("logo.png", PNG.to_vec()).expect_err("no picture can be shown").to_string();
    assert!(refused.contains("the feature `pictures` of the crate `rawko`"), "{refused}");
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    rawko::tools::run_helper_if_asked();
    let project = std::env::args_os().nth(1).ok_or("name an empty folder")?;
    let project = Path::new(&project);
    std::fs::write(project.join("logo.png"), PNG)?;
    std::fs::write(project.join("Makefile"), "test:\n\ttest -f greeting.txt\n")?;
    check_what_is_left_out(project);
    let rawko = builder(project).provider(Arc::new(Rules)).config("verify: [make test]").build()?;
    let outcome = rawko.run("Write a greeting")?.await?;
    println!("{:?}: {}", outcome.status, outcome.summary);
    assert_eq!(outcome.status, Status::Verified);
    assert_eq!(outcome.files_modified, ["greeting.txt"]);
    Ok(())
}
