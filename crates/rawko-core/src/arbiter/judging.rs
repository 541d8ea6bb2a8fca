//! The rules on how it goes on after an execution, in their order: the first that fits decides.

use super::evidence::Checks;
use super::input::ExecutionSummary;
use super::rules::{Case, Ruling, Worker, asks_only, role_of_step};
use super::team::{Role, Successor};
use crate::machine::{ExecutionEnd, ExecutionStatus};

/// Executions in a row in which an agent may go on with what its checks refuse.
const PATIENCE: usize = 3;

type Rule = fn(&Case<'_>, &ExecutionSummary) -> Option<Ruling>;

const RULES: &[Rule] = &[
    last_iteration,
    in_circles,
    stopped,
    out_of_turns,
    failed,
    nothing_done,
    checks_red,
    special_case,
    planned,
    changed,
    tested,
    reviewed,
    handed_over,
];

/// What the first rule that fits says.
pub(super) fn rule(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    RULES.iter().find_map(|rule| rule(case, last))
}

/// Nothing more can be done. What is proven by then is done; what is not must not end as if it were.
fn last_iteration(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let proven = case.record.checks() == Checks::Passed && case.open_step().is_none();
    let ends = case.constraints.iterations_remaining == 0 && last.status == ExecutionStatus::Success;
    (ends && proven).then(|| Ruling::done("proven-at-the-last-iteration", true, last))
}

/// The same again and again: somebody has to think again.
fn in_circles(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let same = case.record.same_failures().max(case.record.failures_in_a_row());
    let certain = case.facts.repetition.is_some() || same >= 3;
    if !certain && same < 2 {
        return None;
    }
    let thinker = case.thinker(&last.agent)?;
    Some(Ruling::select("in-circles", thinker, certain, "The same failed again: another approach is needed"))
}

/// Rawko or the model ended it.
fn stopped(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    match last.ended()? {
        ExecutionEnd::Stalled => {
            let thinker = case.thinker(&last.agent)?;
            Some(Ruling::select(
                "stalled",
                thinker,
                true,
                "It went round in circles: another approach is needed",
            ))
        }
        ExecutionEnd::Refusal => {
            let thinker = case.thinker(&last.agent)?;
            Some(Ruling::select(
                "refused",
                thinker,
                false,
                "The model declined: the work has to be put differently",
            ))
        }
        ExecutionEnd::Budget if last.wrote() => {
            let tester = case.who(Role::Tester).filter(|tester| tester.name != last.agent)?;
            Some(Ruling::select(
                "own-budget-used-up",
                tester,
                true,
                "It cannot go on; what it changed can be tested",
            ))
        }
        ExecutionEnd::Budget => {
            let thinker = case.thinker(&last.agent)?;
            Some(Ruling::select("own-budget-used-up", thinker, false, "It cannot go on"))
        }
        ExecutionEnd::Reported | ExecutionEnd::EndTurn | ExecutionEnd::MaxIterations => None,
    }
}

/// It was interrupted by its own limit. Whether that was in the middle of something shows in what it changed; whoever
/// only reads, reads on once.
fn out_of_turns(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    if last.ended() != Some(ExecutionEnd::MaxIterations) {
        return None;
    }
    let before = case.record.before_last();
    let again = before.is_some_and(|entry| entry.agent == last.agent && entry.ended() == last.ended());
    let reads_only = case.team.get(&last.agent).is_some_and(|_| !case.team.has_tool(&last.agent, "Write"));
    if last.wrote() || (reads_only && !again) {
        return Some(Ruling::go_on("out-of-turns", true, "It used up its turns in the middle of its work"));
    }
    let reason = "It used up its turns without changing anything";
    let red = case.record.checks() == Checks::Failed;
    Some(Ruling::retry("out-of-turns-without-progress", red || again, reason))
}

/// It says itself that it failed.
fn failed(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    if !last.status.is_failure() {
        return None;
    }
    let successor = match case.team.successor(last) {
        Some(Successor::Agent(name)) if name != last.agent => Some(Worker { name, sure: true }),
        Some(Successor::Agent(_) | Successor::End) | None => None,
    };
    match case.team.role(&last.agent) {
        Some((Role::Tester | Role::Reviewer, sure)) => {
            let fixer = successor.or_else(|| case.fixer()).filter(|fixer| fixer.name != last.agent)?;
            // Where nothing could be run there is nothing that a change would repair.
            let found = sure && case.record.checks() != Checks::Unavailable;
            Some(Ruling::select("found-a-fault", fixer, found, "It found something that has to be repaired"))
        }
        Some((Role::Developer, sure)) => {
            let thinker = successor.or_else(|| case.thinker(&last.agent))?;
            Some(Ruling::select("cannot-be-done-so", thinker, sure, "It could not be done in this way"))
        }
        Some((Role::Planner, _)) => Some(Ruling::retry("no-plan-was-made", false, "There is no plan yet")),
        None => Some(Ruling::select("failed", successor?, true, "Its author names who follows a failure")),
    }
}

/// It ended well in name, and did nothing at all.
fn nothing_done(_: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let idle = !last.wrote() && last.commands().is_empty() && last.said().trim().is_empty();
    (idle && last.denied().is_empty())
        .then(|| Ruling::retry("nothing-done", true, "It neither did nor said anything"))
}

/// Checks say that the tree is not as it should be, whatever the agent says.
fn checks_red(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let verified = case.facts.verification.is_some();
    if case.record.checks() != Checks::Failed || !(case.record.wrote() || verified) {
        return None;
    }
    let fixer = case.fixer()?;
    if fixer.name == last.agent && case.record.in_a_row() >= PATIENCE {
        let thinker = case.thinker(&last.agent)?;
        return Some(Ruling::select("checks-fail-on", thinker, false, "Its checks fail again and again"));
    }
    if fixer.name == last.agent {
        return Some(Ruling::go_on("checks-failed", true, "Its checks failed after the last change"));
    }
    Some(Ruling::select("checks-failed", fixer, true, "The checks failed after the last change"))
}

/// Its author named a case of its own, and the words are those of the case. Words can deceive.
fn special_case(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let state = format!("{} {}", case.task, last.said());
    let name = case.team.special(&last.agent, &state).filter(|name| *name != last.agent)?;
    Some(Ruling::select("named-case", Worker { name, sure: false }, false, "Its author names this case"))
}

/// A planner is done.
fn planned(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let (Role::Planner, sure) = case.team.role(&last.agent)? else { return None };
    if let Some(step) = case.open_step() {
        let worker = case.worker_for(step)?;
        return Some(Ruling::select("plan-made", worker, sure, "The plan is there to be carried out"));
    }
    // A plan in words, an explanation that was the task, or nothing: only reading tells.
    if asks_only(case.task) && !case.record.wrote() {
        return Some(Ruling::done("reported", false, last));
    }
    let worker = case.fixer()?;
    Some(Ruling::select("planned-in-words", worker, false, "It said what to do, and recorded no plan"))
}

/// Somebody who changes files is done.
fn changed(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let (Role::Developer, sure) = case.team.role(&last.agent)? else { return None };
    if let Some(step) = case.open_step() {
        let reason = "The next step of the plan is open";
        return Some(match role_of_step(&step.description).and_then(|role| case.who(role)) {
            Some(worker) if worker.name != last.agent => Ruling::select("next-step", worker, sure, reason),
            // Steps that nobody ticks off stay open for ever: who has nothing more to do has done them.
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

/// From a change to whoever sees whether it works.
fn examined(case: &Case<'_>, last: &ExecutionSummary, plain: bool) -> Option<Ruling> {
    let successor = match case.team.successor(last) {
        Some(Successor::Agent(name)) if name != last.agent => Some(Worker { name, sure: true }),
        Some(Successor::Agent(_) | Successor::End) | None => None,
    };
    let examiner = successor.or_else(|| case.who(Role::Tester)).or_else(|| case.who(Role::Reviewer));
    match examiner {
        Some(worker) => {
            Some(Ruling::select("changed-not-tested", worker, plain, "The change has to be seen to work"))
        }
        None if case.record.checks() == Checks::Passed => {
            Some(Ruling::done("changed-and-checked", true, last))
        }
        None => Some(Ruling::go_on("changed-not-tested", false, "Nobody has seen the change to work")),
    }
}

/// A tester says that it is well.
fn tested(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let (Role::Tester, sure) = case.team.role(&last.agent)? else { return None };
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
        // It was asked to look, and looked.
        Checks::Failed => Some(Ruling::done("reported", false, last)),
        Checks::None | Checks::Unavailable => proceed(case, last, false),
    }
}

/// From a test to the next step, to a review, or to the end.
fn proceed(case: &Case<'_>, last: &ExecutionSummary, sure: bool) -> Option<Ruling> {
    if let Some(step) = case.open_step() {
        let worker = case.worker_for(step)?;
        return Some(Ruling::select("next-step", worker, sure, "What is there works, and a step is open"));
    }
    match case.team.successor(last) {
        Some(Successor::End) => Some(Ruling::done("tested-and-last", sure, last)),
        Some(Successor::Agent(name)) if name != last.agent => {
            let next = Worker { name, sure: true };
            Some(Ruling::select(
                "tested-not-reviewed",
                next,
                sure,
                "What was changed works; it has to be read once more",
            ))
        }
        Some(Successor::Agent(_)) | None => match case.who(Role::Reviewer) {
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

/// A reviewer has nothing to object to.
fn reviewed(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    let (Role::Reviewer, sure) = case.team.role(&last.agent)? else { return None };
    if let Some(step) = case.open_step() {
        let worker = case.worker_for(step)?;
        return Some(Ruling::select("steps-open", worker, sure, "Steps of the plan are still to be done"));
    }
    if last.denied().iter().any(|tool| tool == "Write" || tool == "Edit") {
        let fixer = case.fixer()?;
        return Some(Ruling::select(
            "wanted-a-change",
            fixer,
            false,
            "It tried to change something and may not",
        ));
    }
    match case.record.checks() {
        Checks::Passed => Some(Ruling::done("tested-and-reviewed", sure, last)),
        Checks::None | Checks::Stale if case.record.wrote() => match case.who(Role::Tester) {
            // It was tried, and nothing was found that could be run.
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
        Checks::Failed | Checks::None | Checks::Stale | Checks::Unavailable => {
            Some(Ruling::done("reported", false, last))
        }
    }
}

/// An agent of no known role: its author's transitions, then the nearest "when to use".
fn handed_over(case: &Case<'_>, last: &ExecutionSummary) -> Option<Ruling> {
    match case.team.successor(last) {
        Some(Successor::End) => {
            Some(Ruling::done("handed-over", case.record.checks() == Checks::Passed, last))
        }
        Some(Successor::Agent(name)) if name != last.agent => {
            let next = Worker { name, sure: true };
            Some(Ruling::select("handed-over", next, true, "Its author names who follows"))
        }
        Some(Successor::Agent(_)) | None => {
            let name = case.team.nearest(&case.state(), &last.agent)?;
            Some(Ruling::select(
                "nearest-use",
                Worker { name, sure: false },
                false,
                "Its use is nearest to the state",
            ))
        }
    }
}
