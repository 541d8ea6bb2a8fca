//! Folders that are made to delay rawko: it ends in time, with bounded memory, and says what it skipped.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bench::{Bench, short};
use crate::support::each;

/// Longer than git is waited for, and than a run takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(50);
/// Most address space in KiB: that of an ordinary run and a little more.
const MOST_MEMORY: u64 = 1_200_000;

/// What is done to the folder, the exit status of a run there, and what it says.
const FOLDERS: &[(&str, i32, &str)] = &[
    (
        "seq 20000 | sed 's/.*/*a&*b&*.o/' > .gitignore",
        0,
        "the ignore file .gitignore is not applied as a whole",
    ),
    (
        "head -c 5000000 /dev/zero | tr '\\0' a > .gitignore",
        0,
        "the ignore file .gitignore is not applied as a whole",
    ),
    (
        "yes '*a' | head -c 5000000 | tr -d '\\n' > .gitignore",
        0,
        "the ignore file .gitignore is not applied as a whole",
    ),
    ("mkfifo .gitignore", 0, ".gitignore: it is a FIFO or a device"),
    ("mkdir sub; mkfifo sub/.gitignore sub/AGENTS.md", 0, "sub/.gitignore: it is a FIFO or a device"),
    ("mkfifo AGENTS.md", 0, "AGENTS.md is passed over: it is not a file"),
    ("mkfifo CLAUDE.md Cargo.toml package.json Makefile .ignore", 0, ".ignore is not applied as a whole"),
    ("mkdir .rawko; mkfifo .rawko/config.yaml", 2, "this is not a regular file"),
    ("mkdir -p .rawko/agents; mkfifo .rawko/agents/x.yaml", 2, "this is not a regular file"),
    ("mkdir -p .rawko/agents; mkfifo .rawko/agents/x.md", 2, "this is not a regular file"),
    ("mkdir -p .rawko/memories; mkfifo .rawko/memories/x.md", 0, ""),
    ("mkfifo inc; git config include.path ../inc", 0, "git looks at the repository: ended after 10 s"),
    ("rm .git/config; mkfifo .git/config", 0, ""),
    ("rm .git/HEAD; mkfifo .git/HEAD", 0, ""),
    ("rm -f .git/info/exclude; mkdir -p .git/info; mkfifo .git/info/exclude", 0, ""),
    ("rm -r .git; mkfifo .git", 0, ""),
    (
        "mkdir .rawko; touch ../c; ln -s ../../c .rawko/config.yaml",
        2,
        "this is a link that leads out of the project",
    ),
    (
        "mkdir .rawko ../a; echo '{name: x}' > ../a/x.yaml; ln -s ../../a .rawko/agents",
        2,
        "this is a link that leads out",
    ),
    (
        "mkdir -p .rawko/prompts; touch ../p; ln -s ../../../p .rawko/prompts/arbiter-select.md",
        2,
        "this is a link that leads out",
    ),
    ("mkdir .rawko; touch c; ln -s ../c .rawko/config.yaml", 0, ""),
    ("touch \"$(printf 'a\\nb\\033[2J\\377')\"; mkdir \"$(printf 'd\\n\\377')\"", 0, ""),
];

fn folder(setup: &str) -> Bench {
    let bench = Bench::new(&short());
    bench.shell("git init --quiet").check(0, &[]);
    bench.shell(setup).check(0, &[]);
    bench
}

#[test]
fn a_hostile_folder_holds_no_run_up() {
    each(FOLDERS, |(setup, code, words)| {
        let bench = folder(setup);
        let begun = Instant::now();
        let said = bench.shell(&format!("ulimit -v {MOST_MEMORY}; exec timeout 120 \"$0\" run 'Do it.'"));
        let took = begun.elapsed();
        assert!(took < PATIENCE, "{setup}: {took:?}\n{}{}", said.out, said.err);
        let both = format!("{setup}\n{}{}", said.out, said.err);
        assert_eq!(said.code, Some(*code), "{both}");
        assert!(both.contains(words), "{words:?} is missing in:\n{both}");
        if *code == 0 {
            assert_eq!(std::fs::read_to_string(bench.project().join("a.txt")).unwrap(), "a\n", "{setup}");
        }
    });
}

#[test]
fn two_signals_end_a_run_that_waits_for_git() {
    let bench = folder("mkfifo inc; git config include.path ../inc");
    let run = bench.start(&["run", "Do it."]);
    let begun = Instant::now();
    while bench.store().list().unwrap().is_empty() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Git is asked now.
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    for _ in 0..2 {
        run.signal(Signal::INT);
        std::thread::sleep(Duration::from_millis(500));
    }
    run.end();
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
}
