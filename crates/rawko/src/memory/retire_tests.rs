//! What retiring does, and what it refuses.

use std::fs;

use super::*;
use crate::memory::tests::{NOW, Project, holds};

#[test]
fn what_takes_the_place_of_another_must_be_given_itself() {
    let project = Project::new();
    project.memory("a.md", "A", "auth", "supersedes: [b]\n");
    project.memory("b.md", "B", "auth", "supersedes: [c]\n");
    project.memory("c.md", "C", "auth", "");
    project.memory("old.md", "Old", "auth", "expiresAt: 2020-01-01\n");
    project.memory("new.md", "New", "auth", "");
    let store = project.store();
    let supersede = |old: &str, new: &str| {
        let one = |name: &str| store.find(name).remove(0);
        store.supersede(&one(old), &one(new), NOW)
    };
    // What takes its place, why that is not given, and what is given instead of it.
    let check = |old: &str, new: &str, by: Option<&str>, expected: Option<&str>| {
        let before = project.given("auth");
        match supersede(old, new).unwrap_err() {
            WriteError::NotGiven { path, reason, instead } => {
                let reason_by = match &reason {
                    Reason::Superseded { by } => Some(by.as_str()),
                    _ => None,
                };
                assert_eq!((path.as_str(), reason_by, instead.as_deref()), (new, by, expected));
            }
            other => panic!("{other}"),
        }
        assert_eq!(project.given("auth"), before);
    };
    check("a.md", "b.md", Some("a.md"), None);
    // Over another one.
    check("a.md", "c.md", Some("b.md"), None);
    check("new.md", "c.md", Some("b.md"), Some("a.md"));
    check("new.md", "old.md", None, None);
    assert_eq!(supersede("a.md", "new.md").unwrap(), Retirement::Done);
    let again = Retirement::Already(Reason::Superseded { by: "new.md".to_owned() });
    let text = || fs::read_to_string(store.folder().join("new.md")).unwrap();
    let before = text();
    assert_eq!(
        (supersede("a.md", "new.md").unwrap(), store.retire("a.md", NOW).unwrap()),
        (again.clone(), again)
    );
    assert_eq!(text(), before);
    let expired = store.retire("old.md", NOW).unwrap();
    assert!(matches!(expired, Retirement::Already(Reason::Expired { at }) if at < NOW), "{expired:?}");
    assert!(fs::read_to_string(store.folder().join("old.md")).unwrap().contains("expiresAt: 2020-01-01\n"));
    assert_eq!(project.given("auth"), ["new.md"]);
    // One by hand that has no end is refused too, and does not take for ever.
    project.memory("x.md", "X", "auth", "supersedes: [y]\n");
    project.memory("y.md", "Y", "auth", "supersedes: [x]\n");
    check("new.md", "x.md", Some("y.md"), None);
}

#[test]
fn circles_of_any_length_are_found() {
    let project = Project::new();
    for (name, supersedes) in
        [("a", "b"), ("b", "c"), ("c", "[d, a]"), ("d", "c"), ("e", "[a, f]"), ("f", "[]")]
    {
        project.memory(&format!("{name}.md"), name, "auth", &format!("supersedes: {supersedes}\n"));
    }
    holds(
        &project.store().check(NOW),
        &[
            "a.md:7 `supersedes` leads in a circle (a.md, b.md, c.md)",
            "b.md:7 `supersedes` leads in a circle (b.md, c.md, a.md)",
            "c.md:7 `supersedes` leads in a circle (c.md, a.md, b.md)",
            "c.md:7 this memory and `d` supersede each other",
            "d.md:7 this memory and `c` supersede each other",
        ],
    );
}

#[test]
fn what_an_expired_memory_replaces_is_given() {
    let project = Project::new();
    let expired = "expiresAt: 2026-01-01\n";
    project.memory("a.md", "A", "auth", &format!("supersedes: [b, c, d, e]\n{expired}"));
    project.memory("b.md", "B", "auth", "");
    // These are retired whatever becomes of the first one.
    project.memory("c.md", "C", "auth", expired);
    project.memory("d.md", "D", "auth", "");
    project.memory("new.md", "New", "auth", "supersedes: d\n");
    // The last of them supersedes both.
    project.memory("e.md", "E", "auth", "");
    project.memory("f.md", "F", "auth", "supersedes: e\n");
    project.memory("g.md", "G", "auth", "supersedes: f\n");
    let store = project.store();
    assert_eq!(store.silenced_by("a.md", NOW), ["b.md"]);
    assert!(store.silenced_by("g.md", NOW).is_empty() && store.silenced_by("none.md", NOW).is_empty());
    let said = |name: &str| format!("a.md:7 has expired and still supersedes {name}: neither is given");
    holds(&store.check(NOW), &[&said("b.md")]);
}
