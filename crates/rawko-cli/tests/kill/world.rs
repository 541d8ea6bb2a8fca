//! A world of its own for one case: a project, a home, a folder outside of the tree, and the binary at work in them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rawko::journal::{Journal, SessionStore};
use serde_json::{Value, json};
use testkit::ModelServer;

use crate::script::NEXT_TASK;

/// Longer than any run here takes on the slowest machine; a run that hangs fails its test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks for the time to kill.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Between two looks for the end of a run, for which nothing depends on a few milliseconds.
const END_AGAIN: Duration = Duration::from_millis(5);

/// The folders of one case.
pub(crate) struct World(tempfile::TempDir);

impl World {
    /// A repository with one commit.
    pub(crate) fn new() -> Self {
        let world = Self::empty();
        for folder in ["project", "home/config/rawko", "out"] {
            std::fs::create_dir_all(world.path().join(folder)).unwrap();
        }
        std::fs::write(world.path().join("out/log"), "").unwrap();
        let config = json!({
            "provider": {"claude": {"retry": {"maxAttempts": 3, "baseMs": 1, "capMs": 10}}},
            "arbiter": {"mode": "llm"},
            // Commands log what they do outside of the tree. A journal keeps this, and is copied with its world.
            "permissions": {"write": [".", "../out"]},
        });
        std::fs::write(world.path().join("home/config/rawko/config.yaml"), config.to_string()).unwrap();
        std::fs::write(world.project().join("calc.sh"), "add() {\n  echo $(($1 - $2))\n}\n").unwrap();
        std::fs::write(world.project().join("untracked.txt"), "mine\n").unwrap();
        world.git(&["init", "--quiet"]);
        world.git(&["add", "calc.sh"]);
        world.git(&["commit", "--quiet", "-m", "one"]);
        world
    }

    /// A copy of another world, whatever is in it.
    pub(crate) fn copy_of(other: &Self) -> Self {
        let world = Self::empty();
        copy(other.path(), world.path());
        world
    }

    fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.path().join("project")
    }

    /// Runs a shell command in the project, as a tool would.
    #[track_caller]
    pub(crate) fn shell(&self, command: &str) {
        let status = self.command("bash").args(["-c", command]).status().unwrap();
        assert!(status.success(), "{command}: {status}");
    }

    #[track_caller]
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let identity =
            ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"];
        let output = self.command("git").args(identity).args(arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Nothing of the machine's environment but where programs are.
    fn command(&self, program: &str) -> Command {
        let home = self.path().join("home");
        let mut command = Command::new(program);
        command
            .current_dir(self.project())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_STATE_HOME", home.join("state"))
            .env("TMPDIR", self.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::null());
        command
    }

    /// Starts `rawko run`.
    pub(crate) fn run(&self, server: &ModelServer) -> Running {
        self.start(server, &["run", "--output", "stream-json", "--", "Make add add."])
    }

    /// Starts `rawko continue`.
    pub(crate) fn go_on(&self, server: &ModelServer) -> Running {
        self.start(server, &["continue", "--output", "stream-json", "--", NEXT_TASK])
    }

    /// Starts `rawko resume` for the only session there is.
    pub(crate) fn resume(&self, server: &ModelServer) -> Running {
        self.start(server, &["resume", "--output", "stream-json"])
    }

    /// The same for a session that was not begun here: a copied journal bears no seal of this user's for this folder.
    pub(crate) fn resume_at_its_word(&self, server: &ModelServer) -> Running {
        self.start(server, &["resume", "--yes", "--output", "stream-json"])
    }

    /// Replays the only session, without a server to ask.
    pub(crate) fn replay(&self) -> Ended {
        let output = self.command(env!("CARGO_BIN_EXE_rawko")).args(["replay", "--json"]).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    fn start(&self, server: &ModelServer, arguments: &[&str]) -> Running {
        let mut child = self
            .command(env!("CARGO_BIN_EXE_rawko"))
            .args(arguments)
            .env("ANTHROPIC_BASE_URL", server.claude_url())
            .env("ANTHROPIC_API_KEY", "sk-test")
            .env("RAWKO_PROVIDER", "claude")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (output, errors) = (text_of(child.stdout.take().unwrap()), text_of(child.stderr.take().unwrap()));
        Running { child, output: Some(output), errors: Some(errors), begun: Instant::now() }
    }

    /// The journal of the only session, once there is one.
    pub(crate) fn journal_path(&self) -> Option<PathBuf> {
        let sessions = std::fs::read_dir(self.project().join(".rawko/sessions")).ok()?;
        let mut journals = sessions.flatten().map(|entry| entry.path().join("journal.jsonl"));
        journals.find(|path| path.exists())
    }

    /// The journal of the only session, verified.
    #[track_caller]
    pub(crate) fn journal(&self) -> Journal {
        let listed = SessionStore::of_project(&self.project()).list().unwrap();
        assert_eq!(listed.len(), 1, "one session was expected: {listed:?}");
        rawko::journal::read(&self.journal_path().unwrap()).unwrap()
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
        let text = std::fs::read_to_string(self.path().join("out/log")).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

/// The binary at work. It does not outlive its case.
pub(crate) struct Running {
    child: Child,
    output: Option<JoinHandle<String>>,
    errors: Option<JoinHandle<String>>,
    begun: Instant,
}

/// How it ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Running {
    /// Kills it as soon as `is_time`. Says whether it was still at work.
    #[track_caller]
    pub(crate) fn kill_when(mut self, mut is_time: impl FnMut() -> bool) -> bool {
        while !is_time() {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(self.begun.elapsed() < PATIENCE, "the time to kill it never came");
            std::thread::sleep(LOOK_AGAIN);
        }
        self.child.kill().unwrap();
        self.child.wait().unwrap().code().is_none()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ended {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if self.begun.elapsed() > PATIENCE {
                self.child.kill().unwrap();
                let Ended { stdout, stderr, .. } = {
                    let status = self.child.wait().unwrap();
                    self.said(status)
                };
                panic!("it hangs; it said so far:\n{stdout}{stderr}");
            }
            std::thread::sleep(END_AGAIN);
        };
        self.said(status)
    }

    fn said(&mut self, status: ExitStatus) -> Ended {
        let text = |pipe: Option<JoinHandle<String>>| pipe.unwrap().join().unwrap();
        Ended { status, stdout: text(self.output.take()), stderr: text(self.errors.take()) }
    }
}

/// Reads a pipe to its end.
fn text_of(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        pipe.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The last event.
    #[track_caller]
    pub(crate) fn finish(&self) -> Value {
        let last = self.stdout.lines().last().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|_| panic!("no event: {}{}", self.stdout, self.stderr))
    }
}

/// Does `work` for every case, some at a time: a case waits more than it works.
pub(crate) fn each<T: Sync>(cases: &[T], work: impl Fn(&T) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    work(case);
                }
            });
        }
    });
}

/// Copies a folder; times and owners do not matter here.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}
