//! The files that an adopted command consists of. It was not known when the run began, so it was not recorded: it
//! counts as the same if nothing shows that the run made or changed it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use rawko_core::integrity::CheckChange;
use rawko_tools::text_of;

use super::MAX_READ;
use super::named::named;
use super::toolchain::Toolchain;

/// What adopted commands name as they would run now.
#[derive(Debug, Default)]
pub(super) struct Adopted {
    /// Files of the project.
    pub(super) files: BTreeSet<String>,
    /// Programs that may be of the run.
    pub(super) programs: Vec<CheckChange>,
}

impl Adopted {
    pub(super) fn new(commands: &[String], project: &Path, before: &Toolchain, path: &OsStr) -> Self {
        let by_text = named(commands, &[], &|file| text_of(&project.join(file), MAX_READ));
        // A program need not be a text.
        let own = named(commands, &[], &|file| project.join(file).is_file().then(String::new));
        let programs = by_text.programs.iter().filter_map(|name| before.newer_program(name, path)).collect();
        Self { files: by_text.files.into_iter().chain(own.files).collect(), programs }
    }
}
