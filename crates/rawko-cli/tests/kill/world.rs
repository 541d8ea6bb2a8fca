//! The world of one case: a repository, a folder outside of it for what commands do, and the binary at work there.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;

use serde_json::json;
use testkit::ModelServer;

use crate::script::NEXT_TASK;
use crate::support::{self, Process, Said};

/// The folders of one case.
pub(crate) struct World(support::World);

impl Deref for World {
    type Target = support::World;

    fn deref(&self) -> &support::World {
        &self.0
    }
}

impl World {
    /// A repository with one commit.
    pub(crate) fn new() -> Self {
        let world = Self(support::World::new());
        world.configure(&json!({
            "provider": {"claude": {"retry": {"maxAttempts": 3, "baseMs": 1, "capMs": 10}}},
            "arbiter": {"mode": "llm"},
            // Commands log what they do outside of the tree. A journal keeps this, and is copied with its world.
            "permissions": {"write": [".", "../out"]},
        }));
        world.write("../out/log", "");
        world.write("calc.sh", "add() {\n  echo $(($1 - $2))\n}\n");
        world.write("untracked.txt", "mine\n");
        world.git(&["init", "--quiet"]);
        world.git(&["add", "calc.sh"]);
        world.git(&["commit", "--quiet", "-m", "one"]);
        world
    }

    /// A copy of another world, whatever is in it.
    pub(crate) fn copy_of(other: &Self) -> Self {
        Self(support::World::copy_of(other))
    }

    /// Runs a shell command in the project, as a tool would.
    #[track_caller]
    pub(crate) fn shell(&self, command: &str) {
        let status = self.program("bash").args(["-c", command]).status().unwrap();
        assert!(status.success(), "{command}: {status}");
    }

    /// Starts `rawko run`.
    pub(crate) fn run(&self, server: &ModelServer) -> Process {
        self.start(server, &["run", "--output", "stream-json", "--", "Make add add."])
    }

    /// Starts `rawko continue`.
    pub(crate) fn go_on(&self, server: &ModelServer) -> Process {
        self.start(server, &["continue", "--output", "stream-json", "--", NEXT_TASK])
    }

    /// Starts `rawko resume` for the only session there is.
    pub(crate) fn resume(&self, server: &ModelServer) -> Process {
        self.start(server, &["resume", "--output", "stream-json"])
    }

    /// The same for a session that was not begun here: a copied journal bears no seal of this user's for this folder.
    pub(crate) fn resume_at_its_word(&self, server: &ModelServer) -> Process {
        self.start(server, &["resume", "--yes", "--output", "stream-json"])
    }

    /// Replays the only session, without a server to ask.
    pub(crate) fn replay(&self) -> Said {
        Said::of(self.command(&["replay", "--json"]).output().unwrap())
    }

    fn start(&self, server: &ModelServer, arguments: &[&str]) -> Process {
        Process::start(
            self.command(arguments)
                .env("ANTHROPIC_BASE_URL", server.claude_url())
                .env("ANTHROPIC_API_KEY", "sk-test")
                .env("RAWKO_PROVIDER", "claude"),
        )
    }

    /// The journal of the only session, once there is one.
    pub(crate) fn journal_path(&self) -> Option<PathBuf> {
        let sessions = std::fs::read_dir(self.project().join(".rawko/sessions")).ok()?;
        let mut journals = sessions.flatten().map(|entry| entry.path().join("journal.jsonl"));
        journals.find(|path| path.exists())
    }

    /// Records that the journal holds by now, its header included.
    pub(crate) fn records(&self) -> usize {
        let bytes = self.journal_path().and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
        memchr::memchr_iter(b'\n', &bytes).count()
    }

    /// What the user sees of the tree: every file but those of git and rawko, with its content.
    pub(crate) fn tree(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.project()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    let hidden = entry.file_name() == ".git" || entry.file_name() == ".rawko";
                    folders.extend((!hidden).then_some(path));
                } else {
                    let text = std::fs::read_to_string(&path).unwrap();
                    files.insert(path.strip_prefix(self.project()).unwrap().to_owned(), text);
                }
            }
        }
        files
    }

    /// The lines outside of the tree.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.outside().join("out/log")).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}
