//! Calls that a model writes as text, instead of making them: weak models, and servers that do not know a model's form
//! of calls. rawko does not make these calls for the model: it cannot know what is missing or meant, and a file that
//! holds such a text must not become a call. rawko explains to the model how to make a call.

use serde_json::Value;

/// Begins a call in the forms that models were trained on, in lower case.
const BEGINNINGS: [&str; 8] = [
    "<tool_call>",
    "<|tool_call",
    "<function_calls>",
    "<function=",
    "<invoke name=",
    "<tool_use>",
    "[tool_calls]",
    "<｜tool▁calls▁begin｜>",
];
/// The fields that hold a call's arguments, besides its `name`.
const ARGUMENTS: [&str; 3] = ["arguments", "parameters", "input"];

/// The offered tool that the text ends with a call of, if it does.
pub(super) fn written_call<'a>(text: &str, offered: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = text.to_ascii_lowercase();
    let begun = BEGINNINGS.iter().filter_map(|beginning| lower.rfind(beginning)).max();
    let marked = begun.and_then(|at| text.get(at..));
    let object = marked.is_none().then(|| call_object(text)).flatten();
    let mut offered = offered;
    offered.find(|name| match (marked, &object) {
        (Some(call), _) => is_named(call, name),
        (None, Some(call)) => call == name,
        (None, None) => false,
    })
}

/// Whether a text names the tool as a word of its own.
fn is_named(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part))
}

/// The name in the call that a text consists of, or ends with in a block of code.
fn call_object(text: &str) -> Option<String> {
    let text = text.trim();
    let block = text.strip_suffix("```").and_then(|text| text.rsplit_once("```"));
    let json = block
        .map_or(text, |(_, block)| block.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '_'));
    let value: Value = serde_json::from_str(json.trim()).ok()?;
    let call = value.as_array().and_then(|calls| calls.first()).unwrap_or(&value);
    let call = call.get("function").filter(|inner| inner.is_object()).unwrap_or(call);
    ARGUMENTS.iter().any(|key| call.get(key).is_some()).then_some(())?;
    call.get("name")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(written_call(text, ["Read", "Bash", "mcp__s__read"].into_iter()), expected, "{text}");
    }

    #[test]
    fn calls_in_the_forms_of_models_are_known() {
        for text in [
            "Let me look.\n<tool_call>\n{\"name\": \"Read\", \"arguments\": {\"file_path\": \"a\"}}\n</tool_call>",
            "<function=Read>\n<parameter=file_path>a</parameter>\n</function>",
            "<function_calls><invoke name=\"Read\"><parameter name=\"file_path\">a</parameter></invoke></function_calls>",
            "[TOOL_CALLS][{\"name\": \"Read\", \"arguments\": {}}]",
            "{\"name\": \"Read\", \"arguments\": {\"file_path\": \"a\"}}",
            "I read it:\n```json\n{\"name\": \"Read\", \"parameters\": {\"file_path\": \"a\"}}\n```",
            "[{\"type\": \"function\", \"function\": {\"name\": \"Read\", \"arguments\": \"{}\"}}]",
        ] {
            check(text, Some("Read"));
        }
        check("<tool_call>{\"name\": \"mcp__s__read\", \"arguments\": {}}", Some("mcp__s__read"));
    }

    #[test]
    fn words_about_calls_are_none() {
        for text in [
            "I used Read and Bash.",
            "The tests pass.",
            "",
            "{\"name\": \"rawko\", \"version\": 1}",
            "{\"name\": \"Read\"}",
            "```json\n{\"name\": \"Read\", \"arguments\": {}}\n```\nis what the parser gets.",
            "<tool_call>{\"name\": \"Deploy\", \"arguments\": {}}</tool_call>",
            "The tag <tool_call> is for Readers.",
        ] {
            check(text, None);
        }
    }
}
