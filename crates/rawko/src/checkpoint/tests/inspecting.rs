//! What the run did to the tree, in figures, and the tree's name.

use super::bench::{Bench, SESSION};

fn tree(bench: &Bench) -> String {
    bench.checkpoints.tree().unwrap()
}

/// A repository and a folder come to the same figures.
fn check(bench: &Bench) {
    bench
        .write(".gitignore", "*.log\n")
        .write("file", "1\n2\n3\n")
        .write("gone", "a\nb\n")
        .write("bin", b"\0\xff");
    bench.take(1);
    bench.write("file", "1\n2\nthree\nfour\n").write("x.log", "ignored");
    bench.take(2);
    let nothing = bench.checkpoints.inspect(2).unwrap();
    assert!(nothing.execution.is_empty(), "{nothing:?}");
    bench.write("new\nfile", "n\n").remove("gone").write("bin", b"\0\xfe");
    let seen = bench.checkpoints.inspect(2).unwrap();
    assert_eq!(
        seen.execution.names,
        ["bin (not text)", "gone +0 -2 (deleted)", "new\u{fffd}file +1 -0 (new)"]
    );
    assert_eq!((seen.execution.files, seen.execution.insertions, seen.execution.deletions), (3, 1, 2));
    assert_eq!((seen.run.files, seen.run.insertions, seen.run.deletions), (4, 3, 3));
    assert_eq!(seen.execution_files, ["bin", "gone", "new\nfile"]);
    assert_eq!(seen.files, ["bin", "file", "gone", "new\nfile"]);
    assert_eq!(seen.run.names[1], "file +2 -1");
    assert_eq!(seen.tree, tree(bench));
    assert_ne!(seen.tree, nothing.tree);
    let of_one = bench.checkpoints.inspect(1).unwrap();
    assert_eq!(of_one.execution, of_one.run);
    assert_eq!(of_one.run, seen.run);
    let error = bench.checkpoints.inspect(7).unwrap_err().to_string();
    assert_eq!(error, format!("session {SESSION} has no checkpoint `7`: there are 1, 2"));
}

#[test]
fn in_a_repository() {
    check(&Bench::repository());
}

#[test]
fn in_a_folder() {
    check(&Bench::plain());
}

/// Changes that someone makes while no execution is under way are not the run's.
#[test]
fn what_others_change_between_executions_is_not_counted() {
    let bench = Bench::repository();
    bench.take(1);
    bench.write("both", "it\n").write("by_it", "it\n");
    bench.checkpoints.take_after(1).unwrap();
    bench.write("both", "somebody\n").write("by_others", "somebody\n");
    assert_eq!(bench.checkpoints.inspect(1).unwrap().files, ["both", "by_it"]);
    std::thread::sleep(std::time::Duration::from_millis(2));
    bench.take(2);
    bench.write("later", "it\n");
    let seen = bench.checkpoints.inspect(2).unwrap();
    assert_eq!(
        (seen.files.join(" "), seen.execution_files.join(" ")),
        ("both by_it later".into(), "later".into())
    );
    assert_eq!((seen.run.files, seen.execution.files), (3, 1));
    bench.write("by_others", "it too\n");
    assert_eq!(bench.checkpoints.inspect(2).unwrap().files, ["both", "by_it", "by_others", "later"]);
}

/// A file that becomes ignored has not been removed.
#[test]
fn what_is_ignored_since_is_not_gone() {
    for bench in [Bench::repository(), Bench::plain()] {
        bench.write("new.log", "x\n").take(1);
        bench.write(".gitignore", "*.log\n");
        let seen = bench.checkpoints.inspect(1).unwrap();
        assert_eq!(seen.execution.names, [".gitignore +1 -0 (new)"]);
    }
}

#[test]
fn equal_trees_have_equal_names_and_no_others_do() {
    for bench in [Bench::repository(), Bench::plain()] {
        bench.write(".gitignore", "/out/\n").write("file", "one");
        let names = |bench: &Bench| (tree(bench), tree(bench));
        let (first, again) = names(&bench);
        assert_eq!(first, again);
        bench.take(1);
        assert_eq!(tree(&bench), first, "nothing was changed");
        bench.write("out/built", "ignored");
        assert_eq!(tree(&bench), first, "what is ignored is no part of the tree");
        // As long as before, and within the same tick of the clock.
        bench.write("file", "two");
        let second = tree(&bench);
        assert_ne!(second, first);
        bench.executable("file", 0o755);
        assert_ne!(tree(&bench), second);
        bench.executable("file", 0o644).write("file", "one");
        assert_eq!(tree(&bench), first);
    }
}

/// Files that change within a tick of the clock, and keep their size, are not taken for unchanged.
#[test]
fn no_change_is_overlooked_because_it_was_quick() {
    let bench = Bench::repository();
    let mut before = String::new();
    for at in 0..30 {
        bench.write("file", format!("{at:02}"));
        if at % 2 == 0 {
            bench.take(at / 2 + 1);
            before = tree(&bench);
        } else {
            assert_ne!(tree(&bench), before, "{at}");
        }
    }
}
