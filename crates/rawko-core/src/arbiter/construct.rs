//! Building the arbiter's inputs (`docs/arbiter.md#inputs`).
//! Pure: the same context and time give the same bytes; the cost does not depend on the length of the history.

use super::errors::{category_of, recovery_actions, recovery_options};
use super::input::{
    ARBITER, AgentDescription, ConstraintContext, ErrorContext, ErrorSummary, ErrorSurroundings,
    EvaluateProgressInput, ExecutionSummary, OutputSummary, RecentPerformance, RecordedFacts, RunFacts,
    SelectAgentInput, TokenCounts, ToolLists,
};
use super::statistics::{AgentStatistics, HistoryStatistics};
use crate::agent::{AgentConfig, ToolFilter};
use crate::machine::{
    AgentResult, Context, ExecutionStatus, FailureRecord, HistoryEntry, Limits, Plan, StepStatus,
};
use crate::setup::Setup;
use crate::text::truncate;
use crate::time::Timestamp;

/// History entries shown for selection.
pub const SELECT_HISTORY: usize = 10;
/// History entries shown for evaluation.
pub const EVALUATE_HISTORY: usize = 5;
/// Failures in that window above which older failures are shown too.
const FAILING_REPEATEDLY: usize = 2;
/// Most older failures shown.
const OLDER_FAILURES: usize = 5;
/// Characters of an output summary.
const SUMMARY_CHARS: usize = 300;
/// Characters of the output that is evaluated.
const FULL_CHARS: usize = 2_000;
/// Names of files or tools that are listed.
const MAX_NAMES: usize = 50;
/// Characters of such a name.
const NAME_CHARS: usize = 200;
/// Findings of an execution that is shown in short.
const FINDINGS: usize = 5;
/// Characters of an error message.
const ERROR_CHARS: usize = 1_000;

/// Everything the inputs are built from.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The machine's context.
    pub context: &'a Context,
    /// The plan with the changes of an execution that broke off; absent where the machine's plan is up to date.
    pub draft: Option<&'a Plan>,
    /// The machine's limits.
    pub limits: &'a Limits,
    /// Statistics of the history, up to date with it.
    pub statistics: &'a HistoryStatistics,
    /// Tokens of all model calls so far.
    pub tokens_used: u64,
    /// What rawko itself observed in the run.
    pub facts: &'a RunFacts,
    /// The current time.
    pub now: Timestamp,
    /// How long no process carried the run, in milliseconds: no part of its time.
    pub paused_ms: u64,
    /// Executions of earlier tasks of the session, which the machine counts and the arbiter is not shown.
    pub earlier_iterations: u32,
    /// What the run has; absent outside of one, where agents are described as they are configured.
    pub setup: Option<&'a Setup>,
}

impl Sources<'_> {
    fn plan(&self) -> Option<&Plan> {
        self.draft.or(self.context.plan.as_ref())
    }

    /// The last entries, with the numbers that executions have within the task.
    fn history(&self, window: usize) -> Vec<ExecutionSummary> {
        let history = recent_history(self.context, self.statistics, window);
        history.into_iter().map(|entry| self.renumbered(entry)).collect()
    }

    fn renumbered(&self, entry: ExecutionSummary) -> ExecutionSummary {
        ExecutionSummary { iteration: entry.iteration.saturating_sub(self.earlier_iterations), ..entry }
    }
}

/// Input for choosing among `agents`.
#[must_use]
pub fn select_input<'a>(
    sources: Sources<'_>,
    agents: impl Iterator<Item = &'a AgentConfig>,
) -> SelectAgentInput {
    let Sources { context, statistics, facts, .. } = sources;
    SelectAgentInput {
        task: context.task.clone(),
        plan: sources.plan().cloned(),
        history: sources.history(SELECT_HISTORY),
        last_error: context
            .last_error
            .as_ref()
            .map(|failure| error_context(failure, context, sources.plan())),
        available_agents: agents
            .map(|agent| AgentDescription {
                tools: tools(agent, sources.setup),
                ..describe(agent, statistics.agent(&agent.name))
            })
            .collect(),
        constraints: constraints(sources),
        facts: facts.clone(),
    }
}

/// Input for evaluating the last execution; `None` before the first.
#[must_use]
pub fn evaluate_input(sources: Sources<'_>) -> Option<EvaluateProgressInput> {
    let Sources { context, facts, .. } = sources;
    let last = context.history.last()?;
    Some(EvaluateProgressInput {
        task: context.task.clone(),
        plan: sources.plan().cloned(),
        last_execution: sources.renumbered(summarize(last, Detail::Full)),
        history: sources.history(EVALUATE_HISTORY),
        constraints: constraints(sources),
        facts: facts.clone(),
    })
}

/// The last `window` entries. If more than two of them failed, up to five of the latest older failures come before
/// them. Chronological, without duplicates.
pub(crate) fn recent_history(
    context: &Context,
    statistics: &HistoryStatistics,
    window: usize,
) -> Vec<ExecutionSummary> {
    let start = context.history.len().saturating_sub(window);
    let recent = context.history.get(start..).unwrap_or_default();
    let failing = recent.iter().filter(|entry| entry.result.is_failure()).count();
    let older: Vec<usize> = if failing > FAILING_REPEATEDLY {
        let before: Vec<usize> =
            statistics.failures().iter().copied().filter(|position| *position < start).collect();
        before.get(before.len().saturating_sub(OLDER_FAILURES)..).unwrap_or_default().to_vec()
    } else {
        Vec::new()
    };
    older
        .into_iter()
        .filter_map(|position| context.history.get(position))
        .chain(recent)
        .map(|entry| summarize(entry, Detail::Summary))
        .collect()
}

/// What an agent that begins learns of the executions before it: the last one with its whole report, the others in
/// short.
pub(crate) fn handed_over(context: &Context, statistics: &HistoryStatistics) -> Vec<ExecutionSummary> {
    let mut entries = recent_history(context, statistics, EVALUATE_HISTORY);
    if let (Some(last), Some(shown)) = (context.history.last(), entries.last_mut()) {
        let mut whole = summarize(last, Detail::Full);
        // Its cost does not help an agent to go on from it.
        whole.tokens = None;
        if let (Some(text), Some(output)) = (&last.output, &mut whole.output) {
            let cut = text.chars().count().saturating_sub(FULL_CHARS);
            if cut > 0 {
                output.full =
                    Some(format!("{}\n[{cut} more characters are cut]", truncate(text, FULL_CHARS)));
            }
        }
        *shown = whole;
    }
    entries
}

/// The history entry that a result will become, before the machine has received it.
pub(crate) fn summary_of_result(context: &Context, result: &AgentResult, now: Timestamp) -> ExecutionSummary {
    let entry = HistoryEntry {
        agent: context.current_mode.clone(),
        iteration: context.iteration_count,
        started_at: context.executing_since.unwrap_or(now),
        completed_at: now,
        result: if result.success { ExecutionStatus::Success } else { ExecutionStatus::Failure },
        output: None,
        error: result.error.clone(),
        plan_step: None,
        usage: result.usage,
        facts: result.facts.clone(),
    };
    summarize(&entry, Detail::Full)
}

/// How much of an entry is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Summary,
    Full,
}

fn summarize(entry: &HistoryEntry, detail: Detail) -> ExecutionSummary {
    let facts = &entry.facts;
    let has_output = entry.output.is_some() || !facts.files_modified.is_empty();
    let output = has_output.then(|| {
        let text = entry.output.as_deref().unwrap_or_default();
        OutputSummary {
            summary: truncate(text, SUMMARY_CHARS),
            full: (detail == Detail::Full).then(|| truncate(text, FULL_CHARS)),
            files_modified: bounded(&facts.files_modified),
        }
    });
    let error = entry.error.as_ref().map(|error| {
        let category = category_of(error.code);
        ErrorSummary {
            message: truncate(&error.message, ERROR_CHARS),
            category,
            step: entry.plan_step.map(|step| step + 1),
            tool: error.tool.clone(),
            command: error.command().map(str::to_owned),
            exit_code: error.exit_code(),
            attempts: error.attempts(),
            recovery_options: recovery_actions(category, error.code),
        }
    });
    let recorded = RecordedFacts {
        ended: facts.ended,
        turns: facts.turns,
        commands: facts.commands.clone(),
        may_have_written: facts.may_have_written,
        denied_tools: bounded(&facts.denied_tools),
        diff: facts.diff.clone(),
        verdict: facts.verdict,
        findings: facts
            .findings
            .iter()
            .take(if detail == Detail::Full { usize::MAX } else { FINDINGS })
            .cloned()
            .collect(),
    };
    ExecutionSummary {
        agent: entry.agent.clone(),
        iteration: entry.iteration,
        status: entry.result,
        duration_ms: entry.completed_at.since(entry.started_at),
        output,
        error,
        tokens: entry.usage.filter(|_| detail == Detail::Full).map(|usage| TokenCounts {
            input: usage.prompt_tokens(),
            output: usage.output_tokens,
            total: usage.total_tokens(),
        }),
        facts: (recorded != RecordedFacts::default()).then_some(recorded),
        started_at: entry.started_at.to_rfc3339(),
        completed_at: entry.completed_at.to_rfc3339(),
    }
}

/// The first names of a list, and the number of the others.
fn bounded(names: &[String]) -> Vec<String> {
    let mut shown: Vec<String> =
        names.iter().take(MAX_NAMES).map(|name| truncate(name, NAME_CHARS)).collect();
    if names.len() > MAX_NAMES {
        shown.push(format!("and {} more", names.len() - MAX_NAMES));
    }
    shown
}

fn error_context(failure: &FailureRecord, context: &Context, plan: Option<&Plan>) -> ErrorContext {
    let category = category_of(failure.error.code);
    let last = context.history.last().filter(|entry| entry.agent == failure.agent);
    let usage = last.and_then(|entry| entry.usage);
    let last_command = || last.and_then(|entry| entry.facts.commands.last()).map(|fact| fact.command.clone());
    let command = failure.error.command().map(str::to_owned).or_else(last_command);
    let step = plan.and_then(|plan| plan.steps.get(plan.current_step_index));
    let attempted = match (&command, step) {
        (Some(command), _) => command.clone(),
        (None, Some(step)) => truncate(&step.description, SUMMARY_CHARS),
        (None, None) => truncate(&context.task, SUMMARY_CHARS),
    };
    ErrorContext {
        agent: if failure.agent.is_empty() { ARBITER.to_owned() } else { failure.agent.clone() },
        tool: failure.error.tool.clone(),
        plan_step: step.map(|step| step.index),
        attempted,
        message: truncate(&failure.error.message, ERROR_CHARS),
        category,
        exit_code: failure.error.exit_code(),
        attempts: failure.error.attempts(),
        recovery_options: recovery_options(category, failure.error.code),
        timestamp: failure.at.to_rfc3339(),
        context: ErrorSurroundings {
            files_accessed: last.map(|entry| bounded(&entry.facts.files_accessed)).unwrap_or_default(),
            command_executed: command,
            input_size: usage.map(|usage| usage.prompt_tokens()),
            output_size: usage.map(|usage| usage.output_tokens),
        },
    }
}

/// The description of an agent in the arbiter's input.
pub(super) fn describe(agent: &AgentConfig, statistics: Option<&AgentStatistics>) -> AgentDescription {
    AgentDescription {
        name: agent.name.clone(),
        display_name: agent.display_name().to_owned(),
        when_to_use: agent.when_to_use.joined(),
        role: agent.role,
        tools: tools(agent, None),
        transitions: agent.transitions.clone(),
        recent_performance: statistics.filter(|statistics| statistics.executions > 0).map(performance),
    }
}

/// The agent's lists of tools, without what the run does not have.
fn tools(agent: &AgentConfig, setup: Option<&Setup>) -> ToolLists {
    let of_run = setup.and_then(|setup| Some((setup, setup.agents.get(&agent.name)?)));
    let there = |entry: &&String| of_run.is_none_or(|(setup, agent)| setup.has_tool(entry, agent));
    let ToolFilter { allowed, blocked, .. } = &agent.tools;
    ToolLists {
        allowed: allowed.as_ref().map(|allowed| allowed.iter().filter(there).cloned().collect()),
        blocked: blocked.iter().filter(there).cloned().collect(),
    }
}

fn performance(statistics: &AgentStatistics) -> RecentPerformance {
    let executions = f64::from(statistics.executions);
    RecentPerformance {
        last_success: statistics.last_success.map(Timestamp::to_rfc3339),
        last_failure: statistics.last_failure.map(Timestamp::to_rfc3339),
        success_rate: 100.0 * f64::from(statistics.successes) / executions,
        iteration_average: executions / f64::from(statistics.successes.max(1)),
    }
}

fn constraints(sources: Sources<'_>) -> ConstraintContext {
    let Sources {
        context,
        draft: _,
        limits,
        statistics,
        tokens_used,
        facts: _,
        now,
        paused_ms,
        earlier_iterations,
        setup: _,
    } = sources;
    let iterations_remaining = limits.max_iterations.saturating_sub(context.iteration_count);
    let steps_left = match sources.plan() {
        None => u64::from(iterations_remaining),
        Some(plan) => plan
            .steps
            .iter()
            .filter(|step| matches!(step.status, StepStatus::Pending | StepStatus::InProgress))
            .count() as u64,
    };
    ConstraintContext {
        max_iterations: limits.max_iterations.saturating_sub(earlier_iterations),
        current_iteration: context.iteration_count.saturating_sub(earlier_iterations),
        iterations_remaining,
        consecutive_failures: context.consecutive_failures,
        max_consecutive_failures: limits.max_consecutive_failures,
        estimated_tokens_used: tokens_used,
        time_elapsed_ms: context.started_at.map_or(0, |start| now.since(start).saturating_sub(paused_ms)),
        estimated_time_remaining: statistics.mean_duration_ms().saturating_mul(steps_left),
    }
}
