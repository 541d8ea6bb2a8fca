#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::super::git::repository_of;
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
    let new = NewRepositories::new(Some(project), repository_of(project).as_ref(), project.parent().unwrap());
    new.begin(project, &[project.to_owned()]);
    new
}

/// What a user does in each folder, but for those in which git keeps its own.
const USERS: &str = "find . -type d \\( -name objects -o -name refs -o -name hooks -o -name logs -o -name info \\) -prune -o -type d -print | \
                     while read -r folder; do (cd \"$folder\"; git status || :; git diff || :) >/dev/null 2>&1 </dev/null; done; true";
/// A repository that is the project's.
const PROJECT: &str = "git init -q .; echo a >a; git add a; git commit -qm a;";

/// `theirs` and then `command` run in a project. Afterwards what users do must run nothing that `command` wrote; `look` sees
/// the project.
#[track_caller]
fn check(theirs: &str, command: &str, look: impl Fn(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (project, canary) = (root.join("project"), root.join("canary"));
    fs::create_dir(&project).unwrap();
    sh(&project, &canary, theirs);
    let new = begun(&project);
    sh(&project, &canary, command);
    sh(&project, &canary, USERS);
    let is_needed = fs::remove_file(&canary).is_ok();
    assert!(is_needed, "the command left nothing that git obeys");
    new.command_begins();
    new.command_ended(true);
    sh(&project, &canary, USERS);
    assert!(!canary.exists());
    look(&project);
}

const INIT: &str = "git init -q x; echo b >x/b; echo '* filter=f' >x/.gitattributes; (cd x; git add .; git commit -qm b); \
                    git add x; echo c >x/b; touch -d '1 hour ago' x/b; printf '%s' \"$TRAP\" >>x/.git/config;";

#[test]
fn settings_of_a_new_repository_run_nothing() {
    check(PROJECT, INIT, |project| {
        let config = fs::read_to_string(project.join("x/.git/config")).unwrap();
        assert!(config.contains("name = \"Kept\"") && config.contains("bare"), "{config}");
        assert!(!config.contains("canary") && !config.contains("more"), "{config}");
    });
}

#[test]
fn one_in_another_in_the_place_of_the_users_and_one_that_a_file_or_a_link_names() {
    let inner = format!("git init -q y; echo y >y/y; (cd y; git add .; git commit -qm y; {INIT}); git add y");
    check(PROJECT, &inner, |_| {});
    let theirs =
        "git init -q x; echo b >x/b; (cd x; git add .; git commit -qm b); git add x; git commit -qm x";
    check(&format!("{PROJECT} {theirs}"), &format!("mv x old; {INIT}"), |project| {
        assert!(project.join("old/.git/hooks").exists());
    });
    check(PROJECT, &format!("{INIT} mv x/.git elsewhere; echo 'gitdir: ../elsewhere' >x/.git"), |_| {});
    check(PROJECT, &format!("{INIT} mv x/.git elsewhere; ln -s ../elsewhere x/.git"), |_| {});
    let common = "cp -r x/.git common; rm -r x/.git/config x/.git/hooks; echo ../../common >x/.git/commondir";
    check(PROJECT, &format!("{INIT} {common}"), |project| {
        assert!(project.join("common/config").exists());
    });
    check(PROJECT, &format!("{INIT} git update-index --split-index"), |_| {});
}

#[test]
fn hooks_of_a_new_repository_are_removed() {
    let hook = "git init -q x; echo b >x/b; (cd x; git add .; git commit -qm b); git add x; mkdir -p x/.git/hooks; \
                printf '#!/bin/sh\\necho x >>\"$CANARY\"' >x/.git/hooks/post-index-change; chmod +x x/.git/hooks/post-index-change; \
                touch -d '1 hour ago' x/b";
    check(PROJECT, hook, |project| assert!(!project.join("x/.git/hooks").exists()));
    // Whatever the modes are.
    let locked = format!("{hook}; chmod 500 x/.git; chmod 500 x/.git/hooks");
    check(PROJECT, &locked, |project| {
        fs::set_permissions(project.join("x/.git"), fs::Permissions::from_mode(0o700)).unwrap();
    });
}

/// What a `.git` that is no repository holds when a user makes it one. `theirs` was there before `command` ran.
#[track_caller]
fn check_init(theirs: &str, command: &str) {
    const USERS: &str = "git init -q .; git add -A; git commit -qm first || :";
    for settles in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (project, canary) = (root.join("project"), root.join("canary"));
        fs::create_dir(&project).unwrap();
        sh(&project, &canary, theirs);
        let new = begun(&project);
        new.command_begins();
        sh(&project, &canary, command);
        if settles {
            new.command_ended(true);
        }
        sh(&project, &canary, USERS);
        assert_eq!(canary.exists(), !settles, "{command}");
    }
}

#[test]
fn what_a_later_git_init_would_obey_is_removed() {
    let hook = "mkdir -p .git/hooks; echo 'echo x >>\"$CANARY\"' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit";
    check_init("echo a >a", hook);
    check_init("echo a >a", "mkdir .git; printf '%s' \"$TRAP\" >.git/config");
    let moved =
        "mkdir hooks; echo 'echo x >>\"$CANARY\"' >hooks/pre-commit; chmod +x hooks/pre-commit; sleep 2.1";
    check_init(moved, "mkdir .git; mv hooks .git/");
    let linked = hook.replace(".git/", "x/");
    check_init("echo a >a", &format!("{linked}; ln -s x .git"));
    check_init("mkdir -p x/hooks .git", &format!("rmdir .git; {linked}; ln -s x .git"));
}

#[test]
fn an_empty_dot_git_is_none_of_the_users() {
    let works = "git config remote.origin.url | grep -q /r.git";
    check_honest("mkdir .git", "git init -q; git remote add origin /r.git", works);
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
    new.command_begins();
    sh(&project, &canary, "echo a >a; git add a; (cd sub; echo m >m; git add m || true)");
    new.command_ended(true);
    drop(new);
    assert_eq!(fs::read(&config).unwrap(), before);
    assert!(project.join(".git/modules/sub/hooks").exists());
}

#[test]
fn a_repository_of_the_project_itself_is_new_where_there_was_none() {
    let command =
        "git init -q .; echo b >b; git add b; printf '%s' \"$TRAP\" >>.git/config; touch -d '1 hour ago' b";
    check("", command, |project| assert!(project.join(".git/objects").exists()));
}

#[test]
fn a_repository_that_no_index_names_is_disarmed_at_the_end_of_the_run() {
    let unnamed = INIT.replace("git add x;", "");
    check(PROJECT, &unnamed, |_| {});
    check("", &unnamed, |_| {});
}

#[test]
fn a_link_out_of_the_project_to_a_new_repository_is_removed() {
    let file = format!("{INIT} mv x/.git ../store; echo 'gitdir: ../../store' >x/.git");
    check(PROJECT, &file, |project| assert!(!project.join("x/.git").exists()));
    let link = format!("{INIT} mv x/.git ../store; ln -s ../../store x/.git");
    check(PROJECT, &link, |project| assert!(project.join("../store/config").exists()));
}

/// A bare repository with a work tree that has git run something.
const BARE: &str = "mkdir b; cd b; git init -q --bare .; printf '\n[core]\n\tbare = false\n\tworktree = .\n' >>config; \
                    printf '%s' \"$TRAP\" >>config; echo b >c; git --git-dir=. add c; touch -d '1 hour ago' c; cd ..;";

#[test]
fn a_bare_one_and_one_that_is_the_project_itself() {
    check("", BARE, |project| {
        let config = fs::read_to_string(project.join("b/config")).unwrap();
        assert!(config.contains("worktree") && !config.contains("fsmonitor"), "{config}");
    });
    check(PROJECT, BARE, |_| {});
    check("", &format!("{BARE} mv b/* ."), |project| assert!(project.join("objects").exists()));
    // In folders that tools fill, in others like it, and where only a link or a file leads there.
    check(
        PROJECT,
        &format!("{BARE} mkdir -p target/debug node_modules; cp -r b target/debug; mv b node_modules/b"),
        |_| {},
    );
    check(PROJECT, &format!("{BARE} git init -q --bare o; mv b o/b; cp -r o/b .git/b"), |_| {});
    check(PROJECT, &format!("{BARE} mkdir n t; mv b n/b; ln -s ../n/b t/.git; cd n; ln -s b l"), |_| {});
    check(PROJECT, &format!("{BARE} mkdir n; mv b n/; chmod 311 n n/b"), |project| {
        assert_eq!(fs::metadata(project.join("n")).unwrap().permissions().mode() & 0o777, 0o311);
    });
}

#[test]
fn one_whose_settings_lie_elsewhere() {
    let common = "mkdir w; cp b/HEAD w/HEAD; cp b/index w/index; cp b/c w/c; echo ../b >w/commondir;";
    check("", &format!("{BARE} {common} mv b/HEAD b/none; rm b/c"), |project| {
        // What it is shared with is no repository, and so not touched.
        assert!(!project.join("w/commondir").exists());
        assert!(fs::read_to_string(project.join("b/config")).unwrap().contains("fsmonitor"));
    });
    check("", &format!("{BARE} {common}"), |project| assert!(project.join("w/commondir").exists()));
}

/// Two commands, of which the first belongs to an earlier run.
#[track_caller]
fn check_twice(first: &str, second: &str, look: impl Fn(&Path)) {
    let begun_anew = format!("{second} true");
    // By the clock of the kernel, what the first run made is older than the second.
    check(&format!("{first} sleep 2.1"), &begun_anew, look);
}

#[test]
fn one_that_two_runs_make_of_which_the_first_makes_none() {
    let hidden = "rm -rf keep; mkdir keep; mv b/refs keep/refs;";
    check_twice(&format!("{BARE} {hidden}"), "mkdir b/refs b/refs/heads;", |project| {
        // Nothing of what was there is lost.
        assert!(fs::read_to_string(project.join("b/config")).unwrap().contains("fsmonitor"));
        assert!(!project.join("b/refs").exists() && project.join("b/refs.disarmed-0/heads").exists());
    });
    check_twice(&format!("{BARE} mv b/HEAD keep;"), "mv keep b/HEAD;", |project| {
        assert!(project.join("b/HEAD.disarmed-0").exists());
    });
}

#[test]
fn a_folder_of_hooks_that_is_the_users_stays_when_a_command_makes_a_repository_around_it() {
    let theirs = "mkdir hooks; printf '#!/bin/sh\\necho x >>\"$CANARY\"' >hooks/post-index-change; chmod +x hooks/*; sleep 2.1";
    let command = "git init -q --bare o; rm -r o/hooks; mv o/* .; printf '[core]\\n\\tworktree = .\\n\\tbare = false\\n' >>config; echo a >a; \
                   git --git-dir=. add a; touch -d '1 hour ago' a";
    check(theirs, command, |project| {
        assert!(project.join("hooks/post-index-change").exists());
        assert!(!project.join("refs").exists());
    });
}

/// `command` is honest, and what it made works as `works` shows, after it and after the run.
#[track_caller]
fn check_honest(theirs: &str, command: &str, works: &str) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (project, canary) = (root.join("project"), root.join("canary"));
    fs::create_dir(&project).unwrap();
    sh(&project, &canary, theirs);
    let new = begun(&project);
    for script in [command, works] {
        new.command_begins();
        sh(&project, &canary, script);
        new.command_ended(true);
    }
    drop(new);
    sh(&project, &canary, works);
}

#[test]
fn honest_repositories_go_on_working() {
    let remote = "git init -q --bare r.git; git clone -q r.git c 2>/dev/null; cd c; echo a >a; git add a; git commit -qm a; git push -q origin HEAD;";
    check_honest(
        "",
        "git init -q .; echo a >a; git add a; git commit -qm a",
        "git status; git commit -q --allow-empty -m b; git log -1",
    );
    check_honest(
        PROJECT,
        "mkdir n; cd n; git init -q .; mkdir src; echo >src/main.rs; git add .; git commit -qm a",
        "cd n; git status; git log -1",
    );
    check_honest(
        PROJECT,
        remote,
        "cd c; git commit -q --allow-empty -m b; git push -q origin HEAD; git fetch -q; git status -sb | grep -q origin/; git -C ../r.git log -1",
    );
    check_honest(
        "",
        &format!(
            "{remote} cd ..; git init -q p; cd p; git submodule --quiet add ../r.git s; git commit -qm s"
        ),
        "cd p; git submodule update --init; git submodule status | grep -q ' s '; git -C s log -1; git -C s fetch -q; git status",
    );
    check_honest(
        PROJECT,
        "git worktree add -q w",
        "git worktree list | grep -q /w; cd w; git status; git commit -q --allow-empty -m w",
    );
    check_honest(
        "",
        "git init -q f; cd f; git commit -q --allow-empty -m a; git worktree add -q ../w",
        "cd w; git status; git log -1; git -C ../f worktree list | grep -q /w",
    );
    // The hooks of a fixture run in the command that makes it.
    let hooks = "git init -q f; cd f; printf '#!/bin/sh\\ntouch ran' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; git commit -q --allow-empty -m a; test -e ran";
    check_honest(PROJECT, hooks, "cd f; git status; git log -1");
}

#[test]
fn what_a_killed_run_left_is_looked_at_and_what_the_user_made_since_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (project, canary) = (root.join("project"), root.join("canary"));
    fs::create_dir(&project).unwrap();
    sh(&project, &canary, &format!("{BARE} mv b theirs; rm -r theirs/hooks"));
    let new = begun(&project);
    new.command_begins();
    sh(
        &project,
        &canary,
        &format!("{BARE} mkdir theirs/hooks; echo x >theirs/hooks/pre-commit; echo x >theirs/commondir"),
    );
    // Killed: nothing beats any more, and nothing is looked at.
    *new.beat.lock().unwrap() = None;
    std::mem::forget(new);
    // The time of its last beat is long ago, and what was made after it is the user's.
    let record = File::options().write(true).open(root.join(RECORD)).unwrap();
    let then = SystemTime::now() - Duration::from_secs(u64::try_from(LATE).unwrap());
    record.set_times(FileTimes::new().set_modified(then)).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    sh(&project, &canary, &format!("echo x >theirs/config.worktree; mkdir since; cd since; {BARE}"));
    settle_after(&root);
    let is_armed =
        |tree: &str| fs::read_to_string(project.join(tree).join("config")).unwrap().contains("fsmonitor");
    assert!(is_armed("theirs") && is_armed("since/b") && !is_armed("b"));
    let is_there = |name: &str| project.join("theirs").join(name).exists();
    assert!(!is_there("hooks") && !is_there("commondir") && is_there("config.worktree"));
}

#[test]
fn the_users_files_stay_however_many_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (project, other, canary) = (root.join("project"), root.join("other"), root.join("canary"));
    fs::create_dir_all(&project).unwrap();
    fs::create_dir_all(&other).unwrap();
    let make = "git init -q x; mkdir -p x/.git/hooks; echo theirs >x/.git/hooks/pre-commit; printf '%s' \"$TRAP\" >>x/.git/config";
    sh(&project, &canary, make);
    sh(&other, &canary, make);
    let new = NewRepositories::new(Some(&project), None, &root);
    // One that was there before, and that no command reached.
    new.begin_at(&project, std::slice::from_ref(&project), SystemTime::now() + Duration::from_secs(60), 0);
    // One in a folder that only another agent may write.
    new.begin(&project, &[project.clone(), other.clone()]);
    new.command_begins();
    new.command_ended(true);
    drop(new);
    for tree in [project, other] {
        assert!(fs::read_to_string(tree.join("x/.git/config")).unwrap().contains("fsmonitor"), "{tree:?}");
        assert!(tree.join("x/.git/hooks/pre-commit").exists(), "{tree:?}");
    }
}
