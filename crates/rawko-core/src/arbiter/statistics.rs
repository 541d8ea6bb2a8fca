//! Statistics of the history, updated with each entry, so that building an input costs the same at entry ten and at
//! entry ten thousand.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::machine::{ExecutionStatus, HistoryEntry};
use crate::time::Timestamp;

/// Number of failures whose position is kept: a window of 10 entries has at most 10 of them, and an input may show 5
/// older ones (`docs/arbiter.md#history`).
const FAILURES_KEPT: usize = 15;

/// Statistics of the history, kept so that it need not be read again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryStatistics {
    entries: usize,
    finished: u64,
    duration_ms: u64,
    failures: VecDeque<usize>,
    agents: BTreeMap<String, AgentStatistics>,
}

/// The statistics of one agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentStatistics {
    /// Executions that succeeded or failed; cancelled ones do not count.
    pub executions: u32,
    /// Executions that succeeded.
    pub successes: u32,
    /// When it last succeeded.
    pub last_success: Option<Timestamp>,
    /// When it last failed.
    pub last_failure: Option<Timestamp>,
}

impl HistoryStatistics {
    /// Adds the entries that are new in the history since the last call.
    pub fn update(&mut self, history: &[HistoryEntry]) {
        for (position, entry) in history.iter().enumerate().skip(self.entries) {
            self.add(position, entry);
        }
        self.entries = history.len();
    }

    fn add(&mut self, position: usize, entry: &HistoryEntry) {
        if entry.result == ExecutionStatus::Cancelled {
            return;
        }
        self.finished += 1;
        self.duration_ms += entry.completed_at.since(entry.started_at);
        let agent = self.agents.entry(entry.agent.clone()).or_default();
        agent.executions += 1;
        if entry.result.is_failure() {
            agent.last_failure = Some(entry.completed_at);
            self.failures.push_back(position);
            if self.failures.len() > FAILURES_KEPT {
                self.failures.pop_front();
            }
        } else {
            agent.successes += 1;
            agent.last_success = Some(entry.completed_at);
        }
    }

    /// Positions of the latest failures, oldest first, at most 15.
    #[must_use]
    pub fn failures(&self) -> &VecDeque<usize> {
        &self.failures
    }

    /// The statistics of one agent, if it has run.
    #[must_use]
    pub fn agent(&self, name: &str) -> Option<&AgentStatistics> {
        self.agents.get(name)
    }

    /// Mean duration of the finished executions, in milliseconds; 0 before the first.
    #[must_use]
    pub fn mean_duration_ms(&self) -> u64 {
        self.duration_ms.checked_div(self.finished).unwrap_or(0)
    }
}
