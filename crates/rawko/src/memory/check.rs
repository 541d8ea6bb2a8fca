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
    let Inventory { memories, mut reports } = store.reread();
    let mut by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, memory) in memories.iter().enumerate() {
        let keys: BTreeSet<String> = referred_keys(&memory.path, &memory.header.title).into_iter().collect();
        for key in keys {
            by_key.entry(key).or_default().push(at);
        }
    }
    let targets = |reference: &str| by_key.get(&reference_key(reference)).map_or(&[][..], Vec::as_slice);
    let edges: Vec<Vec<usize>> = (0..)
        .zip(&memories)
        .map(|(at, memory)| {
            let named = memory.header.supersedes.iter().flat_map(|reference| targets(reference));
            named.copied().filter(|other| *other != at).collect()
        })
        .collect();
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

/// Which memories supersede which.
struct Circles {
    edges: Vec<Vec<usize>>,
    /// Steps that may still be gone: what somebody wrote to be slow is not looked through.
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

/// The line in which a key of the front matter stands.
fn line(store: &MemoryStore, path: &str, key: &str) -> Option<usize> {
    let (front, _) = store.text(path).ok()?;
    let front = front.strip_prefix('\u{feff}').unwrap_or(&front);
    let inner = front.split_once('\n')?.1.trim_end().strip_suffix("---")?;
    Some(front_matter::parse(inner, 1).ok()?.key_place(key).line)
}
