//! How much a memory matters to an execution: the weights of `docs/spec/memory.md`, "Score", every component kept.
//!
//! Owns the weights and the bounds. Words count once each, by stem, and stop words not at all; the sum of all components is
//! held between 0 and 100 at the end alone, so that the parts always show how it came about.

use std::collections::BTreeSet;

use serde::Serialize;

use super::header::Header;
use super::query::Query;
use super::recipient::{Recipient, tag_key};
use super::words::stems;
use crate::Timestamp;
use crate::agent::Importance;

const HOUR_MS: u64 = 3_600_000;

/// The components of a score. Each is what it adds; maluses are negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Score {
    /// The sum, between 0 and 100.
    pub total: f64,
    /// 5, 15, 25 or 30.
    pub importance: f64,
    /// 10 under 24 hours, 5 under 72.
    pub recency: f64,
    /// 5 for each word of the title that the task has, up to 20.
    pub title_words: f64,
    /// 5 for each tag shared with the agent, up to 15.
    pub tags: f64,
    /// 10 where the same agent found it out.
    pub same_agent: f64,
    /// The agent's `memory.scoreBonus`, where it shares a tag.
    pub agent_bonus: f64,
    /// What earlier uses take off: from −10 to 0.
    pub feedback: f64,
    /// What a changed tree takes off: down to −15.
    pub staleness: f64,
}

impl Score {
    /// Scores a memory; staleness is looked at only for those that may be chosen ([`Score::stale`]).
    #[must_use]
    pub fn of(header: &Header, query: &Query, recipient: &Recipient, feedback: f64, now: Timestamp) -> Self {
        let tags: BTreeSet<String> = header.tags.iter().map(|tag| tag_key(tag)).collect();
        let shared_tags = tags.intersection(&recipient.tag_keys()).count();
        let by_same_agent = header.discovered_by.as_deref() == Some(recipient.name.as_str());
        let score = Self {
            importance: of_importance(header.effective_importance()),
            recency: of_recency(header.discovered_at, now),
            title_words: five_each(stems(&header.title).intersection(query.task_stems()).count(), 20.0),
            tags: five_each(shared_tags, 15.0),
            same_agent: if by_same_agent { 10.0 } else { 0.0 },
            agent_bonus: if shared_tags > 0 { recipient.score_bonus } else { 0.0 },
            feedback,
            ..Self::default()
        };
        score.summed()
    }

    /// The same with what the tree takes off.
    #[must_use]
    pub fn stale(self, malus: f64) -> Self {
        Self { staleness: if malus > 0.0 { -malus } else { 0.0 }, ..self }.summed()
    }

    /// The components with their names, as tables show them.
    #[must_use]
    pub fn components(&self) -> [(&'static str, f64); 8] {
        [
            ("importance", self.importance),
            ("recency", self.recency),
            ("title words", self.title_words),
            ("tags", self.tags),
            ("same agent", self.same_agent),
            ("agent's bonus", self.agent_bonus),
            ("feedback", self.feedback),
            ("staleness", self.staleness),
        ]
    }

    /// The same with its total.
    #[must_use]
    pub fn summed(self) -> Self {
        let sum: f64 = self.components().iter().map(|(_, points)| points).sum();
        Self { total: sum.clamp(0.0, 100.0), ..self }
    }
}

/// Points for importance.
#[must_use]
pub(super) fn of_importance(importance: Importance) -> f64 {
    match importance {
        Importance::Low => 5.0,
        Importance::Medium => 15.0,
        Importance::High => 25.0,
        Importance::Critical => 30.0,
    }
}

/// Points for age. A date in the future is a mistake and earns nothing.
#[must_use]
pub(super) fn of_recency(discovered_at: Option<Timestamp>, now: Timestamp) -> f64 {
    let age = discovered_at.filter(|at| *at <= now).map(|at| now.since(at));
    match age {
        Some(age) if age < 24 * HOUR_MS => 10.0,
        Some(age) if age < 72 * HOUR_MS => 5.0,
        _ => 0.0,
    }
}

/// Five points for each of `count`, up to `most`.
#[must_use]
pub(super) fn five_each(count: usize, most: f64) -> f64 {
    (5.0 * f64::from(u32::try_from(count).unwrap_or(u32::MAX))).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const NOW: Timestamp = Timestamp(1_769_160_600_000);

    fn recipient(name: &str, bonus: f64) -> Recipient {
        let agent = serde_json::from_value(json!({
            "name": name, "systemPrompt": "", "memory": {"scoreBonus": bonus},
        }));
        Recipient::of(&agent.unwrap(), 5, Importance::Low)
    }

    fn score(front: serde_json::Value, task: &str, agent: &str, bonus: f64) -> Score {
        let mut value = json!({"title": "T", "whenToUse": "x", "importance": "low"});
        value.as_object_mut().unwrap().extend(front.as_object().unwrap().clone());
        let header = Header::read(&value).0.unwrap();
        Score::of(&header, &Query::new(task, agent, None), &recipient(agent, bonus), 0.0, NOW)
    }

    #[track_caller]
    fn check(front: serde_json::Value, task: &str, expected: f64) {
        let got = score(front.clone(), task, "developer", 0.0);
        assert!((got.total - expected).abs() < 1e-9, "{front}: {got:?}");
    }

    #[test]
    fn each_weight_is_the_specifications() {
        check(json!({}), "", 5.0);
        check(json!({"importance": "medium"}), "", 15.0);
        check(json!({"importance": "high"}), "", 25.0);
        check(json!({"importance": "critical"}), "", 30.0);
        check(json!({"tags": ["code", "pattern", "other", "Implementation"]}), "", 20.0);
        check(json!({"discoveredBy": "developer"}), "", 15.0);
        check(json!({"discoveredBy": "planner"}), "", 5.0);
    }

    #[test]
    fn recency_is_by_hours() {
        let at = |hours: u64, ms: u64| json!({"discoveredAt": Timestamp(NOW.0 - hours * HOUR_MS + ms).to_rfc3339()});
        check(at(24, 1), "", 15.0);
        check(at(24, 0), "", 10.0);
        check(at(72, 1), "", 10.0);
        check(at(72, 0), "", 5.0);
        check(at(0, 0), "", 15.0);
        check(at(0, 1), "", 5.0);
    }

    #[test]
    fn title_words_are_words() {
        check(json!({"title": "Too many tokens"}), "add to it", 5.0);
        check(
            json!({"title": "Migrations of the database"}),
            "Write a migration, and migrate databases",
            15.0,
        );
        check(json!({"title": "one two three four five six"}), "three four five six seven two", 25.0);
    }

    #[test]
    fn the_sum_is_held_between_0_and_100() {
        let total = |front, bonus, malus| score(front, "", "developer", bonus).stale(malus).total;
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        near(total(json!({"tags": "code"}), 1_000.0, 0.0), 100.0);
        near(total(json!({"tags": "code"}), -1_000.0, 0.0), 0.0);
        near(total(json!({"importance": "high"}), 3.0, 10.0), 15.0);
    }

    #[test]
    fn the_bonus_of_a_specialist_changes_an_order() {
        let own = |bonus| score(json!({"tags": "code"}), "", "developer", bonus).total;
        let other = |bonus| score(json!({"title": "Send the mail"}), "send mail", "developer", bonus).total;
        assert!(own(0.0) < other(0.0));
        assert!(own(10.0) > other(10.0));
    }

    proptest! {
        #[test]
        fn no_title_or_task_leaves_the_bounds(title in "\\PC{1,40}", task in "\\PC{0,40}", bonus in -200.0..200.0) {
            prop_assume!(!title.trim().is_empty());
            let score = score(json!({"title": title}), &task, "developer", bonus);
            prop_assert!((0.0..=100.0).contains(&score.total));
            prop_assert!((0.0..=20.0).contains(&score.title_words));
        }
    }
}
