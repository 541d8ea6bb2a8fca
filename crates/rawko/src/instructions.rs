//! The project's standing instructions for agents: `AGENTS.md`, the nearest one, as the convention has it.
//!
//! They are the user's own words to agents, unlike memories, which are data. Looked for from the project's folder
//! upwards, as far as the repository reaches; the first one found counts alone.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rawko_core::text::keep_ends;

/// The file's name.
const NAME: &str = "AGENTS.md";
/// Most bytes that are told: it is in every request.
const MAX_BYTES: usize = 32 * 1024;

/// The nearest `AGENTS.md`, bounded; nothing where there is none that says anything.
pub(crate) fn standing(project: &Path) -> Option<String> {
    let project = project.canonicalize().ok()?;
    let repository = project.ancestors().find(|folder| folder.join(".git").exists());
    let reach = repository.unwrap_or(&project);
    let folders = project.ancestors().take_while(|folder| folder.starts_with(reach));
    folders.map(|folder| folder.join(NAME)).find_map(|path| read(&path, reach))
}

/// A file's text; a link that leads out of `reach` is none.
fn read(path: &Path, reach: &Path) -> Option<String> {
    let real = path.canonicalize().ok()?;
    if !real.starts_with(reach) || !real.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    // A little more than is told, so that it is seen that something was cut; never a file of any size.
    File::open(&real).ok()?.take(4 * MAX_BYTES as u64).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_start_matches('\u{feff}').trim();
    (!text.is_empty()).then(|| keep_ends(text, MAX_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_one_counts_and_none_outside_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        let repository = dir.path().join("repository");
        let inner = repository.join("crates/inner");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(dir.path().join(NAME), "outside").unwrap();
        assert_eq!(standing(&inner), None, "without a repository nothing above the project is read");
        std::fs::create_dir(repository.join(".git")).unwrap();
        assert_eq!(standing(&inner), None);
        std::fs::write(repository.join(NAME), "\u{feff}of the repository\n").unwrap();
        assert_eq!(standing(&inner).as_deref(), Some("of the repository"));
        std::fs::write(inner.join(NAME), " \n").unwrap();
        assert_eq!(standing(&inner).as_deref(), Some("of the repository"), "an empty one says nothing");
        std::fs::write(inner.join(NAME), "of the crate").unwrap();
        assert_eq!(standing(&inner).as_deref(), Some("of the crate"));
        assert_eq!(standing(&repository).as_deref(), Some("of the repository"));
    }

    #[cfg(unix)]
    #[test]
    fn what_is_long_is_cut_and_what_leads_out_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("p");
        std::fs::create_dir(&project).unwrap();
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), project.join(NAME)).unwrap();
        assert_eq!(standing(&project), None);
        std::fs::remove_file(project.join(NAME)).unwrap();
        std::fs::write(project.join(NAME), "é".repeat(1_000_000)).unwrap();
        let told = standing(&project).unwrap();
        assert!(told.len() < MAX_BYTES + 100 && told.contains("cut"), "{}", told.len());
    }
}
