//! In the sandbox: what git obeys, what is denied under another name, what rawko keeps.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::json;

use crate::answers::{bash, developer, report};
use crate::sandbox::{enforced, is_possible, tries};

#[test]
fn what_git_would_obey_does_not_stay() {
    if !is_possible() {
        return;
    }
    for command in [
        "echo ../evil > .git/commondir; echo x > .git/config.worktree; mkdir .git/hooks; echo x > .git/hooks/post-checkout; \
         mkdir -p .git/info; echo '* filter=x' > .git/info/attributes; echo here",
        "rm -rf .git/info; mkdir info; echo '* filter=x' > info/attributes; ln -s ../info .git/info; ln -s ../info .git/hooks; \
         echo here",
    ] {
        let trial = |server| {
            let trial = enforced(server);
            let _ = std::fs::remove_dir_all(trial.project().join(".git/hooks"));
            trial
        };
        let (ended, output) = tries(trial, command);
        assert!(output.contains("here"), "{output}");
        for absent in ["commondir", "config.worktree", "hooks", "info/attributes"] {
            let path = ended.trial.project().join(".git").join(absent);
            assert!(path.symlink_metadata().is_err(), "{absent} after {command}: {output}");
        }
        // What the link led to is the command's own work.
        assert_eq!(ended.trial.project().join("info/attributes").exists(), command.starts_with("rm"));
    }
}

#[test]
fn git_obeys_no_folder_that_looks_like_a_repository() {
    if !is_possible() {
        return;
    }
    let command = "mkdir -p bare/refs bare/objects; echo 'ref: refs/heads/main' > bare/HEAD; \
                   printf '[core]\\nrepositoryformatversion = 0\\nfsmonitor = \"echo OBEYED >&2; false\"\\n' > bare/config; \
                   git init -q inner; git -C inner config core.fsmonitor 'echo OBEYED >&2; false'; touch inner/a; \
                   git -C inner status; cd bare; git status; echo here";
    let (_, output) = tries(enforced, command);
    assert!(output.contains("here") && output.contains("safe.bareRepository"), "{output}");
    assert!(!output.contains("OBEYED"), "{output}");
}

#[test]
fn what_rawko_keeps_of_sessions_is_not_there() {
    if !is_possible() {
        return;
    }
    let (ended, output) =
        tries(enforced, "find .rawko -type f | wc -l; ls -A .rawko/sessions; touch .rawko/sessions/x");
    assert!(output.starts_with("0\n"), "{output}");
    assert_ne!(std::fs::read_dir(ended.trial.project().join(".rawko/sessions")).unwrap().count(), 0);
}

#[test]
fn what_is_denied_is_hidden_by_any_name() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        let trial = enforced(server).file(".env", "KEY=CANARY").file("keys/a.pem", "CANARY");
        let project = trial.project();
        std::fs::hard_link(project.join(".env"), project.join("innocent")).unwrap();
        std::fs::hard_link(project.join("keys/a.pem"), project.join("keys/b.txt")).unwrap();
        std::fs::write(project.join(OsStr::from_bytes(b"bad\xff.pem")), "CANARY").unwrap();
        trial.user_config("/permissions/deny", json!([".env", "**/*.pem"]))
    };
    let (_, output) = tries(trial, "cat .env innocent keys/* *.pem; echo here");
    assert!(output.contains("here"), "{output}");
    // Without any pattern, too.
    let trial = |server| {
        let trial = enforced(server).file(".env", "KEY=CANARY");
        std::fs::hard_link(trial.project().join(".env"), trial.project().join("innocent")).unwrap();
        trial.user_config("/permissions/deny", json!([".env"]))
    };
    let (_, output) = tries(trial, "cat .env innocent; echo here");
    assert!(output.contains("here"), "{output}");
}

#[test]
fn what_was_just_made_is_hidden_from_the_next_command() {
    if !is_possible() {
        return;
    }
    let server = developer([
        bash("mkdir deep"),
        bash("printf 'CAN%s' ARY > deep/new.pem"),
        bash("cat deep/new.pem; echo here"),
        report("tried"),
    ]);
    let ended = enforced(server).user_config("/permissions/deny", json!(["**/*.pem"])).run("Try it.");
    ended.exits(0);
    let (output, _) = ended.results("Bash").remove(2);
    assert!(output.contains("here") && !output.contains("CANARY"), "{output}");
    assert!(ended.trial.project().join("deep/new.pem").exists());
}

#[test]
fn keys_in_a_home_that_is_granted_are_hidden() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        let trial = enforced(server);
        let home = trial.outside().join("home");
        std::fs::create_dir(home.join(".ssh")).unwrap();
        for (name, content) in [(".ssh/id_ed25519", "CANARY"), (".netrc", "CANARY"), ("kept", "KEPT")] {
            std::fs::write(home.join(name), content).unwrap();
        }
        let home = home.display().to_string();
        trial.user_config("/permissions/read", json!([".", home]))
    };
    let (_, output) = tries(trial, "cat ~/.ssh/* ~/.netrc ~/kept");
    assert!(output.contains("KEPT"), "{output}");
}
