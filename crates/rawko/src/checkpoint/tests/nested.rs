//! Repositories inside the project: submodules, clones, linked work trees.

use super::bench::Bench;
use crate::checkpoint::{DiffRange, Version};

/// A repository with a submodule, an untracked clone, a repository in that, and one without a commit.
fn bench() -> Bench {
    let bench = Bench::repository();
    for name in ["clone", "clone/deep", "empty"] {
        std::fs::create_dir_all(bench.path(name)).unwrap();
        bench.git_in(&bench.path(name), &["init", "--quiet"]);
        bench.write(format!("{name}/inside"), "1\n");
    }
    bench.write("clone/.gitignore", "*.log\n").write("clone/x.log", "ignored\n");
    bench.git_in(&bench.path("clone"), &["add", "inside", ".gitignore"]);
    bench.git_in(&bench.path("clone"), &["commit", "--quiet", "--message", "x"]);
    let clone = bench.path("clone");
    bench.git(&["submodule", "--quiet", "add", clone.to_str().unwrap(), "module"]);
    bench.git(&["commit", "--quiet", "--all", "--message", "a module"]);
    bench.write("module/untracked", "u\n").write("module/x.log", "ignored\n");
    bench
}

/// The user's own files in the repositories.
fn users_own(bench: &Bench) -> String {
    let of = |folder: &str| {
        let ask = |args: &[&str]| bench.git_in(&bench.path(folder), args);
        [ask(&["ls-files", "--stage"]), ask(&["for-each-ref"]), ask(&["status", "--porcelain"])].concat()
    };
    let index = |path: &str| std::fs::read(bench.path(path)).unwrap().escape_ascii().to_string();
    let head = std::fs::read_to_string(bench.path(".git/modules/module/HEAD")).unwrap();
    [bench.users_own(), of("module"), of("clone"), head, index(".git/modules/module/index")].concat()
}

#[test]
fn their_files_are_the_projects() {
    let bench = bench();
    let before = users_own(&bench);
    let id = bench.take(1);
    let all = [
        ".gitmodules",
        "clone/.gitignore",
        "clone/deep/inside",
        "clone/inside",
        "empty/inside",
        "module/.gitignore",
        "module/inside",
        "module/untracked",
        "tracked",
    ];
    assert_eq!(bench.kept(&id), all);
    assert_eq!(bench.git(&["for-each-ref", "refs/rawko"]).lines().count(), 1);
    assert_eq!(users_own(&bench).replace(&bench.git(&["for-each-ref", "refs/rawko"]), ""), before);
    let tree = bench.tree();
    bench.write("module/inside", "2\n").write("clone/deep/inside", "2\n").write("module/new", "n\n");
    bench.remove("clone/inside").write("module/more.log", "ignored\n");
    bench.end();
    let names: Vec<String> =
        bench.changes(DiffRange::Session).files.into_iter().map(|file| file.path).collect();
    assert_eq!(names, ["clone/deep/inside", "clone/inside", "module/inside", "module/new"]);
    let done = bench.rewind("1");
    assert_eq!(done.restored, ["clone/deep/inside", "clone/inside", "module/inside"]);
    assert_eq!((done.removed, done.left_alone), (vec!["module/new".to_owned()], vec![]));
    bench.remove("module/more.log");
    assert_eq!(bench.tree(), tree);
}

#[test]
fn a_commit_in_one_is_seen_by_its_files_and_nothing_of_it_is_undone() {
    let bench = bench();
    bench.take(1);
    let module = bench.path("module");
    bench.write("module/inside", "2\n");
    bench.git_in(&module, &["commit", "--quiet", "--all", "--message", "y"]);
    let head = bench.git_in(&module, &["rev-parse", "HEAD"]);
    bench.end();
    let names: Vec<String> =
        bench.changes(DiffRange::Session).files.into_iter().map(|file| file.path).collect();
    assert_eq!(names, ["module/inside"]);
    bench.rewind("1");
    assert_eq!(bench.read("module/inside"), "1\n");
    assert_eq!(bench.git_in(&module, &["rev-parse", "HEAD"]), head);
}

#[test]
fn one_that_is_removed_leaves_its_files() {
    let bench = bench();
    bench.take(1);
    std::fs::remove_dir_all(bench.path("clone")).unwrap();
    bench.end();
    assert_eq!(bench.rewind("1").restored, ["clone/.gitignore", "clone/deep/inside", "clone/inside"]);
    assert_eq!(bench.read("clone/deep/inside"), "1\n");
}

#[test]
fn one_that_is_made_hides_nothing() {
    let bench = Bench::repository();
    bench.write("tests/test", "strict\n").write("tests/new/more", "m\n").take(1);
    bench.git_in(&bench.path("tests"), &["init", "--quiet"]);
    bench.write("tests/.gitignore", "*\n").write("tests/test", "weakened\n");
    let trees = bench.checkpoints.trees().unwrap().unwrap();
    assert_eq!(trees.content("tests/test", &Version::Now).unwrap(), b"weakened\n");
    // An index that git cannot read is none.
    bench.write("tests/.git/index", "DIRC").remove("tests/.gitignore");
    assert_eq!(bench.kept(&bench.take(2)), ["tests/new/more", "tests/test", "tracked"]);
}

#[test]
fn what_its_own_lists_ignore_is_left_and_what_the_project_ignores_is_not() {
    let bench = bench();
    bench.write(".gitignore", "*.out\nhidden/\n").write("module/a.out", "kept\n");
    std::fs::create_dir(bench.path("hidden")).unwrap();
    bench.git_in(&bench.path("hidden"), &["init", "--quiet"]);
    bench.write("hidden/inside", "not looked at\n");
    let kept = bench.kept(&bench.take(1));
    assert!(
        kept.contains(&"module/a.out".to_owned()) && !kept.contains(&"hidden/inside".to_owned()),
        "{kept:?}"
    );
    bench.write("module/b.out", "new\n").end();
    let done = bench.rewind("1");
    assert_eq!((done.removed, done.left_alone), (vec!["module/b.out".to_owned()], vec![]));
    let ignored = bench.checkpoints.ignored().unwrap();
    assert!(ignored.contains(&"module/x.log".to_owned()), "{ignored:?}");
    assert_eq!(bench.read("hidden/inside"), "not looked at\n");
}

#[test]
fn one_that_a_link_leads_to_is_not_entered() {
    let bench = bench();
    let elsewhere = bench.outside().join("elsewhere");
    std::fs::rename(bench.path("module"), &elsewhere).unwrap();
    bench.link("module", &elsewhere);
    let kept = bench.kept(&bench.take(1));
    assert!(kept.contains(&"module".to_owned()) && !kept.contains(&"module/inside".to_owned()), "{kept:?}");
}

#[test]
fn too_large_a_one_is_left_out_and_said() {
    let bench = Bench::repository();
    bench.git(&["init", "--quiet", "clone"]);
    for number in 0..=20_000 {
        std::fs::write(bench.path(format!("clone/{number}")), "").unwrap();
    }
    let id = bench.take(1);
    assert_eq!(bench.kept(&id), ["tracked"]);
    let not_kept = bench.checkpoints.store().unwrap().not_kept(&id).unwrap();
    assert_eq!(not_kept, ["clone (a repository with more than 20,000 files or 500 MB)"]);
}
