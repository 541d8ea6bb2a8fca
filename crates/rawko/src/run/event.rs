//! The live events of a run: the notes of the core, and around them what only a live session has. The SDK's stream,
//! `stream-json` and the terminal all use them (`docs/cli.md`). They are projections: nothing is decided by them.

use rawko_core::session::{Note, Outcome, Session, SoFar};
use rawko_core::setup::{ProjectContext, RunLimits};
use rawko_core::timeline::{Fact, ToolCallEnd};
use rawko_core::tool::ToolOutcome;
use rawko_core::{ErrorCode, ErrorInfo, Timestamp};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::history::explain::Explanation;
use crate::journal::ForkedFrom;
use crate::run::denials::Denials;
use crate::setup::instructions::AGENTS;

/// One live event. In JSON, `type` is in snake_case and all other names are in camelCase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum RunEvent {
    /// Always first.
    SessionStarted {
        /// The session's id.
        session: String,
        /// The task.
        task: String,
        /// When the process began or resumed the session.
        at: Timestamp,
        /// The agents that can be selected.
        agents: Vec<String>,
        /// Path of the journal.
        journal: String,
        /// Whether it continues a session that an earlier process left.
        resumed: bool,
        /// Whether it is the next task of a session.
        #[serde(default, skip_serializing_if = "is_false")]
        continued: bool,
        /// The session that it is a fork of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forked_from: Option<ForkedFrom>,
        /// Whether this is a dry run, which changes nothing.
        #[serde(default, skip_serializing_if = "is_false")]
        dry_run: bool,
        /// What it stops at, of those that are configured by default too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<RunLimits>,
        /// What counts towards them already; absent where nothing does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        so_far: Option<Box<SoFar>>,
        /// What this run does without: what the operating system does not enforce, and git where it is not installed.
        degraded: Vec<String>,
        /// By what the operating system confines commands; absent where it does not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confined: Option<String>,
        /// The file of standing instructions that agents are given; absent where there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instructions: Option<InstructionsRead>,
        /// Names of the skills that agents are offered.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        skills: Vec<String>,
    },
    /// A tool call begins. The calls of a turn are reported together, and some wait for others.
    ToolBegun {
        /// The agent.
        agent: String,
        /// The provider's id of the call.
        call_id: String,
        /// The tool.
        tool: String,
    },
    /// A tool call has ended, and its result is reported later: the run is paused, or a person has to be asked first.
    ToolEnded {
        /// The agent.
        agent: String,
        /// The provider's id of the call.
        call_id: String,
        /// The tool.
        tool: String,
        /// Its outcome.
        outcome: ToolOutcome,
    },
    /// A piece of a model's text. A slow consumer loses some; the journal has the whole text.
    TextDelta {
        /// Whose text it is: an agent's name, `select` or `evaluate`.
        agent: String,
        /// The piece.
        text: String,
    },
    /// The run waits before it asks a model again. Waits shorter than a second are not reported. A wait ends early when
    /// the run is cancelled.
    Waiting {
        /// Why the last attempt failed.
        reason: ErrorCode,
        /// The provider's message.
        message: String,
        /// The provider; absent where the failure was not a provider's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<String>,
        /// When the wait ends; RFC 3339 in JSON.
        #[serde(with = "crate::run::waiting::rfc3339")]
        #[schemars(with = "String")]
        until: Timestamp,
        /// How long it lasts, in milliseconds.
        after_ms: u64,
        /// Which attempt follows, from 2.
        attempt: u32,
    },
    /// A model call failed. The machine retries, or the run ends.
    Error {
        /// What failed, and why.
        error: ErrorInfo,
    },
    /// Last in place of `session_finished`, where the run was suspended.
    SessionSuspended {
        /// The session's id.
        session: String,
    },
    /// Always last, exactly once, unless the run was suspended.
    SessionFinished {
        /// How it ended. In JSON its fields are beside `session`.
        #[serde(flatten)]
        outcome: Box<Outcome>,
        /// The session's id.
        session: String,
        /// What the agent that worked last said at its end; absent where none has ended its work.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
        /// The changes of the configuration that would have allowed what agents were denied, each once.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        would_allow: Vec<String>,
        /// Whether it was a dry run: then nothing was changed, whatever the status.
        #[serde(default, skip_serializing_if = "is_false")]
        dry_run: bool,
        /// The decisions, each with its exact input and prompt. Only a dry run has them, because its journal is deleted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
        decisions: Vec<Explanation>,
    },
    /// What the core reports. In JSON it is the note itself, so that every event is one flat object.
    #[serde(untagged)]
    Note(Note),
}

/// The standing instructions of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstructionsRead {
    /// The file, relative to the project.
    pub file: String,
    /// Whether agents read it as data, because the folder is not trusted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub as_data: bool,
}

/// The JSON Schema of an event, as `stream-json` writes it.
#[must_use]
pub fn event_schema() -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<RunEvent>();
    schema.insert("title".to_owned(), Value::from("rawko event"));
    schema.to_value()
}

impl InstructionsRead {
    /// Those of a run with this setup, if it has any.
    #[must_use]
    pub fn of(place: &ProjectContext) -> Option<Self> {
        place.instructions.as_ref()?;
        let file = place.instructions_from.clone().unwrap_or_else(|| AGENTS.to_owned());
        Some(Self { file, as_data: place.instructions_are_data })
    }
}

impl RunEvent {
    /// A warning of the driver or the command line. The core's own warnings are notes like any other.
    #[must_use]
    pub fn warning(message: impl Into<String>) -> Self {
        Self::Note(Note::Warned { message: message.into() })
    }

    /// The last event of a run.
    #[must_use]
    pub fn finished(session: &str, outcome: Outcome) -> Self {
        let (session, outcome) = (session.to_owned(), Box::new(outcome));
        Self::SessionFinished {
            session,
            outcome,
            answer: None,
            would_allow: Vec::new(),
            dry_run: false,
            decisions: Vec::new(),
        }
    }

    /// The same with what the agent that worked last has said.
    #[must_use]
    pub fn answered_by(mut self, folded: &Session) -> Self {
        if let Self::SessionFinished { answer, .. } = &mut self {
            *answer = folded.last_words().map(str::to_owned);
        }
        self
    }

    /// The same with what would have allowed what was denied.
    #[must_use]
    pub fn denied(mut self, denials: &Denials) -> Self {
        if let Self::SessionFinished { would_allow, .. } = &mut self {
            *would_allow = denials.changes().to_vec();
        }
        self
    }

    /// The live event for a fact that becomes known at `now`, if it has one. The first and the last event of a run, the text
    /// of models, and what the driver itself has to say are sent apart.
    #[must_use]
    pub fn of_fact(fact: Fact, now: Timestamp) -> Option<Self> {
        match fact {
            Fact::Note(note) => Some(Self::Note(note)),
            Fact::ToolBegun { effect: _, agent, call, rule: _ } => {
                Some(Self::ToolBegun { agent, call_id: call.id, tool: call.name })
            }
            Fact::ToolEnded(end) if !end.is_noted => {
                let ToolCallEnd { effect: _, agent, call_id, tool, outcome, is_noted: _ } = *end;
                Some(Self::ToolEnded { agent, call_id, tool, outcome: outcome.without_pictures() })
            }
            Fact::ModelFailed { error, is_retried: false, .. } => Some(Self::Error { error }),
            Fact::Waiting { error, attempt, after_ms, purpose: _ } => {
                Self::waiting(&error, attempt, after_ms, now)
            }
            _ => None,
        }
    }

    /// How the run ended, if this is its last event.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::SessionFinished { outcome, .. } => Some(outcome),
            Self::SessionStarted { .. }
            | Self::SessionSuspended { .. }
            | Self::ToolBegun { .. }
            | Self::ToolEnded { .. }
            | Self::TextDelta { .. }
            | Self::Waiting { .. }
            | Self::Error { .. }
            | Self::Note(_) => None,
        }
    }

    /// The same event for a dry run, with the decisions it made.
    #[must_use]
    pub(crate) fn of_dry_run(mut self, explained: Vec<Explanation>) -> Self {
        if let Self::SessionFinished { dry_run, decisions, .. } = &mut self {
            *dry_run = true;
            *decisions = explained;
        }
        self
    }

    /// Whether a slow consumer may miss it.
    #[must_use]
    pub fn is_droppable(&self) -> bool {
        matches!(self, Self::TextDelta { .. })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(value: &bool) -> bool {
    !*value
}
