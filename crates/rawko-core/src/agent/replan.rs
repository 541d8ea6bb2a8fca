//! How `UpdatePlan` changes the plan.
//!
//! The new list of steps replaces the old one, but a finished step that is missing from it stays: a model that plans
//! again often lists only the remaining steps. A step is only reopened if the agent lists it with another status.
//! A list that names steps by number is one of changes: it is filled up with the other steps first.

use std::collections::BTreeSet;

use super::control::{MAX_STEPS, StepInput};
use crate::machine::{PlanStep, StepStatus};

/// The new steps, and the changes to report to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replanned {
    pub(super) steps: Vec<PlanStep>,
    /// Numbers of the finished steps that were missing and were kept.
    pub(super) kept: Vec<usize>,
    /// Numbers of the finished steps that were reopened.
    pub(super) reopened: Vec<usize>,
}

/// A step as requested: its words and its status. Without a status, the step keeps its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StepRevision<'a> {
    words: &'a str,
    status: Option<StepStatus>,
}

/// Replaces the steps `before` with `given`, or changes those that `given` names.
///
/// # Errors
/// A number that no step has, the same step twice, or too many steps. The error is for the model.
pub(super) fn replan(before: &[PlanStep], given: &[StepInput], agent: &str) -> Result<Replanned, String> {
    let named = named(before, given)?;
    refuse_twice(&named)?;
    let are_changes = given.iter().any(|input| input.index.is_some());
    let wanted = if are_changes { filled_up(before, &named)? } else { named };
    let mut unmatched: Vec<&PlanStep> = before.iter().collect();
    let mut steps: Vec<Placed> = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let found = unmatched.iter().position(|old| same(&old.description, wanted.words));
        let old = found.map(|at| unmatched.remove(at));
        steps.push(placed(wanted, old, agent));
    }
    let mut next = 0;
    for old in before.iter().filter(|old| old.is_settled()) {
        let listed = steps.iter().position(|step| same(&step.step.description, &old.description));
        match listed {
            Some(at) => next = if at == next { at + 1 } else { next },
            None => {
                let step = old.clone();
                steps.insert(next, Placed { step, kept: true, reopened: false });
                next += 1;
            }
        }
    }
    if steps.len() > MAX_STEPS {
        let kept = steps.iter().filter(|step| step.kept).count();
        return Err(format!(
            "with the {kept} finished steps that stay the plan would have {} steps, and {MAX_STEPS} are the most; \
             merge those that are still to be done into at most {}",
            steps.len(),
            MAX_STEPS - kept.min(MAX_STEPS),
        ));
    }
    let numbers = |which: fn(&Placed) -> bool| -> Vec<usize> {
        (1..).zip(&steps).filter(|(_, step)| which(step)).map(|(number, _)| number).collect()
    };
    let (kept, reopened) = (numbers(|step| step.kept), numbers(|step| step.reopened));
    let steps = (1..).zip(steps).map(|(index, placed)| PlanStep { index, ..placed.step }).collect();
    Ok(Replanned { steps, kept, reopened })
}

/// The steps of `given` by their words.
fn named<'a>(before: &'a [PlanStep], given: &'a [StepInput]) -> Result<Vec<StepRevision<'a>>, String> {
    let words = |input: &'a StepInput| match (input.index, &input.description) {
        (None, description) => Ok(description.as_deref().unwrap_or_default()),
        (Some(index), _) => match before.iter().find(|step| step.index == index) {
            Some(step) => Ok(step.description.as_str()),
            None if before.is_empty() => Err(format!(
                "there is no step {index}, because there is no plan yet; give the steps with their descriptions"
            )),
            None => Err(format!("there is no step {index}; the plan has the steps 1 to {}", before.len())),
        },
    };
    given.iter().map(|input| Ok(StepRevision { words: words(input)?, status: input.status })).collect()
}

/// The whole plan with these changes: a step that is new comes after the one that is named before it.
fn filled_up<'a>(
    before: &'a [PlanStep],
    changes: &[StepRevision<'a>],
) -> Result<Vec<StepRevision<'a>>, String> {
    let mut whole: Vec<StepRevision<'a>> =
        before.iter().map(|step| StepRevision { words: &step.description, status: None }).collect();
    let mut next = 0;
    for change in changes {
        let at = whole.iter().position(|step| same(step.words, change.words)).unwrap_or_else(|| {
            whole.insert(next, *change);
            next
        });
        whole[at].status = change.status;
        next = at + 1;
    }
    if whole.len() > MAX_STEPS {
        return Err(format!(
            "with the steps that stay the plan would have {} steps, and {MAX_STEPS} are the most; send the whole plan with \
             steps that are merged",
            whole.len()
        ));
    }
    Ok(whole)
}

struct Placed {
    step: PlanStep,
    kept: bool,
    reopened: bool,
}

fn placed(wanted: StepRevision<'_>, old: Option<&PlanStep>, agent: &str) -> Placed {
    let status = wanted.status.or(old.map(|old| old.status)).unwrap_or(StepStatus::Pending);
    let unchanged = old.filter(|old| old.status == status);
    let did = match status {
        StepStatus::Pending | StepStatus::Skipped => None,
        StepStatus::InProgress | StepStatus::Complete | StepStatus::Failed => Some(agent.to_owned()),
    };
    let settled = old.filter(|old| old.is_settled());
    let step = PlanStep {
        index: 0,
        description: settled.map_or(wanted.words.trim(), |old| &old.description).to_owned(),
        status,
        agent_used: unchanged.and_then(|old| old.agent_used.clone()).or(did),
    };
    let reopened = settled.is_some() && !step.is_settled();
    Placed { step, kept: false, reopened }
}

fn refuse_twice(given: &[StepRevision<'_>]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let twice: Vec<String> = (1..)
        .zip(given)
        .filter(|(_, step)| !seen.insert(words(step.words)))
        .map(|(number, step)| format!("step {number} ({})", step.words.trim()))
        .collect();
    if twice.is_empty() {
        return Ok(());
    }
    Err(format!("listed twice: {}; give every step once, or say what differs", twice.join(", ")))
}

/// Whether two descriptions are the same, ignoring case and spacing, which models do not always copy.
fn same(one: &str, other: &str) -> bool {
    words(one) == words(other)
}

fn words(text: &str) -> String {
    text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use StepStatus::{Complete, Failed, InProgress, Pending, Skipped};
    use proptest::prelude::*;

    /// Steps as `text/status/agent`, the status by its first letter, `-` for none.
    fn plan(text: &str) -> Vec<PlanStep> {
        let step = |(at, step): (usize, &str)| {
            let mut parts = step.trim().split('/');
            let (description, status, agent) =
                (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next());
            PlanStep {
                index: at + 1,
                description: description.to_owned(),
                status: status_of(status).unwrap(),
                agent_used: agent.map(str::to_owned),
            }
        };
        text.split(',').filter(|step| !step.trim().is_empty()).enumerate().map(step).collect()
    }

    fn status_of(letter: &str) -> Option<StepStatus> {
        match letter {
            "p" => Some(Pending),
            "i" => Some(InProgress),
            "c" => Some(Complete),
            "f" => Some(Failed),
            "s" => Some(Skipped),
            _ => None,
        }
    }

    /// Steps as `text/status`, or `#number/status`.
    fn given(text: &str) -> Vec<StepInput> {
        let step = |step: &str| {
            let (name, status) = step.split_once('/').unwrap_or((step, "-"));
            let index = name.strip_prefix('#').map(|number| number.parse().unwrap());
            let description = index.is_none().then(|| name.to_owned());
            StepInput { index, description, status: status_of(status) }
        };
        text.split(',').map(step).collect()
    }

    #[track_caller]
    fn check(before: &str, sent: &str, expected: &str, kept: &[usize], reopened: &[usize]) {
        let replanned = replan(&plan(before), &given(sent), "me").unwrap();
        assert_eq!(replanned.steps, plan(expected), "{sent}");
        assert_eq!((replanned.kept.as_slice(), replanned.reopened.as_slice()), (kept, reopened), "{sent}");
    }

    #[test]
    fn a_first_plan_is_taken_as_it_is() {
        check("", "a,b/i,c/c", "a/p,b/i/me,c/c/me", &[], &[]);
        check("", "  a  ", "a/p", &[], &[]);
    }

    #[test]
    fn a_finished_step_keeps_its_agent() {
        check("a/c/you,b/s,c/p", "d,e", "a/c/you,b/s,d/p,e/p", &[1, 2], &[]);
        check("a/c/you,b/p", "a/c,b/c", "a/c/you,b/c/me", &[], &[]);
        check("a/c/you,b/c/you,c/p", "b,d", "a/c/you,b/c/you,d/p", &[1], &[]);
        check("a/c/you,b/c/you,c/p", "a,d", "a/c/you,b/c/you,d/p", &[2], &[]);
        check("a/c/you,b/c/you,c/p", "d,a", "b/c/you,d/p,a/c/you", &[1], &[]);
        // Renamed is another step: the finished one is kept beside it.
        check("Fix it/c/you", "Fix it well/c", "Fix it/c/you,Fix it well/c/me", &[1], &[]);
    }

    #[test]
    fn an_unfinished_step_may_be_dropped() {
        check("a/p,b/i/you,c/f/you", "d", "d/p", &[], &[]);
        check("a/p,b/i/you,c/f/you", "c,b,a", "c/f/you,b/i/you,a/p", &[], &[]);
    }

    #[test]
    fn steps_are_known_by_their_words() {
        check("Fix  the\nBug/c/you,b/p", "fix the bug,b/i", "Fix  the\nBug/c/you,b/i/me", &[], &[]);
    }

    #[test]
    fn what_is_said_to_be_unfinished_is() {
        check("a/c/you,b/s,c/c/you", "a/f,b/p,c/i", "a/f/me,b/p,c/i/me", &[], &[1, 2, 3]);
        check("a/c/you,b/p", "a,b", "a/c/you,b/p", &[], &[]);
        check("a/s", "a/c", "a/c/me", &[], &[]);
    }

    #[test]
    fn a_step_twice_and_too_many_steps_are_named() {
        let twice = replan(&[], &given("a,b, A ,c,b/c"), "me").unwrap_err();
        assert!(twice.contains("step 3 (A)") && twice.contains("step 5 (b)"), "{twice}");
        let finished: Vec<String> = (0..30).map(|n| format!("old {n}/c/you")).collect();
        let new = |count: usize| (0..count).map(|n| format!("new {n}")).collect::<Vec<_>>().join(",");
        let before = plan(&finished.join(","));
        assert_eq!(replan(&before, &given(&new(20)), "me").unwrap().steps.len(), 50);
        let many = replan(&before, &given(&new(21)), "me").unwrap_err();
        assert!(
            many.contains("30 finished") && many.contains("51 steps") && many.contains("at most 20"),
            "{many}"
        );
    }

    #[test]
    fn a_number_changes_that_step_alone() {
        let before = "a/c/you,b/i/you,c/p";
        check(before, "#2/c", "a/c/you,b/c/me,c/p", &[], &[]);
        check(before, "#3/i,#2/f", "a/c/you,b/f/me,c/i/me", &[], &[]);
        check(before, "#1/f", "a/f/me,b/i/you,c/p", &[], &[1]);
        check(before, "#2", before, &[], &[]);
        check("b/p,c/p", "#1/c,new/i", "b/c/me,new/i/me,c/p", &[], &[]);
        check("b/p,c/p", "new,#2/c", "new/p,b/p,c/c/me", &[], &[]);
        check("b/p,c/p", "#1/c, C /i", "b/c/me,c/i/me", &[], &[]);
        // Without a number the list is the whole plan, as always.
        check(before, "b/c", "a/c/you,b/c/me", &[1], &[]);
    }

    #[test]
    fn a_number_that_no_step_has_is_named() {
        let check = |before: &str, sent: &str, expected: &str| {
            let problem = replan(&plan(before), &given(sent), "me").unwrap_err();
            assert!(problem.contains(expected), "{sent}: {problem}");
        };
        check("a/p,b/p", "#1/c,#3/c", "there is no step 3; the plan has the steps 1 to 2");
        check("a/p", "#0/c", "there is no step 0");
        check("", "#1/c", "there is no plan yet");
        check("a/p,b/p", "#2/c,B/c", "listed twice: step 2 (B)");
        check("a/p,b/p", "#2/c,#2/f", "listed twice: step 2 (b)");
        let full: Vec<String> = (0..50).map(|n| format!("old {n}/p")).collect();
        check(&full.join(","), "#1/c,new", "would have 51 steps");
    }

    proptest! {
        /// Whatever a model sends, no finished step is lost without a notice, and none is there twice.
        #[test]
        fn nothing_finished_is_lost(
            old in proptest::collection::btree_map("[a-f]", "[picfs]", 0..6),
            sent in proptest::collection::btree_map("[a-i]", "[picfs-]", 1..9),
        ) {
            let line = |map: &std::collections::BTreeMap<String, String>| {
                map.iter().map(|(name, status)| format!("{name}/{status}")).collect::<Vec<_>>().join(",")
            };
            let before = plan(&line(&old));
            let after = replan(&before, &given(&line(&sent)), "me").unwrap();
            let names: BTreeSet<&str> = after.steps.iter().map(|step| step.description.as_str()).collect();
            prop_assert_eq!(names.len(), after.steps.len());
            for step in before.iter().filter(|step| step.is_settled()) {
                let now = after.steps.iter().find(|now| now.description == step.description);
                let now = now.expect("it is still there");
                prop_assert!(now.is_settled() || after.reopened.contains(&now.index));
            }
            for (at, step) in after.steps.iter().enumerate() {
                prop_assert_eq!(step.index, at + 1);
            }
        }
    }
}
