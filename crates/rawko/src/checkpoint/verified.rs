//! Reads objects, and holds each against its name. Agents can write to the repository that keeps them, and git does not look
//! whether what lies there under a name is what the name stands for.

use std::collections::BTreeMap;

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::error::CheckpointError;
use super::git::THOROUGH;
use super::message::{Message, tree_of};
use super::objects::Objects;
use super::place::ObjectFormat;
use super::scratch::Scratch;
use super::snapshot::{self, Listed, Snapshot};

/// An object that is what its name says; else why there is none.
type Found = Result<Object, CheckpointError>;

/// An object of git.
#[derive(Debug, PartialEq, Eq)]
struct Object {
    /// `blob`, `tree` or `commit`.
    kind: String,
    content: Vec<u8>,
}

impl Object {
    /// The name that git has for it.
    fn name(&self, format: ObjectFormat) -> String {
        let begin = format!("{} {}\0", self.kind, self.content.len());
        match format {
            ObjectFormat::Sha1 => {
                hex::encode(Sha1::new().chain_update(begin).chain_update(&self.content).finalize())
            }
            ObjectFormat::Sha256 => {
                hex::encode(Sha256::new().chain_update(begin).chain_update(&self.content).finalize())
            }
        }
    }
}

impl Objects<'_> {
    /// The files of a kept tree.
    pub(super) fn snapshot(&self, id: &str) -> Result<Snapshot, CheckpointError> {
        let scratch = self.scratch_for(id)?;
        self.files(&scratch, id).map_err(|error| self.gone(id, error))
    }

    /// The files of a tree, or of the tree that a commit holds.
    pub(super) fn files(&self, scratch: &Scratch, id: &str) -> Result<Snapshot, CheckpointError> {
        // Git refuses some of what is no longer what it was, and does not say which.
        self.files_of(scratch, id).map_err(|error| self.first_fault(scratch, id).unwrap_or(error))
    }

    /// What is wrong with a tree or a commit, or with the tree that it holds.
    fn first_fault(&self, scratch: &Scratch, id: &str) -> Option<CheckpointError> {
        match self.objects(scratch, &[id]).ok()?.pop()? {
            Err(error) => Some(error),
            Ok(object) => self.objects(scratch, &[tree_of(&object.content)?]).ok()?.pop()?.err(),
        }
    }

    fn files_of(&self, scratch: &Scratch, id: &str) -> Result<Snapshot, CheckpointError> {
        let list = ["ls-tree", "-r", "-t", "-z", "-l", "--full-tree", id];
        let answer = self.read(scratch, "reads the tree").args(list).answer()?;
        let Listed { sizes, trees } = snapshot::listed(&answer);
        let top = format!("{id}^{{tree}}");
        let asked: Vec<&str> = [id, top.as_str()].into_iter().chain(trees).collect();
        let mut found = BTreeMap::new();
        for (asked, object) in asked.iter().zip(self.objects(scratch, &asked)?) {
            let object = object?;
            let name = object.name(scratch.format);
            // The names of trees are what the one above says.
            if *asked == id && name != id {
                return Err(self.altered(id));
            }
            found.insert(name, object);
        }
        let root = match found.get(id) {
            Some(Object { kind, content }) if kind == "commit" => tree_of(content).unwrap_or_default(),
            Some(_) | None => id,
        };
        let tree = |id: &str| {
            let object = found.get(id).filter(|object| object.kind == "tree");
            object.map(|object| object.content.as_slice()).ok_or_else(|| self.altered(id))
        };
        snapshot::of_trees(root, &sizes, &tree)
    }

    /// What was recorded beside a kept tree.
    pub(super) fn message(&self, id: &str) -> Result<Message, CheckpointError> {
        Ok(Message::read(&self.commit(id)?))
    }

    /// A commit that keeps a tree.
    pub(super) fn commit(&self, id: &str) -> Result<Vec<u8>, CheckpointError> {
        let found = self.objects(&self.scratch_for(id)?, &[id]).map_err(|error| self.gone(id, error))?;
        let object = found.into_iter().next().unwrap_or_else(|| Err(self.lost(id)))?;
        if object.kind == "commit" { Ok(object.content) } else { Err(self.lost(id)) }
    }

    /// The contents of these objects, in their order.
    pub(super) fn contents(&self, ids: &[&str]) -> Result<Vec<Vec<u8>>, CheckpointError> {
        let Some(first) = ids.first() else { return Ok(Vec::new()) };
        self.contents_in(&self.scratch_for(first)?, ids)
    }

    /// The same, also of objects that `scratch` holds.
    pub(super) fn contents_in(
        &self,
        scratch: &Scratch,
        ids: &[&str],
    ) -> Result<Vec<Vec<u8>>, CheckpointError> {
        self.objects(scratch, ids)?.into_iter().map(|found| found.map(|object| object.content)).collect()
    }

    /// The contents of these objects, in their order, each by itself.
    pub(super) fn each(
        &self,
        ids: &[&str],
    ) -> Result<Vec<Result<Vec<u8>, CheckpointError>>, CheckpointError> {
        let Some(first) = ids.first() else { return Ok(Vec::new()) };
        let found = self.objects(&self.scratch_for(first)?, ids)?;
        Ok(found.into_iter().map(|found| found.map(|object| object.content)).collect())
    }

    fn objects(&self, scratch: &Scratch, asked: &[&str]) -> Result<Vec<Found>, CheckpointError> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let input = asked.iter().flat_map(|id| [id.as_bytes(), b"\n"].concat()).collect();
        let ask = self.read(scratch, "reads kept files").args(["cat-file", "--batch"]);
        let answer = ask.input(input).within_time(THOROUGH).answer()?;
        let mut rest = answer.as_slice();
        let found = asked.iter().map(|id| match next_object(&mut rest) {
            None => Err(self.lost(id)),
            Some((name, object)) if object.name(scratch.format) == name => Ok(object),
            Some((name, _)) => Err(self.altered(&name)),
        });
        Ok(found.collect())
    }

    fn altered(&self, id: &str) -> CheckpointError {
        CheckpointError::Altered { id: id.escape_debug().to_string(), store: self.holder().to_owned() }
    }
}

/// Reads one object from the output of `git cat-file --batch`, with the name that git found it by; nothing if it is missing.
fn next_object(rest: &mut &[u8]) -> Option<(String, Object)> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let mut words = std::str::from_utf8(rest.get(..end)?).ok()?.split(' ');
    let (name, kind) = (words.next()?.to_owned(), words.next().unwrap_or_default().to_owned());
    let Some(size) = words.next().and_then(|size| size.parse::<usize>().ok()) else {
        // What is missing has a line and no content.
        *rest = rest.get(end + 1..)?;
        return None;
    };
    let content = rest.get(end + 1..)?.get(..size)?.to_vec();
    *rest = rest.get(end + 1 + size + 1..)?;
    Some((name, Object { kind, content }))
}
