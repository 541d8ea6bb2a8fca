//! People's answers to the questions of this task, and which questions may be asked at all.

use std::collections::{BTreeMap, BTreeSet};

use super::ledger::Ledger;
use crate::agent::Ask;
use crate::approval::{ApprovalQuestion, DEFAULT_ASK_MS, call_digest};
use crate::error::ErrorCode;
use crate::message::ToolCall;
use crate::time::Timestamp;
use crate::tool::{Refusal, ToolOutcome};

/// The answers of a task.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Approvals {
    /// Hosts that a call may reach, which ran without them and has to be made again, once. By the call's digest.
    hosts: BTreeMap<String, Vec<Refusal>>,
    /// The calls that were not allowed. They are not asked for again: an agent that repeats itself must not tire people
    /// out.
    refused: BTreeSet<String>,
}

impl Approvals {
    /// Grants `needs` to this call of `agent` from now on.
    pub(super) fn allow_hosts(&mut self, agent: &str, call: &ToolCall, needs: &[Refusal]) {
        let hosts = self.hosts.entry(call_digest(agent, call)).or_default();
        hosts.extend(needs.iter().filter(|need| matches!(need, Refusal::Host { .. })).cloned());
        hosts.sort();
        hosts.dedup();
    }

    /// `grants` and the hosts that were granted to this call of `agent` before.
    pub(super) fn all_grants(&self, agent: &str, call: &ToolCall, mut grants: Vec<Refusal>) -> Vec<Refusal> {
        if self.hosts.is_empty() {
            return grants;
        }
        let hosts = self.hosts.get(&call_digest(agent, call)).into_iter().flatten();
        for host in hosts {
            if !grants.contains(host) {
                grants.push(host.clone());
            }
        }
        grants
    }

    /// The call was made with what it was granted. The same words may do something else the next time.
    pub(super) fn used(&mut self, agent: &str, call: &ToolCall) {
        self.hosts.remove(&call_digest(agent, call));
    }

    pub(super) fn refuse(&mut self, agent: &str, call: &ToolCall, needs: &[Refusal]) {
        self.refused.insert(key(agent, call, needs));
    }

    pub(super) fn was_refused(&self, agent: &str, call: &ToolCall, needs: &[Refusal]) -> bool {
        self.refused.contains(&key(agent, call, needs))
    }
}

/// A call and what it needs.
fn key(agent: &str, call: &ToolCall, needs: &[Refusal]) -> String {
    let needs: Vec<String> = needs.iter().map(ToString::to_string).collect();
    format!("{} {}", call_digest(agent, call), needs.join(", "))
}

impl Ledger {
    /// Whether a person is asked for this where `agent` is refused it.
    pub(super) fn asks_for(&self, agent: &str, what: Ask) -> bool {
        let permissions = self.setup.agents.get(agent).map(|agent| &agent.permissions);
        permissions.is_some_and(|permissions| permissions.ask.iter().flatten().any(|ask| *ask == what))
    }

    /// What a person is asked for after this outcome of a call, which had `grants`. Empty if no one is asked, because
    /// something that is missing is not theirs to grant, or was granted and did not help.
    pub(super) fn asked_after(&self, agent: &str, grants: &[Refusal], outcome: &ToolOutcome) -> Vec<Refusal> {
        let has_run = outcome.refused.iter().any(|need| matches!(need, Refusal::Host { .. }));
        let was_denied = outcome.is_error && outcome.error_code == Some(ErrorCode::PermissionError);
        let mut needs: Vec<Refusal> =
            outcome.refused.iter().filter(|need| !grants.contains(need)).cloned().collect();
        needs.sort();
        needs.dedup();
        let is_askable = |need: &Refusal| self.asks_for(agent, need.asked_by());
        if (has_run || was_denied) && needs.iter().all(is_askable) { needs } else { Vec::new() }
    }

    /// The question for a call, which is asked as effect `number` now.
    pub(super) fn question(
        &self,
        number: u64,
        agent: &str,
        call: &ToolCall,
        needs: &[Refusal],
        why: &str,
    ) -> ApprovalQuestion {
        let agent_setup = self.setup.agents.get(agent);
        let timeout = agent_setup.and_then(|agent| agent.permissions.ask_timeout);
        let timeout = timeout.map_or(DEFAULT_ASK_MS, |timeout| timeout.as_ms());
        let wait = self.remaining().time_left_ms.map_or(timeout, |left| timeout.min(left));
        ApprovalQuestion {
            digest: ApprovalQuestion::digest(number, agent, call, needs),
            agent: agent.to_owned(),
            call: call.clone(),
            needs: needs.to_vec(),
            why: why.to_owned(),
            until: Timestamp(self.now.0.saturating_add(wait)),
        }
    }
}
