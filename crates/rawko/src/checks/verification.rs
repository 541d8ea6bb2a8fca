//! Which commands verify a run's work, and where they come from.

use std::path::{Path, PathBuf};

use rawko_core::setup::{Setup, VerifySetup};
use rawko_core::text::truncate;
use serde::Serialize;

use crate::checks::{FoundCommand, UserEnvironment, folder_of, look};
use crate::config::{ConfigReport, Origin, ReportedSetting};
use crate::setup::rawko::Rawko;

/// Default time limit of one command.
const DEFAULT_TIMEOUT_MS: u64 = 15 * 60 * 1000;

/// The commands that will verify a run of this project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerificationPlan {
    /// The commands that are run, in order; empty where nothing verifies.
    pub commands: Vec<String>,
    /// Longest time of one command, in milliseconds.
    pub timeout_ms: u64,
    /// Where they are configured; absent if rawko found them in the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The commands found in the project, if none are configured, including those that cannot run on this machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<FoundCommand>,
}

impl Rawko {
    /// The verification commands of this project's runs: the configured ones, or else those found in the project.
    #[must_use]
    pub fn verification_plan(&self) -> VerificationPlan {
        let config = &self.loaded.config.verify;
        let timeout_ms = config.timeout.map_or(DEFAULT_TIMEOUT_MS, |timeout| timeout.as_ms());
        if let Some(commands) = config.commands.clone() {
            let origin = Some(self.loaded.provenance.origin("/verify/commands").clone());
            return VerificationPlan { commands, timeout_ms, origin, found: Vec::new() };
        }
        let found = self.found_from(&self.working_folder());
        let usable = found.iter().filter(|found| found.missing.is_none());
        VerificationPlan {
            commands: usable.map(|found| found.command.clone()).collect(),
            timeout_ms,
            origin: None,
            found,
        }
    }

    /// The commands that are found from this folder of the tree upwards.
    fn found_from(&self, folder: &Path) -> Vec<FoundCommand> {
        let variable = |name: &str| (self.builder.environment)(name).filter(|value| !value.is_empty());
        let machine = UserEnvironment {
            path: variable("PATH").map(Into::into),
            virtual_env: variable("VIRTUAL_ENV").map(Into::into),
            home: variable("HOME").map(Into::into),
        };
        look(self.tree(), folder, &machine)
    }

    /// The folder of the tree in which rawko was started. In a work tree that replaces the project, it is the
    /// corresponding folder there.
    fn working_folder(&self) -> PathBuf {
        let tree = self.tree();
        let real = |path: &Path| path.canonicalize().ok();
        let in_tree = || {
            let folder = real(self.builder.folder.as_deref()?)?;
            if folder.starts_with(real(tree)?) {
                return Some(folder);
            }
            let inside = folder.strip_prefix(real(self.project())?).ok()?;
            Some(tree.join(inside)).filter(|folder| folder.is_dir())
        };
        in_tree().unwrap_or_else(|| tree.to_owned())
    }

    /// The folder in which rawko was started, as seen from the tree; absent if that is the tree itself.
    pub(crate) fn folder_inside(&self) -> Option<String> {
        let folder = self.working_folder().canonicalize().ok()?;
        let inside = folder.strip_prefix(self.tree().canonicalize().ok()?).ok()?;
        Some(inside.to_str()?.to_owned()).filter(|inside| !inside.is_empty())
    }

    /// The same, in the form of a run's setup: absent where the user wants none, empty where none was found.
    pub(crate) fn verify_setup(&self) -> Option<VerifySetup> {
        let found = self.loaded.config.verify.commands.is_none();
        Some(VerifySetup { found, ..self.verify_terms() }).filter(|setup| found || !setup.commands.is_empty())
    }

    /// New verification commands for a resumed session, if the embedder or the command line sets some.
    pub(crate) fn verify_anew(&self) -> Option<VerifySetup> {
        self.builder.overrides.verify.as_ref()?;
        Some(self.verify_terms())
    }

    fn verify_terms(&self) -> VerifySetup {
        let VerificationPlan { commands, timeout_ms, .. } = self.verification_plan();
        let config = &self.loaded.config.verify;
        let changed_checks = config.changed_checks.unwrap_or_default();
        VerifySetup { commands, timeout_ms, found: false, tests: config.tests.clone(), changed_checks }
    }

    /// Why the recorded commands may not run: they differ from today's. Another person may have written them into
    /// the journal.
    pub(crate) fn unknown_verification(&self, recorded: &Setup) -> Option<String> {
        let recorded = recorded.verify.as_ref().filter(|_| self.builder.overrides.verify.is_none())?;
        let today = self.verification_plan();
        let is_known = |command: &String| {
            // A found command is found again from its own folder, wherever rawko is started today.
            let found = || self.found_from(&self.tree().join(folder_of(command).unwrap_or_default()));
            today.commands.contains(command)
                || (today.origin.is_none()
                    && found().iter().any(|found| found.missing.is_none() && found.command == *command))
        };
        let unknown = recorded.commands.iter().find(|command| !is_known(command))?;
        let command = truncate(&unknown.escape_debug().to_string(), 100);
        Some(format!(
            "`{command}` was recorded as a verification command, but is not one today: pass the commands again \
             (--verify …), or none (--no-verify)"
        ))
    }

    /// Every setting with its value and origin, including commands that were found in the project.
    #[must_use]
    pub fn settings(&self) -> ConfigReport {
        let mut report = self.loaded.report();
        let VerificationPlan { commands, origin, found, .. } = self.verification_plan();
        if origin.is_none() && !commands.is_empty() {
            let signs: Vec<String> = found
                .into_iter()
                .filter(|found| found.missing.is_none())
                .map(|found| found.because)
                .collect();
            report.settings.push(ReportedSetting {
                key: "verify.commands".to_owned(),
                value: commands.into(),
                origin: Origin::Found { signs },
            });
        }
        report
    }
}
