//! The world of a user whose folders are where they usually are, with a folder of its own for temporary files.

use std::fs;
use std::io::Write as _;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Said, World};

/// The place. It goes with everything in it.
pub(crate) struct Place(World);

impl Deref for Place {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

impl Place {
    /// An empty project.
    pub(crate) fn new() -> Self {
        let place = Self(World::new());
        fs::create_dir(place.tmp()).expect("a folder");
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
        self.write("../home/.config/rawko/config.yaml", &format!("provider:\n{providers}"));
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.outside().join("tmp")
    }

    /// The binary with these arguments, in the project, not started yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.0.command(arguments);
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME").env("TMPDIR", self.tmp());
        command
    }

    /// Runs it to its end.
    pub(crate) fn rawko(&self, arguments: &[&str]) -> Said {
        Said::of(self.command(arguments).output().expect("the binary"))
    }

    /// Runs it to its end with this on standard input.
    pub(crate) fn rawko_with(&self, arguments: &[&str], input: &[u8]) -> Said {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary");
        // It may end before it has read everything.
        let _ = child.stdin.take().expect("piped").write_all(input);
        Said::of(child.wait_with_output().expect("an end"))
    }

    /// `text` without what differs from place to place and from run to run.
    pub(crate) fn normal(&self, text: &str) -> String {
        let root = self.outside().canonicalize().expect("a real path");
        text.replace(&*root.to_string_lossy(), "/place").replace(&*self.outside().to_string_lossy(), "/place")
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
