use std::os::unix::fs::PermissionsExt as _;

use rawko_core::integrity::CheckChange;

use super::*;

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap() };
        scene.program("bin/python3");
        scene.write("p/node_modules/jest/index.js", "1");
        scene.write("p/build/out.bin", "1");
        scene.write("p/.env", "A=1");
        scene.write("home/.npmrc", "");
        scene.write("lib/python3.11/site-packages/pytest/__init__.py", "");
        std::fs::create_dir_all(scene.folder.path().join("early")).unwrap();
        scene
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn program(&self, path: &str) {
        self.write(path, "#!/bin/sh\n");
        let path = self.folder.path().join(path);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn look(&self) -> Toolchain {
        self.look_again(None)
    }

    fn look_again(&self, before: Option<&Toolchain>) -> Toolchain {
        let root = self.folder.path();
        let path = std::env::join_paths([root.join("early"), root.join("bin")]).unwrap();
        let ignored =
            ["node_modules/", "build/", "reports/", ".env", "target/", "proof.local", "unittest.py"]
                .map(str::to_owned)
                .to_vec();
        Toolchain::look(
            &Place {
                project: &root.join("p"),
                home: Some(&root.join("home")),
                cargo_home: Some(&root.join("cargo")),
                path: &path,
                ignored,
                checks: &CheckFiles::new(&[]),
                named: BTreeSet::from(["proof.local".to_owned()]),
                words: &BTreeSet::from(["green".to_owned()]),
            },
            &BTreeSet::new(),
            before,
        )
    }
}

#[track_caller]
fn check(change: impl FnOnce(&Scene), avoidable: &[&str], lasting: &[&str]) {
    let scene = Scene::new();
    let before = scene.look();
    change(&scene);
    let differences = before.differences(&scene.look_again(Some(&before)), false, None);
    let text = |changes: &[CheckChange]| -> Vec<String> {
        let root = format!("{}/", scene.folder.path().display());
        changes
            .iter()
            .map(|change| format!("{} {}", change.path.replace(&root, ""), change.how.words()))
            .collect()
    };
    assert_eq!(text(&differences.avoidable), avoidable);
    assert_eq!(text(&differences.lasting), lasting);
}

#[test]
fn what_affects_the_checks_is_seen() {
    check(|_| {}, &[], &[]);
    check(|scene| scene.program("early/python3"), &["python3 replaced by another program"], &[]);
    check(|scene| scene.write("bin/python3", "#!/bin/sh\nexit 0\n"), &[], &["bin/python3 changed"]);
    check(|scene| scene.write("p/build/conftest.py", ""), &["build/conftest.py added"], &[]);
    check(|scene| scene.write("p/.env", "A=2"), &[], &[".env changed"]);
    check(|scene| scene.write("p/proof.local", ""), &["proof.local added"], &[]);
    check(|scene| scene.write("p/unittest.py", ""), &["unittest.py added"], &[]);
    check(|scene| scene.write("p/node_modules/.pnpm/a/index.js", ""), &[], &["node_modules/.pnpm added"]);
    check(|scene| scene.write("p/node_modules/jest/index.js", "2"), &[], &["node_modules/jest changed"]);
    check(|scene| scene.write("home/.npmrc", "script-shell=x"), &[], &["home/.npmrc changed"]);
    check(|scene| scene.write("pytest.ini", ""), &[], &["pytest.ini added"]);
    check(|scene| scene.write(".cargo/config.toml", ""), &[], &[".cargo/config.toml added"]);
    check(|scene| scene.write("cargo/config.toml", ""), &[], &["cargo/config.toml added"]);
    check(|scene| scene.write("pyproject.toml", ""), &[], &["pyproject.toml added"]);
    let green = "home/.local/lib/python3.11/site-packages/green";
    check(|scene| scene.write(&format!("{green}/__main__.py"), ""), &[], &[&format!("{green} added")]);
}

#[test]
fn what_builds_write_is_not_looked_at() {
    check(|scene| scene.write("p/build/out.bin", "2"), &[], &[]);
    check(|scene| scene.write("p/target/debug/tests/x.sh", ""), &[], &[]);
    check(|scene| scene.write("p/node_modules/.cache/x", ""), &[], &[]);
    check(|scene| scene.write("p/node_modules/jest/__pycache__/x", ""), &[], &[]);
}

#[test]
fn new_dependencies_explain_new_packages() {
    let scene = Scene::new();
    let before = scene.look();
    scene.write("p/node_modules/jest/index.js", "2");
    assert!(before.differences(&scene.look(), true, None).lasting.is_empty());
}

#[test]
fn a_package_that_is_installed_anew_is_the_same() {
    check(|scene| scene.write("p/node_modules/jest/index.js", "1"), &[], &[]);
}

/// These names were not known when the toolchain was recorded.
#[test]
fn what_was_not_recorded_is_the_same_if_it_is_older() {
    let scene = Scene::new();
    scene.program("bin/roundup");
    scene.write("p/reports/run", "1");
    let root = scene.folder.path();
    let path = std::env::join_paths([root.join("early"), root.join("bin")]).unwrap();
    let tick = || std::thread::sleep(std::time::Duration::from_millis(30));
    tick();
    let before = scene.look();
    tick();
    let program = |name: &str| before.newer_program(name, &path).is_some();
    let file = |name: &str| before.newer_file(name, &root.join("p")).is_some();
    assert!(!program("roundup") && !program("nothing") && !file("reports/run"));
    assert!(!file("node_modules/jest/index.js"), "that is recorded");
    std::os::unix::fs::symlink(root.join("bin/roundup"), root.join("early/roundup")).unwrap();
    std::os::unix::fs::symlink(root.join("bin/roundup"), root.join("p/reports/link")).unwrap();
    scene.write("p/fresh/run", "1");
    assert!(program("roundup") && file("reports/link") && file("fresh/run"));
    scene.write("p/reports/run", "2");
    assert!(file("reports/run"));
}

#[test]
fn what_tests_write_is_no_check() {
    let scene = Scene::new();
    scene.write("p/reports/tests/last.txt", "1");
    scene.write("p/reports/tests/expected.txt", "1");
    let before = scene.look();
    scene.write("p/reports/tests/last.txt", "2");
    let lasting = |began: Option<i128>| before.differences(&scene.look(), false, began).lasting.len();
    assert_eq!((lasting(None), lasting(Some(0)), lasting(Some(i128::MAX))), (1, 0, 1));
    scene.write("p/reports/tests/expected.txt", "2");
    assert_eq!(lasting(Some(0)), 1);
}
