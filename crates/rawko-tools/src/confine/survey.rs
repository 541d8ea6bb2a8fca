//! The contents of a project that every command's view depends on: nested repositories, protected folders, build
//! folders, sockets of programs outside.
//!
//! A walk of the whole project for each command would cost more than the sandbox itself. So a survey lasts for a while:
//! what appears meanwhile was made by a command of this run, and no git that rawko starts takes it for a repository. Where
//! files are to be hidden by patterns, a survey lasts until a folder changes. Folders outside of the project that are
//! granted are surveyed like the project. Folders that tools fill are looked into once, before the first command.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::{git, sockets};
use crate::access::{PROTECTED, protected_name};

/// How long a survey lasts.
const LASTS: Duration = Duration::from_secs(5);
/// A folder that changed so shortly before it was read may have changed again without a new time.
const TICK: Duration = Duration::from_millis(50);
/// The most entries of a folder that are looked at.
pub(super) const MAX_ENTRIES: usize = 200_000;
/// The same when a folder is looked at for the first time: what is there then is the user's, and stays known.
pub(super) const MAX_FIRST: usize = 1_000_000;
/// Folders with installed packages: large, and nothing in them is edited by hand.
const PACKAGES: [&str; 3] = ["node_modules", ".venv", "venv"];
/// Folders that build tools write.
const BUILDS: [&str; 16] = [
    ".gradle",
    ".mypy_cache",
    ".next",
    ".nuxt",
    ".nyc_output",
    ".pytest_cache",
    ".ruff_cache",
    ".tox",
    ".turbo",
    ".vite",
    "__pycache__",
    "build",
    "coverage",
    "dist",
    "out",
    "target",
];

/// A folder that is to be surveyed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SurveyTarget {
    pub(super) folder: PathBuf,
    /// Whether all of its files are listed, and no folder left out.
    pub(super) is_thorough: bool,
    /// Names that are protected besides those that always are.
    pub(super) protect: Vec<String>,
}

impl SurveyTarget {
    /// Whether a path is protected here, as far as its name says.
    fn covers(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| self.is_protected(name))
    }

    fn is_protected(&self, name: &OsStr) -> bool {
        let is_named = |name: &str| self.protect.iter().any(|named| named.eq_ignore_ascii_case(name));
        protected_name(Path::new(name)).is_some() || name.to_str().is_some_and(is_named)
    }
}

/// Whether a folder of this name holds installed packages, or what build tools made.
pub(super) fn is_filled_by_tools(name: &OsStr) -> bool {
    PACKAGES.iter().chain(&BUILDS).any(|known| name == *known)
}

/// The result of a walk.
#[derive(Debug, Clone, Default)]
pub(super) struct Survey {
    taken: Option<Instant>,
    /// The project first.
    wanted: Vec<SurveyTarget>,
    /// Names that no permission grants: `.rawko`, `.claude`, `.git`, and those of `permissions.protect`.
    pub(super) protected: BTreeSet<PathBuf>,
    /// Folders that look like a bare repository.
    pub(super) bare: BTreeSet<PathBuf>,
    /// Unix sockets.
    pub(super) sockets: sockets::SocketFiles,
    /// Folders of the project that build tools write.
    pub(super) builds: Vec<PathBuf>,
    /// Everything, where patterns of `deny` are to be looked for.
    pub(super) files: Vec<PathBuf>,
    /// The folders that were read and when they had changed, in a thorough survey.
    folders: Vec<(PathBuf, SystemTime)>,
    /// Whether there were more files than are listed.
    pub(super) is_cut: bool,
    /// The folders that were surveyed before in this run, with the names that were looked for there.
    seen: BTreeSet<(PathBuf, Vec<String>)>,
    /// All that was found in this run and was protected for some agent.
    known: BTreeSet<PathBuf>,
    /// Those of them that held more than is looked at the first time.
    blind: BTreeSet<PathBuf>,
}

impl Survey {
    /// The last survey, or a new one if that is too old. The project is the first of the folders. What an earlier survey
    /// found stays known: a command must not hide it by making more files than are looked at.
    pub(super) fn renewed(last: &mut Option<Arc<Self>>, wanted: &[SurveyTarget]) -> Arc<Self> {
        let fresh = last.as_ref().filter(|survey| {
            survey.wanted == wanted
                && survey.folders.iter().all(|(folder, when)| changed(folder) == Some(*when))
                && (wanted.iter().all(|wanted| wanted.is_thorough)
                    || survey.taken.is_some_and(|taken| taken.elapsed() < LASTS))
        });
        match fresh {
            Some(survey) => Arc::clone(survey),
            None => {
                let survey = Self::of(wanted, last.as_deref(), MAX_FIRST);
                Arc::clone(last.insert(Arc::new(survey)))
            }
        }
    }

    /// Whether a folder held more than is looked at, so that something in it may be unprotected.
    pub(super) fn is_blind(&self, is_concerned: impl Fn(&Path) -> bool) -> bool {
        self.blind.iter().any(|folder| is_concerned(folder))
    }

    /// `most_first`: the most entries of a folder that is looked at for the first time.
    fn of(wanted: &[SurveyTarget], last: Option<&Self>, most_first: usize) -> Self {
        let mut survey = Self { wanted: wanted.to_owned(), ..Self::default() };
        if let Some(last) = last {
            let is_there = |path: &&PathBuf| path.symlink_metadata().is_ok();
            survey.known.extend(last.known.iter().filter(is_there).cloned());
            // Each agent may have names of its own that are protected.
            let is_protected = |path: &&PathBuf| wanted.iter().any(|wanted| wanted.covers(path));
            survey.protected.extend(survey.known.iter().filter(is_protected).cloned());
            survey.bare.extend(last.bare.iter().filter(is_there).cloned());
            survey.sockets = last.sockets.kept();
            survey.seen.clone_from(&last.seen);
            survey.blind.clone_from(&last.blind);
        }
        for (index, wanted) in wanted.iter().enumerate() {
            // Whatever else there is: these are at the top.
            let names = PROTECTED.into_iter().chain(wanted.protect.iter().map(String::as_str));
            let top = names.map(|name| wanted.folder.join(name));
            survey.protected.extend(top.filter(|path| path.symlink_metadata().is_ok()));
            survey.walk(wanted, index == 0, most_first);
        }
        survey.known.extend(survey.protected.iter().cloned());
        survey.taken = Some(Instant::now());
        survey
    }

    /// Walks a folder, level by level, and folders that tools fill last.
    fn walk(&mut self, wanted: &SurveyTarget, is_project: bool, most_first: usize) {
        let names = (wanted.folder.clone(), wanted.protect.clone());
        let is_first = !self.seen.contains(&names);
        let is_whole = wanted.is_thorough || is_first;
        let mut left = if is_first && !wanted.is_thorough { most_first } else { MAX_ENTRIES };
        let (mut queue, mut made) = (VecDeque::from([wanted.folder.clone()]), VecDeque::new());
        let mut is_made = false;
        loop {
            let Some(folder) = queue.pop_front() else {
                if made.is_empty() {
                    break;
                }
                queue = std::mem::take(&mut made);
                is_made = true;
                // They have a number of their own, so that they do not take the place of what people write.
                left = if wanted.is_thorough { left } else { MAX_ENTRIES };
                continue;
            };
            if wanted.is_thorough {
                self.watch(&folder);
            }
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) => {
                    // A folder so deep that its path is too long is not listed.
                    self.is_cut |= wanted.is_thorough && error.kind() == ErrorKind::InvalidFilename;
                    continue;
                }
            };
            // The project itself cannot be kept whole.
            if (folder != wanted.folder || !is_project) && git::looks_bare(&folder) {
                self.bare.insert(folder);
                if !wanted.is_thorough {
                    continue;
                }
            }
            for entry in entries.filter_map(Result::ok) {
                if left == 0 {
                    self.is_cut |= wanted.is_thorough;
                    if is_first && !is_made && !wanted.is_thorough {
                        self.blind.insert(wanted.folder.clone());
                    }
                    queue.clear();
                    break;
                }
                left -= 1;
                let (path, name) = (entry.path(), entry.file_name());
                let Ok(kind) = entry.file_type() else { continue };
                if wanted.is_thorough {
                    self.files.push(path.clone());
                }
                if kind.is_socket() {
                    let file = sockets::file_of(&path);
                    self.sockets.files.extend(file.map(|file| (path, file)));
                } else if wanted.is_protected(&name) {
                    self.protected.insert(path);
                } else if kind.is_dir() {
                    let is = |names: &[&str]| names.iter().any(|n| name == *n);
                    let is_build = is(&BUILDS);
                    if is_build && !is_made && is_project {
                        self.builds.push(path.clone());
                    }
                    if is_made || !(is_build || is(&PACKAGES)) {
                        queue.push_back(path);
                    } else if is_whole {
                        made.push_back(path);
                    } else if git::looks_bare(&path) {
                        self.bare.insert(path);
                    }
                }
            }
        }
        if is_first {
            self.sockets.look(&wanted.folder);
        }
        if !(wanted.is_thorough && self.is_cut) {
            self.seen.insert(names);
        }
    }

    /// Notes when a folder had changed.
    fn watch(&mut self, folder: &Path) {
        let settled = |when: &SystemTime| when.elapsed().is_ok_and(|since| since > TICK);
        let when = changed(folder).filter(settled).unwrap_or(SystemTime::UNIX_EPOCH);
        self.folders.push((folder.to_owned(), when));
    }
}

/// When something was last added to a folder or taken away: by the clock of the kernel, which no command can set back.
fn changed(folder: &Path) -> Option<SystemTime> {
    let folder = fs::symlink_metadata(folder).ok()?;
    let (seconds, rest) = (u64::try_from(folder.ctime()).ok()?, u32::try_from(folder.ctime_nsec()).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Option<&Survey> = None;

    fn wanted(folder: &Path, is_thorough: bool) -> SurveyTarget {
        SurveyTarget { folder: folder.to_owned(), is_thorough, protect: Vec::new() }
    }

    /// What is protected below a folder that holds these folders.
    #[track_caller]
    fn check(made: &[&str], protected: &[&str], bare: &[&str]) {
        let root = tempfile::tempdir().unwrap();
        for path in made {
            fs::create_dir_all(root.path().join(path)).unwrap();
            if path.ends_with("objects") {
                let repository = root.path().join(path.trim_end_matches("objects"));
                fs::create_dir(repository.join("refs")).unwrap();
                fs::write(repository.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            }
        }
        let survey = Survey::of(&[wanted(root.path(), false)], NOTHING, MAX_FIRST);
        let all = |paths: &[&str]| paths.iter().map(|path| root.path().join(path)).collect::<BTreeSet<_>>();
        assert_eq!(survey.protected, all(protected));
        assert_eq!(survey.bare, all(bare));
        assert!(!survey.is_blind(|_| true));
    }

    #[test]
    fn protected_names_are_found_however_deep_and_in_build_folders() {
        let deep = "d/".repeat(40);
        check(&["src", ".git", "sub/.claude"], &[".git", "sub/.claude"], &[]);
        check(&[&format!("{deep}.git")], &[&format!("{deep}.git")], &[]);
        check(&["dist/.git", "out/x/.rawko"], &["dist/.git", "out/x/.rawko"], &[]);
        check(&["node_modules/@a/b/.git"], &["node_modules/@a/b/.git"], &[]);
        check(&["vendor/b.git/objects", "target/c/objects"], &[], &["target/c", "vendor/b.git"]);
    }

    #[test]
    fn names_that_one_agent_protects_hold_for_no_other() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["data", "deep/data", "deep/.git", "build/data"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let none = wanted(root.path(), false);
        let data = SurveyTarget { protect: vec!["data".to_owned()], ..none.clone() };
        let data = [data];
        let all = BTreeSet::from(
            ["build/data", "data", "deep/.git", "deep/data"].map(|path| root.path().join(path)),
        );
        let of_none = BTreeSet::from([root.path().join("deep/.git")]);
        // In either order.
        let first = Survey::of(&data, NOTHING, MAX_FIRST);
        assert_eq!(first.protected, all);
        let none = [none];
        let second = Survey::of(&none, Some(&first), MAX_FIRST);
        assert_eq!(second.protected, of_none);
        assert_eq!(Survey::of(&data, Some(&second), MAX_FIRST).protected, all);
        let first = Survey::of(&none, NOTHING, MAX_FIRST);
        assert_eq!(
            (&first.protected, &Survey::of(&data, Some(&first), MAX_FIRST).protected),
            (&of_none, &all)
        );
    }

    #[test]
    fn what_an_earlier_survey_found_stays_known() {
        let root = tempfile::tempdir().unwrap();
        let (kept, gone) = (root.path().join("node_modules/a/.git"), root.path().join("b/.claude"));
        fs::create_dir_all(&kept).unwrap();
        fs::create_dir_all(&gone).unwrap();
        let wanted = [wanted(root.path(), false)];
        let first = Survey::of(&wanted, NOTHING, MAX_FIRST);
        fs::remove_dir(&gone).unwrap();
        // It does not look into folders of packages again.
        fs::create_dir_all(root.path().join("node_modules/new/.git")).unwrap();
        let second = Survey::of(&wanted, Some(&first), MAX_FIRST);
        assert_eq!(second.protected, BTreeSet::from([kept]));
    }

    #[test]
    fn a_folder_with_too_many_files_is_said_to_be_so() {
        let root = tempfile::tempdir().unwrap();
        (0..20).for_each(|number| fs::write(root.path().join(number.to_string()), "").unwrap());
        let wanted = [wanted(root.path(), false)];
        assert!(!Survey::of(&wanted, NOTHING, 20).is_blind(|_| true));
        let blind = Survey::of(&wanted, NOTHING, 19);
        assert!(blind.is_blind(|folder| folder == root.path()) && !blind.is_blind(|_| false));
        // Places that were not seen at first may have changed since.
        assert!(Survey::of(&wanted, Some(&blind), 20).is_blind(|_| true));
    }

    #[test]
    fn a_thorough_survey_lists_what_lies_in_other_folders_too() {
        let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(other.path().join("a.pem"), "").unwrap();
        fs::create_dir(other.path().join(".git")).unwrap();
        let survey =
            Survey::of(&[wanted(root.path(), false), wanted(other.path(), true)], NOTHING, MAX_FIRST);
        assert!(survey.files.contains(&other.path().join("a.pem")));
        assert_eq!(survey.protected, BTreeSet::from([other.path().join(".git")]));
    }
}
