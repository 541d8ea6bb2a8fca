//! Useless work ends within 150 model calls, or within 250 where it always finds a new place for it; honest work is not
//! disturbed (`docs/tools.md#guards`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod session_support;

use proptest::prelude::*;
use rawko_core::message::{Content, StopReason};
use rawko_core::session::{Effect, LimitKind, Note, Status};
use rawko_core::tool::{ToolAccess, ToolOutcome};
use serde_json::{Value, json};
use session_support::{Bench, agent, call, setup, tool};

/// Model calls within which useless work must end.
const MOST_CALLS: u32 = 150;
/// The same where each change is in a place that was not changed before.
const MOST_CALLS_IN_NEW_PLACES: u32 = 250;

/// One call of an agent, and its outcome.
struct Act {
    call: Content,
    outcome: ToolOutcome,
}

fn act(tool: &str, input: Value, outcome: ToolOutcome) -> Act {
    Act { call: call("c", tool, input), outcome }
}

/// A command after which the last file that it names differs, if it is one that writes.
fn bash(command: &str, exit: i32, output: &str) -> Act {
    let output = if output.is_empty() { "(no output)" } else { output };
    let writes = ["> ", "sed -i", "touch ", "cp "].iter().any(|part| command.contains(part));
    let line = command.lines().next().unwrap_or_default();
    let mut words =
        line.split([' ', ';']).filter(|word| word.contains(char::is_alphabetic) && !word.contains('<'));
    let changed = writes.then(|| words.next_back()).flatten();
    let outcome = ToolOutcome {
        exit_code: Some(exit),
        is_error: exit != 0,
        named_files_changed: changed.into_iter().map(str::to_owned).collect(),
        ..ToolOutcome::ok(format!("{output}\n[exit code {exit}]"))
    };
    act("Bash", json!({ "command": command }), outcome)
}

fn write(path: &str, text: &str) -> Act {
    let outcome =
        ToolOutcome { files_modified: vec![path.into()], ..ToolOutcome::ok(format!("wrote {path}")) };
    act("Write", json!({"file_path": path, "content": text}), outcome)
}

/// Different words for different numbers, without a figure.
fn words(number: u32) -> String {
    const SYLLABLES: [&str; 10] = ["ka", "lo", "mi", "nu", "pe", "ra", "so", "ti", "vu", "xe"];
    number.to_string().bytes().map(|digit| SYLLABLES[usize::from(digit - b'0')]).collect()
}

/// Plays a run in which each turn of an agent is the next act, until it is over or `most` model calls were made. An
/// arbiter never finds it done. Returns the number of model calls.
fn play(mut next: impl FnMut(u32) -> Act, most: u32) -> (Bench, u32) {
    let mut setup = setup();
    setup.agents = [agent("planner", 10), agent("developer", 10)].into();
    setup.tools.push(tool("Edit", ToolAccess::Mutating));
    setup.limits.max_iterations = 1_000;
    let mut bench = Bench::start(setup);
    let (mut asked, mut acts) = (0, 0);
    while bench.outcome.is_none() && asked < most {
        asked += 1;
        let purpose = bench.open.iter().find_map(|effect| match effect {
            Effect::CallModel { purpose, .. } => Some(purpose.to_string()),
            _ => None,
        });
        match purpose.unwrap().as_str() {
            "select" => bench.select("developer"),
            "evaluate" => {
                bench.decide(json!({"decision": "CONTINUE", "reason": "go on"}));
            }
            _ => {
                let Act { call, outcome } = next(acts);
                acts += 1;
                bench.reply(vec![call], StopReason::ToolUse);
                for (id, _) in bench.running() {
                    bench.finish_tool(id, outcome.clone());
                }
            }
        }
    }
    (bench, asked)
}

#[track_caller]
fn check_ends(useless: impl FnMut(u32) -> Act) {
    check_ends_within(MOST_CALLS, useless);
}

#[track_caller]
fn check_ends_within(most: u32, useless: impl FnMut(u32) -> Act) {
    let (bench, asked) = play(useless, 1_000);
    assert!(asked <= most, "{asked} model calls: {:?}", bench.outcome.map(|outcome| outcome.summary));
    let outcome = bench.ended(Status::Limited);
    assert_eq!(outcome.limit, Some(LimitKind::Stalled), "{outcome:?}");
    assert!(outcome.summary.contains("times: "), "it says what came again and again: {outcome:?}");
}

/// The words with which agents are warned, or stopped, in this run. If a check fails in the same way, the agent only
/// gets a message.
fn alarms(bench: &Bench) -> Vec<String> {
    let warned = bench.notes.iter().filter_map(|note| match note {
        Note::Warned { message } => Some(message.clone()),
        _ => None,
    });
    let conversation = format!("{:?}", bench.session);
    let said = ["This run has made no progress", "nothing changed in between"];
    let said = said.into_iter().filter(|words| conversation.contains(words)).map(str::to_owned);
    warned.chain(said).collect()
}

#[track_caller]
fn check_goes_on(honest: impl FnMut(u32) -> Act, calls: u32) {
    let (bench, asked) = play(honest, calls);
    assert_eq!(asked, calls, "{:?}", bench.outcome);
    assert_eq!(alarms(&bench), Vec::<String>::new());
}

#[test]
fn new_words_in_a_plan() {
    check_ends(|turn| {
        let step = json!({"description": format!("think about {}", words(turn)), "status": "pending"});
        act("UpdatePlan", json!({"steps": [step]}), ToolOutcome::default())
    });
    // A step that is called done without any work on it is only words too.
    check_ends(|turn| {
        let steps: Vec<Value> = (0..=turn % 40)
            .map(|step| json!({"description": format!("consider {}", words(step)), "status": "complete"}))
            .collect();
        act("UpdatePlan", json!({ "steps": steps }), ToolOutcome::default())
    });
}

#[test]
fn new_useless_commands() {
    check_ends(|turn| bash(&format!("echo {turn}"), 0, &turn.to_string()));
    check_ends(|turn| bash(&format!("echo {}", words(turn)), 0, &words(turn)));
    check_ends(|turn| bash(&format!("true # {}", words(turn)), 0, ""));
    check_ends(|turn| {
        bash(&format!("cargo test {}", words(turn)), 0, &format!("0 passed, {turn} filtered out"))
    });
    check_ends(|turn| bash(&format!("ls {}", words(turn)), 2, "No such file or directory"));
    check_ends(|turn| bash(&format!("pytest -k {} > log.txt", words(turn)), 0, ""));
    check_ends(|turn| bash(&format!("pytest > {}.txt", words(turn)), 0, ""));
    // New names of files are no work either.
    let new_files = ["touch NAME", "cp a.txt NAME", "echo NAME > NAME.md"];
    for command in new_files {
        check_ends_within(MOST_CALLS_IN_NEW_PLACES, |turn| {
            bash(&command.replace("NAME", &words(turn)), 0, "")
        });
    }
}

#[test]
fn a_counter_in_a_file() {
    check_ends(|turn| write("counter.txt", &format!("count: {turn}\n")));
    check_ends(|turn| bash(&format!("echo {} >> notes.md", words(turn)), 0, ""));
    check_ends_within(MOST_CALLS_IN_NEW_PLACES, |turn| {
        write(&format!("note{turn}.md"), &format!("Attempt {turn} of many.\n"))
    });
    check_ends(|turn| {
        let (old, new) = (format!("let n = {turn};"), format!("let n = {};", turn + 1));
        let input = json!({"file_path": "a.rs", "old_string": old, "new_string": new});
        act("Edit", input, ToolOutcome { files_modified: vec!["a.rs".into()], ..ToolOutcome::ok("edited") })
    });
    check_ends(|turn| bash(&format!("echo {turn} >> log.txt"), 0, ""));
    check_ends(|turn| bash("date >> log.txt; wc -l log.txt", 0, &format!("{turn} log.txt")));
    check_ends(|turn| bash(&format!("sed -i 's/n = {turn}/n = {}/' a.rs", turn + 1), 0, ""));
    // With a check that fails alike in between.
    check_ends(|turn| match turn % 2 {
        0 => write("counter.txt", &format!("count: {turn}\n")),
        _ => bash("make test", 1, &format!("FAILED in 0.{turn} s")),
    });
}

/// Each turn another failure, by chance.
#[test]
fn a_check_that_fails_by_chance() {
    let outputs: [fn(u32) -> String; 3] = [
        |turn| format!("FAIL: cannot open /tmp/{}", words(turn * 7_919)),
        |turn| format!("FAIL: {} {}", words(turn * 7_919), words(turn * 104_729)),
        |turn| format!("=== {} failed in 0.1s ===\n{}", turn * 7_919 % 97 + 1, words(turn)),
    ];
    let writes = ["echo $RANDOM > n.txt", "cp a.txt b.txt", "head -c 9 /dev/urandom > n"];
    for (output, write) in outputs.into_iter().flat_map(|output| writes.map(|write| (output, write))) {
        check_ends(|turn| match turn % 2 {
            0 => bash(write, 0, ""),
            _ => bash("make test", 2, &output(turn)),
        });
    }
}

#[test]
fn blanks_in_a_file() {
    check_ends(|turn| write("a.rs", &format!("fn main() {{}}{}", "\n".repeat(turn as usize))));
    check_ends(|turn| write("a.txt", &format!("word{}", " word".repeat(turn as usize))));
    check_ends(|turn| bash(&format!("printf '{}' >> a.rs", "\\n".repeat(turn as usize % 30 + 1)), 0, ""));
}

#[test]
fn there_and_back() {
    check_ends(|turn| write("a.rs", if turn % 2 == 0 { "fn one() {}" } else { "fn two() {}" }));
}

#[test]
fn output_without_a_change() {
    check_ends(|turn| bash("head -c 20 /dev/urandom | base64", 0, &words(turn * 7_919)));
    check_ends(|turn| act("Read", json!({"file_path": words(turn)}), ToolOutcome::ok(words(turn))));
}

#[test]
fn sleeping() {
    check_ends(|turn| bash(&format!("sleep {}", turn % 7), 0, ""));
    check_ends(|turn| bash(&format!("sleep 1; echo slept {turn}"), 0, &format!("slept {turn}")));
}

#[test]
fn words_of_its_own_at_the_same_place() {
    check_ends(|turn| match turn % 2 {
        0 => write("a.rs", &format!("fn {}() {{}}", words(turn))),
        _ => bash("make test", 1, "FAILED"),
    });
    check_ends(|turn| {
        let (old, new) = (format!("fn {}()", words(turn)), format!("fn {}()", words(turn + 1)));
        let input = json!({"file_path": "a.rs", "old_string": old, "new_string": new});
        act("Edit", input, ToolOutcome { files_modified: vec!["a.rs".into()], ..ToolOutcome::ok("edited") })
    });
}

/// A check that passes now and then, whatever is changed.
#[test]
fn a_check_that_passes_by_chance() {
    check_ends(|turn| match turn % 2 {
        0 => write("a.rs", &format!("fn {}() {{}}", words(turn))),
        _ if turn % 6 == 1 => bash("make test", 0, "ok"),
        _ => bash("make test", 1, "FAILED: connection reset"),
    });
}

/// What proves a little each time: another check that passes once, a failure that is made and mended, a plan that grows with
/// its settled steps. It goes on for longer, and not for ever.
#[test]
fn small_proofs() {
    let most = 500;
    check_ends_within(most, |turn| {
        let (name, is_even) = (words(turn / 3), turn % 3 == 1);
        match turn % 3 {
            0 => bash(&format!("pytest tests/test_{name}.py"), 1, &format!("no test {name}")),
            _ if is_even => write(&format!("tests/test_{name}.py"), "def test(): pass"),
            _ => bash(&format!("pytest tests/test_{name}.py"), 0, "1 passed"),
        }
    });
    check_ends_within(most, |turn| {
        let name = words(turn / 4);
        match turn % 4 {
            0 => write("a.py", &format!("import {name}")),
            1 => bash("make test", 1, &format!("no module {name}")),
            2 => write("a.py", &format!("# {name} went")),
            _ => bash("make test", 0, "ok"),
        }
    });
    check_ends_within(MOST_CALLS, |turn| match turn % 20 {
        19 => {
            let steps: Vec<Value> = (0..=turn / 20)
                .map(|step| json!({"description": format!("step {}", words(step)), "status": "complete"}))
                .collect();
            act("UpdatePlan", json!({ "steps": steps }), ToolOutcome::default())
        }
        _ => bash(&format!("echo {} >> notes.md", words(turn)), 0, ""),
    });
}

/// Tests that are mended one after the other, each with its check in the same command.
#[test]
fn one_test_after_the_other() {
    check_goes_on(
        |turn| {
            let failed = 300 - turn;
            bash(
                &format!("sed -i 's/{}/{}/' a.py; python3 -m pytest -q", words(turn), words(turn + 1)),
                1,
                &format!("=== {failed} failed, {turn} passed in 0.{turn}s ==="),
            )
        },
        280,
    );
}

/// The same import replaced in many files, a licence above each of them.
#[test]
fn mass_edits() {
    let edited = |turn: u32, old: &str, new: &str| {
        let file = format!("src/module_{turn:02}.py");
        let input = json!({"file_path": file, "old_string": old, "new_string": new});
        act("Edit", input, ToolOutcome { files_modified: vec![file], ..ToolOutcome::ok("edited") })
    };
    check_goes_on(|turn| edited(turn, "from old import thing", "from new import thing"), 180);
    check_goes_on(|turn| bash(&format!("sed -i '1i # Licence: MIT' src/module_{turn:02}.py"), 0, ""), 180);
    // Many places in one file.
    check_goes_on(
        |turn| {
            let old = format!("def {}(self, old): pass", words(turn));
            let input =
                json!({"file_path": "a.py", "old_string": old, "new_string": old.replace("old", "new")});
            act(
                "Edit",
                input,
                ToolOutcome { files_modified: vec!["a.py".into()], ..ToolOutcome::ok("edited") },
            )
        },
        180,
    );
}

fn read(turn: u32) -> Act {
    act("Read", json!({"file_path": words(turn)}), ToolOutcome::ok(words(turn)))
}

#[test]
fn a_big_project_may_be_explored() {
    check_goes_on(read, 55);
}

/// A plan of many steps, each settled after a change of the same file.
#[test]
fn a_long_plan() {
    check_goes_on(
        |turn| match turn % 10 {
            0 => {
                let steps: Vec<Value> = (0..40)
                    .map(|step| {
                        let status = if step < turn / 10 { "complete" } else { "pending" };
                        json!({"description": format!("step {}", words(step)), "status": status})
                    })
                    .collect();
                act("UpdatePlan", json!({ "steps": steps }), ToolOutcome::default())
            }
            1 => write("a.rs", &format!("fn {}() {{}}", words(turn))),
            _ => read(turn),
        },
        390,
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Edits of a program and runs of its tests, which fail in ways that change or not.
    #[test]
    fn long_honest_loops_are_not_disturbed(seed in 0_u32..1_000, changing in 1_u32..4, by_shell: bool) {
        check_goes_on(
            |turn| {
                let name = words(seed * 1_000 + turn);
                match turn % 2 {
                    0 if by_shell => bash(&format!("cat > src/a.py <<'E'\ndef {name}(): pass\nE"), 0, ""),
                    0 => write("src/a.py", &format!("def {name}(): pass\n")),
                    _ if turn % 11 == 1 => bash("pytest -q", 0, "12 passed in 0.2s"),
                    _ => bash("pytest -q", 1, &format!("FAILED {} in 0.{turn}s", words(turn / changing / 6))),
                }
            },
            240,
        );
    }
}
