#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

/// A repository with a submodule `x` that has only a `HEAD`. `act` is the command; what is there after it is removed.
fn check(act: impl Fn(&Path), look: impl Fn(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    let git = top.join("project/.git");
    for name in ["hooks", "modules/x", "objects", "refs"] {
        fs::create_dir_all(git.join(name)).unwrap();
    }
    for name in ["HEAD", "config", "hooks/theirs", "modules/x/HEAD"] {
        fs::write(git.join(name), "KEPT").unwrap();
    }
    for name in ["config/inner", "hooks", "info"] {
        fs::create_dir_all(top.join("foreign").join(name)).unwrap();
    }
    for name in ["commondir", "config/inner/file", "hooks/hook", "info/attributes"] {
        fs::write(top.join("foreign").join(name), "KEPT").unwrap();
    }
    let repository = ProjectRepository {
        top: top.join("project"),
        folders: vec![git.clone()],
        own: Some(git.clone()),
        obeyed: Vec::new(),
    };
    let before = absent(Some(&repository), &repository.top, &[], &[]);
    act(&git);
    before.remove();
    look(&git);
    for name in ["commondir", "config/inner/file", "hooks/hook", "info/attributes"] {
        assert!(top.join("foreign").join(name).exists(), "foreign/{name}");
    }
    assert_eq!(fs::read_to_string(git.join("config")).unwrap(), "KEPT");
    assert!(git.join("hooks/theirs").exists());
}

#[test]
fn no_link_leads_the_removal_out_of_the_repository() {
    for target in ["../../../foreign", ".."] {
        let act = |git: &Path| {
            fs::remove_dir_all(git.join("modules/x")).unwrap();
            symlink(target, git.join("modules/x")).unwrap();
        };
        check(act, |git| assert!(git.join("modules/x").is_symlink()));
    }
    let act = |git: &Path| {
        fs::remove_dir_all(git.join("modules")).unwrap();
        symlink("../../foreign", git.join("modules")).unwrap();
        fs::create_dir(git.join("../../foreign/x")).unwrap();
        fs::create_dir(git.join("../../foreign/x/config")).unwrap();
    };
    check(act, |git| assert!(git.join("modules/x/config").exists()));
    // In a folder that is removed, and in place of one around a file.
    let act = |git: &Path| {
        fs::create_dir(git.join("modules/x/hooks")).unwrap();
        symlink("../../../../../foreign", git.join("modules/x/hooks/link")).unwrap();
        symlink("../../../foreign/config", git.join("commondir")).unwrap();
        symlink("../../foreign/info", git.join("info")).unwrap();
    };
    check(act, |git| {
        for name in ["modules/x/hooks", "commondir", "info"] {
            assert!(git.join(name).symlink_metadata().is_err(), "{name}");
        }
    });
}

#[test]
fn another_folder_in_the_place_is_left_alone() {
    let act = |git: &Path| {
        fs::rename(git.join("modules/x"), git.join("moved")).unwrap();
        fs::create_dir_all(git.join("modules/x/hooks")).unwrap();
    };
    check(act, |git| assert!(git.join("modules/x/hooks").exists()));
}

#[test]
fn a_rebase_that_a_command_leaves_runs_nothing() {
    let list = |git: &Path| git.join("rebase-merge/git-rebase-todo");
    let act = |git: &Path| {
        fs::create_dir(git.join("rebase-merge")).unwrap();
        fs::write(list(git), "exec evil\n").unwrap();
    };
    check(act, |git| assert_eq!(fs::read_to_string(list(git)).unwrap(), "# exec evil\n"));
}

#[test]
fn modes_and_depth_do_not_keep_anything() {
    let act = |git: &Path| {
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        fs::create_dir_all(git.join("modules/x/hooks/a/b/c")).unwrap();
        fs::write(git.join("modules/x/hooks/a/b/file"), "").unwrap();
        fs::create_dir(git.join("info")).unwrap();
        for name in ["commondir", "info/attributes", "modules/x/hooks/pre-commit"] {
            fs::write(git.join(name), "").unwrap();
        }
        let mut deep = git.join("modules/x/hooks/deep");
        for _ in 0..40 {
            fs::create_dir(&deep).unwrap();
            deep.push("d");
        }
        for (name, mode) in [
            ("modules/x/hooks/a/b/c", 0),
            ("modules/x/hooks/a/b", 0),
            ("modules/x/hooks", 0o311),
            ("info", 0o311),
            ("modules", 0),
            ("", 0o555),
        ] {
            set(&git.join(name), mode);
        }
    };
    check(act, |git| {
        for name in ["commondir", "info/attributes", "modules/x/hooks"] {
            assert_eq!(
                git.join(name).symlink_metadata().unwrap_err().kind(),
                std::io::ErrorKind::NotFound,
                "{name}"
            );
        }
    });
}

#[test]
fn a_folder_that_cannot_be_searched_is_not_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let git = folder.path().join(".git");
    fs::create_dir_all(git.join("hooks")).unwrap();
    fs::write(git.join("config"), "KEPT").unwrap();
    fs::set_permissions(&git, Permissions::from_mode(0o0)).unwrap();
    let repository = ProjectRepository {
        top: folder.path().to_owned(),
        folders: vec![git.clone()],
        own: None,
        obeyed: Vec::new(),
    };
    absent(Some(&repository), &repository.top, &[], &[]).remove();
    fs::set_permissions(&git, Permissions::from_mode(0o700)).unwrap();
    assert!(git.join("config").exists() && git.join("hooks").exists());
}

#[test]
fn a_link_is_restored() {
    let folder = tempfile::tempdir().unwrap();
    let git = folder.path().join(".git");
    fs::create_dir(&git).unwrap();
    symlink("../mine", git.join("hooks")).unwrap();
    let repository = ProjectRepository {
        top: folder.path().to_owned(),
        folders: vec![git.clone()],
        own: None,
        obeyed: Vec::new(),
    };
    let before = absent(Some(&repository), &repository.top, &[], &[]);
    fs::remove_file(git.join("hooks")).unwrap();
    fs::create_dir(git.join("hooks")).unwrap();
    fs::write(git.join("hooks/pre-commit"), "").unwrap();
    before.remove();
    assert_eq!(fs::read_link(git.join("hooks")).unwrap(), Path::new("../mine"));
}

#[test]
fn a_link_at_the_top_of_the_project_is_restored() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    fs::create_dir(top.join("real")).unwrap();
    symlink("real", top.join(".claude")).unwrap();
    let before = absent(None, &top, &[], &[]);
    fs::rename(top.join(".claude"), top.join("moved")).unwrap();
    fs::create_dir(top.join(".claude")).unwrap();
    before.remove();
    assert_eq!(fs::read_link(top.join(".claude")).unwrap(), Path::new("real"));
    fs::remove_file(top.join(".claude")).unwrap();
    before.remove();
    assert_eq!(fs::read_link(top.join(".claude")).unwrap(), Path::new("real"));
}

#[test]
fn a_file_with_a_protected_name_is_renamed_and_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    fs::write(top.join(".npmrc"), "theirs").unwrap();
    let before = absent(None, &top, &[], &[".envrc", ".npmrc", ".vscode"].map(str::to_owned));
    for text in ["first", "second"] {
        fs::write(top.join(".envrc"), text).unwrap();
        before.remove();
    }
    fs::create_dir(top.join(".vscode")).unwrap();
    fs::write(top.join(".vscode/settings.json"), "of an editor").unwrap();
    before.remove();
    let text = |name: &str| fs::read_to_string(top.join(name)).unwrap();
    assert!(!top.join(".envrc").exists() && !top.join(".vscode").exists());
    assert_eq!(text(".envrc.set-aside") + &text(".envrc.set-aside-2"), "firstsecond");
    assert_eq!(text(".vscode.set-aside/settings.json"), "of an editor");
    assert_eq!(text(".npmrc"), "theirs");
    for number in 3..200 {
        fs::write(top.join(format!(".envrc.set-aside-{number}")), "taken").unwrap();
    }
    fs::write(top.join(".envrc"), "third").unwrap();
    before.remove();
    assert!(!top.join(".envrc").exists());
}
