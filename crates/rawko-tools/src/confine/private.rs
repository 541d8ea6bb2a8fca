//! Folders that commands have for themselves: a home, changes to caches, temporary files.
//!
//! What tools keep at home lasts from run to run, apart for each project and each agent: what one agent leaves there must
//! not decide what another agent's command, or a verification, does. Temporary files last as long as the run.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};

use crate::temporary::{self, TemporaryFolder};

/// The folders of one project.
#[derive(Debug)]
pub(super) struct PrivateFolders {
    /// `None` where the user has no folder for caches: then nothing lasts.
    lasting: Option<PathBuf>,
    /// Ends with the run. The place is its real path.
    run: TemporaryFolder,
    place: PathBuf,
}

/// What one agent's commands have for themselves.
#[derive(Debug, Clone)]
pub(super) struct OwnFolders {
    pub(super) home: PathBuf,
    /// Holds a folder for each cache.
    pub(super) caches: PathBuf,
    /// Holds a folder for each build folder; ends with the run.
    pub(super) builds: PathBuf,
    pub(super) temporary: PathBuf,
    /// The settings of git that were put into the home.
    pub(super) git_settings: PathBuf,
}

impl PrivateFolders {
    pub(super) fn new(cache: Option<&Path>, root: &Path) -> io::Result<Self> {
        let name = hex::encode(&Sha256::digest(root.as_os_str().as_encoded_bytes())[..8]);
        let lasting = cache.map(|cache| cache.join("sandbox").join(&name)).filter(|path| make(path).is_ok());
        // People link to a folder for caches that is elsewhere.
        let lasting = lasting.and_then(|path| fs::canonicalize(path).ok());
        temporary::remove_abandoned(root);
        let folder = TemporaryFolder::new(temporary::RUN, root)?;
        Ok(Self { lasting, place: fs::canonicalize(folder.path())?, run: folder })
    }

    /// Where that folder is.
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// The folder that ends with the run.
    pub(super) fn run(&self) -> &TemporaryFolder {
        &self.run
    }

    /// The folders of one agent, made if they are missing.
    pub(super) fn of(&self, who: &str) -> io::Result<OwnFolders> {
        let run = self.place.join(folder_name(who.as_ref()));
        let lasting = self
            .lasting
            .as_ref()
            .map_or_else(|| run.clone(), |lasting| lasting.join(folder_name(who.as_ref())));
        OwnFolders::make(&lasting, &run)
    }

    /// Removes what `who` has for the run alone, beside what else is done: on a disk that is busy each folder may take
    /// milliseconds. Anything left then is removed at the end of the run.
    pub(super) fn remove_soon(&self, who: &str) {
        let folder = self.place.join(folder_name(who.as_ref()));
        std::thread::spawn(move || temporary::remove_all(&folder));
    }

    /// Folders for one command.
    pub(super) fn once(&self) -> io::Result<OwnFolders> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = self.place.join(format!("once-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        OwnFolders::make(&folder, &folder)
    }
}

impl OwnFolders {
    fn make(lasting: &Path, run: &Path) -> io::Result<Self> {
        let own = Self {
            home: lasting.join("home"),
            caches: lasting.join("caches"),
            builds: run.join("builds"),
            temporary: run.join("tmp"),
            git_settings: lasting.join("git-settings"),
        };
        for folder in [&own.home, &own.caches, &own.builds, &own.temporary] {
            make(folder)?;
        }
        Ok(own)
    }

    /// Where the changes to `folder` are kept.
    pub(super) fn changes(among: &Path, folder: &Path) -> Option<PathBuf> {
        let changes = among.join(folder_name(folder.as_os_str()));
        make(&changes).ok().map(|()| changes)
    }
}

/// A name for a folder that any text gets as its own.
fn folder_name(text: &OsStr) -> String {
    let bytes = text.as_encoded_bytes();
    let end = bytes.iter().skip(bytes.len().saturating_sub(24));
    let readable: String =
        end.map(|byte| if byte.is_ascii_alphanumeric() { char::from(*byte) } else { '-' }).collect();
    format!("{}-{}", readable.trim_matches('-'), hex::encode(&Sha256::digest(bytes)[..6]))
}

fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
