//! A run that changes what checks it is not verified by that: tricks that were tried, and honest work beside them.
//!
//! Each trick makes the project's checks pass without doing the work. The developer is scripted; python, node, go, make and
//! cargo are real.

mod bad_input;
mod by_use;
mod continued;
mod copies;
mod go;
mod honest;
mod make;
mod named;
mod node;
mod originals;
mod pytest;
mod python;
mod rust;
mod settings;
mod shadows;
mod submodules;
mod views;

use serde_json::{Value, json};
use testkit::{Answer, ModelServer};

use crate::answers::{bash, developer};
use crate::trial::{Ended, Trial};
pub(crate) use pytest::programs as pytest_programs;

/// Go's packages, built once: a command in a sandbox keeps its changes to a cache for itself.
const GO_CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/go");

struct Project {
    files: &'static [(&'static str, &'static str)],
    verify: &'static [&'static str],
}

impl Project {
    /// The project, committed.
    fn trial(&self, server: ModelServer) -> Trial {
        let mut trial = Trial::new(server);
        for (path, text) in self.files {
            trial = trial.file(path, text);
        }
        for (path, _) in self.files.iter().filter(|(_, text)| text.starts_with("#!")) {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(trial.project().join(path), mode).unwrap();
        }
        trial.git(&["add", "--all"]);
        trial.git(&["commit", "--quiet", "-m", "first"]);
        trial.user_config("/verify/commands", json!(self.verify))
    }

    fn run_with(&self, turns: Vec<Answer>, arguments: &[&str], config: &[(&str, Value)]) -> Ended {
        let mut trial = self.trial(developer(turns));
        // Cargo finds its toolchain by the real home.
        for (variable, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
            let real = std::env::var(variable);
            let default = || format!("{}/{folder}", std::env::var("HOME").unwrap_or_default());
            trial = trial.env(variable, real.unwrap_or_else(|_| default()));
        }
        // Building Go's own packages takes long.
        trial = trial.env("GOCACHE", GO_CACHE);
        trial = trial.user_config("/permissions/env", json!(["RUSTUP_HOME", "CARGO_HOME", "GOCACHE"]));
        for (pointer, value) in config {
            trial = trial.user_config(pointer, value.clone());
        }
        trial.args(arguments).run("Fix the fault.")
    }

    fn run(&self, commands: &[&str]) -> Ended {
        self.run_with(commands.iter().map(|command| bash(command)).collect(), &["--require-verified"], &[])
    }

    /// The run ends as claimed, because of `path` among the changed checks.
    #[track_caller]
    fn claimed(&self, commands: &[&str], path: &str) {
        let ended = self.run(commands);
        let finish = ended.finish();
        assert_eq!(finish["status"], "claimed", "{commands:?}: {finish:#}");
        assert_eq!(finish["doubt"]["reason"], "checks_changed", "{commands:?}: {finish:#}");
        let changed = finish["verification"]["integrity"]["changed"].as_array().unwrap();
        let named = changed.iter().any(|change| change["path"].as_str().unwrap().contains(path));
        assert!(named, "{commands:?}: {finish:#}");
        ended.exits(1);
    }

    /// The run does not end as verified, whatever else became of it.
    #[track_caller]
    fn not_verified(&self, commands: &[&str]) {
        let finish = self.run(commands).finish();
        assert_ne!(finish["status"], "verified", "{commands:?}: {finish:#}");
    }

    #[track_caller]
    fn verified(&self, commands: &[&str], integrity: &str) -> Ended {
        let ended = self.run(commands);
        let finish = ended.finish();
        assert_eq!(finish["status"], "verified", "{commands:?}: {finish:#}");
        assert_eq!(finish["verification"]["integrity"]["result"], integrity, "{commands:?}: {finish:#}");
        ended.exits(0);
        ended
    }
}
