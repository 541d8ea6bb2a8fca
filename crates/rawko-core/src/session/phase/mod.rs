//! The phases of a run. Each variant owns the data of its phase: leaving a phase drops it.
//!
//! A phase waits for the answers to its open effects. An answer leads to the next phase, or ends the phase with an event
//! for the machine, which decides what follows. What outlives a phase is in the [`Ledger`]. `docs/phases.md` has the
//! diagram, generated from [`PhaseKind::transitions`].

mod approving;
pub(super) mod asking;
mod checkpointing;
mod diagram;
mod executing;
pub(super) mod hooks;
mod inspecting;
mod learning;
mod objection;
mod outside;
mod recalling;
mod retrying;
mod summarizing;
mod tools;
mod turn;
pub(super) mod verifying;

pub use diagram::{PhaseKind, phase_diagram};

use approving::Approving;
use asking::PendingDecision;
use hooks::HooksPhase;
use learning::Learning;
use recalling::Recalling;
use retrying::{CallFailure, Retrying};
use verifying::Verifying;

use super::answer::{EffectAnswer, OpenEffect};
use super::effect::TimerPurpose;
use super::ledger::Ledger;
use super::{LimitKind, Reaction};
use crate::agent::execution::{AllowedCall, Execution, PendingSummary};
use crate::error::{ErrorCode, ErrorInfo};
use crate::machine::{AgentResult, MachineEffect, MachineEvent};
use crate::message::{Message, StopReason};
use crate::usage::Usage;

/// What a run is waiting for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum RunPhase {
    /// Nothing: the run has not begun, or it is over.
    #[default]
    Idle,
    /// The arbiter's model is asked which agent works next, or what follows an execution.
    Asking(Box<PendingDecision>),
    /// A pause after an error, before the arbiter is asked again.
    BackingOff,
    /// A pause after a failed model call, which is then made again.
    Retrying(Box<Retrying>),
    /// The memories for an agent are looked up before it begins.
    Recalling(Recalling),
    /// An agent works, or what it did is settled.
    Working(Box<Execution>, ExecutionStage),
    /// The checks run, before an execution is judged or a COMPLETE counts.
    Verifying(Verifying),
    /// Hooks are asked before the first agent begins, or before the run ends as complete.
    Hooks(Box<HooksPhase>),
}

/// What an execution waits for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ExecutionStage {
    /// The agent's model is asked for its next turn.
    Turn,
    /// The middle of the agent's conversation is summarized, so that the next turn fits the context window.
    Summarizing(Box<PendingSummary>),
    /// The tool calls of a turn run.
    Tools,
    /// The agent's own program works.
    Outside,
    /// A person is asked for a call that the permissions do not grant; the other calls of the turn wait.
    Approving(Box<Approving>),
    /// The tree is saved before an execution first changes it; these tool calls wait.
    Checkpointing(Vec<AllowedCall>),
    /// The execution is over with this result, and hooks are asked about it.
    Hooks(Box<AgentResult>),
    /// The execution is over with this result, and the tree is compared with the checkpoints.
    Inspecting(Box<AgentResult>),
    /// The execution is over, and what it learned is kept as a memory.
    Learning(Box<Learning>),
}

/// What follows from an answer.
pub(super) enum FollowUp {
    /// The run waits in this phase.
    Phase(RunPhase),
    /// The phase is over; the machine decides what follows.
    Machine(MachineEvent),
    /// An execution is over; the machine decides what follows. The execution is kept in case the agent continues.
    Ended { event: MachineEvent, execution: Option<Box<Execution>> },
}

impl FollowUp {
    /// The execution waits in this step.
    fn working(execution: Box<Execution>, step: ExecutionStage) -> Self {
        Self::Phase(RunPhase::Working(execution, step))
    }
}

/// A model's answer.
pub(super) struct ModelCompletion<'a> {
    pub(super) message: &'a Message,
    pub(super) usage: Usage,
    pub(super) stop_reason: StopReason,
    pub(super) cached: bool,
    /// The most tokens that the answer could have.
    pub(super) limit: Option<u32>,
}

impl RunPhase {
    /// What follows from the answer to one of this phase's effects. `limit` is that of a model's answer, in tokens.
    pub(super) fn on(
        self,
        effect: OpenEffect,
        answer: &EffectAnswer,
        limit: Option<u32>,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        use EffectAnswer as A;
        match (self, answer) {
            (phase, A::ModelReplied { message, usage, stop_reason, duration_ms: _, cached }) => {
                let (usage, stop_reason, cached) = (*usage, *stop_reason, *cached);
                let reply = ModelCompletion { message, usage, stop_reason, cached, limit };
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
            (Self::Verifying(phase), A::VerificationFinished { verification }) => {
                phase.finished(verification, ledger, reaction)
            }
            (Self::Hooks(phase), A::HooksAnswered { reply }) => phase.answered(reply, ledger, reaction),
            (Self::Working(execution, step), answer) => match (step, answer) {
                (ExecutionStage::Tools, A::ToolFinished { outcome }) => {
                    tools::finished(execution, effect, outcome.clone(), ledger, reaction)
                }
                (ExecutionStage::Outside, A::OutsideAgentEnded { work }) => {
                    outside::ended(execution, work, ledger, reaction)
                }
                (ExecutionStage::Approving(step), A::ApprovalAnswered { approval }) => {
                    step.answered(execution, approval, ledger, reaction)
                }
                (ExecutionStage::Checkpointing(calls), A::CheckpointTaken { checkpoint }) => {
                    checkpointing::answered(execution, calls, Ok(checkpoint), ledger, reaction)
                }
                (ExecutionStage::Checkpointing(calls), A::CheckpointFailed { message }) => {
                    checkpointing::answered(execution, calls, Err(message), ledger, reaction)
                }
                (ExecutionStage::Hooks(result), A::HooksAnswered { reply }) => {
                    hooks::answered_after_execution(execution, result, reply, ledger, reaction)
                }
                (ExecutionStage::Inspecting(result), A::TreeInspected { inspection }) => {
                    inspecting::inspected(execution, result, inspection, ledger, reaction)
                }
                (ExecutionStage::Inspecting(result), A::TreeInspectionFailed { message }) => {
                    inspecting::failed(execution, *result, message, ledger, reaction)
                }
                (ExecutionStage::Learning(step), A::MemoryKept { kept }) => {
                    step.kept(execution, kept, reaction)
                }
                (step, _) => Self::Working(execution, step).ignore(reaction),
            },
            (phase, _) => phase.ignore(reaction),
        }
    }

    fn on_reply(self, reply: &ModelCompletion<'_>, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
        match self {
            Self::Asking(phase) => phase.replied(reply, ledger, reaction),
            Self::Working(execution, step) => match step {
                ExecutionStage::Turn => turn::replied(execution, reply, ledger, reaction),
                ExecutionStage::Summarizing(summary) => {
                    summarizing::replied(execution, &summary, reply, ledger, reaction)
                }
                ExecutionStage::Learning(step) => step.replied(execution, reply, ledger, reaction),
                step => Self::Working(execution, step).ignore(reaction),
            },
            phase => phase.ignore(reaction),
        }
    }

    fn on_failure(self, failure: CallFailure, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
        let phase = match self {
            Self::Working(execution, ExecutionStage::Learning(step)) => {
                return step.nothing_learned(execution, &failure.error.message, reaction);
            }
            phase => match Retrying::after(&failure, phase, ledger, reaction) {
                Ok(next) => return next,
                Err(phase) => phase,
            },
        };
        let error = failure.error;
        match phase {
            Self::Asking(phase) => phase.failed(error, ledger, reaction),
            Self::Working(execution, ExecutionStage::Turn) => {
                turn::failed(execution, error, ledger, reaction)
            }
            Self::Working(execution, ExecutionStage::Summarizing(summary)) => {
                summarizing::failed(execution, summary, error, ledger, reaction)
            }
            phase => phase.ignore(reaction),
        }
    }

    /// The process that performed an effect is gone: the effect is issued again, unless it may have changed something.
    fn on_loss(self, effect: OpenEffect, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
        match self {
            Self::Idle => self.ignore(reaction),
            Self::Asking(phase) => phase.ask(ledger, reaction),
            Self::BackingOff => match effect {
                OpenEffect::Timer { purpose, after_ms } => {
                    ledger.restart_timer(purpose, after_ms, reaction);
                    FollowUp::Phase(self)
                }
                _ => self.ignore(reaction),
            },
            Self::Retrying(phase) => phase.resumed(ledger, reaction),
            Self::Recalling(phase) => phase.ask(ledger, reaction),
            Self::Verifying(phase) => phase.ask(ledger, reaction),
            Self::Hooks(phase) => phase.ask(ledger, reaction),
            Self::Working(mut execution, step) => match step {
                ExecutionStage::Turn => {
                    execution.deliver_after_loss();
                    turn::start(execution, ledger, reaction)
                }
                ExecutionStage::Summarizing(summary) => {
                    summarizing::ask(execution, summary, ledger, reaction)
                }
                ExecutionStage::Tools => tools::lost(execution, effect, ledger, reaction),
                ExecutionStage::Outside => outside::lost(execution, ledger, reaction),
                ExecutionStage::Approving(step) => step.again(execution, ledger, reaction),
                ExecutionStage::Checkpointing(calls) => {
                    checkpointing::ask(execution, calls, ledger, reaction)
                }
                ExecutionStage::Hooks(result) => {
                    hooks::ask_after_execution(execution, result, ledger, reaction)
                }
                ExecutionStage::Inspecting(result) => inspecting::ask(execution, result, ledger, reaction),
                ExecutionStage::Learning(step) => step.ask(execution, ledger, reaction),
            },
        }
    }

    /// The answer fits no effect of this phase. `OpenEffects` lets no such answer through.
    fn ignore(self, reaction: &mut Reaction) -> FollowUp {
        debug_assert!(false, "an effect of {:?} was open in it, and its answer does not fit", self.kind());
        reaction.ignored = true;
        FollowUp::Phase(self)
    }

    /// The phase that carries out what the machine wants. `previous` is the execution that ended last.
    pub(super) fn enter(
        effect: MachineEffect,
        previous: &mut Option<Box<Execution>>,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        match effect {
            MachineEffect::SelectAgent { after_ms: _, decided: Some(decision) } => {
                FollowUp::Machine(MachineEvent::AgentSelected { decision })
            }
            MachineEffect::SelectAgent { after_ms: 0, decided: None } => asking::select(ledger, reaction),
            MachineEffect::SelectAgent { after_ms, decided: None } => {
                if let Some(error) = ledger.cannot_wait(after_ms) {
                    return Self::BackingOff.fail(error, ledger, reaction);
                }
                ledger.start_timer(TimerPurpose::Backoff, after_ms, reaction);
                FollowUp::Phase(Self::BackingOff)
            }
            MachineEffect::ExecuteAgent { agent, conversation } => {
                executing::start(&agent, conversation, previous.take(), ledger, reaction)
            }
            MachineEffect::EvaluateProgress => asking::evaluate(ledger, reaction),
            // The run does these itself: they leave a phase.
            MachineEffect::Abandon { .. } | MachineEffect::Finish { .. } => FollowUp::Phase(Self::Idle),
        }
    }

    /// A timer other than the pause after an error ran out.
    pub(super) fn on_deadline(
        mut self,
        purpose: TimerPurpose,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        match &mut self {
            Self::Retrying(phase) => phase.count(ledger),
            Self::Working(_, ExecutionStage::Approving(step)) => step.count(ledger),
            _ => {}
        }
        match purpose {
            TimerPurpose::Backoff | TimerPurpose::Retry => self.ignore(reaction),
            TimerPurpose::ExecutionDeadline | TimerPurpose::AgentBudget
                if ledger.extend(purpose, reaction) =>
            {
                FollowUp::Phase(self)
            }
            TimerPurpose::ExecutionDeadline => {
                let message = "the agent's time for one execution is up (limits.timeout)";
                let error = ErrorInfo::new(ErrorCode::Timeout, message);
                executing::failed(self.into_execution().ok(), error, ledger, reaction)
            }
            TimerPurpose::AgentBudget => match self.into_execution() {
                Ok(execution) => {
                    let why = ledger.agent_time_is_up(execution.agent());
                    executing::out_of_budget(execution, why, ledger, reaction)
                }
                Err(phase) => phase.ignore(reaction),
            },
            TimerPurpose::RunDeadline => {
                let message = "the run's time is up (constraints.maxDuration)";
                ledger.task.limit = Some(LimitKind::Time);
                self.fail(ErrorInfo::new(ErrorCode::BudgetExceeded, message), ledger, reaction)
            }
        }
    }

    /// Fails whatever is being done.
    fn fail(self, error: ErrorInfo, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
        use crate::machine::State;
        match ledger.task.state() {
            State::Selecting => {
                ledger.abandon_phase(reaction);
                FollowUp::Machine(MachineEvent::AgentSelectionFailed { error })
            }
            State::Executing => executing::failed(self.into_execution().ok(), error, ledger, reaction),
            State::Evaluating => {
                ledger.abandon_phase(reaction);
                FollowUp::Machine(MachineEvent::ArbiterError { error })
            }
            State::Idle | State::ErrorHandling | State::Complete | State::Failed | State::Cancelled => {
                self.ignore(reaction)
            }
        }
    }

    /// Adds what a failed call consumed to the decision or the execution that wanted it. The extractor's calls belong to the
    /// run, not to an agent.
    pub(super) fn charge(&mut self, usage: Usage) {
        match self {
            Self::Asking(phase) => phase.consumed(usage),
            Self::Working(execution, ExecutionStage::Turn | ExecutionStage::Summarizing(_)) => {
                execution.record.used(usage);
            }
            _ => {}
        }
    }

    /// The execution of this phase, if there is one.
    pub(super) fn execution(&self) -> Option<&Execution> {
        match self {
            Self::Working(execution, _) => Some(execution),
            Self::Retrying(phase) => phase.phase.execution(),
            _ => None,
        }
    }

    /// The same, to send the agent a message.
    pub(super) fn execution_mut(&mut self) -> Option<&mut Execution> {
        match self {
            Self::Working(execution, _) => Some(execution),
            Self::Retrying(phase) => phase.phase.execution_mut(),
            _ => None,
        }
    }

    /// The execution whose agent reads what is said now, if one is at work.
    pub(super) fn listener(&mut self) -> Option<&mut Execution> {
        match self {
            // These executions are over.
            Self::Working(
                _,
                ExecutionStage::Hooks(_) | ExecutionStage::Inspecting(_) | ExecutionStage::Learning(_),
            ) => None,
            Self::Retrying(phase) => phase.phase.listener(),
            phase => phase.execution_mut(),
        }
    }

    /// The execution, leaving the phase; the phase itself if it has none.
    pub(super) fn into_execution(self) -> Result<Box<Execution>, Self> {
        match self {
            Self::Working(execution, _) => Ok(execution),
            Self::Retrying(phase) => phase.phase.into_execution(),
            phase => Err(phase),
        }
    }
}
