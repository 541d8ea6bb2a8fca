//! The index against the files themselves: whatever happens to the folder, both lead to the same selection.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rawko_core::agent::Importance;
use rawko_core::memory::{Query, Reason, Recipient, Similarity, shortlist_len};
use rustix::fs::{AtFlags, Timespec, Timestamps, utimensat};

use super::*;
use crate::memory::effort::MAX_COMPILED;
use crate::memory::store::{Recall, RecallOptions};
use crate::memory::tests::{NOW, Project};

const TASKS: [&str; 4] = [
    "Add OAuth integration to the auth system",
    "Fix rate limiting of the payment module, and test naïve İnputs",
    "Sending mail",
    "Kürze die Datenbankmigrationen",
];

pub(super) fn recipient(max: u32, min: Importance) -> Recipient {
    let agent = serde_json::json!({"name": "developer", "systemPrompt": ""});
    Recipient::of(&serde_json::from_value(agent).unwrap(), max, min)
}

/// By the index and by the files.
fn both(project: &Project, task: &str, recipient: &Recipient, options: &RecallOptions) -> (Recall, Recall) {
    let query =
        Query::new(task, "developer", Some("1. Draw the login form"), Some("tester: rate-limits hold"));
    let near = shortlist_len(recipient.max_injected as usize);
    let by_index = project.store().recall(&query, recipient, options);
    let mut by_files = project.store().explain(&query, recipient, options);
    by_files
        .selection
        .left_out
        .retain(|left| matches!(left.reason, Reason::NoPlace { rank } if rank <= near));
    (by_index, by_files)
}

#[track_caller]
pub(super) fn agree(project: &Project) {
    for task in TASKS {
        for (max, min) in [(5, Importance::Low), (2, Importance::Medium)] {
            let options = RecallOptions { now: NOW, ..RecallOptions::default() };
            let (by_index, by_files) = both(project, task, &recipient(max, min), &options);
            assert_eq!(by_index.selection, by_files.selection, "{task}");
            assert_eq!((by_index.total, &by_index.block), (by_files.total, &by_files.block), "{task}");
        }
    }
}

/// What may happen to the folder.
#[derive(Debug, Clone)]
enum Step {
    Put(usize, Front),
    /// Another text of the same length and with the same mtime.
    Swap(usize),
    Remove(usize),
    Rename(usize, usize),
    RemoveFolder,
    Broken(usize),
}

#[derive(Debug, Clone)]
struct Front {
    title: &'static str,
    when: &'static str,
    importance: &'static str,
    date: u8,
    more: &'static str,
}

const NAMES: [&str; 7] = ["a.md", "b.md", "z.md", "sub/a.md", "sub/c.md", "sub/deep/d.md", "sub-2/e.md"];

fn front() -> impl Strategy<Value = Front> {
    let title = prop::sample::select(vec!["Auth", "Rate limits", "Payment module", "Mail", "auth"]);
    let when = prop::sample::select(vec![
        "auth",
        "oauth|saml",
        "when adding oauth to a system",
        "rate-lim",
        "pay*module",
        "implement.*auth",
        "'.*'",
        "'a(b'",
        "limit?ng",
        "[mail, login]",
        "Datenbankmigration ändern",
        "'{pattern: naïve}'",
        "'(?i)İnput'",
        "'[xyz]|sending'",
        "'ing.{0,3}of'",
        "'...'",
        "'((((a{99}){99}){99}){99})|x'",
        "'|'",
    ]);
    let importance = prop::sample::select(vec!["low", "medium", "high"]);
    let more = prop::sample::select(vec![
        "",
        "tags: [code, patterns]",
        "supersedes: [a, sub/c]",
        "conflictsWith: [Mail]",
        "expiresAt: 2020-01-01",
        "kind: avoid",
        "discoveredBy: developer",
        "supersedes: Auth",
    ]);
    (title, when, importance, 1..28_u8, more).prop_map(|(title, when, importance, date, more)| Front {
        title,
        when,
        importance,
        date,
        more,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..NAMES.len();
    prop_oneof![
        6 => (name.clone(), front()).prop_map(|(at, front)| Step::Put(at, front)),
        2 => name.clone().prop_map(Step::Swap),
        1 => name.clone().prop_map(Step::Remove),
        1 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => Just(Step::RemoveFolder),
        1 => name.prop_map(Step::Broken),
    ]
}

fn carry_out(project: &Project, step: &Step) {
    let path = |at: &usize| project.store().folder().join(NAMES[*at]);
    match step {
        Step::Put(at, Front { title, when, importance, date, more }) => {
            let text = format!(
                "---\ntitle: {title}\nwhenToUse: {when}\nimportance: {importance}\n\
                 discoveredAt: 2026-01-{date:02}T00:00:00Z\n{more}\n---\n\nBody of {title}.\n"
            );
            project.put(NAMES[*at], text);
        }
        Step::Swap(at) => {
            let Ok(text) = fs::read_to_string(path(at)) else { return };
            let data = fs::metadata(path(at)).unwrap();
            // The same bytes of the file system's table but for ctime: what a careless tool leaves behind.
            fs::write(path(at), text.replace("auth", "mail").replace("Mail", "Auth")).unwrap();
            let time = |ns: i64, seconds: i64| Timespec { tv_sec: seconds, tv_nsec: ns };
            use std::os::unix::fs::MetadataExt as _;
            let times = Timestamps {
                last_access: time(data.atime_nsec(), data.atime()),
                last_modification: time(data.mtime_nsec(), data.mtime()),
            };
            utimensat(rustix::fs::CWD, path(at), &times, AtFlags::empty()).unwrap();
        }
        Step::Remove(at) => drop(fs::remove_file(path(at))),
        Step::Rename(from, to) => {
            if path(from).exists() {
                fs::create_dir_all(path(to).parent().unwrap()).unwrap();
                fs::rename(path(from), path(to)).unwrap();
            }
        }
        Step::RemoveFolder => drop(fs::remove_dir_all(project.store().folder().join("sub"))),
        Step::Broken(at) => drop(project.put(NAMES[*at], "---\ntitle: [\n---\n")),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn index_and_files_agree_whatever_happens(
        first in prop::collection::vec((0..NAMES.len(), front()), 0..7),
        steps in prop::collection::vec(step(), 0..6),
    ) {
        let project = Project::new();
        for (at, front) in first {
            carry_out(&project, &Step::Put(at, front));
        }
        agree(&project);
        for step in steps {
            carry_out(&project, &step);
            agree(&project);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn a_run_that_goes_on_sees_every_change(steps in prop::collection::vec(step(), 1..8)) {
        let project = filled();
        settle(&project);
        // One store, as a run has it: it may believe its watch.
        let store = project.store();
        let query = Query::new(TASKS[0], "developer", None, None);
        let (recipient, options) = (recipient(5, Importance::Low), RecallOptions { now: NOW, ..RecallOptions::default() });
        for step in steps {
            let _ = store.recall(&query, &recipient, &options);
            carry_out(&project, &step);
            let (by_index, by_files) =
                (store.recall(&query, &recipient, &options), store.explain(&query, &recipient, &options));
            prop_assert_eq!(by_index.selection.chosen, by_files.selection.chosen);
        }
    }
}

pub(super) fn filled() -> Project {
    let project = Project::new();
    for (number, name) in NAMES.iter().enumerate() {
        project.memory(name, &format!("Auth {number}"), "auth", "");
    }
    project
}

#[test]
fn a_damaged_index_is_as_good_as_none() {
    let project = filled();
    let file = project.store().folder().join(FOLDER).join(NAME);
    let sound = || {
        agree(&project);
        fs::read(&file).unwrap()
    };
    let whole = sound();
    for at in (0..whole.len()).step_by(13) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        fs::write(&file, damaged).unwrap();
        let options = RecallOptions { now: NOW, ..RecallOptions::default() };
        let (by_index, by_files) = both(&project, TASKS[0], &recipient(5, Importance::Low), &options);
        assert_eq!(by_index.selection, by_files.selection, "byte {at}");
    }
    for length in [0, 1, layout::HEADER_LEN, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..length]).unwrap();
        agree(&project);
    }
    fs::write(&file, "something else").unwrap();
    agree(&project);
    let root = project.store().open().unwrap().unwrap();
    sound();
    let mended = read::Index::open(fs::File::open(&file).unwrap()).unwrap();
    assert_eq!(mended.counts().memories as usize, NAMES.len());
    assert!(
        current_while(&root, Some(&project.store().folder()), &mut None, |_| ())
            .unwrap()
            .0
            .inventory()
            .is_some()
    );
    fs::remove_dir_all(project.store().folder().join(FOLDER)).unwrap();
    agree(&project);
    assert!(file.exists());
}

#[test]
fn an_index_by_other_rules_is_made_anew() {
    let project = filled();
    let whole = settle(&project);
    let file = project.store().folder().join(FOLDER).join(NAME);
    // As another rawko would have written it, sound in itself, and of a stemmer that knows no word.
    let mut other = whole.clone();
    other[8..12].copy_from_slice(&(rules::edition() ^ 1).to_le_bytes());
    let end = layout::HEADER_LEN - 8;
    let check = layout::checksum(&other[..end]);
    other[end..end + 8].copy_from_slice(&check.to_le_bytes());
    fs::write(&file, &other).unwrap();
    assert!(read::Index::open(fs::File::open(&file).unwrap()).is_none());
    agree(&project);
    assert_eq!(settle(&project)[8..12], whole[8..12]);
}

#[test]
fn where_it_cannot_be_kept_it_is_done_without() {
    let elsewhere = tempfile::tempdir().unwrap();
    let link = filled();
    symlink(elsewhere.path(), link.store().folder().join(FOLDER)).unwrap();
    agree(&link);
    assert!(fs::read_dir(elsewhere.path()).unwrap().next().is_none());
    let file = filled();
    fs::write(file.store().folder().join(FOLDER), "mine").unwrap();
    agree(&file);
    assert_eq!(fs::read_to_string(file.store().folder().join(FOLDER)).unwrap(), "mine");
}

#[test]
fn git_passes_it_over_whatever_else_it_is_told() {
    let project = filled();
    let git = |arguments: &[&str]| {
        let done = std::process::Command::new("git").current_dir(project.path()).args(arguments).output();
        String::from_utf8(done.unwrap().stdout).unwrap()
    };
    git(&["init", "--quiet"]);
    fs::write(project.store().folder().join(".gitignore"), "mine\n").unwrap();
    agree(&project);
    assert!(project.store().folder().join(FOLDER).join(NAME).exists());
    let seen = git(&["status", "--porcelain", "--untracked-files=all"]);
    assert!(seen.contains("a.md") && !seen.contains(FOLDER), "{seen}");
}

/// Waits until the index believes its stamps: the clock of the file system must have moved on.
pub(super) fn settle(project: &Project) -> Vec<u8> {
    let file = project.store().folder().join(FOLDER).join(NAME);
    let begun = Instant::now();
    loop {
        let written = fs::read(&file).ok();
        project.recall(TASKS[0]);
        let now = fs::read(&file).unwrap();
        let index = read::Index::open(fs::File::open(&file).unwrap()).unwrap();
        let trusted = (0..index.counts().files).all(|id| index.known(id).unwrap() != build::Known::Racy);
        if written.as_ref() == Some(&now) && trusted && index.folders.iter().all(|row| !row.racy) {
            return now;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it never settles");
    }
}

#[test]
fn what_did_not_change_is_not_written_again() {
    let project = filled();
    settle(&project);
    let file = project.store().folder().join(FOLDER).join(NAME);
    let stamp = || fs::metadata(&file).map(|data| (data.modified().unwrap(), data.len())).unwrap();
    let before = stamp();
    agree(&project);
    assert_eq!(stamp(), before);
    project.memory("new.md", "Auth new", "auth", "");
    agree(&project);
    assert_ne!(stamp(), before);
}

#[test]
fn a_few_changes_among_many_are_kept_beside_it() {
    let project = Project::new();
    for number in 0..420 {
        let when = ["auth", "mail", "when adding payment to the system", "oauth|x"][number % 4];
        project.memory(&format!("{}/{number}.md", number % 7), &format!("Title {number}"), when, "");
    }
    settle(&project);
    let file = project.store().folder().join(FOLDER).join(NAME);
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    project.memory(
        "3/fresh.md",
        "Auth system, OAuth integration",
        "auth",
        "supersedes: [8]\nconflictsWith: Title 12\n",
    );
    project.memory("0/7.md", "Title 7", "auth", "tags: [code]\n");
    fs::remove_file(project.store().folder().join("4/4.md")).unwrap();
    let options = RecallOptions { now: NOW, ..RecallOptions::default() };
    let (by_index, by_files) = both(&project, TASKS[0], &recipient(5, Importance::Low), &options);
    assert_eq!(by_index.total, by_files.total);
    let paths = |recall: &Recall| -> Vec<String> {
        recall.selection.chosen.iter().map(|one| one.memory.path.clone()).collect()
    };
    assert_eq!(paths(&by_index), paths(&by_files));
    assert_eq!(paths(&by_index)[..2], ["3/fresh.md", "5/12.md"]);
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), before);
}

/// Memories, each with an expression of its own that needs an engine, of which nothing is known beforehand and that matches.
fn expressions(count: usize) -> Project {
    let project = Project::new();
    for number in 0..count {
        project.memory(&format!("{number}.md"), &format!("T {number}"), &format!(r"'[a-z]|\d{number}'"), "");
    }
    project
}

#[test]
fn up_to_the_bound_every_expression_is_tried_and_beyond_it_that_is_said() {
    let most = usize::try_from(MAX_COMPILED).unwrap();
    let options = RecallOptions { now: NOW, ..RecallOptions::default() };
    let everybody = recipient(1_000, Importance::Low);
    let below = expressions(most);
    let (by_index, by_files) = both(&below, TASKS[2], &everybody, &options);
    assert_eq!((&by_index.selection, by_index.selection.chosen.len()), (&by_files.selection, most));
    assert!(!by_index.reports.iter().any(|report| report.message.contains("more")), "{:?}", by_index.reports);
    let beyond = expressions(most + 20);
    for _ in 0..2 {
        let (by_index, by_files) = both(&beyond, TASKS[2], &everybody, &options);
        let chosen = (by_index.selection.chosen.len(), by_files.selection.chosen.len());
        assert_eq!(chosen, (most, most + 20));
        for said in ["more expressions than are looked into", "expressions come near this query"] {
            let times = by_index.reports.iter().filter(|report| report.message.contains(said)).count();
            assert_eq!(times, 1, "{said}");
        }
        settle(&beyond);
    }
    // What is one of many is not checked on the way, but when somebody asks.
    let of_patterns = |reports: Vec<crate::memory::Report>| {
        reports.iter().filter(|report| report.message.starts_with("the pattern")).count()
    };
    // (A file that was read too early is read once more, by itself.)
    let checked = of_patterns(beyond.store().inventory().reports);
    assert!((most..most + 20).contains(&checked), "{checked}");
    assert_eq!(of_patterns(beyond.store().check(NOW)), most + 20);
    // It is not said for ever.
    for number in 0..30 {
        fs::remove_file(beyond.store().folder().join(format!("{number}.md"))).unwrap();
    }
    assert!(
        !beyond.recall(TASKS[2]).reports.iter().any(|report| report.message.contains("more expressions"))
    );
}

#[test]
fn meaning_finds_what_words_do_not() {
    let project = filled();
    project.memory("money.md", "Amounts are cents", "when money is counted", "");
    let mut options = RecallOptions { now: NOW, ..RecallOptions::default() };
    options.semantic.insert("money.md".to_owned(), Similarity { cosine: 0.7, matches: true });
    options.semantic.insert("a.md".to_owned(), Similarity { cosine: 0.2, matches: false });
    options.semantic.insert("gone.md".to_owned(), Similarity { cosine: 0.9, matches: true });
    let (by_index, by_files) = both(&project, "Round the price", &recipient(5, Importance::Low), &options);
    assert_eq!(by_index.selection, by_files.selection);
    assert_eq!(by_index.selection.chosen[0].memory.path, "money.md");
}
