//! `rawko resume` without an id: the newest session that has not ended is resumed, or named with the reason why not.
//! An older one is never taken in its place. See also [`matrix`](crate::matrix).

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rawko::journal::{JournalWriter, SessionInfo, SessionStatus};

use crate::bench::{Bench, Said, short};

/// An older session and a newer one, both interrupted after their first tool call.
struct Two {
    bench: Bench,
    older: String,
    newest: String,
}

impl Two {
    fn new() -> Self {
        let bench = Bench::new(&short());
        for task in ["Do the older task.", "Do the newest task."] {
            bench.rawko(&["run", "--quiet", task]).check(0, &[]);
            cut(&bench.journal_path(), 8);
        }
        let ids: Vec<String> = sessions(&bench).into_iter().map(|session| session.id).collect();
        let [older, newest] = ids.try_into().unwrap();
        Self { bench, older, newest }
    }

    fn journal(&self) -> PathBuf {
        self.bench.journal_path()
    }

    /// `rawko resume` stops, names the newest session and says why it does; the older one stays as it was.
    #[track_caller]
    fn stops(&self, words: &[&str]) -> Said {
        let before = self.bytes_of_older();
        let said = self.bench.rawko(&["resume"]).check(1, &[&self.newest]).check(1, words);
        assert!(said.err.contains("hint:"), "{}", said.err);
        assert!(said.err.contains(&format!("rawko resume {}", self.older)), "{}", said.err);
        assert_eq!(self.bytes_of_older(), before, "the older session was touched");
        said
    }

    fn bytes_of_older(&self) -> Vec<u8> {
        std::fs::read(self.bench.store().find(&self.older).unwrap()).unwrap()
    }

    #[track_caller]
    fn status(&self, id: &str) -> SessionStatus {
        sessions(&self.bench).into_iter().find(|session| session.id == id).unwrap().status
    }
}

fn sessions(bench: &Bench) -> Vec<SessionInfo> {
    bench.store().list().unwrap()
}

/// Cuts a journal behind its first `lines` lines, as a kill would.
fn cut(journal: &std::path::Path, lines: usize) {
    let text = std::fs::read_to_string(journal).unwrap();
    let kept: String = text.split_inclusive('\n').take(lines).collect();
    assert!(kept.len() < text.len());
    std::fs::write(journal, kept).unwrap();
}

#[test]
fn resume_takes_the_newest_unfinished_session() {
    let two = Two::new();
    two.bench.rawko(&["resume"]).check(0, &[&two.newest, "Do the newest task."]);
    assert_eq!(two.status(&two.newest), SessionStatus::Ended);
    // One that has ended is not asked about again.
    two.bench.rawko(&["resume"]).check(0, &[&two.older, "Do the older task."]);
    two.bench.rawko(&["resume"]).check(2, &["no unfinished session", "rawko sessions list"]);
}

#[test]
fn resume_names_a_damaged_newest_session_instead_of_taking_an_older_one() {
    for record in [3, 7] {
        let two = Two::new();
        let path = two.journal();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines[record] = lines[record].replacen("\"data\"", "\"datA\"", 1);
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        let repair = format!("rawko sessions repair {}", two.newest);
        two.stops(&[&format!("record {record}"), "damaged", &repair]);
    }
}

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
    let two = Two::new();
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
