//! The todo list of a rebase under way. It may name commands, which `git rebase --continue` runs, also when the user
//! calls it outside the sandbox.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, renameat, unlinkat};
use rustix::io::{Errno, Result};

use crate::folder::{allowed, kind_of, open_folder};

const FOLDER: &str = "rebase-merge";
const LIST: &str = "git-rebase-todo";
/// The name of the new list until it is complete.
const NEW: &str = "rawko-todo";
/// The longest list that is read. A longer one is removed.
const LONGEST: u64 = 1024 * 1024;

/// The lines that run something, of a rebase that is under way in the folder of a repository.
pub(super) fn runs_in(folder: &OwnedFd) -> Vec<Vec<u8>> {
    let Ok(text) = open_folder(Some(folder), FOLDER.as_ref()).and_then(|folder| read(&folder)) else {
        return Vec::new();
    };
    lines(&text).filter(|line| runs(line)).map(<[u8]>::to_vec).collect()
}

/// Makes comments of the lines that run something and are not `known`.
pub(super) fn disarm(folder: &OwnedFd, known: &[Vec<u8>]) -> Result<()> {
    if kind_of(folder, FOLDER)? == FileType::Symlink {
        return allowed(folder, || unlinkat(folder, FOLDER, AtFlags::empty()));
    }
    let folder = open_folder(Some(folder), FOLDER.as_ref())?;
    let text = match read(&folder) {
        Ok(text) => text,
        Err(Errno::NOENT) => return Ok(()),
        // It is no file, or too long to be one of git's.
        Err(_) => return allowed(&folder, || unlinkat(&folder, LIST, AtFlags::empty())),
    };
    let is_new = |line: &[u8]| runs(line) && !known.iter().any(|known| known == line);
    if !lines(&text).any(is_new) {
        return Ok(());
    }
    let mut changed = Vec::with_capacity(text.len() + 64);
    for line in lines(&text) {
        if is_new(line) {
            changed.extend_from_slice(b"# ");
        }
        changed.extend_from_slice(line);
        changed.push(b'\n');
    }
    let _ = unlinkat(&folder, NEW, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let new = allowed(&folder, || openat(&folder, NEW, flags, Mode::from_raw_mode(0o644)))?;
    File::from(new).write_all(&changed).map_err(|_| Errno::IO)?;
    renameat(&folder, NEW, &folder, LIST)
}

fn read(folder: &OwnedFd) -> Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let list = allowed(folder, || openat(folder, LIST, flags, Mode::empty()))?;
    if FileType::from_raw_mode(fstat(&list)?.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    let mut text = Vec::new();
    File::from(list).take(LONGEST + 1).read_to_end(&mut text).map_err(|_| Errno::IO)?;
    if text.len() as u64 > LONGEST { Err(Errno::FBIG) } else { Ok(text) }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n')
}

/// Whether git runs what a line names: `exec COMMAND` or `x COMMAND`.
fn runs(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    [b"exec".as_slice(), b"x"].iter().any(|word| {
        line.strip_prefix(*word).is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str, expected: &str) {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join(FOLDER).join(LIST);
        fs::create_dir(dir.path().join(FOLDER)).unwrap();
        fs::write(&list, before).unwrap();
        let folder = open_folder(None, dir.path().as_os_str()).unwrap();
        let known = runs_in(&folder);
        fs::write(&list, after).unwrap();
        disarm(&folder, &known).unwrap();
        assert_eq!(fs::read_to_string(&list).unwrap(), expected);
    }

    #[test]
    fn a_command_that_was_not_in_the_list_becomes_a_comment() {
        check("pick 1 a\n", "pick 1 a\nexec touch x\n", "pick 1 a\n# exec touch x\n");
        check("", " \tx touch x\npick 1 a", "#  \tx touch x\npick 1 a\n");
        check("exec make\n", "exec make\nexec evil\n", "exec make\n# exec evil\n");
        check("", "xylophone\nexecute\n# exec a\n", "xylophone\nexecute\n# exec a\n");
    }

    #[test]
    fn a_list_behind_a_link_is_not_there_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("evil")).unwrap();
        fs::write(at("evil").join(LIST), "exec evil\n").unwrap();
        let folder = open_folder(None, dir.path().as_os_str()).unwrap();
        symlink("evil", at(FOLDER)).unwrap();
        disarm(&folder, &[]).unwrap();
        assert!(!at(FOLDER).is_symlink());
        fs::create_dir(at(FOLDER)).unwrap();
        symlink(Path::new("../evil").join(LIST), at(FOLDER).join(LIST)).unwrap();
        disarm(&folder, &[]).unwrap();
        assert!(!at(FOLDER).join(LIST).is_symlink());
        assert_eq!(fs::read_to_string(at("evil").join(LIST)).unwrap(), "exec evil\n");
    }
}
