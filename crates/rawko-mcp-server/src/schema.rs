//! The tools: their names, what they say of themselves, and the form of their arguments.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolName {
    Start,
    Watch,
    Steer,
    Answer,
    Diff,
    Explain,
    Continue,
}

impl ToolName {
    const ALL: [Self; 7] =
        [Self::Start, Self::Watch, Self::Steer, Self::Answer, Self::Diff, Self::Explain, Self::Continue];

    /// The tool with this name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == name)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Watch => "watch",
            Self::Steer => "steer",
            Self::Answer => "answer",
            Self::Diff => "diff",
            Self::Explain => "explain",
            Self::Continue => "continue",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Start => "Start a task",
            Self::Watch => "Watch a session",
            Self::Steer => "Steer a session",
            Self::Answer => "Allow or deny a call that waits",
            Self::Diff => "Show what a session changed",
            Self::Explain => "Explain a session's decisions",
            Self::Continue => "Continue or resume a session",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Start => {
                "Starts a task in this project and returns at once with the session's id. The run goes on by itself; \
                 follow it with `watch`. All checks of the project verify it. One run at a time works in a project."
            }
            Self::Watch => {
                "Follows a session. Waits until something happens, at most `waitSeconds`, and returns the events since \
                 `after`, whether the session runs, what it waits for, and its end. Call it again with the `cursor` that \
                 it returned. Clients with the Tasks extension get a task that ends with the session, unless they give \
                 `waitSeconds`."
            }
            Self::Steer => {
                "Gives a running session a command of the user: `pause`, `go` (end the pause), `say` (needs `text`: tell \
                 the agents something), `force` (needs `agent`: this agent works now), `skip` (the plan's current step), \
                 `retry`, `reset` (begin the task anew) or `cancel`."
            }
            Self::Answer => {
                "Allows or denies, in the user's name, the call that a session waits for. `call` is the `call` of the \
                 question that `watch` returned: the answer counts for that call alone. Ask the user before you allow one."
            }
            Self::Diff => {
                "Shows what a session, or one of its executions, changed in the project, as a patch."
            }
            Self::Explain => {
                "Lists the decisions of a session: which agent worked next and why, and how each came about. With \
                 `decision`, one of them with its input, question, answer and alternatives."
            }
            Self::Continue => {
                "Gives a session that has ended its next `task`, with the same agents and conversations. Without `task`, \
                 goes on with a session that was interrupted. Limits of the session can be lowered and not raised. Returns at \
                 once; follow it with `watch`."
            }
        }
    }

    fn properties(self) -> Value {
        let session = json!({
            "type": "string",
            "description": "The session: its id, or the beginning or end of it; `last` is the latest. Left out: the one that is meant",
        });
        let terms = json!({
            "agent": {"type": "string", "description": "Begin with this agent, without asking the arbiter"},
            "maxIterations": {"type": "integer", "minimum": 1, "description": "Most executions of agents. This and the other limits can only be lower than those of the user and of the session"},
            "maxTokens": {"type": "integer", "minimum": 1, "description": "Most tokens of all model calls together"},
            "maxCostUsd": {"type": "number", "exclusiveMinimum": 0, "description": "Highest cost, in US dollars"},
            "timeout": {"type": "string", "description": "Longest time, like 90s, 30m or 2h"},
        });
        let with = |mut first: Value| {
            if let (Some(all), Some(more)) = (first.as_object_mut(), terms.as_object()) {
                all.extend(more.clone());
            }
            first
        };
        match self {
            Self::Start => with(json!({
                "task": {"type": "string", "description": "What to do, in words"},
            })),
            Self::Continue => with(json!({
                "session": session,
                "task": {"type": "string", "description": "What to do next. Left out: go on with the interrupted task"},
            })),
            Self::Watch => json!({
                "session": session,
                "after": {"type": "integer", "minimum": 0, "description": "The `cursor` of the last answer. Left out: from the beginning of the present task"},
                "waitSeconds": {"type": "integer", "minimum": 0, "maximum": 50, "description": "How long to wait for something new (default: 20)"},
                "detail": {"type": "string", "enum": ["brief", "full"], "description": "`brief` (default): the events that matter, as lines. `full`: every event as an object, as `rawko watch --json` prints them"},
            }),
            Self::Steer => json!({
                "session": session,
                "command": {"type": "string", "enum": ["pause", "go", "say", "force", "skip", "retry", "reset", "cancel"]},
                "text": {"type": "string", "description": "What to say, for `say`"},
                "agent": {"type": "string", "description": "The agent, for `force`"},
            }),
            Self::Answer => json!({
                "session": session,
                "call": {"type": "string", "minLength": 8, "description": "The `call` of the question"},
                "allow": {"type": "boolean", "description": "Whether the call may be made, this once"},
            }),
            Self::Diff => json!({
                "session": session,
                "execution": {"type": "integer", "minimum": 1, "description": "Only what this execution changed"},
                "filesOnly": {"type": "boolean", "description": "Only list the files"},
            }),
            Self::Explain => json!({
                "session": session,
                "decision": {"type": "integer", "minimum": 1, "description": "The number of a decision"},
            }),
        }
    }

    fn required(self) -> &'static [&'static str] {
        match self {
            Self::Start => &["task"],
            Self::Steer => &["command"],
            Self::Answer => &["call", "allow"],
            Self::Watch | Self::Diff | Self::Explain | Self::Continue => &[],
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let (reads_only, destroys, open_world) = match self {
            Self::Watch | Self::Diff | Self::Explain => (true, false, false),
            Self::Steer => (false, true, false),
            Self::Start | Self::Answer | Self::Continue => (false, true, true),
        };
        ToolAnnotations::from_raw(
            Some(self.title().to_owned()),
            Some(reads_only),
            Some(destroys),
            Some(reads_only),
            Some(open_world),
        )
    }

    fn tool(self) -> Tool {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": self.properties(),
            "required": self.required(),
            "additionalProperties": false,
        });
        let schema = schema.as_object().cloned().unwrap_or_default();
        Tool::new(self.as_str(), self.description(), Arc::new(schema))
            .with_title(self.title())
            .with_annotations(self.annotations())
    }
}

/// All tools.
pub(crate) fn tools() -> Vec<Tool> {
    ToolName::ALL.map(ToolName::tool).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_is_found_by_its_name_and_names_what_it_requires() {
        for tool in tools() {
            assert!(ToolName::of(&tool.name).is_some(), "{}", tool.name);
            let schema = Value::Object((*tool.input_schema).clone());
            for name in schema["required"].as_array().unwrap() {
                assert!(schema["properties"].get(name.as_str().unwrap()).is_some(), "{} {name}", tool.name);
            }
        }
        assert_eq!(ToolName::of("begin"), None);
    }
}
