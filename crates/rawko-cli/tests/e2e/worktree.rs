//! `--worktree`: a run in a work tree of git of its own.

use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Answer, ModelServer};

use crate::answers::{bash, call, complete, developer, report, select};
use crate::trial::Trial;

/// A repository with a commit.
fn committed(server: ModelServer) -> Trial {
    let trial = Trial::new(server).file("a.txt", "a\n");
    trial.git(&["add", "a.txt"]);
    trial.git(&["commit", "--quiet", "-m", "begin"]);
    trial
}

fn write(path: &str) -> Answer {
    call("Write", &json!({"file_path": path, "content": "text\n"}))
}

fn tree(trial: &Trial, name: &str) -> PathBuf {
    trial.outside().join("project.worktrees").join(name)
}

#[test]
fn the_changes_stay_in_the_tree_and_the_session_in_the_project() {
    let turns = [write("new.txt"), bash("git rev-parse --abbrev-ref HEAD > branch.txt && cat a.txt")];
    let trial = committed(developer(turns)).file("untracked.txt", "u\n");
    let (code, out, err) = trial.ask(&["--worktree=one", "--output", "stream-json", "do it"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let tree = tree(&trial, "one");
    let read = |name: &str| std::fs::read_to_string(tree.join(name)).ok();
    assert_eq!(
        (read("new.txt").as_deref(), read("branch.txt").as_deref()),
        (Some("text\n"), Some("rawko/one\n"))
    );
    assert!(read("untracked.txt").is_none(), "the tree has what is committed");
    assert!(!trial.project().join("new.txt").exists());
    assert!(err.contains("work tree: ") && err.contains("git merge rawko/one"), "{err}");
    let end: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(end["filesModified"], json!(["branch.txt", "new.txt"]));
    assert!(!tree.join(".rawko").exists() && trial.project().join(".rawko/sessions").exists());
    // From the project and from the tree it is the same session, and its files are those of the tree.
    let (code, shown, err) = trial.rawko(&["diff", "last"]);
    assert!(code == Some(0) && shown.contains("new.txt"), "{shown}{err}");
    let listed = trial.asker().current_dir(&tree).args(["sessions", "list"]).output().unwrap();
    assert!(String::from_utf8_lossy(&listed.stdout).contains("do it"), "{listed:?}");
    let (code, _, err) = trial.rawko(&["rewind", "last", "--to", "1"]);
    assert_eq!((code, tree.join("new.txt").exists()), (Some(0), false), "{err}");
    assert!(trial.project().join("untracked.txt").exists());
    let (_, replayed, _) = trial.rawko(&["replay", "last"]);
    assert!(replayed.contains("everything matches the record"), "{replayed}");
}

#[test]
fn the_end_names_the_tree_and_says_where_there_is_nothing_to_take_over() {
    let trial = committed(developer([write("new.txt")]));
    let (code, out, err) = trial.ask(&["--worktree=one", "do it"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("`rawko diff ") && !out.contains("`git diff`"), "{out}");
    assert!(err.contains("commit them:"), "{err}");
    let (_, shown, _) = trial.rawko(&["sessions", "show", "last"]);
    assert!(shown.contains("`rawko diff "), "{shown}");
    let trial = committed(developer([]));
    let (code, out, err) = trial.ask(&["--worktree=two", "look at it"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(err.contains("nothing was changed in the work tree") && err.contains("remove it: git"), "{err}");
    assert!(!err.contains("commit them"), "{err}");
}

#[test]
fn the_next_task_of_its_session_goes_on_in_the_tree() {
    let trial = committed(developer([write("one.txt")]));
    let (code, out, err) = trial.ask(&["--worktree=t", "do it"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let trial = trial.served_by(developer([write("two.txt")]));
    let (code, out, err) = trial.ask(&["-c", "and more"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(tree(&trial, "t").join("two.txt").exists() && !trial.project().join("two.txt").exists());
    // A new run in the same tree, by its name.
    let trial = trial.served_by(developer([write("three.txt")]));
    let (code, out, err) = trial.ask(&["--worktree=t", "another task"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(tree(&trial, "t").join("three.txt").exists());
    // Without the tree its session does not go on somewhere else.
    std::fs::remove_dir_all(tree(&trial, "t")).unwrap();
    let (code, _, err) = trial.ask(&["-c", "and more"]);
    assert_eq!((code, err.contains("which is gone")), (Some(2), true), "{err}");
}

#[test]
fn a_killed_run_is_resumed_in_its_tree() {
    let answers =
        [select("developer"), Answer::Silence, write("late.txt"), report("did it"), complete("done")];
    let running = committed(ModelServer::sequence(answers)).args(&["--worktree=k"]).start("Do it.");
    running.wait_for_event("agent_started");
    running.wait_for_request(2);
    let killed = running.end_after(Signal::KILL);
    let (code, out, err) = killed.trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(tree(&killed.trial, "k").join("late.txt").exists());
    assert!(!killed.trial.project().join("late.txt").exists());
}

#[test]
fn a_busy_folder_does_not_hold_up_a_run_in_a_tree_of_its_own() {
    let mut asked = 0;
    let server = ModelServer::start(move |_: &testkit::Asked| {
        asked += 1;
        match asked {
            1 | 3 => select("developer"),
            2 => Answer::Silence,
            4 => report("did it"),
            _ => complete("all done"),
        }
    });
    let first = committed(server).start("Hold the folder.");
    first.wait_for_event("agent_started");
    first.wait_for_request(2);
    let (code, out, err) = first.trial.ask(&["--worktree", "--output", "stream-json", "come", "second"]);
    assert_eq!((code, err.contains("waiting:")), (Some(0), false), "{out}{err}");
    assert!(!out.contains("beside"), "{out}");
    let _ended = first.end_after(Signal::INT);
}

#[test]
fn the_configuration_of_the_project_counts_in_the_tree() {
    let agent = json!({"name": "poet", "displayName": "Poet", "whenToUse": "always", "systemPrompt": "Write verses.",
        "tools": {"allowed": ["Read"]}});
    let server = ModelServer::sequence([report("did it"), complete("all done")]);
    let trial = committed(server).agent(&agent).file("AGENTS.md", "Not committed.");
    let (code, out, err) = trial.ask(&["--worktree", "--agent", "poet", "do it"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let system = trial.server.asked()[0].system();
    assert!(system.contains("Write verses.") && system.contains("project.worktrees"), "{system}");
    assert!(!system.contains("Not committed."), "{system}");
}

#[test]
fn what_cannot_be_a_tree_is_refused_before_anything_runs() {
    let trial = Trial::new(developer([]));
    let (code, _, err) = trial.ask(&["--worktree", "do it"]);
    assert_eq!((code, err.contains("a git repository with a commit")), (Some(2), true), "{err}");
    let trial = committed(developer([]));
    for (name, part) in [("a/b", "no name for a work tree"), ("taken", "no work tree of this project")] {
        std::fs::create_dir_all(tree(&trial, "taken")).unwrap();
        let (code, _, err) = trial.ask(&[&format!("--worktree={name}"), "do it"]);
        assert_eq!((code, err.contains(part)), (Some(2), true), "{err}");
    }
    let (code, _, err) = trial.ask(&["--worktree", "--dry-run", "do it"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(trial.server.asked().is_empty());
}

#[test]
fn nothing_of_the_repository_runs_for_a_tree() {
    let trial = committed(developer([write("new.txt")])).file(".gitattributes", "* filter=x=y\n");
    let runs = |name: &str| format!("touch {}; cat", trial.outside().join(name).display());
    std::fs::write(
        trial.project().join(".git/more"),
        format!("[filter \"x=y\"]\n\tprocess = {}\n", runs("process")),
    )
    .unwrap();
    trial.git(&["add", ".gitattributes"]);
    trial.git(&["commit", "--quiet", "-m", "attributes"]);
    trial.git(&["config", "filter.x=y.smudge", &runs("smudge")]);
    trial.git(&["config", "filter.x=y.required", "true"]);
    trial.git(&["config", "include.path", "more"]);
    let (code, out, err) = trial.ask(&["--worktree=two", "do it"]);
    assert_eq!(code, Some(0), "{out}{err}");
    for name in ["smudge", "process"] {
        assert!(!trial.outside().join(name).exists(), "{name}");
    }
    assert_eq!(std::fs::read_to_string(tree(&trial, "two").join("a.txt")).unwrap(), "a\n");
}

#[test]
fn nothing_is_fetched_for_a_tree() {
    let trial = committed(developer([]));
    let fetched = trial.outside().join("fetched");
    // The repository names a program that would fetch the file that it lacks.
    for (name, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", &format!("ext::touch {}", fetched.display())),
        ("protocol.ext.allow", "always"),
    ] {
        trial.git(&["config", name, value]);
    }
    let blob = "78981922613b2afb6025042ff6bd878ac1994e85";
    std::fs::remove_file(trial.project().join(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();
    let plain = Command::new("git").current_dir(trial.project()).args(["cat-file", "-p", blob]).output();
    assert!(!plain.unwrap().status.success() && fetched.exists(), "git itself would fetch");
    std::fs::remove_file(&fetched).unwrap();
    let (code, _, err) = trial.ask(&["--worktree=four", "do it"]);
    assert_ne!(code, Some(0), "{err}");
    assert!(!fetched.exists(), "{err}");
    assert!(err.contains("cannot make the work tree"), "{err}");
}

#[test]
fn a_variable_does_not_lead_to_another_repository() {
    let trial = committed(developer([write("new.txt")]));
    let other = committed(developer([]));
    let output = trial
        .asker()
        .env("GIT_DIR", other.project().join(".git"))
        .args(["--worktree=three", "do it"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(trial.project().join(".git/worktrees/three").exists());
    assert!(!other.project().join(".git/worktrees").exists());
}

/// The commands that the end names for a purpose.
#[track_caller]
fn named<'a>(end: &'a str, purpose: &str) -> Vec<&'a str> {
    let commands: Vec<&str> =
        end.lines().filter_map(|line| line.trim_start().strip_prefix(purpose)).map(str::trim).collect();
    assert!(!commands.is_empty(), "{purpose} {end}");
    commands
}

#[test]
fn submodules_are_in_the_tree_and_their_changes_can_be_taken_over() {
    let turns = [
        bash("sed -i s/one/two/ lib/deep/l.txt && git -C lib/deep status --short > status.txt"),
        bash("git status --short; cat absent/x; true"),
    ];
    let trial = committed(developer(turns));
    // A submodule in a submodule, and one that the project has not checked out.
    let allowed = ["-c", "protocol.file.allow=always"];
    let origin = |name: &str| trial.outside().join(name).to_str().unwrap().to_owned();
    for (name, inside) in [("deep", None), ("lib", Some("deep"))] {
        let folder = origin(name);
        trial.git(&["init", "--quiet", &folder]);
        std::fs::write(trial.outside().join(name).join("l.txt"), "one\n").unwrap();
        std::fs::write(trial.outside().join(name).join(".gitattributes"), "* filter=x\n").unwrap();
        if let Some(inside) = inside {
            trial.git(
                &[&allowed[..], &["-C", &folder, "submodule", "--quiet", "add", &origin(inside), inside]]
                    .concat(),
            );
        }
        trial.git(&["-C", &folder, "add", "--all"]);
        trial.git(&["-C", &folder, "commit", "--quiet", "-m", "first"]);
    }
    for (from, name) in [("lib", "lib"), ("deep", "absent")] {
        trial.git(&[&allowed[..], &["submodule", "--quiet", "add", &origin(from), name]].concat());
    }
    trial.git(&[&allowed[..], &["submodule", "--quiet", "update", "--init", "--recursive"]].concat());
    trial.git(&["commit", "--quiet", "--all", "-m", "submodules"]);
    trial.git(&["submodule", "--quiet", "deinit", "absent"]);
    // The run fetches nothing, and runs nothing of a submodule.
    let runs = format!("touch {}; cat", trial.outside().join("smudged").display());
    for submodule in ["lib", "lib/deep"] {
        trial.git(&["-C", submodule, "config", "filter.x.smudge", &runs]);
    }
    std::fs::rename(trial.outside().join("lib"), trial.outside().join("moved")).unwrap();

    let (code, out, err) = trial.ask(&["--worktree=one", "--output", "stream-json", "do it"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(!trial.outside().join("smudged").exists());
    let read =
        |folder: &std::path::Path, name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let tree = tree(&trial, "one");
    assert_eq!(read(&tree, "status.txt"), " M l.txt\n", "{out}");
    let end: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(end["filesModified"], json!(["lib/deep/l.txt", "status.txt"]));
    assert_eq!(read(&tree, "lib/deep/l.txt"), "two\n");
    assert_eq!(read(&trial.project(), "lib/deep/l.txt"), "one\n");
    // What the end says, typed in the project.
    let commits = named(&err, "commit them:").into_iter().map(|line| format!("{line} -m done"));
    let last = ["take them over:", "remove it then:"].into_iter().flat_map(|purpose| named(&err, purpose));
    for line in commits.chain(last.map(str::to_owned)) {
        let identity = ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"];
        let mut shell = trial.program("sh");
        let done = shell.envs(identity.map(|name| (name, "test"))).args(["-c", &line]).output().unwrap();
        assert!(done.status.success(), "{line}: {done:?}");
    }
    assert_eq!(read(&trial.project(), "lib/deep/l.txt"), "two\n");
    assert!(!tree.exists());
    // A tree of the same name has them again.
    let trial = trial.served_by(developer([bash("cat lib/deep/l.txt")]));
    let (code, out, err) = trial.ask(&["--worktree=one", "look at it"]);
    assert!(code == Some(0) && !err.contains("is empty"), "{out}{err}");
    let tree = self::tree(&trial, "one");
    assert_eq!(read(&tree, "lib/deep/l.txt"), "two\n");
}

/// Its disk is not there, or its path is that of a container.
#[test]
fn a_work_tree_that_is_elsewhere_now_keeps_its_registration() {
    let trial = committed(developer([write("new.txt")]));
    let (place, away) = (trial.outside().join("feature"), trial.outside().join("away"));
    trial.git(&["worktree", "add", "--quiet", "-b", "feature", place.to_str().unwrap()]);
    std::fs::rename(&place, &away).unwrap();
    // The tree of this name was removed with what was around it, and is registered still.
    trial.git(&["worktree", "add", "--quiet", "-b", "rawko/old", tree(&trial, "one").to_str().unwrap()]);
    std::fs::remove_dir_all(tree(&trial, "one")).unwrap();
    let (code, out, err) = trial.ask(&["--worktree=one", "do it"]);
    assert!(code == Some(0) && tree(&trial, "one").join("new.txt").exists(), "{out}{err}");
    std::fs::rename(&away, &place).unwrap();
    trial.git(&["-C", place.to_str().unwrap(), "status"]);
}
