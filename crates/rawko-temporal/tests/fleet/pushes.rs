//! The moment at which a step is done: its push.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rawko_core::session::Status;
use rawko_temporal::Fleet;

use crate::world::{World, commands, commands_and};

/// A server of repositories whose hooks run.
struct GitServer {
    child: Child,
    port: u16,
}

impl GitServer {
    /// One for the world's repository, which has this hook.
    fn start(world: &World, hook: &str, script: &str) -> Self {
        world.git(&["config", "http.receivepack", "true"]);
        let hook = world.remote().join("hooks").join(hook);
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(&hook, script.replace("MARKS", world.marks().to_str().unwrap())).unwrap();
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/git_http.py");
        let mut python = Command::new("python3");
        let mut child = python.arg(script).arg(world.path("")).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }

    /// Submits a task whose repository is here.
    fn submit(&self, world: &World, id: &str) -> Fleet {
        let fleet = world.fleet();
        let mut spec = world.spec(id, "Take the steps.");
        spec.repository = format!("http://127.0.0.1:{}/remote.git", self.port).parse().unwrap();
        world.runtime.block_on(fleet.submit(spec)).unwrap();
        fleet
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The worker is killed by the repository itself, once it has the second commit.
const KILLS: &str = r#"#!/bin/sh
while read -r old new ref; do
  case $ref in refs/heads/rawko/*) ;; *) continue ;; esac
  echo "$new" >> MARKS/pushes
  if [ "$(wc -l < MARKS/pushes)" -eq 2 ]; then kill -9 "$(cat MARKS/worker)"; fi
done
"#;

pub(crate) fn a_step_that_was_pushed_and_not_reported_is_not_done_again() {
    let Some(world) = commands(&[
        "echo 1 >> MARKS/steps; echo 1 > one.txt",
        "echo 2 >> MARKS/steps; echo 2 > two.txt",
        "echo 3 >> MARKS/steps; echo 3 > three.txt",
    ]) else {
        return;
    };
    let server = GitServer::start(&world, "post-receive", KILLS);
    let worker = world.worker("a");
    std::fs::write(world.marks().join("worker"), worker.id().to_string()).unwrap();
    let fleet = server.submit(&world, "pushed");
    world.until("the second push", || world.marked("pushes").len() == 2);
    worker.ends(std::time::Duration::from_secs(30));
    let _other = world.worker("b");
    let ended = world.ended(&fleet, "pushed");
    assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed);
    assert_eq!(world.marked("steps"), ["1", "2", "3"]);
    let effects = world.effects("pushed");
    let once: std::collections::BTreeSet<_> = effects.iter().collect();
    assert_eq!((effects.len(), once.len()), (3, 3), "{effects:?}");
}

/// Takes no commit that has a file of this name.
const REFUSES: &str = r#"#!/bin/sh
while read -r old new ref; do
  if git cat-file -e "$new:unwanted.txt" 2>/dev/null; then
    echo "$ref" >> MARKS/refused
    echo "unwanted.txt is not wanted here" >&2
    exit 1
  fi
done
"#;

pub(crate) fn a_commit_that_the_repository_does_not_take_is_an_error_of_its_step() {
    let Some(world) = commands(&["echo >> MARKS/steps; echo 1 > unwanted.txt", "echo 2 > two.txt"]) else {
        return;
    };
    let server = GitServer::start(&world, "pre-receive", REFUSES);
    let _worker = world.worker("a");
    let fleet = server.submit(&world, "unwanted");
    let ended = world.ended(&fleet, "unwanted");
    assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed);
    assert_eq!((world.marked("refused").len(), world.marked("steps").len()), (5, 1));
    assert!(
        world.model_received("could not be pushed, in 5 tries")
            && world.model_received("unwanted.txt is not wanted here")
    );
    assert_eq!(world.git(&["ls-tree", "--name-only", "rawko/unwanted"]), "README.md\ntwo.txt\n");
}

/// Puts a commit on a task's branch, over whatever is there.
fn interfere(folder: &Path, task: &str, message: &str) {
    let (remote, branch) = (folder.join("remote.git"), format!("refs/heads/rawko/{task}"));
    let tree = format!("{branch}^{{tree}}");
    let commit = testkit::git(&remote, &["commit-tree", "-p", &branch, "-m", message, &tree]);
    testkit::git(&remote, &["update-ref", &branch, commit.trim()]);
}

pub(crate) fn the_late_work_of_an_abandoned_step_does_not_stay() {
    // As if by a worker that was given up: once before another step, and once after the last one.
    let late = |turn: usize, folder: &Path| {
        if matches!(turn, 1 | 2) {
            interfere(folder, "late", "late\n\nRawko-Task: late\nRawko-Effect: 1\nRawko-Attempt: 1");
        }
    };
    let Some(world) = commands_and(&["echo 1 > one.txt", "echo 2 > two.txt"], late) else { return };
    let _worker = world.worker("a");
    let fleet = world.submit("late", "Take two steps.");
    let status = world.ended(&fleet, "late").status.unwrap();
    assert_eq!(status.outcome.unwrap().status, Status::Claimed);
    assert_eq!(status.head.unwrap().as_str(), world.git(&["rev-parse", "rawko/late"]).trim());
    let effects = world.effects("late");
    assert!(effects.len() == 2 && !effects.contains(&1), "{effects:?}");
}

pub(crate) fn somebody_elses_commit_on_the_branch_stays() {
    let theirs = |turn: usize, folder: &Path| {
        if turn == 1 {
            interfere(folder, "theirs", "mine");
        }
    };
    let Some(world) = commands_and(&["echo 1 > one.txt", "echo 2 > two.txt"], theirs) else { return };
    let _worker = world.worker("a");
    let fleet = world.submit("theirs", "Take two steps.");
    world.ended(&fleet, "theirs");
    assert_eq!(world.git(&["log", "-1", "--format=%s", "rawko/theirs"]), "mine\n");
    assert!(world.model_received("by somebody else"));
}

pub(crate) fn a_branch_that_somebody_removed_is_there_at_the_end() {
    let remove = |turn: usize, folder: &Path| {
        if turn == 1 {
            testkit::git(&folder.join("remote.git"), &["update-ref", "-d", "refs/heads/rawko/removed"]);
        }
    };
    let Some(world) = commands_and(&["echo 1 > one.txt"], remove) else { return };
    let _worker = world.worker("a");
    let fleet = world.submit("removed", "Take a step.");
    let status = world.ended(&fleet, "removed").status.unwrap();
    assert_eq!(status.head.unwrap().as_str(), world.git(&["rev-parse", "rawko/removed"]).trim());
}
