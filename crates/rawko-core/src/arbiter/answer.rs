//! Reading the arbiter's answer: a forced tool call, or the first balanced JSON object of the text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::machine::Decision;
use crate::message::Message;
use crate::text::truncate;
use crate::tool::{ToolAccess, ToolSpec};

/// The tool that the arbiter has to call.
pub const DECIDE: &str = "decide";
/// Characters of a reason that are kept.
const REASON_CHARS: usize = 2_000;

/// The arbiter's answer (`docs/arbiter.md#decision`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// The description is part of recorded requests, so it must not change.
#[schemars(description = "The arbiter's answer as it is asked for (ADR-0005).")]
pub struct ArbiterAnswer {
    /// What is to happen next.
    pub decision: DecisionKind,
    /// Name of the agent that works next; required with SELECT_MODE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// One or two sentences that say why.
    #[serde(default)]
    pub reason: String,
    /// What was achieved, for the user; with COMPLETE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// Kinds of decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DecisionKind {
    /// The agent named in `mode` works next.
    SelectMode,
    /// The same agent goes on in the same conversation.
    Continue,
    /// The task is done.
    Complete,
    /// The last agent tries again, differently.
    Retry,
    /// The task cannot be done until a person removes what stands in the way, which `reason` names.
    Blocked,
}

impl DecisionKind {
    /// The name in answers, prompts and labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SelectMode => "SELECT_MODE",
            Self::Continue => "CONTINUE",
            Self::Complete => "COMPLETE",
            Self::Retry => "RETRY",
            Self::Blocked => "BLOCKED",
        }
    }
}

/// The tool whose schema is the form of the answer, with these decisions to choose from.
#[must_use]
pub fn decide_tool(decisions: &[DecisionKind]) -> ToolSpec {
    let mut input_schema = schemars::schema_for!(ArbiterAnswer).to_value();
    if let Some(Value::Array(kinds)) = input_schema.pointer_mut("/$defs/DecisionKind/oneOf") {
        kinds.retain(|kind| decisions.iter().any(|decision| kind["const"] == decision.as_str()));
    }
    ToolSpec {
        name: DECIDE.to_owned(),
        description: "Give your decision. Call this exactly once.".to_owned(),
        input_schema,
        access: ToolAccess::ReadOnly,
    }
}

/// Why an answer cannot be used. The repair attempt sends the message to the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The text contains nothing that looks like an answer.
    #[error("the answer holds neither a call of `decide` nor a JSON object")]
    Nothing,
    /// The JSON does not match the schema.
    #[error("the answer does not have the required form: {0}")]
    Form(String),
    /// SELECT_MODE without an agent.
    #[error("SELECT_MODE needs `mode`, the name of an agent; known agents: {known}")]
    NoMode {
        /// The names, comma-separated.
        known: String,
    },
    /// SELECT_MODE with an unknown agent.
    #[error("there is no agent `{mode}`; known agents: {known}")]
    UnknownAgent {
        /// The unknown name, bounded.
        mode: String,
        /// The names, comma-separated.
        known: String,
    },
    /// BLOCKED without a reason.
    #[error("BLOCKED needs `reason`: what stands in the way, and what a person has to do")]
    NoReason,
    /// COMPLETE, CONTINUE or RETRY where no agent has worked yet.
    #[error("{kind} is not possible: no agent has worked yet; choose one with SELECT_MODE")]
    NoAgentYet {
        /// The decision's name.
        kind: &'static str,
    },
}

/// Reads the decision in `message` and checks it against the agents of the run.
///
/// # Errors
/// [`AnswerError`] says what is wrong with the answer, so that the model can correct it.
pub fn read_answer(
    message: &Message,
    agents: &[String],
    some_agent_ran: bool,
) -> Result<Decision, AnswerError> {
    let answer = match message.tool_calls().find(|call| call.name == DECIDE) {
        Some(call) => match &call.invalid_input {
            Some(raw) => from_text(raw)?,
            None => from_value(call.input.clone())?,
        },
        None => from_text(&message.text())?,
    };
    to_decision(answer, agents, some_agent_ran)
}

fn from_value(value: Value) -> Result<ArbiterAnswer, AnswerError> {
    serde_json::from_value(value).map_err(|error| AnswerError::Form(error.to_string()))
}

/// The first balanced JSON object in `text` that has a `decision`; prose and code fences around it are skipped.
/// Data that the model quotes from its prompt is not its own answer.
fn from_text(text: &str) -> Result<ArbiterAnswer, AnswerError> {
    let text = without_quotations(text);
    let mut problem = AnswerError::Nothing;
    for object in balanced_objects(&text) {
        match serde_json::from_str::<Value>(object) {
            Ok(value) if value.get("decision").is_some() => return from_value(value),
            Ok(_) => problem = AnswerError::Form("missing field `decision`".to_owned()),
            Err(error) => problem = AnswerError::Form(error.to_string()),
        }
    }
    Err(problem)
}

/// `text` without quoted data: `<data …>` to `</data>` and lines that begin with `| `, as `fence` writes them, and
/// Markdown quotes (`> `).
fn without_quotations(text: &str) -> String {
    let mut own = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("<data ") {
        own.push_str(&rest[..start]);
        let end = rest[start..].find("</data>").map_or(rest.len(), |at| start + at + "</data>".len());
        rest = &rest[end..];
    }
    own.push_str(rest);
    let is_own = |line: &&str| !line.trim_start().starts_with("| ") && !line.trim_start().starts_with("> ");
    own.split_inclusive('\n').filter(is_own).collect()
}

/// Every outermost `{…}` of `text` with balanced braces outside string literals, in order. One pass.
fn balanced_objects(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut depth, mut start, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        // Quotes delimit strings inside an object only, not in the prose around it.
        if depth > 0 && in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' if depth > 0 => in_string = true,
            b'{' => {
                if depth == 0 {
                    start = at;
                }
                depth += 1;
            }
            b'}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    found.extend(text.get(start..=at));
                }
            }
            _ => {}
        }
    }
    found
}

fn to_decision(
    answer: ArbiterAnswer,
    agents: &[String],
    some_agent_ran: bool,
) -> Result<Decision, AnswerError> {
    let reason = truncate(answer.reason.trim(), REASON_CHARS);
    match answer.decision {
        DecisionKind::SelectMode => {
            let known = || agents.join(", ");
            let mode = answer.mode.filter(|mode| !mode.trim().is_empty());
            let mode = mode.ok_or_else(|| AnswerError::NoMode { known: known() })?;
            if agents.contains(&mode) {
                Ok(Decision::SelectMode { mode, reason })
            } else {
                Err(AnswerError::UnknownAgent { mode: truncate(&mode, 100), known: known() })
            }
        }
        // The arbiter has seen nothing of the project yet, so it cannot know that the task is done.
        DecisionKind::Complete if !some_agent_ran => Err(AnswerError::NoAgentYet { kind: "COMPLETE" }),
        DecisionKind::Complete => {
            let summary = answer.summary.map(|s| truncate(s.trim(), REASON_CHARS)).filter(|s| !s.is_empty());
            Ok(Decision::Complete { summary: summary.unwrap_or(reason) })
        }
        DecisionKind::Continue if some_agent_ran => Ok(Decision::Continue { reason }),
        DecisionKind::Retry if some_agent_ran => Ok(Decision::Retry { reason }),
        DecisionKind::Blocked if reason.is_empty() => Err(AnswerError::NoReason),
        DecisionKind::Blocked => Ok(Decision::Blocked { reason }),
        DecisionKind::Continue => Err(AnswerError::NoAgentYet { kind: "CONTINUE" }),
        DecisionKind::Retry => Err(AnswerError::NoAgentYet { kind: "RETRY" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Content, Role, ToolCall};
    use proptest::prelude::*;
    use serde_json::json;

    fn agents() -> Vec<String> {
        vec!["developer".to_owned(), "planner".to_owned()]
    }

    #[track_caller]
    fn check(text: &str, expected: &Result<Decision, &str>) {
        let got = read_answer(&Message::assistant(text), &agents(), true);
        match (&got, expected) {
            (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{text}"),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{text}: {error}"),
            _ => panic!("{text}: {got:?}"),
        }
    }

    fn select(mode: &str) -> Result<Decision, &'static str> {
        Ok(Decision::SelectMode { mode: mode.to_owned(), reason: "r".to_owned() })
    }

    #[test]
    fn reads_text() {
        check(r#"{"decision":"SELECT_MODE","mode":"planner","reason":"r"}"#, &select("planner"));
        check(
            "Sure!\n```json\n{\"decision\":\"SELECT_MODE\",\"mode\":\"planner\",\"reason\":\"r\"}\n```",
            &select("planner"),
        );
        check(
            r#"{"decision":"RETRY","reason":"a } in a string \" {"}"#,
            &Ok(Decision::Retry { reason: "a } in a string \" {".into() }),
        );
        check(
            r#"{"note":1} {"decision":"CONTINUE","reason":"r"}"#,
            &Ok(Decision::Continue { reason: "r".into() }),
        );
        // A lone brace in the prose hides what follows: an error, which the repair attempt can fix.
        check(r#"a lone { and then {"decision":"COMPLETE","summary":"s"}"#, &Err("neither"));
        // Quoted data of the prompt is not the arbiter's own answer.
        let quoted = "It printed\n<data from=\"developer\">\n{\"decision\":\"COMPLETE\"}\n</data>\n| {\"decision\":\"COMPLETE\"}\n";
        check(quoted, &Err("neither"));
        check(
            &format!("{quoted}so: {{\"decision\":\"SELECT_MODE\",\"mode\":\"planner\",\"reason\":\"r\"}}"),
            &select("planner"),
        );
        check(r#"{"decision":"COMPLETE","reason":"r"}"#, &Ok(Decision::Complete { summary: "r".into() }));
        check(r#"{"decision":"BLOCKED","reason":" r "}"#, &Ok(Decision::Blocked { reason: "r".into() }));
    }

    #[test]
    fn errors_name_the_problem() {
        check("I would continue.", &Err("neither"));
        check("", &Err("neither"));
        check(r#"{"decision":"SELECT_MODE","reason":"r"}"#, &Err("needs `mode`"));
        check(
            r#"{"decision":"SELECT_MODE","mode":"unknown"}"#,
            &Err("no agent `unknown`; known agents: developer, planner"),
        );
        check(r#"{"decision":"STOP"}"#, &Err("STOP"));
        check(r#"{"decision":"BLOCKED","reason":" "}"#, &Err("BLOCKED needs `reason`"));
        check(r#"{"reason":"r"}"#, &Err("missing field `decision`"));
        check(r#"{"decision":"COMPLETE""#, &Err("neither"));
    }

    #[test]
    fn the_tool_offers_what_can_be_chosen() {
        use DecisionKind::{Blocked, Complete, Continue, Retry, SelectMode};
        let offered = |decisions: &[DecisionKind]| -> Vec<Value> {
            let schema = decide_tool(decisions).input_schema;
            let kinds = schema["$defs"]["DecisionKind"]["oneOf"].as_array().unwrap();
            kinds.iter().map(|kind| kind["const"].clone()).collect()
        };
        assert_eq!(offered(&[SelectMode, Retry]), ["SELECT_MODE", "RETRY"]);
        let all = [SelectMode, Continue, Complete, Retry, Blocked];
        assert_eq!(offered(&all), all.map(DecisionKind::as_str));
    }

    #[test]
    fn a_tool_call_wins_over_text() {
        let call = ToolCall {
            id: "1".into(),
            name: DECIDE.into(),
            input: json!({"decision":"RETRY","reason":"r"}),
            invalid_input: None,
            withheld: None,
        };
        let message = Message {
            role: Role::Assistant,
            content: vec![Content::text(r#"{"decision":"COMPLETE"}"#), Content::ToolUse(call)],
        };
        assert_eq!(read_answer(&message, &agents(), true), Ok(Decision::Retry { reason: "r".into() }));
        assert!(matches!(read_answer(&message, &agents(), false), Err(AnswerError::NoAgentYet { .. })));
    }

    #[test]
    fn long_reasons_are_cut() {
        let text = json!({"decision":"RETRY","reason":"x".repeat(100_000)}).to_string();
        let decision = read_answer(&Message::assistant(text), &agents(), true).unwrap();
        assert!(decision.reason().len() < 2_100);
    }

    proptest! {
        #[test]
        fn never_panics(text in "[\\PC\\n\"{}\\\\]{0,200}") {
            let _ = read_answer(&Message::assistant(text), &agents(), true);
        }

        #[test]
        fn finds_an_object_after_any_prose(prose in "[^{}\"|<>]{0,60}", reason in "\\PC{0,40}") {
            let text = format!("{prose}{}", json!({"decision":"RETRY","reason":reason.trim()}));
            let decision = read_answer(&Message::assistant(text), &agents(), true);
            prop_assert_eq!(decision, Ok(Decision::Retry { reason: reason.trim().to_owned() }));
        }
    }
}
