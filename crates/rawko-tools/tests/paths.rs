//! Checks every sample of `fixtures/paths.jsonl` against the file tools: refused paths are refused in time and leak
//! nothing, and allowed paths work.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::Bench;
use rawko_core::agent::Permissions;
use rawko_core::tool::{Refusal, ToolOutcome};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Sample {
    id: String,
    tool: String,
    path: String,
    setup: Vec<Op>,
    expect: String,
    permissions: Option<Permissions>,
    root: Option<String>,
    content: Option<String>,
    timeout_ms: Option<u64>,
    expect_grep: Option<String>,
    old: Option<String>,
    new: Option<String>,
    race: Option<Race>,
}

#[derive(Deserialize)]
struct Race {
    append: String,
    tries: u32,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Op {
    Dir { path: String },
    File { path: String, text: String },
    Symlink { path: String, target: String },
    Fifo { path: String },
    Socket { path: String },
}

impl Op {
    fn apply(&self, base: &Path, fill: &dyn Fn(&str) -> String) {
        match self {
            Self::Dir { path } => fs::create_dir_all(base.join(path)).unwrap(),
            Self::File { path, text } => {
                make_file(&base.join(path), text);
            }
            Self::Symlink { path, target } => symlink(fill(target), base.join(path)).unwrap(),
            Self::Fifo { path } => {
                rustix::fs::mknodat(
                    rustix::fs::CWD,
                    base.join(path),
                    rustix::fs::FileType::Fifo,
                    rustix::fs::Mode::from_raw_mode(0o600),
                    0,
                )
                .unwrap();
            }
            Self::Socket { path } => {
                std::os::unix::net::UnixListener::bind(base.join(path)).unwrap();
            }
        }
    }
}

fn make_file(path: &Path, text: &str) {
    // Component by component: a path may be too long for one system call in this temporary directory.
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

struct Place {
    _dir: tempfile::TempDir,
    base: PathBuf,
    project: PathBuf,
    root: PathBuf,
}

impl Place {
    fn set_up(sample: &Sample) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let project = base.join("project");
        let root = sample.root.as_ref().map_or_else(|| project.clone(), |r| base.join(r));
        let place = Self { _dir: dir, base, project, root };
        let tree: Vec<Op> = serde_json::from_str(include_str!("fixtures/paths_fixture.json")).unwrap();
        for op in tree.iter().chain(&sample.setup) {
            op.apply(&place.base, &|text| place.fill(text));
        }
        place
    }

    fn fill(&self, text: &str) -> String {
        text.replace("{root}", self.root.to_str().unwrap())
            .replace("{real}", self.project.to_str().unwrap())
            .replace("{base}", self.base.to_str().unwrap())
    }

    fn bench(&self, sample: &Sample) -> Bench {
        let fill_all = |list: &Option<Vec<String>>| {
            list.as_ref().map(|entries| entries.iter().map(|e| self.fill(e)).collect())
        };
        let given = sample.permissions.clone().unwrap_or_default();
        let permissions = Permissions {
            read: fill_all(&given.read),
            write: fill_all(&given.write),
            deny: fill_all(&given.deny),
            ..given
        };
        Bench::with(&self.root, permissions)
    }

    /// Everything outside the project, to check that nothing there changes.
    fn outside(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        let mut dirs = vec![self.base.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                if kind.is_dir() && path != self.project {
                    dirs.push(path);
                } else if kind.is_file() {
                    files.push((path.clone(), fs::read(path).unwrap()));
                }
            }
        }
        files.sort();
        files
    }
}

fn input(sample: &Sample, path: &str) -> Value {
    match sample.tool.as_str() {
        "Read" => json!({"file_path": path}),
        "Write" => json!({"file_path": path, "content": "WRITTEN"}),
        "Edit" => {
            let (old, new) =
                (sample.old.as_deref().unwrap_or("INSIDE"), sample.new.as_deref().unwrap_or("X"));
            json!({"file_path": path, "old_string": old, "new_string": new})
        }
        "Glob" => json!({"pattern": path}),
        "Grep" => json!({"pattern": "INSIDE|OUTSIDE", "path": path, "output_mode": "content"}),
        other => panic!("no such tool: {other}"),
    }
}

async fn check(sample: &Sample) -> Result<(), String> {
    let place = Place::set_up(sample);
    if let Some(race) = &sample.race {
        return check_race(sample, &place, race).await;
    }
    let bench = place.bench(sample);
    let before = place.outside();
    let path = place.fill(&sample.path);
    let limit = Duration::from_millis(sample.timeout_ms.unwrap_or(10_000));
    if sample.tool == "Edit" {
        // The agent has read what it may read.
        bench.call("Read", json!({"file_path": path})).await;
    }
    let outcome = tokio::time::timeout(limit, bench.call(&sample.tool, input(sample, &path)))
        .await
        .map_err(|_| "did not end in time".to_owned())?;
    let shown = format!("{outcome:?}");
    if place.outside() != before {
        return Err("something outside changed".to_owned());
    }
    if sample.expect_grep.as_deref() == Some("skips") {
        return if outcome.is_error { Err(shown) } else { Ok(()) };
    }
    match sample.expect.as_str() {
        "allow" => allowed(sample, &outcome).then_some(()).ok_or(shown),
        "deny" => refused(&outcome).then_some(()).ok_or(shown),
        other => panic!("no such expectation: {other}"),
    }
}

fn allowed(sample: &Sample, outcome: &ToolOutcome) -> bool {
    let content = sample.content.as_deref().unwrap_or("INSIDE");
    !outcome.is_error && outcome.content.contains(content)
}

fn refused(outcome: &ToolOutcome) -> bool {
    outcome.is_error && !outcome.content.contains("OUTSIDE") && !outcome.content.contains("INSIDE")
}

/// Someone appends lines while the agent reads and edits: no line may be lost. One may: who opened the file before it was
/// replaced, and writes after the last look at it, writes to a file that is gone.
async fn check_race(sample: &Sample, place: &Place, race: &Race) -> Result<(), String> {
    use std::io::Write as _;
    let file = place.base.join(&race.append);
    let bench = place.bench(sample);
    let path = place.fill(&sample.path);
    let mut lost = Vec::new();
    for round in 0..race.tries {
        fs::write(&file, "one\ntwo\n").unwrap();
        bench.call("Read", json!({"file_path": path})).await;
        let line = format!("appended {round}\n");
        let appender = {
            let (file, line) = (file.clone(), line.clone());
            std::thread::spawn(move || {
                fs::OpenOptions::new().append(true).open(file).unwrap().write_all(line.as_bytes()).unwrap();
            })
        };
        bench.call("Edit", input(sample, &path)).await;
        appender.join().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        if !text.contains(&line) {
            lost.push(format!("round {round}: the appended line is lost: {text:?}"));
        }
    }
    if lost.len() > 1 { Err(lost.join("\n")) } else { Ok(()) }
}

#[tokio::test]
async fn every_sample_gets_its_verdict() {
    let samples = include_str!("fixtures/paths.jsonl").lines().map(serde_json::from_str::<Sample>);
    let mut wrong = Vec::new();
    for sample in samples.map(Result::unwrap) {
        if let Err(why) = check(&sample).await {
            wrong.push(format!("{}: {why}", sample.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a call is refused, as a person is asked for it.
async fn needs_of(bench: &Bench, tool: &str, input: Value) -> Vec<Refusal> {
    bench.call(tool, input).await.refused
}

#[tokio::test]
async fn an_approved_path_is_that_path_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let (root, other) = (top.join("project"), top.join("other"));
    for folder in [&root, &other, &other.join(".git")] {
        std::fs::create_dir(folder).unwrap();
    }
    std::fs::write(other.join("a"), "the text\n").unwrap();
    std::fs::write(other.join("secret"), "the secret\n").unwrap();
    std::fs::write(other.join("denied"), "the secret\n").unwrap();
    std::os::unix::fs::symlink(other.join("a"), root.join("link")).unwrap();
    let deny = Some(vec!["../other/denied".to_owned()]);
    let mut bench = Bench::with(&root, Permissions { deny, ..Permissions::default() });
    let path = |name: &str| other.join(name).to_str().unwrap().to_owned();
    let read = |name: &str| json!({"file_path": path(name)});
    // The real path is asked for, not the link that led there.
    let needs = needs_of(&bench, "Read", json!({"file_path": "link"})).await;
    assert_eq!(needs, [Refusal::Read { path: path("a") }]);
    assert_eq!(
        needs_of(&bench, "Grep", json!({"pattern": "x", "path": "../other"})).await,
        [Refusal::Read { path: format!("{}/", other.display()) }]
    );
    // Denied or protected paths are not asked for.
    assert_eq!(needs_of(&bench, "Read", read("denied")).await, []);
    let hook = json!({"file_path": path(".git/hooks/x"), "content": "x"});
    assert_eq!(needs_of(&bench, "Write", hook.clone()).await, []);

    bench.context.approved = needs;
    assert!(bench.ok("Read", json!({"file_path": "link"})).await.contains("the text"));
    bench.fails("Read", read("secret")).await;
    bench.fails("Write", json!({"file_path": path("a"), "content": "x"})).await;
    // What takes its place is not what was approved.
    std::fs::remove_file(other.join("a")).unwrap();
    std::os::unix::fs::symlink(other.join("secret"), other.join("a")).unwrap();
    assert!(!bench.fails("Read", read("a")).await.contains("the secret"));

    bench.context.approved = vec![Refusal::Write { path: path("new") }];
    bench.ok("Write", json!({"file_path": path("new"), "content": "x"})).await;
    bench.fails("Write", json!({"file_path": path("newer"), "content": "x"})).await;
    // Deny and protected names win over an approval.
    bench.context.approved = vec![
        Refusal::Read { path: format!("{}/", other.display()) },
        Refusal::Write { path: format!("{}/", other.display()) },
    ];
    bench.fails("Read", read("denied")).await;
    bench.fails("Write", hook).await;
    let found = bench.ok("Grep", json!({"pattern": "the secret", "path": "../other"})).await;
    assert!(found.contains("secret") && !found.contains("denied"), "{found}");
}
