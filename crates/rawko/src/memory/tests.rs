//! The folder with everything that can be in it, and what the store makes of it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rawko_core::Timestamp;
use rawko_core::agent::Importance;
use rawko_core::memory::{Query, Recipient, Severity, Use, UseOutcome};

use super::*;

pub(super) const NOW: Timestamp = Timestamp(1_769_160_600_000);

/// A project of its own.
pub(super) struct Project {
    dir: tempfile::TempDir,
}

impl Project {
    pub(super) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn store(&self) -> MemoryStore {
        MemoryStore::of_project(self.path())
    }

    pub(super) fn put(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.store().folder().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// A sound memory with these further lines of front matter.
    pub(super) fn memory(&self, name: &str, title: &str, when: &str, more: &str) -> PathBuf {
        self.put(
            name,
            format!(
                "---\ntitle: {title}\nwhenToUse: {when}\nimportance: high\ndiscoveredAt: 2026-01-02T00:00:00Z\n\
                 discoveredBy: planner\n{more}---\n\nThe body of {title}.\n"
            ),
        )
    }

    pub(super) fn recall(&self, task: &str) -> Recall {
        let agent =
            serde_json::from_value(serde_json::json!({"name": "developer", "systemPrompt": ""})).unwrap();
        let recipient = Recipient::of(&agent, 5, Importance::Low);
        let query = Query::new(task, "developer", None);
        self.store().recall(&query, &recipient, &RecallOptions { now: NOW })
    }

    /// The paths of what a task is given.
    pub(super) fn given(&self, task: &str) -> Vec<String> {
        self.recall(task).selection.chosen.into_iter().map(|one| one.memory.path).collect()
    }
}

/// What is reported, as `path:line message`.
fn shown(reports: &[Report]) -> Vec<String> {
    reports
        .iter()
        .map(|report| match report.line {
            Some(line) => format!("{}:{line} {}", report.path, report.message),
            None => format!("{} {}", report.path, report.message),
        })
        .collect()
}

#[track_caller]
pub(super) fn holds(reports: &[Report], parts: &[&str]) {
    let shown = shown(reports);
    for part in parts {
        assert!(shown.iter().any(|line| line.starts_with(part)), "{part} in {shown:#?}");
    }
    assert_eq!(shown.len(), parts.len(), "{shown:#?}");
}

#[test]
fn without_a_folder_there_is_nothing_and_nothing_is_made() {
    let project = Project::new();
    assert_eq!(project.store().inventory(), Inventory::default());
    assert_eq!(project.recall("x"), Recall::default());
    assert!(project.store().check(NOW).is_empty());
    assert!(fs::read_dir(project.path()).unwrap().next().is_none());
}

#[test]
fn everything_that_can_lie_there_is_read_or_reported() {
    let project = Project::new();
    project.memory("good.md", "Good", "auth", "");
    project.memory("deep/er/nested.md", "Nested", "auth", "");
    project.put("bom.md", "\u{feff}---\r\ntitle: Bom\r\nwhenToUse: auth\r\nimportance: low\r\ndiscoveredAt: 2026-01-02\r\ndiscoveredBy: me\r\n---\r\nText\r\n");
    project.put("only.md", "---\ntitle: Only front matter\nwhenToUse: auth\nimportance: low\ndiscoveredAt: 2026-01-02\ndiscoveredBy: me\n---");
    project.put("notes.txt", "not a memory");
    project.put(".hidden.md", "not one either");
    project.put("none.md", "# Just text\n");
    project.put("yaml.md", "---\ntitle: [\n---\n");
    project.put("latin.md", b"---\ntitle: caf\xe9\nwhenToUse: x\n---\n");
    project.put("long.md", format!("---\ntitle: x\nmore: {}\n---\n", "y".repeat(70_000)));
    let huge = project.put("huge.md", "");
    fs::File::options().write(true).open(&huge).unwrap().set_len(50 * 1024 * 1024).unwrap();
    project.put("outside.txt", "");
    symlink("/etc/hosts", project.store().folder().join("link.md")).unwrap();
    symlink("/etc", project.store().folder().join("folder-link")).unwrap();
    fs::create_dir(project.store().folder().join("folder.md")).unwrap();
    let inventory = project.store().inventory();
    let paths: Vec<&str> = inventory.memories.iter().map(|memory| memory.path.as_str()).collect();
    assert_eq!(paths, ["bom.md", "deep/er/nested.md", "good.md", "only.md"]);
    holds(
        &inventory.reports,
        &[
            "folder-link is a link",
            "link.md is a link",
            "huge.md is larger than 1024 kB",
            "latin.md:2 the front matter is not UTF-8",
            "long.md:1 the front matter is longer than 64 kB",
            "none.md:1 the front matter is missing",
            "yaml.md:2 not valid YAML",
        ],
    );
    assert!(
        inventory.reports.iter().all(|report| !report.help.is_empty() && report.severity == Severity::Error)
    );
    let recall = project.recall("Fix auth");
    assert_eq!((recall.selection.chosen.len(), recall.total), (4, 4));
    assert!(recall.block.contains("| The body of Nested."), "{}", recall.block);
}

#[test]
fn a_folder_that_is_none_is_reported() {
    let link = Project::new();
    fs::create_dir_all(link.path().join(".rawko")).unwrap();
    symlink("/etc", link.path().join(".rawko/memories")).unwrap();
    let file = Project::new();
    fs::create_dir_all(file.path().join(".rawko")).unwrap();
    fs::write(file.path().join(".rawko/memories"), "").unwrap();
    let above = Project::new();
    fs::write(above.path().join(".rawko"), "").unwrap();
    let new = NewMemory::new("T", vec!["x".to_owned()], "me", NOW);
    for (project, wrong) in
        [(link, " is a link"), (file, " is a file"), (above, " cannot be there: .rawko is a file")]
    {
        let store = project.store();
        holds(&store.inventory().reports, &[wrong]);
        assert_eq!(store.obstacle().as_ref(), store.inventory().reports.first());
        let refused = store.add(&new, false).unwrap_err();
        assert!(refused.to_string().starts_with(&format!(".rawko/memories{wrong}")), "{refused}");
        assert!(store.record_uses(&[one_use("a.md", true)]).is_err());
        assert_eq!(project.recall("x").reports, store.inventory().reports);
    }
}

#[test]
fn what_may_not_be_read_is_reported() {
    let project = Project::new();
    let file = project.memory("closed.md", "Closed", "auth", "");
    let folder = project.memory("dir/a.md", "A", "auth", "").parent().unwrap().to_owned();
    project.memory("open.md", "Open", "auth", "");
    let inventory = with_modes(&[(&file, 0o000), (&folder, 0o000)], || project.store().inventory());
    let Some(inventory) = inventory else { return };
    holds(&inventory.reports, &["dir cannot be read", "closed.md cannot be read"]);
    assert_eq!(inventory.memories.len(), 1);
    // The index must not go on telling what was to be read before.
    assert_eq!(project.store().inventory().memories.len(), 3);
    let inventory = with_modes(&[(&folder, 0o000)], || project.store().inventory()).unwrap();
    holds(&inventory.reports, &["dir cannot be read"]);
    assert_eq!(project.given("auth").len(), 3);
}

#[test]
fn a_folder_that_may_not_be_read_says_so_and_is_not_written_to() {
    let project = Project::new();
    project.memory("a.md", "A", "auth", "");
    let store = project.store();
    let new = NewMemory::new("T", vec!["x".to_owned()], "me", NOW);
    let tried = || (store.inventory(), project.recall("auth"), store.add(&new, false).unwrap_err());
    let tried = with_modes(&[(&store.folder(), 0o000)], tried);
    let Some((inventory, recall, refused)) = tried else { return };
    holds(&inventory.reports, &[" cannot be read: Permission denied"]);
    assert_eq!((recall.reports, recall.total), (inventory.reports, 0));
    assert!(refused.to_string().starts_with(".rawko/memories cannot be read: "), "{refused}");
    assert_eq!(project.given("auth"), ["a.md"]);
}

/// What `work` makes while files have other modes, as a user whom these restrict. `None` where that is not possible:
/// modes do not restrict root.
pub(super) fn with_modes<R: Send>(modes: &[(&Path, u32)], work: impl FnOnce() -> R + Send) -> Option<R> {
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let before: Vec<u32> =
        modes.iter().map(|(path, _)| fs::metadata(path).unwrap().permissions().mode()).collect();
    modes.iter().for_each(|(path, mode)| set(path, *mode));
    let done = std::thread::scope(|scope| {
        // On Linux a thread may give up what makes root root, for itself and the threads that it starts.
        let work = || match is_held_back() {
            true => Some(work()),
            false => panic!("this user may read everything: run the tests as a user who is not root"),
        };
        scope.spawn(work).join()
    });
    modes.iter().zip(before).for_each(|((path, _), mode)| set(path, mode));
    done.unwrap()
}

#[cfg(target_os = "linux")]
fn is_held_back() -> bool {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let mut own = capabilities(None).unwrap();
    own.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    set_capabilities(None, own).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn is_held_back() -> bool {
    !rustix::process::geteuid().is_root()
}

#[test]
fn new_memories_never_take_the_place_of_others() {
    let project = Project::new();
    let mut new = NewMemory::new("Money is in cents", vec!["money|price".to_owned()], "developer", NOW);
    new.body = "All amounts are integers of cents; floats are never used.".to_owned();
    assert_eq!(project.store().add(&new, false).unwrap(), "money-is-in-cents.md");
    let again = project.store().add(&new, false);
    assert!(matches!(again, Err(WriteError::Duplicate { path, .. }) if path == "money-is-in-cents.md"));
    let mut near = new.clone();
    near.title = "Amounts of money".to_owned();
    near.body = "Amounts are integers of cents, and floats are never used at all.".to_owned();
    assert!(matches!(project.store().add(&near, false), Err(WriteError::Duplicate { .. })));
    assert_eq!(project.store().add(&new, true).unwrap(), "money-is-in-cents-2.md");
    let invalid = NewMemory { title: " ".to_owned(), ..new };
    assert!(
        matches!(project.store().add(&invalid, false), Err(WriteError::Invalid(reports)) if reports[0].message.contains("title"))
    );
    assert!(
        fs::read_to_string(project.store().folder().join(".gitignore"))
            .unwrap()
            .contains("/.feedback.jsonl\n")
    );
    assert_eq!(project.given("Show the price").len(), 2);
}

#[test]
fn retired_memories_stay_and_are_never_given() {
    let project = Project::new();
    project.memory("a.md", "A", "auth", "# mine\nown: 1\n");
    project.memory("b.md", "B", "auth", "");
    project.memory("c.md", "C", "auth", "");
    let store = project.store();
    assert_eq!(store.retire("a.md", NOW).unwrap(), Retirement::Done);
    let text = fs::read_to_string(store.folder().join("a.md")).unwrap();
    assert!(
        text.contains("# mine\nown: 1\nexpiresAt: \"2026-01-23T09:30:00.000Z\"\n---\n\nThe body of A."),
        "{text}"
    );
    let one = |name: &str| store.find(name).remove(0);
    assert_eq!(store.supersede(&one("B"), &one("C"), NOW).unwrap(), Retirement::Done);
    assert_eq!(project.given("auth"), ["c.md"]);
    assert!(matches!(store.retire("d.md", NOW), Err(WriteError::NotFound { .. })));
    assert!(store.note("c.md", "found again by tester in s1").unwrap());
    assert!(!store.note("c.md", "found again by tester in s1").unwrap());
    let recall = project.recall("auth");
    assert!(
        recall.block.contains("The body of C.") && !recall.block.contains("found again"),
        "{}",
        recall.block
    );
}

#[test]
fn a_retired_memory_is_no_reason_not_to_write_one() {
    let new = NewMemory {
        body: "The body of Port.".to_owned(),
        ..NewMemory::new("Port", vec!["x".to_owned()], "me", NOW)
    };
    let check = |file: &str, other: Option<&str>, is_known: bool| {
        let project = Project::new();
        project.memory("port.md", "Port", "auth", file);
        if let Some(more) = other {
            project.memory("other.md", "Other", "auth", more);
        }
        assert_eq!(project.store().add(&new, false).is_err(), is_known, "{file} {other:?}");
    };
    check("", None, true);
    check("expiresAt: 2030-01-01\n", None, true);
    check("expiresAt: 2026-01-01\n", None, false);
    check("", Some("supersedes: port\n"), false);
    check("", Some("supersedes: somewhat\n"), true);
    // A fact is no duplicate of a warning.
    check("kind: avoid\n", None, false);
}

/// Whatever is given was looked at, also what is given only because it contradicts something.
#[test]
fn a_contradicting_memory_is_checked_too() {
    let project = Project::new();
    project.memory("a.md", "Ports", "auth", "");
    project.memory("b.md", "ports", "nothing", "paths: ['lib/**']\n");
    let recall = project.recall("auth");
    let given: Vec<(&str, bool, f64)> = recall
        .selection
        .chosen
        .iter()
        .map(|one| (one.memory.path.as_str(), one.staleness.nothing_left, one.score.staleness))
        .collect();
    assert_eq!(given, [("a.md", false, 0.0), ("b.md", true, -15.0)]);
    assert!(
        recall.block.contains("*Careful: nothing is left at the paths it speaks of*"),
        "{}",
        recall.block
    );
}

/// A use in an execution that went well.
fn one_use(memory: &str, cited: bool) -> Use {
    Use {
        session: "s".to_owned(),
        iteration: 1,
        agent: "developer".to_owned(),
        memory: memory.to_owned(),
        cited,
        touched: false,
        outcome: UseOutcome::Success,
        at: NOW,
    }
}

#[test]
fn a_proposed_memory_is_marked_until_it_helped_or_somebody_keeps_it() {
    let project = Project::new();
    let path = project.memory("a.md", "A", "auth", "status: proposed\n");
    let critical = fs::read_to_string(&path).unwrap().replace("importance: high", "importance: critical");
    fs::write(&path, critical).unwrap();
    project.memory("b.md", "B", "mail", "status: proposed\n");
    let store = project.store();
    let marked = |task: &str| project.recall(task).block.contains("*Unconfirmed: ");
    assert!(marked("auth") && marked("mail"));
    assert!(
        project.recall("auth").block.contains("*Importance: HIGH*"),
        "what is proposed is never critical"
    );
    store.record_uses(&[one_use("a.md", false)]).unwrap();
    assert!(marked("auth"), "it was ignored");
    store.record_uses(&[one_use("a.md", true)]).unwrap();
    assert!(!marked("auth"));
    let open = || store.proposed(NOW).into_iter().map(|memory| memory.path).collect::<Vec<_>>();
    assert_eq!(open(), ["a.md", "b.md"]);
    store.confirm("b.md").unwrap();
    assert!(!marked("mail"));
    store.retire("a.md", NOW).unwrap();
    assert_eq!(open(), [""; 0]);
}

/// The file may come with a clone.
#[test]
fn no_feedback_lifts_a_score() {
    let project = Project::new();
    project.memory("a.md", "A", "auth", "");
    let line = serde_json::to_string(&one_use("a.md", true)).unwrap();
    let odd = line.replace("\"iteration\":1", "\"iteration\":4294967295");
    project.put(".feedback.jsonl", format!("{line}\n{odd}\n").repeat(2_000));
    let score = project.recall("auth").selection.chosen[0].score;
    assert!(score.feedback <= 0.0 && score.total <= 100.0, "{score:?}");
}

#[test]
fn uses_are_remembered() {
    let project = Project::new();
    project.memory("a.md", "A", "auth", "");
    project.memory("b.md", "B", "auth", "");
    assert_eq!(project.given("auth"), ["a.md", "b.md"]);
    project.store().record_uses(&[one_use("a.md", false), one_use("b.md", true)]).unwrap();
    project.store().record_uses(&[one_use("b.md", true)]).unwrap();
    assert_eq!(project.given("auth"), ["b.md", "a.md"]);
    let path = project.store().folder().join(".feedback.jsonl");
    fs::write(&path, format!("{}not json\n\n", fs::read_to_string(&path).unwrap())).unwrap();
    let (all, reports) = project.store().feedback();
    assert_eq!((all["b.md"].uses, all["b.md"].helped, all["a.md"].ignored), (2, 2, 1));
    holds(&reports, &[".feedback.jsonl holds lines"]);
}

#[test]
fn an_expression_that_would_blow_up_costs_no_time() {
    let project = Project::new();
    project.memory("slow.md", "Slow", "'(x+x+)+(x|x)*y'", "");
    project.memory("large.md", "Large", "'(((x{1,99}){1,99}){1,99}){1,99}'", "");
    project.memory("words.md", "Words", "exes", "");
    let begun = std::time::Instant::now();
    assert_eq!(project.given(&format!("{} exes", "x".repeat(15_000))), ["words.md"]);
    // With backtracking the age of the universe would not do.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    holds(&project.store().check(NOW), &["large.md:3 the pattern `(((x{1,99})"]);
}

#[test]
fn dates_of_any_zone_are_the_same_instant() {
    let project = Project::new();
    // An hour before now, and one to come.
    for (name, date, points) in [
        ("utc.md", "2026-01-23T08:30:00Z", 10.0),
        ("tokyo.md", "2026-01-23T17:30:00+09:00", 10.0),
        ("caracas.md", "2026-01-23T04:00:00-04:30", 10.0),
        // By its digits it would be to come.
        ("line.md", "2026-01-23T23:00:00+14:00", 10.0),
        ("to-come.md", "2026-01-23T08:30:00-14:00", 0.0),
    ] {
        let text = format!(
            "---\ntitle: {name}\nwhenToUse: auth\nimportance: low\ndiscoveredAt: {date}\ndiscoveredBy: x\n---\nText.\n"
        );
        project.put(name, text);
        let chosen = project.recall("auth").selection.chosen;
        let one = chosen.iter().find(|one| one.memory.path == name).unwrap();
        assert!((one.score.recency - points).abs() < 1e-9, "{name}: {:?}", one.score);
    }
    holds(&project.store().check(NOW), &["to-come.md:5 `discoveredAt` lies in the future"]);
}

#[test]
fn what_is_wrong_between_memories_is_found() {
    let project = Project::new();
    project.memory("a.md", "Same", "auth", "supersedes: [gone, a]\n");
    project.memory("b.md", "same", "auth", "conflictsWith: nobody\n");
    project.memory("c.md", "C", "auth", "supersedes: d\n");
    project.memory("d.md", "D", "auth", "supersedes: c.md\nexpiresAt: 2030-01-01\n");
    let text = "---\ntitle: E\nwhenToUse: 'a(b'\nimportance: high\ndiscoveredAt: 2031-01-02T00:00:00Z\ndiscoveredBy: x\n---\n";
    project.put("e.md", [text.as_bytes(), b"caf\xe9\n"].concat());
    holds(
        &project.store().check(NOW),
        &[
            "a.md:7 `supersedes` names `gone`",
            "a.md:7 `supersedes` names the memory itself",
            "b.md:2 has the same title as a.md",
            "b.md:7 `conflictsWith` names `nobody`",
            "c.md:7 this memory and `d` supersede each other",
            "d.md:7 this memory and `c.md` supersede each other",
            "e.md the text holds bytes",
            "e.md:3 the pattern `a(b` is no regular expression",
            "e.md:5 `discoveredAt` lies in the future",
        ],
    );
}

#[test]
fn what_speaks_of_changed_files_says_so() {
    let project = Project::new();
    fs::write(project.path().join("x.rs"), "old").unwrap();
    let cited = cite(project.path(), "x.rs").unwrap();
    project.memory("a.md", "A", "auth", &format!("files: [{{path: x.rs, sha256: {}}}]\n", cited.sha256));
    project.memory("b.md", "B", "auth", "paths: ['lib/**']\n");
    assert!(!project.recall("auth").block.contains("has changed"));
    fs::write(project.path().join("x.rs"), "new").unwrap();
    let recall = project.recall("auth");
    assert!(recall.block.contains("*Careful: changed since: x.rs*"), "{}", recall.block);
    let scores: Vec<f64> = recall.selection.chosen.iter().map(|one| one.score.staleness).collect();
    assert_eq!(scores, [-5.0, -15.0]);
}
