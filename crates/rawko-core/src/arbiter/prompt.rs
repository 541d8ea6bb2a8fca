//! The arbiter's prompts (`docs/arbiter.md#prompts`): the stable part first, everything from
//! outside fenced as data.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::answer::DecisionKind;
use super::facts;
use super::input::{
    AgentDescription, ConstraintContext, ErrorContext, EvaluateProgressInput, ExecutionSummary,
    SelectAgentInput,
};
use super::offer::{SELECTING, judging, recovery};
use super::template::{VOLATILE, fence, fill, one_line};
use crate::machine::{ExecutionEnd, Plan, StepStatus};

/// The system prompt for a template without a stable part.
const BARE_SYSTEM: &str = "You are the arbiter of a software task that several agents carry out in turn. Answer by calling `decide`.";

/// The two templates, the user's or the built-in ones (`.rawko/prompts/arbiter-select.md`, `arbiter-evaluate.md`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Templates {
    /// For choosing the next agent.
    pub select: String,
    /// For evaluating progress.
    pub evaluate: String,
}

impl Default for Templates {
    fn default() -> Self {
        Self {
            select: include_str!("templates/select.md").to_owned(),
            evaluate: include_str!("templates/evaluate.md").to_owned(),
        }
    }
}

/// A prompt in its two parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The same for every question of the run, so that the provider's prefix cache applies.
    pub system: String,
    /// The question.
    pub user: String,
    /// The decisions that can be chosen.
    pub decisions: Vec<DecisionKind>,
}

impl Templates {
    /// The prompt for choosing the next agent.
    #[must_use]
    pub fn select(&self, input: &SelectAgentInput) -> Prompt {
        let agents = agents(&input.available_agents);
        let error = input
            .last_error
            .as_ref()
            .map_or_else(|| "No recent errors".to_owned(), |last| error(last, &recovery(last, input)));
        PromptValues {
            task: &input.task,
            agents: &agents,
            plan: &plan(input.plan.as_ref()),
            history: &history(input.history.iter(), "Nothing has been done yet"),
            error: &error,
            last_execution: "",
            constraints: &constraints(&input.constraints, input.plan.as_ref()),
            facts: &facts::text(&input.facts),
            performance: &facts::performance(&input.available_agents),
            iteration: input.constraints.current_iteration,
            max_iterations: input.constraints.max_iterations,
        }
        .fill(&self.select, &SELECTING)
    }

    /// The prompt for evaluating progress.
    #[must_use]
    pub fn evaluate(&self, input: &EvaluateProgressInput, available: &[AgentDescription]) -> Prompt {
        // The last execution is in the prompt once: by itself, unless the user's template has no place for that.
        let last = self.evaluate.contains("{lastExecution}").then_some(input.last_execution.iteration);
        let before = input.history.iter().filter(|entry| Some(entry.iteration) != last);
        PromptValues {
            task: &input.task,
            agents: &agents(available),
            plan: &plan(input.plan.as_ref()),
            history: &history(before, "Nothing before the last execution"),
            error: "",
            last_execution: &execution(&input.last_execution),
            constraints: &constraints(&input.constraints, input.plan.as_ref()),
            facts: &facts::text(&input.facts),
            performance: &facts::performance(available),
            iteration: input.constraints.current_iteration,
            max_iterations: input.constraints.max_iterations,
        }
        .fill(&self.evaluate, &judging(input, available))
    }
}

/// The values of the placeholders.
struct PromptValues<'a> {
    task: &'a str,
    agents: &'a str,
    plan: &'a str,
    history: &'a str,
    error: &'a str,
    last_execution: &'a str,
    constraints: &'a str,
    facts: &'a str,
    performance: &'a str,
    iteration: u32,
    max_iterations: u32,
}

impl PromptValues<'_> {
    fn fill(&self, template: &str, decisions: &[(DecisionKind, &str)]) -> Prompt {
        let (iteration, max) = (self.iteration.to_string(), self.max_iterations.to_string());
        let shown: Vec<String> =
            decisions.iter().map(|(kind, when)| format!("- {}{when}", kind.as_str())).collect();
        let shown = shown.join("\n");
        let names: Vec<&str> = decisions.iter().map(|(kind, _)| kind.as_str()).collect();
        let names = names.join(", ");
        let value = |name: &str| -> Option<&str> {
            Some(match name {
                "task" => self.task,
                "agents" => self.agents,
                "decisions" => &shown,
                "decisionNames" => &names,
                "plan" => self.plan,
                "history" => self.history,
                "error" | "lastError" => self.error,
                "lastExecution" => self.last_execution,
                "constraints" => self.constraints,
                "facts" => self.facts,
                "performance" => self.performance,
                "iteration" => &iteration,
                "maxIterations" => &max,
                _ => return None,
            })
        };
        let (system, user) = template.split_once(VOLATILE).unwrap_or((BARE_SYSTEM, template));
        Prompt {
            system: fill(system.trim(), value),
            user: fill(user.trim(), value),
            decisions: decisions.iter().map(|(kind, _)| *kind).collect(),
        }
    }
}

fn agents(available: &[AgentDescription]) -> String {
    let mut text = String::new();
    for agent in available {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        let when = if agent.when_to_use.is_empty() { "N/A" } else { &agent.when_to_use };
        let _ = write!(text, "- **{}** ({})\n    When to use: {when}", agent.display_name, agent.name);
        if let Some(role) = agent.role {
            let _ = write!(text, "\n    Role: {}", role.as_str());
        }
        if let Some(allowed) = &agent.tools.allowed {
            let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
            let _ = write!(text, "\n    Tools: {allowed}");
        }
        if !agent.tools.blocked.is_empty() {
            let _ = write!(text, "\n    Without: {}", agent.tools.blocked.join(", "));
        }
        let transitions = &agent.transitions;
        for (when, target) in [
            ("on success", &transitions.on_success),
            ("on failure", &transitions.on_failure),
            ("out of turns", &transitions.on_max_iterations),
        ] {
            if let Some(target) = target {
                let _ = write!(text, "\n    Usually {when}: {target}");
            }
        }
        for custom in &transitions.custom {
            let _ = write!(text, "\n    If {}: {}", custom.condition, custom.target);
        }
    }
    text
}

/// The whole plan: it is never shortened.
pub(crate) fn plan(plan: Option<&Plan>) -> String {
    let Some(plan) = plan.filter(|plan| !plan.steps.is_empty()) else {
        return "No plan yet".to_owned();
    };
    let done = plan.steps.iter().filter(|step| step.status == StepStatus::Complete).count();
    let mut text = format!("**Plan Progress**: {done} of {} steps complete", plan.steps.len());
    let mut steps = String::new();
    for (position, step) in plan.steps.iter().enumerate() {
        let mark = if position == plan.current_step_index && !plan.is_complete { " <- current" } else { "" };
        let by = step.agent_used.as_deref().map(|agent| format!(" ({agent})")).unwrap_or_default();
        let _ =
            writeln!(steps, "{}. [{}] {}{by}{mark}", step.index, status_word(step.status), step.description);
    }
    let _ = write!(text, "\n{}", fence("plan", steps.trim_end()));
    text
}

fn status_word(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Pending => "pending",
        StepStatus::InProgress => "in progress",
        StepStatus::Complete => "complete",
        StepStatus::Failed => "failed",
        StepStatus::Skipped => "skipped",
    }
}

fn history<'a>(entries: impl Iterator<Item = &'a ExecutionSummary>, none: &str) -> String {
    let shown = entries.map(execution).collect::<Vec<_>>();
    if shown.is_empty() { none.to_owned() } else { shown.join("\n\n") }
}

/// One execution: first what rawko observed, then the agent's own text, fenced.
pub(crate) fn execution(entry: &ExecutionSummary) -> String {
    let status = match entry.status {
        crate::machine::ExecutionStatus::Success => "success",
        crate::machine::ExecutionStatus::Failure => "failure",
        crate::machine::ExecutionStatus::Timeout => "timeout",
        crate::machine::ExecutionStatus::Cancelled => "cancelled",
    };
    let mut text = format!("- **{}** (iteration {}): {status}", entry.agent, entry.iteration);
    let _ = write!(text, "\n    Duration: {}ms", entry.duration_ms);
    if let Some(tokens) = &entry.tokens {
        let _ = write!(text, "\n    Tokens: {} in, {} out", tokens.input, tokens.output);
    }
    if let Some(facts) = &entry.facts {
        let ended = match facts.ended {
            Some(ExecutionEnd::Reported) => "the agent reported",
            Some(ExecutionEnd::EndTurn) => "the agent stopped without a report",
            Some(ExecutionEnd::MaxIterations) => "the agent used up its turns",
            Some(ExecutionEnd::Refusal) => "the model declined",
            Some(ExecutionEnd::Stalled) => "stopped: it went round in circles",
            Some(ExecutionEnd::Budget) => "stopped: the agent's own budget is used up",
            None => "interrupted",
        };
        let _ = write!(text, "\n    Recorded: {ended}, {} model turns", facts.turns);
        for fact in &facts.commands {
            let _ = write!(text, "\n    {}", facts::command(fact, facts.is_stale(fact)));
        }
        if let Some(diff) = &facts.diff {
            let _ = write!(text, "\n    Recorded change of the tree: {}", facts::diff(diff));
        }
        if let Some(verdict) = facts.verdict {
            let _ = write!(text, "\n    Verdict: {}", verdict.as_str());
        }
        if !facts.findings.is_empty() {
            let findings: Vec<String> = facts.findings.iter().map(|finding| finding.line()).collect();
            let _ = write!(text, "\n    Findings:\n{}", fence(&entry.agent, &findings.join("\n")));
        }
        if !facts.denied_tools.is_empty() {
            let _ = write!(text, "\n    Recorded denials: {}", one_line(&facts.denied_tools.join(", ")));
        }
    }
    if let Some(output) = &entry.output {
        if !output.files_modified.is_empty() {
            let files = one_line(&output.files_modified.join(", "));
            let _ = write!(text, "\n    Recorded files written: {files}");
        }
        let claimed = output.full.as_ref().unwrap_or(&output.summary);
        let _ = write!(text, "\n    Output (claimed by the agent):\n{}", fence(&entry.agent, claimed));
    }
    if let Some(error) = &entry.error {
        let _ = write!(text, "\n    Error ({}):\n{}", error.category.word(), fence("error", &error.message));
    }
    text
}

fn error(error: &ErrorContext, recovery: &[String]) -> String {
    let mut text = format!("Agent: {}\nCategory: {}", error.agent, error.category.word());
    if let Some(tool) = &error.tool {
        let _ = write!(text, "\nTool: {}", one_line(tool));
    }
    if let Some(step) = error.plan_step {
        let _ = write!(text, "\nPlan step: {step}");
    }
    let _ = write!(text, "\nAttempted: {}", one_line(&error.attempted));
    if let Some(code) = error.exit_code {
        let _ = write!(text, "\nExit code: {code}");
    }
    if let Some(attempts) = error.attempts {
        let _ = write!(text, "\nFailures in a row so far: {attempts}");
    }
    let _ = write!(text, "\n**Error**:\n{}", fence("error", &error.message));
    if !recovery.is_empty() {
        let _ = write!(text, "\nRecovery options:\n{}", recovery.join("\n"));
    }
    text
}

fn constraints(constraints: &ConstraintContext, plan: Option<&Plan>) -> String {
    let mut text = format!(
        "Iterations remaining: {}\nConsecutive failures: {} of {}\nTokens used: {}\nTime elapsed: {} s",
        constraints.iterations_remaining,
        constraints.consecutive_failures,
        constraints.max_consecutive_failures,
        constraints.estimated_tokens_used,
        constraints.time_elapsed_ms / 1_000,
    );
    // Without a plan the figure multiplies iterations that may never be needed; 0 says that nothing was measured yet, or
    // that no step is open.
    let estimate = constraints.estimated_time_remaining / 1_000;
    if plan.is_some() && estimate > 0 {
        let _ =
            write!(text, "\nEstimated time remaining: {estimate} s (mean time of an execution × open steps)");
    }
    text
}
