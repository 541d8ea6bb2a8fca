//! Folders and files that are their user's alone, and files that are written whole or not at all.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Write permission of the group and of everybody.
const OTHERS_WRITE: u32 = 0o022;

/// Creates a folder and those above it, with no rights for others.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

/// What becomes of a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, and writing fails.
    Stays,
    /// It is replaced.
    Replaced,
}

/// Writes a new file that only its owner may read, whole or not at all, also if the power fails; a file that is there stays
/// as it is.
pub(crate) fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    write_whole(path, content, 0o600, Existing::Stays)
}

/// The same in the place of a file that is there.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    write_whole(path, content, 0o600, Existing::Replaced)
}

/// Writes a file with these rights, whole or not at all, also if the power fails.
pub(crate) fn write_whole(path: &Path, content: &[u8], mode: u32, existing: Existing) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let rights = fs::Permissions::from_mode(mode);
    let mut part =
        tempfile::Builder::new().prefix(".new-").permissions(rights.clone()).tempfile_in(folder)?;
    part.write_all(content)?;
    if existing == Existing::Replaced {
        // The rights of a file that was there, whatever the umask.
        part.as_file().set_permissions(rights)?;
    }
    part.as_file().sync_all()?;
    match existing {
        Existing::Stays => part.persist_noclobber(path),
        Existing::Replaced => part.persist(path),
    }
    .map_err(|error| error.error)?;
    sync_directory(folder);
    Ok(())
}

/// Replaces a file by way of `part`, a name in the same file system that only the holder of a lock writes: what a kill leaves
/// there, or a link, the next one removes. So however often a process is killed, no more than one file is left.
pub(crate) fn replace_by(part: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    match fs::remove_file(part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(part);
    let written = file.and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()));
    if let Err(error) = written.and_then(|()| fs::rename(part, path)) {
        let _ = fs::remove_file(part);
        return Err(error);
    }
    sync_directory(path.parent().unwrap_or(Path::new(".")));
    Ok(())
}

/// Has the entries of a folder survive a power cut. Some file systems cannot do that: nothing to be done then.
pub(crate) fn sync_directory(folder: &Path) {
    if let Ok(handle) = fs::File::open(folder) {
        let _ = handle.sync_all();
    }
}

/// Makes sure that no one else can put files into a folder of the user's state, so that what is there is the user's
/// own. A folder of the user's own that others may write in is corrected.
///
/// # Errors
/// If others may write in it and that cannot be changed.
pub(crate) fn keep_others_out(folder: &Path) -> io::Result<()> {
    let found = match fs::metadata(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if found.mode() & OTHERS_WRITE == 0 {
        return Ok(());
    }
    let corrected =
        fs::set_permissions(folder, fs::Permissions::from_mode(found.mode() & 0o7777 & !OTHERS_WRITE));
    corrected.map_err(|error| {
        let why = format!("others may write in {} ({error}); run: chmod go-w on it", folder.display());
        io::Error::new(io::ErrorKind::PermissionDenied, why)
    })
}

/// Refuses a file of the user's state that another user put there, or may change.
///
/// # Errors
/// If it belongs neither to this user nor to the owner of its folder, or others may write to it.
pub(crate) fn refuse_others_file(file: &fs::File, path: &Path) -> io::Result<()> {
    let found = file.metadata()?;
    let folder = path.parent().map(fs::metadata).transpose()?;
    let is_own = found.uid() == rustix::process::geteuid().as_raw()
        || folder.is_some_and(|folder| folder.uid() == found.uid());
    if is_own && found.mode() & OTHERS_WRITE == 0 {
        return Ok(());
    }
    let why = "somebody else wrote it, or may write to it: look at it, then remove it, or make it your own with chown and chmod go-w";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_folder_in_which_others_may_write_is_corrected() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("a/b");
        create_private_dir(&made).unwrap();
        assert_eq!(mode(&made), 0o700);
        for (before, after) in [(0o777, 0o755), (0o775, 0o755), (0o755, 0o755), (0o700, 0o700)] {
            fs::set_permissions(&made, fs::Permissions::from_mode(before)).unwrap();
            keep_others_out(&made).unwrap();
            assert_eq!(mode(&made), after, "{before:o}");
        }
        keep_others_out(&dir.path().join("absent")).unwrap();
    }

    #[test]
    fn a_new_file_is_there_as_a_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        write_new(&path, b"first").unwrap();
        let again = write_new(&path, b"second").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"first".to_vec(), 0o600));
        assert!(write_new(&dir.path().join("absent/b.json"), b"x").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        for text in ["first", "second"] {
            replace(&path, text.as_bytes()).unwrap();
            assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), (text, 0o600));
        }
        write_whole(&path, b"third", 0o640, Existing::Replaced).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"third".to_vec(), 0o640));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn what_a_kill_left_under_the_name_between_is_removed_and_no_link_followed() {
        let dir = tempfile::tempdir().unwrap();
        let [part, path, victim] = ["new", "a", "victim"].map(|name| dir.path().join(name));
        fs::write(&part, "left").unwrap();
        fs::write(&victim, "precious").unwrap();
        replace_by(&part, &path, b"first").unwrap();
        std::os::unix::fs::symlink(&victim, &part).unwrap();
        replace_by(&part, &path, b"second").unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"second".to_vec(), 0o600));
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        fs::create_dir(dir.path().join("folder")).unwrap();
        assert!(replace_by(&part, &dir.path().join("folder"), b"third").is_err());
        assert!(!part.exists());
    }

    #[test]
    fn a_file_that_others_wrote_or_may_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trust.json");
        write_new(&path, b"{}").unwrap();
        let check = || refuse_others_file(&fs::File::open(&path).unwrap(), &path).is_ok();
        assert!(check());
        for mode in [0o602, 0o620, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(!check(), "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(check());
        // Only root can give a file away.
        if std::os::unix::fs::chown(&path, Some(12_345), None).is_ok() {
            assert!(!check());
        }
    }
}
