//! Where a project can be.

use std::path::Path;

use super::bench::{Bench, SESSION};
use crate::checkpoint::{Checkpoints, DiffRange};

/// Keeps, changes, compares and restores, whatever the place.
#[track_caller]
fn check(bench: &Bench) {
    bench.write("file", "1\n").write("old", "o\n").write("sub/.gitignore", "x\n").write("sub/x", "ignored\n");
    bench.take(1);
    let before = bench.tree();
    bench.write("file", "2\n").remove("old").write("new", "n\n").end();
    let after = bench.tree();
    let names: Vec<String> =
        bench.changes(DiffRange::Session).files.into_iter().map(|file| file.path).collect();
    assert_eq!(names, ["file", "new", "old"]);
    bench.rewind("1");
    assert_eq!(bench.tree(), before);
    bench.rewind("rewind-1");
    assert_eq!(bench.tree(), after);
}

fn refs(bench: &Bench) -> usize {
    bench.git(&["for-each-ref", "refs/rawko"]).lines().count()
}

#[test]
fn a_repository() {
    let bench = Bench::repository();
    check(&bench);
    assert_eq!(refs(&bench), 4);
    bench.checkpoints.forget().unwrap();
    assert_eq!(refs(&bench), 0);
}

#[test]
fn a_repository_without_a_commit() {
    let bench = Bench::plain();
    bench.init();
    check(&bench);
    assert_eq!(refs(&bench), 4);
}

#[test]
fn a_repository_with_sha256() {
    let bench = Bench::plain();
    bench.git(&["init", "--quiet", "--object-format=sha256"]);
    check(&bench);
    assert_eq!(refs(&bench), 4);
}

#[test]
fn a_detached_head() {
    let bench = Bench::repository();
    bench.git(&["checkout", "--quiet", "--detach"]);
    check(&bench);
}

#[test]
fn a_packed_repository() {
    let bench = Bench::repository();
    bench.write("file", "1\n").write("old", "o\n").git(&["add", "."]);
    bench.git(&["commit", "--quiet", "--message", "second"]);
    bench.git(&["gc", "--quiet"]);
    check(&bench);
}

#[test]
fn clones_that_borrow_objects_and_that_lack_a_history() {
    for option in ["--shared", "--depth=1"] {
        let source = Bench::repository();
        source.write("tracked", "two\n").git(&["commit", "--quiet", "--all", "--message", "second"]);
        let bench = Bench::plain();
        let url = format!("file://{}", source.top().display());
        let from = if option == "--shared" { source.top().display().to_string() } else { url };
        bench.git_in(bench.outside(), &["clone", "--quiet", option, &from, "clone"]);
        std::fs::rename(bench.outside().join("clone/.git"), bench.top().join(".git")).unwrap();
        bench.git(&["reset", "--quiet", "--hard"]);
        assert_eq!(bench.kept(&bench.take(9)), ["tracked"], "{option}");
        check(&bench);
    }
}

#[test]
fn a_folder_inside_a_repository() {
    let bench = Bench::at("packages/one");
    bench.init();
    std::fs::write(bench.top().join(".gitignore"), "*.log\n").unwrap();
    std::fs::write(bench.top().join("outside"), "not the project's").unwrap();
    bench.write("a.log", "ignored from above").write("b", "");
    bench.git(&["add", "."]);
    assert_eq!(bench.kept(&bench.take(9)), ["b"]);
    check(&bench);
    assert_eq!(std::fs::read(bench.top().join("outside")).unwrap(), b"not the project's");
}

#[test]
fn a_project_that_the_repository_around_it_ignores() {
    let bench = Bench::at("projects/one");
    bench.init();
    std::fs::write(bench.top().join(".gitignore"), "*\n").unwrap();
    check(&bench);
}

#[test]
fn a_linked_work_tree() {
    let main = Bench::repository();
    let linked = main.outside().join("linked");
    main.git(&["worktree", "add", "--quiet", linked.to_str().unwrap()]);
    let directory = linked.join(".rawko/sessions").join(SESSION);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(linked.join(".rawko/sessions/.gitignore"), "*\n").unwrap();
    std::fs::write(linked.join("new"), "n").unwrap();
    let checkpoints = Checkpoints::new(&linked, &directory, SESSION);
    let id = checkpoints.take(1).unwrap();
    assert_eq!(main.kept(&id), ["new", "tracked"]);
    assert_eq!(refs(&main), 1);
}

#[test]
fn a_sparse_work_tree() {
    let bench = Bench::repository();
    bench.write("in/a", "").write("out/b", "").git(&["add", "."]);
    bench.git(&["commit", "--quiet", "--message", "more"]);
    bench.git(&["sparse-checkout", "set", "--sparse-index", "in"]);
    assert!(!bench.path("out").exists());
    let id = bench.take(1);
    assert_eq!(bench.kept(&id), ["in/a", "tracked"]);
    bench.write("in/a", "changed").end();
    bench.rewind("1");
    assert_eq!(bench.read("in/a"), "");
    assert!(!bench.path("out").exists());
    assert_eq!(bench.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_split_index() {
    let bench = Bench::repository();
    bench.git(&["update-index", "--split-index"]);
    bench.write("staged", "s").git(&["add", "staged"]);
    check(&bench);
}

#[test]
fn an_index_with_a_conflict() {
    let bench = Bench::repository();
    bench.git(&["checkout", "--quiet", "-b", "other"]);
    bench.write("tracked", "theirs\n").git(&["commit", "--quiet", "--all", "--message", "theirs"]);
    bench.git(&["checkout", "--quiet", "main"]);
    bench.write("tracked", "ours\n").git(&["commit", "--quiet", "--all", "--message", "ours"]);
    bench.git(&["rebase", "--quiet", "--strategy=ours", "other"]);
    bench.git(&["reset", "--quiet", "--hard", "ORIG_HEAD"]);
    let merge = testkit::git_command(&bench.top()).args(["merge", "--quiet", "other"]).output().unwrap();
    assert!(!merge.status.success());
    let status = bench.git(&["status", "--porcelain"]);
    assert!(status.contains("UU tracked"), "{status}");
    check(&bench);
    assert!(bench.git(&["status", "--porcelain"]).contains("UU tracked"));
}

#[test]
fn a_submodule_as_the_project() {
    let bench = Bench::repository();
    let source = Bench::repository();
    bench.git(&["submodule", "--quiet", "add", source.top().to_str().unwrap(), "module"]);
    let module = bench.path("module");
    let directory = module.join(".rawko/sessions").join(SESSION);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(module.join("new"), "").unwrap();
    let checkpoints = Checkpoints::new(&module, &directory, SESSION);
    checkpoints.take(1).unwrap();
    assert_eq!(bench.git_in(&module, &["for-each-ref", "refs/rawko"]).lines().count(), 1);
    assert_eq!(refs(&bench), 0);
}

#[test]
fn no_repository() {
    let bench = Bench::plain();
    check(&bench);
    assert_eq!(bench.kept(&bench.take(5)), ["file", "new", "sub/.gitignore"]);
    let store = bench.path(format!(".rawko/sessions/{SESSION}/checkpoints"));
    assert!(store.join("objects").is_dir());
    // A folder that becomes a repository later still has what was kept.
    bench.init();
    bench.rewind("1");
    assert_eq!(bench.read("file"), "1\n");
}

#[test]
fn a_repository_of_somebody_else() {
    let others = Bench::repository();
    let folder = others.path(".git");
    for is_link in [false, true] {
        let bench = Bench::plain();
        if is_link {
            std::os::unix::fs::symlink(&folder, bench.path(".git")).unwrap();
        } else {
            bench.write(".git", format!("gitdir: {}\n", folder.display()));
        }
        bench.take(1);
        assert_eq!(refs(&others), 0, "{is_link}");
        assert!(bench.path(format!(".rawko/sessions/{SESSION}/checkpoints/objects")).is_dir(), "{is_link}");
        assert_eq!(crate::checkpoint::foreign_repository(&bench.path("")), Some(bench.path(".git")));
    }
}

#[test]
fn a_link_out_of_the_repository() {
    for name in ["refs/rawko", "refs", "objects"] {
        let bench = Bench::repository();
        let (inside, outside) = (bench.path(format!(".git/{name}")), bench.outside().join("outside"));
        std::fs::create_dir(&outside).unwrap();
        if inside.exists() {
            std::fs::remove_dir_all(&inside).unwrap();
        }
        std::os::unix::fs::symlink(&outside, &inside).unwrap();
        bench.take(1);
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn what_only_looks_like_a_repository() {
    for dot_git in [None, Some("gitdir: /nowhere\n"), Some("")] {
        let bench = Bench::plain();
        match dot_git {
            Some(text) => drop(bench.write(".git", text)),
            None => std::fs::create_dir(bench.path(".git")).unwrap(),
        }
        check(&bench);
    }
}

#[test]
fn the_project_is_gone() {
    let checkpoints = Checkpoints::new(Path::new("/nowhere/at all"), Path::new("/nowhere"), SESSION);
    let error = checkpoints.take(1).unwrap_err().to_string();
    assert!(error.starts_with("cannot find the project /nowhere/at all: "), "{error}");
}

#[test]
fn a_repository_that_several_people_write_to() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::repository();
    bench.git(&["config", "core.sharedRepository", "0660"]);
    // Folders of loose objects that are older than the setting keep their mode: none may happen to be the one looked at.
    bench.git(&["repack", "-a", "-d", "-q"]);
    bench.write("new", "n");
    let id = bench.take(1);
    let object = bench.top().join(".git/objects").join(&id[..2]).join(&id[2..]);
    assert_eq!(object.metadata().unwrap().permissions().mode() & 0o777, 0o440);
    let folder = object.parent().unwrap().metadata().unwrap().permissions().mode();
    assert_eq!(folder & 0o2070, 0o2070, "{folder:o}");
}

#[test]
fn a_session_that_is_named_by_a_relative_path() {
    let bench = Bench::repository();
    let here = std::env::current_dir().unwrap();
    let up: std::path::PathBuf = here.components().skip(1).map(|_| "..").collect();
    let relative = |path: &Path| up.join(path.strip_prefix("/").unwrap());
    let directory = bench.path(format!(".rawko/sessions/{SESSION}"));
    let checkpoints = Checkpoints::new(&relative(&bench.project()), &relative(&directory), SESSION);
    let id = checkpoints.take(1).unwrap();
    assert_eq!(bench.kept(&id), ["tracked"]);
    assert!(directory.join("checkpoints/index").is_file());
    assert!(!bench.path("index").exists() && bench.git(&["status", "--porcelain"]).is_empty());
}
