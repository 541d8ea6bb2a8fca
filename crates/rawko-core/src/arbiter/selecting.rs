//! The rules that select the next agent, in order: the first that fits decides.

use super::case::{Case, Ruling, asks_only, role_of_step};
use super::input::ARBITER;
use super::input::{ErrorCategory, ErrorContext, RecoveryAction};
use super::judging;
use super::team::ChosenAgent;
use super::words::stems;
use crate::agent::AgentRole;
use crate::facts::{RECORD, VERIFY};
use crate::machine::{Decision, ExecutionStatus};

/// A task of at least so many words is not small.
const LONG_TASK: usize = 18;
/// A task of at most so many words may be small.
const SHORT_TASK: usize = 12;
/// A task of at least so many words is planned first.
const LARGE_TASK: usize = 120;
/// So is one with at least so many items.
const MANY_ITEMS: usize = 4;
/// From this count on, the same error means that another attempt is useless.
const AGAIN: usize = 2;
/// From this count on, that is certain.
const OFTEN: usize = 3;

/// The ruling of the first rule that fits.
pub(super) fn rule(case: &Case<'_>, error: Option<&ErrorContext>) -> Option<Ruling> {
    // The arbiter's own errors say nothing about the work.
    if let Some(error) = error.filter(|error| error.agent != ARBITER) {
        return after_error(case, error);
    }
    match case.record.last() {
        None => match case.open_step() {
            Some(step) => Some(Ruling::select(
                "plan-there",
                case.worker_for(step)?,
                true,
                "The plan is there to be carried out",
            )),
            None => beginning(case),
        },
        Some(last) if last.status == ExecutionStatus::Cancelled => {
            let worker =
                case.open_step().and_then(|step| case.worker_for(step)).or_else(|| case.implementer())?;
            let planned = case.open_step().is_some();
            Some(Ruling::select(
                "after-an-interruption",
                worker,
                planned,
                "It was interrupted; the work is still to be done",
            ))
        }
        Some(last) => judging::rule(case, last).map(|ruling| in_new_conversation(ruling, &last.agent, case)),
    }
}

/// Turns CONTINUE into a selection of the same agent: while selecting, there is no conversation to continue.
fn in_new_conversation(ruling: Ruling, last: &str, case: &Case<'_>) -> Ruling {
    let Ruling { decision, rule, certain } = ruling;
    let decision = match decision {
        Decision::Continue { reason } => match case.team.get(last) {
            Some(agent) => Decision::SelectMode { mode: agent.name.clone(), reason },
            None => Decision::Retry { reason },
        },
        other @ (Decision::SelectMode { .. }
        | Decision::Complete { .. }
        | Decision::Retry { .. }
        | Decision::Blocked { .. }) => other,
    };
    Ruling { decision, rule, certain }
}

fn after_error(case: &Case<'_>, error: &ErrorContext) -> Option<Ruling> {
    if matches!(error.tool.as_deref(), Some(VERIFY | RECORD)) {
        return after_verification(case, error);
    }
    let can_retry = error.recovery_options.iter().any(|option| option.action == RecoveryAction::Retry)
        && case.team.get(&error.agent).is_some();
    let same = case.record.same_failures();
    match error.category {
        ErrorCategory::ProviderError if can_retry => Some(Ruling::retry(
            "provider-trouble",
            true,
            "The provider's failure has nothing to do with the agent",
        )),
        ErrorCategory::ProviderError => {
            let (role, _) = case.team.role(&error.agent)?;
            let name = case.team.nearest(&format!("{} {}", case.state(), error.message), &error.agent)?;
            let peer =
                case.agent_for(role).filter(|peer| peer.name != error.agent).map_or(name, |peer| peer.name);
            Some(Ruling::select(
                "provider-refuses",
                ChosenAgent { name: peer, sure: false },
                false,
                "Trying again changes nothing",
            ))
        }
        ErrorCategory::PermissionError => after_denial(case, error),
        ErrorCategory::Timeout if same >= AGAIN => stuck(case, error, true),
        ErrorCategory::ToolFailure | ErrorCategory::ValidationError | ErrorCategory::Unknown
            if same >= AGAIN =>
        {
            stuck(case, error, same >= OFTEN)
        }
        _ if !can_retry => Some(Ruling::select(
            "cannot-retry",
            case.planner_for(&error.agent)?,
            false,
            "It cannot try again",
        )),
        ErrorCategory::Timeout => {
            Some(Ruling::retry("took-too-long", true, "It may only have been too much at once"))
        }
        ErrorCategory::ToolFailure if is_missing_program(&error.message) => Some(Ruling::select(
            "program-missing",
            case.planner_for(&error.agent)?,
            false,
            "The program is not there for anybody",
        )),
        ErrorCategory::ToolFailure => Some(Ruling::retry("tool-failed-once", true, "A tool failed once")),
        ErrorCategory::ValidationError => {
            Some(Ruling::retry("malformed-once", true, "The form was wrong, not the work"))
        }
        ErrorCategory::Unknown => {
            Some(Ruling::retry("unknown-error", false, "The cause is not known and may have passed"))
        }
    }
}

/// The task was reported as done, and the verification failed.
fn after_verification(case: &Case<'_>, error: &ErrorContext) -> Option<Ruling> {
    if case.facts.repetition.is_some() {
        return stuck(case, error, true);
    }
    let implementer = case.implementer()?;
    if error.tool.as_deref() == Some(RECORD) {
        return Some(Ruling::select("record-against-it", implementer, true, &error.message));
    }
    Some(Ruling::select("verification-failed", implementer, true, &error.message))
}

impl Case<'_> {
    /// Whether rawko has checks for the project, and the task asks for a change that is neither large nor to be planned:
    /// the agent that changes files begins, and the checks say what is missing.
    fn is_plainly_checked(&self) -> bool {
        let has_checks = self.facts.checks.as_ref().is_some_and(|checks| !checks.is_empty());
        let items = self.task.lines().filter(|line| line.trim_start().starts_with(['-', '*'])).count();
        let is_large = self.task.split_whitespace().count() >= LARGE_TASK || items >= MANY_ITEMS;
        let asks_for_more = self.task.contains('?') || stems(self.task).contains("plan");
        has_checks && !is_large && !asks_for_more
    }
}

fn stuck(case: &Case<'_>, error: &ErrorContext, certain: bool) -> Option<Ruling> {
    let planner = case.planner_for(&error.agent)?;
    Some(Ruling::select(
        "same-error-again",
        planner,
        certain,
        "The same error again: another approach is needed",
    ))
}

/// Something was denied. If the agent lacks the tool, another agent has it; otherwise the rules deny it to all.
fn after_denial(case: &Case<'_>, error: &ErrorContext) -> Option<Ruling> {
    let tool = error.tool.as_deref().unwrap_or_default();
    if !tool.is_empty() && !case.team.has_tool(&error.agent, tool) {
        let able = case.team.with_tool(tool, &error.agent);
        let implementer = case.implementer().filter(|implementer| able.contains(&implementer.name));
        let worker =
            implementer.or_else(|| able.first().map(|name| ChosenAgent { name, sure: able.len() == 1 }))?;
        return Some(Ruling::select(
            "tool-not-allowed",
            worker,
            true,
            "It lacks the tool, and this one has it",
        ));
    }
    let planner = case.planner_for(&error.agent)?;
    Some(Ruling::select("not-allowed", planner, false, "The rules will not change: another way is needed"))
}

fn is_missing_program(message: &str) -> bool {
    message.contains("command not found")
        || message.contains("No such file or directory")
        || message.contains("exited with 127")
}

/// Nothing has been done yet.
fn beginning(case: &Case<'_>) -> Option<Ruling> {
    if let Some(only) = case.team.only() {
        return Some(Ruling::select(
            "only-agent",
            ChosenAgent { name: only, sure: true },
            true,
            "There is no other agent",
        ));
    }
    let words = case.task.split_whitespace().count();
    let stems = stems(case.task);
    let asks = |parts: &[&str]| parts.iter().any(|part| stems.contains(*part));
    let looks_only = asks_only(case.task);
    let role = if looks_only && asks(&["test", "suit"]) {
        AgentRole::Test
    } else if looks_only || role_of_step(case.task) == Some(AgentRole::Review) {
        AgentRole::Review
    } else if words <= SHORT_TASK && asks(&["typo", "bump", "renam"]) || case.is_plainly_checked() {
        AgentRole::Implement
    } else {
        AgentRole::Plan
    };
    let reason = "Nothing was done yet";
    match case.agent_for(role) {
        Some(worker) => {
            let plainly_long =
                role == AgentRole::Plan && words >= LONG_TASK && !case.task.contains('?') && !looks_only;
            let is_checked = role == AgentRole::Implement && case.is_plainly_checked();
            Some(Ruling::select("beginning", worker, plainly_long || is_checked, reason))
        }
        None => {
            let worker = case.implementer()?;
            Some(Ruling::select("beginning-without-planner", worker, true, reason))
        }
    }
}
