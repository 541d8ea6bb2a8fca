//! Copies kept trees from one session to another, so that a fork keeps them when the session it came from is removed.

use std::path::Path;

use super::error::CheckpointError;
use super::objects::{self, Objects};
use super::own::{self, create_folder};
use super::place::ObjectFormat;
use super::store::Store;
use super::{Checkpoint, Checkpoints, END, number};
use crate::elsewhere::is_record_of_session;
use rawko_tools::temporary;

impl Checkpoints {
    /// Gives `other` the trees that its journal names and this session kept, and those that were kept beside them until
    /// its journal ends. Trees that are gone already are passed over.
    ///
    /// # Errors
    /// [`CheckpointError`]: some may not be shared then, and are gone for `other` when this session is removed.
    pub fn share_with(&self, other: &Self) -> Result<(), CheckpointError> {
        if other.recorded.is_empty() {
            return Ok(());
        }
        let (from, to) = (self.store()?, other.store()?);
        let _lock = objects::lock(&to.folder)?;
        temporary::remove_abandoned(&to.place.project);
        // Without it the fork's work cannot be verified, but all else can be done.
        let _ = self.share_records(other);
        let recorded = other.recorded.iter().map(|(iteration, id)| (iteration.to_string(), id.clone()));
        let beside = self.kept_beside(&from, other.last_sign)?;
        for (name, id) in recorded.chain(beside) {
            match from.objects().share_with(&to.objects(), &name, &id) {
                Ok(()) | Err(CheckpointError::Gone { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Checkpoints {
    /// What was kept until `until`, other than before executions: what they left, and what rewinds replaced.
    fn kept_beside(
        &self,
        store: &Store,
        until: Option<u64>,
    ) -> Result<Vec<(String, String)>, CheckpointError> {
        let Some(until) = until else { return Ok(Vec::new()) };
        let mut kept = self.list()?;
        kept.retain(|kept| number(&kept.name).is_none() && kept.name != END);
        let messages = store.messages(&kept)?;
        let at = |kept: &Checkpoint| messages.get(&kept.id).and_then(|message| message.at);
        kept.retain(|kept| at(kept).is_some_and(|at| at <= until));
        Ok(kept.into_iter().map(|kept| (kept.name, kept.id)).collect())
    }

    /// Copies what surrounded the project at the beginning of each task.
    fn share_records(&self, other: &Self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_str().is_some_and(is_record_of_session) && entry.file_type()?.is_file() {
                crate::private::write_new(&other.directory.join(&name), &std::fs::read(entry.path())?)?;
            }
        }
        Ok(())
    }
}

impl Objects<'_> {
    fn share_with(&self, other: &Objects<'_>, name: &str, id: &str) -> Result<(), CheckpointError> {
        let scratch = self.scratch_for(id)?;
        let (folder, leaf) = id.split_at(2);
        if !self.own_objects().join(folder).join(leaf).is_file() {
            self.commit(id)?;
            return other.name(name, id, None);
        }
        let list = ["rev-list", "--objects", "--no-object-names", id];
        let answer = self.read(&scratch, "lists what was kept").args(list).answer();
        let answer = answer.map_err(|error| self.gone(id, error))?;
        let all = String::from_utf8_lossy(&answer);
        for object in all.lines().filter(|object| ObjectFormat::of_id(object).is_some()) {
            let (folder, leaf) = object.split_at(2);
            // Objects that are not among the session's own are in the repository.
            let Some(content) = own::read(&self.own_objects().join(folder).join(leaf)) else { continue };
            let folder = other.own_objects().join(folder);
            create_folder(&folder)?;
            own::write(other.folder, &folder.join(Path::new(leaf)), &content)?;
        }
        other.name_own(name, id, None)
    }
}
