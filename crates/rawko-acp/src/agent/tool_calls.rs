//! How a tool call is shown: what it is called, which files it is about, its changes as diffs, its output.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use agent_client_protocol::v1::schema::{
    Content, Diff, ToolCallContent, ToolCallId, ToolCallLocation, ToolKind,
};
use rawko::ToolCall;
use rawko_core::text::{keep_ends, truncate};
use serde_json::Value;

/// Characters of a title.
const TITLE_CHARS: usize = 200;
/// Bytes of an output.
const OUTPUT_BYTES: usize = 64 * 1024;
/// Bytes of one side of a diff. A larger one is not shown.
const DIFF_BYTES: usize = 1024 * 1024;
/// Bytes of a call's arguments. Larger ones are not sent as they are.
const INPUT_BYTES: usize = 64 * 1024;

/// The names of calls toward the client. Ids of providers are unique in one answer only, and two agents may use the same.
#[derive(Debug, Clone, Default)]
pub(super) struct CallNames(Arc<Mutex<NamedCalls>>);

#[derive(Debug, Default)]
struct NamedCalls {
    count: u64,
    open: HashMap<(String, String), ToolCallId>,
}

impl CallNames {
    /// The name of an open call.
    pub(super) fn of(&self, agent: &str, call: &str) -> ToolCallId {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let NamedCalls { count, open } = &mut *calls;
        open.entry((agent.to_owned(), call.to_owned())).or_insert_with(|| named(count)).clone()
    }

    /// The same for a call that has ended.
    pub(super) fn end(&self, agent: &str, call: &str) -> ToolCallId {
        let name = self.of(agent, call);
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .open
            .remove(&(agent.to_owned(), call.to_owned()));
        name
    }

    /// A name for something that is shown as a call and is none of an agent.
    pub(super) fn another(&self) -> ToolCallId {
        named(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).count)
    }
}

fn named(count: &mut u64) -> ToolCallId {
    *count += 1;
    ToolCallId::new(format!("call-{count}"))
}

/// A call, as a client shows it.
#[derive(Debug)]
pub(super) struct ShownCall {
    pub(super) title: String,
    pub(super) kind: ToolKind,
    pub(super) locations: Vec<ToolCallLocation>,
    /// What is known before it ends.
    pub(super) content: Vec<ToolCallContent>,
    pub(super) input: Option<Value>,
}

impl ShownCall {
    /// A call of an agent that works in `tree`.
    pub(super) fn of(call: &ToolCall, tree: &Path) -> Self {
        let text = |key: &str| call.input.get(key).and_then(Value::as_str);
        let file = text("file_path");
        let named = |verb: &str, key: &str| match text(key) {
            Some(what) => format!("{verb} {what}"),
            None => call.name.clone(),
        };
        let (title, kind) = match call.name.as_str() {
            "Bash" => (text("command").unwrap_or("Bash").to_owned(), ToolKind::Execute),
            "Read" => (named("Read", "file_path"), ToolKind::Read),
            "Write" => (named("Write", "file_path"), ToolKind::Edit),
            "Edit" => (named("Edit", "file_path"), ToolKind::Edit),
            "Glob" => (named("Find", "pattern"), ToolKind::Search),
            "Grep" => (named("Search for", "pattern"), ToolKind::Search),
            "WebFetch" => (named("Fetch", "url"), ToolKind::Fetch),
            "WebSearch" => (named("Search the web for", "query"), ToolKind::Fetch),
            "Skill" => (named("Skill", "name"), ToolKind::Read),
            name => (name.to_owned(), ToolKind::Other),
        };
        let path = file.map(|file| tree.join(file));
        let line = call.input.get("offset").and_then(Value::as_u64).and_then(|line| u32::try_from(line).ok());
        let location =
            |path: &PathBuf| ToolCallLocation::new(path.clone()).line(line.filter(|line| *line > 0));
        let small = call.input.to_string().len() <= INPUT_BYTES;
        Self {
            title: one_line(&title),
            kind,
            locations: path.iter().map(location).collect(),
            content: path.and_then(|path| change(call, path)).into_iter().collect(),
            input: small.then(|| call.input.clone()),
        }
    }
}

/// The change that an `Edit` or a `Write` makes. What a `Write` replaces is not known here.
fn change(call: &ToolCall, path: PathBuf) -> Option<ToolCallContent> {
    let text =
        |key: &str| call.input.get(key).and_then(Value::as_str).filter(|text| text.len() <= DIFF_BYTES);
    let diff = match call.name.as_str() {
        "Edit" => Diff::new(path, text("new_string")?).old_text(text("old_string")?.to_owned()),
        "Write" => Diff::new(path, text("content")?),
        _ => return None,
    };
    Some(ToolCallContent::Diff(diff))
}

/// Text as the content of a call.
pub(super) fn text_content(text: &str) -> ToolCallContent {
    ToolCallContent::Content(Content::new(bounded(text)))
}

/// The output of a command, in a block of its own.
pub(super) fn output_content(text: &str) -> ToolCallContent {
    let text = bounded(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(3.max(longest + 1));
    ToolCallContent::Content(Content::new(format!("{fence}\n{}\n{fence}", text.trim_end())))
}

/// Text of bounded length.
pub(super) fn bounded(text: &str) -> String {
    keep_ends(text, OUTPUT_BYTES)
}

fn one_line(text: &str) -> String {
    truncate(&text.split_whitespace().collect::<Vec<_>>().join(" "), TITLE_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(name: &str, input: Value) -> ToolCall {
        ToolCall { id: "1".into(), name: name.into(), input, invalid_input: None, withheld: None }
    }

    #[track_caller]
    fn check(name: &str, input: Value, title: &str, kind: ToolKind) -> ShownCall {
        let shown = ShownCall::of(&call(name, input), Path::new("/p"));
        assert_eq!((shown.title.as_str(), shown.kind), (title, kind));
        shown
    }

    #[test]
    fn calls_are_shown_by_what_they_do() {
        check("Bash", json!({"command": "cargo\ntest"}), "cargo test", ToolKind::Execute);
        check("Grep", json!({"pattern": "a.b"}), "Search for a.b", ToolKind::Search);
        check("mcp__s__t", json!({}), "mcp__s__t", ToolKind::Other);
        let read = check("Read", json!({"file_path": "a.rs", "offset": 7}), "Read a.rs", ToolKind::Read);
        assert_eq!(
            (read.locations[0].path.as_path(), read.locations[0].line),
            (Path::new("/p/a.rs"), Some(7))
        );
        let edit = json!({"file_path": "/q/a.rs", "old_string": "a", "new_string": "b"});
        let edit = check("Edit", edit, "Edit /q/a.rs", ToolKind::Edit);
        let ToolCallContent::Diff(diff) = &edit.content[0] else { panic!("{edit:?}") };
        assert_eq!((diff.path.as_path(), diff.old_text.as_deref()), (Path::new("/q/a.rs"), Some("a")));
        assert_eq!(diff.new_text, "b");
        let long = json!({"file_path": "a", "content": "x".repeat(DIFF_BYTES + 1)});
        let long = ShownCall::of(&call("Write", long), Path::new("/p"));
        assert!(long.content.is_empty() && long.input.is_none());
    }

    #[test]
    fn a_name_is_that_of_one_call_until_it_ends() {
        let names = CallNames::default();
        let first = names.of("developer", "1");
        assert_eq!(names.of("developer", "1"), first);
        assert_ne!(names.of("tester", "1"), first);
        assert_eq!(names.end("developer", "1"), first);
        assert_ne!(names.of("developer", "1"), first);
    }

    #[test]
    fn output_is_fenced_whatever_it_holds() {
        let ToolCallContent::Content(content) = output_content("a\n````\nb\n") else { panic!("no text") };
        let text = serde_json::to_value(&content).unwrap();
        assert_eq!(text["content"]["text"], "`````\na\n````\nb\n`````");
    }
}
