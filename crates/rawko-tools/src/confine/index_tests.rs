#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use tempfile::TempDir;

use super::*;

/// Runs git in the folder; its output.
#[track_caller]
fn git(folder: &Path, arguments: &[&str]) -> String {
    let done = Command::new("git")
        .current_dir(folder)
        .args(["-c", "user.name=a", "-c", "user.email=a@b"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "git {arguments:?}: {text}{}", String::from_utf8_lossy(&done.stderr));
    text
}

/// A repository with files of each kind, just made.
fn repository(options: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    git(root, &[&["init", "-q"], options].concat());
    std::fs::create_dir_all(root.join("secrets/deep")).unwrap();
    for (name, content) in
        [(".env", "KEY=1\n"), ("code", "x"), ("secrets/deep/a", ""), ("secrets/run", "run")]
    {
        std::fs::write(root.join(name), content).unwrap();
    }
    let run = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(root.join("secrets/run"), run).unwrap();
    std::os::unix::fs::symlink("run", root.join("secrets/link")).unwrap();
    git(root, &["add", "-A"]);
    git(root, &["commit", "-qm", "one"]);
    folder
}

fn names(names: &[&str]) -> BTreeSet<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

fn set_time(path: &Path, seconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::empty()).unwrap();
}

/// What is tracked of `.env` and `secrets`, after the entries were settled; git agrees with the index that is left.
#[track_caller]
fn check(options: &[&str], version: &str) {
    use PlaceholderKind::{File, Link, Program};
    let folder = repository(options);
    let root = folder.path();
    git(root, &["update-index", "--index-version", version]);
    let before = git(root, &["ls-files", "-s"]);
    let found = tracked(&root.join(".git"), &names(&[".env", "secrets"]), Some(root)).unwrap();
    let shown: Vec<_> =
        found.iter().map(|file| (file.name.to_str().unwrap(), file.kind, file.size, file.modified)).collect();
    // Everything was made in the second in which the index was written.
    let expected = [
        (".env", File, 6, 1),
        ("secrets/deep/a", File, 0, 1),
        ("secrets/link", Link, 3, 1),
        ("secrets/run", Program, 3, 1),
    ];
    let index_time = root.join(".git/index").metadata().unwrap();
    let is_fresh = std::os::unix::fs::MetadataExt::mtime(&index_time)
        == std::os::unix::fs::MetadataExt::mtime(&root.join("code").metadata().unwrap());
    if is_fresh {
        assert_eq!(shown, expected, "{options:?} {version}");
    }
    assert_eq!(git(root, &["ls-files", "-s"]), before);
    assert_eq!(git(root, &["status", "--porcelain"]), "");
    assert!(!root.join(".git/index.lock").exists());
}

#[test]
fn every_format_of_an_index() {
    check(&[], "2");
    check(&[], "4");
    check(&["--object-format=sha256"], "2");
    check(&["--object-format=sha256"], "4");
}

/// Git compares what it does not believe, so a change that the user made is still one.
#[test]
fn a_change_of_the_users_stays_one() {
    let folder = repository(&[]);
    let root = folder.path();
    for name in [".env", "code"] {
        set_time(&root.join(name), 1_000_000_000);
    }
    git(root, &["update-index", "--refresh"]);
    // Of the same size and time as what was added, and other files too.
    for (name, content) in [(".env", "KEY=2\n"), ("code", "y")] {
        std::fs::write(root.join(name), content).unwrap();
        set_time(&root.join(name), 1_000_000_000);
    }
    set_time(&root.join(".git/index"), 1_000_000_000);
    let found = tracked(&root.join(".git"), &names(&[".env"]), Some(root)).unwrap();
    assert_eq!((found[0].modified, found[0].size), (LONG_AGO, 6));
    // With another time, git would believe that `code` did not change.
    let time = std::os::unix::fs::MetadataExt::mtime(&root.join(".git/index").metadata().unwrap());
    assert_eq!(time, 1_000_000_000);
    assert_eq!(git(root, &["status", "--porcelain"]), " M .env\n M code\n");
}

#[test]
fn entries_without_a_size_get_one() {
    let folder = repository(&[]);
    let root = folder.path();
    git(root, &["read-tree", "HEAD"]);
    let found = tracked(&root.join(".git"), &names(&[".env"]), Some(root)).unwrap();
    assert_eq!((found[0].modified, found[0].size), (LONG_AGO, 6));
    assert_eq!(git(root, &["status", "--porcelain"]), "");
}

#[test]
fn a_lock_of_gits_is_left_alone() {
    let folder = repository(&[]);
    let root = folder.path();
    git(root, &["read-tree", "HEAD"]);
    std::fs::write(root.join(".git/index.lock"), "").unwrap();
    let found = tracked(&root.join(".git"), &names(&[".env"]), Some(root)).unwrap();
    assert_eq!(found[0].size, 0);
    assert!(root.join(".git/index.lock").exists());
}

#[test]
fn what_cannot_be_understood_is_an_error() {
    let folder = repository(&[]);
    let root = folder.path();
    git(root, &["update-index", "--split-index"]);
    let error = tracked(&root.join(".git"), &names(&[".env"]), Some(root)).unwrap_err();
    assert!(error.to_string().contains("it is split"), "{error}");
    let whole = std::fs::read(root.join(".git/index")).unwrap();
    for end in [0, 11, 30, whole.len() - 1] {
        std::fs::write(root.join(".git/index"), &whole[..end]).unwrap();
        let error = tracked(&root.join(".git"), &names(&[".env"]), Some(root)).unwrap_err();
        assert!(error.to_string().contains("not known"), "{end}: {error}");
    }
    std::fs::remove_file(root.join(".git/index")).unwrap();
    assert_eq!(tracked(&root.join(".git"), &names(&[".env"]), Some(root)).unwrap(), []);
}
