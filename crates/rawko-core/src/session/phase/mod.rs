//! The phases of a run. Each variant owns the data of its phase: leaving a phase drops it.
//!
//! A phase waits for the answers to its open effects. An answer leads to the next phase, or ends the phase with an event
//! for the machine, which decides what follows. What outlives a phase is in the [`Ledger`]. `docs/phases.md` has the
//! diagram, generated from [`PhaseKind::transitions`].

mod approving;
mod asking;
mod checkpointing;
mod diagram;
pub(super) mod executing;
mod inspecting;
mod learning;
mod objection;
mod recalling;
mod retrying;
mod summarizing;
mod tools;
mod turn;
mod verifying;

pub use diagram::{PhaseKind, phase_diagram};
pub(super) use retrying::FailingCall;

use approving::Approving;
use asking::Asking;
use checkpointing::Checkpointing;
use inspecting::Inspecting;
use learning::Learning;
use recalling::Recalling;
use retrying::{CallFailure, Retrying};
use summarizing::Summarizing;
use tools::Tools;
use turn::Turn;
use verifying::Verifying;

use super::answer::EffectAnswer;
use super::effect::TimerPurpose;
use super::ledger::Ledger;
use super::open_effects::OpenEffect;
use super::{LimitKind, Reaction};
use crate::agent::execution::Execution;
use crate::approval::ApprovalQuestion;
use crate::error::{ErrorCode, ErrorInfo};
use crate::machine::{MachineEffect, MachineEvent};
use crate::message::{Message, StopReason, ToolCall};
use crate::request::ModelRequest;
use crate::usage::Usage;

/// What a run is waiting for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Phase {
    /// Nothing: the run has not begun, or it is over.
    #[default]
    Idle,
    /// The arbiter's model is asked which agent works next, or what follows an execution.
    Asking(Box<Asking>),
    /// A pause after an error, before the arbiter is asked again.
    BackingOff,
    /// A pause after a failed model call, which is then made again.
    Retrying(Box<Retrying>),
    /// The memories for an agent are looked up before it begins.
    Recalling(Recalling),
    /// The agent's model is asked for its next turn.
    Turn(Turn),
    /// The middle of the agent's conversation is summarized, so that the next turn fits the context window.
    Summarizing(Box<Summarizing>),
    /// The tool calls of a turn run.
    Tools(Tools),
    /// A person is asked for a call that the permissions do not grant; the other calls of the turn wait.
    Approving(Box<Approving>),
    /// The tree is saved before an execution first changes it; its tool calls wait.
    Checkpointing(Checkpointing),
    /// The execution is over, and the tree is compared with the checkpoints.
    Inspecting(Box<Inspecting>),
    /// The execution is over, and what it learned is kept as a memory.
    Learning(Box<Learning>),
    /// The checks run, before an execution is judged or a COMPLETE counts.
    Verifying(Verifying),
}

/// What follows from an answer.
pub(super) enum Next {
    /// The run waits in this phase.
    Phase(Phase),
    /// The phase is over; the machine decides what follows.
    Machine(MachineEvent),
    /// An execution is over; the machine decides what follows. The execution is kept in case the agent continues.
    Ended { event: MachineEvent, execution: Option<Box<Execution>> },
}

/// A model's answer.
pub(super) struct Reply<'a> {
    pub(super) message: &'a Message,
    pub(super) usage: Usage,
    pub(super) stop_reason: StopReason,
    pub(super) cached: bool,
    /// The most tokens that the answer could have.
    pub(super) limit: Option<u32>,
}

impl Phase {
    /// What follows from the answer to one of this phase's effects. `limit` is that of a model's answer, in tokens.
    pub(super) fn on(
        self,
        effect: OpenEffect,
        answer: &EffectAnswer,
        limit: Option<u32>,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> Next {
        use EffectAnswer as A;
        match (self, answer) {
            (phase, A::ModelReplied { message, usage, stop_reason, duration_ms: _, cached }) => {
                let (usage, stop_reason, cached) = (*usage, *stop_reason, *cached);
                let reply = Reply { message, usage, stop_reason, cached, limit };
                phase.on_reply(&reply, ledger, reaction)
            }
            (phase, A::ModelFailed { error, usage, .. }) => {
                let failure = CallFailure { error: error.clone(), was_cut: usage.is_some() };
                phase.on_failure(failure, ledger, reaction)
            }
            (phase, A::EffectLost) => phase.on_loss(effect, ledger, reaction),
            (Self::BackingOff, A::TimerFired) => asking::select(ledger, reaction),
            (Self::Retrying(phase), A::TimerFired) => (*phase).again(effect, ledger, reaction),
            (Self::Recalling(phase), A::MemoriesRecalled { recalled }) => {
                phase.recalled(recalled, ledger, reaction)
            }
            (Self::Tools(phase), A::ToolFinished { outcome }) => {
                phase.finished(effect, outcome.clone(), ledger, reaction)
            }
            (Self::Approving(phase), A::ApprovalAnswered { approval }) => {
                phase.answered(approval, ledger, reaction)
            }
            (Self::Checkpointing(phase), A::CheckpointTaken { checkpoint }) => {
                phase.taken(checkpoint, ledger, reaction)
            }
            (Self::Checkpointing(phase), A::CheckpointFailed { message }) => {
                phase.failed(message, ledger, reaction)
            }
            (Self::Inspecting(phase), A::TreeInspected { inspection }) => {
                phase.inspected(inspection, ledger, reaction)
            }
            (Self::Inspecting(phase), A::TreeInspectionFailed { message }) => {
                phase.failed(message, ledger, reaction)
            }
            (Self::Learning(phase), A::MemoryKept { kept }) => phase.kept(kept, reaction),
            (Self::Verifying(phase), A::VerificationFinished { verification }) => {
                phase.finished(verification, ledger, reaction)
            }
            (phase, _) => phase.ignore(reaction),
        }
    }

    fn on_reply(self, reply: &Reply<'_>, ledger: &mut Ledger, reaction: &mut Reaction) -> Next {
        match self {
            Self::Asking(phase) => phase.replied(reply, ledger, reaction),
            Self::Turn(phase) => phase.replied(reply, ledger, reaction),
            Self::Summarizing(phase) => phase.replied(reply, ledger, reaction),
            Self::Learning(phase) => phase.replied(reply, ledger, reaction),
            phase => phase.ignore(reaction),
        }
    }

    fn on_failure(self, failure: CallFailure, ledger: &mut Ledger, reaction: &mut Reaction) -> Next {
        let phase = match self {
            // A memory is not worth a wait.
            Self::Learning(phase) => return phase.failed(&failure.error, reaction),
            phase => match Retrying::after(&failure, phase, ledger, reaction) {
                Ok(next) => return next,
                Err(phase) => phase,
            },
        };
        let error = failure.error;
        match phase {
            Self::Asking(phase) => phase.failed(error, ledger, reaction),
            Self::Turn(phase) => phase.failed(error, ledger, reaction),
            Self::Summarizing(phase) => phase.failed(error, ledger, reaction),
            phase => phase.ignore(reaction),
        }
    }

    /// Whether another model is left for this phase's call.
    fn has_alternative(&self) -> bool {
        match self {
            Self::Asking(phase) => phase.has_alternative(),
            Self::Turn(phase) => phase.execution.has_alternative(),
            Self::Summarizing(phase) => phase.execution.has_alternative(),
            Self::Idle
            | Self::BackingOff
            | Self::Retrying(_)
            | Self::Recalling(_)
            | Self::Tools(_)
            | Self::Approving(_)
            | Self::Checkpointing(_)
            | Self::Inspecting(_)
            | Self::Learning(_)
            | Self::Verifying(_) => false,
        }
    }

    /// The process that performed an effect is gone: the effect is issued again, unless it may have changed something.
    fn on_loss(self, effect: OpenEffect, ledger: &mut Ledger, reaction: &mut Reaction) -> Next {
        match self {
            Self::Idle => self.ignore(reaction),
            Self::Asking(phase) => phase.ask(ledger, reaction),
            Self::BackingOff => match effect {
                OpenEffect::Timer { purpose, after_ms } => {
                    ledger.restart_timer(purpose, after_ms, reaction);
                    Next::Phase(self)
                }
                _ => self.ignore(reaction),
            },
            Self::Retrying(phase) => phase.resumed(ledger, reaction),
            Self::Recalling(phase) => phase.ask(ledger, reaction),
            Self::Turn(mut phase) => {
                phase.execution.hear_after_loss();
                Turn::start(phase.execution, ledger, reaction)
            }
            Self::Summarizing(phase) => phase.ask(ledger, reaction),
            Self::Tools(phase) => phase.lost(effect, ledger, reaction),
            Self::Approving(phase) => phase.again(ledger, reaction),
            Self::Checkpointing(phase) => phase.ask(ledger, reaction),
            Self::Inspecting(phase) => phase.ask(ledger, reaction),
            Self::Learning(phase) => phase.ask(ledger, reaction),
            Self::Verifying(phase) => phase.ask(ledger, reaction),
        }
    }

    /// The answer fits no effect of this phase. `OpenEffects` lets no such answer through.
    fn ignore(self, reaction: &mut Reaction) -> Next {
        debug_assert!(false, "an effect of {:?} was open in it, and its answer does not fit", self.kind());
        reaction.ignored = true;
        Next::Phase(self)
    }

    /// The phase that carries out what the machine wants. `previous` is the execution that ended last.
    pub(super) fn enter(
        effect: MachineEffect,
        previous: &mut Option<Box<Execution>>,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> Next {
        match effect {
            MachineEffect::SelectAgent { after_ms: _, decided: Some(decision) } => {
                Next::Machine(MachineEvent::AgentSelected { decision })
            }
            MachineEffect::SelectAgent { after_ms: 0, decided: None } => asking::select(ledger, reaction),
            MachineEffect::SelectAgent { after_ms, decided: None } => {
                if let Some(error) = ledger.cannot_wait(after_ms) {
                    return Self::BackingOff.fail(error, ledger, reaction);
                }
                ledger.start_timer(TimerPurpose::Backoff, after_ms, reaction);
                Next::Phase(Self::BackingOff)
            }
            MachineEffect::ExecuteAgent { agent, conversation } => {
                executing::start(&agent, conversation, previous.take(), ledger, reaction)
            }
            MachineEffect::EvaluateProgress => asking::evaluate(ledger, reaction),
            // The run does these itself: they leave a phase.
            MachineEffect::Abandon { .. } | MachineEffect::Finish { .. } => Next::Phase(Self::Idle),
        }
    }

    /// The run is about to end with `event`, and the checks have not seen its last tree.
    pub(super) fn last_checks(event: MachineEvent, ledger: &mut Ledger, reaction: &mut Reaction) -> Next {
        Verifying::last(event, ledger, reaction)
    }

    /// The arbiter is asked which agent works next.
    pub(super) fn select(ledger: &mut Ledger, reaction: &mut Reaction) -> Next {
        asking::select(ledger, reaction)
    }

    /// A timer other than the pause after an error ran out.
    pub(super) fn on_deadline(
        mut self,
        purpose: TimerPurpose,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> Next {
        match &mut self {
            Self::Retrying(phase) => phase.count(ledger),
            Self::Approving(phase) => phase.count(ledger),
            _ => {}
        }
        match purpose {
            TimerPurpose::Backoff | TimerPurpose::Retry => self.ignore(reaction),
            TimerPurpose::ExecutionDeadline | TimerPurpose::AgentBudget
                if ledger.extend(purpose, reaction) =>
            {
                Next::Phase(self)
            }
            TimerPurpose::ExecutionDeadline => {
                let message = "the agent's time for one execution is up (limits.timeout)";
                let error = ErrorInfo::new(ErrorCode::Timeout, message);
                executing::failed(self.into_execution(), error, ledger, reaction)
            }
            TimerPurpose::AgentBudget => match self.execution().map(|execution| execution.agent().to_owned())
            {
                Some(agent) => {
                    let why = ledger.agent_time_is_up(&agent);
                    match self.into_execution() {
                        Some(execution) => executing::out_of_budget(execution, why, ledger, reaction),
                        None => Next::Phase(Self::Idle),
                    }
                }
                None => self.ignore(reaction),
            },
            TimerPurpose::RunDeadline => {
                let message = "the run's time is up (constraints.maxDuration)";
                ledger.limit = Some(LimitKind::Time);
                self.fail(ErrorInfo::new(ErrorCode::BudgetExceeded, message), ledger, reaction)
            }
        }
    }

    /// Fails whatever is being done.
    fn fail(self, error: ErrorInfo, ledger: &mut Ledger, reaction: &mut Reaction) -> Next {
        use crate::machine::State;
        match ledger.machine.state() {
            State::Selecting => {
                ledger.abandon_phase(reaction);
                Next::Machine(MachineEvent::AgentSelectionFailed { error })
            }
            State::Executing => executing::failed(self.into_execution(), error, ledger, reaction),
            State::Evaluating => {
                ledger.abandon_phase(reaction);
                Next::Machine(MachineEvent::ArbiterError { error })
            }
            State::Idle | State::ErrorHandling | State::Complete | State::Failed | State::Cancelled => {
                self.ignore(reaction)
            }
        }
    }

    /// Adds what a failed call consumed to the decision or the execution that wanted it.
    pub(super) fn charge(&mut self, usage: Usage) {
        match self {
            Self::Asking(phase) => phase.consumed(usage),
            Self::Turn(phase) => phase.execution.consumed(usage),
            Self::Summarizing(phase) => phase.execution.consumed(usage),
            Self::Retrying(phase) => phase.phase.charge(usage),
            // The extractor's calls belong to the run, not to an agent.
            Self::Learning(_)
            | Self::Idle
            | Self::BackingOff
            | Self::Recalling(_)
            | Self::Tools(_)
            | Self::Approving(_)
            | Self::Checkpointing(_)
            | Self::Inspecting(_)
            | Self::Verifying(_) => {}
        }
    }

    /// The execution of this phase, if an agent is working in it.
    pub(super) fn execution(&self) -> Option<&Execution> {
        match self {
            Self::Turn(phase) => Some(&phase.execution),
            Self::Summarizing(phase) => Some(&phase.execution),
            Self::Tools(phase) => Some(&phase.execution),
            Self::Approving(phase) => Some(&phase.execution),
            Self::Checkpointing(phase) => Some(&phase.execution),
            Self::Inspecting(phase) => Some(&phase.execution),
            Self::Learning(phase) => Some(&phase.execution),
            Self::Retrying(phase) => phase.phase.execution(),
            Self::Idle | Self::Asking(_) | Self::BackingOff | Self::Recalling(_) | Self::Verifying(_) => None,
        }
    }

    /// The same, to tell the agent something.
    pub(super) fn execution_mut(&mut self) -> Option<&mut Execution> {
        match self {
            Self::Turn(phase) => Some(&mut phase.execution),
            Self::Summarizing(phase) => Some(&mut phase.execution),
            Self::Tools(phase) => Some(&mut phase.execution),
            Self::Approving(phase) => Some(&mut phase.execution),
            Self::Checkpointing(phase) => Some(&mut phase.execution),
            Self::Inspecting(phase) => Some(&mut phase.execution),
            Self::Learning(phase) => Some(&mut phase.execution),
            Self::Retrying(phase) => phase.phase.execution_mut(),
            Self::Idle | Self::Asking(_) | Self::BackingOff | Self::Recalling(_) | Self::Verifying(_) => None,
        }
    }

    /// The execution whose agent reads what is said now, if one is at work.
    pub(super) fn listener(&mut self) -> Option<&mut Execution> {
        match self {
            // These executions are over.
            Self::Inspecting(_) | Self::Learning(_) => None,
            Self::Retrying(phase) => phase.phase.listener(),
            phase => phase.execution_mut(),
        }
    }

    /// The same, leaving the phase.
    pub(super) fn into_execution(self) -> Option<Box<Execution>> {
        match self {
            Self::Turn(phase) => Some(phase.execution),
            Self::Summarizing(phase) => Some(phase.execution),
            Self::Tools(phase) => Some(phase.execution),
            Self::Approving(phase) => Some(phase.execution),
            Self::Checkpointing(phase) => Some(phase.execution),
            Self::Inspecting(phase) => Some(phase.execution),
            Self::Learning(phase) => Some(phase.execution),
            Self::Retrying(phase) => phase.phase.into_execution(),
            Self::Idle | Self::Asking(_) | Self::BackingOff | Self::Recalling(_) | Self::Verifying(_) => None,
        }
    }

    /// The request of this phase's model call, if it waits for one.
    pub(super) fn request(&self) -> Option<ModelRequest> {
        match self {
            Self::Asking(phase) => Some(phase.request()),
            Self::Turn(phase) => Some(phase.execution.request()),
            Self::Summarizing(phase) => Some(phase.request()),
            Self::Learning(phase) => phase.request(),
            Self::Idle
            | Self::BackingOff
            | Self::Retrying(_)
            | Self::Recalling(_)
            | Self::Tools(_)
            | Self::Approving(_)
            | Self::Checkpointing(_)
            | Self::Inspecting(_)
            | Self::Verifying(_) => None,
        }
    }

    /// Why this phase waits before its model call is made again, if it does.
    pub(super) fn waits_because_of(&self) -> Option<&ErrorInfo> {
        match self {
            Self::Retrying(phase) => Some(phase.error()),
            Self::Idle
            | Self::Asking(_)
            | Self::BackingOff
            | Self::Recalling(_)
            | Self::Turn(_)
            | Self::Summarizing(_)
            | Self::Tools(_)
            | Self::Approving(_)
            | Self::Checkpointing(_)
            | Self::Inspecting(_)
            | Self::Learning(_)
            | Self::Verifying(_) => None,
        }
    }

    /// The question that this phase waits for, if it does.
    pub(super) fn question(&self) -> Option<&ApprovalQuestion> {
        match self {
            Self::Approving(phase) => Some(phase.question()),
            _ => None,
        }
    }

    /// The agent and the tool call of an open effect of this phase.
    pub(super) fn open_call(&self, effect: OpenEffect) -> Option<(String, ToolCall)> {
        match (self, effect) {
            (Self::Tools(phase), OpenEffect::ToolCall(slot)) => phase.call(slot),
            _ => None,
        }
    }
}
