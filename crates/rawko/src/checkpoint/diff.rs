//! Compares two kept trees, or a kept tree with the folder as it is.

use serde::Serialize;

use super::error::CheckpointError;
use super::git::THOROUGH;
use super::objects::Objects;
use super::scratch::Scratch;

/// Files whose contents are in memory at once.
const CHECKED: usize = 20;

/// Which part of a session is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffRange {
    /// All of it: from its first change to its end.
    Session,
    /// One execution: from before it to before the next one that changed something.
    Execution(u32),
}

/// How much of the differences is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffDetail {
    /// The files, with the number of lines added and removed.
    Files,
    /// The same, and a patch to read, which only names binary files.
    Lines,
    /// The same, with the bytes of binary files: what `git apply` needs.
    Bytes,
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileChange {
    /// The file, relative to the project.
    pub path: String,
    /// Where it was before, if it was moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What happened to it.
    pub kind: ChangeKind,
    /// Lines that are new; nothing for a file that is no text.
    pub added: Option<u64>,
    /// Lines that are gone.
    pub removed: Option<u64>,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The file is new.
    Added,
    /// The file was removed.
    Deleted,
    /// Its content or mode changed.
    Modified,
    /// It was renamed.
    Renamed,
    /// It became a link, or stopped being one.
    Retyped,
}

/// The files that differ from tree `from` to tree `to`. `scratch` holds what was only written for this question.
pub(super) fn files(
    objects: &Objects<'_>,
    scratch: &Scratch,
    from: &str,
    to: &str,
) -> Result<Vec<FileChange>, CheckpointError> {
    let args =
        ["diff-tree", "-r", "-z", "-M", "--raw", "--numstat", "--no-ext-diff", "--no-textconv", from, to];
    let answer = objects.read(scratch, "compares").args(args).within_time(THOROUGH).answer()?;
    Ok(parse(&answer))
}

/// The differences as a patch, of files that are what was kept.
pub(super) fn patch(
    objects: &Objects<'_>,
    scratch: &Scratch,
    from: &str,
    to: &str,
    detail: DiffDetail,
) -> Result<Vec<u8>, CheckpointError> {
    let differ = objects.read(scratch, "compares").args(["diff-tree", "-r", "-z", "--raw", from, to]);
    let differ = differ.answer()?;
    for some in contents_of(&differ).chunks(CHECKED) {
        objects.contents_in(scratch, some)?;
    }
    let form = if detail == DiffDetail::Bytes { "--binary" } else { "-p" };
    let args = ["diff-tree", "-r", form, "-M", "--no-color", "--no-ext-diff", "--no-textconv", from, to];
    objects.read(scratch, "compares").args(args).within_time(THOROUGH).answer()
}

/// The objects that differ, as `--raw -z` names them.
fn contents_of(answer: &[u8]) -> Vec<&str> {
    let records = answer.split(|byte| *byte == 0).filter_map(|field| field.strip_prefix(b":"));
    let words = records.filter_map(|record| std::str::from_utf8(record).ok());
    let ids = words.flat_map(|words| {
        let words: Vec<&str> = words.split(' ').collect();
        match words.as_slice() {
            [_, _, before, after, ..] => vec![*before, *after],
            _ => Vec::new(),
        }
    });
    ids.filter(|id| id.bytes().any(|byte| byte != b'0')).collect()
}

/// Reads `--raw --numstat -z`: first a record of every file's kind, then one of its lines.
fn parse(answer: &[u8]) -> Vec<FileChange> {
    let mut fields = answer.split(|byte| *byte == 0);
    let mut changes: Vec<FileChange> = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut lines = 0;
    while let Some(field) = fields.next().filter(|field| !field.is_empty()) {
        if field.starts_with(b":") {
            let status = field.rsplit(|byte| *byte == b' ').next().and_then(|status| status.first());
            let kind = match status {
                Some(b'A') => ChangeKind::Added,
                Some(b'D') => ChangeKind::Deleted,
                Some(b'R') => ChangeKind::Renamed,
                Some(b'T') => ChangeKind::Retyped,
                _ => ChangeKind::Modified,
            };
            let Some(path) = fields.next() else { break };
            let moved = if kind == ChangeKind::Renamed { fields.next() } else { None };
            let from = moved.map(|_| text(path));
            changes.push(FileChange {
                path: text(moved.unwrap_or(path)),
                from,
                kind,
                added: None,
                removed: None,
            });
            continue;
        }
        let mut columns = field.splitn(3, |byte| *byte == b'\t');
        let mut number = || {
            columns.next().and_then(|column| std::str::from_utf8(column).ok()).and_then(|n| n.parse().ok())
        };
        let (added, removed) = (number(), number());
        if columns.next().is_none_or(<[u8]>::is_empty) {
            // A moved file: its two names follow.
            let _ = (fields.next(), fields.next());
        }
        if let Some(change) = changes.get_mut(lines) {
            (change.added, change.removed) = (added, removed);
        }
        lines += 1;
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_writes_is_read() {
        let raw = b":100644 100644 aaa bbb M\0a b\0:000000 100644 000 bbb A\0new\xff\0:100644 100644 a b R090\0old\0moved\0\
                    :100644 000000 a 0 D\0gone.bin\0:100644 120000 a b T\0link\0\
                    3\t1\ta b\0-\t-\tnew\xff\x002\t0\t\0old\0moved\0-\t-\tgone.bin\x001\t1\tlink\0";
        let changes = parse(raw);
        let parsed: Vec<_> = changes
            .iter()
            .map(|change| (change.path.as_str(), change.kind, change.added, change.removed))
            .collect();
        assert_eq!(
            parsed,
            [
                ("a b", ChangeKind::Modified, Some(3), Some(1)),
                ("new\u{fffd}", ChangeKind::Added, None, None),
                ("moved", ChangeKind::Renamed, Some(2), Some(0)),
                ("gone.bin", ChangeKind::Deleted, None, None),
                ("link", ChangeKind::Retyped, Some(1), Some(1)),
            ]
        );
        assert_eq!(changes[2].from.as_deref(), Some("old"));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }
    }
}
