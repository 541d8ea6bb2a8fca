//! Folders that commands have for themselves: a home, changes to caches, temporary files.
//!
//! What tools keep at home lasts from run to run, apart for each project and each agent: what one agent leaves there must
//! not decide what another agent's command, or a verification, does. Temporary files last as long as the run.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};

/// The folders of one project.
#[derive(Debug)]
pub(super) struct PrivateFolders {
    /// `None` where the user has no folder for caches: then nothing lasts.
    lasting: Option<PathBuf>,
    run: RunFolder,
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
}

/// A folder that is removed with the run.
#[derive(Debug)]
struct RunFolder(PathBuf);

impl Drop for RunFolder {
    fn drop(&mut self) {
        if fs::remove_dir_all(&self.0).is_err() {
            // Folders of layers that only their owner's namespace may enter.
            for own in folders_in(&self.0) {
                let layers = ["caches", "builds"].into_iter().flat_map(|among| folders_in(&own.join(among)));
                for work in layers.map(|layer| layer.join("work")) {
                    for closed in ["work", "work/incompat", "work/incompat/volatile"] {
                        let _ = fs::set_permissions(work.join(closed), Permissions::from_mode(0o700));
                    }
                }
            }
            // What still cannot be removed is in the folder for temporary files.
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

impl PrivateFolders {
    pub(super) fn new(cache: Option<&Path>, root: &Path) -> io::Result<Self> {
        let name = hex::encode(&Sha256::digest(root.as_os_str().as_encoded_bytes())[..8]);
        let lasting = cache.map(|cache| cache.join("sandbox").join(&name)).filter(|path| make(path).is_ok());
        let temporary = std::env::temp_dir();
        for attempt in 0..1000_u32 {
            let folder = temporary.join(format!("rawko-run-{}-{attempt}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(Self { lasting, run: RunFolder(fs::canonicalize(folder)?) }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The folders of one agent, made if they are missing.
    pub(super) fn of(&self, who: &str) -> io::Result<OwnFolders> {
        let run = self.run.0.join(folder_name(who.as_ref()));
        let lasting = self
            .lasting
            .as_ref()
            .map_or_else(|| run.clone(), |lasting| lasting.join(folder_name(who.as_ref())));
        OwnFolders::make(&lasting, &run)
    }

    /// Folders for one command.
    pub(super) fn once(&self) -> io::Result<OwnFolders> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = self.run.0.join(format!("once-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
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

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
