//! The filter against the real bash: runs lines that it allows, in a place where programs record that they were started.
//! No unlisted program may run, and no file may be written.
//!
//! A grammar generates the lines, and changes those that the filter allows. They are the same in every run with the same
//! seed. `RAWKO_FILTER_LINES` says how many are run (`just fuzz-filter`), `RAWKO_FILTER_SECONDS` for how long instead, and
//! `RAWKO_FILTER_SEED` from where on.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod dice;
mod grammar;
mod options;
mod place;
mod texts;
mod values;

use std::time::{Duration, Instant};

use grammar::Generator;
use options::LISTED;
use place::Place;
use rawko_core::agent::{AgentConfig, BashFilter, Permissions};
use rawko_core::message::ToolCall;
use rawko_core::policy::{BASH, CallContext, bash_permission, call_permission};
use serde_json::json;

/// Lines that are run by default.
const LINES: usize = 2_000;
/// Lines that one runner runs.
const BATCH: usize = 100;

fn number(variable: &str, default: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")),
        Err(_) => default,
    }
}

/// An agent with the listed programs, and what it works in.
struct Judge {
    agent: AgentConfig,
    permissions: Permissions,
    project: String,
    is_confined: bool,
}

impl Judge {
    fn new(project: String, is_confined: bool) -> Self {
        let tools = json!({"bashFilter": {"allowedCommands": LISTED}});
        let agent = json!({"name": "fuzzer", "systemPrompt": "Test.", "tools": tools});
        let permissions = serde_json::from_value(json!({"read": ["."], "write": ["."]})).unwrap();
        Self { agent: serde_json::from_value(agent).unwrap(), permissions, project, is_confined }
    }

    fn allows(&self, line: &str) -> bool {
        let input = json!({"command": line});
        let call = ToolCall { id: "1".into(), name: BASH.into(), input, invalid_input: None, withheld: None };
        let context = CallContext { project: &self.project, is_confined: self.is_confined };
        call_permission(&self.agent, &self.permissions, context, &call, &[BASH]).is_allowed()
    }
}

/// The shortest line found by leaving parts out that is still allowed and still leaks.
fn shrunken(place: &Place, judge: &Judge, line: &str) -> String {
    let leaks =
        |line: &str| judge.allows(line) && !place.run(&[line.to_owned()], judge.is_confined).leaks.is_empty();
    let mut line: Vec<char> = line.chars().collect();
    let mut size = line.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < line.len() {
            let mut shorter = line.clone();
            shorter.drain(at..(at + size).min(line.len()));
            if leaks(&shorter.iter().collect::<String>()) {
                line = shorter;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    line.into_iter().collect()
}

/// Says which lines of a batch leak, and in how few words.
fn report(place: &Place, judge: &Judge, batch: &[String], seed: usize) -> Vec<String> {
    let mut found = Vec::new();
    for line in batch {
        let leaks = place.run(std::slice::from_ref(line), judge.is_confined).leaks;
        if !leaks.is_empty() {
            found.push(format!(
                "RAWKO_FILTER_SEED={seed}: {leaks:?}\n   by {line:?}\n   in short {:?}",
                shrunken(place, judge, line)
            ));
        }
    }
    if found.is_empty() {
        found.push(format!("RAWKO_FILTER_SEED={seed}: a leak of these lines together: {batch:#?}"));
    }
    found
}

fn fuzz(is_confined: bool) {
    /// Different leaks are seen at once.
    const MOST_REPORTS: usize = 12;
    let place = Place::new();
    let judge = Judge::new(place.project(), is_confined);
    let (seed, wanted) = (number("RAWKO_FILTER_SEED", 1), number("RAWKO_FILTER_LINES", LINES));
    let mut generator = Generator::new(u64::try_from(seed).unwrap());
    let (mut tried, mut ran, mut calls) = (0, 0, 0);
    let mut found: Vec<String> = Vec::new();
    let begun = Instant::now();
    let seconds = number("RAWKO_FILTER_SECONDS", 0);
    let goes_on = |ran: usize| match seconds {
        0 => ran < wanted,
        seconds => begun.elapsed().as_secs() < u64::try_from(seconds).unwrap(),
    };
    println!("RAWKO_FILTER_SEED={seed}");
    while goes_on(ran) && found.len() < MOST_REPORTS {
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            let line = generator.line();
            tried += 1;
            if judge.allows(&line) {
                generator.keep(&line);
                batch.push(line);
            }
        }
        ran += batch.len();
        let seen = place.run(&batch, is_confined);
        calls += seen.calls;
        if !seen.leaks.is_empty() {
            found.extend(report(&place, &judge, &batch, seed));
        }
        if ran.is_multiple_of(10_000) {
            println!("{ran} lines so far, {} leaks", found.len());
        }
    }
    println!("{ran} lines of {tried} ran {calls} programs; in namespaces: {}", place.is_closed());
    assert!(found.is_empty(), "these leak, of {ran} lines:\n{}", found.join("\n"));
    assert!(tried < 30 * ran, "the filter refuses too much of this: {tried} tries for {ran} lines");
    assert!(calls > ran / 5, "the lines run something: {calls}");
}

#[test]
fn no_line_that_the_filter_allows_runs_or_writes_what_is_not_granted() {
    fuzz(false);
}

#[test]
fn in_the_sandbox_no_allowed_line_runs_what_is_not_listed_or_writes_outside_the_write_paths() {
    fuzz(true);
}

#[test]
fn long_commands_are_judged_in_time() {
    let repeated = |part: &str| part.repeat(30_000 / part.len());
    let listed = LISTED.iter().map(|&n| n.to_owned()).collect();
    let filter = BashFilter { allowed_commands: Some(listed), blocked_patterns: vec!["rm -rf /".to_owned()] };
    let begun = Instant::now();
    let check = |commands: &[String], allowed: bool| {
        for command in commands {
            let verdict = bash_permission(&filter, "/project", command);
            let head: String = command.chars().take(40).collect();
            assert_eq!(verdict.is_allowed(), allowed, "{head:?}: {verdict:?}");
        }
    };
    check(
        &[
            repeated("ls;"),
            repeated("ls || cd a; "),
            repeated("x="),
            format!("ls {}", repeated("a ")),
            format!("ls {}\\\nb", repeated("\\\n")),
            format!("[[ {}a ]]", repeated("a && ")),
            format!("cat <<EOF\n{}\nEOF\n", repeated("\\\\\\\nx\n")),
        ],
        true,
    );
    check(
        &[
            format!("ls {}", "a".repeat(200_000)),
            repeated("cat <<E "),
            repeated("\"${"),
            repeated("{a,"),
            repeated("[[ ( "),
            repeated("`"),
            repeated("\\`"),
            repeated("$'\\"),
            repeated("\\\n$"),
            repeated("xargs "),
        ],
        false,
    );
    // Far more than it takes; an algorithm of quadratic cost would take many minutes.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

/// What the place must see, each of it alone: else nothing above means anything.
#[test]
fn the_place_sees_what_leaks() {
    let place = Place::new();
    let leaks = |line: &str, may_write: bool| place.run(&["ls".to_owned(), line.to_owned()], may_write).leaks;
    for line in ["evil", "ls; touch z", "ls $(evil)", "PATH=src ls", "(evil &)"] {
        let found = leaks(line, false).programs;
        assert_eq!(found.len(), 1, "{line}: {found:?}");
    }
    for line in ["ls >z", "echo x >>a", "echo >src/ls", ">../z", "echo >../../bin/ls"] {
        assert_eq!(leaks(line, false).files.len(), 1, "{line}");
    }
    assert!(leaks("ls >z; echo >src/new", true).is_empty());
    for line in [">../z", "echo >.rawko/config.yaml", "echo >../../bin/ls"] {
        assert_eq!(leaks(line, true).files.len(), 1, "{line}");
    }
    assert!(leaks("ls; cat a >/dev/null", false).is_empty());
    if !place.is_closed() {
        return;
    }
    // Real programs really do it.
    for line in ["find . -exec evil ';'", "env evil", "xargs -a a evil", "sed '1e evil' a"] {
        assert!(!leaks(line, false).programs.is_empty(), "{line}");
    }
    for line in ["sort a -o z", "sed -i s/A/B/ a", "sed '1w z' a"] {
        assert_eq!(leaks(line, false).files.len(), 1, "{line}");
    }
}
