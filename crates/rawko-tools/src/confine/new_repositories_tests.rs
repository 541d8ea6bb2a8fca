#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::super::git::repository_of;
use super::super::survey::{Survey, Wanted};
use super::*;

/// Settings and a hook that say that they ran.
const TRAP: &str = "\n[core]\n\tfsmonitor = echo x >>\"$CANARY\"; false\n\thooksPath = hooks\n[filter \"f\"]\n\tclean = echo x >>\"$CANARY\"; cat\n\
                    [include]\n\tpath = more\n[user]\n\tname = Kept\n";

fn sh(folder: &Path, canary: &Path, script: &str) {
    let mut bash = Command::new("bash");
    bash.args(["-ec", script])
        .current_dir(folder)
        .env("CANARY", canary)
        .env("TRAP", TRAP)
        .env("HOME", folder);
    for role in ["AUTHOR", "COMMITTER"] {
        bash.env(format!("GIT_{role}_NAME"), "A").env(format!("GIT_{role}_EMAIL"), "a@b.c");
    }
    bash.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "protocol.file.allow");
    let done = bash.env("GIT_CONFIG_VALUE_0", "always").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn begun(project: &Path) -> NewRepositories {
    let wanted = [Wanted { folder: project.to_owned(), is_thorough: false }];
    let new = NewRepositories::new(Some(project), repository_of(project));
    new.begin(project, &Survey::again(&wanted));
    new
}

/// What a user does, and when: after a command has ended, or once the run has.
struct Users {
    script: &'static str,
    is_over: bool,
}

const AFTER_THE_COMMAND: Users = Users {
    script: "git status >/dev/null; git diff >/dev/null; git submodule status >/dev/null || true",
    is_over: false,
};
const AFTER_THE_RUN: Users =
    Users { script: "cd x; git status >/dev/null; git diff >/dev/null", is_over: true };
/// A repository that is the project's.
const PROJECT: &str = "git init -q .; echo a >a; git add a; git commit -qm a;";

/// `theirs` and then `command` run in a project. Afterwards what users do must run nothing that `command` wrote; `look` sees
/// the project.
#[track_caller]
fn check(theirs: &str, command: &str, users: &Users, look: impl Fn(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (project, canary) = (root.join("project"), root.join("canary"));
    fs::create_dir(&project).unwrap();
    sh(&project, &canary, theirs);
    let new = begun(&project);
    sh(&project, &canary, command);
    sh(&project, &canary, users.script);
    let is_needed = fs::remove_file(&canary).is_ok();
    assert!(is_needed, "the command left nothing that git obeys");
    new.disarm_named();
    if users.is_over {
        drop(new);
    }
    sh(&project, &canary, &format!("{} || true", users.script));
    assert!(!canary.exists());
    look(&project);
}

const INIT: &str = "git init -q x; echo b >x/b; echo '* filter=f' >x/.gitattributes; (cd x; git add .; git commit -qm b); \
                    git add x; echo c >x/b; touch -d '1 hour ago' x/b; printf '%s' \"$TRAP\" >>x/.git/config;";

#[test]
fn settings_of_a_new_repository_run_nothing() {
    check(PROJECT, INIT, &AFTER_THE_COMMAND, |project| {
        let config = fs::read_to_string(project.join("x/.git/config")).unwrap();
        assert!(config.contains("name = \"Kept\"") && config.contains("bare"), "{config}");
        assert!(!config.contains("canary") && !config.contains("more"), "{config}");
    });
}

#[test]
fn one_in_another_in_the_place_of_the_users_and_one_that_a_file_or_a_link_names() {
    let inner = format!("git init -q y; echo y >y/y; (cd y; git add .; git commit -qm y; {INIT}); git add y");
    check(PROJECT, &inner, &AFTER_THE_COMMAND, |_| {});
    let theirs =
        "git init -q x; echo b >x/b; (cd x; git add .; git commit -qm b); git add x; git commit -qm x";
    check(&format!("{PROJECT} {theirs}"), &format!("mv x old; {INIT}"), &AFTER_THE_COMMAND, |project| {
        assert!(project.join("old/.git/hooks").exists());
    });
    check(
        PROJECT,
        &format!("{INIT} mv x/.git elsewhere; echo 'gitdir: ../elsewhere' >x/.git"),
        &AFTER_THE_COMMAND,
        |_| {},
    );
    check(
        PROJECT,
        &format!("{INIT} mv x/.git elsewhere; ln -s ../elsewhere x/.git"),
        &AFTER_THE_COMMAND,
        |_| {},
    );
    let common = "cp -r x/.git common; rm -r x/.git/config x/.git/hooks; echo ../../common >x/.git/commondir";
    check(PROJECT, &format!("{INIT} {common}"), &AFTER_THE_COMMAND, |project| {
        assert!(project.join("common/config").exists());
    });
    check(PROJECT, &format!("{INIT} git update-index --split-index"), &AFTER_THE_COMMAND, |_| {});
}

#[test]
fn hooks_of_a_new_repository_are_removed() {
    let hook = "git init -q x; echo b >x/b; (cd x; git add .; git commit -qm b); git add x; mkdir -p x/.git/hooks; \
                printf '#!/bin/sh\\necho x >>\"$CANARY\"' >x/.git/hooks/post-index-change; chmod +x x/.git/hooks/post-index-change; \
                touch -d '1 hour ago' x/b";
    check(PROJECT, hook, &AFTER_THE_COMMAND, |project| assert!(!project.join("x/.git/hooks").exists()));
    // Whatever the modes are.
    let locked = format!("{hook}; chmod 500 x/.git; chmod 500 x/.git/hooks");
    check(PROJECT, &locked, &AFTER_THE_COMMAND, |project| {
        fs::set_permissions(project.join("x/.git"), fs::Permissions::from_mode(0o700)).unwrap();
    });
}

#[test]
fn a_submodule_of_the_users_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (project, canary) = (root.join("project"), root.join("canary"));
    fs::create_dir(&project).unwrap();
    let theirs = "git init -q ../lib; (cd ../lib; echo l >l; git add .; git commit -qm l); git init -q .; \
                  git submodule --quiet add ../lib sub; git commit -qm sub; printf '%s' \"$TRAP\" >>.git/modules/sub/config";
    sh(&project, &canary, theirs);
    let config = project.join(".git/modules/sub/config");
    let before = fs::read(&config).unwrap();
    let new = begun(&project);
    sh(&project, &canary, "echo a >a; git add a; (cd sub; echo m >m; git add m || true)");
    new.disarm_named();
    drop(new);
    assert_eq!(fs::read(&config).unwrap(), before);
    assert!(project.join(".git/modules/sub/hooks").exists());
}

#[test]
fn a_repository_of_the_project_itself_is_new_where_there_was_none() {
    let command =
        "git init -q .; echo b >b; git add b; printf '%s' \"$TRAP\" >>.git/config; touch -d '1 hour ago' b";
    check("", command, &AFTER_THE_COMMAND, |project| assert!(project.join(".git/objects").exists()));
}

#[test]
fn what_no_index_names_is_disarmed_when_the_run_has_ended() {
    let unnamed = INIT.replace("git add x;", "");
    check(PROJECT, &unnamed, &AFTER_THE_RUN, |_| {});
    check("", &unnamed, &AFTER_THE_RUN, |_| {});
}

#[test]
fn what_leads_out_of_the_project_to_no_repository_of_the_users_is_removed() {
    let file = format!("{INIT} mv x/.git ../store; echo 'gitdir: ../../store' >x/.git");
    check(PROJECT, &file, &AFTER_THE_COMMAND, |project| assert!(!project.join("x/.git").exists()));
    let link = format!("{INIT} mv x/.git ../store; ln -s ../../store x/.git");
    check(PROJECT, &link, &AFTER_THE_COMMAND, |project| assert!(project.join("../store/config").exists()));
}

#[test]
fn what_is_the_users_stays_whatever_a_survey_has_seen() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (project, other, canary) = (root.join("project"), root.join("other"), root.join("canary"));
    fs::create_dir_all(&project).unwrap();
    fs::create_dir_all(&other).unwrap();
    let wanted = |folder: &Path| Wanted { folder: folder.to_owned(), is_thorough: false };
    let survey = Survey::again(&[wanted(&project)]);
    let make = "git init -q x; mkdir -p x/.git/hooks; echo theirs >x/.git/hooks/pre-commit; printf '%s' \"$TRAP\" >>x/.git/config";
    sh(&project, &canary, make);
    sh(&other, &canary, make);
    let new = NewRepositories::new(Some(&project), None);
    // One that was there before, and that the survey did not come to.
    new.begin_at(&project, &survey, SystemTime::now() + std::time::Duration::from_secs(60));
    // One in a folder that only another agent may write.
    new.begin(&project, &Survey::again(&[wanted(&project), wanted(&other)]));
    new.disarm_named();
    drop(new);
    for tree in [project, other] {
        assert!(fs::read_to_string(tree.join("x/.git/config")).unwrap().contains("fsmonitor"), "{tree:?}");
        assert!(tree.join("x/.git/hooks/pre-commit").exists(), "{tree:?}");
    }
}
