//! The moment at which a step is done: its push.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rawko_core::session::Status;

use crate::workers::commands;

/// A server of repositories whose hooks run.
struct GitServer {
    child: Child,
    port: u16,
}

impl GitServer {
    fn start(root: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/git_http.py");
        let mut child = Command::new("python3").arg(script).arg(root).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
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
    world.git(&["config", "http.receivepack", "true"]);
    let hook = world.remote().join("hooks/post-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, KILLS.replace("MARKS", world.marks().to_str().unwrap())).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = GitServer::start(&world.path(""));
    let worker = world.worker("a");
    std::fs::write(world.marks().join("worker"), worker.id().to_string()).unwrap();
    let fleet = world.fleet();
    let mut spec = world.spec("pushed", "Take three steps.");
    spec.repository = format!("http://127.0.0.1:{}/remote.git", server.port).parse().unwrap();
    world.runtime.block_on(fleet.submit(spec)).unwrap();
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
