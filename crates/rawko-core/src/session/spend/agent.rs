//! The budget of one agent in a run, over all its executions (`budget:` of an agent).
//!
//! The figures are kept up to date, so that a turn costs the same however long the run is. An agent whose budget is
//! used up ends its execution, which is not a failure, and is not chosen again ([`Ledger::barred_by_budget`]).

use super::budget::Budget;
use super::{Spend, payer};
use crate::agent::AgentBudget;
use crate::session::ledger::Ledger;
use crate::session::{LimitKind, Reaction, TimerPurpose};
use crate::time::Timestamp;
use crate::usage::Usage;

/// What an agent has used.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct AgentSpend {
    executions: u32,
    tokens: u64,
    cost_usd: f64,
    worked_ms: u64,
    /// When it began to work, while it works. Pauses of the run move this forward.
    working_since: Option<Timestamp>,
    /// Why it had to stop, if it had to.
    stopped: Option<String>,
}

impl AgentSpend {
    pub(super) fn charge(&mut self, usage: &Usage, cost_usd: f64) {
        self.tokens = self.tokens.saturating_add(usage.total_tokens());
        self.cost_usd += cost_usd;
    }

    /// No process carried the run for so long.
    fn paused(&mut self, ms: u64) {
        if let Some(since) = &mut self.working_since {
            since.0 = since.0.saturating_add(ms);
        }
    }

    fn worked_ms(&self, now: Timestamp) -> u64 {
        self.worked_ms.saturating_add(self.working_since.map_or(0, |since| now.since(since)))
    }
}

impl Spend {
    /// The agent begins to work.
    fn begin_work(&mut self, agent: &str, now: Timestamp) {
        self.waited_ms = 0;
        let spend = self.agents.entry(agent.to_owned()).or_default();
        spend.executions = spend.executions.saturating_add(1);
        spend.working_since = Some(now);
    }

    /// Stops the clocks of the running agents.
    pub(in crate::session) fn stop_work(&mut self, now: Timestamp) {
        for spend in self.agents.values_mut() {
            spend.worked_ms = spend.worked_ms(now);
            spend.working_since = None;
        }
    }

    /// The agent whose clock runs.
    fn working(&self) -> Option<&str> {
        let (agent, _) = self.agents.iter().find(|(_, spend)| spend.working_since.is_some())?;
        Some(agent)
    }

    fn worked_ms(&self, agent: &str, now: Timestamp) -> u64 {
        self.agents.get(agent).map_or(0, |spend| spend.worked_ms(now))
    }

    /// The agents did not work for so long.
    pub(super) fn agents_paused(&mut self, ms: u64) {
        for spend in self.agents.values_mut() {
            spend.paused(ms);
        }
    }

    /// The agent waited for a model for so long, which is not its working time.
    pub(in crate::session) fn waited(&mut self, ms: u64) {
        self.waited_ms = self.waited_ms.saturating_add(ms);
        self.agents_paused(ms);
    }

    /// How long the execution has waited, in milliseconds, since its deadline was last moved by that.
    pub(in crate::session) fn take_waited(&mut self) -> u64 {
        std::mem::take(&mut self.waited_ms)
    }

    /// Bars the agent from further work: its budget is used up.
    pub(in crate::session) fn bar_agent(&mut self, agent: &str, why: String) {
        self.agents.entry(agent.to_owned()).or_default().stopped = Some(why);
    }

    /// The agents' budgets may have changed.
    pub(in crate::session) fn budgets_changed(&mut self) {
        for spend in self.agents.values_mut() {
            spend.stopped = None;
        }
    }
}

impl Ledger {
    /// Starts the clock of the agent that begins to work.
    pub(in crate::session) fn start_work_timer(&mut self, agent: &str, reaction: &mut Reaction) {
        self.spend.begin_work(agent, self.now);
        if let Some(left) = self.agent_time_left(agent) {
            self.start_timer(TimerPurpose::AgentBudget, left.max(1), reaction);
        }
    }

    /// How long the running agent may still work, if anything limits it.
    pub(in crate::session) fn running_agent_time_left(&self) -> Option<u64> {
        self.agent_time_left(self.spend.working()?)
    }

    /// How long the agent may still work, if anything limits it.
    fn agent_time_left(&self, agent: &str) -> Option<u64> {
        let max = self.budget_of(agent)?.max_duration?.as_ms();
        Some(max.saturating_sub(self.spend.worked_ms(agent, self.now)))
    }

    /// Why an agent whose time is up stops.
    pub(in crate::session) fn agent_time_is_up(&self, agent: &str) -> String {
        let max = self.budget_of(agent).and_then(|budget| budget.max_duration);
        let max = max.map(|max| max.to_string()).unwrap_or_default();
        format!("the {max} of `{agent}` are over (budget.maxDuration)")
    }

    /// Why the agent cannot be chosen any more, for people; `None` if its budget has room.
    pub(in crate::session) fn barred_by_budget(&self, agent: &str) -> Option<String> {
        let spend = self.spend.agents.get(agent)?;
        if spend.stopped.is_some() {
            return spend.stopped.clone();
        }
        let AgentBudget { max_iterations, max_tokens, max_cost_usd, max_duration } = self.budget_of(agent)?;
        if let Some(max) = max_iterations.filter(|max| spend.executions >= *max) {
            return Some(format!("the {max} execution(s) of `{agent}` are used up (budget.maxIterations)"));
        }
        if let Some(max) = max_tokens.filter(|max| spend.tokens >= *max) {
            return Some(format!("the {max} tokens of `{agent}` are used up (budget.maxTokens)"));
        }
        if let Some(max) = max_cost_usd.filter(|max| spend.cost_usd >= *max) {
            return Some(format!("the ${max:.4} of `{agent}` are spent (budget.maxCostUsd)"));
        }
        let over = |max: &crate::TimeSpan| self.spend.worked_ms(agent, self.now) >= max.as_ms();
        let max = max_duration.filter(over)?;
        Some(format!("the {max} of `{agent}` are over (budget.maxDuration)"))
    }

    /// Which of the agent's budgets is used up.
    pub(in crate::session) fn spent_budget(&self, agent: &str) -> Option<LimitKind> {
        let why = self.barred_by_budget(agent)?;
        let kinds = [
            ("budget.maxTokens", LimitKind::Tokens),
            ("budget.maxCostUsd", LimitKind::Cost),
            ("budget.maxDuration", LimitKind::Time),
        ];
        // The reason always names the setting.
        let named = kinds.into_iter().find(|(setting, _)| why.contains(setting));
        Some(named.map_or(LimitKind::Iterations, |(_, kind)| kind))
    }

    /// The agent's own budget for model calls.
    pub(super) fn agent_budget(&self, agent: &str) -> Option<Budget<'static>> {
        let budget = self.budget_of(agent)?;
        let spend = self.spend.agents.get(agent).cloned().unwrap_or_default();
        let (tokens, cost_usd) = self.spend.reserved(|purpose| payer(purpose) == Some(agent));
        Some(Budget {
            max_tokens: budget.max_tokens,
            max_cost_usd: budget.max_cost_usd,
            tokens: spend.tokens.saturating_add(tokens),
            cost_usd: spend.cost_usd + cost_usd,
            of: " of this agent",
            section: "budget",
        })
    }

    fn budget_of(&self, agent: &str) -> Option<AgentBudget> {
        self.setup.agents.get(agent).map(|agent| agent.config.budget)
    }
}
