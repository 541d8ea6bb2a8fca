//! Files of the system that only their owner may read: keys and settings of services. The kernel keeps them from a
//! user's commands, but not from those of root, who owns the files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::secrets::HAVE_PROGRAMS;
use crate::regular::is_program;

/// Where services keep their own, and how many folders deep it is looked for. `/etc` has few files, and the others hold
/// programs further down.
const LOOKED_AT: [(&str, usize); 5] = [("", 1), ("etc", 8), ("opt", 3), ("usr/local", 3), ("var/lib", 3)];
/// The most names that are looked at in one of these.
const MOST_NAMES: usize = 20_000;
/// The same in a folder that may be that of a program.
const MOST_IN_FOLDER: usize = 1_000;
/// Folders of the commands' own, or with views of the kernel.
const NOT_LOOKED_AT: [&str; 6] = ["dev", "lost+found", "proc", "run", "sys", "tmp"];
/// The bits of the group and of others.
const OTHERS: u32 = 0o077;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OwnersAlone {
    pub(super) folders: Vec<PathBuf>,
    pub(super) files: Vec<PathBuf>,
}

/// What only root may read, if that is who this is.
pub(super) fn of_root() -> OwnersAlone {
    if rustix::process::geteuid().is_root() { found(Path::new("/")) } else { OwnersAlone::default() }
}

/// What only its owner may read in the system at `root`.
fn found(root: &Path) -> OwnersAlone {
    let mut found = OwnersAlone::default();
    for (place, depth) in LOOKED_AT {
        look(&root.join(place), depth, false, &mut MOST_NAMES.clone(), &mut found);
    }
    found
}

/// `is_closed`: only its owner may enter the folder, so that the modes in it say nothing.
fn look(folder: &Path, depth: usize, is_closed: bool, names_left: &mut usize, found: &mut OwnersAlone) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if *names_left == 0 {
            return;
        }
        *names_left -= 1;
        // Of a link this is the link's own, which everybody may read.
        let Ok(metadata) = entry.metadata() else { continue };
        let is_own = is_closed || metadata.permissions().mode() & OTHERS == 0;
        let path = entry.path();
        if metadata.is_dir() {
            if NOT_LOOKED_AT.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            let name = entry.file_name();
            let is_programs = HAVE_PROGRAMS.iter().any(|known| name == *known);
            if is_own && !is_programs && !has_programs(&path) {
                found.folders.push(path);
            } else if !is_programs && (depth > 1 || is_own) {
                look(&path, depth.saturating_sub(1), is_own, names_left, found);
            }
        } else if metadata.is_file() && is_own && !is_program(&metadata) {
            found.files.push(path);
        }
    }
}

/// Whether a folder holds programs, or folders of programs: what root has installed for itself is used by its commands.
fn has_programs(folder: &Path) -> bool {
    let is_one = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => HAVE_PROGRAMS.iter().any(|known| entry.file_name() == *known),
        Ok(found) => is_program(&found),
        Err(_) => false,
    };
    fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_IN_FOLDER).any(is_one)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn files_and_folders_of_one_owner_are_found_where_services_keep_them() {
        let root = tempfile::tempdir().unwrap();
        let put = |name: &str, mode: u32| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let key = put("etc/wireguard/wg0.conf", 0o600);
        put("etc/hosts", 0o644);
        put("etc/service/readable-by-its-group", 0o640);
        let kept = put("var/lib/service/data/key", 0o600);
        put("var/lib/service/data/deep/er/key", 0o600);
        put("usr/share/own", 0o600);
        put("tmp/own", 0o600);
        for program in
            ["opt/tool/bin/run", "opt/tool/share/key", "opt/single/run", "usr/local/lib/tool/module"]
        {
            put(program, if program.ends_with("run") { 0o700 } else { 0o600 });
            let folder = root.path().join(program);
            fs::set_permissions(folder.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
        }
        fs::set_permissions(root.path().join("opt/tool"), fs::Permissions::from_mode(0o700)).unwrap();
        // Beside programs, what only their owner could reach is kept from commands file by file.
        let beside = put("opt/single/master.key", 0o644);
        let folder = put("opt/service/private/x", 0o644).parent().unwrap().to_owned();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(found(root.path()), OwnersAlone { folders: vec![folder], files: vec![key, beside, kept] });
    }
}
