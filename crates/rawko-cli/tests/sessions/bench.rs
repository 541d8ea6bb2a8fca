//! A project with a script of answers, and the binary run in it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rawko::journal::{Journal, SessionStore, read};
use serde_json::{Value, json};

/// A key that may be nowhere.
pub(crate) const CANARY: &str = "tok-canary-93e1f0";

/// A project that lives as long as its test.
pub(crate) struct Bench {
    dir: tempfile::TempDir,
}

/// What a run of the binary said.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Bench {
    /// A project whose model gives these answers.
    pub(crate) fn new(answers: &Value) -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        let home = bench.dir.path().join("config/rawko");
        std::fs::create_dir_all(&home).unwrap();
        std::fs::create_dir(bench.project()).unwrap();
        // The user's own configuration, which is trusted.
        let config = "provider:\n  default: rehearsal\n  rehearsal: {type: scripted, script: script.json}\n";
        std::fs::write(home.join("config.yaml"), config).unwrap();
        std::fs::write(bench.project().join("script.json"), answers.to_string()).unwrap();
        bench
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    /// A place outside of the project.
    pub(crate) fn outside(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn store(&self) -> SessionStore {
        SessionStore::of_project(&self.project())
    }

    /// The only session's journal.
    #[track_caller]
    pub(crate) fn journal(&self) -> Journal {
        assert_eq!(self.store().list().unwrap().len(), 1);
        read(&self.journal_path()).unwrap()
    }

    pub(crate) fn journal_path(&self) -> PathBuf {
        self.store().find("last").unwrap()
    }

    /// Runs the binary.
    #[track_caller]
    pub(crate) fn rawko(&self, arguments: &[&str]) -> Said {
        self.said(Command::new(env!("CARGO_BIN_EXE_rawko")).args(arguments))
    }

    /// Runs a shell script, in which `"$0"` is the binary.
    #[track_caller]
    pub(crate) fn shell(&self, script: &str) -> Said {
        self.said(Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_rawko")]))
    }

    /// Kills the binary with SIGKILL after this time. Whether it was still at work.
    #[track_caller]
    pub(crate) fn kill_after(&self, patience: Duration, arguments: &[&str]) -> bool {
        let begun = Instant::now();
        self.kill_when(|| begun.elapsed() >= patience, arguments)
    }

    /// Kills it as soon as something is so. Whether it was still at work.
    #[track_caller]
    pub(crate) fn kill_when(&self, is_so: impl Fn() -> bool, arguments: &[&str]) -> bool {
        let mut child = self.start(arguments);
        while !is_so() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let _ = child.kill();
        child.wait().unwrap().code().is_none()
    }

    /// Starts the binary, whose output nobody reads.
    #[track_caller]
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rawko"));
        self.at_home(command.args(arguments)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Starts the binary, whose standard output the caller reads, with this search path.
    #[track_caller]
    pub(crate) fn start_with_path(&self, path: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rawko"));
        let command = self.at_home(command.args(arguments)).env("PATH", path);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// The same with the search path of the tests.
    #[track_caller]
    pub(crate) fn start_to_read(&self, arguments: &[&str]) -> Child {
        self.start_with_path(&std::env::var("PATH").unwrap_or_default(), arguments)
    }

    fn at_home<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .current_dir(self.project())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("XDG_CONFIG_HOME", self.dir.path().join("config"))
            .env("XDG_STATE_HOME", self.dir.path().join("state"))
            .env("TMPDIR", self.dir.path())
            .env("DEPLOY_TOKEN", CANARY)
            .stdin(Stdio::null())
    }

    #[track_caller]
    fn said(&self, command: &mut Command) -> Said {
        let output = self.at_home(command).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let said = Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) };
        for text in [&said.out, &said.err] {
            assert!(!text.contains(CANARY), "the key is told:\n{text}");
            let wild = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
            assert_eq!(wild, None, "a control character: {text:?}");
        }
        said
    }
}

impl Said {
    /// It ended so, and standard output and error together have all of these words.
    #[track_caller]
    pub(crate) fn check(self, code: i32, words: &[&str]) -> Self {
        let both = format!("{}{}", self.out, self.err);
        assert_eq!(self.code, Some(code), "{both}");
        for word in words {
            assert!(both.contains(word), "{word:?} is missing in:\n{both}");
        }
        self
    }
}

pub(crate) fn select() -> Value {
    json!({"for": "select", "decision": {"decision": "SELECT_MODE", "mode": "developer", "reason": "it is <b>code</b>"}})
}

pub(crate) fn turn(text: &str, tool: &str, input: Value) -> Value {
    json!({"for": "developer", "text": text, "tools": [{"name": tool, "input": input}]})
}

pub(crate) fn report() -> Value {
    turn("", "Report", json!({"outcome": "success", "summary": "did it"}))
}

pub(crate) fn complete() -> Value {
    json!({"for": "evaluate", "decision": {"decision": "COMPLETE", "summary": "all done", "reason": "r"}})
}

/// A run of one command.
pub(crate) fn short() -> Value {
    json!([
        select(),
        turn("I write.", "Write", json!({"file_path": "a.txt", "content": "a\n"})),
        report(),
        complete()
    ])
}
