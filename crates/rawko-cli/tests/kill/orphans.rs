//! What becomes of a command when the rawko that started it is killed: it must not go on for ever, and above all not
//! change anything any more behind the back of the run that is taken up.

use std::time::{Duration, Instant};

use crate::requests;
use crate::script::Script;
use crate::world::{World, each};

/// Longer than it takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A command that says who it is and goes on; a child of its own in another session does the same.
const FAMILY: &str = "setsid bash -c 'trap \"\" INT TERM HUP; echo $$ >> ../out/pids; sleep 300' & \
                      echo $$ >> ../out/pids; sleep 300; echo survived >> ../out/log";

/// Whether a process is there and not merely waiting to be reaped.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

fn pids(world: &World) -> Vec<String> {
    let text = std::fs::read_to_string(world.path().join("out/pids")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_does_not_outlive_a_killed_rawko() {
    let script = Script::developer(&[FAMILY]);
    let world = World::new();
    let server = script.serve();
    let killed = world.run(&server).kill_when(|| pids(&world).len() == 2);
    assert!(killed);
    let begun = Instant::now();
    let left = || pids(&world).into_iter().filter(|pid| is_alive(pid)).collect::<Vec<_>>();
    while !left().is_empty() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(2));
    }
    let left = left();
    for pid in &left {
        // Whatever comes of this test, nothing is left behind.
        world.shell(&format!("kill -KILL {pid}"));
    }
    assert!(left.is_empty(), "they outlived it: {left:?}");
    // Nothing came behind the command that was cut off either.
    assert!(world.lines().is_empty(), "{:?}", world.lines());
    let ended = world.resume(&server).end();
    assert_eq!(ended.status.code(), Some(0), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(world.replay().status.code(), Some(0));
    let told = requests::bodies(&server, &world).iter().filter(|body| body.tells_of_unknown()).count();
    assert!(told > 0, "the agent was not told that the outcome is unknown");
}

/// Whoever still works in the project's folder.
fn workers(world: &World) -> Vec<String> {
    let folder = world.project().canonicalize().unwrap();
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        if std::fs::read_link(process.path().join("cwd")).is_ok_and(|place| place == folder) {
            found.push(process.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_that_is_just_being_started_does_not_either() {
    let script = Script::developer(&["sleep 300"]);
    // From before the shell is there until the command runs.
    let cases: Vec<u32> = (0..24).collect();
    each(&cases, |case| {
        let world = World::new();
        let server = script.serve();
        let mut issued = None;
        let patience = Duration::from_millis(1) * *case;
        let killed = world.run(&server).kill_when(|| {
            let text = world.journal_path().and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
            if issued.is_none() && String::from_utf8_lossy(&text).contains("\"type\":\"RunTool\"") {
                issued = Some(Instant::now());
            }
            issued.is_some_and(|at| at.elapsed() >= patience)
        });
        assert!(killed);
        let begun = Instant::now();
        while !workers(&world).is_empty() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
        let left = workers(&world);
        for pid in &left {
            world.shell(&format!("kill -KILL {pid}"));
        }
        assert!(left.is_empty(), "case {case}: they outlived it: {left:?}");
    });
}
