//! Walks through what git ignores and through installed packages, within a budget of files and bytes.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::super::kinds::Conventions;
use super::super::named::is_data;
use super::{Place, Stamp, Toolchain};

/// Most files that are looked at; beyond, nothing is known.
const MAX_FILES: usize = 400_000;
/// Most bytes of installed packages that are read, so that one that is installed anew is known to be the same.
const MAX_CONTENT: u64 = 64 * 1024 * 1024;
/// Where Python keeps what it compiled.
const COMPILED: &str = "__pycache__";

/// What is walked through for one record.
pub(super) struct Walk<'a> {
    place: &'a Place<'a>,
    pub(super) found: &'a mut Toolchain,
    /// Files that may still be looked at.
    budget: usize,
    /// Bytes that may still be read.
    bytes: u64,
}

impl<'a> Walk<'a> {
    /// One that puts what it finds into `found`.
    pub(super) fn new(place: &'a Place<'a>, found: &'a mut Toolchain) -> Self {
        Self { place, found, budget: MAX_FILES, bytes: MAX_CONTENT }
    }

    /// Whether there were more files than may be looked at.
    pub(super) fn is_cut(&self) -> bool {
        self.budget == 0
    }

    /// Looks at what git ignores at `path`, below the project.
    pub(super) fn entry(&mut self, path: &str) {
        if self.budget == 0 {
            return;
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let full = self.place.project.join(path);
        let Ok(kind) = full.symlink_metadata().map(|found| found.file_type()) else { return };
        if !kind.is_dir() {
            return self.file(path);
        }
        let table = Conventions::get();
        if table.is_output(name) {
            return;
        }
        if table.is_dependencies(name) {
            return self.dependencies(path, &full);
        }
        for name in entries(&full) {
            self.entry(&format!("{path}/{name}"));
        }
    }

    fn file(&mut self, path: &str) {
        let checks = self.place.checks;
        self.budget = self.budget.saturating_sub(1);
        let is_check = checks.is_config(path) || checks.is_test(path) || checks.shadows(path);
        if (is_check || self.place.named.contains(path))
            && let Some(stamp) = Stamp::of(&self.place.project.join(path))
        {
            self.found.ignored.insert(path.to_owned(), stamp);
        } else if is_data(path)
            && let Some(stamp) = Stamp::of(&self.place.project.join(path))
        {
            self.found.data.insert(path.to_owned(), stamp);
        }
    }

    /// Each package is in a folder of its own: `node_modules/a`, `node_modules/@s/a`,
    /// `.venv/lib/python3/site-packages/a`.
    fn dependencies(&mut self, path: &str, full: &Path) {
        for name in entries(full) {
            let (path, full) = (format!("{path}/{name}"), full.join(&name));
            let holds_packages = name.starts_with('@')
                || matches!(name.as_str(), "lib" | "lib64" | "site-packages" | "dist-packages")
                || name.starts_with("python3");
            if name == COMPILED || (name.starts_with('.') && !matches!(name.as_str(), ".bin" | ".pnpm")) {
                continue;
            }
            if holds_packages && full.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                self.dependencies(&path, &full);
                continue;
            }
            let mut digest = Sha256::new();
            self.digest(&full, &mut digest);
            self.found.packages.insert(path.clone(), hex::encode(digest.finalize()));
            let mut content = Sha256::new();
            if self.content(&full, &mut content) {
                self.found.contents.insert(path, hex::encode(content.finalize()));
            }
        }
    }

    /// Whether all of a package could be read.
    fn content(&mut self, path: &Path, digest: &mut Sha256) -> bool {
        let Ok(found) = path.symlink_metadata() else { return false };
        digest.update(path.as_os_str().as_encoded_bytes());
        digest.update(format!("\0{:o}\0{}\0", found.mode(), if found.is_file() { found.len() } else { 0 }));
        if found.is_dir() {
            return entries(path)
                .iter()
                .all(|name| name == COMPILED || self.content(&path.join(name), digest));
        }
        if found.is_symlink() {
            return std::fs::read_link(path)
                .map(|to| digest.update(to.as_os_str().as_encoded_bytes()))
                .is_ok();
        }
        let is_affordable = found.is_file() && found.len() <= self.bytes;
        self.bytes = self.bytes.saturating_sub(found.len());
        is_affordable && std::fs::read(path).map(|content| digest.update(content)).is_ok()
    }

    /// Adds the stamps of what is at `path`.
    pub(super) fn digest(&mut self, path: &Path, digest: &mut Sha256) {
        if self.budget == 0 {
            return;
        }
        self.budget -= 1;
        let Ok(found) = path.symlink_metadata() else { return };
        if found.is_dir() {
            for name in entries(path) {
                if name != COMPILED && name != ".cache" {
                    self.digest(&path.join(name), digest);
                }
            }
        } else if let Some(stamp) = Stamp::of(path) {
            digest.update(path.as_os_str().as_encoded_bytes());
            digest.update(format!("\0{stamp:?}\0"));
        }
    }
}

/// The names in a folder, in order.
pub(super) fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
