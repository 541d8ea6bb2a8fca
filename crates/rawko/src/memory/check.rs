//! What is wrong between memories, besides what is wrong in each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rawko_core::Timestamp;
use rawko_core::memory::{Memory, reference_key, referred_keys};

use super::report::Report;
use super::store::{Inventory, MemoryStore};
use crate::config::front_matter;

/// How far in the future a date may be: clocks differ.
const LENIENCY_MS: u64 = 10 * 60 * 1_000;

/// Most steps from one memory to one that it supersedes, in search of circles.
const MAX_STEPS: usize = 1_000_000;

/// All reports: of each file, and between files.
pub(super) fn check(store: &MemoryStore, now: Timestamp) -> Vec<Report> {
    let Inventory { memories, mut reports } = store.inventory_with_care();
    let by_key = by_key(&memories);
    let targets = |reference: &str| by_key.get(&reference_key(reference)).map_or(&[][..], Vec::as_slice);
    let edges = edges(&memories, &by_key);
    let silenced = silenced(&memories, &edges, now);
    let superseded: BTreeSet<usize> = edges.iter().flatten().copied().collect();
    let mut circles = Circles { edges, left: MAX_STEPS };
    let mut found_between: Vec<Report> = Vec::new();
    let mut say = |memory: &Memory, key: &str, message: String, help: &str| {
        let report = Report::warning(&memory.path, message, help);
        found_between.push(match line(store, &memory.path, key) {
            Some(line) => report.at(line, 1),
            None => report,
        });
    };
    for (at, memory) in memories.iter().enumerate() {
        let header = &memory.header;
        for (key, references) in
            [("supersedes", &header.supersedes), ("conflictsWith", &header.conflicts_with)]
        {
            for reference in references {
                let found = targets(reference);
                if found.is_empty() {
                    let message = format!("`{key}` names `{reference}`, and there is no such memory");
                    say(
                        memory,
                        key,
                        message,
                        "write its path, its file's name or its title; or remove the entry",
                    );
                } else if found == [at] {
                    say(memory, key, format!("`{key}` names the memory itself"), "remove the entry");
                } else if key == "supersedes"
                    && superseded.contains(&at)
                    && let Some(circle) = circles.through(at, found)
                {
                    let names: Vec<&str> = circle.iter().map(|one| memories[*one].path.as_str()).collect();
                    let message = match names.len() {
                        2 => format!(
                            "this memory and `{reference}` supersede each other: neither is ever told"
                        ),
                        _ => format!(
                            "`supersedes` leads in a circle ({}): none of them is ever told",
                            names.join(", ")
                        ),
                    };
                    say(memory, key, message, "remove one of the entries");
                }
            }
        }
        for other in silenced.get(&at).into_iter().flatten() {
            let other = &memories[*other].path;
            let message = format!("has expired and still supersedes {other}: neither is told");
            let help = format!(
                "take {other} out of `supersedes` to have it told again; else let it expire too (`expiresAt`), or remove its file"
            );
            say(memory, "supersedes", message, &help);
        }
        let is_future =
            |date: Option<Timestamp>| date.is_some_and(|date| date.0 > now.0.saturating_add(LENIENCY_MS));
        if is_future(header.discovered_at) {
            let help = "write when it was found out; a date in the future earns no points for being recent";
            say(memory, "discoveredAt", "`discoveredAt` lies in the future".to_owned(), help);
        }
        let is_alive = |at: &usize| {
            !superseded.contains(at) && memories[*at].header.expires_at.is_none_or(|expires| expires > now)
        };
        let [_, _, title] = referred_keys(&memory.path, &header.title);
        let namesake = by_key.get(&title).into_iter().flatten().find(|other| {
            **other < at && is_alive(other) && referred_keys("", &memories[**other].header.title)[2] == title
        });
        if let (true, Some(other)) = (is_alive(&at), namesake) {
            let message = format!(
                "has the same title as {}: both are told, as contradicting each other",
                memories[*other].path
            );
            let help = "join them, retitle one, or let one supersede the other";
            say(memory, "title", message, help);
        }
        if let Ok((_, body)) = store.text(&memory.path)
            && body.contains('\u{fffd}')
        {
            let message = "the text holds bytes that are not UTF-8".to_owned();
            let report = Report::warning(&memory.path, message, "save the file as UTF-8");
            reports.push(report);
        }
    }
    reports.extend(found_between);
    reports
}

/// Which memories a reference may mean.
fn by_key(memories: &[Memory]) -> BTreeMap<String, Vec<usize>> {
    let mut by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, memory) in memories.iter().enumerate() {
        let keys: BTreeSet<String> = referred_keys(&memory.path, &memory.header.title).into_iter().collect();
        for key in keys {
            by_key.entry(key).or_default().push(at);
        }
    }
    by_key
}

/// Which memories each one supersedes.
fn edges(memories: &[Memory], by_key: &BTreeMap<String, Vec<usize>>) -> Vec<Vec<usize>> {
    let of = |(at, memory): (usize, &Memory)| {
        let named = memory.header.supersedes.iter().filter_map(|one| by_key.get(&reference_key(one)));
        let others: BTreeSet<usize> = named.flatten().copied().filter(|other| *other != at).collect();
        others.into_iter().collect()
    };
    memories.iter().enumerate().map(of).collect()
}

/// For each memory that has expired those that it supersedes all the same, have not expired and are superseded by nothing that is given.
fn silenced(memories: &[Memory], edges: &[Vec<usize>], now: Timestamp) -> BTreeMap<usize, Vec<usize>> {
    let is_expired = |at: &usize| memories[*at].header.expires_at.is_some_and(|expires| expires <= now);
    let superseded: BTreeSet<usize> = edges.iter().flatten().copied().collect();
    let (expired, others): (Vec<usize>, Vec<usize>) = (0..memories.len()).partition(is_expired);
    // Over any number of steps: a memory that is given replaces all of them.
    let mut told: Vec<usize> = others.into_iter().filter(|at| !superseded.contains(at)).collect();
    let mut replaced: BTreeSet<usize> = BTreeSet::new();
    while let Some(at) = told.pop() {
        told.extend(edges[at].iter().filter(|other| replaced.insert(**other)));
    }
    let of = |at: usize| {
        let others = edges[at].iter().filter(|other| !is_expired(other) && !replaced.contains(other));
        (at, others.copied().collect::<Vec<_>>())
    };
    expired.into_iter().map(of).filter(|(_, others)| !others.is_empty()).collect()
}

impl MemoryStore {
    /// The memories that are not given because of one that has expired and supersedes them all the same.
    #[must_use]
    pub fn silenced_by(&self, path: &str, now: Timestamp) -> Vec<String> {
        let Inventory { memories, .. } = self.inventory();
        let edges = edges(&memories, &by_key(&memories));
        let all = silenced(&memories, &edges, now);
        let others = all.iter().find(|(at, _)| memories[**at].path == path).map(|(_, others)| others);
        others.into_iter().flatten().map(|other| memories[*other].path.clone()).collect()
    }
}

/// Which memories supersede which.
struct Circles {
    edges: Vec<Vec<usize>>,
    /// Steps that may still be gone: the search is bounded.
    left: usize,
}

impl Circles {
    /// A shortest circle that leads from the memory `at` over one of `others` back to it.
    fn through(&mut self, at: usize, others: &[usize]) -> Option<Vec<usize>> {
        let mut from: BTreeMap<usize, usize> = others.iter().map(|other| (*other, at)).collect();
        let mut queue: VecDeque<usize> = others.iter().copied().filter(|other| *other != at).collect();
        while let Some(one) = queue.pop_front() {
            for next in &self.edges[one] {
                self.left = self.left.checked_sub(1)?;
                if *next == at {
                    let mut circle: Vec<usize> = std::iter::successors(Some(one), |one| {
                        from.get(one).copied().filter(|one| *one != at)
                    })
                    .collect();
                    circle.push(at);
                    circle.reverse();
                    return Some(circle);
                }
                if !from.contains_key(next) {
                    from.insert(*next, one);
                    queue.push_back(*next);
                }
            }
        }
        None
    }
}

/// The line of a key in the front matter.
fn line(store: &MemoryStore, path: &str, key: &str) -> Option<usize> {
    let (front, _) = store.text(path).ok()?;
    let front = front.strip_prefix('\u{feff}').unwrap_or(&front);
    let inner = front.split_once('\n')?.1.trim_end().strip_suffix("---")?;
    Some(front_matter::parse(inner, 1).ok()?.key_place(key).line)
}
