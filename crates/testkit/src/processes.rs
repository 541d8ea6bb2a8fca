//! The processes of this machine, as a test sees them from outside of any sandbox.

use std::path::Path;

/// The processes that work in a folder: their ids and command lines. A sandbox gives its processes other ids inside, so a
/// command cannot tell its own.
#[must_use]
pub fn processes_in(folder: &Path) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        // One that only waits to be collected has no folder any more.
        let is_there = std::fs::read_link(process.path().join("cwd")).is_ok_and(|place| place == folder);
        let id = process.file_name().to_string_lossy().parse();
        if let (true, Ok(id)) = (is_there, id) {
            let line = std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
            found.push((id, line.replace('\0', " ")));
        }
    }
    found
}
