//! Which memories contradict each other: those of one title, and those of which one says so (`conflictsWith`).
//!
//! Looked up by key, because a selection may be made among a hundred thousand.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use super::reference::{reference_key, referred_keys};
use super::stored::Memory;

/// Who contradicts whom.
#[derive(Debug, Clone)]
pub(super) struct Conflicts<'a> {
    all: Vec<&'a Memory>,
    /// By the stems of the title, which memories of one title share.
    titled: BTreeMap<&'a [String], Vec<usize>>,
    /// What is declared, and by whom.
    declared: BTreeMap<String, Vec<usize>>,
    /// What a reference may mean; made when the first one is looked up.
    by_key: OnceCell<BTreeMap<String, Vec<usize>>>,
}

impl<'a> Conflicts<'a> {
    /// Of all these memories.
    pub(super) fn among(all: Vec<&'a Memory>) -> Self {
        let mut titled: BTreeMap<&[String], Vec<usize>> = BTreeMap::new();
        let mut declared: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, memory) in all.iter().enumerate() {
            titled.entry(memory.terms.title()).or_default().push(at);
            for reference in &memory.header.conflicts_with {
                declared.entry(reference_key(reference)).or_default().push(at);
            }
        }
        Self { all, titled, declared, by_key: OnceCell::new() }
    }

    /// Those that contradict `memory`, in their order.
    pub(super) fn of(&self, memory: &Memory) -> Vec<&'a Memory> {
        let keys = referred_keys(&memory.path, &memory.header.title);
        let is_namesake = |at: &&usize| {
            let other = self.all[**at];
            referred_keys(&other.path, &other.header.title)[2] == keys[2]
        };
        let alike = self.titled.get(memory.terms.title()).into_iter().flatten();
        let mut found: BTreeSet<usize> = alike.filter(is_namesake).copied().collect();
        for reference in &memory.header.conflicts_with {
            found.extend(self.by_key().get(&reference_key(reference)).into_iter().flatten());
        }
        for key in &keys {
            found.extend(self.declared.get(key).into_iter().flatten());
        }
        found.into_iter().map(|at| self.all[at]).filter(|other| other.path != memory.path).collect()
    }

    fn by_key(&self) -> &BTreeMap<String, Vec<usize>> {
        self.by_key.get_or_init(|| {
            let mut by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
            for (at, memory) in self.all.iter().enumerate() {
                for key in referred_keys(&memory.path, &memory.header.title) {
                    by_key.entry(key).or_default().push(at);
                }
            }
            by_key
        })
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
            Memory::new(path, Header::read(&front).0.unwrap(), "")
        };
        let all = [
            memory("a.md", "One title", &[]),
            memory("b.md", "one  TITLE", &["unknown"]),
            memory("sub/c.md", "C", &["a", "c"]),
            memory("d.md", "D", &["sub/c.md", "One title"]),
            memory("e.md", "E", &[]),
        ];
        let conflicts = Conflicts::among(all.iter().collect());
        let check = |at: usize, expected: &[&str]| {
            let found: Vec<&str> = conflicts.of(&all[at]).iter().map(|other| other.path.as_str()).collect();
            assert_eq!(found, expected, "{}", all[at].path);
        };
        check(0, &["b.md", "sub/c.md", "d.md"]);
        check(1, &["a.md", "d.md"]);
        check(2, &["a.md", "d.md"]);
        check(3, &["a.md", "b.md", "sub/c.md"]);
        check(4, &[]);
    }
}
