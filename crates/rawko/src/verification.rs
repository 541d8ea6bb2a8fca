//! Which commands verify a run's work, and who says so.

use rawko_core::setup::{Setup, VerifySetup};
use rawko_core::text::truncate;
use serde::Serialize;

use crate::config::{ConfigReport, Origin, ReportedSetting};
use crate::found::{FoundCommand, look};
use crate::rawko::Rawko;

/// Longest time of one command where nothing else is said.
const DEFAULT_TIMEOUT_MS: u64 = 15 * 60 * 1000;

/// What proves that a task is done, before it is begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verifying {
    /// The commands that are run, in order; empty where nothing verifies.
    pub commands: Vec<String>,
    /// Longest time of one command, in milliseconds.
    pub timeout_ms: u64,
    /// Who says so; absent where nobody does, and the project was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// What was found in the project, where nobody says anything: also what cannot be run here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<FoundCommand>,
}

impl Rawko {
    /// What verifies the work of this project's runs: as configured, or else as found by looking at the project.
    #[must_use]
    pub fn verifying(&self) -> Verifying {
        let config = &self.loaded.config.verify;
        let timeout_ms = config.timeout.map_or(DEFAULT_TIMEOUT_MS, |timeout| timeout.as_ms());
        if let Some(commands) = config.commands.clone() {
            let origin = Some(self.loaded.provenance.origin("/verify/commands").clone());
            return Verifying { commands, timeout_ms, origin, found: Vec::new() };
        }
        let path = (self.builder.environment)("PATH");
        let found = look(self.project(), path.as_deref().map(AsRef::as_ref));
        let usable = found.iter().filter(|found| found.missing.is_none());
        Verifying {
            commands: usable.map(|found| found.command.clone()).collect(),
            timeout_ms,
            origin: None,
            found,
        }
    }

    /// The same as a run takes it.
    pub(crate) fn verify_setup(&self) -> Option<VerifySetup> {
        let Verifying { commands, timeout_ms, origin, .. } = self.verifying();
        let found = origin.is_none();
        (!commands.is_empty()).then_some(VerifySetup { commands, timeout_ms, found })
    }

    /// What verifies from now on in a session that is taken up, where the embedder or the command line says so.
    pub(crate) fn verify_anew(&self) -> Option<VerifySetup> {
        self.builder.overrides.verify.as_ref()?;
        let Verifying { commands, timeout_ms, .. } = self.verifying();
        Some(VerifySetup { commands, timeout_ms, found: false })
    }

    /// Why the recorded commands may not be run: they are not those of today. Somebody may have written them into
    /// the journal.
    pub(crate) fn unknown_verification(&self, recorded: &Setup) -> Option<String> {
        let recorded = recorded.verify.as_ref().filter(|_| self.builder.overrides.verify.is_none())?;
        let today = self.verifying().commands;
        let unknown = recorded.commands.iter().find(|command| !today.contains(command))?;
        let command = truncate(&unknown.escape_debug().to_string(), 100);
        Some(format!(
            "`{command}` was recorded as a verification command, and is none today: give the commands again \
             (--verify …), or none (--no-verify)"
        ))
    }

    /// Every setting with its value and origin, those included that were found by looking at the project.
    #[must_use]
    pub fn settings(&self) -> ConfigReport {
        let mut report = self.loaded.report();
        let Verifying { commands, origin, found, .. } = self.verifying();
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
