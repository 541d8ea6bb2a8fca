//! A killed session is not kept locked by what it started. Which session `resume` takes: [`matrix`](crate::matrix).

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rawko::journal::{JournalWriter, SessionStatus};

use crate::world::World;

/// Where [`holder`] finds the journal that it is to hold.
const JOURNAL: &str = "RAWKO_TEST_JOURNAL_TO_HOLD";
/// What the child says once it is between fork and exec.
const STUCK: &str = "between fork and exec";

/// Not a test of its own: the process that works on a session while a child of its hangs between fork and exec.
#[test]
#[ignore = "run by a_child_between_fork_and_exec_does_not_keep_a_killed_session_locked"]
fn holder() {
    let journal = std::env::var_os(JOURNAL).expect("the test that runs this sets it");
    let (_writer, _) = JournalWriter::reopen(&PathBuf::from(journal)).unwrap();
    let mut command = Command::new("true");
    let stuck = || {
        rustix::io::write(rustix::stdio::stdout(), b"\nbetween fork and exec\n")?;
        // Until the test lets go of the other end.
        while rustix::io::read(rustix::stdio::stdin(), &mut [0; 8])? > 0 {}
        Ok(())
    };
    // SAFETY: between fork and exec only `write` and `read` are called, which are safe there; nothing is allocated.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(stuck);
    }
    command.status().unwrap();
}

/// A process that holds the session of `journal`, and whose child has been forked and waits before its exec.
#[track_caller]
fn hold(journal: &std::path::Path) -> Child {
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "newest::holder", "--ignored", "--nocapture"])
        .env(JOURNAL, journal)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(holder.stdout.take().unwrap());
    assert!(said.lines().map_while(Result::ok).any(|line| line == STUCK), "the child was never forked");
    holder
}

#[test]
fn a_child_between_fork_and_exec_does_not_keep_a_killed_session_locked() {
    let two = World::new(Some(8));
    two.cut(8);
    let mut holder = hold(&two.journal());
    assert_eq!(two.status(&two.newest), SessionStatus::Running);
    // The child stays, with a copy of every file that the killed process had open.
    let child_waits = holder.stdin.take().unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(two.status(&two.newest), SessionStatus::Unfinished);
    two.bench.rawko(&["resume"]).check(0, &[&two.newest, "Do the newest task."]);
    assert_eq!(two.status(&two.older), SessionStatus::Unfinished);
    drop(child_waits);
}
