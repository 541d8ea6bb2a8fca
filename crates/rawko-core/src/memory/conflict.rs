//! Which memories contradict each other: those of one title, and those of which one says so (`conflictsWith`).
//!
//! Looked up by key, because a selection may be made among a hundred thousand.

use std::collections::{BTreeMap, BTreeSet};

use super::reference::{reference_key, referred_keys};
use super::select::Memory;

/// Who contradicts whom.
#[derive(Debug, Clone)]
pub(super) struct Conflicts<'a> {
    all: &'a [Memory],
    /// By title.
    titled: BTreeMap<String, Vec<usize>>,
    /// Where any memory declares a conflict: by path, file name and title.
    referred: BTreeMap<String, Vec<usize>>,
    /// What is declared, and by whom.
    declared: BTreeMap<String, Vec<usize>>,
}

impl<'a> Conflicts<'a> {
    /// Of all these memories.
    pub(super) fn among(all: &'a [Memory]) -> Self {
        let mut conflicts =
            Self { all, titled: BTreeMap::new(), referred: BTreeMap::new(), declared: BTreeMap::new() };
        for (at, memory) in all.iter().enumerate() {
            for reference in &memory.header.conflicts_with {
                conflicts.declared.entry(reference_key(reference)).or_default().push(at);
            }
        }
        for (at, memory) in all.iter().enumerate() {
            let keys = referred_keys(&memory.path, &memory.header.title);
            conflicts.titled.entry(keys[2].clone()).or_default().push(at);
            for key in keys {
                if conflicts.declared.contains_key(&key) {
                    conflicts.referred.entry(key).or_default().push(at);
                }
            }
        }
        conflicts
    }

    /// Those that contradict `memory`, in their order.
    pub(super) fn of(&self, memory: &Memory) -> impl Iterator<Item = &'a Memory> + use<'a> {
        let keys = referred_keys(&memory.path, &memory.header.title);
        let mut found: BTreeSet<usize> = self.titled.get(&keys[2]).into_iter().flatten().copied().collect();
        for reference in &memory.header.conflicts_with {
            found.extend(self.referred.get(&reference_key(reference)).into_iter().flatten());
        }
        for key in &keys {
            found.extend(self.declared.get(key).into_iter().flatten());
        }
        let all = self.all;
        let path = memory.path.clone();
        found.into_iter().filter_map(move |at| all.get(at)).filter(move |other| other.path != path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::Header;
    use super::*;
    use serde_json::json;

    #[test]
    fn contradictions_are_found_from_both_sides() {
        let memory = |path: &str, title: &str, conflicts: &[&str]| {
            let front = json!({"title": title, "whenToUse": "x", "conflictsWith": conflicts});
            Memory { path: path.to_owned(), header: Header::read(&front).0.unwrap() }
        };
        let all = [
            memory("a.md", "One title", &[]),
            memory("b.md", "one  TITLE", &["nobody"]),
            memory("sub/c.md", "C", &["a", "c"]),
            memory("d.md", "D", &["sub/c.md", "One title"]),
            memory("e.md", "E", &[]),
        ];
        let conflicts = Conflicts::among(&all);
        let check = |at: usize, expected: &[&str]| {
            let found: Vec<&str> = conflicts.of(&all[at]).map(|other| other.path.as_str()).collect();
            assert_eq!(found, expected, "{}", all[at].path);
        };
        check(0, &["b.md", "sub/c.md", "d.md"]);
        check(1, &["a.md", "d.md"]);
        check(2, &["a.md", "d.md"]);
        check(3, &["a.md", "b.md", "sub/c.md"]);
        check(4, &[]);
    }
}
