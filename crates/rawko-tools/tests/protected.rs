//! Protected folders and denied files, under names of the attacker's choice: links, `gitdir:` files, bare repositories,
//! hard links.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use common::Bench;
use rawko_core::agent::Permissions;
use serde_json::json;

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Makes a project, and writes `path` in it with `Write`; `refused` is what the refusal names, if it must be refused.
#[track_caller]
fn check_write(make: impl Fn(&Path), path: &str, refused: Option<&str>) {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let bench = Bench::new(dir.path());
    let call = bench.call("Write", json!({"file_path": path, "content": "mine"}));
    let outcome = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(call);
    assert_eq!(outcome.is_error, refused.is_some(), "{path}: {}", outcome.content);
    assert!(outcome.content.contains(refused.unwrap_or_default()), "{path}: {}", outcome.content);
    let is_written = fs::read_to_string(dir.path().join(path)).is_ok_and(|text| text == "mine");
    assert_eq!(is_written, refused.is_none(), "{path}");
}

fn repository(root: &Path, path: &str) {
    for folder in ["objects", "refs", "hooks"] {
        fs::create_dir_all(root.join(path).join(folder)).unwrap();
    }
    put(root, &format!("{path}/HEAD"), "ref: refs/heads/main\n");
}

#[test]
fn what_rawko_and_git_obey_is_not_written_under_another_name() {
    let rawko = |root: &Path| {
        fs::create_dir_all(root.join("rk/agents")).unwrap();
        symlink("rk", root.join(".rawko")).unwrap();
    };
    check_write(rawko, "rk/agents/developer.yaml", Some(".rawko"));
    check_write(rawko, "rk/new/x", Some(".rawko"));
    check_write(rawko, "other/agents/developer.yaml", None);
    // The folder is not there yet.
    check_write(|root| symlink("later", root.join(".claude")).unwrap(), "later/agents/a.md", Some(".claude"));
    let linked = |root: &Path| {
        repository(root, "g");
        symlink("g", root.join(".git")).unwrap();
    };
    check_write(linked, "g/hooks/pre-commit", Some(".git"));
    let named = |root: &Path| {
        fs::create_dir_all(root.join("g/hooks")).unwrap();
        put(root, "g/commondir", "../c\n");
        put(root, ".git", "gitdir: g\n");
    };
    check_write(named, "g/hooks/pre-commit", Some(".git"));
    check_write(named, "c/config", Some(".git"));
    // A file in place of the link to it.
    let through = |root: &Path| {
        put(root, "text", "gitdir: g\n");
        symlink("text", root.join(".git")).unwrap();
    };
    check_write(through, "g/hooks/pre-commit", Some(".git"));
    // A file in a protected folder leads elsewhere.
    let inner = |root: &Path| {
        fs::create_dir_all(root.join(".rawko")).unwrap();
        fs::create_dir_all(root.join("mine")).unwrap();
        put(root, "conf.yaml", "{}");
        symlink("../mine", root.join(".rawko/agents")).unwrap();
        symlink("../conf.yaml", root.join(".rawko/config.yaml")).unwrap();
    };
    check_write(inner, "mine/developer.yaml", Some(".rawko"));
    check_write(inner, "conf.yaml", Some(".rawko"));
    check_write(inner, "other.yaml", None);
    // The repository's folder is the project itself.
    let around = |root: &Path| {
        repository(root, ".");
        put(root, ".git", "gitdir: .\n");
    };
    check_write(around, "hooks/pre-commit", Some(".git"));
    check_write(around, "config", Some(".git"));
    check_write(around, "src/main.rs", None);
}

#[test]
fn a_folder_that_looks_like_a_bare_repository_is_not_written() {
    check_write(|root| repository(root, "b"), "b/config", Some("a repository"));
    check_write(|root| repository(root, "a/b"), "a/b/hooks/pre-commit", Some("a repository"));
    let half = |root: &Path| fs::create_dir_all(root.join("b/refs")).unwrap();
    check_write(half, "b/config", None);
    // The project is one itself.
    check_write(|root| repository(root, "."), "hooks/pre-commit", Some("a repository"));
    check_write(|root| repository(root, "."), "config", Some("a repository"));
    check_write(|root| repository(root, "."), "src/main.rs", None);
}

#[test]
fn no_file_makes_a_repository_of_a_folder() {
    let without = |missing: &'static str| {
        move |root: &Path| {
            repository(root, "b");
            let path = root.join("b").join(missing);
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
    };
    let taken = Some("git would take `b` for a repository");
    check_write(without("HEAD"), "b/HEAD", taken);
    check_write(without("refs"), "b/refs/heads/main", taken);
    check_write(without("objects"), "b/objects", taken);
    check_write(without("refs"), "b/commondir", taken);
    check_write(without("refs"), "./b/../b/refs/x", taken);
    let at_the_top = |root: &Path| {
        repository(root, ".");
        fs::remove_file(root.join("HEAD")).unwrap();
    };
    check_write(at_the_top, "HEAD", Some("git would take `.` for a repository"));
    // Names like these are nothing by themselves.
    check_write(without("refs"), "b/config", None);
    check_write(without("HEAD"), "b/src/HEAD", None);
    check_write(|root| put(root, "objects/a", ""), "refs/b", None);
}

#[tokio::test]
async fn no_two_files_written_at_once_make_a_repository() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), "b/HEAD", "ref: refs/heads/main\n");
        let bench = Bench::new(dir.path());
        let write = |path: &str| bench.call("Write", json!({"file_path": path, "content": "x"}));
        let (refs, objects) = tokio::join!(write("b/refs/x"), write("b/objects/x"));
        assert!(refs.is_error != objects.is_error, "{} {}", refs.content, objects.content);
    }
}

#[tokio::test]
async fn sessions_are_not_read_under_any_name() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "rk/sessions/one/journal.jsonl", "needle");
    put(dir.path(), "inner/.rawko/sessions/one/journal.jsonl", "needle");
    put(dir.path(), "rk/note.txt", "needle");
    symlink("rk", dir.path().join(".rawko")).unwrap();
    let bench = Bench::new(dir.path());
    for path in ["rk/sessions", ".rawko/sessions", "inner/.rawko/sessions"] {
        let path = format!("{path}/one/journal.jsonl");
        assert!(bench.fails("Read", json!({"file_path": path})).await.contains("sessions hold"), "{path}");
        assert!(bench.fails("Grep", json!({"pattern": "needle", "path": path})).await.contains("sessions"));
    }
    assert!(bench.fails("Glob", json!({"pattern": "*", "path": "rk/sessions"})).await.contains("sessions"));
    let found = bench.ok("Grep", json!({"pattern": "needle"})).await;
    assert!(found.contains("rk/note.txt") && !found.contains("journal"), "{found}");
}

/// Reads the second name of a file, with these entries of `deny`.
#[track_caller]
fn check_link(deny: &[&str], file: &str, is_refused: bool) {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), file, "needle");
    put(dir.path(), "plain.txt", "needle");
    fs::hard_link(dir.path().join(file), dir.path().join("second.txt")).unwrap();
    let deny = Some(deny.iter().map(|entry| (*entry).to_owned()).collect());
    let bench = Bench::with(dir.path(), Permissions { deny, ..Permissions::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let read = runtime.block_on(bench.call("Read", json!({"file_path": "second.txt"})));
    assert_eq!(read.is_error, is_refused, "{file}: {}", read.content);
    assert_eq!(read.content.contains("needle"), !is_refused, "{file}: {}", read.content);
    let grep = runtime.block_on(bench.call("Grep", json!({"pattern": "needle"})));
    assert_eq!(grep.content.contains("second.txt"), !is_refused, "{file}: {}", grep.content);
    assert!(grep.content.contains("plain.txt"), "{}", grep.content);
    let input = json!({"file_path": "second.txt", "old_string": "needl", "new_string": "x"});
    let edit = runtime.block_on(bench.call("Edit", input));
    assert_eq!(edit.content.contains("several names"), is_refused, "{file}: {}", edit.content);
}

#[test]
fn a_denied_file_is_not_read_under_a_second_name() {
    check_link(&["secret.txt"], "secret.txt", true);
    check_link(&["keys"], "keys/deep/one.key", true);
    check_link(&["**/*.key"], "a/b/one.key", true);
    check_link(&["keys/*.key"], "keys/one.key", true);
    check_link(&["**/*.key"], "a/b/one.txt", false);
    check_link(&["secret.txt"], "other.txt", false);
    check_link(&[], "secret.txt", false);
}

#[tokio::test]
async fn names_that_the_user_protects_are_not_written_under_any_path() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "web/.npmrc", "theirs");
    symlink("web/.npmrc", dir.path().join("link")).unwrap();
    let protect = Some(vec![".npmrc".to_owned(), ".vscode".to_owned()]);
    let bench = Bench::with(dir.path(), Permissions { protect, ..Permissions::default() });
    for path in ["web/.npmrc", "link", ".vscode/tasks.json", "a/.VSCode/x"] {
        let outcome = bench.call("Write", json!({"file_path": path, "content": "mine"})).await;
        assert!(outcome.is_error, "{path}: {}", outcome.content);
    }
    let read = bench.call("Read", json!({"file_path": "web/.npmrc"})).await;
    assert!(!read.is_error && read.content.contains("theirs"), "{}", read.content);
    let other = bench.call("Write", json!({"file_path": "npmrc", "content": "mine"})).await;
    assert!(!other.is_error, "{}", other.content);
}
