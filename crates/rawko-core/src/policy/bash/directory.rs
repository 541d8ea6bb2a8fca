//! Where `cd` leads, as far as its text shows (rule 11): to a directory of the project that is spelt out, or nowhere.
//!
//! Links are not seen here. bash follows `..` by the text of the path unless `-P` says otherwise, and so does this.
//! [`visited`] says which directories a command names, for a caller that can look at them.

use std::collections::BTreeSet;

use super::SHOWN;
use super::denial::PolicyResult;
use super::script::{Flow, ParsedScript, ShellWord, Simple};
use super::write_places::WritePlaces;
use crate::text::truncate;

/// Most directories that [`visited`] names.
pub(super) const MAX_VISITED: usize = 256;

/// The project's directory as text.
#[derive(Debug, Clone)]
pub(super) struct ProjectRoot<'p> {
    /// The names on the way from `/`; absent where it is not known.
    names: Option<Vec<&'p str>>,
}

impl<'p> ProjectRoot<'p> {
    /// The project at this absolute path. No path names a place in a project whose own path is not absolute.
    pub(super) fn at(path: &'p str) -> Self {
        Self { names: path.starts_with('/').then(|| names(path)) }
    }

    /// How deep below the project an absolute path leads, if it leads into it.
    fn depth_of(&self, path: &str) -> Option<usize> {
        self.names_below(path).map(|names| names.len())
    }

    /// The names that lead from the project to an absolute path in it.
    pub(super) fn names_below<'t>(&self, path: &'t str) -> Option<Vec<&'t str>> {
        let project = self.names.as_ref()?;
        let mut path = names(path);
        path.starts_with(project).then(|| path.split_off(project.len()))
    }

    /// Whether `path` leads into the project from any directory of it.
    pub(super) fn holds(&self, path: &str) -> bool {
        if path.starts_with('/') { self.depth_of(path).is_some() } else { descent(0, path).is_some() }
    }
}

/// The names of an absolute path, without `.` and `..`.
pub(super) fn names(path: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for part in parts(path) {
        if part == ".." {
            names.pop();
        } else {
            names.push(part);
        }
    }
    names
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".")
}

/// How deep a relative path leads from a directory `depth` below the project, if it never leaves it.
fn descent(depth: usize, path: &str) -> Option<usize> {
    parts(path)
        .try_fold(depth, |depth, part| if part == ".." { depth.checked_sub(1) } else { Some(depth + 1) })
}

/// Where the shell may be while it runs a script.
pub(super) struct Directory<'p> {
    project: &'p ProjectRoot<'p>,
    writable: &'p WritePlaces<'p>,
    /// How deep below the project it is, if the list of commands at hand came this far.
    depth: usize,
    /// How deep it is at least, wherever that list ended.
    floor: usize,
    /// The number of that list.
    chain: Option<usize>,
}

impl<'p> Directory<'p> {
    pub(super) fn new(project: &'p ProjectRoot<'p>, writable: &'p WritePlaces<'p>) -> Self {
        Self { project, writable, depth: 0, floor: 0, chain: None }
    }

    /// Judges a `cd` with these arguments and follows it.
    pub(super) fn change(&mut self, simple: &Simple, arguments: &[ShellWord]) -> PolicyResult {
        let Some(target) = CdTarget::read(arguments) else {
            return Err("`cd` may only go to a directory of the project that is spelt out.".into());
        };
        let flow = match simple.flow {
            Flow::Straight if !simple.is_cd() => Flow::Unsure,
            flow => flow,
        };
        if flow == Flow::Straight || matches!(flow, Flow::Chained(list) if self.chain != Some(list)) {
            self.depth = self.floor;
        }
        self.chain = if let Flow::Chained(list) = flow { Some(list) } else { None };
        let start = if flow == Flow::Unsure { 0 } else { self.depth };
        let Some(depth) = self.follow(&target, start) else {
            return Err(format!("`cd {}` may lead out of the project.", truncate(target.path, SHOWN)).into());
        };
        match flow {
            Flow::Straight => (self.depth, self.floor) = (depth, depth),
            Flow::Chained(_) => (self.depth, self.floor) = (depth, self.floor.min(depth)),
            Flow::Unsure if target.is_fixed() => {
                (self.depth, self.floor) = (self.depth.min(depth), self.floor.min(depth));
            }
            // From wherever the shell is, a relative path that stays below leads no higher.
            Flow::Unsure => {}
        }
        Ok(())
    }

    fn follow(&self, target: &CdTarget<'_>, start: usize) -> Option<usize> {
        if target.physical && parts(target.path).any(|part| part == "..") {
            return None;
        }
        let depth = if target.path.starts_with('/') {
            self.project.depth_of(target.path).or_else(|| self.writable.scratch_depth_of(target.path))?
        } else {
            descent(start, target.path)?
        };
        // A link may lead to any place of the project, and `..` then goes up from there.
        Some(if target.physical { 0 } else { depth })
    }
}

/// The target of a `cd`.
struct CdTarget<'w> {
    path: &'w str,
    /// Links are followed at once (`-P`).
    physical: bool,
}

impl<'w> CdTarget<'w> {
    /// The one directory that the arguments spell out.
    fn read(arguments: &'w [ShellWord]) -> Option<Self> {
        let mut physical = false;
        let mut rest = arguments;
        while let [option, after @ ..] = rest
            && let Some(letters) = option.text()?.strip_prefix('-')
        {
            rest = after;
            if letters == "-" {
                break;
            }
            if letters.is_empty() || !letters.chars().all(|c| "LPe".contains(c)) {
                return None;
            }
            physical = letters.chars().rfind(|c| "LP".contains(*c)).map_or(physical, |last| last == 'P');
        }
        let [only] = rest else { return None };
        let path = only.text()?;
        // `-` is where the shell came from.
        (!path.is_empty() && path != "-").then_some(Self { path, physical })
    }

    /// Whether it leads to the same place from everywhere, or to one that is not known.
    fn is_fixed(&self) -> bool {
        self.physical || self.path.starts_with('/')
    }
}

/// The one directory that the arguments of a `cd` spell out.
pub(super) fn target_of_cd(arguments: &[ShellWord]) -> Option<&str> {
    CdTarget::read(arguments).map(|target| target.path)
}

/// The arguments of `cd`, if it is one.
pub(super) fn cd_arguments(words: &[ShellWord]) -> Option<&[ShellWord]> {
    match words {
        [cd, arguments @ ..] if cd.text() == Some("cd") => Some(arguments),
        [command, cd, arguments @ ..] if command.text() == Some("command") && cd.text() == Some("cd") => {
            Some(arguments)
        }
        _ => None,
    }
}

/// The directories that a script may work in, from the project on or absolute, as they are spelt: `cd` and `git -C`.
/// `is_directory` says whether such a place is there: a `cd` that is sure to run and has somewhere to go does go there;
/// any other may fail, and the shell then stays where it is.
///
/// No more than about [`MAX_VISITED`]: where there are more, the command is refused anyway.
pub(super) fn visited(script: &ParsedScript, is_directory: &dyn Fn(&str) -> bool) -> BTreeSet<String> {
    let mut visited = BTreeSet::new();
    // Where the shell may be, and where it is within a list of commands joined by `&&`, which go on after success only.
    let mut places = BTreeSet::from([String::new()]);
    let mut chain: Option<(usize, BTreeSet<String>)> = None;
    for simple in &script.commands {
        let starts = match (simple.flow, &chain) {
            (Flow::Chained(list), Some((at, here))) if *at == list => here,
            _ => &places,
        };
        if let Some(target) = cd_arguments(&simple.words).and_then(CdTarget::read) {
            let ends: BTreeSet<String> = starts.iter().map(|start| joined(start, target.path)).collect();
            visited.extend(ends.iter().cloned());
            match simple.flow {
                Flow::Straight if simple.is_cd() => {
                    let goes = |start: &String| {
                        let end = joined(start, target.path);
                        if is_directory(&end) { end } else { start.clone() }
                    };
                    places = starts.iter().map(goes).collect();
                    chain = None;
                }
                Flow::Straight | Flow::Unsure => {
                    places.extend(ends.into_iter().filter(|end| is_directory(end)));
                }
                Flow::Chained(list) => {
                    places.extend(ends.iter().filter(|end| is_directory(end)).cloned());
                    chain = Some((list, ends));
                }
            }
        } else if simple.words.iter().any(is_git) {
            let mut ends = starts.clone();
            let named = simple.words.windows(2).filter(|pair| pair[0].text() == Some("-C"));
            for path in named.filter_map(|pair| pair[1].text()) {
                ends = ends.iter().map(|start| joined(start, path)).collect();
                visited.extend(ends.iter().cloned());
            }
        }
        if visited.len() > MAX_VISITED {
            break;
        }
    }
    visited
}

/// Whether a word is the name of git, alone or with the way to it.
fn is_git(word: &ShellWord) -> bool {
    word.text().and_then(|text| text.rsplit('/').next()) == Some("git")
}

pub(super) fn joined(start: &str, path: &str) -> String {
    if start.is_empty() || path.starts_with('/') { path.to_owned() } else { format!("{start}/{path}") }
}
