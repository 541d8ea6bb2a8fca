//! The rules that decide what follows an execution, in order: the first that fits decides.

use super::case::{Case, Ruling, asks_only, role_of_step};
use super::execution_record::Checks;
use super::input::ExecutionSummary;
use super::team::{ChosenAgent, Successor};
use crate::agent::{AgentRole, Verdict};
use crate::facts::{Proof, Standing};
use crate::machine::{ExecutionEnd, ExecutionStatus};

/// From this count on, another rejection by the same agent says that the approach is wrong.
const MAX_REJECTIONS: usize = 3;
/// Findings that a reason names.
const FINDINGS: usize = 5;
/// Executions in a row in which an agent may try to fix failing checks.
const MAX_FIX_ATTEMPTS: usize = 3;

type JudgingRule = fn(&Case<'_>, &ExecutionSummary) -> Option<Ruling>;

const RULES: &[JudgingRule] = &[
    last_iteration,
    in_circles,
    stopped,
    out_of_turns,
    rejected,
    failed,
    no_verdict,
    nothing_done,
    checks_red,
    checks_passed,
    checks_stand,
    special_case,
    planned,
    changed,
    tested,
    reviewed,
    handed_over,
];

/// The ruling of the first rule that fits.
pub(super) fn rule(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    RULES.iter().find_map(|rule| rule(case, last))
}

/// No iteration is left. If the checks passed the task is done; otherwise the run must not end as if it were.
fn last_iteration(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let proven = case.record.checks() == Checks::Passed && case.open_step().is_none();
    let ends = case.constraints.iterations_remaining == 0 && last.status == ExecutionStatus::Success;
    (ends && proven).then(|| Ruling::done("proven-at-the-last-iteration", true, last))
}

/// The same failure again and again: another approach is needed.
fn in_circles(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let same = case.record.same_failures().max(case.record.failures_in_a_row());
    let certain = case.facts.repetition.is_some() || same >= 3;
    if !certain && same < 2 {
        return None;
    }
    let planner = case.planner_for(&last.agent)?;
    Some(Ruling::select("in-circles", planner, certain, "The same failed again: another approach is needed"))
}

/// rawko or the model ended the execution.
fn stopped(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    match last.ended()? {
        ExecutionEnd::Stalled => {
            let planner = case.planner_for(&last.agent)?;
            Some(Ruling::select(
                "stalled",
                planner,
                true,
                "It went round in circles: another approach is needed",
            ))
        }
        ExecutionEnd::Refusal => {
            let planner = case.planner_for(&last.agent)?;
            Some(Ruling::select(
                "refused",
                planner,
                false,
                "The model declined: the work has to be put differently",
            ))
        }
        ExecutionEnd::Budget if last.wrote() => {
            let tester = case.agent_for(AgentRole::Test).filter(|tester| tester.name != last.agent)?;
            Some(Ruling::select(
                "own-budget-used-up",
                tester,
                true,
                "It cannot go on; what it changed can be tested",
            ))
        }
        ExecutionEnd::Budget => {
            let planner = case.planner_for(&last.agent)?;
            Some(Ruling::select("own-budget-used-up", planner, false, "It cannot go on"))
        }
        ExecutionEnd::Reported | ExecutionEnd::EndTurn | ExecutionEnd::MaxIterations => None,
    }
}

/// It reached its own turn limit. It continues, also if it changed nothing: much may have to be read before a change, and
/// the loop detector ends what goes nowhere. One that saw checks fail and could have changed something is stuck.
fn out_of_turns(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    if last.ended() != Some(ExecutionEnd::MaxIterations) {
        return None;
    }
    let could_write = case.team.has_tool(&last.agent, "Write");
    let is_stuck = could_write && case.record.checks() == Checks::Failed;
    if last.wrote() || !is_stuck {
        return Some(Ruling::go_on("out-of-turns", true, "It used up its turns in the middle of its work"));
    }
    let reason = "It used up its turns without changing anything";
    Some(Ruling::retry("out-of-turns-without-progress", true, reason))
}

/// The work was examined, and has to be changed.
fn rejected(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    if last.verdict() != Some(Verdict::Rejected) {
        return None;
    }
    if case.record.rejections() >= MAX_REJECTIONS {
        let planner = case.planner_for(&last.agent)?;
        return Some(Ruling::select(
            "rejected-again",
            planner,
            false,
            "The work was rejected again and again",
        ));
    }
    let mut reason = format!("{} rejected the work", last.agent);
    for finding in last.findings().iter().take(FINDINGS) {
        reason.push_str("\n- ");
        reason.push_str(&finding.line());
    }
    let successor = match case.team.successor(last) {
        Some(Successor::Agent(name)) if name != last.agent => Some(ChosenAgent { name, sure: true }),
        Some(Successor::Agent(_) | Successor::End) | None => None,
    };
    match successor.or_else(|| case.implementer()) {
        Some(implementer) if implementer.name != last.agent => {
            Some(Ruling::select("rejected", implementer, true, &reason))
        }
        Some(_) | None => Some(Ruling::go_on("rejected", false, &reason)),
    }
}

/// An agent that is to give a verdict gave none: it is asked for it once.
fn no_verdict(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let declared = case.team.get(&last.agent)?.role.is_some_and(AgentRole::judges);
    let is_missing = declared && last.verdict().is_none() && last.status == ExecutionStatus::Success;
    (is_missing && last.ended() == Some(ExecutionEnd::EndTurn) && case.record.in_a_row() == 1).then(|| {
        Ruling::go_on("no-verdict", true, "Its verdict is missing: it has to give one with `Report`")
    })
}

/// The agent reports a failure.
fn failed(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    if !last.status.is_failure() {
        return None;
    }
    let successor = match case.team.successor(last) {
        Some(Successor::Agent(name)) if name != last.agent => Some(ChosenAgent { name, sure: true }),
        Some(Successor::Agent(_) | Successor::End) | None => None,
    };
    if last.verdict() == Some(Verdict::Blocked) {
        let planner = case.planner_for(&last.agent)?;
        return Some(Ruling::select("blocked", planner, false, "It could not judge: another way is needed"));
    }
    match case.team.role(&last.agent) {
        Some((AgentRole::Test | AgentRole::Review, sure)) => {
            let implementer = successor
                .or_else(|| case.implementer())
                .filter(|implementer| implementer.name != last.agent)?;
            // If no check could run, a change would repair nothing.
            let found = sure && case.record.checks() != Checks::Unavailable;
            Some(Ruling::select(
                "found-a-fault",
                implementer,
                found,
                "It found something that has to be repaired",
            ))
        }
        Some((AgentRole::Implement, sure)) => {
            let planner = successor.or_else(|| case.planner_for(&last.agent))?;
            Some(Ruling::select("cannot-be-done-so", planner, sure, "It could not be done in this way"))
        }
        Some((AgentRole::Plan, _)) => Some(Ruling::retry("no-plan-was-made", false, "There is no plan yet")),
        Some((AgentRole::Other, _)) | None => {
            Some(Ruling::select("failed", successor?, true, "Its author names who follows a failure"))
        }
    }
}

/// It reports success, and did nothing at all.
fn nothing_done(_: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let idle = !last.wrote() && last.commands().is_empty() && last.output_text().trim().is_empty();
    (idle && last.denied().is_empty())
        .then(|| Ruling::retry("nothing-done", true, "It neither did nor said anything"))
}

/// The checks fail, whatever the agent reports.
fn checks_red(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let verified = case.facts.verification.is_some();
    if case.record.checks() != Checks::Failed || !(case.record.wrote() || verified) {
        return None;
    }
    let implementer = case.implementer()?;
    if implementer.name == last.agent && case.record.in_a_row() >= MAX_FIX_ATTEMPTS {
        let planner = case.planner_for(&last.agent)?;
        return Some(Ruling::select("checks-fail-on", planner, false, "Its checks fail again and again"));
    }
    if implementer.name == last.agent {
        let reason = case.failing("Its checks failed after the last change");
        return Some(Ruling::go_on("checks-failed", true, &reason));
    }
    let reason = case.failing("The checks failed after the last change");
    Some(Ruling::select("checks-failed", implementer, true, &reason))
}

/// rawko ran the checks on the tree as it is, and they passed. Where none of them failed before the run, they do not show
/// that the task itself is done: a reviewer looks first, once.
fn checks_passed(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let verification = case.record.verification().filter(|_| case.record.is_checked_by_rawko())?;
    let proof = verification.proof?;
    let is_over = last.status == ExecutionStatus::Success
        && matches!(last.ended(), Some(ExecutionEnd::Reported | ExecutionEnd::EndTurn))
        && case.open_step().is_none()
        && !case.team.has_special(&last.agent)
        && !is_followed(case, last);
    if !is_over {
        return None;
    }
    if proof == Proof::Task || case.is_approved_since_change() {
        return Some(Ruling::done("checks-passed", has_judged(case, last), last));
    }
    match case.reviewer_since_change() {
        Some(reviewer) => Some(Ruling::select(
            "checked-not-reviewed",
            reviewer,
            true,
            "The checks pass, as before the run: it has to be read whether the task is done",
        )),
        None => Some(Ruling::done("checks-passed", has_judged(case, last), last)),
    }
}

/// Whether the agent's author names one that follows its success and does more than judge it.
fn is_followed(case: &Case<'_>, last: &ExecutionSummary) -> bool {
    let Some(Successor::Agent(name)) = case.team.successor(last) else { return false };
    let judges = case.team.role(name).is_some_and(|(role, _)| role.judges());
    name != last.agent && !judges
}

/// rawko's checks cannot say whether it is done: what fails failed before, or they could not run.
fn checks_stand(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let verification = case.record.verification().filter(|_| case.record.is_checked_by_rawko())?;
    let is_over = last.status == ExecutionStatus::Success && case.open_step().is_none();
    let reason = match verification.standing() {
        Standing::RedBefore => "What fails failed before the run as well",
        Standing::Unavailable => "The checks could not run",
        Standing::Passed | Standing::Failed => return None,
    };
    if !is_over || !case.record.wrote() {
        return None;
    }
    let is_first = case.record.in_a_row() == 1
        && case.implementer().is_some_and(|implementer| implementer.name == last.agent);
    match case.reviewer_since_change() {
        // To mend it may be the task.
        Some(_) if is_first && verification.standing() == Standing::RedBefore => {
            Some(Ruling::go_on("red-as-before", false, &case.failing(reason)))
        }
        Some(reviewer) => Some(Ruling::select("checks-say-nothing", reviewer, false, reason)),
        None => Some(Ruling::done("checks-say-nothing", false, last)),
    }
}

/// The text matches a custom transition of the agent. Never certain: words can mislead.
fn special_case(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let state = format!("{} {}", case.task, last.output_text());
    let name = case.team.special(&last.agent, &state).filter(|name| *name != last.agent)?;
    Some(Ruling::select("named-case", ChosenAgent { name, sure: false }, false, "Its author names this case"))
}

/// A planner reports success.
fn planned(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let (AgentRole::Plan, sure) = case.team.role(&last.agent)? else { return None };
    if let Some(step) = case.open_step() {
        let worker = case.worker_for(step)?;
        return Some(Ruling::select("plan-made", worker, sure, "The plan is there to be carried out"));
    }
    // A plan in prose, an explanation that was the task, or nothing: no rule can distinguish these for certain.
    if asks_only(case.task) && !case.record.wrote() {
        return Some(Ruling::done("reported", false, last));
    }
    let worker = case.implementer()?;
    Some(Ruling::select("planned-in-words", worker, false, "It said what to do, and recorded no plan"))
}

/// A developer reports success.
fn changed(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let (AgentRole::Implement, sure) = case.team.role(&last.agent)? else { return None };
    if let Some(step) = case.open_step() {
        let reason = "The next step of the plan is open";
        return Some(match role_of_step(&step.description).and_then(|role| case.agent_for(role)) {
            Some(worker) if worker.name != last.agent => Ruling::select("next-step", worker, false, reason),
            // Some agents never mark a step as complete. One that changes nothing more has done them.
            Some(_) | None if !last.wrote() && case.record.wrote() && case.record.in_a_row() > 1 => {
                return examined(case, last, false);
            }
            Some(_) | None => Ruling::go_on("next-step", sure && last.wrote(), reason),
        });
    }
    if !last.wrote() && !case.record.wrote() {
        return Some(Ruling::go_on("nothing-changed", false, "Nothing was changed yet"));
    }
    examined(case, last, !case.team.has_special(&last.agent))
}

/// After a change: the agent that tests or reviews it.
fn examined(case: &Case<'_>, last: &ExecutionSummary, plain: bool) -> Option<Ruling> {
    let successor = match case.team.successor(last) {
        Some(Successor::Agent(name)) if name != last.agent => Some(ChosenAgent { name, sure: true }),
        Some(Successor::Agent(_) | Successor::End) | None => None,
    };
    let examiner =
        successor.or_else(|| case.agent_for(AgentRole::Test)).or_else(|| case.agent_for(AgentRole::Review));
    match examiner {
        Some(worker) => {
            Some(Ruling::select("changed-not-tested", worker, plain, "The change has to be seen to work"))
        }
        None if case.record.checks() == Checks::Passed => {
            Some(Ruling::done("changed-and-checked", true, last))
        }
        None => Some(Ruling::go_on("changed-not-tested", false, "No agent has seen the change work")),
    }
}

/// A tester reports success.
fn tested(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let (AgentRole::Test, sure) = case.team.role(&last.agent)? else { return None };
    let sure = sure && has_judged(case, last);
    match case.record.checks() {
        Checks::Passed => proceed(case, last, sure),
        Checks::None if last.commands().is_empty() && case.record.in_a_row() == 1 => {
            Some(Ruling::go_on("tested-nothing", sure, "It ran no command: nothing is known yet"))
        }
        Checks::Stale => {
            Some(Ruling::go_on("tested-another-tree", sure, "Files were written after its last run"))
        }
        Checks::None
            if !last.commands().is_empty()
                && last.commands().iter().all(|fact| fact.exit_code == Some(0)) =>
        {
            proceed(case, last, false)
        }
        // The task was to run the checks, and they ran.
        Checks::Failed => Some(Ruling::done("reported", false, last)),
        Checks::None | Checks::Unavailable | Checks::RedBefore => proceed(case, last, false),
    }
}

/// Whether it reported. An agent that only ends its turn has said nothing that a rule can read.
fn has_judged(case: &Case<'_>, last: &ExecutionSummary) -> bool {
    let owes = case.team.get(&last.agent).and_then(|agent| agent.role).is_some_and(AgentRole::judges);
    !owes || last.verdict() == Some(Verdict::Approved) || last.ended() != Some(ExecutionEnd::EndTurn)
}

/// After a passed test: the next step, a review, or the end.
fn proceed(case: &Case<'_>, last: &ExecutionSummary, sure: bool) -> Option<Ruling> {
    if let Some(step) = case.open_step() {
        let worker = case.worker_for(step)?;
        return Some(Ruling::select("next-step", worker, sure, "What is there works, and a step is open"));
    }
    match case.team.successor(last) {
        Some(Successor::End) => Some(Ruling::done("tested-and-last", sure, last)),
        Some(Successor::Agent(name)) if name != last.agent => {
            let next = ChosenAgent { name, sure: true };
            Some(Ruling::select(
                "tested-not-reviewed",
                next,
                sure,
                "What was changed works; it has to be read once more",
            ))
        }
        Some(Successor::Agent(_)) | None => match case.agent_for(AgentRole::Review) {
            Some(reviewer) => Some(Ruling::select(
                "tested-not-reviewed",
                reviewer,
                sure,
                "What was changed works; it has to be read once more",
            )),
            None => Some(Ruling::done("tested-and-last", sure && case.is_planned(), last)),
        },
    }
}

/// A reviewer reports success.
fn reviewed(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let (AgentRole::Review, sure) = case.team.role(&last.agent)? else { return None };
    let sure = sure && has_judged(case, last);
    if let Some(step) = case.open_step() {
        let worker = case.worker_for(step)?;
        return Some(Ruling::select("steps-open", worker, sure, "Steps of the plan are still to be done"));
    }
    if last.denied().iter().any(|tool| tool == "Write" || tool == "Edit") {
        let implementer = case.implementer()?;
        return Some(Ruling::select(
            "wanted-a-change",
            implementer,
            false,
            "It tried to change something and may not",
        ));
    }
    match case.record.checks() {
        Checks::Passed => Some(Ruling::done("tested-and-reviewed", sure, last)),
        Checks::None | Checks::Stale if case.record.wrote() => match case.agent_for(AgentRole::Test) {
            // The tester tried, and found no check to run.
            Some(tester) if case.record.worked_since_change(tester.name) => {
                Some(Ruling::done("reviewed-and-last", false, last))
            }
            Some(tester) => Some(Ruling::select(
                "reviewed-not-tested",
                tester,
                sure,
                "Nothing was run since the last change",
            )),
            None => Some(Ruling::done("reviewed-and-last", false, last)),
        },
        Checks::Failed | Checks::None | Checks::Stale | Checks::Unavailable | Checks::RedBefore => {
            Some(Ruling::done("reported", false, last))
        }
    }
}

/// An agent without a known role: its transitions, then the best match of `whenToUse`.
fn handed_over(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    match case.team.successor(last) {
        Some(Successor::End) => {
            Some(Ruling::done("handed-over", case.record.checks() == Checks::Passed, last))
        }
        Some(Successor::Agent(name)) if name != last.agent => {
            let next = ChosenAgent { name, sure: true };
            Some(Ruling::select("handed-over", next, true, "Its author names who follows"))
        }
        Some(Successor::Agent(_)) | None => {
            let name = case.team.nearest(&case.state(), &last.agent)?;
            Some(Ruling::select(
                "nearest-use",
                ChosenAgent { name, sure: false },
                false,
                "Its use is nearest to the state",
            ))
        }
    }
}
