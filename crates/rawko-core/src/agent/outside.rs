//! Agents outside of rawko: another program does the work of the agent, by the Agent Client Protocol
//! (`docs/acp-agents.md`).
//!
//! Owns what is known of such a program and of its work. What it says is a claim; rawko compares the tree and runs the
//! checks as after any other execution.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::AgentConfig;
use super::verdict::{Finding, Verdict};
use crate::error::ErrorInfo;
use crate::policy::{Permission, WEB_FETCH, tool_permission};
use crate::text::truncate;
use crate::usage::Usage;

/// Longest execution of an outside agent whose `limits.timeout` says nothing, in milliseconds.
pub const OUTSIDE_TIMEOUT_MS: u64 = 30 * 60 * 1_000;
/// Characters of what it wants permission for.
const TITLE_CHARS: usize = 200;
/// The line by which an outside agent that judges gives its verdict.
const VERDICT: &str = "verdict:";
/// The line by which it names what it found.
const FINDING: &str = "finding:";
/// Findings that are read.
const FINDINGS: usize = 20;

/// `acp:` of an agent: the program that does its work.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct AcpProgram {
    /// The program and its arguments. It speaks the Agent Client Protocol on its standard input and output.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
    /// The variable of your environment that it is given, although its name is that of a secret: the key of its model's
    /// service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Further variables that it is given, with their values. No place for a secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Hosts that it may reach, as in `permissions.net` (default: none).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub net: Vec<String>,
}

impl AcpProgram {
    /// The program, without its arguments.
    #[must_use]
    pub fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }
}

/// What an outside agent did, as far as its program said it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutsideWork {
    /// How it ended.
    pub end: OutsideEnd,
    /// Its last message, bounded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What it wanted permission for, and what it was answered; bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<OutsideAsked>,
    /// The tokens that it used, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What it cost in US dollars, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Wall time, in milliseconds.
    pub duration_ms: u64,
}

impl OutsideWork {
    /// Work that failed before anything is known of it.
    #[must_use]
    pub fn failed(error: ErrorInfo) -> Self {
        Self {
            end: OutsideEnd::Failed { error },
            text: String::new(),
            asked: Vec::new(),
            usage: None,
            cost_usd: None,
            duration_ms: 0,
        }
    }
}

/// An outside agent of a run, and what it was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutsideUse {
    /// The agent's name.
    pub agent: String,
    /// Its program.
    pub program: String,
    /// The variable of the user's environment that it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// How the work of an outside agent ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum OutsideEnd {
    /// It ended its turn.
    Stopped {
        /// Why.
        reason: OutsideStop,
    },
    /// It could not be started, ended too early, or did not keep to the protocol.
    Failed {
        /// What went wrong.
        error: ErrorInfo,
    },
}

/// Why an outside agent ended its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutsideStop {
    /// It is finished.
    EndTurn,
    /// Its own limit of tokens.
    MaxTokens,
    /// Its own limit of turns.
    MaxTurns,
    /// It declines.
    Refusal,
    /// It was stopped.
    Cancelled,
}

/// One question for permission, and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutsideAsked {
    /// What kind of act it is.
    pub act: OutsideAct,
    /// The act in the program's words.
    pub title: String,
    /// Whether it was allowed.
    pub allowed: bool,
    /// The rule that decided.
    pub rule: String,
}

impl OutsideAsked {
    /// The question with the policy's answer.
    #[must_use]
    pub fn judged(agent: &AgentConfig, act: OutsideAct, title: &str) -> Self {
        let (allowed, rule) = match act_permission(agent, act) {
            Permission::Allowed { rule } => (true, rule),
            Permission::Denied { rule, .. } => (false, rule),
        };
        Self { act, title: truncate(title.trim(), TITLE_CHARS), allowed, rule }
    }
}

/// What an outside agent wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutsideAct {
    /// Read or search.
    Read,
    /// Change, delete or move files.
    Edit,
    /// Run a command.
    Execute,
    /// Fetch something from the network.
    Fetch,
    /// Something else.
    Other,
}

impl OutsideAct {
    /// Its name in notes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Execute => "execute",
            Self::Fetch => "fetch",
            Self::Other => "other",
        }
    }
}

/// Whether `agent` may do this: what its `tools` would let it do with rawko's own tools. The sandbox is the second wall.
#[must_use]
pub fn act_permission(agent: &AgentConfig, act: OutsideAct) -> Permission {
    let may = |tools: &[&str]| {
        let mut judged = tools.iter().map(|tool| tool_permission(agent, tool, tools));
        let first = judged.next().unwrap_or_else(|| Permission::allowed("no tool of rawko is like it"));
        if first.is_allowed() { first } else { judged.find(Permission::is_allowed).unwrap_or(first) }
    };
    match act {
        OutsideAct::Edit => may(&["Edit", "Write"]),
        OutsideAct::Execute => may(&["Bash"]),
        OutsideAct::Fetch => may(&[WEB_FETCH]),
        OutsideAct::Read | OutsideAct::Other => may(&[]),
    }
}

/// The verdict in the words of an outside agent that judges, with what it found. The last one counts.
#[must_use]
pub fn verdict_in(text: &str) -> Option<(Verdict, Vec<Finding>)> {
    let bare = |line: &str| line.trim().trim_matches(['*', '_', '`', '#', '-', ' ']).to_owned();
    let after = |line: &str, word: &str| {
        let line = bare(line);
        let start = line.get(..word.len())?;
        start.eq_ignore_ascii_case(word).then(|| bare(line.get(word.len()..).unwrap_or_default()))
    };
    // One that is not understood takes back an earlier one.
    let word = text.lines().rev().find_map(|line| after(line, VERDICT))?;
    let word = word.trim_end_matches('.').to_ascii_lowercase();
    let known = [Verdict::Approved, Verdict::Rejected, Verdict::Blocked];
    let verdict = known.into_iter().find(|verdict| verdict.as_str() == word)?;
    let findings = text.lines().filter_map(|line| after(line, FINDING)).filter(|text| !text.is_empty());
    let findings = findings.take(FINDINGS).map(|text| Finding::of_text(&text)).collect();
    Some((verdict, findings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(tools: &serde_json::Value, act: OutsideAct, allowed: bool) {
        let agent = json!({"name": "a", "systemPrompt": "p", "tools": tools});
        let agent: AgentConfig = serde_json::from_value(agent).unwrap();
        let asked = OutsideAsked::judged(&agent, act, " x ");
        assert_eq!((asked.allowed, asked.title.as_str()), (allowed, "x"), "{tools} {act:?}: {}", asked.rule);
    }

    #[test]
    fn an_outside_agent_may_do_what_its_tools_let_it_do() {
        for act in [OutsideAct::Read, OutsideAct::Edit, OutsideAct::Execute, OutsideAct::Fetch] {
            check(&json!({}), act, true);
        }
        let reader = json!({"allowed": ["Read", "Grep"]});
        check(&reader, OutsideAct::Read, true);
        check(&reader, OutsideAct::Other, true);
        check(&reader, OutsideAct::Edit, false);
        check(&reader, OutsideAct::Execute, false);
        check(&json!({"allowed": ["Write"]}), OutsideAct::Edit, true);
        check(&json!({"blocked": ["Write", "Edit"]}), OutsideAct::Edit, false);
        check(&json!({"blocked": ["Edit"]}), OutsideAct::Edit, true);
    }

    #[test]
    fn the_last_verdict_counts_with_its_findings() {
        let text = "I looked.\nVerdict: approved\n- Finding: a.rs:3 is wrong\n**Finding:** b\n\n**Verdict: Rejected.**\n";
        let (verdict, findings) = verdict_in(text).unwrap();
        assert_eq!(verdict, Verdict::Rejected);
        let lines: Vec<String> = findings.iter().map(Finding::line).collect();
        assert_eq!(lines, ["a.rs:3 is wrong", "b"]);
        for none in ["", "approved", "Verdict: perhaps", "my verdict: approved"] {
            assert_eq!(verdict_in(none), None, "{none}");
        }
        let taken_back = "Verdict: approved\nVerdict: rejected, the tests fail";
        assert_eq!(verdict_in(taken_back), None, "an approval does not outlive what follows it");
    }
}
