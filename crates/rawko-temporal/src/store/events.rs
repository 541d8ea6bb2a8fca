//! The events of a task: a log in pieces that several may write.
//!
//! A *segment* is a run of events, kept under `tasks/<task>/events/<first>-<last>` with ten digits each. Segments may
//! overlap: two activities that carry the same tail both write it. Readers take the union, and what is there twice must be
//! the same.
//!
//! A segment never reaches over a multiple of [`RUN`]. So a reader that starts at event N needs no segment that begins
//! before the last such multiple, and the events before it cost nothing, however many there are.
//!
//! A line above 64 KiB is a blob, and its segment holds `@` and the blob's hash in its place. JSON never begins with `@`;
//! a line that does is kept as a blob too.

use std::collections::BTreeMap;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::path::Path;

use super::error::StoreError;
use super::keys::checked_part;
use super::{Creation, SharedStore};

/// The most events of a segment.
const RUN: u64 = 256;
/// The longest line in a segment.
const MAX_INLINE: usize = 64 * 1024;
/// Marks the hash of a line that is kept as a blob.
const REFERENCE: u8 = b'@';
/// The digits of a number in a key. They sort as the numbers do.
const DIGITS: usize = 10;
const MAX_EVENT: u64 = 9_999_999_999;
/// How many objects are read or written at once.
const AT_ONCE: usize = 16;

/// The events of one task, which are numbered from 0.
#[derive(Debug, Clone)]
pub struct EventLog {
    store: SharedStore,
    task: String,
    folder: Path,
}

/// The key of a segment, and the events that it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    key: String,
    first: u64,
    last: u64,
}

impl EventLog {
    pub(super) fn new(store: SharedStore, task: &str) -> Result<Self, StoreError> {
        let folder = Path::from_iter(["tasks", checked_part("name of a task", task)?, "events"]);
        Ok(Self { store, task: task.to_owned(), folder })
    }

    /// Keeps a run of events, of which `first` is the number of the first, each as a line without its line break. Events
    /// that are there already may be among them.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the same run was written with different content. Other contradictions are found by who
    /// reads.
    pub async fn append(&self, first: u64, lines: &[Bytes]) -> Result<(), StoreError> {
        let refuse = |event, why| Err(StoreError::Event { task: self.task.clone(), event, why });
        if first.checked_add(lines.len() as u64).is_none_or(|end| end > MAX_EVENT) {
            return refuse(first, "its number has more than ten digits");
        }
        if let Some((at, _)) = (first..).zip(lines).find(|(_, line)| line.contains(&b'\n')) {
            return refuse(at, "it contains a line break");
        }
        let kept = stream::iter(lines.to_vec())
            .map(|line| self.kept(line))
            .buffered(AT_ONCE)
            .try_collect::<Vec<_>>()
            .await?;
        let mut rest: &[Bytes] = &kept;
        let mut first = first;
        // In order: who is killed in between leaves no gap.
        while !rest.is_empty() {
            let room = usize::try_from(RUN - first % RUN).unwrap_or(usize::MAX);
            let (segment, later) = rest.split_at(room.min(rest.len()));
            self.write(first, segment).await?;
            first += segment.len() as u64;
            rest = later;
        }
        Ok(())
    }

    /// The events from number `from` on, in order. None, if there are no more.
    ///
    /// # Errors
    /// [`StoreError::Gap`] if some are missing, [`StoreError::Conflict`] if one is there twice and not the same.
    pub async fn read(&self, from: u64) -> Result<Vec<(u64, Bytes)>, StoreError> {
        let segments = self.segments(from).await?;
        let contents = stream::iter(segments.into_iter().filter(|segment| segment.last >= from))
            .map(|segment| self.content(segment))
            .buffered(AT_ONCE)
            .try_collect::<Vec<_>>()
            .await?;
        let mut events: BTreeMap<u64, Bytes> = BTreeMap::new();
        for (segment, lines) in contents {
            for (event, line) in (segment.first..).zip(lines).filter(|(event, _)| *event >= from) {
                let there = events.entry(event).or_insert_with(|| line.clone());
                if *there != line {
                    let (task, key) = (self.task.clone(), segment.key);
                    return Err(StoreError::Conflict { task, event, key });
                }
            }
        }
        self.refuse_gap(from, events.keys().map(|event| (*event, *event)))?;
        let whole =
            stream::iter(events).map(|(event, line)| async move { Ok((event, self.whole(line).await?)) });
        whole.buffered(AT_ONCE).try_collect().await
    }

    /// How many events there are.
    ///
    /// # Errors
    /// [`StoreError::Gap`] if some are missing.
    pub async fn length(&self) -> Result<u64, StoreError> {
        let segments = self.segments(0).await?;
        self.refuse_gap(0, segments.iter().map(|segment| (segment.first, segment.last)))
    }

    /// Goes through runs in the order of their beginnings, and gives the event after the last.
    fn refuse_gap(&self, from: u64, runs: impl Iterator<Item = (u64, u64)>) -> Result<u64, StoreError> {
        let mut next = from;
        for (first, last) in runs {
            if first > next {
                let (task, store) = (self.task.clone(), self.store.location.to_string());
                return Err(StoreError::Gap { task, store, first: next, last: first - 1 });
            }
            next = next.max(last + 1);
        }
        Ok(next)
    }

    async fn write(&self, first: u64, lines: &[Bytes]) -> Result<(), StoreError> {
        let last = first + lines.len() as u64 - 1;
        let key = format!("{}/{first:0DIGITS$}-{last:0DIGITS$}", self.folder);
        let mut content = BytesMut::with_capacity(lines.iter().map(|line| line.len() + 1).sum());
        for line in lines {
            content.extend_from_slice(line);
            content.put_u8(b'\n');
        }
        let content = content.freeze();
        match self.store.create(&key, content.clone()).await? {
            Creation::Created => Ok(()),
            Creation::Existing(found) if found == content => Ok(()),
            Creation::Existing(found) => {
                let mut both = found.split(|byte| *byte == b'\n').zip(content.split(|byte| *byte == b'\n'));
                let at = both.position(|(one, other)| one != other).unwrap_or_default();
                Err(StoreError::Conflict { task: self.task.clone(), event: first + at as u64, key })
            }
        }
    }

    /// The segments that may hold events from `from` on, by their beginnings.
    pub(super) async fn segments(&self, from: u64) -> Result<Vec<Segment>, StoreError> {
        // It sorts before every segment that begins with this event.
        let after = (from >= RUN).then(|| format!("{:0DIGITS$}", from - from % RUN));
        let after = after.map(|event| self.folder.clone().join(event));
        let keys = self.store.list_from(&self.folder, after.as_ref()).await?;
        keys.into_iter().map(|key| self.segment(key)).collect()
    }

    fn segment(&self, key: String) -> Result<Segment, StoreError> {
        let number = |text: &str| {
            let is_number = text.len() == DIGITS && text.bytes().all(|digit| digit.is_ascii_digit());
            is_number.then(|| text.parse::<u64>().ok()).flatten()
        };
        let range = key.rsplit('/').next().and_then(|name| name.split_once('-'));
        let range = range.and_then(|(first, last)| Some((number(first)?, number(last)?)));
        match range {
            Some((first, last)) if first <= last && first / RUN == last / RUN => {
                Ok(Segment { key, first, last })
            }
            _ => Err(self.damaged(key, "it is not named like a segment of events")),
        }
    }

    async fn content(&self, segment: Segment) -> Result<(Segment, Vec<Bytes>), StoreError> {
        let content = self.store.get(&segment.key).await?;
        let content =
            content.ok_or_else(|| self.damaged(segment.key.clone(), "it was removed while it was read"))?;
        let mut lines = Vec::new();
        let mut rest = content;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            lines.push(rest.split_to(end));
            rest = rest.slice(1..);
        }
        if !rest.is_empty() || lines.len() as u64 != segment.last - segment.first + 1 {
            return Err(self.damaged(segment.key, "it does not hold as many lines as its name says"));
        }
        Ok((segment, lines))
    }

    /// A line as a segment holds it.
    async fn kept(&self, line: Bytes) -> Result<Bytes, StoreError> {
        if line.len() <= MAX_INLINE && line.first() != Some(&REFERENCE) {
            return Ok(line);
        }
        let hash = self.store.put_blob(line).await?;
        Ok(format!("{}{hash}", char::from(REFERENCE)).into())
    }

    /// A line as it was given.
    async fn whole(&self, line: Bytes) -> Result<Bytes, StoreError> {
        match line.split_first() {
            Some((&REFERENCE, hash)) => self.store.blob(&String::from_utf8_lossy(hash)).await,
            _ => Ok(line),
        }
    }

    fn damaged(&self, key: String, what: &str) -> StoreError {
        StoreError::Damaged { key, store: self.store.location.to_string(), what: what.to_owned() }
    }
}
