//! What programs expect of their environment: an editor that ends, a name to commit under, a folder for temporary
//! files.
#![cfg(target_os = "linux")]

use serde_json::{Value, json};

use crate::answers::{bash, developer, report};
use crate::sandbox::is_possible;
use crate::trial::{Ended, Trial};

/// The output of a command of the developer, with these variables of the user and the names that they grant.
#[track_caller]
fn output(command: &str, variables: &[(&str, &str)], granted: &[&str]) -> (Ended, String) {
    let trial = Trial::new(developer([bash(command), report("tried")]))
        .user_config("/permissions/env", json!(granted))
        .file("a.txt", "a\n");
    trial.git(&["add", "-A"]);
    trial.git(&["commit", "--quiet", "--message", "start"]);
    let trial = variables.iter().fold(trial, |trial, (name, value)| trial.env(name, *value));
    let ended = trial.run("Try it.");
    ended.exits(0);
    let (output, _) = ended.results("Bash").remove(0);
    (ended, output)
}

/// Who commits: a container's variables, where no file says so.
const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "author"),
    ("GIT_AUTHOR_EMAIL", "author@example.org"),
    ("GIT_COMMITTER_NAME", "committer"),
    ("GIT_COMMITTER_EMAIL", "committer@example.org"),
];

#[test]
fn git_does_not_wait_for_an_editor() {
    if !is_possible() {
        return;
    }
    let own = [("GIT_EDITOR", "sleep 60"), ("EDITOR", "sleep 60"), ("VISUAL", "sleep 60")];
    let variables = [&IDENTITY[..], &own].concat();
    for command in [
        "git -c core.editor='sleep 60' commit --amend --allow-empty",
        "echo b > a.txt; git commit -qam b; git -c sequence.editor='sleep 60' rebase -i HEAD~1",
        "$VISUAL; $EDITOR",
    ] {
        let (_, output) = output(&format!("timeout 20 bash -c \"{command}\""), &variables, &[]);
        assert!(output.contains("[exit code 0]"), "{command}: {output}");
    }
}

#[test]
fn an_editor_that_the_user_grants_is_used() {
    if !is_possible() {
        return;
    }
    let own = [("GIT_EDITOR", "echo edited >")];
    let (_, output) = output(
        "git commit -q --amend; git log --format=%s",
        &[&IDENTITY[..], &own].concat(),
        &["GIT_EDITOR"],
    );
    assert!(output.starts_with("edited\n"), "{output}");
}

#[test]
fn who_commits_is_known_from_the_environment() {
    if !is_possible() {
        return;
    }
    let command = "git commit -q --allow-empty -m two && git log -1 --format='%an <%ae> %cn'";
    let (_, output) = output(command, &IDENTITY, &[]);
    assert!(output.starts_with("author <author@example.org> committer\n"), "{output}");
}

#[test]
fn a_folder_for_temporary_files_that_is_of_no_use_stops_nothing() {
    if !is_possible() {
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let missing = here.path().join("missing").display().to_string();
    let file = format!("{}/file", here.path().display());
    std::fs::write(&file, "").unwrap();
    for value in [&missing, "scratch", &file, ""] {
        let (ended, output) = output("mktemp > made; echo hi", &[("TMPDIR", value)], &[]);
        assert!(output.starts_with("hi\n"), "{value:?}: {output}");
        assert_eq!(ended.finish()["filesModified"], json!(["made"]), "{value:?}");
    }
}

#[test]
fn temporary_files_of_a_run_are_no_files_of_the_project() {
    if !is_possible() {
        return;
    }
    let trial =
        Trial::new(developer([bash("echo hi > made"), report("tried")])).file("scratch/kept", "kept\n");
    let scratch = trial.project().join("scratch");
    let trial = trial.env("TMPDIR", scratch.display().to_string());
    let ended = trial.args(&["--verify", "test -f made"]).run("Try it.");
    ended.exits(0);
    let end: Value = ended.finish();
    assert_eq!((&end["status"], &end["filesModified"]), (&json!("verified"), &json!(["made"])), "{end:#}");
    let left: Vec<_> = std::fs::read_dir(scratch).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["kept"]);
}
