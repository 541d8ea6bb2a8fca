//! `Glob` and `Grep` in a real tree.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use common::Bench;
use serde_json::{Value, json};

fn tree(dir: &Path) {
    for (path, text) in [
        (".gitignore", "/target\n*.log\n"),
        ("a.rs", "fn one() {}\nfn two() {}\n// end\n"),
        ("src/b.rs", "fn three() {\n    one();\n}\n"),
        ("src/c.ts", "function four() {}\n"),
        ("src/.gitignore", "!keep.log\n"),
        ("src/keep.log", "fn kept() {}\n"),
        ("x.log", "fn ignored() {}\n"),
        ("target/d.rs", "fn built() {}\n"),
        (".github/ci.yml", "run: fn\n"),
        (".git/config", "fn git\n"),
    ] {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::write(dir.join("bin.dat"), b"fn binary\n\0\n").unwrap();
}

async fn check(tool: &str, input: Value, expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let text = Bench::new(dir.path()).ok(tool, input.clone()).await;
    assert_eq!(text.trim_end(), expected, "{tool} {input}");
}

#[tokio::test]
async fn grep_answers_in_three_modes() {
    check("Grep", json!({"pattern": "fn "}), "a.rs\nsrc/b.rs\nsrc/keep.log").await;
    check("Grep", json!({"pattern": "fn ", "output_mode": "count"}), "a.rs:2\nsrc/b.rs:1\nsrc/keep.log:1")
        .await;
    let expected = "a.rs:1:fn one() {}\na.rs:2:fn two() {}";
    check("Grep", json!({"pattern": "fn ", "path": "a.rs", "output_mode": "content"}), expected).await;
    check("Grep", json!({"pattern": "nowhere"}), "No matches.").await;
}

#[tokio::test]
async fn grep_applies_all_its_parameters() {
    check("Grep", json!({"pattern": "FN ONE", "-i": true}), "a.rs").await;
    check("Grep", json!({"pattern": "fn|function", "type": "ts"}), "src/c.ts").await;
    check("Grep", json!({"pattern": "fn ", "glob": "*.rs"}), "a.rs\nsrc/b.rs").await;
    check("Grep", json!({"pattern": "fn ", "glob": "!*.rs"}), "src/keep.log").await;
    check("Grep", json!({"pattern": "fn ", "glob": "src/*.rs"}), "src/b.rs").await;
    check("Grep", json!({"pattern": "fn ", "path": "src"}), "src/b.rs\nsrc/keep.log").await;
    let lines = json!({"pattern": "one\\(\\);", "output_mode": "content", "-n": false, "-B": 1, "-A": 1});
    check("Grep", lines, "src/b.rs-fn three() {\nsrc/b.rs:    one();\nsrc/b.rs-}").await;
    let around = json!({"pattern": "two", "output_mode": "content", "-C": 1, "path": "a.rs"});
    check("Grep", around, "a.rs-1-fn one() {}\na.rs:2:fn two() {}\na.rs-3-// end").await;
    let spanning = json!({"pattern": "three.*one", "multiline": true, "output_mode": "content"});
    check("Grep", spanning, "src/b.rs:1:fn three() {\nsrc/b.rs:2:    one();").await;
    let limited = json!({"pattern": "fn ", "head_limit": 1});
    check(
        "Grep",
        limited,
        "a.rs\n[There is more: the first 1 files are shown. Narrow the search, or raise head_limit.]",
    )
    .await;
    // A path that is named itself is searched although it is ignored.
    check("Grep", json!({"pattern": "fn", "path": "target"}), "target/d.rs").await;
}

#[tokio::test]
async fn grep_says_what_is_wrong_with_a_pattern() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    for (input, expected) in [
        (json!({"pattern": "("}), "is not valid"),
        (json!({"pattern": "a\\nb"}), "Set multiline"),
        (json!({"pattern": "(\\w{1000}){1000}"}), "is not valid"),
        (json!({"pattern": "a", "type": "pyhton"}), "Did you mean `python`?"),
        (json!({"pattern": "a", "glob": "["}), "the glob `[` is not valid"),
        (json!({"pattern": "a", "path": "nowhere"}), "does not exist"),
    ] {
        let text = bench.fails("Grep", input).await;
        assert!(text.contains(expected), "{expected:?} is missing in {text:?}");
    }
}

#[tokio::test]
async fn glob_honours_ignore_files_and_shows_the_newest_first() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let age = |path: &str, seconds| {
        let file = fs::File::options().write(true).open(dir.path().join(path)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    };
    age("a.rs", 100);
    age("src/b.rs", 300);
    age("src/c.ts", 200);
    let bench = Bench::new(dir.path());
    let absolute = dir.path().join("src/*.rs");
    for (input, expected) in [
        (json!({"pattern": "**/*.{rs,ts}"}), "src/b.rs\nsrc/c.ts\na.rs"),
        (json!({"pattern": "*.rs"}), "a.rs"),
        (json!({"pattern": "*.rs", "path": "src"}), "src/b.rs"),
        (json!({"pattern": "src/*.ts"}), "src/c.ts"),
        (json!({"pattern": absolute.to_str().unwrap()}), "src/b.rs"),
        (json!({"pattern": ".github/*"}), ".github/ci.yml"),
        (json!({"pattern": "*.ts"}), "No files match.\nTo search in all directories below use `**/*.ts`."),
        (json!({"pattern": "**/*.log"}), "src/keep.log"),
        (json!({"pattern": "**/d.rs"}), "No files match."),
        (json!({"pattern": "**/config"}), "No files match."),
    ] {
        assert_eq!(bench.ok("Glob", input.clone()).await, expected, "{input}");
    }
}

#[tokio::test]
async fn many_files_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..300 {
        fs::write(dir.path().join(format!("{number}.txt")), "x").unwrap();
    }
    let text = Bench::new(dir.path()).ok("Glob", json!({"pattern": "*.txt"})).await;
    assert_eq!(text.lines().count(), 201);
    assert!(text.contains("[300 files match; the newest 200 are shown."));
}

#[tokio::test]
async fn a_hostile_tree_costs_little() {
    let dir = tempfile::tempdir().unwrap();
    let patterns: String = (0..20_000).map(|n| format!("**/a*{n}*b*c*\n")).collect();
    fs::write(dir.path().join(".gitignore"), patterns).unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/.gitignore"), "*".repeat(5_000_000)).unwrap();
    fs::write(
        dir.path().join("sub/line.txt"),
        format!("{}needle{}", "x".repeat(1 << 20), "y".repeat(1 << 20)),
    )
    .unwrap();
    let bench = Bench::new(dir.path());
    let started = Instant::now();
    let text = bench.ok("Grep", json!({"pattern": "needle", "output_mode": "content"})).await;
    assert!(text.len() < 3_000 && text.contains("bytes of this line cut"), "{}", text.len());
    let evil = json!({"pattern": "(x+x+)+z", "output_mode": "count"});
    assert_eq!(bench.ok("Grep", evil).await, "No matches.\n");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}
