//! Two sessions in a project, of which the newest can be put into many states.

use std::path::{Path, PathBuf};

use rawko::journal::{JournalWriter, SessionStatus};
use serde_json::json;

use crate::bench::{Bench, complete, report, select, turn};
use crate::support::copy;

/// Two sessions in a project, which is the same for all cases.
pub(crate) struct World {
    pub(crate) bench: Bench,
    /// The sessions as they were at first.
    kept: PathBuf,
    pub(crate) older: String,
    pub(crate) newest: String,
}

impl World {
    pub(crate) fn new(older_lines: Option<usize>) -> Self {
        let task = [
            select(),
            turn("I write.", "Write", json!({"file_path": "a.txt", "content": "a\n"})),
            report(),
            complete(),
        ];
        // Of both tasks and all that follow them.
        let script: Vec<_> = std::iter::repeat_n(task, 6).flatten().collect();
        let bench = Bench::new(&json!(script));
        for task in ["Do the older task.", "Do the newest task."] {
            bench.rawko(&["run", "--quiet", task]).check(0, &[]);
        }
        let ids: Vec<String> = bench.store().list().unwrap().into_iter().map(|session| session.id).collect();
        let [older, newest] = ids.try_into().unwrap();
        let kept = bench.outside().join("kept");
        let world = Self { bench, kept, older, newest };
        if let Some(lines) = older_lines {
            cut(&world.bench.store().find(&world.older).unwrap(), lines);
        }
        copy(world.bench.store().folder(), &world.kept);
        world
    }

    /// Both sessions as they were at first.
    pub(crate) fn restore(&self) {
        std::fs::remove_dir_all(self.bench.store().folder()).unwrap();
        copy(&self.kept, self.bench.store().folder());
        let _ = std::fs::remove_file(self.bench.outside().join("second"));
    }

    /// The journal of the newest session.
    pub(crate) fn journal(&self) -> PathBuf {
        self.bench.store().folder().join(&self.newest).join("journal.jsonl")
    }

    pub(crate) fn bytes_of_older(&self) -> Vec<u8> {
        std::fs::read(self.bench.store().find(&self.older).unwrap()).unwrap()
    }

    #[track_caller]
    pub(crate) fn status(&self, id: &str) -> SessionStatus {
        let mut sessions = self.bench.store().list().unwrap().into_iter();
        sessions.find(|session| session.id == id).unwrap().status
    }

    pub(crate) fn cut(&self, lines: usize) -> Option<JournalWriter> {
        cut(&self.journal(), lines);
        None
    }

    /// The same for a session that has kept nothing yet.
    pub(crate) fn at_its_beginning(&self, change: impl FnOnce(&str) -> String) -> Option<JournalWriter> {
        for folder in ["blobs", "checkpoints"] {
            let _ = std::fs::remove_dir_all(self.journal().parent().unwrap().join(folder));
        }
        self.change(change)
    }

    pub(crate) fn change(&self, change: impl FnOnce(&str) -> String) -> Option<JournalWriter> {
        let text = std::fs::read_to_string(self.journal()).unwrap();
        let changed = change(&text);
        assert_ne!(text, changed);
        std::fs::write(self.journal(), changed).unwrap();
        None
    }

    /// Runs this in place of the newest session.
    pub(crate) fn instead(&self, arguments: &[&str], code: i32) -> Option<JournalWriter> {
        std::fs::remove_dir_all(self.journal().parent().unwrap()).unwrap();
        // Of two executions only one may be begun.
        let script = self.bench.project().join("script.json");
        let before = std::fs::read_to_string(&script).unwrap();
        let answers = json!([
            select(),
            report(),
            {"for": "evaluate", "decision": {"decision": "RETRY", "reason": "once more"}},
            select(),
            report(),
            complete(),
        ]);
        std::fs::write(&script, answers.to_string()).unwrap();
        self.bench.rawko(arguments).check(code, &[]);
        std::fs::write(&script, before).unwrap();
        None
    }
}

/// Cuts a journal after its first `lines` lines, as a kill would.
fn cut(journal: &Path, lines: usize) {
    let text = std::fs::read_to_string(journal).unwrap();
    let kept: String = text.split_inclusive('\n').take(lines).collect();
    assert!(kept.len() < text.len());
    std::fs::write(journal, kept).unwrap();
}
