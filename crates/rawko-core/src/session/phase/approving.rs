//! Asks a person for a call that the permissions do not grant; the other calls of the turn wait.

use super::{ExecutionStage, FollowUp, executing};
use crate::agent::execution::{Execution, ExecutionStep, Unapproved};
use crate::approval::{Approval, ApprovalQuestion};
use crate::note::Note;
use crate::session::answer::OpenEffect;
use crate::session::effect::Effect;
use crate::session::ledger::Ledger;
use crate::session::reaction::Reaction;
use crate::time::Timestamp;

/// A call that waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct Approving {
    /// The call's place in its turn.
    slot: usize,
    question: ApprovalQuestion,
    /// The time from which the wait is not yet taken off the working time of the agent.
    since: Timestamp,
}

impl Approving {
    /// Asks for the call at `slot`, unless the same was asked for before and not allowed.
    pub(super) fn start(
        mut execution: Box<Execution>,
        slot: usize,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        let Some(Unapproved { call, needs, why, .. }) = execution.calls.unapproved(slot) else {
            return executing::follow(execution, ExecutionStep::Wait, ledger, reaction);
        };
        let agent = execution.agent();
        if ledger.user.approvals.was_refused(agent, &call, &needs) {
            let words = "The user was asked for this very call before, and did not allow it.";
            let step = refuse(&mut execution, slot, words, ledger, reaction);
            return executing::follow(execution, step, ledger, reaction);
        }
        let number = ledger.open.last().0 + 1;
        let question = ledger.question(number, agent, &call, &needs, &why);
        Box::new(Self { slot, question, since: ledger.now }).ask(execution, ledger, reaction)
    }

    fn ask(
        self: Box<Self>,
        execution: Box<Execution>,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        let id = ledger.open.issue(OpenEffect::Approval);
        let question = Box::new(self.question.clone());
        reaction.notes.push(Note::ApprovalRequested(question.clone()));
        reaction.effects.push(Effect::AskUser { id, question });
        FollowUp::working(execution, ExecutionStage::Approving(self))
    }

    /// The process that asked is gone. The question stays the same, and so does its deadline: an answer that was given
    /// meanwhile counts. The pause was no working time anyway.
    pub(super) fn again(
        mut self: Box<Self>,
        execution: Box<Execution>,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        self.since = ledger.now;
        self.ask(execution, ledger, reaction)
    }

    pub(super) fn answered(
        mut self: Box<Self>,
        mut execution: Box<Execution>,
        approval: &Approval,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        self.count(ledger);
        let Self { slot, question, .. } = *self;
        reaction.notes.push(Note::ApprovalAnswered {
            agent: question.agent.clone(),
            call_id: question.call.id.clone(),
            digest: question.digest,
            approval: approval.clone(),
        });
        let words = match approval {
            Approval::Allowed { .. } => {
                ledger.detector.approved();
                ledger.user.approvals.allow_hosts(execution.agent(), &question.call, &question.needs);
                let step = execution.approved(slot, &mut reaction.notes);
                return executing::follow(execution, step, ledger, reaction);
            }
            Approval::Denied { .. } => {
                "The user was asked for this very call and said no. Find another way, or report what is missing."
            }
            Approval::Expired => {
                "The user was asked for this very call, and did not answer in time. Find another way, or report what is \
                 missing."
            }
            Approval::Unattended => {
                "There was no person to ask for it. Find another way, or report what is missing."
            }
        };
        ledger.user.approvals.refuse(execution.agent(), &question.call, &question.needs);
        let step = refuse(&mut execution, slot, words, ledger, reaction);
        executing::follow(execution, step, ledger, reaction)
    }

    /// Takes the time that was waited until now off the working time of the agent.
    pub(super) fn count(&mut self, ledger: &mut Ledger) {
        ledger.spend.waited(ledger.now.since(self.since));
        self.since = ledger.now;
    }

    /// The question.
    pub(in crate::session) fn question(&self) -> &ApprovalQuestion {
        &self.question
    }
}

/// The call is refused for good.
fn refuse(
    execution: &mut Execution,
    slot: usize,
    words: &str,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> ExecutionStep {
    let unapproved = execution.calls.unapproved(slot);
    let step = execution.not_approved(slot, words, &mut reaction.notes);
    if let Some(Unapproved { call, permit, outcome, is_judged: true, has_run: false, .. }) = unapproved {
        ledger.watch_call(execution, &call, permit.access, &outcome);
    }
    ledger.watch_refused(execution);
    step
}
