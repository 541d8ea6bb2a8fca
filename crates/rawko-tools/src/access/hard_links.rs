//! Denied files under other names: a hard link gives a file a second name, which no entry of `permissions.deny` covers.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::grants::PathGrants;
use crate::file_stamp::{FileId, file_id};

/// The most files and folders that are looked at; the sandbox looks at as many.
const MAX_ENTRIES: usize = 200_000;

/// The denied files that have more than one name.
#[derive(Debug, Default)]
pub(super) struct DeniedLinks {
    ids: HashSet<FileId>,
    /// Whether there was more than is looked at, so that any file with several names may be a denied one.
    is_cut: bool,
}

impl DeniedLinks {
    /// Looks at what the entries of `deny` name; for a pattern, at everything below its part without wildcards.
    pub(super) fn of(grants: &PathGrants) -> Self {
        let mut found = Self::default();
        let mut left = MAX_ENTRIES;
        for place in grants.places_to_search() {
            found.search(grants, place, &mut left);
        }
        found
    }

    /// Whether a file with several names is, or may be, a denied one.
    pub(super) fn may_contain(&self, id: FileId) -> bool {
        self.is_cut || self.ids.contains(&id)
    }

    fn search(&mut self, grants: &PathGrants, start: PathBuf, left: &mut usize) {
        // The entry itself may be a link; below it, links lead to files that are judged by their own path.
        match fs::metadata(&start) {
            Ok(found) if found.is_dir() => {}
            Ok(found) => return self.note(grants, &start, &found),
            Err(_) => return,
        }
        let mut folders = vec![start];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if *left == 0 {
                    self.is_cut = true;
                    return;
                }
                *left -= 1;
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(kind) if kind.is_file() => {
                        let path = entry.path();
                        if let Ok(found) = entry.metadata() {
                            self.note(grants, &path, &found);
                        }
                    }
                    Ok(_) | Err(_) => {}
                }
            }
        }
    }

    fn note(&mut self, grants: &PathGrants, path: &Path, found: &fs::Metadata) {
        if found.is_file() && found.nlink() > 1 && grants.denied(path).is_some() {
            self.ids.insert(file_id(found));
        }
    }
}
