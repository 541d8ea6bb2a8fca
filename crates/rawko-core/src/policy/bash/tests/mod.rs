//! The filter against commands that were judged by running them, and against more of the same kinds.

mod calculation;
mod confined;
mod directory;
mod git;
mod limits;
mod names;
mod options;
mod patterns;
mod programs;
mod readers;
mod reading;
mod shell;
mod wrappers;

use super::*;
use crate::agent::BashFilter;
use proptest::prelude::*;
use serde::Deserialize;

/// Where the project is.
const PROJECT: &str = "/home/me/project";
/// Samples of `bash_filter.jsonl` that pass of those that may.
const ALLOWED_AT_LEAST: usize = 25;

/// Listed in the cases below.
const LISTED: [&str; 34] = [
    "[", "awk", "cat", "command", "cut", "diff", "echo", "env", "export", "find", "git", "grep", "head",
    "ls", "nice", "nohup", "printf", "read", "rg", "sed", "set", "setsid", "sort", "tail", "tar", "taskset",
    "test", "time", "timeout", "tree", "uniq", "wc", "xargs", "xxd",
];

#[derive(Deserialize)]
struct Sample {
    id: String,
    command: String,
    filter: BashFilter,
    expect: String,
}

#[test]
fn no_sample_that_must_be_refused_passes() {
    let samples = include_str!("../../../../tests/fixtures/bash_filter.jsonl").lines();
    let (mut passed, mut refused, mut wrong) = (0, Vec::new(), Vec::new());
    for sample in samples.map(|line| serde_json::from_str::<Sample>(line).unwrap()) {
        let permission = bash_permission(&sample.filter, PROJECT, &sample.command);
        match (sample.expect.as_str(), permission.is_allowed()) {
            ("allow", true) => passed += 1,
            ("allow", false) => refused.push(format!("{}: {permission:?}", sample.id)),
            ("deny", true) => wrong.push(format!("{}: {}", sample.id, sample.command)),
            ("deny", false) => {}
            (other, _) => panic!("no such expectation: {other}"),
        }
    }
    assert!(wrong.is_empty(), "these must be refused:\n{}", wrong.join("\n"));
    assert!(passed >= ALLOWED_AT_LEAST, "only {passed} pass; refused were\n{}", refused.join("\n"));
}

fn listed() -> BashFilter {
    BashFilter {
        allowed_commands: Some(LISTED.iter().map(|&n| n.to_owned()).collect()),
        blocked_patterns: Vec::new(),
    }
}

#[track_caller]
pub(super) fn check(commands: &[&str], allowed: bool) {
    let wrong: Vec<String> = commands
        .iter()
        .map(|command| (command, bash_permission(&listed(), PROJECT, command)))
        .filter(|(_, permission)| permission.is_allowed() != allowed)
        .map(|(command, permission)| format!("{command:?}: {permission:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_cannot_be_understood_is_refused() {
    let deep = format!("{}ls{}", "( ".repeat(500), " )".repeat(500));
    let quotes = format!("ls {}", "\"$(ls ".repeat(3_000));
    let long = format!("ls {}", "a".repeat(200_000));
    check(
        &[
            &deep,
            &quotes,
            &long,
            "ls \"",
            "ls '",
            "ls `",
            "ls $(",
            "ls ${",
            "ls )",
            "ls ;; ls",
            "; ls",
            "ls && ",
            "| ls",
            "if ls",
            "fi",
            "done",
            "ls \0",
            "ls\\",
            "cat <<EOF",
            "cat <<EOF\nx",
            "cat <<$x\n$x",
            "case a in",
            "{ }",
            "ls (a)",
            "ls &&& ls",
            "cat <<A $(\nA\n)",
            "[[ a",
            "$'\\0'",
            "for f in a; ls",
            "ls >",
        ],
        false,
    );
}

#[test]
fn without_a_list_everything_runs_and_with_an_empty_one_nothing() {
    assert!(bash_permission(&BashFilter::default(), PROJECT, "anything at all (").is_allowed());
    let none = BashFilter { allowed_commands: Some(Vec::new()), ..BashFilter::default() };
    assert!(!bash_permission(&none, PROJECT, "ls").is_allowed());
    assert!(!bash_permission(&none, PROJECT, "/bin/ls").is_allowed());
}

#[test]
fn a_filter_is_checked_when_it_is_loaded() {
    let filter = BashFilter {
        allowed_commands: Some(vec!["ls".into(), "git status".into(), "./x".into(), String::new()]),
        blocked_patterns: vec!["ok".into(), "(".into()],
    };
    let errors = validate_filter(&filter).unwrap_err();
    assert_eq!(errors.len(), 4, "{errors:?}");
    assert!(errors[0].to_string().contains("`git status`"));
    assert!(validate_filter(&listed()).is_ok());
}

#[test]
fn a_denial_says_to_the_model_what_to_do_instead_and_to_the_user_what_to_change() {
    let list =
        "remove the list under tools.bashFilter.allowedCommands of this agent: then every program may run";
    for (command, instead, change) in [
        (
            "ls && touch x",
            "`touch` is not listed: you may run [, awk, cat, ",
            "add `- touch` under tools.bashFilter.allowedCommands of this agent",
        ),
        ("sort -o x y", "`sort`: the option `-o` may not be used here: leave it out. Of sort", list),
        ("ls >x", "Leave it out, you get the output anyway", list),
        ("find . -exec ls {} +", "pipe the names to `xargs`, or use `grep -r`", list),
        ("ls $((x))", "Write it more plainly, as several calls", list),
    ] {
        let permission = bash_permission(&listed(), PROJECT, command);
        let Permission::Denied { rule, message, would_allow, .. } = permission else {
            panic!("{permission:?}")
        };
        assert_eq!(rule, "tools.bashFilter.allowedCommands");
        assert!(message.contains(instead), "{instead:?} is missing in {message}");
        assert!(!message.contains("bashFilter") && !message.contains("allow it"), "{message}");
        assert_eq!(would_allow.as_deref(), Some(change), "{command}");
    }
    let blocked = BashFilter { blocked_patterns: vec!["a{1000}|rm ".into()], ..BashFilter::default() };
    let permission = bash_permission(&blocked, PROJECT, "rm x");
    let change = "remove `- a{1000}|rm ` under tools.bashFilter.blockedPatterns of this agent";
    assert_eq!(permission.would_allow(), Some(change));
}

proptest! {
    #[test]
    fn any_text_gets_a_permission(command in "[a-z$(){}\\[\\]<>|&;'\"`\\\\ \n#=*?~!0-9-]{0,60}") {
        let _ = bash_permission(&listed(), PROJECT, &command);
    }

    #[test]
    fn nothing_unlisted_passes_as_a_word_of_a_list(
        before in "(ls|echo a|git status|cat 'x y')?", joint in "(;|&&|\\|\\||\\||&|\n)", name in "[a-z]{5,9}z",
    ) {
        let command = format!("{}{joint} {name}", if before.is_empty() { "ls" } else { &before });
        prop_assert!(!bash_permission(&listed(), PROJECT, &command).is_allowed());
    }
}
