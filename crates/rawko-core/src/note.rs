//! What a run reports to people and programs. One word for one fact: live events, journal steps and exports all hold a
//! [`Note`], and where an [`Event`](crate::session::Event) carries the same fact, the note has its name.
//!
//! Notes are projections of events, so a live run and a replay give the same ones. Nothing is decided by them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::agent::Compaction;
use crate::approval::{Approval, ApprovalQuestion};
use crate::effect_id::EffectId;
use crate::facts::Verification;
use crate::hosted::{self, HostedResult};
use crate::machine::{Decision, Plan, State};
use crate::memory::{KeptMemory, MemoryUse, RecalledMemory, Unmet};
use crate::message::{Message, ToolCall};
use crate::policy::WEB_SEARCH;
use crate::tool::ToolOutcome;
use crate::usage::Usage;
use crate::user_override::Override;

/// The rule that notes name for calls that a provider runs.
const BY_PROVIDER: &str = "run by the provider";

/// One reported fact. In JSON, `type` is in snake_case and all other names are in camelCase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Note {
    /// The machine went from one state to another.
    StateChanged {
        /// The state it left.
        from: State,
        /// The state it entered.
        to: State,
        /// Executions begun so far.
        iteration: u32,
    },
    /// The arbiter, a rule or a person decided.
    DecisionMade(Box<DecisionRecord>),
    /// An agent begins an execution, or continues one.
    AgentStarted {
        /// The agent's name.
        agent: String,
        /// Which execution of the run, from 1.
        iteration: u32,
        /// Whether it continues its earlier conversation.
        continued: bool,
    },
    /// An agent called a tool. Denied calls are never run.
    ToolCalled {
        /// The agent's name.
        agent: String,
        /// The call as the model made it.
        call: ToolCall,
        /// Whether the policy allowed it.
        allowed: bool,
        /// The rule that decided.
        rule: String,
    },
    /// A person is asked for a call that the permissions do not grant; the run waits. Asked again after a resume.
    ApprovalRequested(Box<ApprovalQuestion>),
    /// The question was answered, or its time was up.
    ApprovalAnswered {
        /// The agent's name.
        agent: String,
        /// The provider's id of the call.
        call_id: String,
        /// The question.
        digest: String,
        /// The answer.
        #[serde(flatten)]
        approval: Approval,
    },
    /// A tool call was answered: by the tool, by the policy or by the core.
    ToolFinished {
        /// The agent's name.
        agent: String,
        /// The provider's id of the call.
        call_id: String,
        /// The tool's name.
        tool: String,
        /// The result, without the data of its pictures.
        outcome: ToolOutcome,
    },
    /// The tree was saved before an execution first changed it. `rewind` can restore it.
    CheckpointTaken {
        /// The execution that was about to change the tree.
        iteration: u32,
        /// Name of the checkpoint: a commit.
        checkpoint: String,
    },
    /// An agent was given memories of earlier runs.
    MemoriesRecalled {
        /// The agent's name.
        agent: String,
        /// In which execution.
        iteration: u32,
        /// The memories, best first.
        memories: Vec<RecalledMemory>,
        /// How many more match, and why they are not given.
        #[serde(default, skip_serializing_if = "Unmet::is_empty")]
        unmet: Unmet,
    },
    /// Which of the recalled memories the agent used, and how its execution ended.
    MemoriesUsed {
        /// The agent's name.
        agent: String,
        /// In which execution.
        iteration: u32,
        /// One entry for each memory it was given.
        uses: Vec<MemoryUse>,
    },
    /// An agent learned something, and it was kept as a memory or refused.
    MemoryKept {
        /// The agent's name.
        agent: String,
        /// What it learned, in one line.
        title: String,
        /// Where it was kept, or why it was not.
        kept: KeptMemory,
    },
    /// The verification commands are about to run.
    VerificationStarted {
        /// The command lines.
        commands: Vec<String>,
    },
    /// The verification commands ran.
    VerificationFinished {
        /// The commands' results, and the tree they ran on.
        verification: Verification,
    },
    /// A conversation was shortened because it came near the model's limit.
    ConversationCompacted {
        /// The agent whose conversation it is.
        agent: String,
        /// How it was shortened.
        how: Compaction,
        /// Estimated tokens before.
        before: u64,
        /// Estimated tokens after.
        after: u64,
    },
    /// A request of an agent does not begin with its last one, so the provider's prompt cache has less of it.
    CachePrefixChanged {
        /// The agent whose request it is.
        agent: String,
        /// The first part that differs.
        change: PrefixChange,
    },
    /// The plan changed.
    PlanUpdated {
        /// The agent that changed it.
        agent: String,
        /// The whole plan as it is now.
        plan: Plan,
    },
    /// A model call used tokens.
    TokensUsed {
        /// The model call.
        effect: EffectId,
        /// Who called: an agent's name, `select` or `evaluate`.
        agent: String,
        /// Tokens of this call.
        usage: Usage,
        /// Tokens of all calls of the session so far. A fork counts from zero after its shared beginning.
        total: Usage,
        /// Cost of all calls so far, in US dollars; absent where a price is not known.
        cost_usd: Option<f64>,
    },
    /// The user steered the run, or tried to.
    Steered {
        /// What the user wanted.
        command: Override,
        /// The name that the sender gave the command, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<String>,
        /// Why it changed nothing; absent where it was carried out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ignored: Option<String>,
    },
    /// The run is paused: what is under way ends, and nothing new begins.
    RunPaused,
    /// The pause is over.
    RunUnpaused {
        /// How long it lasted, in milliseconds.
        after_ms: u64,
    },
    /// Something is wrong, and the run continues.
    Warned {
        /// What is wrong, and what was done about it.
        message: String,
    },
}

impl Note {
    /// Whether the journal keeps it for people who read it, although its events lead to it.
    #[must_use]
    pub fn must_be_readable(&self) -> bool {
        match self {
            Self::DecisionMade(_)
            | Self::Warned { .. }
            | Self::StateChanged { .. }
            | Self::CheckpointTaken { .. }
            | Self::VerificationFinished { .. }
            | Self::ConversationCompacted { .. }
            | Self::Steered { .. }
            | Self::RunPaused
            | Self::RunUnpaused { .. }
            | Self::ApprovalAnswered { .. }
            // A judgement stays, whatever a later rawko would make of it.
            | Self::MemoriesUsed { .. } => true,
            Self::ToolCalled { allowed, .. } => !allowed,
            Self::AgentStarted { .. }
            | Self::VerificationStarted { .. }
            | Self::MemoriesRecalled { .. }
            | Self::MemoryKept { .. }
            | Self::ToolFinished { .. }
            // Its effect holds the question.
            | Self::ApprovalRequested(_)
            | Self::CachePrefixChanged { .. }
            | Self::PlanUpdated { .. }
            | Self::TokensUsed { .. } => false,
        }
    }

    /// The calls that a provider ran itself for `message`, and their results.
    pub(crate) fn of_hosted_calls(agent: &str, message: &Message) -> Vec<Self> {
        let mut notes = Vec::new();
        for block in hosted::blocks(message) {
            if let Some(call) = &block.call {
                let (agent, call, rule) = (agent.to_owned(), call.clone(), BY_PROVIDER.to_owned());
                notes.push(Self::ToolCalled { agent, call, allowed: true, rule });
            }
            if let Some(HostedResult { call_id, content, is_error }) = &block.result {
                let (content, is_error) = (content.clone(), *is_error);
                let outcome = ToolOutcome { content, is_error, ..ToolOutcome::default() };
                let (agent, call_id, tool) = (agent.to_owned(), call_id.clone(), WEB_SEARCH.to_owned());
                notes.push(Self::ToolFinished { agent, call_id, tool, outcome });
            }
        }
        notes
    }
}

/// The first part of a request that differs from the agent's last one, in the order in which caches go
/// (`docs/providers.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PrefixChange {
    /// Another model or provider is asked, or with other settings.
    Model,
    /// The agent has other tools.
    Tools,
    /// The agent's instructions, its limits or the project's standing instructions are different.
    SystemPrompt,
    /// Other memories end the system prompt of a new conversation.
    Memories,
    /// The conversation was made shorter.
    Shortened,
    /// The agent began another conversation, after the same system prompt.
    NewConversation,
}

/// A decision with everything that explains it (`docs/arbiter.md`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionRecord {
    /// The question that the decision answers.
    pub point: DecisionPoint,
    /// The decision.
    pub decision: Decision,
    /// Where it came from.
    pub source: DecisionSource,
    /// The arbiter's input (`docs/arbiter.md`); absent for a person's decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The model calls that led to it; the events that answer these calls hold the raw answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<EffectId>,
    /// Why the model's answers could not be used, one entry for each, and one more if its provider did not answer in the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<String>,
    /// The rule that decided, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The decision that a guard replaced with this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<Decision>,
    /// Key of the question in the decision cache, where the decision may be cached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<String>,
    /// From question to decision, in milliseconds.
    pub latency_ms: u64,
    /// Tokens of the model calls.
    pub usage: Usage,
}

/// Which question a decision answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecisionPoint {
    /// Which agent works next.
    Select,
    /// How the run continues after an execution.
    Evaluate,
}

/// Where a decision came from (`docs/arbiter.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecisionSource {
    /// The arbiter's model.
    Llm,
    /// The rules.
    Rule,
    /// The decision cache: the same question was answered before.
    Cache,
    /// The rules, because the model gave no usable answer, or its provider none at all.
    Fallback,
    /// A person.
    Human,
}
