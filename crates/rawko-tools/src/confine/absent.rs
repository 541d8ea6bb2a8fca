//! Removes what a command has made in a repository for git to obey.
//!
//! rawko does that outside the sandbox, with all the user's rights, while other commands run and change what they like. So
//! nothing is removed by its path, and each folder has to be the one that it was before the command.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, RenameFlags, readlinkat, renameat_with, symlinkat, unlinkat};
use rustix::io::{Errno, Result};

use super::git::{DECIDING, ProjectRepository, with_inner};
use super::rebase;
use crate::access::PROTECTED;
use crate::folder::{allowed, descend, identity_of, kind_of, open_folder, remove};

/// Added to the name of what is renamed.
const ASIDE: &str = ".set-aside";
/// Names that are tried.
const MOST_TRIES: u32 = 1_000;

/// What git would obey in the folders of a repository, where a mount cannot keep it as it is.
#[derive(Debug, Default)]
pub(super) struct Absent(Vec<Folder>);

/// A folder in which git looks for it.
#[derive(Debug)]
struct Folder {
    /// The repository, held since before the command.
    top: Arc<OwnedFd>,
    /// Where the folder is in it.
    inside: PathBuf,
    /// Its device and number.
    identity: (u64, u64),
    names: Vec<(Cow<'static, str>, Before)>,
    /// The lines of a rebase under way that run something.
    runs: Vec<Vec<u8>>,
}

/// What was there before the command.
#[derive(Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    /// A link, which nothing can be mounted over.
    Link(CString),
    /// Nothing, under a name that the user protects. People and their editors make such files while commands run, so that
    /// it is not known whose a new one is.
    Free,
}

/// The names that are missing now in the folders of the project's repository and of the user's other ones, `theirs`;
/// and the links, there and at the top of the project. A command may create files beside those that are protected, and
/// nothing can be mounted where nothing is, or over a link.
pub(super) fn absent(
    repository: Option<&ProjectRepository>,
    root: &Path,
    theirs: &[PathBuf],
    protect: &[String],
) -> Absent {
    let mut found = Vec::new();
    let tops: BTreeSet<&Path> = repository
        .iter()
        .map(|own| own.top.as_path())
        .chain([root])
        .filter(|top| top.is_absolute())
        .collect();
    for top in tops {
        found.extend(protected_at(top, protect));
    }
    let own = repository.iter().flat_map(|own| &own.folders).map(|path| (path, with_inner(path)));
    let theirs = theirs.iter().map(|path| (path, vec![path.clone()]));
    let mut seen = BTreeSet::new();
    for (path, inners) in own.chain(theirs) {
        let Ok(top) = open_folder(None, path.as_os_str()) else { continue };
        let top = Arc::new(top);
        for inner in inners {
            let Ok(inside) = inner.strip_prefix(path) else { continue };
            let Ok(folder) = descend(&top, inside) else { continue };
            let Ok(identity) = identity_of(&folder) else { continue };
            if !seen.insert(identity) {
                continue;
            }
            let names =
                DECIDING.into_iter().filter_map(|name| Some((name.into(), before(&folder, name)?))).collect();
            let runs = rebase::runs_in(&folder);
            found.push(Folder { top: Arc::clone(&top), inside: inside.to_owned(), identity, names, runs });
        }
    }
    Absent(found)
}

/// The links with protected names, and of the names in `protect` also those that nothing has.
fn protected_at(top: &Path, protect: &[String]) -> Option<Folder> {
    let opened = open_folder(None, top.as_os_str()).ok()?;
    let known = PROTECTED.into_iter().filter_map(|name| Some((name.into(), before(&opened, name)?)));
    let links = known.filter(|(_, before)| matches!(before, Before::Link(_)));
    let others = protect.iter().filter_map(|name| match before(&opened, name)? {
        Before::Nothing => Some((name.clone().into(), Before::Free)),
        before => Some((name.clone().into(), before)),
    });
    let names: Vec<_> = links.chain(others).collect();
    let identity = identity_of(&opened).ok().filter(|_| !names.is_empty())?;
    Some(Folder { top: Arc::new(opened), inside: PathBuf::new(), identity, names, runs: Vec::new() })
}

/// What git would obey in the folder of a repository and is not there.
pub(super) fn missing_in(folder: &OwnedFd) -> Vec<&'static str> {
    DECIDING.into_iter().filter(|name| before(folder, name) == Some(Before::Nothing)).collect()
}

/// Removes what was not there.
pub(super) fn remove_new(folder: &OwnedFd, name: &str) {
    let _ = restore(folder, name, &Before::Nothing);
}

/// What is known of a name; `None` for what is there, and for what cannot be seen.
fn before(folder: &OwnedFd, name: &str) -> Option<Before> {
    let Some((above, leaf)) = name.split_once('/') else {
        return match kind_of(folder, name) {
            Err(Errno::NOENT) => Some(Before::Nothing),
            Ok(FileType::Symlink) => readlinkat(folder, name, Vec::new()).ok().map(Before::Link),
            Ok(_) | Err(_) => None,
        };
    };
    match kind_of(folder, above) {
        Err(Errno::NOENT) => Some(Before::Nothing),
        Ok(FileType::Directory) => {
            let above = open_folder(Some(folder), above.as_ref()).ok()?;
            (kind_of(&above, leaf) == Err(Errno::NOENT)).then_some(Before::Nothing)
        }
        // The user who made a link here knows why.
        Ok(_) | Err(_) => None,
    }
}

impl Absent {
    /// Removes the files that are there by now, and puts links back. Files that cannot be removed stay. Files with a name that
    /// the user protects are renamed; returned is what each of them was called, and is called now.
    pub(super) fn remove(&self) -> Vec<(String, String)> {
        let mut renamed = Vec::new();
        for Folder { top, inside, identity, names, runs } in &self.0 {
            // A folder that is in its place by now is the command's own, or a link to somewhere else.
            let Some(folder) =
                descend(top, inside).ok().filter(|folder| identity_of(folder) == Ok(*identity))
            else {
                continue;
            };
            for (name, before) in names {
                let aside = restore(&folder, name, before).unwrap_or_default();
                renamed.extend(aside.map(|aside| (name.to_string(), aside)));
            }
            let _ = rebase::disarm(&folder, runs);
        }
        renamed
    }
}

/// Gives a file or a folder another name, which no program looks for, and returns it. Nothing is lost.
fn set_aside(folder: &OwnedFd, name: &str) -> Result<String> {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    for number in 1..MOST_TRIES {
        // A command may have taken the first names on purpose.
        let aside = match number {
            1 => format!("{name}{ASIDE}"),
            2..=9 => format!("{name}{ASIDE}-{number}"),
            _ => format!("{name}{ASIDE}-{}", now()),
        };
        let renamed = || renameat_with(folder, name, folder, aside.as_str(), RenameFlags::NOREPLACE);
        match allowed(folder, renamed) {
            Err(Errno::EXIST) => {}
            done => return done.map(|()| aside),
        }
    }
    Err(Errno::EXIST)
}

/// Makes it as it was before; the new name of what is renamed for that.
fn restore(folder: &OwnedFd, name: &str, before: &Before) -> Result<Option<String>> {
    match before {
        Before::Free => set_aside(folder, name).map(Some),
        Before::Nothing | Before::Link(_) => undo(folder, name, before).map(|()| None),
    }
}

fn undo(folder: &OwnedFd, name: &str, before: &Before) -> Result<()> {
    if let Before::Link(target) = before {
        let now = allowed(folder, || readlinkat(folder, name, Vec::new()));
        if now.as_ref() == Ok(target) {
            return Ok(());
        }
        match remove(folder, OsStr::new(name)) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        return allowed(folder, || symlinkat(target, folder, name));
    }
    let Some((above, leaf)) = name.split_once('/') else { return remove(folder, OsStr::new(name)) };
    match kind_of(folder, above)? {
        FileType::Directory => remove(&open_folder(Some(folder), above.as_ref())?, OsStr::new(leaf)),
        // Git would follow it.
        FileType::Symlink => allowed(folder, || unlinkat(folder, above, AtFlags::empty())),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "absent_tests.rs"]
mod tests;
