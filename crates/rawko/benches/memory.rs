//! What selecting among many memories costs: every file is read each time.
//!
//! `cargo bench -p rawko --bench memory`. Figures are in `docs/performance.md`.

#![allow(missing_docs, clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rawko::memory::{MemoryStore, Recall, RecallOptions};
use rawko_core::Timestamp;
use rawko_core::agent::Importance;
use rawko_core::memory::{Query, Recipient};

const NOW: Timestamp = Timestamp(1_769_160_600_000);
const TASK: &str = "Add OAuth integration to the existing authentication system: the login form calls the token service, \
    which validates the signature, stores a refresh token in the sessions table and reports failures to the audit log";
const STEP: &str = "Write the token client";
const TIMES: usize = 9;

fn main() {
    for count in [20, 100, 500, 1_000, 10_000] {
        let project = tempfile::tempdir().unwrap();
        fs::create_dir_all(project.path().join(rawko::memory::FOLDER)).unwrap();
        for number in 0..count {
            write(&project.path().join(rawko::memory::FOLDER).join(format!("{number}.md")), number);
        }
        let store = MemoryStore::of_project(project.path());
        let mut took: Vec<Duration> = (0..TIMES)
            .map(|_| {
                let begun = Instant::now();
                assert!(ask(&store).total > 0);
                begun.elapsed()
            })
            .collect();
        took.sort();
        println!("{count:>6} memories: best {:.1?}, median {:.1?}", took[0], took[TIMES / 2]);
    }
}

fn ask(store: &MemoryStore) -> Recall {
    let agent = serde_json::from_value(serde_json::json!({"name": "developer", "systemPrompt": ""})).unwrap();
    let recipient = Recipient::of(&agent, 5, Importance::Low);
    let query = Query::new(TASK, "developer", Some(STEP));
    store.recall(&query, &recipient, &RecallOptions { now: NOW })
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
