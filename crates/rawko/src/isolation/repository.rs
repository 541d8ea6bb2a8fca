//! The repositories of an isolated tree: copies of what git may write, beside the objects of the project's own repositories,
//! which are only read. So nothing that a run does with git reaches the project before it lands.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rawko_tools::{NamespaceStep, text_of};
use rustix::fs::FileType;

use crate::checkpoint::owns_repository;

use super::copy::{Share, copy};
use super::manifest::Manifest;

/// Where a copied repository has the objects of the one that it was copied from.
pub(crate) const SHARED_OBJECTS: &str = "rawko-objects";
/// Folders of a repository that hold large files, by programs that keep them there.
const LARGE: [&str; 2] = ["lfs", "annex"];
/// The longest file that names a folder, or other folders of objects.
const LONGEST_NAME: u64 = 64 * 1024;
/// Copied files have other inodes. Without it, git would read each of them once more.
const SETTINGS: &str = "\n[core]\n\tcheckStat = minimal\n\ttrustctime = false\n";

/// A repository, where it is and where its copy goes.
pub(super) struct Repository {
    /// Its folder, and the path at which the run sees the copy.
    pub(super) place: PathBuf,
    /// The copy.
    pub(super) copy: PathBuf,
}

/// What an isolated tree shows of what is not copied.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    pub(super) steps: Vec<NamespaceStep>,
    /// Whether anything can be mounted. Without it, the tree is a copy at another path.
    pub(super) are_possible: bool,
    /// Holds the changes to layers; `None` where there are none.
    pub(super) layers: Option<PathBuf>,
}

impl Mounts {
    /// Shows `content` at `place`, as it is.
    pub(super) fn bind(&mut self, place: &Path, content: &Path) {
        let (place, content) = (place.to_owned(), content.to_owned());
        self.steps.push(NamespaceStep::Bind { place, content, read_only: false });
    }

    /// Shows the folder at its own path, and takes the changes to it; says whether that is possible.
    pub(super) fn layer(&mut self, folder: &Path) -> io::Result<bool> {
        let Some(layers) = &self.layers else { return Ok(false) };
        let changes = layers.join(self.steps.len().to_string());
        crate::private::create_private_dir(&changes)?;
        let folder = folder.to_owned();
        self.steps.push(NamespaceStep::Layer { place: folder.clone(), lower: folder, changes });
        Ok(true)
    }

    /// Has `own`, which is seen at `place`, lead to the folder `from`, to be read only.
    fn lead(&mut self, own: &Path, place: PathBuf, from: &Path) -> io::Result<()> {
        if !self.are_possible {
            return symlink(from, own);
        }
        let content = from.to_owned();
        self.steps.push(NamespaceStep::Bind { place, content, read_only: true });
        std::fs::create_dir(own)
    }
}

impl Repository {
    /// Copies it. Its folder `copy` may be there, and empty.
    pub(super) fn copy(&self, mounts: &mut Mounts) -> io::Result<()> {
        let objects = Mutex::new(Vec::new());
        let mut large = BTreeSet::new();
        for name in LARGE {
            let folder = self.place.join(name);
            if folder.is_dir() && mounts.layer(&folder)? {
                large.insert(PathBuf::from(name));
            }
        }
        let share = |path: &Path, kind: FileType| {
            let is = |name: &str| path.file_name().is_some_and(|own| own == name);
            // Of a git that runs at the moment.
            if path.extension().is_some_and(|end| end == "lock") && kind == FileType::RegularFile {
                return Share::Nothing;
            }
            if large.contains(path) {
                return Share::Empty;
            }
            if kind.is_dir()
                && is("objects")
                && is_repository(self.place.join(path).parent().unwrap_or(&self.place))
            {
                objects.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
                return Share::Empty;
            }
            Share::Copied
        };
        copy(&self.place, &self.copy, u64::MAX, &Manifest::default(), &share)?;
        for path in objects.into_inner().unwrap_or_else(PoisonError::into_inner) {
            self.share_objects(&path, mounts)?;
        }
        let config = self.copy.join("config");
        if config.is_file() {
            std::fs::OpenOptions::new().append(true).open(config)?.write_all(SETTINGS.as_bytes())?;
        }
        Ok(())
    }

    /// Has the copy read the objects in the folder `path`.
    fn share_objects(&self, path: &Path, mounts: &mut Mounts) -> io::Result<()> {
        let (from, own) = (self.place.join(path), self.copy.join(path));
        for folder in ["info", "pack"] {
            std::fs::create_dir_all(own.join(folder))?;
        }
        let beside = path.with_file_name(SHARED_OBJECTS);
        mounts.lead(&self.copy.join(&beside), self.place.join(beside), &from)?;
        // Named from there, they would lead elsewhere.
        let others = text_of(&from.join("info/alternates"), LONGEST_NAME).unwrap_or_default();
        let others = others.lines().filter(|line| !line.starts_with('#')).map(|line| from.join(line));
        let lines: String = others.map(|path| format!("{}\n", path.display())).collect();
        std::fs::write(own.join("info/alternates"), format!("../{SHARED_OBJECTS}\n{lines}"))
    }
}

/// Whether a folder is that of a repository.
fn is_repository(folder: &Path) -> bool {
    folder.join("HEAD").is_file() && ["refs", "objects"].iter().all(|name| folder.join(name).is_dir())
}

/// The folder of the repository that the file `.git` of a work tree at `root` names, if it is a repository that names the work
/// tree back: that which all its work trees have in common.
pub(super) fn named_by(root: &Path) -> Option<PathBuf> {
    if !owns_repository(root) {
        return None;
    }
    let text = text_of(&root.join(".git"), LONGEST_NAME)?;
    let folder = root.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let common = text_of(&folder.join("commondir"), LONGEST_NAME);
    let common =
        common.map_or(Some(folder.clone()), |common| folder.join(common.trim()).canonicalize().ok())?;
    is_repository(&common).then_some(common)
}
