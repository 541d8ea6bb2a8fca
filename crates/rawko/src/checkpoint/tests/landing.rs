//! Whatever a run does in its tree and somebody else in the project, what lands is both, or nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::collection::vec;
use proptest::prelude::*;
use rawko_core::session::{Landing, LandingEnd};

use super::bench::{Bench, SESSION};
use super::property::{Edit, World, carry_out, edit, world};
use crate::checkpoint::landing::Merge;
use crate::checkpoint::{BranchCommit, Checkpoints};
use crate::isolation::MARK;

/// A project, and a copy of it in which the session works.
struct Isolated {
    bench: Bench,
    copy: PathBuf,
}

impl Isolated {
    fn new(bench: Bench) -> Self {
        let copy = bench.outside().join("copy");
        let copied = Command::new("cp").arg("-a").args([bench.top(), copy.clone()]).status().unwrap();
        assert!(copied.success());
        std::fs::write(bench.checkpoints.directory.join(MARK), "").unwrap();
        let isolated = Self { bench, copy };
        isolated.inside().take(1).unwrap();
        isolated
    }

    /// The checkpoints, as the session takes them.
    fn inside(&self) -> Checkpoints {
        let mut inside = Checkpoints::new(&self.copy, &self.bench.checkpoints.directory, SESSION);
        inside.user.clone_from(&self.bench.checkpoints.user);
        inside
    }

    /// The session ends after these edits, and others have made theirs.
    fn ends(&self, run: &[Edit], others: &[Edit]) {
        run.iter().for_each(|edit| carry_out(&self.copy, edit));
        self.inside().take_end().unwrap();
        others.iter().for_each(|edit| carry_out(&self.bench.project(), edit));
    }

    /// What a new process lands.
    fn land(&self) -> Landing {
        let mut outside = Checkpoints::new(&self.bench.project(), &self.bench.checkpoints.directory, SESSION);
        outside.user.clone_from(&self.bench.checkpoints.user);
        outside.land(0).unwrap().unwrap()
    }
}

/// What a world has at a path, with its rights: empty folders are nobody's work.
fn at<'a>(world: &'a World, path: &str) -> Option<&'a str> {
    world.get(path).map(String::as_str).filter(|is| *is != "folder")
}

fn check(bench: Bench, first: &[Edit], run: &[Edit], others: &[Edit]) -> Result<(), TestCaseError> {
    first.iter().for_each(|edit| carry_out(&bench.project(), edit));
    let isolated = Isolated::new(bench);
    let project = isolated.bench.project();
    let began = world(&project);
    isolated.ends(run, others);
    let (ended, present) = (world(&isolated.copy), world(&project));
    let landing = isolated.land();
    let landed = world(&project);
    let story =
        || format!("{landing:?}\nbegan {began:?}\nended {ended:?}\npresent {present:?}\nlanded {landed:?}");
    if landing.end == LandingEnd::Conflicts {
        prop_assert!(!landing.conflicts.is_empty(), "{}", story());
        prop_assert_eq!(&landed, &present, "{}", story());
        // There is something that both changed, or one thing in the way of another.
        let paths: BTreeSet<&String> = began.keys().chain(ended.keys()).chain(present.keys()).collect();
        let differ = |world: &World, path: &str| world.get(path) != began.get(path);
        let entangled = paths.iter().any(|path| {
            let related = |other: &&&String| {
                path == *other
                    || path.starts_with(&format!("{other}/"))
                    || other.starts_with(&format!("{path}/"))
            };
            differ(&ended, path) && paths.iter().filter(related).any(|other| differ(&present, other))
        });
        prop_assert!(entangled, "{}", story());
        return Ok(());
    }
    prop_assert!(matches!(landing.end, LandingEnd::Landed | LandingEnd::Nothing), "{}", story());
    let paths: BTreeSet<&String> =
        began.keys().chain(ended.keys()).chain(present.keys()).chain(landed.keys()).collect();
    for path in paths {
        let [began, ended, present, landed] =
            [&began, &ended, &present, &landed].map(|world| at(world, path));
        let wanted = if ended == began {
            present
        } else if present == began || present == ended {
            ended
        } else {
            prop_assert!(landing.merged.contains(path), "{path}: {}", story());
            continue;
        };
        prop_assert_eq!(landed, wanted, "{}: {}", path, story());
    }
    // Nothing is left to do.
    prop_assert!(!Checkpoints::has_begun_landing(&isolated.bench.checkpoints.directory));
    Ok(())
}

fn edits(most: usize) -> impl Strategy<Value = Vec<Edit>> {
    // What is ignored does not land.
    vec(edit().prop_filter("ignores", |edit| !matches!(edit, Edit::Ignore(_))), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn in_a_repository(first in edits(6), run in edits(5), others in edits(4)) {
        check(Bench::repository(), &first, &run, &others)?;
    }

    #[test]
    fn in_a_folder(first in edits(6), run in edits(5), others in edits(4)) {
        check(Bench::plain(), &first, &run, &others)?;
    }
}

/// A landing that was begun and stopped anywhere is completed by the next process.
#[test]
fn a_landing_that_was_cut_off_is_completed() {
    let names = ["a", "d/x", "d/y", "new/deep/z"];
    for done in 0..1_u8 << names.len() {
        let bench = Bench::repository();
        bench.write("a", "old\n").write("d/x", "old\n");
        let isolated = Isolated::new(bench);
        let run =
            [Edit::Write("a", 1), Edit::Delete("d/x"), Edit::Write("d/y", 2), Edit::Write("new/deep/z", 3)];
        isolated.ends(&run, &[]);
        let store = isolated.bench.checkpoints.store().unwrap();
        assert_eq!(
            isolated.bench.checkpoints.begin_landing(&Merge::of(&store, 0).unwrap().unwrap()).unwrap(),
            None
        );
        for (at, edit) in run.iter().enumerate().filter(|(at, _)| done >> at & 1 == 1) {
            assert!(at < names.len());
            carry_out(&isolated.bench.project(), edit);
        }
        let landing = isolated.land();
        assert_eq!(landing.end, LandingEnd::Landed, "{done:b}");
        assert_eq!((landing.written.len(), landing.removed.len()), (3, 1), "{done:b}");
        assert_eq!(world(&isolated.bench.project()), world(&isolated.copy), "{done:b}");
        assert!(!Checkpoints::has_begun_landing(&isolated.bench.checkpoints.directory));
    }
}

/// The end of a landing, where the run wrote `run` to a file with `began`, and somebody else `others`; nothing is no file.
#[track_caller]
fn check_file(began: Option<&str>, run: Option<&str>, others: Option<&str>, expected: Result<&str, &str>) {
    let bench = Bench::repository();
    if let Some(text) = began {
        bench.write("f", text);
    }
    let isolated = Isolated::new(bench);
    let set = |root: &Path, text: Option<&str>| match text {
        Some(text) => std::fs::write(root.join("f"), text).unwrap(),
        None => drop(std::fs::remove_file(root.join("f"))),
    };
    set(&isolated.copy, run);
    isolated.ends(&[Edit::Write("other", 1)], &[]);
    set(&isolated.bench.project(), others);
    let landing = isolated.land();
    match expected {
        Ok(text) => {
            assert_eq!(landing.end, LandingEnd::Landed, "{landing:?}");
            assert_eq!(isolated.bench.read("f"), text);
        }
        Err(why) => {
            assert!(
                landing.conflicts[0].path == "f" && landing.conflicts[0].why.contains(why),
                "{landing:?}"
            );
            assert!(!isolated.bench.path("other").exists(), "nothing lands");
        }
    }
}

#[test]
fn both_changes_are_kept_or_nothing_lands() {
    let (began, run, others) = ("1\n2\n3\n4\n5\n", "one\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\n");
    check_file(Some(began), Some(run), Some(others), Ok("one\n2\n3\n4\nfive\n"));
    check_file(Some(began), Some(run), Some("uno\n2\n3\n4\n5\n"), Err("the same lines"));
    check_file(Some(began), None, Some(others), Err("the run removed it"));
    check_file(Some(began), Some(run), None, Err("it was removed here"));
    check_file(None, Some("a\n"), Some("b\n"), Err("the same lines"));
    check_file(None, Some("a\n"), Some("a\n"), Ok("a\n"));
    check_file(Some("a\0b"), Some("a\0c"), Some("a\0d"), Err("the same lines"));
}

#[test]
fn what_is_in_the_way_keeps_everything_from_landing() {
    let isolated = Isolated::new(Bench::repository());
    isolated.ends(&[Edit::Write("d/x", 1), Edit::Write("b", 1)], &[Edit::Write("d", 2)]);
    let landing = isolated.land();
    assert_eq!(landing.conflicts[0].path, "d", "{landing:?}");
    assert!(!isolated.bench.path("b").exists());
    let isolated = Isolated::new(Bench::repository());
    isolated.ends(&[Edit::Write("d", 1)], &[Edit::Write("d/x", 2)]);
    assert!(isolated.land().conflicts[0].why.contains("it is a folder here"));
}

#[test]
fn a_branch_has_the_work_as_one_commit() {
    let bench = Bench::repository();
    bench.write("mine", "not committed\n").write("tracked", "changed\n");
    bench.git(&["config", "user.name", "Ann"]);
    let head = bench.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let isolated = Isolated::new(bench);
    isolated.ends(&[Edit::Write("d/x", 1), Edit::Mode("d/x", 0o755)], &[]);
    let before = isolated.bench.users_own();
    let commit = BranchCommit { branch: "rawko/one", parent: Some(&head), message: "the task\n" };
    let landing = isolated.bench.checkpoints.land_on_branch(0, &commit).unwrap().unwrap();
    assert_eq!((landing.written, landing.branch.as_deref()), (vec!["d/x".to_owned()], Some("rawko/one")));
    let git = |args: &[&str]| isolated.bench.git(args).trim().to_owned();
    assert_eq!(git(&["diff", "--summary", &head, "rawko/one"]), "create mode 100755 d/x");
    assert_eq!(git(&["log", "--format=%s %an", &format!("{head}..rawko/one")]), "the task Ann");
    assert!(git(&["fsck", "--strict"]).is_empty());
    assert!(isolated.bench.users_own().starts_with(before.lines().next().unwrap()));
    assert!(!isolated.bench.path("d/x").exists());
    // A branch that is there stays.
    let second = isolated.bench.checkpoints.land_on_branch(0, &commit).unwrap().unwrap();
    assert_eq!(second.branch.as_deref(), Some("rawko/one-2"));
}
