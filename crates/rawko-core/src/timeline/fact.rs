//! What an entry of a timeline says.

use serde::{Serialize, Serializer};

use crate::error::ErrorInfo;
use crate::message::{Message, StopReason, ToolCall};
use crate::request::{ModelRequest, Purpose};
use crate::session::{Effect, EffectAnswer, EffectId, Note, Outcome, Override, TimerPurpose};
use crate::tool::ToolOutcome;
use crate::usage::Usage;

/// One fact. In JSON it is what `sessions export` writes: `type` in snake_case, and a note as it is. Facts without a
/// form there are for projections in Rust.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fact {
    /// The first task of the session began.
    #[serde(skip)]
    TaskStarted {
        /// The task.
        task: String,
    },
    /// The next task of the session began.
    TaskContinued {
        /// The task.
        task: String,
    },
    /// A task that a limit or its provider had ended was taken up again.
    TaskTakenUp,
    /// Another process resumed the session.
    SessionResumed,
    /// A person or a program asked the run to stop.
    CancelRequested {
        /// Why.
        reason: String,
    },
    /// A person overrode the arbiter. A note has the result.
    OverrideRequested {
        /// The command.
        command: Override,
    },
    /// The configuration was read again.
    AgentsReloaded,
    /// Other sessions run in the same folder.
    #[serde(skip)]
    RanBeside {
        /// Their ids.
        sessions: Vec<String>,
    },
    /// A model is called.
    #[serde(skip)]
    ModelCalled {
        /// The call.
        call: ModelCall,
        /// What is sent.
        request: Option<Box<ModelRequest>>,
    },
    /// A model answered.
    ModelReplied(Box<ModelReply>),
    /// A model call failed.
    ModelFailed {
        /// What failed, and why.
        error: ErrorInfo,
        /// The call.
        #[serde(skip)]
        call: ModelCall,
        /// What it used, as far as its provider said so.
        #[serde(skip)]
        usage: Option<Usage>,
        /// From question to failure, in milliseconds.
        #[serde(skip)]
        duration_ms: u64,
        /// Whether the same call is made again.
        #[serde(skip)]
        is_retried: bool,
    },
    /// The tokens of a model call were counted. The note that follows has the sums.
    #[serde(skip)]
    ModelPaid {
        /// The call.
        call: ModelCall,
        /// Its tokens.
        usage: Usage,
        /// Its cost in US dollars; absent where the price of its model is not known.
        cost_usd: Option<f64>,
    },
    /// A tool call begins. The calls of a turn are noted together, and some wait for others.
    #[serde(skip)]
    ToolBegun {
        /// The effect.
        effect: EffectId,
        /// The agent.
        agent: String,
        /// The call.
        call: ToolCall,
        /// The rule that allowed it.
        rule: String,
    },
    /// A tool call has ended.
    #[serde(skip)]
    ToolEnded(Box<ToolCallEnd>),
    /// Any other effect begins.
    #[serde(skip)]
    WorkBegun(Box<Effect>),
    /// Any other effect was answered, or the answer to a call is lost.
    #[serde(skip)]
    WorkEnded {
        /// The effect.
        effect: EffectId,
        /// The answer.
        answer: EffectAnswer,
    },
    /// The answer to an effect is no longer waited for.
    #[serde(skip)]
    Abandoned {
        /// The effect.
        effect: EffectId,
    },
    /// The run pauses because of an error.
    #[serde(skip)]
    Waiting {
        /// What failed, and why.
        error: ErrorInfo,
        /// Which attempt follows, from 2.
        attempt: u32,
        /// How long it lasts, in milliseconds.
        after_ms: u64,
        /// What is done again afterwards.
        purpose: TimerPurpose,
    },
    /// The task ended. It comes again if it becomes known later what was changed.
    #[serde(skip)]
    Ended(Box<Outcome>),
    /// What the core reports.
    #[serde(untagged)]
    Note(Note),
}

/// A model call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCall {
    /// Its effect.
    pub effect: EffectId,
    /// What it is for.
    pub purpose: Purpose,
    /// Name of the configured provider.
    pub provider: String,
    /// The model.
    pub model: String,
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelReply {
    /// The call.
    #[serde(rename = "agent", serialize_with = "speaker")]
    pub call: ModelCall,
    /// The answer as it came.
    #[serde(rename = "text", serialize_with = "text")]
    pub message: Message,
    /// Its tokens.
    #[serde(skip)]
    pub usage: Usage,
    /// Why it ended.
    #[serde(skip)]
    pub stop_reason: StopReason,
    /// From question to whole answer, in milliseconds.
    #[serde(skip)]
    pub duration_ms: u64,
    /// Whether it came from the arbiter's cache, so that no model was asked.
    #[serde(skip)]
    pub cached: bool,
}

/// The end of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallEnd {
    /// Its effect.
    pub effect: EffectId,
    /// The agent.
    pub agent: String,
    /// The provider's id of the call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// The result.
    pub outcome: ToolOutcome,
    /// Whether a note of the same event reports it. Else one follows later: the run is paused, or a person is asked first.
    pub is_noted: bool,
}

fn speaker<S: Serializer>(call: &ModelCall, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&call.purpose)
}

fn text<S: Serializer>(message: &Message, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&message.text())
}
