//! A project with a script of answers, and the binary run in it.

use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Process, Said, World, check_clean};

/// A key that may be nowhere.
pub(crate) const CANARY: &str = "tok-canary-93e1f0";

/// A project that lives as long as its test.
pub(crate) struct Bench(World);

impl Deref for Bench {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

impl Bench {
    /// A project whose model gives these answers.
    pub(crate) fn new(answers: &Value) -> Self {
        let world = World::new();
        world.configure(&json!({
            "provider": {"default": "rehearsal", "rehearsal": {"type": "scripted", "script": "script.json"}},
        }));
        world.write("script.json", &answers.to_string());
        Self(world)
    }

    pub(crate) fn journal_path(&self) -> PathBuf {
        self.store().find("last").unwrap()
    }

    /// The binary, not started yet, of a user who has a key.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.0.command(arguments);
        command.env("DEPLOY_TOKEN", CANARY);
        command
    }

    /// Runs the binary.
    #[track_caller]
    pub(crate) fn rawko(&self, arguments: &[&str]) -> Said {
        said(&mut self.command(arguments))
    }

    /// Runs a shell script, in which `"$0"` is the binary.
    #[track_caller]
    pub(crate) fn shell(&self, script: &str) -> Said {
        let mut shell = self.program("sh");
        said(shell.env("DEPLOY_TOKEN", CANARY).args(["-c", script, &World::binary()]))
    }

    /// Kills the binary with SIGKILL after this time. Whether it was still at work.
    #[track_caller]
    pub(crate) fn kill_after(&self, patience: Duration, arguments: &[&str]) -> bool {
        self.start(arguments).kill_after(patience)
    }

    /// Kills it as soon as something is so. Whether it was still at work.
    #[track_caller]
    pub(crate) fn kill_when(&self, is_so: impl Fn() -> bool, arguments: &[&str]) -> bool {
        self.start(arguments).kill_when(is_so)
    }

    /// Starts the binary.
    #[track_caller]
    pub(crate) fn start(&self, arguments: &[&str]) -> Process {
        Process::start(&mut self.command(arguments))
    }
}

#[track_caller]
fn said(command: &mut Command) -> Said {
    let said = Said::of(command.output().unwrap());
    check_clean(CANARY, &said.out, &said.err);
    said
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
