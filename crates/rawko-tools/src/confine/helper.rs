//! Finds the program that is started for each command, to confine it: the one that is named, else this program if it can be
//! its own helper, else an installed `rawko`. Whether it does its work is found out by `machine`.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rawko_sandbox::{OwnHelper, own_helper};

use super::programs;
use crate::confinement::Shortage;

/// The name of the installed program.
const INSTALLED: &str = "rawko";

/// The helper of a run in `project`, where `folders` is the variable `PATH`.
pub(super) fn find(
    named: Option<&Path>,
    folders: Option<&OsStr>,
    project: &Path,
) -> Result<PathBuf, Shortage> {
    let own = match (named, own_helper()) {
        (Some(named), _) => {
            return std::path::absolute(named)
                .map_err(|error| Shortage::Helper(format!("{}: {error}", named.display())));
        }
        (None, OwnHelper::Program(own)) => return Ok(own.to_owned()),
        (None, own) => own,
    };
    installed(folders, project).ok_or_else(|| Shortage::Helper(without(own)))
}

/// The `rawko` beside this program, else the first of these folders, that only this user and root can change.
fn installed(folders: Option<&OsStr>, project: &Path) -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    let folders = folders.map(std::env::split_paths).into_iter().flatten();
    programs::find(INSTALLED, beside.into_iter().chain(folders), project, is_of_user)
}

fn is_of_user(found: &Metadata) -> bool {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let others = if found.gid() == group { 0o002 } else { 0o022 };
    (found.uid() == 0 || found.uid() == user) && found.mode() & others == 0
}

/// Why there is none, and what to do.
fn without(own: OwnHelper) -> String {
    let (why, remedy) = match own {
        OwnHelper::CalledLate { threads } => (
            format!(
                "it had {threads} threads when it called `rawko::tools::run_helper_if_asked()`, as under `#[tokio::main]`"
            ),
            "make that call first in a plain `fn main`, and the runtime after it",
        ),
        OwnHelper::NeverCalled | OwnHelper::Program(_) => (
            "its `main` does not begin with `rawko::tools::run_helper_if_asked()`".to_owned(),
            "begin a plain `fn main` with that call, before any runtime is made",
        ),
    };
    format!(
        "this program cannot be its own helper, because {why}, and there is no `{INSTALLED}` beside it or in PATH that only \
         you can change: {remedy}; or install rawko; or name a helper with `RawkoBuilder::helper`"
    )
}
