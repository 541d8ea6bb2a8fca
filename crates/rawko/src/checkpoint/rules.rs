//! What was ignored when a tree was kept: the ignore files of that tree decide, not today's.

use std::collections::BTreeSet;
use std::path::Path;

use super::error::CheckpointError;
use super::git::GitProgram;
use super::listing::TreePath;
use super::place::{UserFolders, WorkTree};
use super::restore::Restorer;
use super::scratch::{Scratch, read_list, user_exclude};
use super::snapshot::TreeEntryKind;

/// Name of the files that say what is ignored.
const NAME: &str = ".gitignore";
/// Begins the paths that git is asked about.
const HERE: &[u8] = b"./";
/// A path that is ignored for sure: where none is, git ends with a status of failure.
const PROBE: &str = ".rawko-probe-9f2c";

/// Whether a file says what is ignored.
pub(super) fn is_rule(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next() == Some(NAME.as_bytes())
}

/// The paths of `paths` that are ignored with `rules` in the project and the present rules above it.
pub(super) fn ignored(
    git: &GitProgram,
    place: &WorkTree,
    scratch: &Scratch,
    user: &UserFolders,
    rules: &[(TreePath, Vec<u8>)],
    paths: &BTreeSet<TreePath>,
) -> Result<BTreeSet<TreePath>, CheckpointError> {
    if paths.is_empty() {
        return Ok(BTreeSet::new());
    }
    let top = scratch.path().join("rules");
    let inside = place.project.strip_prefix(&place.toplevel).unwrap_or(Path::new(""));
    let project = top.join(inside);
    std::fs::create_dir_all(&project)
        .map_err(|error| CheckpointError::io("cannot create", &project, error))?;
    for above in inside.ancestors().skip(1) {
        if let Some(rule) = read_list(&place.toplevel.join(above).join(NAME)) {
            let path = top.join(above).join(NAME);
            std::fs::write(&path, rule).map_err(|error| CheckpointError::io("cannot write", &path, error))?;
        }
    }
    let restorer = Restorer::new(&project, scratch.path())?;
    for (path, content) in rules {
        // A path that cannot be written here cannot be in the project either.
        let _ = restorer.put(path, TreeEntryKind::File, None, content);
    }
    scratch.exclude(place)?;
    scratch.exclude_also(PROBE)?;
    let mut ask = scratch
        .ask(git, "looks at what is ignored", &scratch.objects(), &[])
        .env("GIT_WORK_TREE", &top)
        .env("GIT_INDEX_FILE", scratch.path().join("no-index"))
        .within(&project);
    if let Some(excludes) = user_exclude(place, user) {
        ask = ask.setting("core.excludesFile", excludes.as_os_str());
    }
    let ask = ask.args(["check-ignore", "-z", "--stdin", "--no-index", "--verbose"]);
    let paths = paths.iter().map(Vec::as_slice).chain([PROBE.as_bytes()]);
    // So no name is taken for a pattern.
    let input: Vec<u8> = paths.flat_map(|path| [HERE, path, b"\0"].concat()).collect();
    let answer = ask.without_env("GIT_LITERAL_PATHSPECS").input(&input).answer()?;
    let fields: Vec<&[u8]> = answer.split(|byte| *byte == 0).collect();
    let ignored = fields.chunks_exact(4).filter_map(|record| match record {
        // A pattern that begins with `!` takes back what another said.
        [_, _, pattern, path] if !pattern.is_empty() && !pattern.starts_with(b"!") => {
            path.strip_prefix(HERE).map(<[u8]>::to_vec)
        }
        _ => None,
    });
    Ok(ignored.collect())
}
