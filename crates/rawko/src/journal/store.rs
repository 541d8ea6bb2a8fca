//! The folder of sessions: new ones, finding one by the beginning of its id, listing them without reading them whole.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rawko_tools::{FileLock, FileStamp};

use super::error::JournalError;
use super::file::open_own;
use super::info::{SessionInfo, SessionStatus};
use super::lock::{SessionLock, holder};
use super::reader::check;
use super::record::JournalHeader;
use super::writer::{FILE_NAME, JournalWriter};
use crate::checkpoint::Checkpoints;
use crate::private::{create_private_dir, sync_directory};
use crate::session_id;

/// What the folder of a session is called before its id while it is being made.
const HALF_MADE: &str = ".half-made-";

/// How long others may take to make sessions. One takes milliseconds, and a fork of a long one a few seconds; but many
/// may be waiting on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The right to begin a session, until it is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct BeginningGuard(#[expect(dead_code, reason = "it is held")] Option<FileLock>);

/// Journals whose records [`SessionStore::list_checked`] found to be sound, as they were then: it reads each of them once.
#[derive(Debug, Default)]
pub struct CheckedJournals(HashMap<PathBuf, FileStamp>);

impl CheckedJournals {
    /// What is wrong with the records of the journal at `path`.
    fn damage(&mut self, path: &Path) -> Option<JournalError> {
        let now = std::fs::symlink_metadata(path).ok().map(|found| FileStamp::of(&found));
        if now.is_some() && self.0.get(path) == now.as_ref() {
            return None;
        }
        self.0.remove(path);
        if let Err(error) = check(path) {
            return Some(error);
        }
        let sound = now.filter(FileStamp::is_settled);
        self.0.extend(sound.map(|sound| (path.to_owned(), sound)));
        None
    }
}

/// The sessions of one project: `.rawko/sessions/`.
#[derive(Debug, Clone)]
pub struct SessionStore {
    folder: PathBuf,
}

impl SessionStore {
    /// The sessions of the project in `project`.
    #[must_use]
    pub fn of_project(project: &Path) -> Self {
        Self { folder: project.join(".rawko").join("sessions") }
    }

    /// The sessions in a folder of one's own choice.
    #[must_use]
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Where they are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Begins a session. The folder is kept out of git by a `.gitignore` of its own.
    ///
    /// # Errors
    /// [`JournalError::Io`] where the folder cannot be written.
    pub fn create(&self, header: &JournalHeader) -> Result<JournalWriter, JournalError> {
        self.create_at(&self.folder.join(&header.session), header)
    }

    /// Makes a session with everything that `fill` writes, or none: until then it is in a folder that is no session.
    /// Gives the path of its journal.
    ///
    /// # Errors
    /// [`JournalError::Io`] where the folder cannot be written, and what `fill` returns. Nothing is left then.
    pub(crate) fn create_filled(
        &self,
        header: &JournalHeader,
        fill: impl FnOnce(&mut JournalWriter) -> Result<(), JournalError>,
    ) -> Result<PathBuf, JournalError> {
        let making = self.making()?;
        self.remove_half_made();
        let unfinished = self.folder.join(format!("{HALF_MADE}{}", header.session));
        let directory = self.folder.join(&header.session);
        let made = self.create_at(&unfinished, header).and_then(|mut writer| {
            fill(&mut writer)?;
            writer.commit()?;
            std::fs::rename(&unfinished, &directory)
                .map_err(|error| JournalError::io("cannot create", &directory, error))
        });
        if made.is_err() {
            self.discard(&unfinished);
        }
        sync_directory(&self.folder);
        drop(making);
        made.map(|()| directory.join(FILE_NAME))
    }

    /// The right to make a session out of others, or to see what runs and begin one, which one process has at a time. It ends with the process. `None` where the
    /// file system has no such locks.
    pub(crate) fn beginning(&self) -> Result<BeginningGuard, JournalError> {
        Ok(BeginningGuard(self.making()?))
    }

    /// The lock of [`Self::beginning`].
    fn making(&self) -> Result<Option<FileLock>, JournalError> {
        self.making_within(PATIENCE)
    }

    fn making_within(&self, patience: Duration) -> Result<Option<FileLock>, JournalError> {
        self.refuse_link()?;
        create_private_dir(&self.folder)
            .map_err(|error| JournalError::io("cannot create", &self.folder, error))?;
        let folder =
            File::open(&self.folder).map_err(|error| JournalError::io("cannot open", &self.folder, error))?;
        // The file system may know no such locks.
        FileLock::take_if_known(folder, patience).map_err(|_| {
            let (folder, seconds) = (self.folder.clone(), patience.as_secs());
            JournalError::Held { folder, seconds }
        })
    }

    /// Removes what is left of sessions whose processes were killed while they made or removed them. No other process
    /// makes one in the meantime. A session without a journal was not begun, or is nearly gone.
    fn remove_half_made(&self) {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(HALF_MADE)) {
            let journal = entry.path().join(FILE_NAME);
            if holder(&journal).is_none() {
                self.discard(&entry.path());
            }
        }
    }

    /// Removes a half-made session, and what git keeps of it.
    fn discard(&self, unfinished: &Path) {
        let name = name_of(unfinished);
        if let (Some(session), Some(project)) = (name.strip_prefix(HALF_MADE), self.folder.ancestors().nth(2))
        {
            let _ = Checkpoints::new(project, unfinished, session).forget();
        }
        let _ = std::fs::remove_dir_all(unfinished);
    }

    fn create_at(&self, directory: &Path, header: &JournalHeader) -> Result<JournalWriter, JournalError> {
        self.refuse_link()?;
        create_private_dir(&self.folder)
            .map_err(|error| JournalError::io("cannot create", &self.folder, error))?;
        // First, so that git sees no session.
        let ignore = self.folder.join(".gitignore");
        // One that is empty was begun by a process that was killed.
        if !std::fs::symlink_metadata(&ignore).is_ok_and(|found| found.len() > 0) {
            let mut file = open_own(&ignore, OpenOptions::new().append(true).create(true).mode(0o600))?;
            file.write_all(b"*\n")
                .and_then(|()| file.sync_all())
                .map_err(|error| JournalError::io("cannot write", &ignore, error))?;
            sync_directory(&self.folder);
        }
        let is_new = std::fs::symlink_metadata(directory).is_err();
        let created = JournalWriter::create(directory, header);
        // A full disk leaves no session that cannot be used.
        if created.is_err() && is_new {
            let _ = std::fs::remove_dir_all(directory);
        }
        created
    }

    /// A repository can bring a link along: nothing is written, and nothing removed, where it leads.
    fn refuse_link(&self) -> Result<(), JournalError> {
        let is_link = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|data| data.is_symlink());
        if is_link(&self.folder) {
            let why = std::io::Error::other("it is a symbolic link");
            return Err(JournalError::io("refusing to use", &self.folder, why));
        }
        Ok(())
    }

    /// Removes a session whole, unless a process is writing it. `last_look` is given its directory before that: to
    /// remove what is kept of it elsewhere.
    ///
    /// # Errors
    /// [`JournalError::Locked`] where it is running, [`JournalError::Io`] where it cannot be removed.
    pub fn remove(&self, id: &str, last_look: impl FnOnce(&Path)) -> Result<(), JournalError> {
        self.refuse_link()?;
        let path = self.find(id)?;
        let directory = path.parent().unwrap_or(&self.folder).to_owned();
        // Whatever else is where a journal should be (nothing, a link, a FIFO), no process writes a session there.
        let held = match open_own(&path, OpenOptions::new().read(true).append(true)) {
            Ok(_) => Some(SessionLock::acquire(&path)?),
            Err(_) => None,
        };
        last_look(&directory);
        // Out of the way first: while its files go one by one, another process could take the half of it for a session.
        let removed = self.folder.join(format!("{HALF_MADE}{}", name_of(&directory)));
        let making = self.making()?;
        let done = std::fs::rename(&directory, &removed).and_then(|()| std::fs::remove_dir_all(&removed));
        drop((held, making));
        done.map_err(|error| JournalError::io("cannot remove", &directory, error))
    }

    /// Path of the journal of the session whose id is, or begins or ends with, `id`; `last` is the latest
    /// that was begun, or where there is none, the latest.
    ///
    /// # Errors
    /// [`JournalError::NotFound`] and [`JournalError::Ambiguous`].
    pub fn find(&self, id: &str) -> Result<PathBuf, JournalError> {
        let ids = self.ids()?;
        let matches = |candidate: &&String| candidate.starts_with(id) || candidate.ends_with(id);
        let found: Vec<&String> = match id {
            "last" => {
                let path = |id: &str| self.folder.join(id).join(FILE_NAME);
                let is_begun = |id: &&String| {
                    SessionInfo::of((*id).clone(), &path(id)).status != SessionStatus::NotBegun
                };
                ids.iter().rev().find(is_begun).or(ids.last()).into_iter().collect()
            }
            _ if ids.iter().any(|candidate| candidate == id) => {
                vec![ids.iter().find(|c| *c == id)].into_iter().flatten().collect()
            }
            "" => Vec::new(),
            _ => ids.iter().filter(matches).collect(),
        };
        match found.as_slice() {
            [one] => Ok(self.folder.join(one).join(FILE_NAME)),
            [] => Err(JournalError::NotFound { id: id.to_owned(), folder: self.folder.clone() }),
            several => Err(JournalError::Ambiguous {
                id: id.to_owned(),
                candidates: several.iter().map(|id| (*id).clone()).collect(),
            }),
        }
    }

    /// The ids of all sessions with the paths of their journals, oldest first. Nothing in them is read.
    ///
    /// # Errors
    /// [`JournalError::Io`] where the folder cannot be read.
    pub fn journals(&self) -> Result<Vec<(String, PathBuf)>, JournalError> {
        let with_path = |id: String| {
            let path = self.folder.join(&id).join(FILE_NAME);
            (id, path)
        };
        Ok(self.ids()?.into_iter().map(with_path).collect())
    }

    /// All sessions, oldest first. Reads the two ends of each journal, not what is between them.
    ///
    /// # Errors
    /// [`JournalError::Io`] where the folder cannot be read; a journal that cannot be read is listed as such.
    pub fn list(&self) -> Result<Vec<SessionInfo>, JournalError> {
        Ok(self.journals()?.into_iter().map(|(id, path)| SessionInfo::of(id, &path)).collect())
    }

    /// The same, with each record of those that ended checked: a damaged journal is listed as one that cannot be read,
    /// whatever its end says. Takes longer for longer sessions, the first time; `checked` remembers for the next.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn list_checked(&self, checked: &mut CheckedJournals) -> Result<Vec<SessionInfo>, JournalError> {
        let journals = self.journals()?;
        if checked.0.len() > journals.len() {
            checked.0.retain(|known, _| journals.iter().any(|(_, path)| path == known));
        }
        let of = |(id, path): (String, PathBuf)| {
            let info = SessionInfo::of(id, &path);
            match info.outcome.is_some().then(|| checked.damage(&path)).flatten() {
                Some(error) => info.with_problem(&error),
                None => info,
            }
        };
        Ok(journals.into_iter().map(of).collect())
    }

    /// The session whose id is exactly `id`, as a list shows it; `None` where there is none.
    ///
    /// # Errors
    /// [`JournalError::Io`] where the folder cannot be read; a journal that cannot be read is described as such.
    pub fn info(&self, id: &str) -> Result<Option<SessionInfo>, JournalError> {
        let found = self.journals()?.into_iter().find(|(known, _)| known == id);
        Ok(found.map(|(id, path)| SessionInfo::of(id, &path)))
    }

    /// Whether the folder `name` holds a session: it has a journal, or the name of a session that lost its own. Other
    /// folders that people put here are left alone.
    fn is_session(&self, name: &str) -> bool {
        session_id::is_id(name) || std::fs::symlink_metadata(self.folder.join(name).join(FILE_NAME)).is_ok()
    }

    fn ids(&self) -> Result<Vec<String>, JournalError> {
        self.refuse_link()?;
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(JournalError::io("cannot read", &self.folder, error)),
        };
        let mut ids: Vec<String> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| !name.starts_with(HALF_MADE) && self.is_session(name))
            .collect();
        ids.sort();
        Ok(ids)
    }
}

fn name_of(directory: &Path) -> String {
    directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::FORMAT;
    use rawko_core::Timestamp;

    fn header(session: &str) -> JournalHeader {
        JournalHeader {
            format: FORMAT,
            rawko: String::new(),
            session: session.into(),
            created_at: Timestamp(0),
            task: String::new(),
            config_digest: String::new(),
            degraded: Vec::new(),
            confined: None,
            seal: None,
            forked_from: None,
            traceparent: None,
        }
    }

    fn names(store: &SessionStore) -> Vec<String> {
        let entries = std::fs::read_dir(store.folder()).unwrap().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_lock_that_is_held_is_waited_for_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let store = SessionStore::of_project(dir.path());
        let held = store.making().unwrap();
        assert!(held.is_some());
        let error = store.making_within(Duration::from_millis(30)).unwrap_err();
        assert!(error.to_string().starts_with("another process has held the lock on "), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("lsof")), "{error}");
        drop(held);
        assert!(store.making_within(Duration::ZERO).unwrap().is_some());
    }

    #[test]
    fn git_ignores_a_session_before_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let store = SessionStore::at(dir.path().join("sessions"));
        std::fs::create_dir(store.folder()).unwrap();
        // Nothing can be made in its place.
        std::fs::write(store.folder().join("one"), "").unwrap();
        assert!(store.create(&header("one")).is_err());
        assert_eq!(names(&store), [".gitignore", "one"]);
    }

    #[test]
    fn a_session_that_could_not_be_filled_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = SessionStore::at(dir.path().join("sessions"));
        let full = |_: &mut JournalWriter| {
            let error = std::io::Error::from(std::io::ErrorKind::StorageFull);
            assert!(store.list().unwrap().is_empty(), "half of it is listed");
            Err(JournalError::io("cannot write", Path::new("x"), error))
        };
        assert!(store.create_filled(&header("one"), full).is_err());
        assert_eq!(names(&store), [".gitignore"]);
    }

    #[test]
    fn what_was_half_made_when_its_process_was_killed_is_no_session_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let store = SessionStore::at(dir.path().join("sessions"));
        // Killed before there was a journal, and before the list of what git ignores was filled.
        std::fs::create_dir_all(store.folder.join(".half-made-zero")).unwrap();
        std::fs::write(store.folder.join(".gitignore"), "").unwrap();
        let being_made = store.create_at(&store.folder.join(".half-made-one"), &header("one")).unwrap();
        assert!(store.list().unwrap().is_empty());
        assert!(matches!(store.find("last"), Err(JournalError::NotFound { .. })));
        let two = store.create_filled(&header("two"), |_| Ok(())).unwrap();
        assert_eq!(two, store.find("last").unwrap());
        assert_eq!(names(&store), [".gitignore", ".half-made-one", "two"], "it is being made");
        drop(being_made);
        store.create_filled(&header("three"), |_| Ok(())).unwrap();
        assert_eq!(names(&store), [".gitignore", "three", "two"]);
        assert_eq!(std::fs::read_to_string(store.folder.join(".gitignore")).unwrap(), "*\n");
        assert!(JournalWriter::reopen(&two).is_ok());
    }
}
