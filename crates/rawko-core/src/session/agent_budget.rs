//! What one agent may use up in a run, over all its executions (`budget:` of an agent).
//!
//! The figures are kept up to date, so that a turn costs the same however long the run is. An agent whose budget is
//! used up ends its execution, which is no failure, and is not to be chosen again ([`Run::barred_by_budget`]).

use super::budget::Purse;
use super::effect::TimerPurpose;
use super::run::Run;
use super::{LimitKind, Reaction};
use crate::agent::AgentBudget;
use crate::request::Purpose;
use crate::time::Timestamp;
use crate::usage::Usage;

/// What an agent has used up.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Account {
    executions: u32,
    tokens: u64,
    cost_usd: f64,
    worked_ms: u64,
    /// Why it had to stop, if it had to.
    stopped: Option<String>,
}

impl Account {
    pub(super) fn charge(&mut self, usage: &Usage, cost_usd: f64) {
        self.tokens = self.tokens.saturating_add(usage.total_tokens());
        self.cost_usd += cost_usd;
    }
}

/// An agent at work: since when, pauses left out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shift {
    agent: String,
    since: Timestamp,
}

impl Shift {
    pub(super) fn paused(&mut self, ms: u64) {
        self.since = Timestamp(self.since.0.saturating_add(ms));
    }
}

impl Run {
    /// An agent begins to work; its time runs.
    pub(super) fn begin_shift(&mut self, agent: &str, reaction: &mut Reaction) {
        let account = self.spent.accounts.entry(agent.to_owned()).or_default();
        account.executions = account.executions.saturating_add(1);
        self.spent.shift = Some(Shift { agent: agent.to_owned(), since: self.now });
        if let Some(left) = self.agent_time_left(agent) {
            self.start_timer(TimerPurpose::AgentBudget, left.max(1), reaction);
        }
    }

    /// Whoever was at work is so no more.
    pub(super) fn end_shift(&mut self) {
        let Some(Shift { agent, since }) = self.spent.shift.take() else { return };
        let account = self.spent.accounts.entry(agent).or_default();
        account.worked_ms = account.worked_ms.saturating_add(self.now.since(since));
    }

    /// How long the agent may still work, if anything limits it.
    pub(super) fn agent_time_left(&self, agent: &str) -> Option<u64> {
        let max = self.budget_of(agent)?.max_duration?.as_ms();
        Some(max.saturating_sub(self.worked_ms(agent)))
    }

    /// The time of the agent at work is up.
    pub(super) fn agent_time_is_up(&mut self, reaction: &mut Reaction) {
        let Some(agent) = self.spent.shift.as_ref().map(|shift| shift.agent.clone()) else { return };
        let max = self.budget_of(&agent).and_then(|budget| budget.max_duration);
        let max = max.map(|max| max.to_string()).unwrap_or_default();
        self.agent_stopped(format!("the {max} of `{agent}` are over (budget.maxDuration)"), reaction);
    }

    /// The agent at work has used up its budget: its execution ends, and what it brought counts.
    pub(super) fn agent_stopped(&mut self, why: String, reaction: &mut Reaction) {
        let Some(execution) = self.execution.as_mut() else { return };
        let (agent, result) = (execution.agent().to_owned(), execution.out_of_budget(&why));
        self.spent.accounts.entry(agent).or_default().stopped = Some(why);
        self.execution_ended(result, reaction);
    }

    /// Budgets may be others from now on.
    pub(super) fn budgets_changed(&mut self) {
        for account in self.spent.accounts.values_mut() {
            account.stopped = None;
        }
    }

    /// Why the agent cannot be chosen any more, for people; `None` where its budget has room.
    pub(super) fn barred_by_budget(&self, agent: &str) -> Option<String> {
        let account = self.spent.accounts.get(agent)?;
        if account.stopped.is_some() {
            return account.stopped.clone();
        }
        let AgentBudget { max_iterations, max_tokens, max_cost_usd, max_duration } = self.budget_of(agent)?;
        if let Some(max) = max_iterations.filter(|max| account.executions >= *max) {
            return Some(format!("the {max} execution(s) of `{agent}` are used up (budget.maxIterations)"));
        }
        if let Some(max) = max_tokens.filter(|max| account.tokens >= *max) {
            return Some(format!("the {max} tokens of `{agent}` are used up (budget.maxTokens)"));
        }
        if let Some(max) = max_cost_usd.filter(|max| account.cost_usd >= *max) {
            return Some(format!("the ${max:.4} of `{agent}` are spent (budget.maxCostUsd)"));
        }
        let over = |max: &crate::TimeSpan| self.worked_ms(agent) >= max.as_ms();
        let max = max_duration.filter(over)?;
        Some(format!("the {max} of `{agent}` are over (budget.maxDuration)"))
    }

    /// Which of the agent's budgets is used up.
    pub(super) fn spent_budget(&self, agent: &str) -> Option<LimitKind> {
        let why = self.barred_by_budget(agent)?;
        let kinds = [
            ("budget.maxTokens", LimitKind::Tokens),
            ("budget.maxCostUsd", LimitKind::Cost),
            ("budget.maxDuration", LimitKind::Time),
        ];
        // The reason names the setting, whichever way it came about.
        let named = kinds.into_iter().find(|(setting, _)| why.contains(setting));
        Some(named.map_or(LimitKind::Iterations, |(_, kind)| kind))
    }

    /// The agent's own budget for model calls.
    pub(super) fn agent_purse(&self, agent: &str) -> Option<Purse<'static>> {
        let budget = self.budget_of(agent)?;
        let account = self.spent.accounts.get(agent).cloned().unwrap_or_default();
        let (tokens, cost_usd) = self.spent.held(|purpose| match purpose {
            Purpose::Select | Purpose::Evaluate | Purpose::Remember { .. } => false,
            Purpose::Agent { name } | Purpose::Summarize { agent: name } => name == agent,
        });
        Some(Purse {
            max_tokens: budget.max_tokens,
            max_cost_usd: budget.max_cost_usd,
            tokens: account.tokens.saturating_add(tokens),
            cost_usd: account.cost_usd + cost_usd,
            of: " of this agent",
            section: "budget",
        })
    }

    fn budget_of(&self, agent: &str) -> Option<AgentBudget> {
        self.setup.agents.get(agent).map(|agent| agent.config.budget)
    }

    fn worked_ms(&self, agent: &str) -> u64 {
        let before = self.spent.accounts.get(agent).map_or(0, |account| account.worked_ms);
        let now = self.spent.shift.as_ref().filter(|shift| shift.agent == agent);
        before.saturating_add(now.map_or(0, |shift| self.now.since(shift.since)))
    }
}
