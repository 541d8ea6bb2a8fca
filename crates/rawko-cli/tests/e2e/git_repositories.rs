//! The user's git runs nothing that an agent left, in whatever git takes for a repository.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::json;
use testkit::Answer;

use crate::answers::{bash, call, developer};
use crate::sandbox::is_possible;
use crate::trial::Trial;

/// Every setting by which git starts a program, and what it starts. Only the user has the variable.
const ARMED: &str = include_str!("armed.gitconfig");

/// What the user types, in every folder of a tree, until something was started. Single objects are left out.
const USERS: &str = r#"find . \( -path '*/objects/*' -o -name .rawko \) -prune -o -type d -print | while read -r folder; do (cd "$folder"
    for words in status diff 'log -1 --show-signature' 'add -n .' st; do [ -e "$CANARY" ] || git $words; done
) >/dev/null 2>&1 </dev/null; done; true"#;

/// One thing that an agent does.
#[derive(Clone, Copy)]
enum Does {
    Runs(&'static str),
    /// Writes a file with `Write`; arms the settings if there is no text.
    Writes(&'static str, Option<&'static str>),
}
use Does::{Runs, Writes};

impl Does {
    fn answer(self) -> Answer {
        match self {
            Runs(command) => bash(command),
            Writes(path, text) => {
                call("Write", &json!({"file_path": path, "content": text.unwrap_or(ARMED)}))
            }
        }
    }

    /// The same without rawko.
    fn freely(self, project: &Path) {
        match self {
            Runs(command) => shell(project, command),
            Writes(path, text) => {
                let path = project.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text.unwrap_or(ARMED)).unwrap();
            }
        }
    }
}

fn shell(folder: &Path, script: &str) {
    let mut shell = Command::new("bash");
    shell.args(["-c", script]).current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    let outside = folder.parent().unwrap();
    shell.env("HOME", outside).env("CANARY", outside.join("CANARY")).env("GIT_CONFIG_NOSYSTEM", "1");
    shell.env("GIT_TERMINAL_PROMPT", "0").envs(IDENTITY);
    let done = shell.output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "a"),
    ("GIT_AUTHOR_EMAIL", "a@b.c"),
    ("GIT_COMMITTER_NAME", "a"),
    ("GIT_COMMITTER_EMAIL", "a@b.c"),
];

/// Whether something is started for a user who looks around in a project.
fn is_fired(project: &Path) -> bool {
    shell(project, USERS);
    std::fs::remove_file(project.parent().unwrap().join("CANARY")).is_ok()
}

/// An agent does this in one run after the other. Without rawko it would have the user's git start something; with it, it
/// never does. What `Write` said last.
#[track_caller]
fn check(theirs: &str, runs: &[&[Does]]) -> Vec<(String, bool)> {
    let free = tempfile::tempdir().unwrap();
    let project = free.path().join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("armed"), ARMED).unwrap();
    shell(&project, theirs);
    runs.iter().copied().flatten().for_each(|does| does.freely(&project));
    assert!(is_fired(&project), "this is no attack");
    let mut trial = Trial::without_git(developer([])).file("armed", ARMED);
    shell(&trial.project(), theirs);
    let mut said = Vec::new();
    // Each run has a task of its own: what the arbiter decided about the same one is not asked again.
    for (number, run) in runs.iter().enumerate() {
        let ended = trial
            .served_by(developer(run.iter().map(|does| does.answer())))
            .start(&format!("Do part {number}."))
            .end_unchecked();
        ended.exits(0);
        assert!(!is_fired(&ended.trial.project()), "{}", ended.stdout);
        said = ended.results("Write");
        trial = ended.trial;
    }
    said
}

/// A folder of the project is in `PATH`, like that of a virtual environment. What an agent leaves there as `git` does not read
/// the settings of a new repository outside the sandbox; another git does.
#[test]
fn a_git_that_an_agent_left_is_not_run() {
    if !is_possible() {
        return;
    }
    let trial = Trial::without_git(developer([]));
    let (sprung, bin) = (trial.outside().join("sprung"), trial.project().join("bin"));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let command = format!(
        "mkdir bin; printf '#!/bin/sh\\ntouch {}\\n' > bin/git; chmod +x bin/git; PATH=/usr/bin:/bin; \
         git init -q new; git -C new config core.fsmonitor x",
        sprung.display()
    );
    let ended = trial.served_by(developer([bash(&command)])).env("PATH", path).run("Make a repository.");
    ended.exits(0);
    let config = std::fs::read_to_string(ended.trial.project().join("new/.git/config")).unwrap();
    assert!(config.contains("repositoryformatversion") && !config.contains("fsmonitor"), "{config}");
    assert!(bin.join("git").exists() && !sprung.exists());
}

/// A folder that git takes for a repository, with a work tree.
const BARE: &str = "mkdir b; cd b; git init -q --bare .; cat ../armed > config; echo x > x; \
                    GIT_DIR=. GIT_WORK_TREE=. git -c core.fsmonitor= add x; touch -d '1 hour ago' x; cd ..; true";

#[test]
fn a_bare_repository_that_a_command_makes() {
    if is_possible() {
        check("", &[&[Runs(BARE)]]);
        check("git init -q; git commit -q --allow-empty -m a", &[&[Runs(BARE)]]);
    }
}

const BY_WRITE: [Does; 4] = [
    Writes("b/config", None),
    Writes("b/HEAD", Some("ref: refs/heads/main\n")),
    Writes("b/objects/x", Some("")),
    Writes("b/refs/x", Some("")),
];

#[test]
fn a_repository_that_write_alone_makes() {
    let (said, is_error) = check("", &[&BY_WRITE]).pop().unwrap();
    assert!(is_error && said.contains("git would take `b` for a repository"), "{said}");
    check("", &[&BY_WRITE[..2], &BY_WRITE[2..]]);
    check("mkdir b; cp armed b/config; mkdir b/objects b/refs", &[&BY_WRITE[1..2]]);
    check(
        "",
        &[&[
            Writes("config", None),
            Writes("commondir", Some(".")),
            Writes("objects/x", Some("")),
            Writes("refs/x", Some("")),
            Writes("HEAD", Some("ref: refs/heads/main\n")),
        ]],
    );
}

#[test]
fn the_top_of_a_project_that_is_no_repository() {
    if !is_possible() {
        return;
    }
    check("", &[&[Runs("git init -q .; grep -v worktree armed >> .git/config")]]);
    check("", &[&[Runs(BARE), Runs("mv b/* .")]]);
    // One that is a bare repository itself is not armed either.
    let theirs = "git init -q --bare .; git config core.bare false; git config core.worktree .";
    check(theirs, &[&[Runs("cat armed >> config; true")]]);
    check(
        theirs,
        &[&[
            Writes("config.worktree", None),
            Writes("hooks/post-index-change", Some("#!/bin/sh\necho x >>\"$CANARY\"\n")),
            Runs("rm config; mv armed config; true"),
        ]],
    );
}

#[test]
fn a_repository_of_the_users_inside_the_project() {
    if !is_possible() {
        return;
    }
    let theirs = "git init -q; git init -q n; rm -r n/.git/hooks; cd n; echo a > a; git add a; git commit -qm a; cd ..; \
                  git init -q --bare r.git; touch -d '1 hour ago' n/a";
    check(
        theirs,
        &[&[Runs(
            "cp -r n/.git c; grep -v worktree armed >> c/config; echo ../../c > n/.git/commondir; true",
        )]],
    );
    let hook = "mkdir -p n/.git/hooks; printf '#!/bin/sh\\necho x >>\"$CANARY\"\\n' > n/.git/hooks/post-index-change; \
                chmod +x n/.git/hooks/post-index-change; touch n/a; true";
    check(theirs, &[&[Runs(hook)]]);
    check(
        theirs,
        &[&[Runs(
            "grep -v worktree armed >> n/.git/config; cat armed >> r.git/config; git -C r.git config core.bare false; true",
        )]],
    );
    check(theirs, &[&[Runs("mkdir -p .git/x; cp -r n/.git/* .git/x; cat armed >> .git/x/config; true")]]);
}

/// A `.git` of the user's that is no repository yet is protected like one that is.
#[test]
fn a_dot_git_of_the_users_that_is_no_repository() {
    if !is_possible() {
        return;
    }
    let hook = Runs(
        "git init -q . 2>/dev/null; echo a >a; git add a; touch -d '1 hour ago' a; chmod +x .git/hooks/post-index-change; \
         echo 'echo x >>\"$CANARY\"' >>.git/hooks/post-index-change; chmod +x .git/hooks/post-index-change; true",
    );
    check("mkdir -p .git/hooks", &[&[hook]]);
    check("mkdir -p .git/hooks; printf '#!/bin/sh\n' >.git/hooks/post-index-change", &[&[hook]]);
}

#[test]
fn two_runs_of_which_the_first_leaves_no_repository() {
    if !is_possible() {
        return;
    }
    check("", &[&[Runs(BARE), Runs("mv b/refs kept")], &[Runs("sleep 1.1; mv kept b/refs")]]);
    check("", &[&[Runs(BARE), Runs("mv b/HEAD kept")], &[Writes("b/HEAD", Some("ref: refs/heads/main\n"))]]);
}

#[test]
fn a_run_that_is_killed_while_a_command_runs() {
    if !is_possible() {
        return;
    }
    let command = format!("{BARE}; echo now > ready; sleep 300");
    let running = Trial::without_git(developer([bash(&command)])).file("armed", ARMED).start("Do it.");
    running.wait_for_line("ready");
    let ended = running.end_after(Signal::KILL);
    assert!(is_fired(&ended.trial.project()), "this is no attack");
    let (code, out, err) = ended.trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(!is_fired(&ended.trial.project()), "{out}{err}");
}

/// What tools and tests do with git works in the command that does it, in the next one, and for the user.
#[test]
fn honest_repositories_go_on_working() {
    if !is_possible() {
        return;
    }
    let identity: Vec<String> =
        IDENTITY.iter().map(|(name, value)| format!("export {name}={value}")).collect();
    let make = "set -e; cargo new --quiet --vcs git made 2>/dev/null || git init -q made; \
        git init -q --bare remote.git; git clone -q remote.git clone 2>/dev/null; cd clone; echo a > a; git add a; git commit -qm a; \
        git push -q origin HEAD; git worktree add -q ../tree; cd ..; git init -q fixture; cd fixture; \
        printf '#!/bin/sh\\ntouch ran\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; git commit -q --allow-empty -m a; test -e ran; \
        git -c protocol.file.allow=always submodule --quiet add ../remote.git sub; git commit -qm sub; echo works";
    let go_on = "set -e; git -C made status; cd clone; git commit -q --allow-empty -m b; git push -q origin HEAD; git fetch -q; \
        git --git-dir=../remote.git log -2 >/dev/null; cd ../tree; git status; git commit -q --allow-empty -m c; cd ../fixture; git status; \
        git submodule status | grep -q ' sub '; git -C sub log -1; cd ..; echo works";
    let with_identity = |script: &str| bash(&format!("{}; {script}", identity.join("; ")));
    for trial in [Trial::without_git, Trial::new] {
        let server =
            developer([with_identity(make), with_identity(go_on), bash("rm -rf fixture tree && echo works")]);
        let ended = trial(server).run("Do it.");
        ended.exits(0);
        for (output, _) in ended.results("Bash") {
            assert!(output.contains("works"), "{output}");
        }
        shell(
            &ended.trial.project(),
            &go_on
                .replace("cd ../tree", "true")
                .replace("git commit -q --allow-empty -m c; cd ../fixture; git status;", "cd ../made;")
                .replace("git submodule status | grep -q ' sub '; git -C sub log -1; ", ""),
        );
    }
    // At the top of a project that was none.
    let ended = Trial::without_git(developer([with_identity(
        "git init -q && git add -A && git commit -qm a && echo works",
    )]))
    .file("a", "a")
    .run("Do it.");
    assert!(ended.results("Bash")[0].0.contains("works"), "{}", ended.stdout);
    shell(
        &ended.trial.project(),
        "git status && git log -1 && git config user.name x && git commit -q --allow-empty -m b",
    );
}

/// While the copy of a project is verified, no other user looks into it, and it goes whatever its modes are.
#[test]
fn temporary_folders_are_their_users_alone_and_go() {
    let verify = "mkdir -p node_modules/a && touch node_modules/a/f && chmod 555 node_modules/a node_modules && case $PWD in */rawko-verify-*) \
                  echo now > ready; for i in $(seq 300); do test -e go && break; sleep .1; done;; *) chmod -R u+w node_modules; rm -r node_modules;; esac";
    let trial = Trial::new(developer([bash("echo made > made")]))
        .file("secret", "SECRET")
        .user_config("/verify", json!([verify]));
    trial.git(&["add", "-A"]);
    trial.git(&["commit", "-qm", "all"]);
    let outside = trial.outside().to_owned();
    let here = |prefix: &str| {
        let found = std::fs::read_dir(&outside).unwrap().flatten().map(|entry| entry.path());
        found
            .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(prefix))
            .collect::<Vec<_>>()
    };
    let running = trial.start("Do it.");
    let ready = || {
        here("rawko-verify-")
            .into_iter()
            .map(|copy| copy.join("tree/project"))
            .find(|copy| copy.join("ready").exists())
    };
    running.wait_until("a copy", || ready().is_some());
    let copy = ready().unwrap();
    assert!(copy.join("secret").exists());
    for folder in here("rawko-") {
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&folder).unwrap().permissions());
        assert_eq!(mode & 0o7777, 0o700, "{}", folder.display());
    }
    // An ordinary user cannot become another one; the modes are looked at above.
    if rustix::process::geteuid().is_root() {
        let reads = |file: &Path| {
            let mut other = Command::new("setpriv");
            other
                .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "cat"])
                .arg(file)
                .output()
                .unwrap()
                .status
                .success()
        };
        std::fs::write(outside.join("open"), "").unwrap();
        assert!(reads(&outside.join("open")), "the other user reads nothing at all");
        assert!(!reads(&copy.join("secret")));
    }
    std::fs::write(copy.join("go"), "").unwrap();
    let ended = running.end();
    ended.exits(0);
    assert!(here("rawko-").is_empty(), "{:?}", here("rawko-"));
}
