//! Whether memories helped: one record a use, and what the records say of a memory.
//!
//! A use is one execution that was given the memory. Owns what counts as help and what that is worth in a score;
//! where the records are kept is decided elsewhere.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Most that feedback takes off a score.
const MAX_FEEDBACK: f64 = 10.0;
/// Uses that a memory is granted before its own count: a single lucky run must not decide.
const PRIOR: f64 = 4.0;

/// One execution that was given one memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Use {
    /// The session.
    pub session: String,
    /// The execution's number in it.
    pub iteration: u32,
    /// The agent that was given it.
    pub agent: String,
    /// Its path below the memories' folder.
    pub memory: String,
    /// Whether the agent spoke of it.
    #[serde(default)]
    pub cited: bool,
    /// Whether the execution touched a file that the memory speaks of.
    #[serde(default)]
    pub touched: bool,
    /// How the execution ended.
    pub outcome: UseOutcome,
    /// When.
    pub at: Timestamp,
}

/// How an execution ended that was given memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UseOutcome {
    /// It did what it was to do.
    Success,
    /// It did not.
    Failure,
    /// It was cancelled, or it was not judged: says nothing.
    #[serde(other)]
    Unknown,
}

/// What the records say of one memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Feedback {
    /// How often it was given to an agent.
    pub uses: u32,
    /// Cited, or its files touched, and the execution succeeded.
    pub helped: u32,
    /// Cited, or its files touched, and the execution failed.
    pub misled: u32,
    /// Neither cited nor its files touched.
    pub ignored: u32,
    /// When it was given last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Timestamp>,
}

impl Feedback {
    /// Takes one more use into account.
    pub fn add(&mut self, one: &Use) {
        self.uses += 1;
        let count = match (one.cited || one.touched, one.outcome) {
            (true, UseOutcome::Success) => &mut self.helped,
            (true, UseOutcome::Failure) => &mut self.misled,
            (false, UseOutcome::Success | UseOutcome::Failure) => &mut self.ignored,
            (_, UseOutcome::Unknown) => return self.seen(one.at),
        };
        *count += 1;
        self.seen(one.at);
    }

    fn seen(&mut self, at: Timestamp) {
        self.last_used = self.last_used.max(Some(at));
    }

    /// How often it did not help.
    #[must_use]
    pub fn not_helped(&self) -> u32 {
        self.misled + self.ignored
    }

    /// What it takes off a score: from −10 to 0. Misleading counts once, being ignored a quarter, helping once against both, over all uses
    /// and four more. It never adds anything: the file may come from a stranger.
    #[must_use]
    pub fn malus(&self) -> f64 {
        let balance = f64::from(self.helped) - f64::from(self.misled) - 0.25 * f64::from(self.ignored);
        let share = balance / (f64::from(self.uses) + PRIOR);
        // Tenths, so that what is printed adds up.
        ((MAX_FEEDBACK * share * 10.0).round() / 10.0).clamp(-MAX_FEEDBACK, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feedback(helped: u32, misled: u32, ignored: u32) -> Feedback {
        let mut all = Feedback::default();
        let mut add = |times, cited, outcome| {
            for at in 0..times {
                let (session, agent, memory) = (String::new(), String::new(), String::new());
                let at = Timestamp(u64::from(at));
                all.add(&Use { session, iteration: 1, agent, memory, cited, touched: false, outcome, at });
            }
        };
        add(helped, true, UseOutcome::Success);
        add(misled, true, UseOutcome::Failure);
        add(ignored, false, UseOutcome::Success);
        all
    }

    #[test]
    fn feedback_never_lifts_a_score() {
        let check = |helped, misled, ignored, malus: f64| {
            let got = feedback(helped, misled, ignored).malus();
            assert!((got - malus).abs() < 1e-9, "{helped} {misled} {ignored}: {got}");
        };
        check(0, 0, 0, 0.0);
        check(100_000, 0, 0, 0.0);
        check(1, 2, 0, -1.4);
        check(0, 100_000, 0, -10.0);
        check(0, 0, 100, -2.4);
        check(3, 3, 0, 0.0);
    }

    #[test]
    fn unjudged_uses_are_only_counted() {
        let line =
            r#"{"session":"s","iteration":1,"agent":"a","memory":"m.md","outcome":"later word","at":5}"#;
        let one: Use = serde_json::from_str(line).unwrap();
        let mut all = Feedback::default();
        all.add(&one);
        assert_eq!((all.uses, all.not_helped(), all.last_used), (1, 0, Some(Timestamp(5))));
    }
}
