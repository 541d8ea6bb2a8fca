//! The project's standing instructions for agents: `AGENTS.md`, the nearest one, as the convention has it. In a folder
//! without one, `CLAUDE.md` or `.claude/CLAUDE.md` replaces it. One that only names another file is that file. What
//! these import besides (`@file`) is not read: agents can.
//!
//! Unlike memories, they say what to do, and they come with a clone as the code does. They are text only:
//! the configuration, and the user's trust in it, decide what agents may do. The nearest file is searched for from the
//! working folder upwards, up to the root of the repository, and goes into the prompt. The others in the project are only named, for
//! agents to read before they work below their folders. All of it is recorded with the run: a resumed run does not read them again.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;

use rawko_core::text::harmless;
use rawko_tools::{open_regular, project_files, read_regular};

/// The file's name.
pub(crate) const AGENTS: &str = "AGENTS.md";
/// The file that replaces it in a folder without one.
const CLAUDE: &str = "CLAUDE.md";
/// Where a folder may have it as well.
const HIDDEN: &str = ".claude/CLAUDE.md";
/// All, by precedence.
const NAMES: [&str; 3] = [AGENTS, CLAUDE, HIDDEN];
/// Folders of what others wrote: their instructions are for those who work on that.
const OF_OTHERS: [&str; 8] = [
    "Pods",
    "bower_components",
    "dist-packages",
    "node_modules",
    "site-packages",
    "third_party",
    "vendor",
    "vendored",
];
/// How often a file may only name another one.
const MOST_POINTERS: usize = 3;
/// Most bytes that go into the prompt, because it is part of every request.
const MAX_BYTES: usize = 32 * 1024;
/// Most other files that are named.
const MAX_OTHERS: usize = 50;
/// Most entries of the project that are searched for them.
const MAX_WALKED: usize = 20_000;
/// Longest path that is named, in bytes.
const MAX_PATH: usize = 200;
/// Bytes of another file that are checked for text. A blank file is not named.
const GLANCE: u64 = 4_096;

/// What goes into the prompt.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ProjectInstructions {
    /// The nearest file's text, bounded and without control characters.
    pub(crate) text: Option<String>,
    /// Where that is, seen from the project, unless it is the project's own.
    pub(crate) from: Option<String>,
    /// The others in the project, seen from there.
    pub(crate) others: Vec<String>,
    /// Warnings for the user.
    pub(crate) problems: Vec<String>,
    /// The files that were read for the text, seen from the project.
    read: Vec<String>,
}

/// Searches from `folder` upwards. A folder outside `project` counts as the project itself.
pub(crate) fn standing(project: &Path, folder: &Path) -> ProjectInstructions {
    let mut standing = ProjectInstructions::default();
    let Ok(project) = project.canonicalize() else { return standing };
    let folder = folder.canonicalize().ok().filter(|folder| folder.starts_with(&project));
    let repository = project.ancestors().find(|folder| folder.join(".git").exists());
    let reach = repository.unwrap_or(&project);
    let nearest = folder.as_deref().unwrap_or(&project);
    let own = nearest.ancestors().take_while(|folder| folder.starts_with(reach));
    for folder in own.filter(|folder| !is_of_others(folder, &project)) {
        if NAMES.iter().any(|name| standing.take(folder, name, &project, reach)) {
            break;
        }
    }
    standing.look_for_others(&project, reach);
    standing
}

/// Whether a folder of the project holds what others wrote.
fn is_of_others(folder: &Path, project: &Path) -> bool {
    let below = folder.strip_prefix(project).unwrap_or(Path::new(""));
    below.iter().any(|name| OF_OTHERS.iter().any(|other| name == *other))
}

impl ProjectInstructions {
    /// Takes the file `name` of `folder`, if it is there and says something.
    fn take(&mut self, folder: &Path, name: &str, project: &Path, reach: &Path) -> bool {
        let shown = shown(folder, name, project);
        let file = read(&folder.join(name), reach);
        // The file that it only names, if any. A circle counts as empty.
        if let Ok(Some(file)) = &file
            && self.read.len() < MOST_POINTERS
            && let Some(named) = pointer(&file.text).filter(|named| folder.join(named).is_file())
        {
            let (path, other) = (folder.join(named), Path::new(named).file_name());
            if let (Some(folder), Some(other)) = (path.parent().and_then(|at| at.canonicalize().ok()), other)
                && folder.starts_with(reach)
            {
                self.read.push(shown);
                return self.take(&folder, &other.to_string_lossy(), project, reach);
            }
        }
        match file {
            Ok(None) => false,
            Err(why) => {
                self.problems.push(format!("{shown} is passed over: {why}"));
                false
            }
            Ok(Some(file)) => {
                self.problems.extend(file.problems.iter().map(|problem| format!("{shown} {problem}")));
                if name != AGENTS
                    && let Some(import) = first_import(&file.text)
                {
                    self.problems.push(format!(
                        "{shown} imports `{import}`: imports are not followed; agents can read the file"
                    ));
                }
                self.text = Some(file.text);
                self.read.push(shown.clone());
                self.from = (shown != AGENTS).then_some(shown);
                true
            }
        }
    }

    /// The other files below the project, those of the upper folders first.
    fn look_for_others(&mut self, project: &Path, reach: &Path) {
        // Packages of others are not the project, and neither is what is hidden.
        let enters = |name: &OsStr| {
            !OF_OTHERS.iter().any(|other| name == *other) && !name.as_encoded_bytes().starts_with(b".")
        };
        let mut found = Vec::new();
        let seen = project_files(reach, project, MAX_WALKED, enters, |path| {
            let Some(name) = NAMES.into_iter().find(|name| path.file_name() == Some(OsStr::new(name))) else {
                return;
            };
            let stands_for_none = name == CLAUDE && says_something(&path.with_file_name(AGENTS), project);
            if stands_for_none || !says_something(path, project) {
                return;
            }
            let path = path.strip_prefix(project).ok().and_then(Path::to_str);
            // A name that could pass for something else in the prompt is not worth a risk.
            match path.filter(|path| {
                path.len() <= MAX_PATH && harmless(path) == *path && !path.contains(['\n', '`'])
            }) {
                Some(path) if self.read.iter().any(|read| read == path) => {}
                Some(path) => found.push((path.matches('/').count(), path.to_owned())),
                None => self.problems.push(format!(
                    "a file {name} is passed over: its path is too long, or holds strange characters"
                )),
            }
        });
        let Ok(seen) = seen else { return };
        if !seen.complete && !found.is_empty() {
            self.problems.push(format!(
                "not every folder was looked at for {AGENTS}: the project has more than {MAX_WALKED} entries"
            ));
        }
        let partly: Vec<_> = seen.cut.iter().chain(&seen.odd).collect();
        if let Some(first) = partly.first() {
            let first =
                harmless(&first.strip_prefix(reach).unwrap_or(first).to_string_lossy()).replace('\n', " ");
            let more = match partly.len() - 1 {
                0 => String::new(),
                more => format!(", and {more} more,"),
            };
            self.problems.push(format!(
                "the ignore file {first}{more} is not applied as a whole: it is too long, or no regular file"
            ));
        }
        found.sort();
        let left_out = found.len().saturating_sub(MAX_OTHERS);
        if left_out > 0 {
            self.problems.push(format!(
                "{left_out} more {AGENTS} are not named to agents: there are more than {MAX_OTHERS}"
            ));
        }
        self.others = found.into_iter().take(MAX_OTHERS).map(|(_, path)| path).collect();
    }
}

/// The file `name` in `folder`, seen from the project.
fn shown(folder: &Path, name: &str, project: &Path) -> String {
    match folder.strip_prefix(project) {
        Ok(below) => harmless(&below.join(name).to_string_lossy()).replace(['\n', '`'], " "),
        Err(_) => {
            let up = project.strip_prefix(folder).map_or(0, |way| way.components().count());
            "../".repeat(up) + name
        }
    }
}

/// The file whose name is all that a text says: an import, a link, or a link of the file system that was written as a
/// text.
fn pointer(text: &str) -> Option<&str> {
    let line = text.trim();
    let named = match line.strip_prefix('[') {
        Some(link) => link.split_once("](")?.1.strip_suffix(')')?,
        None => line.strip_prefix('@').unwrap_or(line),
    };
    let named = named.trim_start_matches("./");
    let is_one = named.len() <= MAX_PATH
        && named.ends_with(".md")
        && !named.starts_with('/')
        && !named.contains(|c: char| c.is_whitespace() || c == '`' || c == '(');
    is_one.then_some(named)
}

/// The first import of a `CLAUDE.md`: a word like `@docs/style.md`. Other words that begin so are names of people and packages.
fn first_import(text: &str) -> Option<&str> {
    let words = text.split_whitespace().map(|word| word.trim_end_matches(['.', ',', ';', ':', ')']));
    let is_import = |word: &&str| word.len() <= MAX_PATH && word.starts_with('@') && word.ends_with(".md");
    words.into_iter().find(is_import)
}

/// A file's text, and what was done to it.
struct PromptText {
    text: String,
    problems: Vec<String>,
}

/// A file's text; nothing where there is none or it says nothing. A link that leads out of `reach` is not read.
fn read(path: &Path, reach: &Path) -> Result<Option<PromptText>, String> {
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(_) if path.symlink_metadata().is_err() => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    if !real.starts_with(reach) {
        return Err("it is a link that leads elsewhere; put the file itself there".to_owned());
    }
    if !real.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = open_regular(&real).map_err(|error| error.to_string())?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    // A little more than the limit, so that no character is cut in two; never the whole file.
    file.take(MAX_BYTES as u64 + 4).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(prompt_text(&bytes, size))
}

/// The text for the prompt of a file that begins with `bytes` and is `size` long.
fn prompt_text(bytes: &[u8], size: u64) -> Option<PromptText> {
    let mut problems = Vec::new();
    let is_whole = size <= bytes.len() as u64;
    let (text, is_text) = match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), true),
        // Only the last character is cut in two.
        Err(error) if !is_whole && error.error_len().is_none() => {
            (String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned(), true)
        }
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), false),
    };
    if !is_text {
        problems
            .push("is not UTF-8 everywhere: invalid bytes are replaced with �; save it as UTF-8".to_owned());
    }
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let clean = harmless(&text);
    // Variation selectors of emojis are removed without a warning.
    if clean != text.replace(['\u{fe0e}', '\u{fe0f}'], "") {
        problems.push(
            "holds control characters, or such that hide or reorder text: they are left out".to_owned(),
        );
    }
    let clean = clean.trim();
    if clean.is_empty() {
        return None;
    }
    let end =
        if is_whole && clean.len() <= MAX_BYTES { clean.len() } else { clean.floor_char_boundary(MAX_BYTES) };
    let mut text = clean[..end].to_owned();
    if end < clean.len() || !is_whole {
        text.push_str("\n[... cut here: the file is longer than the limit ...]");
        problems.push(format!(
            "is {size} bytes long, and only the first {MAX_BYTES} reach the agents: make it shorter, or move parts into the folders they are about"
        ));
    }
    Some(PromptText { text, problems })
}

/// Whether it is a file in the project that holds more than blanks.
fn says_something(path: &Path, project: &Path) -> bool {
    let is_inside = path.canonicalize().is_ok_and(|real| real.starts_with(project) && real.is_file());
    let bytes = if is_inside { read_regular(path, GLANCE).unwrap_or_default() } else { Vec::new() };
    bytes.iter().any(|byte| !byte.is_ascii_whitespace())
}

#[cfg(test)]
#[path = "instructions_tests.rs"]
mod tests;
