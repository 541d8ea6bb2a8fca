//! `rawko demo`: red before, green after, and nothing left.

use serde_json::json;

use crate::place::{Place, names};
use crate::support::Said;

#[test]
fn the_tests_go_from_red_to_green_by_real_edits() {
    let place = Place::new();
    let demo = place.rawko(&["demo"]).ends(0);
    let demo = demo.says(&[
        "answers are scripted",
        "FAIL  'Rock & Roll!'",
        "the tests pass",
        "Files changed: slugify.sh, tests/run.sh",
        "-printf",
        "+check \"--C++ & Rust--\" \"c-rust\"",
        "0 failed",
        "export ANTHROPIC_API_KEY",
    ]);
    for agent in ["planner", "developer", "tester", "reviewer"] {
        assert!(demo.err.contains(&format!("agent: {agent} starts")), "{}", demo.err);
    }
    assert!(demo.err.contains("developer< Bash: exit 1"), "the failing test was really run: {}", demo.err);
    assert!(demo.out.find("exit 1").unwrap() < demo.out.find("exit 0").unwrap());
    assert_eq!(names(&place.tmp()), Vec::<String>::new(), "the project is gone");
    assert_eq!(names(&place.project()), Vec::<String>::new(), "this folder was not touched");
}

#[test]
fn neither_the_environment_nor_git_of_the_user_has_a_part() {
    let place = Place::new();
    let marker = place.tmp().join("marker");
    let hook = place.project().join("hooks/pre-commit");
    place.write("hooks/pre-commit", &format!("#!/bin/sh\ntouch {}\nexit 1\n", marker.display()));
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let config =
        format!("[core]\n\thooksPath = {}\n[commit]\n\tgpgSign = true\n", hook.parent().unwrap().display());
    let home = place.tmp().parent().unwrap().join("home");
    std::fs::write(home.join(".gitconfig"), config).unwrap();
    let output = place
        .command(&["demo", "--quiet"])
        .env("GIT_DIR", "/nowhere")
        .env("RAWKO_PROVIDER", "nobody")
        .env("RAWKO_MAX_ITERATIONS", "1")
        .output()
        .unwrap();
    let demo = Said::of(output).ends(0);
    assert_eq!(demo.err, "");
    assert!(!marker.exists());
}

#[test]
fn the_project_stays_on_request() {
    let place = Place::new();
    let demo = place.rawko(&["demo", "--keep", "--json"]).ends(0);
    let printed = demo.json();
    assert_eq!((&printed["before"]["exitCode"], &printed["after"]["exitCode"]), (&json!(1), &json!(0)));
    assert_eq!(printed["finished"]["status"], "verified");
    let proof = &printed["finished"]["verification"];
    assert_eq!(
        (&proof["runs"][0]["command"], &proof["runs"][0]["exitCode"]),
        (&json!("bash tests/run.sh"), &json!(0))
    );
    let folder = std::path::Path::new(printed["folder"].as_str().unwrap());
    assert!(folder.join("slugify.sh").exists() && folder.join(".git").exists());
    assert!(folder.starts_with(place.tmp()), "it goes with this place");
}

#[test]
fn without_git_it_says_what_it_needs() {
    let place = Place::new();
    let output = place.command(&["demo"]).env("PATH", "").output().unwrap();
    Said::of(output).ends(2).complains(&["cannot start git", "install it"]);
    assert_eq!(names(&place.tmp()), Vec::<String>::new());
}

/// The words of a recording or of a run that do not differ from run to run, sorted: readers of two files answer in any order.
fn lasting_words(text: &str) -> Vec<String> {
    let text = text.split_once("state: idle").expect("the beginning of the run").1;
    let differs = |word: &str| {
        word.chars().any(|c| c.is_ascii_digit() || c == '/')
            || matches!(word, "ms" | "s" | "m" | "ms," | "ms:")
    };
    let mut words: Vec<String> =
        text.split_whitespace().filter(|word| !differs(word)).map(str::to_owned).collect();
    words.sort();
    words
}

#[test]
fn the_recording_shows_what_the_demo_prints() {
    let place = Place::new();
    // As it was recorded: both outputs in their order.
    let program = env!("CARGO_BIN_EXE_rawko");
    let mut bash = std::process::Command::new("bash");
    let path = std::env::var_os("PATH").unwrap_or_default();
    bash.args(["-c", &format!("'{program}' demo 2>&1")]).current_dir(place.project()).env_clear();
    bash.env("PATH", path).env("HOME", place.tmp()).env("TMPDIR", place.tmp());
    let printed = Said::of(bash.output().unwrap()).ends(0).out;
    let recording = include_str!("../../../../docs/demo.svg");
    let rows =
        recording.split("<text ").skip(1).filter_map(|row| row.split_once('>')?.1.split_once("</text>"));
    let mut recorded = String::new();
    for (row, _) in rows {
        let parts = row.split('<').enumerate().map(|(n, part)| match n {
            0 => part,
            _ => part.split_once('>').map_or("", |(_, text)| text),
        });
        recorded.extend(parts);
        recorded.push('\n');
    }
    let recorded = recorded.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    assert_eq!(lasting_words(&recorded), lasting_words(&printed), "record it again: scripts/record-demo.sh");
}
