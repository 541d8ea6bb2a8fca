//! What is wrong between memories, besides what is wrong in each.

use std::collections::{BTreeMap, BTreeSet};

use rawko_core::Timestamp;
use rawko_core::memory::{Memory, reference_key, referred_keys};

use super::report::Report;
use super::store::{Inventory, MemoryStore};
use crate::config::front_matter;

/// How far in the future a date may be: clocks differ.
const LENIENCY_MS: u64 = 10 * 60 * 1_000;

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
    let mut superseded: BTreeSet<usize> = BTreeSet::new();
    for (at, memory) in memories.iter().enumerate() {
        superseded
            .extend(memory.header.supersedes.iter().flat_map(|r| targets(r)).filter(|other| **other != at));
    }
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
                    && supersede_each_other(&memories, at, found)
                {
                    let message =
                        format!("this memory and `{reference}` supersede each other: neither is ever told");
                    say(memory, key, message, "remove one of the two entries");
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

fn supersede_each_other(memories: &[Memory], at: usize, others: &[usize]) -> bool {
    let keys = referred_keys(&memories[at].path, &memories[at].header.title);
    others.iter().filter(|other| **other != at).any(|other| {
        memories[*other].header.supersedes.iter().any(|reference| keys.contains(&reference_key(reference)))
    })
}

/// The line in which a key of the front matter stands.
fn line(store: &MemoryStore, path: &str, key: &str) -> Option<usize> {
    let (front, _) = store.text(path).ok()?;
    let front = front.strip_prefix('\u{feff}').unwrap_or(&front);
    let inner = front.split_once('\n')?.1.trim_end().strip_suffix("---")?;
    Some(front_matter::parse(inner, 1).ok()?.key_place(key).line)
}
