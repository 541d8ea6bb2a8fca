//! What an execution is about: the text that memories are matched against.
//!
//! The task and the agent's name are the query. The plan's current step is a second, weaker one. Earlier reports and
//! the rest of the plan are no query: they cover so much that some memory always matches. Each part is bounded and
//! becomes one line, so that a line break does not change what a pattern sees, and no pattern reaches from one part
//! into another.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::words::{fold, is_stop_word, stem, words};

/// Most bytes of the task that are matched; its beginning counts.
const MAX_TASK: usize = 16 * 1024;
/// Most bytes of the step.
const MAX_STEP: usize = 2 * 1024;

/// A part of the text that is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Part {
    /// The task.
    Task,
    /// The agent's name.
    Agent,
    /// The plan's current step.
    Step,
}

impl Part {
    /// Its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Agent => "agent",
            Self::Step => "step",
        }
    }
}

/// What an execution is about.
#[derive(Debug, Clone)]
pub struct Query {
    agent: String,
    task: QueryTerms,
    step: Option<QueryTerms>,
}

/// The words of one of the two queries.
#[derive(Debug, Clone)]
pub(super) struct QueryTerms {
    pub(super) lines: Vec<Line>,
    /// All lines with case made equal, and their words: what an expression needs is searched for here first.
    haystack: String,
    /// Where each stem of a content word occurs first, and as which word.
    stems: BTreeMap<String, (Part, String)>,
    /// Stems that are looked for in what memories say: not those of the agent's name.
    content: BTreeSet<String>,
    /// Stems of two words written as one, and the two: "log in" is "login" to those who wrote a memory.
    joined: BTreeMap<String, String>,
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
    /// A query of this task and agent (its name), and of the plan's current step where there is one.
    #[must_use]
    pub fn new(task: &str, agent: &str, step: Option<&str>) -> Self {
        let step = step.map(|step| &step[..step.floor_char_boundary(MAX_STEP)]);
        Self {
            agent: agent.to_owned(),
            task: QueryTerms::new(&[(Part::Task, Self::bounded_task(task)), (Part::Agent, agent)]),
            step: step
                .map(|step| QueryTerms::new(&[(Part::Step, step)]))
                .filter(|step| !step.lines.is_empty()),
        }
    }

    /// As much of a task as is matched.
    #[must_use]
    pub fn bounded_task(task: &str) -> &str {
        &task[..task.floor_char_boundary(MAX_TASK)]
    }

    /// The agent's name.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// The stems of the task's content words: those that count in a title.
    #[must_use]
    pub fn task_stems(&self) -> &BTreeSet<String> {
        &self.task.content
    }

    pub(super) fn task(&self) -> &QueryTerms {
        &self.task
    }

    pub(super) fn step(&self) -> Option<&QueryTerms> {
        self.step.as_ref()
    }
}

impl QueryTerms {
    fn new(parts: &[(Part, &str)]) -> Self {
        let lines = parts.iter().map(|(part, text)| {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            Line { part: *part, folded: fold(&text), words: words(&text).collect(), text }
        });
        let lines: Vec<Line> = lines.filter(|line| !line.text.is_empty()).collect();
        let (mut stems, mut content) = (BTreeMap::new(), BTreeSet::new());
        for line in &lines {
            for word in line.words.iter().filter(|word| !is_stop_word(word)) {
                let stem = stem(word);
                if line.part != Part::Agent {
                    content.insert(stem.clone());
                }
                stems.entry(stem).or_insert_with(|| (line.part, word.clone()));
            }
        }
        let mut joined = BTreeMap::new();
        for pair in
            lines.iter().filter(|line| line.part != Part::Agent).flat_map(|line| line.words.windows(2))
        {
            let stem = stem(&pair.concat());
            if !content.contains(&stem) {
                joined.entry(stem).or_insert_with(|| pair.join(" "));
            }
        }
        let haystack =
            lines.iter().map(|line| format!("{}\n{}\n", line.folded, line.words.join(" "))).collect();
        Self { lines, haystack, stems, content, joined }
    }

    /// Whether a text may occur in one of the lines or in one of their words.
    pub(super) fn may_contain(&self, text: &str) -> bool {
        self.haystack.contains(text)
    }

    /// The stems of all content words, those of the agent's name too.
    pub(super) fn stems(&self) -> impl Iterator<Item = &str> {
        self.stems.keys().map(String::as_str)
    }

    /// Whether it is the weaker of the two queries.
    pub(super) fn is_step(&self) -> bool {
        self.lines.iter().any(|line| line.part == Part::Step)
    }

    /// Where a stem occurs first, and as which word.
    pub(super) fn find_stem(&self, stem: &str) -> Option<(Part, &str)> {
        self.stems.get(stem).map(|(part, word)| (*part, word.as_str()))
    }

    /// The stems that are looked for in what memories say.
    pub(super) fn content(&self) -> &BTreeSet<String> {
        &self.content
    }

    /// Stems that are looked for too: of two words written as one, with the two.
    pub(super) fn joined(&self) -> &BTreeMap<String, String> {
        &self.joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_bounded_single_lines() {
        let long = format!("Fix\n the  login {}", "é".repeat(MAX_TASK));
        let query = Query::new(&long, "tester", Some(" \n"));
        let texts: Vec<&str> = query.task.lines.iter().map(|line| line.text.as_str()).collect();
        assert!(texts[0].starts_with("Fix the login é") && texts[0].len() <= MAX_TASK);
        assert_eq!((texts[1], query.step.is_none()), ("tester", true));
        assert_eq!(query.task.find_stem("login"), Some((Part::Task, "login")));
        assert!(query.task.find_stem("tester").is_some() && !query.task_stems().contains("tester"));
    }
}
