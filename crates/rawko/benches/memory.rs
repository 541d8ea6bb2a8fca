//! What selecting among many memories costs: with the cache, and by reading every file.
//!
//! `cargo bench -p rawko --bench memory` (`-- --memories 10000` for another number). Figures and their limits are in
//! `docs/performance.md`; the program fails where one is missed (`-- --no-limits` for a machine that is busy with
//! something else). What memory a selection takes is measured in a process of its own, which does nothing else.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rawko::memory::{MemoryStore, Recall, RecallOptions};
use rawko_core::Timestamp;
use rawko_core::agent::Importance;
use rawko_core::memory::{Query, Recipient};

const NOW: Timestamp = Timestamp(1_769_160_600_000);
/// Limits at 10,000 memories and at 100,000: a selection of a new process, the next one in it, and the memory of the process.
const LIMITS: [(usize, Duration, Duration, u64); 2] = [
    (10_000, Duration::from_millis(150), Duration::from_millis(40), 60_000),
    (100_000, Duration::from_millis(1_500), Duration::from_millis(1_500), 150_000),
];
const TASK: &str = "Add OAuth integration to the existing authentication system: the login form calls the token service, \
    which validates the signature, stores a refresh token in the sessions table and reports failures to the audit log";
const STEP: &str = "Write the token client";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--once") {
        once(Path::new(&arguments[at + 1]));
        return ExitCode::SUCCESS;
    }
    let limits = !arguments.iter().any(|argument| argument == "--no-limits");
    let at = arguments.iter().position(|argument| argument == "--memories");
    let count = at.map_or(10_000, |at| arguments[at + 1].parse().unwrap());
    let limit = LIMITS.into_iter().find(|(most, ..)| count <= *most);
    let new = limit.map(|(_, new, _, kb)| (new, kb));
    let next = limit.map(|(_, _, next, kb)| (next, kb));
    let dir = tempfile::tempdir().unwrap();
    let mut missed = false;
    let mut say = |what: &str, took: Duration, kb: Option<u64>, limit: Option<(Duration, u64)>| {
        let over = limit.is_some_and(|(time, most)| took > time || kb.is_some_and(|kb| kb > most));
        missed |= over;
        let kb = kb.map(|kb| format!("{:>7.1} MB", kb as f64 / 1_000.0)).unwrap_or_default();
        let limit =
            limit.map(|(time, most)| format!(" (limit {time:?}, {} MB)", most / 1_000)).unwrap_or_default();
        println!(
            "{what:<58} {:>10.1} ms {kb}{limit}{}",
            took.as_secs_f64() * 1e3,
            if over { "  MISSED" } else { "" }
        );
    };

    for (name, folders) in [("in one folder", 1), ("in 100 folders", 100)] {
        let project = dir.path().join(folders.to_string());
        let begun = Instant::now();
        fill(&project, count, folders);
        println!("{count} memories {name} (written in {:.1?})", begun.elapsed());
        let store = MemoryStore::of_project(&project);

        let begun = Instant::now();
        let by_files = ask(&store.clone().without_caches());
        say("  every file read", begun.elapsed(), None, None);
        let (took, kb, ..) = child(&project);
        say("  cold: the cache is made", took, Some(kb), None);
        // The stamps of what was written last are believed from now on.
        std::thread::sleep(Duration::from_millis(2_100));
        let (took, kb, ..) = child(&project);
        say("  settling: what was too young is looked at again", took, Some(kb), None);
        let mut runs: Vec<(Duration, u64, Duration, String)> = (0..15).map(|_| child(&project)).collect();
        runs.sort();
        let kb = runs.iter().map(|(_, kb, ..)| *kb).max().unwrap();
        say("  a new process, best of 15", runs[0].0, Some(kb), new);
        say("  a new process, median", runs[runs.len() / 2].0, Some(kb), new);
        let mut again: Vec<Duration> = runs.iter().map(|(_, _, again, _)| *again).collect();
        again.sort();
        say("  a process that asks again, best", again[0], Some(kb), next);
        say("  a process that asks again, median", again[again.len() / 2], Some(kb), next);
        let told: Vec<&str> = by_files.selection.chosen.iter().map(|one| one.memory.path.as_str()).collect();
        assert_eq!(runs[0].3, told.join(" "), "cache and files disagree");

        write(&project.join(".rawko/memories/0/0.md"), 1);
        let (took, kb, again, _) = child(&project);
        say("  one file changed", took, Some(kb), None);
        say("  one file changed, a process that asks again", again, Some(kb), next);
        write(&project.join(".rawko/memories/0/new.md"), 2);
        let (took, kb, ..) = child(&project);
        say("  one file changed, one added", took, Some(kb), None);
        let size = fs::metadata(store.folder().join(".index")).unwrap().len();
        println!("{:<58} {:>10.1} MB", "  the cache on the disk", size as f64 / 1e6);
    }
    ExitCode::from(u8::from(missed && limits))
}

fn ask(store: &MemoryStore) -> Recall {
    let agent = serde_json::from_value(serde_json::json!({"name": "developer", "systemPrompt": ""})).unwrap();
    let recipient = Recipient::of(&agent, 5, Importance::Low);
    let query = Query::new(TASK, "developer", Some(STEP));
    store.recall(&query, &recipient, &RecallOptions { now: NOW, ..RecallOptions::default() })
}

/// One selection in this process: its time, the process's greatest memory, and what was given.
fn once(project: &Path) {
    let store = MemoryStore::of_project(project);
    let begun = Instant::now();
    let recall = ask(&store);
    let took = begun.elapsed();
    // As a run that goes on asks again, when nothing has changed.
    let again = (0..5).map(|_| {
        let begun = Instant::now();
        assert_eq!(ask(&store), recall);
        begun.elapsed()
    });
    let again = again.min().unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or("VmHWM: 0 kB");
    let kb: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    let told: Vec<&str> = recall.selection.chosen.iter().map(|one| one.memory.path.as_str()).collect();
    println!("{} {kb} {} {}", took.as_nanos(), again.as_nanos(), told.join(" "));
}

/// First selection, memory, next selection, what was given.
fn child(project: &Path) -> (Duration, u64, Duration, String) {
    let output = Command::new(std::env::current_exe().unwrap()).arg("--once").arg(project).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut parts = text.trim_end().splitn(4, ' ');
    let mut number = || parts.next().unwrap().parse::<u64>().unwrap();
    let (ns, kb, again) = (number(), number(), number());
    (Duration::from_nanos(ns), kb, Duration::from_nanos(again), parts.next().unwrap_or_default().to_owned())
}

fn fill(project: &Path, count: usize, folders: usize) {
    for folder in 0..folders {
        fs::create_dir_all(project.join(".rawko/memories").join(folder.to_string())).unwrap();
    }
    for number in 0..count {
        let path: PathBuf =
            [".rawko/memories", &(number % folders).to_string(), &format!("{number}.md")].iter().collect();
        write(&project.join(path), number as u64);
    }
}

/// Words of software, some common and most of them rare, as in the memories of a large organisation.
fn word(random: &mut Random) -> String {
    const COMMON: [&str; 48] = [
        "token",
        "session",
        "login",
        "cache",
        "queue",
        "table",
        "index",
        "schema",
        "migration",
        "payment",
        "invoice",
        "mail",
        "retry",
        "timeout",
        "parser",
        "worker",
        "thread",
        "lock",
        "deploy",
        "release",
        "build",
        "test",
        "mock",
        "fixture",
        "config",
        "secret",
        "header",
        "request",
        "response",
        "route",
        "handler",
        "client",
        "server",
        "socket",
        "stream",
        "buffer",
        "encoder",
        "report",
        "audit",
        "metric",
        "trace",
        "form",
        "button",
        "layout",
        "style",
        "import",
        "export",
        "upload",
    ];
    match random.below(3) {
        0 => COMMON[random.below(48) as usize].to_owned(),
        _ => {
            const SYLLABLES: [&str; 16] = [
                "ba", "cor", "dex", "fin", "gra", "hul", "jor", "kel", "lum", "mos", "nix", "pra", "qua",
                "rin", "sol", "tav",
            ];
            (0..3).map(|_| SYLLABLES[random.below(16) as usize]).collect()
        }
    }
}

fn write(path: &Path, number: u64) {
    let mut random = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
    let mut words = |count: usize| (0..count).map(|_| word(&mut random)).collect::<Vec<_>>();
    let sentence = words(4).join(" ");
    let parts = words(4);
    let pattern = match number % 5 {
        0 => format!("{}|{}", parts[0], parts[1]),
        1 => format!("{}.*{}", parts[0], parts[1]),
        2 => format!("{} * {}", parts[0], parts[2]),
        _ => parts[3].clone(),
    };
    let importance = ["low", "medium", "high", "critical"][(number % 4) as usize];
    let agent = ["planner", "developer", "tester", "reviewer"][(number / 4 % 4) as usize];
    let title = words(5).join(" ");
    let tags = words(2).join(", ");
    let body = words(60).join(" ");
    let text = format!(
        "---\ntitle: {title}\nwhenToUse:\n  - When working on {sentence}\n  - '{pattern}'\nimportance: {importance}\n\
         discoveredAt: 2026-01-{:02}T{:02}:00:00Z\ndiscoveredBy: {agent}\ntags: [{tags}]\n---\n\n{body}\n",
        number % 28 + 1,
        number % 24,
    );
    fs::write(path, text).unwrap();
}

/// Numbers that are the same in every run (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}
