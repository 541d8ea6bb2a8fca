//! Checks first (`docs/verification.md`): when an execution says that it is done, rawko runs the checks before the
//! arbiter is asked. A COMPLETE counts only after they have run on the tree as it is then.

use super::{FollowUp, RunPhase, asking};
use crate::agent::Verdict;
use crate::error::{ErrorCode, ErrorInfo};
use crate::facts::{CheckResult, CommandRun, Standing, VERIFY, Verification};
use crate::machine::{Decision, ExecutionEnd, ExecutionStatus, MachineEvent, State};
use crate::note::{DecisionPoint, Note};
use crate::session::answer::OpenEffect;
use crate::session::effect::Effect;
use crate::session::ledger::Ledger;
use crate::session::reaction::Reaction;
use crate::session::steering::decided_unasked;
use crate::setup::VerifySetup;
use crate::text::keep_ends;

/// Longest time of a check before a run ends as failed or limited, in milliseconds.
const LAST_TIME_MS: u64 = 120_000;
/// Bytes of a failed command's output that become part of the error's message.
const OUTPUT_BYTES: usize = 900;

/// The checks run, and something waits for their results.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct Verifying {
    waits: Waits,
}

/// What waits for the results.
#[derive(Debug, Clone, PartialEq)]
enum Waits {
    /// The question what follows the execution that has just ended.
    Question,
    /// An event that ends the run: nothing follows from the results, and its end says what they are.
    End(Box<MachineEvent>),
    /// A COMPLETE.
    Completion { point: DecisionPoint, decision: Decision },
}

impl Verifying {
    /// An execution has ended: the checks run before it is judged.
    pub(super) fn first(ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
        Self { waits: Waits::Question }.begin(ledger, reaction)
    }

    /// The run is about to end with `event`, as failed or because of a limit.
    pub(in crate::session) fn last(
        event: MachineEvent,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        ledger.tree.had_last_checks = true;
        Self { waits: Waits::End(Box::new(event)) }.begin(ledger, reaction)
    }

    /// The arbiter says that the task is done; the checks run, unless they have just run on this tree.
    pub(super) fn start(
        point: DecisionPoint,
        decision: Decision,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        if let Some(objection) = ledger.task.objection() {
            reaction.warn(format!("not accepted as done: {objection}"));
            let (error, is_stalled) = ledger.refuse_completion(&objection);
            return refused(point, error, is_stalled, ledger);
        }
        if ledger.tree.just_checked
            && let Some(verification) = ledger.tree.fresh().filter(|it| !it.stale).cloned()
        {
            return settle(point, decision, &verification, ledger, reaction);
        }
        Self { waits: Waits::Completion { point, decision } }.begin(ledger, reaction)
    }

    fn begin(self, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
        let checks = ledger.checks();
        // On a tree on which they have just passed they do not run again.
        let has_passed = ledger.tree.fresh().is_some_and(Verification::passed);
        if !checks.0.is_empty() && !has_passed {
            reaction.notes.push(Note::VerificationStarted { commands: checks.0.clone() });
        }
        self.run(checks, ledger, reaction)
    }

    /// Runs the checks again.
    pub(super) fn ask(self, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
        self.run(ledger.checks(), ledger, reaction)
    }

    /// Runs the checks. If there are none, or they were taken away, what waits goes on.
    fn run(
        self,
        (commands, adopted): (Vec<String>, bool),
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        let setup = ledger.setup.verify.clone().unwrap_or_default();
        let others = ledger.setup.verify.as_ref().map(|_| ledger.other_checks(&commands)).unwrap_or_default();
        let VerifySetup { commands: _, timeout_ms, found, tests, changed_checks } = setup;
        if commands.is_empty() && others.is_empty() {
            return match self.waits {
                Waits::Question => asking::judge(ledger, reaction),
                Waits::End(event) => FollowUp::Machine(*event),
                Waits::Completion { point, decision } => FollowUp::Machine(decided(point, decision)),
            };
        }
        let timeout_ms = match self.waits {
            // A run that has used up its time does not take much more.
            Waits::End(_) => timeout_ms.min(LAST_TIME_MS),
            Waits::Question | Waits::Completion { .. } => timeout_ms,
        };
        let seen_red = ledger.has_seen_red(&commands);
        let id = ledger.open.issue(OpenEffect::Verification);
        reaction.effects.push(Effect::Verify {
            id,
            commands,
            others,
            timeout_ms,
            tests,
            changed_checks,
            seen_red,
            found,
            adopted,
        });
        FollowUp::Phase(RunPhase::Verifying(self))
    }

    /// The checks have run. What failed is a fact for the question, and a failure like any other for a COMPLETE. Where none
    /// could run, one that an agent ran may take their place.
    pub(super) fn finished(
        self,
        verification: &Verification,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        let is_known = ledger.tree.fresh() == Some(verification) && verification.passed();
        let lacked = ledger.tree.lacks_checks();
        let verification = ledger.tree.checked(verification.clone());
        if !is_known {
            ledger.detector.checked(&verification);
            reaction.notes.push(Note::VerificationFinished { verification: verification.clone() });
        }
        if !lacked && verification.is_unavailable() && ledger.checks().1 {
            return self.begin(ledger, reaction);
        }
        match self.waits {
            Waits::Question => {
                ledger.tree.just_checked = true;
                asking::judge(ledger, reaction)
            }
            Waits::End(event) => FollowUp::Machine(*event),
            Waits::Completion { point, decision } => settle(point, decision, &verification, ledger, reaction),
        }
    }
}

/// Accepts a COMPLETE that the checks do not contradict.
fn settle(
    point: DecisionPoint,
    decision: Decision,
    verification: &Verification,
    ledger: &mut Ledger,
    reaction: &mut Reaction,
) -> FollowUp {
    if let Some(error) = ledger.refusal(verification) {
        let stalled = ledger.watch_verification(verification);
        let is_stalled = stalled.is_some();
        return refused(point, stalled.unwrap_or(error), is_stalled, ledger);
    }
    if let Some(doubt) = verification.doubt() {
        reaction.warn(format!("{}: the result is claimed, not verified", doubt.message));
    }
    if let Some(by) = ledger.must_be_read(point) {
        reaction.notes.push(decided_unasked(point, by.clone(), Some(decision)));
        return FollowUp::Machine(decided(point, by));
    }
    FollowUp::Machine(decided(point, decision))
}

/// A COMPLETE does not count because of `error`: a failure like any other.
fn refused(point: DecisionPoint, error: ErrorInfo, is_stalled: bool, ledger: &Ledger) -> FollowUp {
    let at_limit = ledger.task.iteration() >= ledger.task.limits().max_iterations;
    FollowUp::Machine(match point {
        // The machine ends here whatever is decided. A failure would hide that a limit ended it.
        DecisionPoint::Evaluate
            if at_limit
                && !is_stalled
                && error.code.is_recoverable()
                && ledger.task.state() == State::Evaluating =>
        {
            MachineEvent::ArbiterDecision { decision: Decision::Retry { reason: error.message } }
        }
        DecisionPoint::Evaluate => MachineEvent::ArbiterError { error },
        DecisionPoint::Select => MachineEvent::AgentSelectionFailed { error },
    })
}

impl Ledger {
    /// Whether the checks run before the execution that has just ended is judged: it says that it is done, or made no
    /// progress, or no other follows it, and the run changed something that they have not seen.
    pub(super) fn checks_are_due(&self) -> bool {
        let Some(last) = self.task.context().history.last() else { return false };
        let is_last = self.task.iteration() >= self.task.limits().max_iterations;
        let says_done = last.result == ExecutionStatus::Success
            && matches!(last.facts.ended, Some(ExecutionEnd::Reported | ExecutionEnd::EndTurn))
            && last.facts.verdict != Some(Verdict::Rejected);
        let stalled = last.facts.ended == Some(ExecutionEnd::Stalled);
        self.setup.verify.is_some()
            && (says_done || stalled || is_last)
            && self.tree.has_changed()
            && self.tree.fresh().is_none()
    }

    /// Whether the run would end with `event`, as failed or because of a limit, and the checks have not seen what it
    /// changed.
    pub(in crate::session) fn ends_unchecked(&self, event: &MachineEvent) -> bool {
        let is_unchecked = self.setup.verify.is_some()
            && !self.tree.had_last_checks
            && self.tree.has_changed()
            && self.tree.fresh().is_none();
        if !is_unchecked {
            return false;
        }
        let then = self.task.after(self.now, event);
        let gives_up = then.state() == State::Failed || then.context().limited;
        then.state().is_final() && then.state() != State::Cancelled && gives_up
    }

    /// Changes the verification commands. What the old ones proved no longer counts.
    pub(in crate::session) fn verify_with(&mut self, commands: &VerifySetup) {
        self.setup.verify = Some(commands.clone()).filter(|verify| !verify.commands.is_empty());
        self.tree.touched();
    }

    /// What the checks have against a COMPLETE. A check that failed before the run as well is no objection, and neither
    /// is a check that rawko found and that cannot run.
    fn refusal(&self, verification: &Verification) -> Option<ErrorInfo> {
        let could_not_run_before = |run: &CommandRun| {
            verification.before(run).is_some_and(|before| before.result() == CheckResult::Unavailable)
        };
        let was_named = self.setup.verify.as_ref().is_some_and(|verify| !verify.found);
        let message = match (verification.standing(), verification.worst()) {
            (Standing::Failed, Some(run)) => describe(run),
            (Standing::Unavailable, Some(run))
                if was_named && !run.lacks_its_program() && !could_not_run_before(run) =>
            {
                describe(run)
            }
            (Standing::Unavailable, Some(run)) if was_named => {
                // No agent can mend it, so the run ends with it.
                let error = ErrorInfo::new(ErrorCode::ConfigError, describe(run));
                return Some(ErrorInfo { tool: Some(VERIFY.to_owned()), ..error });
            }
            _ if verification.is_denied() => {
                let doubt = verification.doubt().map(|doubt| doubt.message).unwrap_or_default();
                format!("The task is not done: {doubt}. Bring the original checks back.")
            }
            _ => {
                let other = verification.worse_other()?;
                let output = keep_ends(other.now.output.trim(), OUTPUT_BYTES);
                format!("The task is not done: {}.\n{output}", other.line())
            }
        };
        let error = ErrorInfo::new(ErrorCode::ToolFailure, message);
        // There is no reason to wait before the next attempt.
        Some(ErrorInfo { tool: Some(VERIFY.to_owned()), retry_after_ms: Some(0), ..error })
    }
}

/// The machine's event for a decision.
pub(super) fn decided(point: DecisionPoint, decision: Decision) -> MachineEvent {
    match point {
        DecisionPoint::Select => MachineEvent::AgentSelected { decision },
        DecisionPoint::Evaluate => MachineEvent::ArbiterDecision { decision },
    }
}

/// What failed, with its output.
fn describe(run: &CommandRun) -> String {
    let output = keep_ends(run.output.trim(), OUTPUT_BYTES);
    format!("The task is not done: the verification command `{}` {}.\n{output}", run.command, run.how())
}
