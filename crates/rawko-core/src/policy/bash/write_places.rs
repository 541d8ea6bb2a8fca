//! Where commands may write. The sandbox enforces it; the filter only refuses early, and says why, what would fail
//! there.

use super::denial::{Denial, Lift, PolicyResult};
use super::directory::{ProjectRoot, names};
use super::script::{ShellWord, WordKind};
use super::{BashRules, SHOWN};
use crate::policy::permissions::path_covers;
use crate::text::truncate;

/// A folder of its own for every command in the sandbox.
const SCRATCH: &str = "tmp";
/// The longest path that a file can have.
const MAX_PATH: usize = 4096;
/// Files that keep nothing.
const STREAMS: [&str; 3] = ["/dev/null", "/dev/stdout", "/dev/stderr"];
/// What decides what git and rawko run: no permission grants it.
const PROTECTED: [&str; 3] = [".claude", ".git", ".rawko"];

/// The write paths of an agent whose commands are confined.
#[derive(Debug, Default)]
pub(super) struct WritePlaces<'a> {
    granted: &'a [String],
    denied: &'a [String],
    project: Option<&'a ProjectRoot<'a>>,
    /// A relative path may start elsewhere than in the project's root.
    is_moved: bool,
    /// The command goes to a protected folder: then it writes nothing by a relative path.
    is_in_protected: bool,
}

impl<'a> WritePlaces<'a> {
    /// Nothing may be written.
    pub(super) fn none() -> Self {
        Self::default()
    }

    pub(super) fn new(rules: &BashRules<'a>, project: &'a ProjectRoot<'a>, is_moved: bool) -> Self {
        Self {
            granted: rules.writable,
            denied: rules.denied,
            project: Some(project),
            is_moved,
            is_in_protected: false,
        }
    }

    /// The same for a command that goes to a protected folder, if it does.
    pub(super) fn in_protected(self, goes_there: bool) -> Self {
        Self { is_in_protected: goes_there, ..self }
    }

    /// Whether the file that a redirection names may be written. A pattern becomes the name of what is there.
    pub(super) fn check_redirection(&self, word: &ShellWord) -> PolicyResult {
        if word.text().is_none() {
            return Err(
                "the file that a redirection writes must be spelt out, without patterns and variables."
                    .into(),
            );
        }
        self.check(word)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.granted.is_empty()
    }

    /// How deep below the folder for scratch files an absolute path leads.
    pub(super) fn scratch_depth_of(&self, path: &str) -> Option<usize> {
        let names = names(path);
        (!self.is_empty() && names.first() == Some(&SCRATCH)).then(|| names.len() - 1)
    }

    /// Whether the file that a word names may be written.
    pub(super) fn check(&self, word: &ShellWord) -> PolicyResult {
        match &word.kind {
            WordKind::Literal(path) => self.check_path(path),
            // Names of files below a path that is spelt out, as `find` and patterns give them.
            WordKind::Begins(start)
                if !start.starts_with('~')
                    && !["$", "`", ".."].iter().any(|part| word.shown.contains(part)) =>
            {
                if word.shown.split('/').any(may_be_protected) {
                    return Err("this pattern may name a protected folder (.git, .rawko, .claude).".into());
                }
                self.check_path(&start[..start.rfind('/').map_or(0, |slash| slash + 1)])
            }
            WordKind::Begins(_) | WordKind::FileNames(_) | WordKind::One | WordKind::Many => {
                Err("what is written must be spelt out.".into())
            }
        }
    }

    /// The same for a path.
    pub(super) fn check_path(&self, path: &str) -> PolicyResult {
        if self.is_empty() {
            return Err("a command may not write files here.".into());
        }
        if STREAMS.contains(&path) || self.scratch_depth_of(path).is_some_and(|depth| depth > 0) {
            return Ok(());
        }
        if self.is_in_protected && !path.starts_with('/') {
            return Err(
                "the command goes to a protected folder (.git, .rawko, .claude), and then no relative path \
                        may be written. Write in a call of its own, without that `cd`."
                    .into(),
            );
        }
        let below = if path.starts_with('/') {
            let is_outside = self.project.is_none_or(|project| project.names_below(path).is_none());
            if is_outside && self.granted.iter().any(|granted| path_covers(granted, path)) {
                return Self::check_names(&names(path));
            }
            self.project.and_then(|project| project.names_below(path))
        } else {
            below_here(path)
        };
        let Some(below) = below else {
            return Err(self.outside(path, ""));
        };
        Self::check_names(&below)?;
        let relative = below.join("/");
        if self.denied.iter().any(|denied| path_covers(denied, &relative)) {
            return Err(Denial::always("this path is denied to you: leave it alone."));
        }
        let covers = |granted: &String| {
            let granted = self.relative_grant(granted);
            let is_anywhere = path.starts_with('/') || !self.is_moved || path_covers(&granted, ".");
            is_anywhere && path_covers(&granted, &relative)
        };
        if self.granted.iter().any(covers) {
            return Ok(());
        }
        Err(self.outside(path, ", as far as its text says"))
    }

    fn outside(&self, path: &str, doubt: &str) -> Denial {
        let (shown, granted) = (truncate(path, SHOWN), self.granted.join(", "));
        Denial {
            why: format!("`{shown}` is outside of what you may write ({granted}, /tmp){doubt}. Write there."),
            lift: if path.len() <= MAX_PATH { Lift::WritePath(path.to_owned()) } else { Lift::Nothing },
        }
    }

    fn check_names(names: &[&str]) -> PolicyResult {
        match names.iter().find(|name| is_protected(name)) {
            Some(name) => Err(Denial::always(format!(
                "`{name}` is protected: writing there cannot be granted. Leave it to the user."
            ))),
            None => Ok(()),
        }
    }

    /// A granted path, relative to the project if it is in it.
    fn relative_grant(&self, granted: &str) -> String {
        match self.project.and_then(|project| project.names_below(granted)) {
            Some(names) if granted.starts_with('/') && names.is_empty() => ".".to_owned(),
            Some(names) if granted.starts_with('/') => names.join("/"),
            _ => granted.to_owned(),
        }
    }
}

/// The names of a relative path that never goes above where it starts.
fn below_here(path: &str) -> Option<Vec<&str>> {
    let mut below = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            below.pop()?;
        } else {
            below.push(part);
        }
    }
    Some(below)
}

/// Whether a part of a pattern may become the name of a protected folder. Only a dot that is spelt out matches one.
fn may_be_protected(part: &str) -> bool {
    is_protected(part) || (part.starts_with('.') && part.contains(['*', '?', '[', '{']))
}

/// Whether a path leads through a protected folder.
pub(super) fn leads_to_protected(path: &str) -> bool {
    path.split('/').any(is_protected)
}

fn is_protected(name: &str) -> bool {
    PROTECTED.iter().any(|protected| name.eq_ignore_ascii_case(protected))
}
