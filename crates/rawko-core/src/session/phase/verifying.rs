//! Verified completion (`docs/spec/verification.md`): a COMPLETE counts only after the verification commands have run.

use super::{Next, Phase};
use crate::error::{ErrorCode, ErrorInfo};
use crate::facts::{CommandRun, VERIFY, Verification};
use crate::machine::{Decision, MachineEvent, State};
use crate::note::{DecisionPoint, Note};
use crate::session::Reaction;
use crate::session::effect::Effect;
use crate::session::ledger::Ledger;
use crate::session::open_effects::OpenEffect;
use crate::session::steering::completion_replaced;
use crate::session::tree::Freshness;
use crate::setup::VerifySetup;
use crate::text::keep_ends;

/// Bytes of a failed command's output that become part of the error's message.
const OUTPUT_BYTES: usize = 900;

/// A COMPLETE that waits for its proof.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct Verifying {
    point: DecisionPoint,
    decision: Decision,
}

impl Verifying {
    /// The arbiter says that the task is done; the verification commands run, if there are any.
    pub(super) fn start(
        point: DecisionPoint,
        decision: Decision,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> Next {
        if let Some(objection) = ledger.objection() {
            reaction.warn(format!("not accepted as done: {objection}"));
            let (error, is_stalled) = ledger.refuse_completion(&objection);
            return refused(point, error, is_stalled, ledger);
        }
        if let Some(verify) = &ledger.setup.verify {
            reaction.notes.push(Note::VerificationStarted { commands: verify.commands.clone() });
        }
        Self { point, decision }.ask(ledger, reaction)
    }

    /// Runs the verification commands, or runs them again. If they were taken away, the COMPLETE stands.
    pub(super) fn ask(self, ledger: &mut Ledger, reaction: &mut Reaction) -> Next {
        let Some(VerifySetup { commands, timeout_ms, found, tests, changed_checks }) =
            ledger.setup.verify.clone()
        else {
            return Next::Machine(decided(self.point, self.decision));
        };
        let seen_red = ledger.has_seen_red(&commands);
        let id = ledger.open.issue(OpenEffect::Verification);
        reaction.effects.push(Effect::Verify {
            id,
            commands,
            timeout_ms,
            tests,
            changed_checks,
            seen_red,
            found,
        });
        Next::Phase(Phase::Verifying(self))
    }

    /// Accepts the COMPLETE if every command passed; a failed command is a failure like any other.
    pub(super) fn finished(
        self,
        verification: &Verification,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> Next {
        let Self { point, decision } = self;
        ledger.tree.verification = Some((verification.clone(), Freshness::Fresh));
        reaction.notes.push(Note::VerificationFinished { verification: verification.clone() });
        let is_denied = verification.is_denied();
        if (verification.passed() || verification.had_nothing_to_prove()) && !is_denied {
            if let Some(doubt) = verification.doubt() {
                reaction.warn(format!("{}: the result is claimed, not verified", doubt.message));
            }
            if let Some(by) = ledger.must_be_read(point) {
                completion_replaced(point, by.clone(), decision, reaction);
                return Next::Machine(decided(point, by));
            }
            return Next::Machine(decided(point, decision));
        }
        let stalled = ledger.watch_verification(verification);
        let is_stalled = stalled.is_some();
        let error = stalled.unwrap_or_else(|| failure(verification));
        refused(point, error, is_stalled, ledger)
    }
}

/// A COMPLETE does not count because of `error`: a failure like any other.
fn refused(point: DecisionPoint, error: ErrorInfo, is_stalled: bool, ledger: &Ledger) -> Next {
    let at_limit = ledger.iteration() >= ledger.machine.limits().max_iterations;
    Next::Machine(match point {
        // The machine ends here whatever is decided. A failure would hide that a limit ended it.
        DecisionPoint::Evaluate if at_limit && !is_stalled && ledger.machine.state() == State::Evaluating => {
            MachineEvent::ArbiterDecision { decision: Decision::Retry { reason: error.message } }
        }
        DecisionPoint::Evaluate => MachineEvent::ArbiterError { error },
        DecisionPoint::Select => MachineEvent::AgentSelectionFailed { error },
    })
}

impl Ledger {
    /// Changes the verification commands. What the old ones proved no longer counts.
    pub(in crate::session) fn verify_with(&mut self, commands: &VerifySetup) {
        self.setup.verify = Some(commands.clone()).filter(|verify| !verify.commands.is_empty());
        self.tree.touched();
    }
}

/// The machine's event for a decision.
pub(super) fn decided(point: DecisionPoint, decision: Decision) -> MachineEvent {
    match point {
        DecisionPoint::Select => MachineEvent::AgentSelected { decision },
        DecisionPoint::Evaluate => MachineEvent::ArbiterDecision { decision },
    }
}

/// What failed, with its output. There is no reason to wait before the next attempt.
fn failure(verification: &Verification) -> ErrorInfo {
    let failed = verification.runs.iter().find(|run| !run.passed()).map(describe);
    let denied = || {
        let doubt = verification.doubt().filter(|_| verification.is_denied())?;
        Some(format!("The task is not done: {}. Bring the original checks back.", doubt.message))
    };
    let message = failed.or_else(denied).unwrap_or_else(|| "no verification command was run".to_owned());
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
