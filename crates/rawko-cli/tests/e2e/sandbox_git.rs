//! In the sandbox, git commits everything but what is denied, and loses nothing of that.
#![cfg(target_os = "linux")]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::json;
use testkit::{ModelServer, git};

use crate::answers::{bash, developer, report};
use crate::sandbox::{enforced, is_possible, tries};
use crate::trial::{Ended, Trial};

const DENIED: [&str; 4] = [".env", "secrets", "**/*.pem", "linked"];

/// Who commits, and where: at a new beginning of the branch `side`, `.env` and `code` are others.
const IDENTITY: &str =
    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; ";

/// A project in which git tracks what is denied, just committed.
fn tracked(server: ModelServer) -> Trial {
    let trial = enforced(server)
        .user_config("/permissions/deny", json!(DENIED))
        .file(".env", "KEY=CANARY\n")
        .file("secrets/deep/a", "CANARY\n")
        .file("secrets/run", "#!CANARY\n")
        .file("deep/server.pem", "CANARY\n")
        .file("deep/empty.pem", "")
        .file("tool.pem", "#!CANARY\n")
        .file("code", "one\n");
    let project = trial.project();
    for name in ["secrets/run", "tool.pem"] {
        std::fs::set_permissions(project.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    symlink("deep/a", project.join("secrets/link")).unwrap();
    symlink("secrets/run", project.join("linked")).unwrap();
    trial.git(&["add", "-A"]);
    trial.git(&["commit", "-qm", "tracked"]);
    trial
}

/// What the branch holds of what is denied.
fn denied_of(trial: &Trial) -> String {
    trial.git(&["ls-tree", "-r", "HEAD", "--", ".env", "secrets", "deep", "tool.pem", "linked"])
}

/// Runs the commands; what each printed. Nothing of what is denied has changed, in the history or in the tree.
#[track_caller]
fn check(trial: impl FnOnce(ModelServer) -> Trial, commands: &[&str]) -> (Ended, Vec<String>) {
    let answers: Vec<_> = commands.iter().map(|command| bash(&format!("{IDENTITY}{command}"))).collect();
    let trial = trial(developer(answers.into_iter().chain([report("tried")])));
    let before = denied_of(&trial);
    let read = |path: &str| std::fs::read(trial.project().join(path)).unwrap();
    let files = [".env", "secrets/deep/a", "secrets/run", "deep/server.pem", "tool.pem"];
    let contents = files.map(read);
    let ended = trial.run("Try it.");
    ended.exits(0);
    let outputs: Vec<String> = ended.results("Bash").into_iter().map(|(output, _)| output).collect();
    let all = outputs.join("\n----\n");
    assert!(!all.contains("CANARY") && !all.contains('\0'), "{all}");
    assert_eq!(denied_of(&ended.trial), before, "{all}");
    let read = |path: &str| std::fs::read(ended.trial.project().join(path)).unwrap();
    assert_eq!(files.map(read), contents, "{all}");
    (ended, outputs)
}

/// What a command printed, without what rawko says of its end.
fn printed(output: &str) -> &str {
    output.find("[exit code").map_or(output, |end| &output[..end])
}

/// Everything by which an agent commits.
const COMMITS: [&str; 4] = [
    "git status --porcelain; git diff --stat; echo clean",
    "echo two > code; echo new > new; git add -A && git commit -qm all && git show --format= --name-only HEAD && \
     echo three >> code && git commit -qam more && git show --format= --name-only HEAD && git status --porcelain && echo clean",
    "echo four >> code; touch other; git stash -u && git status --porcelain && tail -1 code && git stash pop -q && \
     git status --porcelain && git reset -q --hard && git status --porcelain && tail -1 code",
    "cat .env secrets/run deep/server.pem tool.pem; cat linked secrets/deep/a; git diff HEAD; git add .env secrets && git diff --cached --stat; echo here",
];

#[track_caller]
fn commits(trial: impl FnOnce(ModelServer) -> Trial) -> Ended {
    let (ended, outputs) = check(trial, &COMMITS);
    let outputs: Vec<&str> = outputs.iter().map(|output| printed(output)).collect();
    assert_eq!(outputs[0], "clean\n");
    assert_eq!(outputs[1], "code\nnew\ncode\nclean\n");
    assert!(outputs[2].ends_with("\nthree\n M code\n?? other\n?? other\nthree\n"), "{}", outputs[2]);
    assert_eq!(outputs[3].matches("Permission denied").count(), 6, "{}", outputs[3]);
    assert!(outputs[3].ends_with("here\n") && !outputs[3].contains("diff"), "{}", outputs[3]);
    ended
}

#[test]
fn what_is_denied_and_tracked_looks_unchanged() {
    if is_possible() {
        let ended = commits(tracked);
        assert_eq!(ended.trial.git(&["status", "--porcelain"]), "?? other\n");
    }
}

/// Makes a copy of the project as `make` says, and has it in the project's place.
fn replaced(trial: &Trial, make: &dyn Fn(&Path, &Path)) {
    let (project, original) = (trial.project(), trial.outside().join("original"));
    std::fs::rename(&project, &original).unwrap();
    make(&original, &project);
}

#[test]
fn so_it_does_in_a_fresh_clone() {
    if is_possible() {
        commits(|server| {
            let trial = tracked(server);
            replaced(&trial, &|original, project| {
                let (original, project) = (original.to_str().unwrap(), project.to_str().unwrap());
                git(Path::new("/"), &["clone", "-q", original, project]);
            });
            trial
        });
    }
}

#[test]
fn so_it_does_in_a_linked_work_tree() {
    if is_possible() {
        commits(|server| {
            let trial = tracked(server);
            replaced(&trial, &|original, project| {
                git(original, &["worktree", "add", "-q", project.to_str().unwrap()]);
            });
            trial
        });
    }
}

#[test]
fn a_linked_work_tree_leaves_the_others_alone() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        let trial = enforced(server).file("a", "a");
        trial.git(&["add", "-A"]);
        trial.git(&["commit", "-qm", "all"]);
        replaced(&trial, &|original, project| {
            git(original, &["worktree", "add", "-q", project.to_str().unwrap()]);
            git(original, &["worktree", "add", "-q", "../beside"]);
        });
        trial
    };
    let command = "cd ../original/.git; for f in HEAD index worktrees/beside/HEAD worktrees/beside/index \
                   worktrees/beside/gitdir; do (echo EVIL >> $f) 2>/dev/null && echo \"WROTE $f\"; done; \
                   mv worktrees moved && echo MOVED; mv worktrees/beside b && echo MOVED; cd ../../project; echo b > b; \
                   git add -A && git commit -qm 'by the agent' && git rebase -q HEAD~1 && git stash list && echo here";
    let (ended, output) = tries(trial, &format!("{IDENTITY}{command}"));
    assert!(output.contains("here") && !output.contains("WROTE") && !output.contains("MOVED"), "{output}");
    assert!(ended.trial.git(&["log", "--format=%s", "-1"]).contains("by the agent"));
    git(&ended.trial.outside().join("original"), &["status"]);
}

#[test]
fn a_change_of_the_users_is_not_committed() {
    if !is_possible() {
        return;
    }
    let changed = |server| {
        let trial = tracked(server)
            .file(".env", "KEY=CANARY2, longer\n")
            .file("secrets/deep/a", "CANARX\n")
            .file("secrets/untracked", "CANARY");
        std::fs::remove_file(trial.project().join("secrets/link")).unwrap();
        trial
    };
    let ended = commits(changed);
    let status = ended.trial.git(&["status", "--porcelain"]);
    assert_eq!(status, " M .env\n M secrets/deep/a\n D secrets/link\n?? other\n?? secrets/untracked\n");
}

#[test]
fn what_is_denied_and_not_tracked_is_passed_over() {
    if !is_possible() {
        return;
    }
    let untracked = |server| {
        let trial = tracked(server).file("deep/a [b]*.pem", "CANARY").file("new.pem", "CANARY");
        trial.file(".git/info/exclude", "ignored")
    };
    let command = "touch ignored made; git status --porcelain; git add -A && git commit -qm all && \
                   git show --format= --name-only HEAD; git status --porcelain; echo x > .git/info/exclude";
    let (ended, outputs) = check_but_for_new(untracked, command);
    assert!(outputs.starts_with("?? made\nmade\n") && outputs.contains("Read-only"), "{outputs}");
    let project = ended.trial.project();
    assert_eq!(std::fs::read_to_string(project.join(".git/info/exclude")).unwrap(), "ignored");
    // A list that is not there is made, and the user's git sees all.
    let without = |server| {
        let trial = untracked(server);
        std::fs::remove_dir_all(trial.project().join(".git/info")).unwrap();
        trial
    };
    let (ended, outputs) = check_but_for_new(without, command);
    assert!(outputs.starts_with("?? ignored\n?? made\nignored\nmade\n"), "{outputs}");
    let status = ended.trial.git(&["status", "--porcelain"]);
    assert_eq!(status, "?? \"deep/a [b]*.pem\"\n?? new.pem\n");
}

#[track_caller]
fn check_but_for_new(trial: impl FnOnce(ModelServer) -> Trial, command: &str) -> (Ended, String) {
    let (ended, mut outputs) = check(trial, &[command]);
    (ended, outputs.remove(0))
}

#[test]
fn another_branch_destroys_nothing() {
    if !is_possible() {
        return;
    }
    let branched = |server| {
        let trial = tracked(server);
        trial.git(&["checkout", "-qb", "side"]);
        let trial = trial.file(".env", "KEY=OTHER\n").file("secrets/run", "OTHER\n").file("code", "side\n");
        trial.git(&["commit", "-qam", "side"]);
        trial.git(&["checkout", "-q", "-"]);
        trial
    };
    let commands = [
        "git checkout side; echo; git commit -qam wrong; git diff side --stat",
        "git add -A; git commit -qm wrong; git diff side --stat; echo here",
        "git checkout -qf -; git status --porcelain; git branch --show-current; cat code",
    ];
    let (ended, outputs) = check(branched, &commands);
    assert!(outputs[0].contains("unable to unlink old '.env'"), "{}", outputs[0]);
    assert_eq!(ended.trial.git(&["show", "side:.env"]), "KEY=OTHER\n");
    assert!(printed(&outputs[2]).ends_with("one\n"), "{}", outputs[2]);
    assert_eq!(ended.trial.git(&["status", "--porcelain"]), "");
}

#[test]
fn what_a_program_would_obey_is_held_and_leaves_no_trace() {
    if !is_possible() {
        return;
    }
    let command = "mkdir -p .claude/agents; echo x > .claude/settings.json; mv .claude gone; ls -A .claude; echo x > file; \
                   git clean -fdq && git status --porcelain; echo here; git config user.name x";
    let (ended, outputs) = check(tracked, &[command]);
    assert!(
        outputs[0].contains("Read-only file system") && outputs[0].contains("\nhere\n"),
        "{}",
        outputs[0]
    );
    assert!(!outputs[0].contains("failed to remove"), "{}", outputs[0]);
    // What git says there misleads.
    assert!(
        outputs[0].contains("busy") && outputs[0].contains("[git's configuration is read-only"),
        "{}",
        outputs[0]
    );
    let project = ended.trial.project();
    assert!(!project.join(".claude").exists() && !project.join("gone").exists(), "{}", outputs[0]);
}

#[test]
fn the_doctor_warns_of_what_git_tracks() {
    let trial = tracked(developer([]));
    let (_, stdout, stderr) = trial.ask(&["doctor"]);
    assert!(stdout.contains("permissions.deny covers files that git tracks"), "{stdout}{stderr}");
    assert!(stdout.contains(".env"), "{stdout}");
    let (_, stdout, _) = trial.user_config("/permissions/deny", json!(["other"])).ask(&["doctor"]);
    assert!(!stdout.contains("that git tracks"), "{stdout}");
}

#[test]
fn a_project_in_a_folder_of_a_repository() {
    if !is_possible() {
        return;
    }
    let server = developer([
        bash(&format!(
            "{IDENTITY}{}",
            "echo two > code; git add -A && git commit -qm all && git show --format= --name-only HEAD; git status --porcelain"
        )),
        report("tried"),
    ]);
    let trial = Trial::without_git(server)
        .user_config("/permissions/require", json!("enforced"))
        .user_config("/permissions/deny", json!([".env", "secrets"]))
        .file(".env", "KEY=CANARY\n")
        .file("secrets/a", "CANARY")
        .file("code", "one");
    // Without it the repository would be the project.
    std::fs::create_dir(trial.project().join(".rawko")).unwrap();
    let top = trial.outside().to_owned();
    git(&top, &["init", "-q"]);
    git(&top, &["add", "project"]);
    git(&top, &["commit", "-qm", "one"]);
    let ended = trial.run("Try it.");
    ended.exits(0);
    let (output, _) = ended.results("Bash").remove(0);
    assert!(
        output.contains("project/code\n") && !output.contains(".env") && !output.contains("secrets"),
        "{output}"
    );
    let listed = git(&top, &["ls-tree", "-r", "--name-only", "HEAD"]);
    assert!(listed.contains("project/.env\n") && listed.contains("project/secrets/a\n"), "{listed}");
}
