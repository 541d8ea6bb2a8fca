//! What a view shows, as places that Landlock can grant: it knows no exception from what it grants, so a folder that holds
//! something hidden is granted entry by entry. It can still be listed, and so can what is hidden in it: a name is no content,
//! and without a list of its project no program finds its way. A covered folder cannot be listed.
//!
//! That cannot be done for a folder that the command may write: what it makes there would not be granted. So a written
//! folder is granted whole, and what is hidden or protected in it is lost.

use std::path::{Path, PathBuf};

use crate::plan::ViewStep;

/// What every program may see besides what a view shows.
pub(super) const DEVICES: [&str; 6] =
    ["/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"];
/// What a command has in its own form where there are namespaces.
const COVERED: [&str; 4] = ["/dev", "/run", "/tmp", "/var/tmp"];
/// Folders of `/run` that hold programs and settings, and no sockets.
const KEPT: [&str; 2] = ["/run/current-system", "/run/wrappers"];

/// What a command may do with what is at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Visibility {
    /// Not there for the command.
    Covered,
    /// There, and empty.
    Hidden,
    Readable,
    /// Granted whole.
    Writable,
}

/// What a command may see.
#[derive(Debug, Default)]
pub(super) struct Visible {
    /// The outermost places that may be read, those that may be written included.
    pub(super) readable: Vec<PathBuf>,
    /// Folders that may be listed, with all below them.
    pub(super) listable: Vec<PathBuf>,
}

/// What a view shows.
pub(super) fn visible<'a>(view: impl Iterator<Item = &'a ViewStep>) -> Visible {
    let mut marks: Vec<(&Path, Visibility)> = vec![(Path::new("/"), Visibility::Readable)];
    marks.extend(COVERED.map(|place| (Path::new(place), Visibility::Covered)));
    marks.extend(DEVICES.iter().chain(&KEPT).map(|place| (Path::new(*place), Visibility::Readable)));
    marks.extend(view.filter_map(mark));
    let mut found = Visible::default();
    collect(Path::new("/"), &marks, &mut found);
    found
}

fn mark(step: &ViewStep) -> Option<(&Path, Visibility)> {
    match step {
        ViewStep::Cover(place) | ViewStep::Private { place, .. } => Some((place, Visibility::Covered)),
        ViewStep::Hide(place) | ViewStep::Placeholders { place, .. } => Some((place, Visibility::Hidden)),
        // Without a layer, a folder can only be read.
        ViewStep::Show(place) | ViewStep::Layer { folder: place, .. } => Some((place, Visibility::Readable)),
        ViewStep::Grant(place) => Some((place, Visibility::Writable)),
        ViewStep::Link { .. } | ViewStep::Protect(_) | ViewStep::Pin(_) | ViewStep::Text { .. } => None,
    }
}

fn collect(path: &Path, marks: &[(&Path, Visibility)], found: &mut Visible) {
    // The last mark around a place decides.
    let sight = marks.iter().rev().find(|(place, _)| path.starts_with(place)).map(|(_, sight)| *sight);
    let inner = marks.iter().filter(|(place, _)| *place != path && place.starts_with(path));
    match sight {
        Some(Visibility::Writable) => found.readable.push(path.to_owned()),
        Some(Visibility::Readable) if !inner.clone().any(|(_, sight)| *sight <= Visibility::Hidden) => {
            found.readable.push(path.to_owned());
        }
        Some(Visibility::Readable) => {
            if !inner.clone().any(|(_, sight)| *sight == Visibility::Covered) {
                found.listable.push(path.to_owned());
            }
            for entry in std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok) {
                // A link grants nothing: where it leads to is granted for itself, or not.
                if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                    collect(&entry.path(), marks, found);
                }
            }
        }
        Some(Visibility::Covered | Visibility::Hidden) | None => {
            // A hidden folder cannot be listed, so the places shown in it are found by their marks.
            let mut shown: Vec<&Path> = inner.map(|(place, _)| *place).collect();
            shown.sort_unstable();
            let mut last: Option<&Path> = None;
            for place in shown {
                if last.is_none_or(|last| !place.starts_with(last)) {
                    collect(place, marks, found);
                    last = Some(place);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    /// Whether `path` is in something that may be read.
    #[track_caller]
    fn check(view: &[ViewStep], path: &Path, is_readable: bool) {
        let found = visible(view.iter());
        let lies_in = |places: &[PathBuf]| places.iter().any(|place| path.starts_with(place));
        assert_eq!(lies_in(&found.readable), is_readable, "{}: {found:?}", path.display());
    }

    /// Whether `path` can be listed.
    #[track_caller]
    fn check_listed(view: &[ViewStep], path: &Path, is_listed: bool) {
        let found = visible(view.iter());
        let mut places = found.readable.iter().chain(&found.listable);
        assert_eq!(places.any(|place| path.starts_with(place)), is_listed, "{}: {found:?}", path.display());
    }

    #[test]
    fn what_is_hidden_is_in_nothing_that_may_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        for file in ["home/key", "home/tools/bin/tool", "home/tools/secret", "project/.env", "project/src/a"]
        {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), "").unwrap();
        }
        let at = |name: &str| root.join(name);
        let view = [
            ViewStep::Cover(root.clone()),
            ViewStep::Private { place: at("home"), content: at("private") },
            ViewStep::Show(at("home/tools")),
            ViewStep::Show(at("project")),
            ViewStep::Hide(at("home/tools/secret")),
            ViewStep::Hide(at("project/.env")),
        ];
        check(&view, Path::new("/usr/bin/env"), true);
        check(&view, Path::new("/dev/null"), true);
        check(&view, Path::new("/dev/shm/x"), false);
        check(&view, Path::new("/tmp/x"), false);
        check(&view, &at("home/key"), false);
        check(&view, &at("home/tools/bin/tool"), true);
        check(&view, &at("home/tools/secret"), false);
        check(&view, &at("project/.env"), false);
        check(&view, &at("project/src/a"), true);
        for (name, is_listed) in [("project", true), ("home/tools", true), ("home", false), ("", false)] {
            check_listed(&view, &at(name), is_listed);
        }
        check_listed(&view, Path::new("/"), false);
        // A folder that is written is granted whole.
        let written =
            [&view[..], &[ViewStep::Grant(at("project"))], &[ViewStep::Hide(at("project/.env"))]].concat();
        check(&written, &at("project/src/new"), true);
        check(&written, &at("home/key"), false);
    }
}
