//! In the sandbox the tools of real projects work: builds, tests, commits, caches.
#![cfg(target_os = "linux")]

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use serde_json::json;
use testkit::ModelServer;

use crate::answers::{bash, call, developer, report};
use crate::sandbox::{enforced, is_possible, tries};
use crate::trial::Trial;

/// Whether this machine has the program; else says that the test is skipped.
fn has(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let has = status.is_ok_and(|status| status.success());
    if !has {
        testkit::skip(&format!("no {program} here"));
    }
    has && is_possible()
}

/// The home of these tests is empty, and the toolchain is in the user's.
fn with_toolchain(trial: Trial) -> Trial {
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from).unwrap_or_default();
    let rustup = std::env::var("RUSTUP_HOME").unwrap_or_else(|_| home.join(".rustup").display().to_string());
    if std::path::Path::new(&rustup).is_dir() { trial.env("RUSTUP_HOME", rustup) } else { trial }
}

#[test]
fn cargo_test() {
    if !has("cargo", &["--version"]) {
        return;
    }
    let manifest = |name: &str, more: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nedition = \"2021\"\n{more}")
    };
    let trial = |server| {
        let trial = with_toolchain(enforced(server))
            .file(
                "Cargo.toml",
                &manifest("top", "[dependencies]\ninner = { path = \"inner\" }\nfar = \"1\"\n"),
            )
            .file("src/lib.rs", "#[test]\nfn works() {\n    assert_eq!(inner::one() + far::two(), 3);\n}\n")
            .file("inner/Cargo.toml", &manifest("inner", ""))
            .file("inner/src/lib.rs", "pub fn one() -> u32 {\n    1\n}\n")
            .file("vendor/far/Cargo.toml", &manifest("far", ""))
            .file("vendor/far/src/lib.rs", "pub fn two() -> u32 {\n    2\n}\n")
            .file("vendor/far/.cargo-checksum.json", "{\"files\":{}}");
        let cargo = trial.outside().join("cargo");
        std::fs::create_dir_all(&cargo).unwrap();
        let config =
            "[source.crates-io]\nreplace-with = \"here\"\n[source.here]\ndirectory = \"../project/vendor\"\n";
        std::fs::write(
            cargo.join("config.toml"),
            config.replace("../project", &trial.project().display().to_string()),
        )
        .unwrap();
        trial.env("CARGO_HOME", cargo.display().to_string())
    };
    let (ended, output) = tries(trial, "cargo test --offline 2>&1");
    assert!(output.contains("test result: ok. 1 passed"), "{output}");
    assert!(
        ended.trial.project().join("target/debug").is_dir(),
        "what is built is there for the next command"
    );
}

#[test]
fn npm_test() {
    if !has("npm", &["--version"]) {
        return;
    }
    let trial = |server| {
        enforced(server)
            .file("package.json", r#"{"name": "p", "version": "1.0.0", "scripts": {"test": "node --test"}}"#)
            .file("one.test.js", "require('node:test')('one', () => require('node:assert').equal(1, 1));\n")
    };
    let (_, output) = tries(trial, "npm test 2>&1");
    assert!(output.contains("pass 1"), "{output}");
}

#[test]
fn python_tests() {
    if !has("python3", &["-m", "venv", "--help"]) {
        return;
    }
    let trial = |server| {
        enforced(server).file(
            "test_one.py",
            "import unittest\n\nclass One(unittest.TestCase):\n    def test_one(self):\n        self.assertEqual(1, 1)\n",
        )
    };
    let command = "python3 -m venv --without-pip v && v/bin/python -m unittest 2>&1; \
                   python3 -m pytest --version >/dev/null 2>&1 || { echo 1 passed without pytest; exit; }; \
                   python3 -m pytest -q 2>&1";
    let (_, output) = tries(trial, command);
    assert!(output.contains("Ran 1 test") && output.contains("1 passed"), "{output}");
}

#[test]
fn go_test() {
    if !has("go", &["version"]) {
        return;
    }
    let trial = |server| {
        enforced(server)
            .file("go.mod", "module example.com/m\n\ngo 1.19\n")
            .file("one_test.go", "package m\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {}\n")
    };
    let (ended, output) = tries(trial, "go test ./... 2>&1");
    assert!(output.contains("ok  \texample.com/m"), "{output}");
    assert!(!ended.trial.outside().join("home/.cache/go-build").exists(), "the user's cache is the user's");
}

#[test]
fn make_and_git() {
    if !has("make", &["--version"]) {
        return;
    }
    let trial = |server| enforced(server).file("Makefile", "out:\n\techo made > out\n");
    let command = "set -e; git config --global user.name a; git config --global user.email a@b; make; git add -A; \
                   git commit -qm one; git tag v1; git checkout -qb next; echo x >> out; git stash -q; git stash pop -q; \
                   git commit -qam two; git gc -q; git rebase -q v1; git log --oneline | wc -l; git status --short | wc -l";
    let (ended, output) = tries(trial, command);
    assert!(output.contains("2\n0\n"), "{output}");
    assert!(ended.trial.git(&["log", "--format=%s", "next"]).contains("two"));
    assert!(!ended.trial.outside().join("home/.gitconfig").exists(), "the user's settings are the user's");
}

#[test]
fn what_a_home_links_to_is_there() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        let trial = enforced(server);
        let (home, store) = (trial.outside().join("home"), trial.outside().join("store"));
        std::fs::create_dir_all(store.join("cargo")).unwrap();
        std::fs::write(store.join("gitconfig"), "[user]\n\tname = Linked\n").unwrap();
        std::fs::write(store.join("cargo/kept"), "KEPT").unwrap();
        std::fs::write(store.join("other"), "CANARY").unwrap();
        symlink("../store/gitconfig", home.join(".gitconfig")).unwrap();
        symlink(store.join("cargo"), home.join(".cargo")).unwrap();
        trial
    };
    let command = "git config --global user.name; cat ~/.cargo/kept; echo x > ~/.cargo/new && cat ~/.cargo/new; \
                   cat ../store/other";
    let (ended, output) = tries(trial, command);
    assert!(output.contains("Linked") && output.contains("KEPT") && output.contains("x\n"), "{output}");
    assert!(!ended.trial.outside().join("store/cargo/new").exists());
}

#[test]
fn a_cache_is_shared_where_the_user_says_so() {
    if !is_possible() {
        return;
    }
    let trial = |shared| {
        move |server| {
            let trial = enforced(server).user_config("/permissions/caches", shared);
            std::fs::create_dir_all(trial.outside().join("home/.npm/_cacache")).unwrap();
            trial
        }
    };
    let command = "echo x > ~/.npm/_cacache/one; echo x > ~/.npm/two; cat ~/.npm/_cacache/one";
    let (ended, output) = tries(trial(json!(["~/.npm/_cacache", "~/.cargo"])), command);
    let npm = ended.trial.outside().join("home/.npm");
    assert!(npm.join("_cacache/one").exists(), "{output}");
    assert!(!npm.join("two").exists(), "{output}");
    let (ended, output) = tries(trial(json!(["/usr"])), command);
    assert!(output.contains("permissions.caches names `/usr`"), "{output}");
    assert!(!ended.trial.outside().join("home/.npm/_cacache/one").exists());
}

#[test]
fn a_project_that_asks_for_a_cache_needs_trust() {
    let trial = Trial::new(ModelServer::sequence([])).config(&json!({"permissions": {"caches": ["~/.npm"]}}));
    let (code, _, stderr) = trial.ask(&["run", "Do it."]);
    assert_eq!(code, Some(5), "{stderr}");
    assert!(stderr.contains("`caches` for `~/.npm`"), "{stderr}");
}

#[test]
fn commands_that_run_at_once_hold_each_others_locks() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        let trial = enforced(server);
        std::fs::create_dir(trial.outside().join("cargo")).unwrap();
        let cargo = trial.outside().join("cargo").display().to_string();
        trial.env("CARGO_HOME", cargo)
    };
    let hold = "exec 9> $CARGO_HOME/lock; flock 9; touch held; sleep 60";
    let job = call("Bash", &json!({"command": hold, "run_in_background": true}));
    let look = "until [ -e held ]; do sleep 0.01; done; exec 9> $CARGO_HOME/lock; flock -n 9 && echo FREE || echo LOCKED";
    let ended = trial(developer([job, bash(look), report("looked")])).run("Look.");
    ended.exits(0);
    let (output, _) = ended.results("Bash").remove(1);
    assert!(output.contains("LOCKED"), "{output}");
}
