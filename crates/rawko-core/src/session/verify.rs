//! Verified completion (`spec/tools-and-permissions.md`): a COMPLETE is held until the verification commands have
//! spoken, and the tree is looked at after every execution that may have changed it.

use super::Reaction;
use super::effect::Effect;
use super::note::{DecisionPoint, Note};
use super::run::{Open, Run};
use crate::error::{ErrorCode, ErrorInfo};
use crate::facts::{CommandRun, DiffStat, TreeInspection, VERIFY, Verification};
use crate::machine::{AgentResult, Decision, MachineEvent, State};
use crate::setup::VerifySetup;
use crate::text::keep_ends;

/// Bytes of a failed command's output that become part of the error's message.
const OUTPUT_BYTES: usize = 900;

/// What is known of the tree and of what proves it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Evidence {
    /// The last verification, and whether something may have been written since.
    pub(super) verification: Option<(Verification, Freshness)>,
    /// What the run changed, when it was last looked at.
    pub(super) changes: Option<DiffStat>,
    /// The execution before which the tree was kept last: it can be compared with.
    pub(super) kept_before: u32,
    /// An execution's result that waits for the tree to be looked at, or for what was learned to be kept.
    ending: Option<AgentResult>,
    /// A COMPLETE that waits for its proof.
    held: Option<(DecisionPoint, Decision)>,
}

/// Whether what was seen still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    /// Nothing was written since.
    Fresh,
    /// Something may have been written since.
    Stale,
}

impl Evidence {
    /// Something may have been written: what was proven before holds no longer.
    pub(super) fn touched(&mut self) {
        if let Some((_, freshness)) = &mut self.verification {
            *freshness = Freshness::Stale;
        }
    }

    /// The last verification, if it still holds.
    pub(super) fn fresh(&self) -> Option<&Verification> {
        let (verification, freshness) = self.verification.as_ref()?;
        (*freshness == Freshness::Fresh).then_some(verification)
    }

    /// The result that waits.
    pub(super) fn ending(&self) -> Option<&AgentResult> {
        self.ending.as_ref()
    }

    /// Has a result wait.
    pub(super) fn hold(&mut self, result: AgentResult) {
        self.ending = Some(result);
    }

    /// The result need not wait any longer.
    pub(super) fn release(&mut self) -> Option<AgentResult> {
        self.ending.take()
    }

    /// Nobody waits any more.
    pub(super) fn let_go(&mut self) {
        self.ending = None;
        self.held = None;
    }
}

impl Run {
    /// The arbiter says that the task is done: it is believed once the verification commands say so too.
    pub(super) fn completed(&mut self, point: DecisionPoint, decision: Decision, reaction: &mut Reaction) {
        let Some(verify) = self.setup.verify.clone() else {
            return self.feed(decided(point, decision), reaction);
        };
        self.evidence.held = Some((point, decision));
        reaction.notes.push(Note::VerificationStarted { commands: verify.commands });
        self.verify(reaction);
    }

    /// Other commands from now on: what those before them proved does not count.
    pub(super) fn verify_with(&mut self, commands: Option<&VerifySetup>) {
        let Some(commands) = commands else { return };
        self.setup.verify = Some(commands.clone()).filter(|verify| !verify.commands.is_empty());
        self.evidence.touched();
    }

    /// Runs the verification commands, or runs them again.
    pub(super) fn verify(&mut self, reaction: &mut Reaction) {
        let Some(verify) = self.setup.verify.clone() else {
            // Taken away since: a COMPLETE that waited for them is believed.
            if let Some((point, decision)) = self.evidence.held.take() {
                self.feed(decided(point, decision), reaction);
            }
            return;
        };
        let id = self.issue(Open::Verification);
        reaction.effects.push(Effect::Verify {
            id,
            commands: verify.commands,
            timeout_ms: verify.timeout_ms,
        });
    }

    pub(super) fn verification_finished(&mut self, verification: &Verification, reaction: &mut Reaction) {
        self.evidence.verification = Some((verification.clone(), Freshness::Fresh));
        reaction.notes.push(Note::Verified { verification: verification.clone() });
        let Some((point, decision)) = self.evidence.held.take() else { return };
        self.weigh(point, decision, verification, reaction);
    }

    /// Accepts a COMPLETE that nothing speaks against; a failed command is a failure like any other.
    fn weigh(
        &mut self,
        point: DecisionPoint,
        decision: Decision,
        verification: &Verification,
        reaction: &mut Reaction,
    ) {
        if verification.passed() {
            if !verification.proves() {
                let message = "the verification commands passed, but the tree they ran on is not known or was changed by them: the result is claimed, not verified";
                reaction.notes.push(Note::Warned { message: message.to_owned() });
            }
            return self.feed(decided(point, decision), reaction);
        }
        let alarm = self.breaker.verification_failed(verification);
        let stalled = self.heed_verification(alarm);
        let is_stalled = stalled.is_some();
        let error = stalled.unwrap_or_else(|| failure(verification));
        let context = self.machine.context();
        let at_limit = context.iteration_count >= self.machine.limits().max_iterations;
        let event = match point {
            // The machine ends here whatever is decided. As a failure it would hide that a limit ended it.
            DecisionPoint::Evaluate
                if at_limit && !is_stalled && self.machine.state() == State::Evaluating =>
            {
                MachineEvent::ArbiterDecision { decision: Decision::Retry { reason: error.message } }
            }
            DecisionPoint::Evaluate => MachineEvent::ArbiterError { error },
            DecisionPoint::Select => MachineEvent::AgentSelectionFailed { error },
        };
        self.feed(event, reaction);
    }

    /// An execution is over. If it may have changed the tree, the tree is looked at before anybody judges.
    pub(super) fn execution_done(&mut self, result: AgentResult, reaction: &mut Reaction) {
        let iteration = self.machine.context().iteration_count;
        if self.evidence.kept_before == iteration {
            self.evidence.ending = Some(result);
            self.inspect(reaction);
        } else {
            self.result_known(result, reaction);
        }
    }

    /// Looks at the tree, or looks again.
    pub(super) fn inspect(&mut self, reaction: &mut Reaction) {
        let iteration = self.machine.context().iteration_count;
        let id = self.issue(Open::Inspection);
        reaction.effects.push(Effect::InspectTree { id, iteration });
    }

    pub(super) fn inspected(&mut self, inspection: &TreeInspection, reaction: &mut Reaction) {
        let Some(mut result) = self.evidence.ending.take() else { return };
        result.facts.diff = Some(inspection.execution.clone());
        self.evidence.changes = Some(inspection.run.clone());
        self.result_known(result, reaction);
    }

    pub(super) fn inspection_failed(&mut self, message: &str, reaction: &mut Reaction) {
        let Some(result) = self.evidence.ending.take() else { return };
        let message =
            format!("the tree could not be looked at, so the arbiter is not told how it changed: {message}");
        reaction.notes.push(Note::Warned { message });
        self.result_known(result, reaction);
    }
}

/// How the machine hears of a decision.
pub(super) fn decided(point: DecisionPoint, decision: Decision) -> MachineEvent {
    match point {
        DecisionPoint::Select => MachineEvent::AgentSelected { decision },
        DecisionPoint::Evaluate => MachineEvent::ArbiterDecision { decision },
    }
}

/// What is wrong, with the output as it was seen. Nothing is short of supply, so nobody needs to wait.
fn failure(verification: &Verification) -> ErrorInfo {
    let failed = verification.runs.iter().find(|run| !run.passed());
    let message = failed.map_or_else(|| "no verification command was run".to_owned(), describe);
    let error = ErrorInfo::new(ErrorCode::ToolFailure, message);
    ErrorInfo { tool: Some(VERIFY.to_owned()), retry_after_ms: Some(0), ..error }
}

fn describe(run: &CommandRun) -> String {
    let CommandRun { command, exit_code, output, .. } = run;
    let how =
        exit_code.map_or_else(|| "did not end by itself".to_owned(), |code| format!("exited with {code}"));
    let output = keep_ends(output.trim(), OUTPUT_BYTES);
    format!("The task is not done: the verification command `{command}` {how}.\n{output}")
}
