//! A place of its own for each test: a project, a home, a folder for temporary files, and nothing of the real
//! environment but `PATH`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The place. It goes with everything in it.
pub(crate) struct Place {
    root: tempfile::TempDir,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    /// An empty project.
    pub(crate) fn new() -> Self {
        let place = Self { root: tempfile::tempdir().expect("a temporary folder") };
        for folder in ["project", "home", "tmp"] {
            fs::create_dir(place.root.path().join(folder)).expect("a folder");
        }
        place
    }

    /// A project whose model answers from this script. Such a configuration needs trust.
    pub(crate) fn scripted(script: &Value) -> Self {
        let place = Self::new();
        place.write(
            ".rawko/config.yaml",
            "provider:\n  default: s\n  s: { type: scripted, script: script.yaml }\n",
        );
        place.write("script.yaml", &script.to_string());
        place
    }

    /// A user for whom no model server listens on this machine, whatever runs there.
    pub(crate) fn without_servers(&self) {
        let names = ["ollama", "llamacpp", "lmstudio", "vllm"];
        let providers: String =
            names.map(|name| format!("  {name}: {{ baseUrl: \"http://127.0.0.1:1/v1\" }}\n")).concat();
        let folder = self.root.path().join("home/.config/rawko");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("config.yaml"), format!("provider:\n{providers}")).expect("a file");
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.root.path().join("tmp")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.project().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// The binary with these arguments, in the project, not started yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rawko"));
        command
            .args(arguments)
            .current_dir(self.project())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.root.path().join("home"))
            .env("TMPDIR", self.tmp())
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub(crate) fn rawko(&self, arguments: &[&str]) -> Done {
        Done::of(self.command(arguments).output().expect("the binary"))
    }

    /// Runs it to its end with this on standard input.
    pub(crate) fn rawko_with(&self, arguments: &[&str], input: &[u8]) -> Done {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary");
        // It may end before it has read everything.
        let _ = child.stdin.take().expect("piped").write_all(input);
        Done::of(child.wait_with_output().expect("an end"))
    }

    /// `text` without what differs from place to place and from run to run.
    pub(crate) fn normal(&self, text: &str) -> String {
        let root = self.root.path().canonicalize().expect("a real path");
        let mut text = text.replace(&*root.to_string_lossy(), "/place");
        text = text.replace(&*self.root.path().to_string_lossy(), "/place");
        text
    }
}

impl Done {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).expect("UTF-8 on standard output"),
            err: String::from_utf8(output.stderr).expect("UTF-8 on standard error"),
        }
    }

    /// Holds the end to `code`, with all that was said where it differs.
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Holds standard error to these parts.
    #[track_caller]
    pub(crate) fn complains(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is missing in\n{}", self.err);
        }
        self
    }

    /// Holds standard output to these parts.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.out.contains(part), "{part:?} is missing in\n{}", self.out);
        }
        self
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error} in\n{}\n{}", self.out, self.err))
    }

    /// Standard output as JSON values, one a line.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

/// Names in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Waits until `look` sees something, for a minute at most.
pub(crate) fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}
