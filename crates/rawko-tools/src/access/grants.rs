//! Decides which real paths are granted, denied, or protected although granted.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use rawko_core::agent::Permissions;
use rawko_core::tool::Refusal;

use super::error::AccessError;
use super::private::PrivatePlaces;

/// Directories that decide what rawko and git run: agents are read from `.claude` too. No permission grants writing there.
pub(crate) const PROTECTED: [&str; 3] = [".claude", ".git", ".rawko"];

/// The permissions of one agent as real paths.
#[derive(Debug)]
pub(super) struct PathGrants {
    /// The real path of the project.
    root: PathBuf,
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    deny: Vec<DenyRule>,
    /// Names that are protected besides [`PROTECTED`].
    pub(super) protect: Vec<String>,
    private: PrivatePlaces,
    /// What a person approved for one call.
    approved: Vec<ApprovedPath>,
}

/// A path that a person approved. It is a real path, and is never resolved again: what takes its place is not approved.
#[derive(Debug)]
struct ApprovedPath {
    path: PathBuf,
    /// All that is in a folder, or one file.
    is_folder: bool,
    writes: bool,
}

impl ApprovedPath {
    fn covers(&self, path: &Path) -> bool {
        if self.is_folder { path.starts_with(&self.path) } else { path == self.path }
    }
}

/// Devices and the kernel's views of processes (with rawko's own environment) and of the system. No permission grants
/// them, not even `/`.
const NEVER: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Why no grant opens a path.
#[derive(Debug, Clone, Copy)]
pub(super) enum Barrier<'a> {
    /// An entry of `permissions.deny`.
    Entry(&'a str),
    /// The path is below this directory of [`NEVER`].
    Never(&'static str),
    /// The path is in this private place, which no entry names.
    Private(&'a Path),
}

#[derive(Debug)]
struct DenyRule {
    entry: String,
    /// The path as the entry spells it, and its real path.
    places: Vec<PathBuf>,
    /// Set if the entry is a pattern.
    pattern: Option<GlobMatcher>,
}

impl PathGrants {
    /// `given_root` is the path of the project as it was given, `root` its real path. `resolve` finds the real path of a
    /// path that may not exist.
    pub(super) fn new(
        permissions: &Permissions,
        given_root: &Path,
        root: &Path,
        resolve: impl Fn(&Path) -> PathBuf,
    ) -> Result<Self, AccessError> {
        let places = |list: &'static str, entries: &Option<Vec<String>>| {
            let Some(entries) = entries else { return Ok(vec![root.to_owned()]) };
            let mut places = Vec::new();
            for entry in entries {
                let spelt = usable(list, entry, root)?;
                let real = resolve(&spelt);
                let plain = lexical(&spelt);
                // An entry inside the project grants nothing outside: its author saw the path, but a link that came
                // with the project, or that an agent made, may lead anywhere.
                let is_inside = plain.starts_with(root) || plain.starts_with(given_root);
                if real.starts_with(root) || !is_inside {
                    places.push(real);
                }
            }
            Ok(places)
        };
        let deny = permissions.deny.iter().flatten().map(|entry| {
            let spelt = lexical(&usable("deny", entry, root)?);
            let pattern =
                if entry.contains(['*', '?', '[', '{']) { Some(matcher(entry, root)?) } else { None };
            Ok(DenyRule { entry: entry.clone(), places: vec![resolve(&spelt), spelt], pattern })
        });
        Ok(Self {
            root: root.to_owned(),
            read: places("read", &permissions.read)?,
            write: places("write", &permissions.write)?,
            deny: deny.collect::<Result<_, _>>()?,
            protect: permissions.protect.clone().unwrap_or_default(),
            private: PrivatePlaces::of(root, &|name| std::env::var_os(name)),
            approved: Vec::new(),
        })
    }

    /// Adds what a person approved for one call. `deny` and protected names still win.
    pub(super) fn approve(&mut self, approved: &[Refusal]) {
        let path = |path: &str, writes| ApprovedPath {
            path: PathBuf::from(path),
            is_folder: path.ends_with('/'),
            writes,
        };
        self.approved.extend(approved.iter().filter_map(|need| match need {
            Refusal::Read { path: name } => Some(path(name, false)),
            Refusal::Write { path: name } => Some(path(name, true)),
            Refusal::Command | Refusal::Host { .. } => None,
        }));
    }

    /// What denies access to `path`, if anything does.
    pub(super) fn denied(&self, path: &Path) -> Option<Barrier<'_>> {
        if let Some(place) = NEVER.iter().find(|place| path.starts_with(place)) {
            return Some(Barrier::Never(place));
        }
        let covers = |deny: &&DenyRule| {
            deny.places.iter().any(|place| path.starts_with(place))
                || deny.pattern.as_ref().is_some_and(|p| path.ancestors().any(|a| p.is_match(a)))
        };
        let entry = self.deny.iter().find(covers).map(|deny| Barrier::Entry(&deny.entry));
        entry.or_else(|| self.private.around(path, &[&self.read, &self.write]).map(Barrier::Private))
    }

    /// The denied paths that are no patterns, and whether there are patterns too.
    pub(super) fn denied_places(&self) -> (Vec<PathBuf>, bool) {
        let plain = self.deny.iter().filter(|rule| rule.pattern.is_none());
        (
            plain.flat_map(|rule| rule.places.clone()).collect(),
            self.deny.iter().any(|rule| rule.pattern.is_some()),
        )
    }

    /// Where denied files may be: the entries that are no patterns, and the folders in which a pattern begins.
    pub(super) fn places_to_search(&self) -> Vec<PathBuf> {
        let places = self.deny.iter().flat_map(|rule| match &rule.pattern {
            None => rule.places.clone(),
            Some(_) => rule.places.iter().map(|place| without_wildcards(place)).collect(),
        });
        let mut places: Vec<PathBuf> = places.collect();
        places.sort();
        places.dedup();
        // A place inside another one is found with it.
        let all = places.clone();
        places.retain(|place| !all.iter().any(|other| other != place && place.starts_with(other)));
        places
    }

    /// For each pattern, the folder that contains all its matches.
    pub(super) fn pattern_folders(&self) -> Vec<PathBuf> {
        let patterns = self.deny.iter().filter(|rule| rule.pattern.is_some());
        let folder = |rule: &DenyRule| -> PathBuf {
            if !rule.entry.starts_with('/') {
                return self.root.clone();
            }
            let parts = Path::new(&rule.entry).components();
            let has_sign = |part: &Component| {
                part.as_os_str().as_encoded_bytes().iter().any(|byte| b"*?[{\\".contains(byte))
            };
            parts.take_while(|part| !has_sign(part)).collect()
        };
        patterns.map(folder).collect()
    }

    /// Whether `path` is granted for reading, `deny` aside.
    pub(super) fn reads(&self, path: &Path) -> bool {
        let approved = |approved: &ApprovedPath| !approved.writes && approved.covers(path);
        self.read.iter().any(|grant| path.starts_with(grant)) || self.approved.iter().any(approved)
    }

    /// Whether `path` is granted for writing and not protected, `deny` aside.
    ///
    /// # Errors
    /// The protected directory that contains it.
    pub(super) fn writes(&self, path: &Path) -> Result<bool, String> {
        let approved = |approved: &ApprovedPath| approved.writes && approved.covers(path);
        if !self.write.iter().any(|grant| path.starts_with(grant)) && !self.approved.iter().any(approved) {
            return Ok(false);
        }
        // The project itself may be below a directory of such a name.
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        self.protected_name(below).map_or(Ok(true), |name| Err(name.to_owned()))
    }

    /// The first component of a path below the project that no permission grants writing.
    pub(super) fn protected_name<'a>(&self, below: &'a Path) -> Option<&'a str> {
        protected_name(below).or_else(|| {
            let mut names = below.iter().filter_map(|part| part.to_str());
            names.find(|name| self.protect.iter().any(|protected| protected.eq_ignore_ascii_case(name)))
        })
    }

    /// Whether the directory `path` is granted or contains something that is.
    pub(super) fn leads_to_readable(&self, path: &Path) -> bool {
        let leads = |grant: &Path| path.starts_with(grant) || grant.starts_with(path);
        let approved = self.approved.iter().filter(|approved| !approved.writes && approved.is_folder);
        self.read.iter().any(|grant| leads(grant))
            || approved.into_iter().any(|approved| leads(&approved.path))
    }
}

/// The first component of `path` that is a protected directory. Ignores case: on some file systems `.GIT` is `.git`.
#[must_use]
pub fn protected_name(path: &Path) -> Option<&str> {
    let names = path.iter().filter_map(|part| part.to_str());
    names.into_iter().find(|name| PROTECTED.iter().any(|p| p.eq_ignore_ascii_case(name)))
}

/// The part of a pattern before its first wildcard.
fn without_wildcards(pattern: &Path) -> PathBuf {
    let is_plain = |part: &&std::ffi::OsStr| !part.to_string_lossy().contains(['*', '?', '[', '{']);
    pattern.iter().take_while(is_plain).collect()
}

fn usable(list: &'static str, entry: &str, root: &Path) -> Result<PathBuf, AccessError> {
    let bad =
        |why: &str| AccessError::BadEntry { list, entry: entry.escape_debug().to_string(), why: why.into() };
    if entry.trim().is_empty() {
        return Err(bad("it is empty (`.` is the project)"));
    }
    if entry.contains('\0') {
        return Err(bad("it contains a NUL"));
    }
    if entry == "~" || entry.starts_with("~/") {
        return Err(bad("`~` is not expanded here, write the whole path"));
    }
    Ok(root.join(entry))
}

fn matcher(entry: &str, root: &Path) -> Result<GlobMatcher, AccessError> {
    let anchored = if entry.starts_with('/') {
        entry.to_owned()
    } else {
        format!("{}/{}", globset::escape(&root.to_string_lossy()), entry.trim_start_matches("./"))
    };
    GlobBuilder::new(&anchored).literal_separator(true).build().map(|glob| glob.compile_matcher()).map_err(
        |e| AccessError::BadEntry { list: "deny", entry: entry.to_owned(), why: e.kind().to_string() },
    )
}

/// Removes `.` and `..` from an absolute path as text, without following links.
pub(crate) fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    plain
}
