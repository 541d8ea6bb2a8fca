//! What an execution is about: the text that memories' patterns are matched against.
//!
//! `spec/memory.md`: task, agent name, current plan and recent history. Each part is bounded and becomes one line, so
//! that neither a line break nor the seam between two parts changes what a pattern sees: `add.*auth` may span a
//! line break within the task, but never reaches from the task into the history.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::words::{fold, is_stop_word, stem, words};
use crate::text::{ceil_boundary, floor_boundary};

/// Most bytes of the task that are matched; its beginning counts.
const MAX_TASK: usize = 16 * 1024;
/// Most bytes of the plan; its beginning counts.
const MAX_PLAN: usize = 8 * 1024;
/// Most bytes of the history; its end counts, which is the most recent.
const MAX_HISTORY: usize = 8 * 1024;

/// A part of the text that is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Part {
    /// The task.
    Task,
    /// The agent's name.
    Agent,
    /// The current plan.
    Plan,
    /// The recent history.
    History,
}

impl Part {
    /// Its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Agent => "agent",
            Self::Plan => "plan",
            Self::History => "history",
        }
    }
}

/// What an execution is about.
#[derive(Debug, Clone)]
pub struct Query {
    agent: String,
    lines: Vec<Line>,
    stems: BTreeMap<String, (Part, String)>,
    task_stems: BTreeSet<String>,
}

/// One part, as one line.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) part: Part,
    pub(super) text: String,
    pub(super) folded: String,
    pub(super) words: Vec<String>,
}

impl Query {
    /// A query of this task and agent (its name), with the current plan and the recent history where there are any.
    #[must_use]
    pub fn new(task: &str, agent: &str, plan: Option<&str>, history: Option<&str>) -> Self {
        let history = history.unwrap_or_default();
        let history = &history[ceil_boundary(history, history.len().saturating_sub(MAX_HISTORY))..];
        let plan = plan.unwrap_or_default();
        let parts = [
            (Part::Task, &task[..floor_boundary(task, MAX_TASK)]),
            (Part::Agent, agent),
            (Part::Plan, &plan[..floor_boundary(plan, MAX_PLAN)]),
            (Part::History, history),
        ];
        let lines: Vec<Line> = parts
            .into_iter()
            .map(|(part, text)| {
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                Line { part, folded: fold(&text), words: words(&text).collect(), text }
            })
            .filter(|line| !line.text.is_empty())
            .collect();
        let mut stems = BTreeMap::new();
        for line in &lines {
            for word in line.words.iter().filter(|word| !is_stop_word(word)) {
                stems.entry(stem(word)).or_insert_with(|| (line.part, word.clone()));
            }
        }
        let task_stems = lines
            .iter()
            .filter(|line| line.part == Part::Task)
            .flat_map(|line| &line.words)
            .filter(|word| !is_stop_word(word))
            .map(|word| stem(word))
            .collect();
        Self { agent: agent.to_owned(), lines, stems, task_stems }
    }

    /// The agent's name.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// The stems of all content words.
    pub fn stems(&self) -> impl Iterator<Item = &str> {
        self.stems.keys().map(String::as_str)
    }

    /// The stems of the task's content words: those that count in a title.
    #[must_use]
    pub fn task_stems(&self) -> &BTreeSet<String> {
        &self.task_stems
    }

    /// All words, stop words included, part by part.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().flat_map(|line| line.words.iter().map(String::as_str))
    }

    /// The lines with case made equal ([`fold`]).
    pub fn folded_lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|line| line.folded.as_str())
    }

    /// Where a stem occurs first, and as which word.
    pub(super) fn find_stem(&self, stem: &str) -> Option<(Part, &str)> {
        self.stems.get(stem).map(|(part, word)| (*part, word.as_str()))
    }

    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_bounded_single_lines() {
        let long = "é".repeat(MAX_HISTORY);
        let history = format!("{long} the end");
        let query = Query::new("Fix\n the  login", "tester", None, Some(&history));
        let texts: Vec<&str> = query.lines().iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts[..2], ["Fix the login", "tester"]);
        assert!(texts[2].len() <= MAX_HISTORY && texts[2].ends_with("the end"));
        assert_eq!(query.find_stem("login"), Some((Part::Task, "login")));
        assert_eq!(query.find_stem("end"), Some((Part::History, "end")));
        assert!(!query.task_stems().contains("end"));
    }
}
