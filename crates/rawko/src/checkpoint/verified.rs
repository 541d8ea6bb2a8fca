//! Reads objects, and checks each against its name. Agents can write to the repository that keeps them, and git does
//! not check whether the content under a name is the content that the name belongs to.

use std::collections::BTreeSet;

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::error::CheckpointError;
use super::git::THOROUGH;
use super::listing::TreePath;
use super::message::{CommitMessage, tree_of};
use super::nested::below;
use super::objects::Objects;
use super::place::ObjectFormat;
use super::scratch::Scratch;
use super::snapshot::{Snapshot, TreeContent};

/// Most files and folders of a tree.
const MAX_ENTRIES: usize = 5_000_000;

/// An object that is what its name says; else why there is none.
type VerifiedObject = Result<Object, CheckpointError>;

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
        let mut root = id.to_owned();
        if self.known.tree(id).is_none() {
            let object = self.objects(scratch, &[id])?.pop().unwrap_or_else(|| Err(self.lost(id)))?;
            match tree_of(&object.content).filter(|_| object.kind == "commit") {
                Some(tree) => tree.clone_into(&mut root),
                None => self.keep_tree(scratch, id, &object)?,
            }
        }
        let (mut files, mut open) = (Snapshot::new(), vec![(TreePath::new(), root)]);
        while !open.is_empty() {
            self.learn(scratch, open.iter().map(|(_, id)| id.as_str()))?;
            let mut next = Vec::new();
            for (folder, id) in open {
                let content = self.known.tree(&id).ok_or_else(|| self.lost(&id))?;
                let trees = content.trees.iter();
                next.extend(trees.map(|(name, id)| (below(&folder, name), id.clone())));
                let entries = content.files.iter();
                files.extend(entries.map(|(name, entry)| (below(&folder, name), entry.clone())));
            }
            if files.len() + next.len() > MAX_ENTRIES {
                return Err(self.lost(id));
            }
            open = next;
        }
        Ok(files)
    }

    /// Reads those of these trees that are not known.
    fn learn<'i>(
        &self,
        scratch: &Scratch,
        ids: impl Iterator<Item = &'i str>,
    ) -> Result<(), CheckpointError> {
        let unknown: BTreeSet<&str> = ids.filter(|id| self.known.tree(id).is_none()).collect();
        let unknown: Vec<&str> = unknown.into_iter().collect();
        for (id, object) in unknown.iter().zip(self.objects(scratch, &unknown)?) {
            self.keep_tree(scratch, id, &object?)?;
        }
        Ok(())
    }

    fn keep_tree(&self, scratch: &Scratch, id: &str, object: &Object) -> Result<(), CheckpointError> {
        if object.kind != "tree" {
            return Err(self.lost(id));
        }
        self.known.keep_tree(id, TreeContent::read(&object.content, scratch.format.digits() / 2));
        Ok(())
    }

    /// The sizes of these objects, in their order. They only say how many are read at a time.
    pub(super) fn sizes(&self, ids: &[&str]) -> Result<Vec<u64>, CheckpointError> {
        let Some(first) = ids.first() else { return Ok(Vec::new()) };
        let input: Vec<u8> = ids.iter().flat_map(|id| [id.as_bytes(), b"\n"].concat()).collect();
        let scratch = self.scratch_for(first)?;
        let ask = self.read(&scratch, "looks at kept files");
        let answer = ask.args(["cat-file", "--batch-check=%(objectsize)"]).input(&input).answer()?;
        let text = String::from_utf8_lossy(&answer);
        Ok(text.lines().map(|line| line.parse().unwrap_or_default()).collect())
    }

    /// What was recorded beside a kept tree.
    pub(super) fn message(&self, id: &str) -> Result<CommitMessage, CheckpointError> {
        Ok(CommitMessage::read(&self.commit(id)?))
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

    fn objects(&self, scratch: &Scratch, asked: &[&str]) -> Result<Vec<VerifiedObject>, CheckpointError> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let input: Vec<u8> = asked.iter().flat_map(|id| [id.as_bytes(), b"\n"].concat()).collect();
        let ask = self.read(scratch, "reads kept files").args(["cat-file", "--batch"]);
        let answer = ask.input(&input).within_time(THOROUGH).answer()?;
        let mut rest = answer.as_slice();
        let found = asked.iter().map(|id| match next_object(&mut rest) {
            None => Err(self.lost(id)),
            Some(object) if object.name(scratch.format) == **id => Ok(object),
            Some(_) => Err(self.altered(id)),
        });
        Ok(found.collect())
    }

    fn altered(&self, id: &str) -> CheckpointError {
        CheckpointError::Altered { id: id.escape_debug().to_string(), store: self.holder().to_owned() }
    }
}

/// Reads one object from the output of `git cat-file --batch`; nothing if it is missing.
fn next_object(rest: &mut &[u8]) -> Option<Object> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let mut words = std::str::from_utf8(rest.get(..end)?).ok()?.split(' ').skip(1);
    let kind = words.next().unwrap_or_default().to_owned();
    let Some(size) = words.next().and_then(|size| size.parse::<usize>().ok()) else {
        // A missing object has a line and no content.
        *rest = rest.get(end + 1..)?;
        return None;
    };
    let content = rest.get(end + 1..)?.get(..size)?.to_vec();
    *rest = rest.get(end + 1 + size + 1..)?;
    Some(Object { kind, content })
}
