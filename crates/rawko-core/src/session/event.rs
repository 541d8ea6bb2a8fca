//! The events of a session. The journal is a list of events, and the state is their fold.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::answer::EffectAnswer;
use super::landing::Landing;
use super::lost::Lost;
use super::outcome::EndedTask;
use crate::effect_id::EffectId;
use crate::facts::TreeInspection;
use crate::setup::{AgentSetup, RunLimits, Setup, VerifySetup};
use crate::time::Timestamp;
use crate::user_override::Override;

/// An event with its time: the only source of time in the core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stamped {
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// Something that happened: an effect was answered, or the outside intervened.
///
/// In JSON an answered effect is one flat object, `{"effect": 3, "type": "ToolFinished", …}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "type", rename_all_fields = "camelCase")]
pub enum Event {
    /// An effect was performed, or its outcome is lost.
    #[serde(skip)]
    Answered {
        /// The effect's id.
        effect: EffectId,
        /// The answer to it.
        answer: EffectAnswer,
    },
    /// A run began.
    TaskStarted {
        /// The task in the user's words.
        task: String,
        /// The setup of the run.
        setup: Box<Setup>,
        /// In a fork: how many events, including this one, belong to the session that it was forked from. That session
        /// is charged for them.
        #[serde(default, skip_serializing_if = "is_zero")]
        shared_events: u64,
    },
    /// The next task of the session began, after the one before it had ended.
    TaskContinued {
        /// The task in the user's words.
        task: String,
        /// The setup of the run from now on.
        setup: Box<Setup>,
        /// Files that agents had seen and that have changed since.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed_files: Vec<String>,
        /// What was lost before.
        #[serde(default, skip_serializing_if = "Lost::is_empty")]
        lost: Lost,
        /// The earlier tasks of the session, oldest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ended: Vec<EndedTask>,
    },
    /// A task that a limit or its provider had ended was taken up again.
    TaskTakenUp {
        /// The limits from now on. Earlier spending counts.
        limits: RunLimits,
        /// Files that agents had seen and that have changed since.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed_files: Vec<String>,
        /// New verification commands, if the user gave some.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verify: Option<VerifySetup>,
        /// What was lost before.
        #[serde(default, skip_serializing_if = "Lost::is_empty")]
        lost: Lost,
    },
    /// A new process resumed the session after the previous one was gone.
    SessionResumed {
        /// Files that agents had seen and that have changed since.
        changed_files: Vec<String>,
        /// New verification commands, if the user gave some; without a command, nothing proves the task done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verify: Option<VerifySetup>,
        /// New limits, if the user gave some.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<RunLimits>,
        /// What was lost before.
        #[serde(default, skip_serializing_if = "Lost::is_empty")]
        lost: Lost,
    },
    /// The user intervened.
    OverrideRequested {
        /// What the user wants.
        command: Override,
        /// The name that its sender gave it, by which the note that answers it is found.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<String>,
    },
    /// The user asked to stop.
    CancelRequested {
        /// The reason, for people.
        reason: String,
    },
    /// After the run had ended, the tree was compared with the checkpoints: the last work on it was cut off before that.
    FinalTreeInspected {
        /// What is different.
        inspection: TreeInspection,
    },
    /// After the run had ended, its work was landed, or was not.
    WorkLanded {
        /// What became of it.
        landing: Landing,
    },
    /// Other sessions run in the same folder: what they change is seen as this one's.
    RanBeside {
        /// Their ids.
        sessions: Vec<String>,
    },
    /// The configuration changed on disk and was read again.
    AgentsReloaded {
        /// The agents from now on.
        agents: BTreeMap<String, AgentSetup>,
    },
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Event {
    /// The event that answers `effect`.
    #[must_use]
    pub fn answered(effect: EffectId, answer: EffectAnswer) -> Self {
        Self::Answered { effect, answer }
    }

    /// Its name, as the journal has it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Answered { effect: _, answer } => answer.name(),
            Self::TaskStarted { .. } => "TaskStarted",
            Self::TaskContinued { .. } => "TaskContinued",
            Self::TaskTakenUp { .. } => "TaskTakenUp",
            Self::SessionResumed { .. } => "SessionResumed",
            Self::OverrideRequested { .. } => "OverrideRequested",
            Self::CancelRequested { .. } => "CancelRequested",
            Self::FinalTreeInspected { .. } => "FinalTreeInspected",
            Self::WorkLanded { .. } => "WorkLanded",
            Self::RanBeside { .. } => "RanBeside",
            Self::AgentsReloaded { .. } => "AgentsReloaded",
        }
    }

    /// Whether it only makes more known of an end that has come: the end comes again then.
    #[must_use]
    pub fn completes_end(&self) -> bool {
        matches!(self, Self::FinalTreeInspected { .. } | Self::WorkLanded { .. })
    }

    /// The effect that it answers, if it answers one.
    #[must_use]
    pub fn answers(&self) -> Option<EffectId> {
        match self {
            Self::Answered { effect, answer: _ } => Some(*effect),
            Self::TaskStarted { .. }
            | Self::TaskContinued { .. }
            | Self::TaskTakenUp { .. }
            | Self::SessionResumed { .. }
            | Self::OverrideRequested { .. }
            | Self::CancelRequested { .. }
            | Self::FinalTreeInspected { .. }
            | Self::WorkLanded { .. }
            | Self::RanBeside { .. }
            | Self::AgentsReloaded { .. } => None,
        }
    }
}

// The flat form of an answer is written here by hand, because a derived untagged variant would report every damaged
// event as "did not match any variant".
impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Answered<'a> {
            effect: EffectId,
            #[serde(flatten)]
            answer: &'a EffectAnswer,
        }
        match self {
            Self::Answered { effect, answer } => Answered { effect: *effect, answer }.serialize(serializer),
            other => Self::serialize(other, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Answered {
            effect: EffectId,
            #[serde(flatten)]
            answer: EffectAnswer,
        }
        let fields = Map::deserialize(deserializer)?;
        let name = fields.get("type").and_then(Value::as_str);
        let is_answer = name.is_some_and(|name| EffectAnswer::NAMES.contains(&name));
        let fields = Value::Object(fields);
        let event = if is_answer {
            Answered::deserialize(fields).map(|Answered { effect, answer }| Self::Answered { effect, answer })
        } else {
            Self::deserialize(fields)
        };
        event.map_err(serde::de::Error::custom)
    }
}
