//! What a new memory is compared with, and that no memory overwrites another.

use std::fs;
use std::sync::Barrier;
use std::time::Duration;

use rawko_core::memory::Reason;

use super::*;
use crate::memory::Retirement;
use crate::memory::tests::{NOW, Project};

/// The memory `port.md` in words of its own.
fn port() -> NewMemory {
    NewMemory {
        body: "The body of Port.".to_owned(),
        ..NewMemory::new("Port", vec!["x".to_owned()], "me", NOW)
    }
}

#[test]
fn what_was_retired_is_not_learned_again_but_may_be_written() {
    let check = |file: &str, other: Option<&str>, (is_added, is_learned): (bool, bool)| {
        let project = Project::new();
        project.memory("port.md", "Port", "auth", file);
        if let Some(more) = other {
            project.memory("other.md", "Other", "auth", more);
        }
        let store = project.store();
        let learned = store.learn(&port(), "again").unwrap();
        assert_eq!(matches!(learned, Learned::Written { .. }), is_learned, "{file} {other:?}");
        let text = fs::read_to_string(store.folder().join("port.md")).unwrap();
        assert_eq!(text.contains("# Seen again\n\n- again\n"), !is_learned, "{text}");
        if is_learned {
            fs::remove_file(store.folder().join("port-2.md")).unwrap();
        }
        assert_eq!(store.add(&port(), false).is_ok(), is_added, "{file} {other:?}");
    };
    check("", None, (false, false));
    check("expiresAt: 2030-01-01\n", None, (false, false));
    check("expiresAt: 2026-01-01\n", None, (true, false));
    check("", Some("supersedes: port\n"), (true, false));
    // A fact is no duplicate of a warning.
    check("kind: avoid\n", None, (true, true));
}

#[test]
fn a_memory_that_is_given_is_noted_on_before_a_retired_one() {
    let project = Project::new();
    project.memory("a.md", "Port", "auth", "expiresAt: 2026-01-01\n");
    project.memory("b.md", "Port", "auth", "");
    let learned = project.store().learn(&port(), "again").unwrap();
    assert_eq!(learned, Learned::NotedOn { path: "b.md".to_owned() });
}

#[test]
fn the_same_under_another_title_is_found() {
    let project = Project::new();
    project.memory("port.md", "Port", "when running the tests", "tags: [network]\n");
    let check = |title: &str, when: &str, tag: &str, is_known: bool| {
        let new = NewMemory {
            body: port().body,
            tags: vec![tag.to_owned()],
            ..NewMemory::new(title, vec![when.to_owned()], "me", NOW)
        };
        let added = project.store().add(&new, false);
        assert_eq!(matches!(added, Err(WriteError::Duplicate { .. })), is_known, "{title}: {added:?}");
    };
    check("Where the server listens", "testing the client", "", true);
    check("Where the server listens", "x", "networks", true);
    // Stop words alone, which have no stems.
    project.memory("how.md", "How to do it", "to it", "");
    let how = NewMemory {
        body: "The body of How to do it.".to_owned(),
        ..NewMemory::new("How to do it", vec!["it".to_owned()], "me", NOW)
    };
    assert!(
        matches!(project.store().add(&how, false), Err(WriteError::Duplicate { path, .. }) if path == "how.md")
    );
    // By no word of these can it be found.
    check("Where the server listens", "x", "y", false);
}

/// Each writer finds what the others wrote: nothing is lost and nothing written twice.
#[test]
fn writers_wait_for_each_other() {
    const WRITERS: usize = 8;
    let project = Project::new();
    project.memory("new.md", "New", "auth", "");
    for number in 0..WRITERS {
        project.memory(&format!("m{number}.md"), &format!("M{number}"), "auth", "");
    }
    let together = |work: &(dyn Fn(MemoryStore, usize) + Sync)| {
        let barrier = Barrier::new(WRITERS);
        std::thread::scope(|scope| {
            for number in 0..WRITERS {
                let (barrier, store) = (&barrier, project.store());
                scope.spawn(move || {
                    barrier.wait();
                    work(store, number);
                });
            }
        });
    };
    together(&|store, number| {
        let one = |name: &str| store.find(name).remove(0);
        let retired = store.supersede(&one(&format!("m{number}.md")), &one("new.md"), NOW);
        assert_eq!(retired.unwrap(), Retirement::Done);
    });
    let mut superseded = project.store().find("new.md").remove(0).header.supersedes;
    superseded.sort();
    assert_eq!(superseded, (0..WRITERS).map(|number| format!("m{number}.md")).collect::<Vec<_>>());

    together(&|store, _| match store.add(&port(), false) {
        Ok(path) | Err(WriteError::Duplicate { path, .. }) => assert_eq!(path, "port.md"),
        Err(other) => panic!("{other}"),
    });
    together(&|store, number| {
        let learned = store.learn(&port(), &format!("note {number}")).unwrap();
        assert_eq!(learned, Learned::NotedOn { path: "port.md".to_owned() });
    });
    let text = fs::read_to_string(project.store().folder().join("port.md")).unwrap();
    assert_eq!(
        (text.matches("# Seen again").count(), text.matches("- note ").count()),
        (1, WRITERS),
        "{text}"
    );
    let retired = std::sync::Mutex::new(0);
    together(&|store, _| match store.retire("port.md", NOW).unwrap() {
        Retirement::Done => *retired.lock().unwrap() += 1,
        Retirement::Already(Reason::Expired { .. }) => {}
        Retirement::Already(other) => panic!("{other:?}"),
    });
    assert_eq!(retired.into_inner().unwrap(), 1);
}

#[test]
fn a_writer_that_cannot_wait_gets_an_error() {
    let project = Project::new();
    project.memory("port.md", "Port", "auth", "");
    let store = project.store().with_patience(Duration::from_millis(20));
    let held = project.store().lock().unwrap();
    assert!(held.is_some());
    assert!(matches!(store.learn(&port(), "again"), Err(WriteError::Busy)));
    assert!(matches!(store.retire("port.md", NOW), Err(WriteError::Busy)));
    drop(held);
    assert!(store.learn(&port(), "again").is_ok());
}

#[test]
fn many_retired_ones_hide_none_that_is_given() {
    let project = Project::new();
    for number in 0..60 {
        project.memory(&format!("old-{number}.md"), "Port x x", "x", "expiresAt: 2020-01-01\n");
    }
    // Less like it than all of them.
    project.memory("given.md", "Port", "auth", "");
    assert_eq!(
        project.store().learn(&port(), "again").unwrap(),
        Learned::NotedOn { path: "given.md".to_owned() }
    );
}
