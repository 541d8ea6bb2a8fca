//! What git in a command sees of hidden files: those that it tracks look unchanged, the others are ignored.
//!
//! So a commit of everything leaves them as they are. Without it, git would record that a hidden folder was deleted, and
//! fail at a hidden file, which is no regular one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rawko_sandbox::{Placeholder, PlaceholderKind, ViewStep};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mkdirat, openat};

use super::git::ProjectRepository;
use super::index;

/// The most tracked files that are hidden from one command: each costs it a moment.
const MAX_FILES: usize = 20_000;
/// The longest list of ignored files that is taken over.
const MAX_EXCLUDE: u64 = 1 << 20;

/// Hides these places. With `may_commit`, git is to find nothing that changed in them, and pass over what is `held`.
///
/// # Errors
/// If git cannot be kept from recording that they changed.
pub(super) fn hide(
    mut places: Vec<PathBuf>,
    repository: Option<&ProjectRepository>,
    held: &[PathBuf],
    may_commit: bool,
) -> io::Result<Vec<ViewStep>> {
    places.sort();
    places.dedup();
    // The contents of a hidden folder are hidden with it.
    let mut folder: Option<PathBuf> = None;
    places.retain(|path| {
        let Ok(kind) = path.symlink_metadata() else { return false };
        if folder.as_ref().is_some_and(|folder| path.starts_with(folder)) {
            return false;
        }
        if kind.is_dir() {
            folder = Some(path.clone());
        }
        true
    });
    let Some(repository) = repository else { return Ok(places.into_iter().map(ViewStep::Hide).collect()) };
    let known = known_to_git(&places, repository, may_commit)?;
    let known: BTreeMap<&Path, &Placeholder> = known.iter().map(|file| (file.name.as_path(), file)).collect();
    let held = held.iter().filter_map(|path| path.strip_prefix(&repository.top).ok());
    let mut ignored: Vec<Vec<u8>> = held.map(pattern).collect();
    let mut steps = Vec::new();
    for place in places {
        let is_folder = place.symlink_metadata().is_ok_and(|kind| kind.is_dir());
        let Ok(name) = place.strip_prefix(&repository.top) else {
            steps.push(ViewStep::Hide(place));
            continue;
        };
        let files = of_place(&known, name, is_folder);
        let can_stand_in = |file: &Placeholder| {
            is_folder || matches!(file.kind, PlaceholderKind::File | PlaceholderKind::Program)
        };
        if files.is_empty() {
            // Git would add a file, and try to remove an empty folder.
            ignored.push(pattern(name));
            steps.push(ViewStep::Hide(place));
        } else if files.iter().all(can_stand_in) {
            steps.push(ViewStep::Placeholders { place, files });
        } else {
            steps.push(ViewStep::Hide(place));
        }
    }
    if may_commit && !ignored.is_empty() {
        steps.extend(repository.folders.first().and_then(|folder| exclude(folder, &ignored)));
    }
    Ok(steps)
}

/// What git tracks of these places.
fn known_to_git(
    places: &[PathBuf],
    repository: &ProjectRepository,
    may_commit: bool,
) -> io::Result<Vec<Placeholder>> {
    let is_denied =
        |place: &PathBuf| place.starts_with(&repository.top) && !place.ends_with(".rawko/sessions");
    match tracked(places, repository, may_commit) {
        Ok(known) if known.len() > MAX_FILES && may_commit => Err(io::Error::other(format!(
            "permissions.deny hides {} files that git tracks, and no more than {MAX_FILES} can be hidden from git: deny \
             fewer of them",
            known.len()
        ))),
        // What rawko keeps of sessions is not tracked.
        Err(error) if may_commit && places.iter().any(is_denied) => Err(error),
        Ok(known) if known.len() <= MAX_FILES => Ok(known),
        Ok(_) | Err(_) => Ok(Vec::new()),
    }
}

/// The same, however much it is. With `may_commit`, git is to believe it.
pub(super) fn tracked(
    places: &[PathBuf],
    repository: &ProjectRepository,
    may_commit: bool,
) -> io::Result<Vec<Placeholder>> {
    let top = repository.top.as_path();
    let names: BTreeSet<PathBuf> =
        places.iter().filter_map(|place| place.strip_prefix(top).ok()).map(Path::to_owned).collect();
    match repository.own.as_deref().filter(|_| !names.is_empty()) {
        Some(own) => index::tracked(own, &names, may_commit.then_some(top)),
        None => Ok(Vec::new()),
    }
}

/// The tracked files at one place.
fn of_place(known: &BTreeMap<&Path, &Placeholder>, place: &Path, is_folder: bool) -> Vec<Placeholder> {
    let from_there = known.range::<Path, _>((Bound::Included(place), Bound::Unbounded));
    let inside = from_there.take_while(|(path, _)| path.starts_with(place)).filter_map(|(path, file)| {
        let name = path.strip_prefix(place).ok()?;
        (is_folder != name.as_os_str().is_empty())
            .then(|| Placeholder { name: name.to_owned(), ..(*file).clone() })
    });
    inside.collect()
}

/// What git ignores: what the user has it ignore, and the `patterns`. A missing list is created, because nothing can be
/// mounted over a file that is not there.
fn exclude(repository: &Path, patterns: &[Vec<u8>]) -> Option<ViewStep> {
    let open = |above: &std::os::fd::OwnedFd, name: &str, flags: OFlags| {
        openat(above, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))
    };
    let folder = openat(CWD, repository, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let _ = mkdirat(&folder, "info", Mode::from_raw_mode(0o755));
    let info = open(&folder, "info", OFlags::DIRECTORY).ok()?;
    let _ = open(&info, "exclude", OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY);
    // A link that a command left here would show what it leads to.
    let file = open(&info, "exclude", OFlags::RDONLY | OFlags::NONBLOCK).ok()?;
    let is_file = FileType::from_raw_mode(fstat(&file).ok()?.st_mode) == FileType::RegularFile;
    let mut content = Vec::new();
    File::from(file).take(MAX_EXCLUDE).read_to_end(&mut content).ok().filter(|_| is_file)?;
    content.push(b'\n');
    for pattern in patterns {
        content.extend_from_slice(pattern);
        content.push(b'\n');
    }
    Some(ViewStep::Text { place: repository.join("info/exclude"), content })
}

/// A pattern that matches this path alone.
fn pattern(path: &Path) -> Vec<u8> {
    let mut pattern = vec![b'/'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            // A pattern ends with its line.
            b'\n' | b'\r' => pattern.push(b'?'),
            b'*' | b'?' | b'[' | b'\\' | b' ' => pattern.extend([b'\\', *byte]),
            _ => pattern.push(*byte),
        }
    }
    pattern
}
