//! Records: the stored form of what happened. Changing one brings a new format.

use rawko_core::Timestamp;
use rawko_core::message::ToolCall;
use rawko_core::session::{Effect, EffectId, LostWork, Note, Stamped};
use rawko_core::text::hex;
use rawko_core::tool::{Refusal, ToolAccess};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The format that this rawko writes and reads.
pub const FORMAT: u32 = 10;
/// No journal is longer: some hundred thousand turns.
pub(super) const LONGEST_JOURNAL: u64 = 512 * 1024 * 1024;
/// No record is longer: its long texts are in blobs.
pub(super) const LONGEST_LINE: u64 = 32 * 1024 * 1024;

/// Arguments of a call that are repeated beside its effect; longer ones are only in the model's answer.
const INLINE_INPUT_BYTES: usize = 512;

/// The first record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalHeader {
    /// Format of the file.
    pub format: u32,
    /// The rawko that wrote it.
    pub rawko: String,
    /// The session's id.
    pub session: String,
    /// When it was begun.
    pub created_at: Timestamp,
    /// The beginning of the task, for lists; the whole task is in the first event.
    pub task: String,
    /// SHA-256 of the resolved configuration, in hexadecimal.
    pub config_digest: String,
    /// What the run did without: what the operating system did not enforce, and git where it was not installed. Empty in
    /// journals that do not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// By what the operating system confined the commands of the first process; absent where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confined: Option<String>,
    /// The seal of the user who began it; absent where there was no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
    /// Where it comes from, if it is a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// The place in a caller's trace that it belongs to (W3C Trace Context), where its first process was given one and sent
    /// telemetry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// What a fork was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkedFrom {
    /// The other session's id.
    pub session: String,
    /// Sequence number of its last record that the fork shares. A fork with another task has the setup alone: the first
    /// record, or the last one that changed the setup.
    pub record: u64,
    /// What the records after that one held, if they were damaged: then this is a repaired copy, or a fork of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostWork>,
}

/// What kind of record a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// The first line.
    Header,
    /// Something happened.
    Event,
    /// What it led to.
    Step,
}

/// One record as it is read back.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// Something happened.
    Event(Box<Stamped>),
    /// What it led to.
    Step(StepRecord),
}

/// The effects that an event led to, and what must be readable without deriving it again: decisions, denials, warnings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// In the order in which they are performed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<JournaledEffect>,
    /// In the order in which they arose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

impl StepRecord {
    /// The record of a step, without what the events themselves already hold.
    #[must_use]
    pub fn of(effects: &[Effect], notes: &[Note]) -> Self {
        Self {
            effects: effects.iter().map(JournaledEffect::of).collect(),
            notes: notes.iter().filter(|note| note.must_be_readable()).cloned().collect(),
        }
    }

    /// Whether there is nothing to record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty() && self.notes.is_empty()
    }
}

/// An effect as it is stored: a tool call's long arguments are named by their digest, because the model's answer,
/// a few lines above, holds them whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum JournaledEffect {
    /// A tool is to be run.
    RunTool {
        /// The effect.
        id: EffectId,
        /// Who calls.
        agent: String,
        /// The call.
        call: JournaledCall,
        /// What the tool may do.
        access: ToolAccess,
        /// The rule that allowed it.
        rule: String,
        /// What a person granted to this call alone.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        grants: Vec<Refusal>,
    },
    /// Any other effect, whole.
    #[serde(untagged)]
    Whole(Effect),
}

/// A tool call as it is stored beside its effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournaledCall {
    /// The provider's id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, where they are short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Digest of the arguments' JSON.
    pub input_digest: String,
}

impl JournaledEffect {
    /// The stored form of `effect`.
    #[must_use]
    pub fn of(effect: &Effect) -> Self {
        let Effect::RunTool { id, agent, call, access, rule, grants } = effect else {
            return Self::Whole(effect.clone());
        };
        Self::RunTool {
            id: *id,
            agent: agent.clone(),
            call: JournaledCall::of(call),
            access: *access,
            rule: rule.clone(),
            grants: grants.clone(),
        }
    }
}

impl JournaledCall {
    fn of(call: &ToolCall) -> Self {
        let text = call.input.to_string();
        Self {
            id: call.id.clone(),
            name: call.name.clone(),
            input: (text.len() <= INLINE_INPUT_BYTES).then(|| call.input.clone()),
            input_digest: digest(&[text.as_bytes()]),
        }
    }
}

/// The first 16 hexadecimal digits of SHA-256 over `parts`: enough against damage, which is what it is for.
pub(super) fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hex(hash.finalize().get(..8).unwrap_or_default())
}
