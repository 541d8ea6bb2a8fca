//! The user's commands to a run: pause it, send its agents a message, overrule the arbiter
//! (`docs/machine.md#manual-overrides`).
//!
//! Each command is an event. A command that has no meaning in the present state changes nothing, and its note says why.

use super::guard::GUARD_RULE;
use super::ledger::Ledger;
use super::reaction::Reaction;
use super::run::{RunState, forced};
use crate::agent::execution::Execution;
use crate::machine::{Decision, MachineEvent, State};
use crate::note::{DecisionPoint, DecisionRecord, DecisionSource, Note};
use crate::text::{keep_ends, truncate};
use crate::usage::Usage;
use crate::user_override::Override;

/// Bytes of one message of the user that agents are shown. Of a longer one they are shown both ends.
pub const SAID_BYTES: usize = 16 * 1024;
/// The messages that the arbiter is shown, and how many characters of each.
const SHOWN_TO_ARBITER: usize = 5;
const ARBITER_CHARS: usize = 1_000;

/// What the user has said during a task.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct UserWords {
    /// All messages, oldest first.
    all: Vec<String>,
    /// How many of them went into a request of an agent.
    read: usize,
}

impl UserWords {
    /// All messages, oldest first.
    pub(super) fn all(&self) -> &[String] {
        &self.all
    }

    /// The messages after the first `delivered`.
    pub(super) fn since(&self, delivered: usize) -> &[String] {
        self.all.get(delivered..).unwrap_or_default()
    }

    /// Whether no agent has read the last of them.
    pub(super) fn are_unread(&self) -> bool {
        self.read < self.all.len()
    }

    /// A request of `execution` goes out, with all messages for its agent.
    pub(super) fn read_by(&mut self, execution: &Execution) {
        self.read = self.read.max(execution.inbox.delivered());
    }

    /// The last messages, for the arbiter.
    pub(super) fn for_arbiter(&self) -> Vec<String> {
        let first = self.all.len().saturating_sub(SHOWN_TO_ARBITER);
        self.since(first).iter().map(|text| truncate(text, ARBITER_CHARS)).collect()
    }
}

impl RunState {
    /// Carries a command out, or says why it changes nothing. `request` is the name that its sender gave it.
    pub(super) fn overridden(&mut self, command: &Override, request: Option<&str>, reaction: &mut Reaction) {
        let ignored = self.refusal(command);
        reaction.ignored = ignored.is_some();
        reaction.notes.push(Note::Steered {
            command: command.clone(),
            request: request.map(str::to_owned),
            ignored,
        });
        if reaction.ignored {
            return;
        }
        match command {
            Override::ForceAgent { agent } => {
                let decision = Decision::SelectMode { mode: agent.clone(), reason: forced(agent) };
                self.overrule(
                    MachineEvent::ForceAgent { agent_name: agent.clone() },
                    Some(decision),
                    reaction,
                );
            }
            Override::SkipStep => self.overrule(MachineEvent::SkipStep, None, reaction),
            Override::Retry => {
                let decision = Decision::Retry { reason: "asked for by the user".to_owned() };
                self.overrule(MachineEvent::Retry, Some(decision), reaction);
            }
            Override::Pause => self.pause(reaction),
            Override::Go => {
                let held = self.end_pause(self.ledger.now, reaction);
                self.take_held(held, reaction);
            }
            Override::Reset => self.reset(reaction),
            Override::Say { text } => self.said(text),
        }
    }

    /// Why a command has no meaning now; `None` if it has one.
    pub(super) fn refusal(&self, command: &Override) -> Option<String> {
        let task = &self.ledger.task;
        if !matches!(task.state(), State::Selecting | State::Executing | State::Evaluating) {
            return Some("the run is over".to_owned());
        }
        let is_paused = self.ledger.user.pause.is_some();
        match command {
            Override::ForceAgent { agent } if !task.limits().knows(agent) => {
                let agents = task.limits().agents.join(", ");
                Some(format!("there is no agent `{agent}` (there are: {agents})"))
            }
            Override::SkipStep if task.context().plan.is_none() => Some(self.no_plan()),
            Override::Retry if task.context().current_mode.is_empty() => {
                Some("no agent has worked yet".to_owned())
            }
            Override::Pause if is_paused => Some("it is paused already".to_owned()),
            Override::Go if !is_paused => Some("it is not paused".to_owned()),
            Override::Say { text } if text.trim().is_empty() => Some("the message is empty".to_owned()),
            Override::ForceAgent { .. }
            | Override::SkipStep
            | Override::Retry
            | Override::Pause
            | Override::Go
            | Override::Reset
            | Override::Say { .. } => None,
        }
    }

    /// Why no step can be skipped. The plan that an agent has drafted is shown before it is the machine's.
    fn no_plan(&self) -> String {
        let drafts = |execution: &&Execution| self.ledger.task.plan_with(execution).is_some();
        match self.phase.execution().filter(drafts) {
            Some(execution) => format!(
                "the plan is a draft of {}; its steps can be skipped once that agent has reported",
                execution.agent()
            ),
            None if self.ledger.task.draft().is_some() => {
                "the plan is the draft of an agent that broke off; its steps can be skipped once an agent has reported"
                    .to_owned()
            }
            None => "there is no plan yet, and so no step to skip".to_owned(),
        }
    }

    /// Gives the machine a command. A pause ends, because the command begins something.
    fn overrule(&mut self, event: MachineEvent, decision: Option<Decision>, reaction: &mut Reaction) {
        let first = reaction.notes.len();
        self.feed(event, reaction);
        if let Some(decision) = decision.filter(|_| !reaction.ignored) {
            super::run::decided_by_user(decision, reaction);
            // The decision is reported before what it led to.
            reaction.notes[first..].rotate_right(1);
        }
    }

    /// Begins the task anew. What the tree is known to be, what was spent and the run's own time stay.
    fn reset(&mut self, reaction: &mut Reaction) {
        let task = self.ledger.task.context().task.clone();
        let anew = self.ledger.task.anew(&self.ledger.setup);
        self.feed(MachineEvent::Reset, reaction);
        self.previous = None;
        let Ledger { task: state, detector, failing, user, carried, .. } = &mut self.ledger;
        *state = anew;
        (*detector, *failing, *user) = Default::default();
        carried.forget_this_task();
        self.begin(&task, reaction);
    }

    fn said(&mut self, text: &str) {
        let text = keep_ends(text.trim(), SAID_BYTES);
        self.ledger.user.words.all.push(text.clone());
        if let Some(execution) = self.phase.listener() {
            execution.inbox.receive(text);
        }
    }
}

impl Ledger {
    /// What replaces a COMPLETE while no agent has read what the user said last; `None` if the COMPLETE stands.
    pub(super) fn must_be_read(&self, point: DecisionPoint) -> Option<Decision> {
        if !self.user.words.are_unread() {
            return None;
        }
        let reason = "the user has said something that no agent has read yet";
        let current = self.task.context().current_mode.as_str();
        let may_work = |name: &str| self.bar(name).is_none();
        if !current.is_empty() && self.setup.agents.contains_key(current) && may_work(current) {
            let reason = reason.to_owned();
            return Some(match point {
                DecisionPoint::Evaluate => Decision::Continue { reason },
                DecisionPoint::Select => Decision::SelectMode { mode: current.to_owned(), reason },
            });
        }
        let others: Vec<&str> =
            self.setup.agents.keys().map(String::as_str).filter(|name| may_work(name)).collect();
        let mode = crate::arbiter::another(&others, None, self.setup.default_agent.as_deref())?;
        Some(Decision::SelectMode { mode: mode.to_owned(), reason: reason.to_owned() })
    }
}

/// Reports a decision that no model was asked for: a person's, or that of a guard, which replaces `instead_of`.
pub(super) fn decided_unasked(
    point: DecisionPoint,
    decision: Decision,
    instead_of: Option<Decision>,
) -> Note {
    let by_guard = instead_of.is_some();
    Note::DecisionMade(Box::new(DecisionRecord {
        point,
        decision,
        source: if by_guard { DecisionSource::Rule } else { DecisionSource::Human },
        input: None,
        calls: Vec::new(),
        rejected: Vec::new(),
        rule: by_guard.then(|| GUARD_RULE.to_owned()),
        instead_of,
        cache_key: None,
        latency_ms: 0,
        usage: Usage::default(),
    }))
}
