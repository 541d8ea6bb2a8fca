//! Which session `resume` and `continue` take without an id, for every state that the newest one can be in: it alone, or
//! none and the reason. An older one is taken by `resume` only where the newest has ended for good or is no session.

use rawko::journal::{FORMAT, JournalWriter, SessionStatus};

use crate::support::Said;
use crate::world::World;

/// What becomes of a command.
#[derive(Debug, Clone, Copy)]
enum Expected {
    /// It takes the newest session, and says this.
    Newest(&'static str),
    /// `resume` goes on to the older one, if that can be resumed: the newest has ended, or is no session.
    Older,
    /// It takes the older one: that is the newest session.
    OlderIsNewest,
    /// It names the newest and the reason, and exits with this status.
    Refused(i32, &'static [&'static str]),
}

/// A state of the newest session, and what the commands make of it.
pub(crate) struct State {
    pub(crate) name: &'static str,
    /// Brings it about; what it returns lives as long as the case.
    pub(crate) make: fn(&World) -> Option<JournalWriter>,
    resume: Expected,
    continued: Expected,
}

impl State {
    /// One that no command of this matrix is tried on.
    pub(crate) fn new(name: &'static str, make: fn(&World) -> Option<JournalWriter>) -> Self {
        Self { name, make, resume: Expected::Older, continued: Expected::Older }
    }
}

const NOT_ENDED: Expected = Expected::Refused(2, &["has not ended its task", "rawko resume"]);

pub(crate) fn states() -> Vec<State> {
    use Expected::{Newest, Older, OlderIsNewest, Refused};
    let state = |name, make, resume, continued| State { name, make, resume, continued };
    vec![
        state(
            "running",
            |world| {
                world.cut(8);
                Some(JournalWriter::reopen(&world.journal()).unwrap().0)
            },
            Refused(1, &["is running", "rawko cancel"]),
            Refused(1, &["another rawko process", "rawko cancel"]),
        ),
        state("ended", |_| None, Older, Newest("continued")),
        state("interrupted", |world| world.cut(8), Newest("resumed"), NOT_ENDED),
        state(
            "damaged",
            |world| {
                world.cut(8);
                world.change(|text| text.replacen("I write.", "I wrote.", 1))
            },
            Refused(1, &["damaged", "rawko sessions repair"]),
            Refused(1, &["damaged", "rawko sessions repair"]),
        ),
        state(
            "damaged at its task",
            |world| {
                world.cut(8);
                world.change(|text| text.replacen("TaskStarted", "TaskStartet", 1))
            },
            Refused(1, &["damaged", "rawko sessions rm"]),
            Refused(1, &["damaged", "rawko sessions rm"]),
        ),
        state(
            "damaged at its beginning",
            |world| world.change(|text| text.replacen("\"session\"", "\"sessiom\"", 1)),
            Refused(1, &["record 0", "rawko sessions rm"]),
            Refused(1, &["record 0", "rawko sessions rm"]),
        ),
        state(
            "a torn last line",
            |world| {
                world.cut(8);
                world.change(|text| text[..text.len() - 9].to_owned())
            },
            Newest("incomplete record"),
            NOT_ENDED,
        ),
        state(
            "a newer format",
            |world| world.change(|text| text.replacen(&format!("\"format\":{FORMAT}"), "\"format\":4000", 1)),
            Refused(1, &["format 4000", "newer rawko"]),
            Refused(1, &["format 4000", "newer rawko"]),
        ),
        state(
            "an older format",
            |world| world.change(|text| text.replacen(&format!("\"format\":{FORMAT}"), "\"format\":1", 1)),
            Refused(1, &["format 1,", "rawko sessions rm"]),
            Refused(1, &["format 1,", "rawko sessions rm"]),
        ),
        state(
            "the header alone",
            |world| world.at_its_beginning(|text| text.split_inclusive('\n').take(1).collect()),
            Older,
            Refused(2, &["before its task was recorded", "rawko sessions rm"]),
        ),
        state(
            "an empty file",
            |world| world.at_its_beginning(|_| String::new()),
            Older,
            Refused(1, &["record 0", "rawko sessions rm"]),
        ),
        state(
            "a torn header",
            |world| world.at_its_beginning(|text| text[..40].to_owned()),
            Older,
            Refused(1, &["record 0", "rawko sessions rm"]),
        ),
        state(
            "no journal",
            |world| {
                std::fs::remove_file(world.journal()).unwrap();
                None
            },
            Refused(1, &["no journal", "rawko sessions rm"]),
            Refused(1, &["no journal", "rawko sessions rm"]),
        ),
        state(
            "a folder that is no session",
            |world| {
                let folder = world.bench.store().folder().join("zz-my-backup");
                std::fs::rename(world.journal().parent().unwrap(), folder.clone()).unwrap();
                std::fs::remove_file(folder.join("journal.jsonl")).unwrap();
                None
            },
            OlderIsNewest,
            OlderIsNewest,
        ),
        state(
            "a journal in another's folder",
            |world| {
                world.cut(8);
                let folder = world.bench.store().folder().join("zz-my-backup");
                std::fs::rename(world.journal().parent().unwrap(), folder).unwrap();
                None
            },
            Refused(1, &["zz-my-backup", "in another's directory"]),
            Refused(1, &["zz-my-backup", "in another's directory"]),
        ),
        state(
            "a file with a second name",
            |world| {
                std::fs::hard_link(world.journal(), world.bench.outside().join("second")).unwrap();
                None
            },
            Refused(1, &["a second name"]),
            Refused(1, &["a second name"]),
        ),
        state(
            "another owner's, or not to be read",
            |world| {
                use std::os::unix::fs::PermissionsExt;
                // Only root can give a file away, and only root can read what may not be read.
                if std::os::unix::fs::chown(world.journal(), Some(1), None).is_err() {
                    std::fs::set_permissions(world.journal(), PermissionsExt::from_mode(0o000)).unwrap();
                }
                None
            },
            Refused(1, &[" open "]),
            Refused(1, &[" open "]),
        ),
        state(
            "ended by a limit",
            |world| {
                world.instead(&["run", "--quiet", "--max-iterations", "1", "Do the newest task twice."], 3)
            },
            Refused(2, &["which still holds", "--max-iterations N"]),
            Newest("continued"),
        ),
        state(
            "cancelled",
            |world| {
                world.cut(8);
                world.bench.rawko(&["cancel", "last"]).check(0, &[]);
                None
            },
            Older,
            Newest("continued"),
        ),
        state(
            "a repaired copy beside its damaged original",
            |world| {
                world.cut(8);
                world.change(|text| text.replacen("I write.", "I wrote.", 1));
                world.bench.rawko(&["sessions", "repair", "last"]).check(0, &[]);
                None
            },
            Newest("resumed"),
            NOT_ENDED,
        ),
        state(
            "a fork beside its parent",
            |world| {
                world.cut(8);
                world.bench.rawko(&["fork", "last", "--no-run"]).check(0, &[]);
                None
            },
            Newest("resumed"),
            NOT_ENDED,
        ),
    ]
}

#[track_caller]
fn check(world: &World, state: &State, older_is_open: bool, command: &[&str], expected: Expected) {
    let what =
        format!("{command:?}, the newest session is: {}, the older one is open: {older_is_open}", state.name);
    world.restore();
    let _held = (state.make)(world);
    let newest = world.bench.store().list().unwrap().pop().unwrap().id;
    let before = world.bytes_of_older();
    let said = world.bench.rawko(command);
    let Said { code, out, err } = &said;
    let both = format!("{what}: {code:?}\n{out}{err}");
    let older_is_as_it_was = world.bytes_of_older() == before;
    match expected {
        Expected::Newest(words) => {
            assert_eq!(*code, Some(0), "{both}");
            assert!(both.contains(&format!("session {newest}")) && both.contains(words), "{both}");
            assert!(older_is_as_it_was, "the older session was touched: {both}");
        }
        Expected::Refused(expected, words) => {
            assert_eq!(*code, Some(expected), "{both}");
            let refused = words.iter().all(|word| err.contains(word));
            assert!(refused && err.contains(&newest) && err.contains("hint:"), "{both}");
            assert!(older_is_as_it_was, "the older session was touched: {both}");
        }
        Expected::Older | Expected::OlderIsNewest if command[0] == "resume" && older_is_open => {
            assert_eq!(*code, Some(0), "{both}");
            assert!(both.contains(&format!("session {} resumed", world.older)), "{both}");
        }
        Expected::Older | Expected::OlderIsNewest if command[0] == "resume" => {
            assert_eq!(*code, Some(2), "{both}");
            assert!(err.contains("no unfinished session") && older_is_as_it_was, "{both}");
        }
        Expected::OlderIsNewest if older_is_open => {
            assert_eq!(*code, Some(2), "{both}");
            assert!(err.contains(&world.older) && err.contains("has not ended its task"), "{both}");
        }
        Expected::Older | Expected::OlderIsNewest => {
            assert_eq!(*code, Some(0), "{both}");
            assert!(both.contains(&format!("session {} continued", world.older)), "{both}");
        }
    }
}

fn check_all(older_lines: Option<usize>) {
    let world = World::new(older_lines);
    let older_is_open = older_lines.is_some();
    for state in states() {
        check(&world, &state, older_is_open, &["resume"], state.resume);
        check(&world, &state, older_is_open, &["continue", "Do another task."], state.continued);
        check(&world, &state, older_is_open, &["-c", "Do another task."], state.continued);
    }
}

#[test]
fn with_an_older_session_that_could_be_resumed() {
    check_all(Some(8));
}

#[test]
fn with_an_older_session_that_has_ended() {
    check_all(None);
}

/// A repaired copy takes the place of the damaged session, also once it has ended.
#[test]
fn a_damaged_session_that_was_repaired_stands_in_no_ones_way() {
    let world = World::new(Some(8));
    world.cut(8);
    world.change(|text| text.replacen("I write.", "I wrote.", 1));
    world.bench.rawko(&["sessions", "repair", "last"]).check(0, &[]);
    world.bench.rawko(&["resume"]).check(0, &["Do the newest task."]);
    world.bench.rawko(&["resume"]).check(0, &["Do the older task."]);
    world.bench.rawko(&["resume"]).check(2, &["no unfinished session"]);
    let open = world.bench.store().list().unwrap().into_iter();
    let open: Vec<String> =
        open.filter(|session| session.status != SessionStatus::Ended).map(|session| session.id).collect();
    assert_eq!(open, [world.newest], "the damaged one is as it was");
}
