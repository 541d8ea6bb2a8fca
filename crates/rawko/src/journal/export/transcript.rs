//! The transcript itself: the events folded once more, told in order.

use std::collections::BTreeMap;

use rawko_core::facts::Verification;
use rawko_core::machine::{Decision, Plan, State};
use rawko_core::request::Purpose;
use rawko_core::session::{
    Compaction, DecisionPoint, DecisionSource, Effect, EffectId, Event, KeptMemory, Note, Outcome, Override,
    Session,
};
use rawko_core::{ErrorInfo, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::journal::{Header, Journal, Record};

/// The form of the exported JSON.
const FORMAT: u32 = 1;

/// A session as it is exported.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Transcript {
    /// Form of this JSON; a change that could break a reader raises it.
    pub format: u32,
    /// The journal's header.
    pub header: Header,
    /// The whole task.
    pub task: String,
    /// The agents that could be selected, with their models.
    pub agents: BTreeMap<String, String>,
    /// What happened, in order.
    pub entries: Vec<Entry>,
    /// The plan as it was in the end, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Where the machine stands.
    pub state: State,
    /// The end; absent where the session is running or was interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// Sequence number of the record that tells of it.
    pub record: u64,
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub what: Happening,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Happening {
    /// A decision was taken.
    Decided {
        /// Which question it answers.
        point: DecisionPoint,
        /// The decision.
        decision: Decision,
        /// Where it came from.
        source: DecisionSource,
        /// Why answers of the model could not be used.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        rejected: Vec<String>,
    },
    /// An agent began, or went on.
    AgentStarted {
        /// Its name.
        agent: String,
        /// Which iteration of the run.
        iteration: u32,
        /// Whether it went on in its old conversation.
        continued: bool,
    },
    /// An agent spoke.
    Said {
        /// Its name.
        agent: String,
        /// Its words.
        text: String,
    },
    /// An agent called a tool.
    ToolCalled {
        /// Its name.
        agent: String,
        /// The provider's id of the call.
        call: String,
        /// The tool.
        tool: String,
        /// The arguments.
        input: Value,
        /// Whether it was allowed.
        allowed: bool,
        /// The rule that decided.
        rule: String,
        /// What came of it; absent where it was never answered.
        #[serde(skip_serializing_if = "Option::is_none")]
        answer: Option<ToolAnswer>,
    },
    /// The plan changed.
    PlanChanged {
        /// Who changed it.
        agent: String,
        /// The plan from then on.
        plan: Plan,
    },
    /// The tree was kept.
    CheckpointKept {
        /// Before which execution.
        iteration: u32,
        /// Under which name.
        checkpoint: String,
    },
    /// An agent was given memories of earlier runs.
    Recalled {
        /// Its name.
        agent: String,
        /// Their titles.
        titles: Vec<String>,
    },
    /// Something was learned.
    Remembered {
        /// By whom.
        agent: String,
        /// What.
        title: String,
        /// What became of it.
        kept: KeptMemory,
    },
    /// The verification commands were run.
    Verified {
        /// What came of it.
        verification: Verification,
    },
    /// A conversation was made shorter.
    Compacted {
        /// Whose.
        agent: String,
        /// How.
        how: Compaction,
        /// Tokens before, roughly.
        before: u64,
        /// Tokens after, roughly.
        after: u64,
    },
    /// A model did not answer.
    ModelFailed {
        /// Why.
        error: ErrorInfo,
    },
    /// Something was not as it should be.
    Warned {
        /// What.
        message: String,
    },
    /// Another process took the session up.
    Resumed,
    /// Somebody asked for the end.
    CancelRequested {
        /// Why.
        reason: String,
    },
    /// Somebody intervened.
    Overridden {
        /// How.
        command: Override,
    },
    /// The configuration was read again.
    AgentsReloaded,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnswer {
    /// What the model was told.
    pub output: String,
    /// Whether it failed.
    pub is_error: bool,
    /// Exit status, if a program was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Files written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<String>,
    /// Pictures that belong to it.
    #[serde(skip_serializing_if = "is_zero")]
    pub images: usize,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Transcript {
    /// What `journal` tells.
    #[must_use]
    pub fn of(journal: &Journal) -> Self {
        let mut telling = Telling::default();
        for (record, stored) in (1_u64..).zip(&journal.records) {
            let Record::Event(stamped) = stored else { continue };
            telling.place = (record, stamped.at);
            telling.event(&stamped.event);
            let reaction = telling.session.apply(stamped);
            for note in reaction.notes {
                telling.note(note);
            }
            for effect in reaction.effects {
                telling.effect(effect);
            }
        }
        let Telling { session, entries, plan, outcome, .. } = telling;
        let agents = session.setup().map(|setup| {
            let agents = setup.agents.iter();
            agents.map(|(name, agent)| (name.clone(), agent.model.model.clone())).collect()
        });
        let task = session.context().map(|context| context.task.clone());
        Self {
            format: FORMAT,
            header: journal.header.clone(),
            task: task.unwrap_or_else(|| journal.header.task.clone()),
            agents: agents.unwrap_or_default(),
            entries,
            plan,
            state: session.state(),
            outcome,
        }
    }
}

#[derive(Default)]
struct Telling {
    session: Session,
    entries: Vec<Entry>,
    plan: Option<Plan>,
    outcome: Option<Outcome>,
    /// The record and the instant that is being told of.
    place: (u64, Timestamp),
    /// Agents that were asked.
    asked: BTreeMap<EffectId, String>,
    /// Calls that wait for their answer: where they are told of.
    calls: BTreeMap<String, usize>,
}

impl Telling {
    fn tell(&mut self, what: Happening) {
        let (record, at) = self.place;
        self.entries.push(Entry { record, at, what });
    }

    /// What an event tells by itself, before what it leads to.
    fn event(&mut self, event: &Event) {
        match event {
            Event::ModelReplied { effect, message, .. } => {
                // What the arbiter answers is told as the decision that it led to.
                let text = message.text();
                if let Some(agent) = self.asked.remove(effect)
                    && !text.trim().is_empty()
                {
                    self.tell(Happening::Said { agent, text });
                }
            }
            Event::ModelFailed { error, .. } => self.tell(Happening::ModelFailed { error: error.clone() }),
            Event::SessionResumed { .. } => self.tell(Happening::Resumed),
            Event::CancelRequested { reason } => {
                self.tell(Happening::CancelRequested { reason: reason.clone() });
            }
            Event::OverrideRequested { command } => {
                self.tell(Happening::Overridden { command: command.clone() });
            }
            Event::AgentsReloaded { .. } => self.tell(Happening::AgentsReloaded),
            // These are told by the notes that they lead to, or are nothing to tell.
            Event::TaskStarted { .. }
            | Event::ToolFinished { .. }
            | Event::CheckpointTaken { .. }
            | Event::CheckpointFailed { .. }
            | Event::TreeInspected { .. }
            | Event::MemoriesRecalled { .. }
            | Event::MemoryKept { .. }
            | Event::TreeInspectionFailed { .. }
            | Event::VerificationFinished { .. }
            | Event::TimerFired { .. }
            | Event::EffectLost { .. } => {}
        }
    }

    fn note(&mut self, note: Note) {
        match note {
            Note::Decided(record) => self.tell(Happening::Decided {
                point: record.point,
                decision: record.decision,
                source: record.source,
                rejected: record.rejected,
            }),
            Note::AgentStarted { agent, iteration, continued } => {
                self.tell(Happening::AgentStarted { agent, iteration, continued });
            }
            Note::ToolCalled { agent, call, allowed, rule } => {
                self.calls.insert(call.id.clone(), self.entries.len());
                let (tool, input, call) = (call.name, call.input, call.id);
                self.tell(Happening::ToolCalled { agent, call, tool, input, allowed, rule, answer: None });
            }
            Note::ToolAnswered { agent: _, call_id, tool: _, outcome } => {
                let told = self.calls.remove(&call_id).and_then(|at| self.entries.get_mut(at));
                if let Some(Entry { what: Happening::ToolCalled { answer, .. }, .. }) = told {
                    *answer = Some(ToolAnswer {
                        output: outcome.content,
                        is_error: outcome.is_error,
                        exit_code: outcome.exit_code,
                        files_modified: outcome.files_modified,
                        images: outcome.images.len(),
                        duration_ms: outcome.duration_ms,
                    });
                }
            }
            Note::CheckpointKept { iteration, checkpoint } => {
                self.tell(Happening::CheckpointKept { iteration, checkpoint });
            }
            Note::PlanUpdated { agent, plan } => {
                self.plan = Some(plan.clone());
                self.tell(Happening::PlanChanged { agent, plan });
            }
            Note::Warned { message } => self.tell(Happening::Warned { message }),
            Note::Verified { verification } => self.tell(Happening::Verified { verification }),
            Note::Compacted { agent, how, before, after } => {
                self.tell(Happening::Compacted { agent, how, before, after });
            }
            Note::MemoriesInjected { agent, iteration: _, memories } => {
                let titles = memories.into_iter().map(|memory| memory.title).collect();
                self.tell(Happening::Recalled { agent, titles });
            }
            Note::Remembered { agent, title, kept } => {
                self.tell(Happening::Remembered { agent, title, kept });
            }
            Note::StateChanged { .. }
            | Note::Used { .. }
            | Note::MemoriesUsed { .. }
            | Note::VerificationStarted { .. } => {}
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::CallModel { id, purpose: Purpose::Agent { name }, .. } => {
                self.asked.insert(id, name);
            }
            Effect::Finish { outcome } => self.outcome = Some(*outcome),
            Effect::CallModel {
                purpose:
                    Purpose::Select | Purpose::Evaluate | Purpose::Summarize { .. } | Purpose::Remember { .. },
                ..
            }
            | Effect::RunTool { .. }
            | Effect::TakeCheckpoint { .. }
            | Effect::InspectTree { .. }
            | Effect::Recall { .. }
            | Effect::Remember { .. }
            | Effect::Verify { .. }
            | Effect::StartTimer { .. }
            | Effect::Abandon { .. } => {}
        }
    }
}
