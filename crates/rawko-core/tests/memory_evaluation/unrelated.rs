//! Memories that are for none of the labelled tasks, as many as are wanted: what else a large store has.

use rawko_core::memory::words::stems;
use rawko_core::memory::{Header, Memory};
use serde_json::{Value, json};

const OTHER_PROJECTS: [&str; 2] =
    [include_str!("../../../../eval/situations.jsonl"), include_str!("../../../../eval/held_out.jsonl")];
const MEMORIES: &str = include_str!("../../../../eval/memories.jsonl");

/// What their words are drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// Tasks of other projects.
    OfOthers,
    /// Those, and titles and bodies of the labelled memories: the hardest case, for nothing but the labels tells them apart.
    OfTheSame,
}

impl Words {
    /// Both, with their names.
    pub(super) const ALL: [(&str, Self); 2] =
        [("other projects", Self::OfOthers), ("the same words", Self::OfTheSame)];

    /// Content words, each as often as it is there.
    fn all(self) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        let mut take = |file: &str, pointers: &[&str]| {
            for line in file.lines() {
                let line: Value = serde_json::from_str(line).unwrap();
                texts.extend(
                    pointers.iter().filter_map(|at| Some(line.pointer(at)?.as_str()?.to_lowercase())),
                );
            }
        };
        for file in OTHER_PROJECTS {
            take(file, &["/input/task"]);
        }
        if self == Self::OfTheSame {
            take(MEMORIES, &["/memory/title", "/memory/body"]);
        }
        let words = texts.iter().flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
        words
            .filter(|word| word.chars().all(char::is_alphabetic) && !stems(word).is_empty())
            .map(str::to_owned)
            .collect()
    }
}

/// So many memories, always the same: the first of a larger number are those of a smaller one.
pub(super) fn unrelated(from: Words, count: usize) -> Vec<Memory> {
    let words = from.all();
    let mut state = 20_u64;
    let mut text = |length: usize| -> String {
        let word = |_| {
            // Knuth's linear congruential generator: its upper bits are good enough to draw words.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            words[usize::try_from(state >> 33).unwrap() % words.len()].as_str()
        };
        (0..length).map(word).collect::<Vec<_>>().join(" ")
    };
    let memory = |number: usize| {
        let mut patterns = vec![text(4)];
        if number.is_multiple_of(2) {
            patterns.push(text(1));
        }
        let importance = ["low", "medium", "high"][number % 3];
        let front = json!({"title": text(5), "whenToUse": patterns, "importance": importance});
        // Paths that are among the others, where scores are the same.
        let path = format!("{}-{number}", text(1));
        Memory::new(&path, Header::read(&front).0.unwrap(), &text(12))
    };
    (0..count).map(memory).collect()
}
