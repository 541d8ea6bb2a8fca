//! `Read`, `Write` and `Edit` on real files.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use common::Bench;
use rawko_core::agent::Permissions;
use rawko_core::error::ErrorCode;
use serde_json::json;

/// Names in a directory, sorted, to check that no temporary file is left.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn write_creates_directories_and_says_what_it_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let outcome = bench.call("Write", json!({"file_path": "a/b/c.txt", "content": "one\ntwo\n"})).await;
    assert_eq!(outcome.content, "Created `a/b/c.txt` (2 lines, 8 bytes).");
    assert_eq!(outcome.files_modified, ["a/b/c.txt"]);
    assert_eq!(fs::read_to_string(dir.path().join("a/b/c.txt")).unwrap(), "one\ntwo\n");
    assert_eq!(names(&dir.path().join("a/b")), ["c.txt"]);
}

#[tokio::test]
async fn write_replaces_only_what_was_read_and_has_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f.sh");
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o750)).unwrap();
    let mut bench = Bench::new(dir.path());
    let input = json!({"file_path": "f.sh", "content": "new"});
    assert!(bench.fails("Write", input.clone()).await.contains("not read it in this session"));
    bench.ok("Read", json!({"file_path": "f.sh"})).await;
    fs::write(&file, "theirs").unwrap();
    assert!(bench.fails("Write", input.clone()).await.contains("changed by someone else"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
    bench.ok("Read", json!({"file_path": "f.sh"})).await;
    assert!(bench.ok("Write", input.clone()).await.starts_with("Replaced `f.sh`"));
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o750);
    // An agent knows what it wrote itself; another agent does not.
    bench.ok("Write", json!({"file_path": "f.sh", "content": "newer"})).await;
    bench.context.agent = "other".into();
    assert!(bench.fails("Write", input).await.contains("not read it in this session"));
    assert_eq!(names(dir.path()), ["f.sh"]);
}

#[tokio::test]
async fn a_link_stays_a_link_and_a_second_name_is_not_written_through() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    fs::write(dir.path().join("target.txt"), "old\n").unwrap();
    symlink("target.txt", dir.path().join("link.txt")).unwrap();
    fs::hard_link(dir.path().join("target.txt"), dir.path().join("second.txt")).unwrap();
    bench.ok("Read", json!({"file_path": "link.txt"})).await;
    let outcome =
        bench.call("Edit", json!({"file_path": "link.txt", "old_string": "old", "new_string": "new"})).await;
    assert_eq!(outcome.files_modified, ["target.txt"], "{}", outcome.content);
    assert!(dir.path().join("link.txt").is_symlink());
    assert_eq!(fs::read_to_string(dir.path().join("target.txt")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(dir.path().join("second.txt")).unwrap(), "old\n");
}

#[tokio::test]
async fn edit_asks_for_a_read_and_notices_changes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f.txt");
    fs::write(&file, "one\ntwo\n").unwrap();
    let bench = Bench::new(dir.path());
    let input = json!({"file_path": "f.txt", "old_string": "two", "new_string": "2"});
    assert!(bench.fails("Edit", input.clone()).await.contains("Read it first"));
    bench.ok("Read", json!({"file_path": "f.txt"})).await;
    let same = json!({"file_path": "f.txt", "old_string": "two", "new_string": "two"});
    assert!(bench.fails("Edit", same).await.contains("are the same"));
    let empty = json!({"file_path": "f.txt", "old_string": "", "new_string": "x"});
    assert!(bench.fails("Edit", empty).await.contains("old_string is empty"));
    assert_eq!(
        bench.ok("Edit", input.clone()).await,
        "Edited `f.txt` (1 replacement). It now reads:\n     1\tone\n     2\t2\n"
    );
    fs::write(&file, "one\ntwo\nthree\n").unwrap();
    assert!(bench.fails("Edit", input).await.contains("changed by someone else"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "one\ntwo\nthree\n");
    assert_eq!(names(dir.path()), ["f.txt"]);
}

#[tokio::test]
async fn a_read_only_file_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f.txt");
    fs::write(&file, "one\n").unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o444)).unwrap();
    let bench = Bench::new(dir.path());
    bench.ok("Read", json!({"file_path": "f.txt"})).await;
    let text =
        bench.fails("Edit", json!({"file_path": "f.txt", "old_string": "one", "new_string": "1"})).await;
    assert!(text.contains("read-only"), "{text}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "one\n");
}

#[tokio::test]
async fn folders_that_decide_what_rawko_and_git_run_are_protected_from_any_grant() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().canonicalize().unwrap();
    fs::create_dir_all(project.join(".rawko/memories")).unwrap();
    fs::create_dir_all(project.join(".git/hooks")).unwrap();
    fs::create_dir_all(project.join("sub/.git/hooks")).unwrap();
    symlink(".git/hooks", project.join("hooks")).unwrap();
    let real = |path: &str| project.join(path).to_str().unwrap().to_owned();
    let grants: [&[String]; 5] = [
        &[".".into()],
        &[".git/hooks".into(), ".rawko/memories".into(), ".claude".into(), "sub/.git/hooks".into()],
        &[".GIT".into(), "./.git/hooks/".into(), "src/../.git".into(), "hooks".into()],
        &[real(""), real(".git/hooks"), real(".rawko"), real("hooks")],
        &["/".into()],
    ];
    for grant in grants {
        let permissions = Permissions { write: Some(grant.to_vec()), ..Permissions::default() };
        let bench = Bench::with(&project, permissions);
        for path in [
            ".git",
            ".git/hooks/x",
            ".GIT/config",
            ".rawko/agents/x.yaml",
            ".rawko/memories/m.md",
            ".claude/agents/x.md",
            "sub/.git/hooks/x",
            "sub/../.rawko/x",
            "hooks/x",
        ] {
            let outcome = bench.call("Write", json!({"file_path": path, "content": "x"})).await;
            let shown = format!("{path} under {grant:?}: {}", outcome.content);
            assert_eq!(outcome.error_code, Some(ErrorCode::PermissionError), "{shown}");
            let why = ["no permission grants writing there", "outside of what you may write"];
            assert!(why.iter().any(|why| outcome.content.contains(why)), "{shown}");
        }
    }
    assert!(names(&project.join(".git/hooks")).is_empty());
    Bench::new(&project).ok("Write", json!({"file_path": ".gitignore", "content": "x"})).await;
}

#[tokio::test]
async fn a_project_below_a_protected_name_can_be_worked_in() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join(".claude/worktrees/one");
    fs::create_dir_all(&project).unwrap();
    Bench::new(&project).ok("Write", json!({"file_path": "a.txt", "content": "x"})).await;
}

#[tokio::test]
async fn a_grant_inside_the_project_grants_nothing_outside_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().canonicalize().unwrap().join("project");
    fs::create_dir_all(project.join("src")).unwrap();
    fs::create_dir(dir.path().join("home")).unwrap();
    fs::write(dir.path().join("home/secret"), "HIDDEN").unwrap();
    symlink("../home", project.join("data")).unwrap();
    symlink("src", project.join("inner")).unwrap();
    let absolute = project.join("data").to_str().unwrap().to_owned();
    for (n, entry) in ["data".to_owned(), "./data/".into(), absolute].into_iter().enumerate() {
        let entries = Some(vec![entry, "inner".into()]);
        let permissions = Permissions { read: entries.clone(), write: entries, ..Permissions::default() };
        let bench = Bench::with(&project, permissions);
        let outside = dir.path().join("home/x");
        for path in ["data/x", outside.to_str().unwrap()] {
            let outcome = bench.call("Write", json!({"file_path": path, "content": "x"})).await;
            assert_eq!(outcome.error_code, Some(ErrorCode::PermissionError), "{path}: {}", outcome.content);
        }
        assert!(!bench.fails("Read", json!({"file_path": "data/secret"})).await.contains("HIDDEN"));
        bench.ok("Write", json!({"file_path": format!("inner/{n}"), "content": "x"})).await;
    }
    // An absolute path outside the project is used as it is.
    let home = dir.path().canonicalize().unwrap().join("home");
    let permissions =
        Permissions { write: Some(vec![home.to_str().unwrap().into()]), ..Permissions::default() };
    let bench = Bench::with(&project, permissions);
    bench.ok("Write", json!({"file_path": home.join("y").to_str().unwrap(), "content": "x"})).await;
}

#[tokio::test]
async fn deny_wins_as_a_path_as_a_link_and_as_a_pattern() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("secrets")).unwrap();
    fs::write(dir.path().join("secrets/a.txt"), "HIDDEN").unwrap();
    fs::write(dir.path().join("b.pem"), "HIDDEN").unwrap();
    fs::write(dir.path().join("open.txt"), "OPEN HIDDEN?").unwrap();
    symlink("secrets", dir.path().join("way")).unwrap();
    let permissions =
        Permissions { deny: Some(vec!["way".into(), "**/*.pem".into()]), ..Permissions::default() };
    let bench = Bench::with(dir.path(), permissions);
    for path in ["secrets/a.txt", "way/a.txt", "b.pem", "./b.pem"] {
        let outcome = bench.call("Read", json!({"file_path": path})).await;
        assert_eq!(outcome.error_code, Some(ErrorCode::PermissionError), "{path}: {}", outcome.content);
    }
    assert_eq!(bench.ok("Grep", json!({"pattern": "HIDDEN"})).await, "open.txt\n");
    assert_eq!(bench.ok("Glob", json!({"pattern": "**/*"})).await, "open.txt");
}

#[tokio::test]
async fn a_bad_permission_is_an_error_not_a_hole() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.txt"), "x").unwrap();
    for entry in ["", "~/x", "[", "a\0b"] {
        let permissions = Permissions { deny: Some(vec![entry.into()]), ..Permissions::default() };
        let outcome = Bench::with(dir.path(), permissions).call("Read", json!({"file_path": "a.txt"})).await;
        assert_eq!(outcome.error_code, Some(ErrorCode::ConfigError), "{entry:?}: {}", outcome.content);
    }
}

#[tokio::test]
async fn what_is_not_text_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    fs::write(dir.path().join("b.bin"), b"a\0b").unwrap();
    assert!(bench.fails("Read", json!({"file_path": "b.bin"})).await.contains("is a binary file (3 bytes)"));
    fs::write(dir.path().join("p.png"), b"\x89PNG\r\n\x1a\nrest").unwrap();
    assert!(bench.fails("Read", json!({"file_path": "p.png"})).await.contains("it is damaged"));
    fs::write(dir.path().join("p.bmp"), b"BM\0b").unwrap();
    assert!(bench.fails("Read", json!({"file_path": "p.bmp"})).await.contains("is a BMP picture (4 bytes)"));
    let huge = fs::File::create(dir.path().join("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    assert!(
        bench.fails("Read", json!({"file_path": "huge"})).await.contains("1099511627776 bytes, more than")
    );
    fs::write(dir.path().join("main.rs"), "x").unwrap();
    assert!(bench.fails("Read", json!({"file_path": "mian.rs"})).await.contains("Did you mean `main.rs`?"));
    assert!(bench.fails("Read", json!({"file_path": "."})).await.contains("is a directory, not a file"));
}
