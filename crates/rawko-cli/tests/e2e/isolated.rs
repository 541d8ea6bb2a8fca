//! `--isolated`: a run in a tree of its own, which lands at the end.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Answer, Asked, ModelServer};

use crate::answers::{bash, call, complete, developer, report, select};
use crate::busy::stuck;
use crate::support::World;
use crate::trial::Trial;

/// A check that passes once the developer has written the file.
const CHECK: [&str; 2] = ["--verify", "test -f new.txt"];

/// A repository with a commit.
fn committed(server: ModelServer) -> Trial {
    let trial =
        Trial::new(server).file("a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n").file(".gitignore", "packages/\n");
    trial.git(&["add", "."]);
    trial.git(&["commit", "--quiet", "-m", "begin"]);
    trial
}

fn write(path: &str) -> Answer {
    call("Write", &json!({"file_path": path, "content": "text\n"}))
}

fn read(path: &str) -> Answer {
    call("Read", &json!({"file_path": path}))
}

fn edit(path: &str, old: &str, new: &str) -> Answer {
    call("Edit", &json!({"file_path": path, "old_string": old, "new_string": new}))
}

/// The last event of a run.
fn last_event(out: &str) -> Value {
    serde_json::from_str(out.lines().last().unwrap_or_default()).unwrap()
}

/// Runs a task in a tree of its own, with a check. Gives all events, and the last one.
#[track_caller]
fn events_of(trial: &Trial, options: &[&str], status: &str) -> (String, Value) {
    let begin = ["--isolated", "--no-cache", "--output", "stream-json"];
    let arguments = [&begin, &CHECK[..], options, &["do it"]].concat();
    let (_, out, err) = trial.ask(&arguments);
    let end = last_event(&out);
    assert_eq!(end["status"], status, "{out}{err}");
    (out, end)
}

/// The last event alone.
#[track_caller]
fn isolated(trial: &Trial, options: &[&str], status: &str) -> Value {
    events_of(trial, options, status).1
}

/// The trees that there are.
fn trees(world: &World) -> Vec<PathBuf> {
    let folder = world.outside().join("home/state/rawko/trees");
    let listed = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    let trees = listed(&folder).into_iter().flat_map(|project| listed(&project));
    // The next one is made of it.
    trees.filter(|tree| !tree.ends_with("spare")).collect()
}

#[test]
fn the_work_is_the_projects_only_at_the_end() {
    let folder = std::sync::Arc::new(std::sync::Mutex::new(PathBuf::new()));
    let seen = std::sync::Arc::clone(&folder);
    let mut turns = [
        select("developer"),
        write("new.txt"),
        // What the one has written, the other reads, at the project's own path.
        bash("pwd && cat new.txt untracked.txt && echo from-bash > bash.txt && mkdir d && mv a.txt d && mv d e"),
        read("bash.txt"),
        read("e/a.txt"),
        report("did it"),
        complete("all done"),
    ]
    .into_iter();
    let server = ModelServer::start(move |_: &Asked| {
        let project = seen.lock().unwrap();
        assert!(!project.join("new.txt").exists() && project.join("a.txt").exists());
        turns.next().unwrap()
    });
    let trial = committed(server).file("untracked.txt", "mine\n");
    trial.project().clone_into(&mut folder.lock().unwrap());
    let (out, end) = events_of(&trial, &[], "verified");
    // Whoever the user is.
    let started: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert!(started["confined"].as_str().is_some_and(|walls| walls.contains("namespaces")), "{started}");
    assert_eq!(started["degraded"], json!([]));
    assert_eq!(end["landing"]["end"], "landed", "{end}");
    assert_eq!(end["landing"]["written"], json!(["bash.txt", "e/a.txt", "new.txt"]));
    assert_eq!(end["landing"]["removed"], json!(["a.txt"]));
    let results = trial.server.asked();
    let said = |turn: usize| results[turn].last_text();
    assert!(said(3).contains(&format!("{}\ntext\nmine", trial.project().display())), "{}", said(3));
    assert!(said(4).contains("from-bash") && said(5).contains('9'), "{}{}", said(4), said(5));
    let content = |path: &str| std::fs::read_to_string(trial.project().join(path)).unwrap();
    assert_eq!((content("bash.txt").as_str(), content("new.txt").as_str()), ("from-bash\n", "text\n"));
    assert!(!trial.project().join("a.txt").exists() && !trial.project().join("d").exists());
    assert_eq!(trees(&trial), Vec::<PathBuf>::new(), "a tree that has landed is removed");
    // What the session did can still be seen, replayed and taken back.
    let (code, shown, err) = trial.rawko(&["diff", "last"]);
    assert!(code == Some(0) && shown.contains("+from-bash"), "{shown}{err}");
    let (_, replayed, _) = trial.rawko(&["replay", "last"]);
    assert!(replayed.contains("everything matches the record"), "{replayed}");
    let (code, shown, _) = trial.rawko(&["sessions", "show", "last"]);
    assert!(code == Some(0) && shown.contains("Landed:"), "{shown}");
    let (code, _, err) = trial.rawko(&["rewind", "last", "--to", "1"]);
    assert_eq!((code, trial.project().join("new.txt").exists()), (Some(0), false), "{err}");
}

#[test]
fn what_is_not_verified_is_kept_aside() {
    let trial = committed(developer([write("other.txt")]));
    let end = isolated(&trial, &[], "failed");
    assert_eq!(end["landing"], json!({"end": "kept"}));
    assert!(!trial.project().join("other.txt").exists());
    assert_eq!(trees(&trial).len(), 1);
    let (code, shown, err) = trial.rawko(&["diff", "last"]);
    assert!(code == Some(0) && shown.contains("other.txt"), "{shown}{err}");
    let (_, shown, _) = trial.rawko(&["sessions", "show", "last"]);
    for command in ["rawko diff ", "rawko land ", "rawko discard "] {
        assert!(shown.contains(command), "{command} {shown}");
    }
    let (code, out, err) = trial.rawko(&["land", "last"]);
    assert!(code == Some(0) && out.contains("1 file changed in the project"), "{out}{err}");
    assert!(trial.project().join("other.txt").exists());
    assert_eq!(trees(&trial).len(), 0);
    let (code, _, err) = trial.rawko(&["land", "last"]);
    assert!(code == Some(2) && err.contains("has no tree of its own, or no longer"), "{err}");
    // The session is not removed with work in it, unless that is said.
    let trial = committed(developer([write("other.txt")]));
    isolated(&trial, &[], "failed");
    let (code, _, err) = trial.rawko(&["sessions", "rm", "last"]);
    assert!(code == Some(2) && err.contains("its work has not landed") && trees(&trial).len() == 1, "{err}");
    let (code, _, err) = trial.rawko(&["sessions", "rm", "last", "--yes"]);
    assert!(code == Some(0) && trees(&trial).is_empty(), "{err}");
    // The same work, thrown away.
    let trial = committed(developer([write("other.txt")]));
    isolated(&trial, &[], "failed");
    let (code, out, err) = trial.rawko(&["discard", "last", "--json"]);
    assert!(code == Some(0) && out.contains("discarded"), "{out}{err}");
    assert!(!trial.project().join("other.txt").exists() && trees(&trial).is_empty());
    let (_, shown, _) = trial.rawko(&["sessions", "show", "last"]);
    assert!(shown.contains("was thrown away"), "{shown}");
}

#[test]
fn the_user_says_when_work_lands() {
    for (land, status, lands) in
        [("always", "failed", true), ("never", "verified", false), ("claimed", "verified", true)]
    {
        let written = if status == "verified" { "new.txt" } else { "other.txt" };
        let trial = committed(developer([write(written)]));
        isolated(&trial, &["--land", land], status);
        assert_eq!(trial.project().join(written).exists(), lands, "{land}");
    }
    let trial = committed(developer([write("new.txt")]));
    let (code, _, err) = trial.ask(&["--isolated", "--land", "often", "do it"]);
    assert!(code == Some(2) && err.contains("verified, claimed, always, branch or never"), "{err}");
    // By the configuration.
    let trial = committed(developer([write("new.txt")]));
    let trial = trial.user_config("/workspace", json!("isolated")).user_config("/land", json!("never"));
    let (_, out, err) = trial.ask(&[&["--output", "stream-json"], &CHECK[..], &["do it"]].concat());
    assert_eq!(last_event(&out)["landing"]["end"], "kept", "{out}{err}");
}

#[test]
fn work_lands_on_a_branch() {
    let trial = committed(developer([write("new.txt"), bash("rm a.txt")])).file("mine.txt", "mine\n");
    trial.git(&["config", "user.name", "Ann"]);
    let end = isolated(&trial, &["--land", "branch"], "verified");
    let branch = end["landing"]["branch"].as_str().unwrap();
    assert!(branch.starts_with("rawko/"), "{end}");
    let said = trial.git(&["log", "--format=%an %s", "--name-status", &format!("HEAD..{branch}")]);
    assert_eq!(said, "Ann do it\n\nD\ta.txt\nA\tnew.txt\n");
    assert_eq!(trial.git(&["status", "--short"]), "?? mine.txt\n");
    assert!(trees(&trial).is_empty() && trial.git(&["fsck"]).is_empty());
    // And later, by the user.
    let trial = committed(developer([write("other.txt")]));
    isolated(&trial, &[], "failed");
    let (code, out, err) = trial.rawko(&["land", "--branch"]);
    assert!(code == Some(0) && out.contains("rawko/"), "{out}{err}");
    assert!(!trial.project().join("other.txt").exists());
}

/// The developer changes line 2 and writes a file, while the user changes `theirs`.
#[track_caller]
fn meanwhile(theirs: &'static str, end: &str) -> (Trial, Value) {
    let project = std::sync::Arc::new(std::sync::Mutex::new(PathBuf::new()));
    let place = std::sync::Arc::clone(&project);
    let mut turns = [
        select("developer"),
        read("a.txt"),
        edit("a.txt", "2\n", "two\n"),
        write("new.txt"),
        report("did it"),
        complete("all done"),
    ]
    .into_iter();
    let server = ModelServer::start(move |_: &Asked| {
        let answer = turns.next().unwrap();
        if turns.len() == 1 {
            std::fs::write(place.lock().unwrap().join("a.txt"), theirs).unwrap();
        }
        answer
    });
    let trial = committed(server);
    trial.project().clone_into(&mut project.lock().unwrap());
    let ended = isolated(&trial, &[], "verified");
    assert_eq!(ended["landing"]["end"], end, "{ended}");
    (trial, ended)
}

#[test]
fn what_the_user_changed_meanwhile_is_kept() {
    let (trial, end) = meanwhile("1\n2\n3\n4\n5\n6\n7\neight\n9\n", "landed");
    assert_eq!(end["landing"]["merged"], json!(["a.txt"]));
    let merged = std::fs::read_to_string(trial.project().join("a.txt")).unwrap();
    assert_eq!(merged, "1\ntwo\n3\n4\n5\n6\n7\neight\n9\n");
    // Where both changed the same lines, nothing lands.
    let mine = "1\nTWO\n3\n4\n5\n6\n7\n8\n9\n";
    let (trial, end) = meanwhile(mine, "conflicts");
    assert_eq!(end["landing"]["conflicts"][0]["path"], "a.txt");
    let content = |name: &str| std::fs::read_to_string(trial.project().join(name)).ok();
    assert_eq!((content("a.txt").as_deref(), content("new.txt")), (Some(mine), None));
    let (code, out, err) = trial.rawko(&["land", "last"]);
    assert!(code == Some(1) && out.contains("changed the same lines"), "{out}{err}");
    trial.write("a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    let (code, out, err) = trial.rawko(&["land", "last"]);
    assert_eq!((code, content("new.txt").as_deref()), (Some(0), Some("text\n")), "{out}{err}");
}

#[test]
fn the_next_task_of_its_session_begins_with_the_project_as_it_is() {
    let trial = committed(developer([write("new.txt")]));
    isolated(&trial, &[], "verified");
    trial.write("mine.txt", "mine\n");
    let trial = trial.served_by(developer([bash("cat mine.txt > copied.txt")]));
    let (code, out, err) =
        trial.ask(&[&["-c", "--output", "stream-json"], &CHECK[..], &["and more"]].concat());
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(last_event(&out)["landing"]["written"], json!(["copied.txt"]), "{out}");
    assert!(trial.project().join("copied.txt").exists() && trees(&trial).is_empty());
}

#[test]
fn a_killed_run_is_resumed_in_its_tree() {
    let answers = [
        select("developer"),
        write("new.txt"),
        Answer::Silence,
        bash("cat new.txt > late.txt"),
        report("did it"),
        complete("done"),
    ];
    let running =
        committed(ModelServer::sequence(answers)).args(&["--isolated"]).args(&CHECK).start("Do it.");
    running.wait_for_request(3);
    let killed = running.end_after(Signal::KILL);
    assert_eq!(trees(&killed.trial).len(), 1);
    assert!(!killed.trial.project().join("new.txt").exists());
    let (code, out, err) = killed.trial.rawko(&["land", "last"]);
    assert!(code == Some(2) && err.contains("has not ended"), "{out}{err}");
    let (code, out, err) = killed.trial.resume_with(&CHECK);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(killed.trial.project().join("late.txt").exists(), "{out}");
    assert!(trees(&killed.trial).is_empty());
}

#[test]
fn a_killed_run_that_is_given_up_can_be_landed() {
    let answers = [select("developer"), write("new.txt"), Answer::Silence];
    let running = committed(ModelServer::sequence(answers)).args(&["--isolated"]).start("Do it.");
    running.wait_for_request(3);
    let killed = running.end_after(Signal::KILL);
    let (code, _, err) = killed.trial.rawko(&["cancel", "last"]);
    assert_eq!(code, Some(0), "{err}");
    let (code, out, err) = killed.trial.rawko(&["land", "last"]);
    assert_eq!((code, killed.trial.project().join("new.txt").exists()), (Some(0), true), "{out}{err}");
}

#[test]
fn a_busy_folder_does_not_hold_up_a_run_in_a_tree_of_its_own() {
    let first = committed(stuck()).start("Hold the folder.");
    first.wait_for_event("agent_started");
    first.wait_for_request(2);
    let (code, out, err) = first.trial.ask(&["--isolated", "--output", "stream-json", "come", "second"]);
    assert_eq!((code, err.contains("waiting:")), (Some(0), false), "{out}{err}");
    assert!(!out.contains("beside"), "{out}");
    let _ended = first.end_after(Signal::INT);
}

#[test]
fn ignored_folders_are_there_and_stay_as_they_are() {
    let turns = [
        bash(
            "cat packages/p7/index.js && echo changed > packages/p7/index.js && rm -r packages/p8 && touch new.txt",
        ),
        read("packages/p7/index.js"),
        bash("ls packages/p8; mv packages/p9 packages/moved && ls packages/moved"),
    ];
    let trial = committed(developer(turns));
    for number in 0..300 {
        trial.write(&format!("packages/p{number}/index.js"), "original\n");
    }
    trial.write("packages/large.bin", &"x".repeat(10 << 20));
    let end = isolated(&trial, &[], "verified");
    assert_eq!(end["landing"]["written"], json!(["new.txt"]));
    let asked = trial.server.asked();
    let said = |turn: usize| asked[turn].last_text();
    assert!(said(2).contains("original") && said(3).contains("changed"), "{}{}", said(2), said(3));
    assert!(said(4).contains("No such file") && said(4).contains("index.js"), "{}", said(4));
    let content = |name: &str| std::fs::read_to_string(trial.project().join("packages").join(name)).unwrap();
    assert_eq!(
        (content("p7/index.js").as_str(), content("p8/index.js").as_str()),
        ("original\n", "original\n")
    );
}

#[test]
fn nothing_of_git_reaches_the_project() {
    let commit = "git add -A && git -c user.name=a -c user.email=a@b commit -qm mine && git log --oneline | wc -l && git \
                  branch other && git tag mark && git status --short";
    let trial = committed(developer([write("new.txt"), bash(commit)]));
    let state = |trial: &Trial| {
        let refs = trial.git(&["for-each-ref"]);
        let status = trial.git(&["status", "--short"]);
        (trial.git(&["rev-parse", "HEAD"]), refs, status)
    };
    let before = state(&trial);
    let end = isolated(&trial, &[], "verified");
    assert!(trial.server.asked()[3].last_text().contains("2\n"), "{end}");
    let after = state(&trial);
    assert_eq!((&before.0, &before.1), (&after.0, &after.1));
    assert!(after.2.contains("?? new.txt"), "{after:?}");
    assert!(trial.git(&["fsck"]).is_empty());
}

#[test]
fn linked_work_trees_and_submodules_are_copied_with_their_repositories() {
    let commit =
        "git add -A && git -c user.name=a -c user.email=a@b commit -qm mine && git rev-list --count HEAD";
    let trial = committed(developer([write("new.txt"), bash(commit)]));
    let linked = trial.outside().join("linked");
    trial.git(&["worktree", "add", "--quiet", linked.to_str().unwrap()]);
    let before = trial.git(&["for-each-ref"]);
    let mut command = trial.asker();
    command.args(["--cwd", linked.to_str().unwrap(), "--isolated", "--output", "stream-json"]);
    let output = command.args(CHECK).arg("do it").output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{out}{}", String::from_utf8_lossy(&output.stderr));
    assert!(trial.server.asked()[3].last_text().contains("2\n"), "{out}");
    assert!(linked.join("new.txt").exists());
    assert_eq!(trial.git(&["for-each-ref"]), before);
}

#[test]
fn without_namespaces_the_tree_is_a_copy_elsewhere() {
    let turns = [bash("pwd > where.txt"), write("new.txt"), read("where.txt")];
    let trial = committed(developer(turns)).without_namespaces();
    let end = isolated(&trial, &["--no-sandbox"], "verified");
    assert_eq!(end["landing"]["end"], "landed", "{end}");
    let place = std::fs::read_to_string(trial.project().join("where.txt")).unwrap();
    assert!(place.contains("rawko/trees"), "{place}");
    assert!(trees(&trial).is_empty());
}

#[test]
fn with_bubblewrap_alone_the_work_lands() {
    if Command::new("bwrap").arg("--version").output().is_err() {
        testkit::skip("bubblewrap is not installed");
        return;
    }
    let trial = committed(developer([bash("pwd > where.txt"), write("new.txt")])).with_bubblewrap_alone();
    let end = isolated(&trial, &[], "verified");
    assert_eq!(end["landing"]["end"], "landed", "{end}");
}

#[test]
fn what_is_mounted_in_the_project_is_copied() {
    let turns = [bash("cat data/d > new.txt && echo run > data/d && cat data/d")];
    let trial = committed(developer(turns))
        .file("data/below", "not seen\n")
        .after("mount -t tmpfs none data && echo mounted > data/d");
    let end = isolated(&trial, &["--land", "never"], "verified");
    assert_eq!(end["landing"]["end"], "kept", "{end}");
    assert!(trial.server.asked()[2].last_text().contains("run"), "{end}");
    let tree = &trees(&trial)[0].join("tree");
    let content = |path: &str| std::fs::read_to_string(tree.join(path)).unwrap();
    assert_eq!((content("new.txt").as_str(), content("data/d").as_str()), ("mounted\n", "run\n"));
}

/// What a session's folder says of its tree may have come with the project.
#[test]
fn a_planted_session_has_no_tree() {
    let trial = committed(developer([write("other.txt")]));
    isolated(&trial, &[], "failed");
    let [tree] = trees(&trial).try_into().unwrap();
    let victim = trial.outside().join("victim");
    let planted = trial.project().join("planted");
    for folder in [&victim, &planted] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("precious"), "mine").unwrap();
    }
    // The record of a tree, in the project: everything of it names something else.
    let mut record: Value = serde_json::from_slice(&std::fs::read(tree.join("tree.json")).unwrap()).unwrap();
    record["steps"] = json!([]);
    record["copy"] = json!(victim);
    std::fs::remove_dir_all(&tree).unwrap();
    for folder in [trial.project().join(".rawko/sessions").join(tree.file_name().unwrap()), planted.clone()] {
        std::fs::write(folder.join("tree.json"), record.to_string()).unwrap();
        std::fs::write(folder.join("isolated"), json!({"folder": planted}).to_string()).unwrap();
    }
    for command in [&["land", "last"][..], &["discard", "last"], &["continue", "and more"], &["diff", "last"]]
    {
        let (_, _, err) = trial.ask(command);
        assert!(!err.contains("panicked"), "{err}");
    }
    let (code, _, err) = trial.ask(&["continue", "and more"]);
    assert!(code == Some(2) && err.contains("which is gone"), "{err}");
    for folder in [&victim, &planted] {
        assert_eq!(std::fs::read_to_string(folder.join("precious")).unwrap(), "mine");
    }
    assert!(trial.project().join(".git").exists());
}

/// A file that nobody may change makes a landing stop in its middle; root makes one with an attribute.
#[test]
fn a_landing_that_stopped_is_completed_before_anything_else() {
    let turns = || developer([bash("for d in d1 d2 d3; do echo run > $d/f; done; touch new.txt")]);
    let trial = committed(turns()).file("d1/f", "old\n").file("d2/f", "old\n").file("d3/f", "old\n");
    let closed = |is_closed: bool| {
        let mark = if is_closed { "+i" } else { "-i" };
        let file = trial.project().join("d3/f");
        let changed = Command::new("chattr").arg(mark).arg(&file).output();
        changed.is_ok_and(|changed| changed.status.success())
    };
    if !closed(true) {
        // Only some file systems have such an attribute.
        eprintln!("no file can be closed to root here");
        return;
    }
    let end = isolated(&trial, &[], "verified");
    assert_eq!(end["landing"]["end"], "failed", "{end}");
    let content = |name: &str| std::fs::read_to_string(trial.project().join(name)).unwrap();
    assert_eq!((content("d1/f").as_str(), content("d3/f").as_str()), ("run\n", "old\n"));
    let (code, _, err) = trial.ask(&["continue", "and more"]);
    let refused = code == Some(2) && err.contains("has landed in part");
    let (branch, out, _) = trial.rawko(&["land", "--branch"]);
    assert!(closed(false));
    assert!(refused, "{err}");
    assert!(branch == Some(1) && !out.contains("Branch:"), "{out}");
    // A run that is isolated itself completes it in the project, and not in its own tree.
    let trial = trial.served_by(developer([bash("cat d3/f > second.txt")]));
    isolated(&trial, &[], "verified");
    let content = |name: &str| std::fs::read_to_string(trial.project().join(name)).unwrap();
    assert_eq!((content("d3/f").as_str(), content("second.txt").as_str()), ("run\n", "run\n"));
    assert!(trees(&trial).is_empty());
}

#[test]
fn a_file_of_git_that_names_what_is_not_its_own_leads_nowhere() {
    let trial = committed(developer([bash("echo run >> a.txt; cat sub/.git; touch new.txt")]));
    let secret = trial.outside().join("secret");
    std::fs::create_dir(&secret).unwrap();
    std::fs::write(secret.join("s"), "secret\n").unwrap();
    for (name, leads) in [("sub", secret.as_path()), ("up", trial.outside()), ("root", Path::new("/"))] {
        trial.write(&format!("{name}/.git"), &format!("gitdir: {}\n", leads.display()));
    }
    let end = isolated(&trial, &["--land", "never"], "verified");
    assert_eq!(end["landing"]["end"], "kept", "{end}");
    let [tree] = trees(&trial).try_into().unwrap();
    assert!(!tree.join("repository-1").exists());
    let (code, out, err) = trial.rawko(&["land", "last"]);
    assert!(code == Some(0) && out.contains("2 files changed"), "{out}{err}");
}

#[test]
fn a_home_that_is_a_repository_is_copied_without_the_trees() {
    let trial = committed(developer([write("new.txt")]));
    let home = trial.outside().join("home");
    let project = home.join("work/p");
    std::fs::create_dir_all(project.join(".rawko")).unwrap();
    std::fs::write(project.join("a"), "a\n").unwrap();
    trial.git(&["init", "--quiet", home.to_str().unwrap()]);
    let mut command = trial.asker();
    command.args(["-C", project.to_str().unwrap(), "--isolated", "--output", "stream-json"]);
    let output = command.args(CHECK).arg("do it").output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(last_event(&out)["status"], "verified", "{out}{}", String::from_utf8_lossy(&output.stderr));
    assert!(project.join("new.txt").exists());
}

#[test]
fn a_branch_names_what_is_not_in_it() {
    let turns = [write("new.txt"), bash("echo key > id_rsa")];
    let trial = committed(developer(turns));
    let end = isolated(&trial, &["--land", "branch"], "verified");
    assert!(end["landing"]["left"][0].as_str().unwrap().starts_with("id_rsa"), "{end}");
    assert_eq!(trees(&trial).len(), 1);
    // A run that changed nothing makes no branch; a second one of the session has another name.
    let trial = trial.served_by(developer([bash("true")]));
    let (_, out, err) =
        trial.ask(&["--isolated", "--land", "branch", "--output", "stream-json", "look at it"]);
    assert_eq!(last_event(&out)["landing"], json!({"end": "nothing"}), "{out}{err}");
    for (task, branch) in [("one", ""), ("two", "-2")] {
        let trial = &trial;
        let server = developer([write(&format!("{task}.txt"))]);
        let mut command = trial.asker();
        command.env("ANTHROPIC_BASE_URL", server.url(testkit::Wire::Claude));
        let output = command
            .args(["-c", "--land", "branch", "--output", "stream-json", "and", task])
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        let named = last_event(&out)["landing"]["branch"].as_str().unwrap_or_default().to_owned();
        assert!(
            named.ends_with(branch) && !named.is_empty(),
            "{out}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn two_that_land_at_once_both_land() {
    let edits = |line: u32| {
        let each = format!("for f in many/*; do sed -i 's/^{line}$/run {line}/' $f; done; touch other{line}");
        developer([bash(&each)])
    };
    let mut trial = committed(edits(2));
    for number in 0..60 {
        trial.write(&format!("many/{number}"), "1\n2\n3\n4\n5\n6\n7\n8\n");
    }
    isolated(&trial, &[], "failed");
    trial = trial.served_by(edits(7));
    isolated(&trial, &[], "failed");
    let sessions: Vec<String> =
        trees(&trial).iter().map(|tree| tree.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    let landing: Vec<_> = sessions.iter().map(|id| trial.begin(&["land", id])).collect();
    for land in landing {
        land.end();
    }
    for number in 0..60 {
        let text = std::fs::read_to_string(trial.project().join(format!("many/{number}"))).unwrap();
        assert_eq!(text, "1\nrun 2\n3\n4\n5\n6\nrun 7\n8\n", "{number}");
    }
    assert!(trees(&trial).is_empty());
}

#[test]
fn modes_are_those_of_the_project_whatever_the_umask() {
    let trial = committed(developer([bash(
        "stat -c %a a.txt run.sh > new.txt; echo more >> a.txt; echo x >> run.sh; chmod 640 closed.txt",
    )]));
    trial.write("run.sh", "#!/bin/sh\n");
    trial.write("closed.txt", "");
    for (name, mode) in [("a.txt", 0o664), ("run.sh", 0o755)] {
        let path = trial.project().join(name);
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }
    let asker = trial.asker();
    let mut shell = trial.program("sh");
    shell.args(["-c", "umask 077; exec \"$0\" \"$@\""]).arg(asker.get_program());
    shell.envs(asker.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.args(["--isolated"]).args(CHECK).arg("do it").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::read_to_string(trial.project().join("new.txt")).unwrap(), "664\n755\n");
    // Rights alone are work as well.
    for (name, mode) in [("a.txt", 0o664), ("run.sh", 0o755), ("closed.txt", 0o640)] {
        let found = trial.project().join(name).metadata().unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&found) & 0o777, mode, "{name}");
    }
}

/// More files that git does not track than rawko keeps: what cannot be landed is not thrown away.
#[test]
fn work_that_cannot_be_kept_stays_in_the_tree() {
    let many = "mkdir many && cd many && seq 20001 | xargs touch && cd .. && touch new.txt";
    let trial = committed(developer([bash(many)]));
    let arguments =
        [&["--isolated", "--land", "always", "--output", "stream-json"], &CHECK[..], &["do it"]].concat();
    let (_, out, err) = trial.ask(&arguments);
    let end = last_event(&out);
    assert_eq!(end["landing"]["end"], "failed", "{end}{err}");
    let [tree] = trees(&trial).try_into().unwrap();
    assert!(tree.join("tree/many/20001").exists() && !trial.project().join("new.txt").exists());
    // The user says what does not count, and lands the rest.
    std::fs::write(tree.join("tree/.gitignore"), "packages/\nmany/\n").unwrap();
    let (code, out, err) = trial.rawko(&["land", "last"]);
    assert_eq!((code, trial.project().join("new.txt").exists()), (Some(0), true), "{out}{err}");
    assert!(!trial.project().join("many").exists());
}

#[test]
fn trees_of_no_session_are_removed() {
    let trial = committed(developer([write("other.txt")]));
    isolated(&trial, &[], "failed");
    let [tree] = trees(&trial).try_into().unwrap();
    let (old, new) = (tree.with_file_name("old"), tree.with_file_name("new"));
    for folder in [&old, &new] {
        std::fs::create_dir(folder).unwrap();
    }
    let yesterday = std::time::SystemTime::now() - std::time::Duration::from_secs(25 * 60 * 60);
    for folder in [&old, &tree] {
        std::fs::File::open(folder).unwrap().set_modified(yesterday).unwrap();
    }
    let trial = trial.served_by(developer([write("new.txt")]));
    isolated(&trial, &[], "verified");
    assert!(!old.exists() && new.exists() && tree.exists());
    let (_, listed, _) = trial.rawko(&["sessions", "list"]);
    assert!(listed.contains("its work has not landed: rawko land "), "{listed}");
}

#[test]
fn nothing_of_the_repository_runs_for_a_tree() {
    let trial = committed(developer([write("new.txt")])).file(".gitattributes", "* filter=x=y\n");
    let runs = |name: &str| format!("touch {}; cat", trial.outside().join(name).display());
    trial.git(&["add", ".gitattributes"]);
    trial.git(&["commit", "--quiet", "-m", "attributes"]);
    for (name, value) in [
        ("filter.x=y.smudge", runs("smudge")),
        ("filter.x=y.clean", runs("clean")),
        ("core.fsmonitor", runs("fsmonitor")),
        ("merge.default.driver", runs("merge")),
    ] {
        trial.git(&["config", name, &value]);
    }
    isolated(&trial, &[], "verified");
    for name in ["smudge", "clean", "fsmonitor", "merge"] {
        assert!(!trial.outside().join(name).exists(), "{name}");
    }
}

#[test]
fn a_variable_does_not_lead_to_another_repository() {
    let trial = committed(developer([write("new.txt")]));
    let other = committed(developer([]));
    let mut command = trial.asker();
    command.env("GIT_DIR", other.project().join(".git")).args(["--isolated"]).args(CHECK).arg("do it");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(trial.project().join("new.txt").exists());
    let status =
        Command::new("git").current_dir(other.project()).args(["status", "--short"]).output().unwrap();
    assert!(status.stdout.is_empty(), "{status:?}");
}
