//! Damaged sessions: what is said of them, and how one goes on.

use rawko::journal::{FORMAT, SessionStatus, read};

use crate::bench::{Bench, short};

/// A session whose record `seq` has lost a bit.
fn damaged(seq: usize) -> (Bench, String, Vec<u8>) {
    let bench = Bench::new(&short());
    bench.rawko(&["run", "--quiet", "Do it."]).check(0, &[]);
    let path = bench.journal_path();
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[seq] = lines[seq].replacen("\"data\"", "\"datA\"", 1);
    let bytes = (lines.join("\n") + "\n").into_bytes();
    std::fs::write(&path, &bytes).unwrap();
    let id = bench.store().list().unwrap().remove(0).id;
    (bench, id, bytes)
}

#[test]
fn damage_in_the_middle_is_reported_repaired_and_resumed() {
    let (bench, id, bytes) = damaged(6);
    let path = bench.journal_path();
    for command in [&["sessions", "show", &id][..], &["sessions", "export", &id], &["resume", &id]] {
        bench.rawko(command).check(1, &["record 6 (line 7) is damaged", "rawko sessions repair"]);
    }
    let said = bench.rawko(&["sessions", "repair", &id]);
    let said = said
        .check(0, &["6 intact records", "Lost:", "The damage: record 6", "was not changed", "rawko resume"]);
    let listed = bench.rawko(&["sessions", "list"]).check(0, &["unreadable", "record 6 (line 7) is damaged"]);
    assert!(!listed.out.contains("claimed"), "{}", listed.out);
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "the damaged one is as it was");
    let copy = said.out.lines().last().unwrap().rsplit(' ').next().unwrap().to_owned();
    assert_ne!(copy, id);
    std::fs::remove_file(bench.project().join("a.txt")).ok();
    bench.rawko(&["resume", &copy]).check(0, &["claimed"]);
    let sessions = bench.store().list().unwrap();
    assert_eq!(sessions.len(), 2);
    let resumed = sessions.into_iter().find(|session| session.id == copy).unwrap();
    assert_eq!(resumed.status, SessionStatus::Ended);
    let journal = read(&bench.store().find(&copy).unwrap()).unwrap();
    assert_eq!(journal.header.forked_from.unwrap().session, id);
}

#[test]
fn a_journal_of_another_format_is_refused_and_listed_as_such() {
    let bench = Bench::new(&short());
    bench.rawko(&["run", "--quiet", "Do it."]).check(0, &[]);
    let path = bench.journal_path();
    let current = std::fs::read_to_string(&path).unwrap();
    for (format, hint) in [(FORMAT - 1, "sessions rm"), (FORMAT + 1, "install a newer rawko")] {
        let other = current.replacen(&format!("\"format\":{FORMAT}"), &format!("\"format\":{format}"), 1);
        assert_ne!(other, current);
        std::fs::write(&path, &other).unwrap();
        let sentence = format!("written in format {format}, and this rawko reads format {FORMAT} alone");
        for command in [
            &["sessions", "show", "last"][..],
            &["sessions", "export", "last"],
            &["sessions", "repair", "last"],
            &["resume", "last"],
            &["continue", "last", "Do more."],
            &["fork", "last", "--no-run"],
            &["replay", "last"],
            &["explain", "last"],
        ] {
            bench.rawko(command).check(1, &[&sentence, "hint:", hint]);
        }
        bench.rawko(&["sessions", "list"]).check(0, &["unreadable", &sentence, hint]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), other, "it is not changed");
    }
    // One of this format is read by the same commands.
    std::fs::write(&path, current).unwrap();
    for command in [&["sessions", "show", "last"][..], &["sessions", "list"], &["replay", "last"]] {
        bench.rawko(command).check(0, &[]);
    }
}

#[test]
fn what_cannot_be_repaired_or_need_not_be_is_said() {
    let (bench, id, _) = damaged(0);
    bench.rawko(&["sessions", "list"]).check(0, &["unreadable", "record 0"]);
    bench.rawko(&["sessions", "repair", &id]).check(1, &["record 0", "sessions rm"]);
    bench.rawko(&["sessions", "rm", &id]).check(2, &["unreadable", "--yes"]);

    let bench = Bench::new(&short());
    bench.rawko(&["run", "--quiet", "Do it."]).check(0, &[]);
    bench.rawko(&["sessions", "repair", "last"]).check(2, &["nothing to repair"]);
}

#[test]
fn what_lies_about_is_listed_and_gone_around() {
    let bench = Bench::new(&short());
    bench.rawko(&["run", "--quiet", "Do it."]).check(0, &[]);
    let folder = bench.store().folder().to_owned();
    std::fs::create_dir(folder.join("99999999-000000-000-empty")).unwrap();
    std::fs::create_dir(folder.join("zz-my-backup")).unwrap();
    std::fs::write(folder.join("notes.txt"), "not a session").unwrap();
    bench.rawko(&["sessions", "list"]).check(0, &["claimed", "unreadable", "no journal here"]);
    bench.rawko(&["sessions", "show", "9999"]).check(1, &["no journal here", "sessions rm"]);
    bench.rawko(&["sessions", "rm", "9999", "--yes"]).check(0, &["removed 99999999-000000-000-empty"]);
    bench.rawko(&["sessions", "show"]).check(0, &["Do it."]);
    // A folder that is no session is neither listed nor removed.
    bench.rawko(&["sessions", "rm", "zz-my-backup", "--yes"]).check(2, &[]);
    assert!(folder.join("zz-my-backup").is_dir());
}
