//! `blockedPatterns`: matched on the text and on the words after quote removal.

use super::PROJECT;
use crate::agent::BashFilter;
use crate::policy::bash_permission;

#[track_caller]
fn check_patterns(patterns: &[&str], command: &str, allowed: bool) {
    let filter = BashFilter {
        allowed_commands: None,
        blocked_patterns: patterns.iter().map(|&p| p.to_owned()).collect(),
    };
    let permission = bash_permission(&filter, PROJECT, command);
    assert_eq!(permission.is_allowed(), allowed, "{command}: {permission:?}");
}

#[test]
fn patterns_see_through_quotes_and_blanks() {
    let usual = ["rm -rf /", "sudo ", "> "];
    for command in [
        "sudo ls",
        "s\\udo ls",
        "'sudo' ls",
        "sudo\tls",
        "ls; (su''do ls)",
        "ls $(s'u'do x)",
        "rm  -rf  /",
        "ls >x",
        "ls >>x; ls",
        "if ls; then sudo x; fi",
    ] {
        check_patterns(&usual, command, false);
    }
    for command in [
        "ls",
        "f() { ls; }; f",
        "a=(1 2); for x in ${a[@]}; do ls ${x%.rs}; done",
        "for ((i=0; i<3; i++)); do ls; done",
        "x=$((y+1))",
        "rm -rf ./a",
    ] {
        check_patterns(&usual, command, true);
    }
    check_patterns(&["^sudo"], "ls; sudo ls", false);
    check_patterns(&["^sudo"], "f() { \\sudo ls; }; f", false);
    check_patterns(&["^ls >> x$"], "ls>>x", false);
    check_patterns(&["("], "ls", false);
    check_patterns(&["x"], "ls 'y", false);
}
