//! Approvals: a person is asked for one call that the permissions do not grant (`docs/tools.md#approvals`).
//!
//! Calls that are denied outright are never asked for. A question names one call by its digest, so that an answer
//! counts for that call alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::message::ToolCall;
use crate::text::hex;
use crate::time::Timestamp;
use crate::tool::Refusal;

/// How long a question waits for its answer, unless `permissions.askTimeout` says otherwise, in milliseconds.
pub const DEFAULT_ASK_MS: u64 = 600_000;

/// The rule by which a call runs that a person allowed.
pub const APPROVED: &str = "approved by the user";

/// A question to a person: may this agent make this call?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalQuestion {
    /// Names this question: a digest of the session's number for it, the agent, the call and what it needs, in hexadecimal.
    pub digest: String,
    /// The agent that made the call.
    pub agent: String,
    /// The call, as the model made it.
    pub call: ToolCall,
    /// What it needs and was refused.
    pub needs: Vec<Refusal>,
    /// Why it was refused, in the words that the agent would get.
    pub why: String,
    /// When the question counts as denied.
    pub until: Timestamp,
}

/// How a question was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Approval {
    /// The call may be made, this once.
    Allowed {
        /// Who answered: `terminal`, `rawko approve`, or what the embedding program calls itself.
        by: String,
    },
    /// It may not.
    Denied {
        /// Who answered.
        by: String,
    },
    /// No one answered in time.
    Expired,
    /// There was no one to ask: no terminal, no callback, and no key to seal an answer with.
    Unattended,
}

impl ApprovalQuestion {
    /// The digest of question number `number` of a session.
    pub(crate) fn digest(number: u64, agent: &str, call: &ToolCall, needs: &[Refusal]) -> String {
        digest(&[&number.to_string(), agent, &call.name, &call.input.to_string(), &words(needs)])
    }

    /// What the call needs, in words: `to reach pypi.org, to read /etc/hosts`.
    #[must_use]
    pub fn needs_in_words(&self) -> String {
        words(&self.needs)
    }
}

/// Names a call of an agent wherever it is made again. The words that describe a command to people are no part of it.
pub(crate) fn call_digest(agent: &str, call: &ToolCall) -> String {
    let mut input = call.input.clone();
    if let Some(fields) = input.as_object_mut().filter(|_| call.name == crate::policy::BASH) {
        fields.remove("description");
    }
    digest(&[agent, &call.name, &input.to_string()])
}

fn words(needs: &[Refusal]) -> String {
    needs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// SHA-256 over the parts, each after its length, in hexadecimal.
fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn call(name: &str, input: Value) -> ToolCall {
        ToolCall { id: "1".into(), name: name.into(), input, invalid_input: None, withheld: None }
    }

    #[test]
    fn a_digest_is_of_one_question() {
        let bash = call("Bash", json!({"command": "make"}));
        let first = ApprovalQuestion::digest(7, "developer", &bash, &[Refusal::Command]);
        assert_eq!(first, ApprovalQuestion::digest(7, "developer", &bash, &[Refusal::Command]));
        let others = [
            ApprovalQuestion::digest(8, "developer", &bash, &[Refusal::Command]),
            ApprovalQuestion::digest(7, "tester", &bash, &[Refusal::Command]),
            ApprovalQuestion::digest(7, "developer", &bash, &[Refusal::Host { host: "x".into() }]),
            ApprovalQuestion::digest(
                7,
                "developer",
                &call("Bash", json!({"command": "make x"})),
                &[Refusal::Command],
            ),
        ];
        assert!(!others.contains(&first));
    }

    #[test]
    fn a_call_is_the_same_whatever_it_is_said_to_do() {
        let with = |input| call_digest("developer", &call("Bash", input));
        let described = with(json!({"command": "make", "description": "Builds"}));
        assert_eq!(described, with(json!({"command": "make"})));
        assert_ne!(described, with(json!({"command": "make", "timeout": 5})));
        let read = |input| call_digest("developer", &call("Read", input));
        assert_ne!(read(json!({"description": "a"})), read(json!({})));
    }
}
