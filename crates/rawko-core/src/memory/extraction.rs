//! Extracts a memory from an execution: the question to the `memory-extractor`, and how its answer is read.
//!
//! Nothing is written here. A draft is data: its writer adds where it comes from, and judges whether it is known
//! already.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::header::Kind;
use crate::agent::Importance;
use crate::arbiter::{fence, fill};
use crate::message::Message;
use crate::text::{keep_ends, truncate};
use crate::tool::{ToolAccess, ToolSpec};

/// The tool that the extractor is made to call.
pub const REMEMBER: &str = "remember";

/// The built-in prompt (`.rawko/prompts/memory-extractor.md` takes its place).
pub const EXTRACTOR: &str = include_str!("extractor.md");

/// Most characters of a title.
const TITLE_CHARS: usize = 120;
/// Most characters of a body: what is longer is a document, not a memory.
const BODY_CHARS: usize = 2_000;
/// Most patterns, tags and paths.
const MOST_ENTRIES: usize = 10;
/// Most characters of one of them.
const ENTRY_CHARS: usize = 120;
/// Bytes of what is given of the execution.
const EXECUTION_BYTES: usize = 12_000;

/// A memory as the extractor puts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Draft {
    /// Whether something was learned that a later run on another task will need. Mostly nothing was.
    pub learned: bool,
    /// What was learned, in one line.
    #[serde(default)]
    pub title: String,
    /// When a later run should be given: natural language, or single words.
    #[serde(default)]
    pub when_to_use: Vec<String>,
    /// How much it matters.
    #[serde(default = "medium")]
    pub importance: Importance,
    /// `fact` for what is so, `avoid` for what not to do.
    #[serde(default)]
    pub kind: DraftKind,
    /// What it is about, in single words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Files that it speaks of, relative to the project.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The memory itself, in a few sentences: what, and how it was seen.
    #[serde(default)]
    pub body: String,
}

fn medium() -> Importance {
    Importance::Medium
}

/// What a draft is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DraftKind {
    /// Something that is so.
    #[default]
    Fact,
    /// Something not to do.
    Avoid,
}

impl From<DraftKind> for Kind {
    fn from(kind: DraftKind) -> Self {
        match kind {
            DraftKind::Fact => Self::Fact,
            DraftKind::Avoid => Self::Avoid,
        }
    }
}

/// The tool whose schema is the form of the answer.
#[must_use]
pub fn remember_tool() -> ToolSpec {
    ToolSpec {
        name: REMEMBER.to_owned(),
        description: "Say what was learned, or that nothing was. Call this exactly once.".to_owned(),
        input_schema: schemars::schema_for!(Draft).to_value(),
        access: ToolAccess::ReadOnly,
    }
}

/// What the extractor is given of one execution; its system prompt is the template.
#[must_use]
pub fn question(task: &str, agent: &str, execution: &str) -> String {
    let execution = keep_ends(execution, EXECUTION_BYTES);
    let value = |name: &str| match name {
        "task" => Some(task),
        "agent" => Some(agent),
        "execution" => Some(execution.as_str()),
        _ => None,
    };
    fill("# Task\n{task}\n\n# What {agent} did\n{execution}\n\nWhat was learned? Call `remember`.", value)
}

/// Reads the extractor's answer. `None` where nothing was learned.
///
/// # Errors
/// What is wrong with the answer, for people.
pub fn read_draft(message: &Message) -> Result<Option<Draft>, String> {
    let Some(call) = message.tool_calls().find(|call| call.name == REMEMBER) else {
        return Err(format!("the answer holds no call of `{REMEMBER}`"));
    };
    if let Some(what) = &call.withheld {
        return Err(format!("{what}, and rawko does not write secrets"));
    }
    let draft: Draft = serde_json::from_value(call.input.clone()).map_err(|error| error.to_string())?;
    if !draft.learned {
        return Ok(None);
    }
    let draft = Draft {
        title: one_line(&draft.title, TITLE_CHARS),
        when_to_use: entries(&draft.when_to_use),
        tags: entries(&draft.tags),
        paths: entries(&draft.paths),
        body: truncate(draft.body.trim(), BODY_CHARS),
        ..draft
    };
    if draft.title.is_empty() || draft.when_to_use.is_empty() || draft.body.is_empty() {
        return Err("a memory needs a title, a body, and a word on when it is of use".to_owned());
    }
    Ok(Some(draft))
}

fn entries(list: &[String]) -> Vec<String> {
    let lines = list.iter().map(|entry| one_line(entry, ENTRY_CHARS)).filter(|entry| !entry.is_empty());
    lines.take(MOST_ENTRIES).collect()
}

fn one_line(text: &str, max: usize) -> String {
    truncate(&text.split_whitespace().collect::<Vec<_>>().join(" "), max)
}

/// The execution as the extractor sees it: what rawko recorded, and what the agent claims, fenced.
#[must_use]
pub fn recorded_and_claimed(recorded: &str, claimed: &str) -> String {
    format!("{recorded}\nIt reports:\n{}", fence("agent", claimed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Content, Role, ToolCall};
    use serde_json::{Value, json};

    fn answer(input: Value) -> Message {
        let call =
            ToolCall { id: "c".into(), name: REMEMBER.into(), input, invalid_input: None, withheld: None };
        Message { role: Role::Assistant, content: vec![Content::ToolUse(call)] }
    }

    #[track_caller]
    fn check(input: Value, expected: Result<Option<&str>, &str>) {
        match (read_draft(&answer(input.clone())), expected) {
            (Ok(draft), Ok(title)) => assert_eq!(draft.map(|draft| draft.title).as_deref(), title, "{input}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{input}: {error}"),
            (got, _) => panic!("{input}: {got:?}"),
        }
    }

    #[test]
    fn answers_are_read_bounded_or_refused() {
        let whole = json!({"learned": true, "title": " The tests\nneed a port ", "whenToUse": ["testing"], "body": "b"});
        check(whole, Ok(Some("The tests need a port")));
        check(json!({"learned": false}), Ok(None));
        check(json!({"learned": true, "title": "t", "whenToUse": [], "body": "b"}), Err("a memory needs"));
        check(json!({"title": "t"}), Err("learned"));
        check(json!({"learned": true, "importance": "huge"}), Err("huge"));
        let mut secret =
            answer(json!({"learned": true, "title": "t", "whenToUse": ["w"], "body": "[redacted]"}));
        let Content::ToolUse(call) = &mut secret.content[0] else { panic!("it is a call") };
        call.withheld = Some("`body` holds the value of `KEY`".to_owned());
        assert!(read_draft(&secret).unwrap_err().contains("`body` holds the value of `KEY`"));
        assert!(read_draft(&Message::assistant("I learned much.")).unwrap_err().contains("no call"));
        let long = json!({"learned": true, "title": "x".repeat(500), "whenToUse": vec!["y"; 50], "body": "z".repeat(9_000)});
        let draft = read_draft(&answer(long)).unwrap().unwrap();
        assert_eq!((draft.when_to_use.len(), draft.title.len(), draft.body.len()), (10, 123, 2_003));
    }

    #[test]
    fn a_task_cannot_forge_the_execution() {
        let text = question("{execution} {task}", "dev", "did it");
        assert!(text.contains("# Task\n{execution} {task}\n"), "{text}");
    }
}
