//! What a view shows, as places that Landlock can grant: it knows no exception from what it grants, so a folder that holds
//! something hidden is granted entry by entry.
//!
//! That cannot be done for a folder that the command may write: what it makes there would not be granted. So a written
//! folder is granted whole, and what is hidden or protected in it is lost.

use std::path::{Path, PathBuf};

use crate::plan::Step;

/// What every program may see besides what a view shows.
pub(super) const DEVICES: [&str; 6] =
    ["/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"];
/// What a command has in its own form where there are namespaces.
const COVERED: [&str; 4] = ["/dev", "/run", "/tmp", "/var/tmp"];
/// Folders of `/run` that hold programs and settings, and no sockets.
const KEPT: [&str; 2] = ["/run/current-system", "/run/wrappers"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    Hidden,
    Readable,
    /// Granted whole.
    Writable,
}

/// The outermost places that may be read, those that may be written included.
pub(super) fn readable<'a>(view: impl Iterator<Item = &'a Step>) -> Vec<PathBuf> {
    let mut marks: Vec<(&Path, Sight)> = vec![(Path::new("/"), Sight::Readable)];
    marks.extend(COVERED.map(|place| (Path::new(place), Sight::Hidden)));
    marks.extend(DEVICES.iter().chain(&KEPT).map(|place| (Path::new(*place), Sight::Readable)));
    marks.extend(view.filter_map(mark));
    let mut found = Vec::new();
    collect(Path::new("/"), &marks, &mut found);
    found
}

fn mark(step: &Step) -> Option<(&Path, Sight)> {
    match step {
        Step::Cover(place)
        | Step::Hide(place)
        | Step::Placeholders { place, .. }
        | Step::Private { place, .. } => Some((place, Sight::Hidden)),
        // Without a layer, a folder can only be read.
        Step::Show(place) | Step::Layer { folder: place, .. } => Some((place, Sight::Readable)),
        Step::Grant(place) => Some((place, Sight::Writable)),
        Step::Link { .. } | Step::Protect(_) | Step::Pin(_) | Step::Text { .. } => None,
    }
}

fn collect(path: &Path, marks: &[(&Path, Sight)], found: &mut Vec<PathBuf>) {
    // The last mark around a place decides.
    let sight = marks.iter().rev().find(|(place, _)| path.starts_with(place)).map(|(_, sight)| *sight);
    let inner = marks.iter().filter(|(place, _)| *place != path && place.starts_with(path));
    match sight {
        Some(Sight::Writable) => found.push(path.to_owned()),
        Some(Sight::Readable) if !inner.clone().any(|(_, sight)| *sight == Sight::Hidden) => {
            found.push(path.to_owned());
        }
        Some(Sight::Readable) => {
            for entry in std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok) {
                // A link grants nothing: where it leads to is granted for itself, or not.
                if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                    collect(&entry.path(), marks, found);
                }
            }
        }
        Some(Sight::Hidden) | None => {
            // Nobody lists a hidden folder, so what is shown in it is found by its marks.
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

    /// Whether `path` lies in something that may be read.
    #[track_caller]
    fn check(view: &[Step], path: &Path, is_readable: bool) {
        let found = readable(view.iter());
        assert_eq!(
            found.iter().any(|place| path.starts_with(place)),
            is_readable,
            "{}: {found:?}",
            path.display()
        );
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
            Step::Cover(root.clone()),
            Step::Private { place: at("home"), content: at("private") },
            Step::Show(at("home/tools")),
            Step::Show(at("project")),
            Step::Hide(at("home/tools/secret")),
            Step::Hide(at("project/.env")),
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
        // A folder that is written is granted whole.
        let written = [&view[..], &[Step::Grant(at("project"))], &[Step::Hide(at("project/.env"))]].concat();
        check(&written, &at("project/src/new"), true);
        check(&written, &at("home/key"), false);
    }
}
