//! What becomes of a command when the rawko that started it is killed: it must not go on for ever, and above all not
//! change anything any more under the run that is taken up.

use std::time::{Duration, Instant};

use crate::requests;
use crate::script::Script;
use crate::support::each;
use crate::world::World;

/// Longer than it takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A command that says who it is and goes on; a child of its own in another session does the same.
const FAMILY: &str = "setsid bash -c 'trap \"\" INT TERM HUP; sleep 300; true' & \
                      sleep 300; echo survived >> ../out/log";

/// The processes that work in the project's folder.
fn workers(world: &World) -> Vec<(u32, String)> {
    testkit::processes_in(&world.project().canonicalize().unwrap())
}

fn sleepers(world: &World) -> usize {
    workers(world).iter().filter(|(_, line)| line.starts_with("sleep ")).count()
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_does_not_outlive_a_killed_rawko() {
    let script = Script::developer(&[FAMILY]);
    let world = World::new();
    let server = script.serve();
    let killed = world.run(&server).kill_when(|| sleepers(&world) == 2);
    assert!(killed);
    let begun = Instant::now();
    while !workers(&world).is_empty() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(2));
    }
    let left = workers(&world);
    for (pid, _) in &left {
        // Whatever the result of this test, nothing is left.
        world.shell(&format!("kill -KILL {pid}"));
    }
    assert!(left.is_empty(), "they outlived it: {left:?}");
    // Nothing ran after the command that was cut off either.
    assert!(world.lines().is_empty(), "{:?}", world.lines());
    let ended = world.resume(&server).end();
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    assert_eq!(world.replay().code, Some(0));
    let informed = requests::bodies(&server, &world).iter().filter(|body| body.reports_unknown()).count();
    assert!(informed > 0, "the agent does not learn that the outcome is unknown");
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
        for (pid, _) in &left {
            world.shell(&format!("kill -KILL {pid}"));
        }
        assert!(left.is_empty(), "case {case}: they outlived it: {left:?}");
    });
}
