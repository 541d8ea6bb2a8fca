//! What becomes of a command when the rawko that started it is killed: it must not go on for ever, and above all not
//! change anything any more behind the back of the run that is taken up.

use std::time::{Duration, Instant};

use crate::requests;
use crate::script::Script;
use crate::world::World;

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
