//! Commands that remove files: never above or beside what the agent may write, whoever holds the wall.
//!
//! No wall itself, and it reads no list of programs: it stops what cannot be meant, such as `rm -rf /` by an agent whose
//! Bash is not filtered.

use super::script::{ParsedScript, ShellWord, WordKind};
use super::tables::{FilterTables, OptionRule};
use super::write_places::WritePlaces;

/// Programs whose operands are removed.
const REMOVES: [&str; 4] = ["rm", "rmdir", "shred", "unlink"];
/// Programs that start another one, besides those that the tables say.
const STARTS: [&str; 4] = ["command", "env", "nice", "xargs"];

/// Why the removal of something in `script` is refused.
pub(super) fn refusal(
    script: &ParsedScript,
    tables: &FilterTables,
    places: &WritePlaces<'_>,
) -> Option<String> {
    script.commands.iter().find_map(|simple| {
        let (at, name) = removal(&simple.words, tables)?;
        let mut operands = simple.words[at + 1..].iter().filter(|word| word.is_operand());
        operands.find_map(|word| {
            let why = outside(word, places)?;
            Some(format!("`{name}` would remove `{}`: {why}", word.shown))
        })
    })
}

/// Where a program that removes files stands, as the command itself or behind programs that start it.
fn removal<'w>(words: &'w [ShellWord], tables: &FilterTables) -> Option<(usize, &'w str)> {
    let name = |word: &'w ShellWord| word.text().and_then(|text| text.rsplit('/').next());
    let first = name(words.first()?)?;
    let starts = STARTS.contains(&first)
        || matches!(tables.rule(first), Some(OptionRule::Starts { .. } | OptionRule::Unread));
    let looked_at = if starts { words } else { &words[..1] };
    let found = looked_at.iter().enumerate().filter_map(|(at, word)| Some((at, name(word)?)));
    found.into_iter().find(|(_, name)| REMOVES.contains(name))
}

/// Why a path that is removed is not the agent's, if that can be told.
fn outside(word: &ShellWord, places: &WritePlaces<'_>) -> Option<String> {
    let path = match &word.kind {
        WordKind::Begins(start) if start.starts_with('~') => {
            return Some("this is in a home directory, outside of the write paths.".to_owned());
        }
        // A pattern of what is there: `/*`.
        WordKind::Begins(start) if !word.shown.contains(['$', '`']) => format!("{start}x"),
        WordKind::Literal(text) => text.clone(),
        WordKind::Begins(_) | WordKind::FileNames(_) | WordKind::One | WordKind::Many => return None,
    };
    // A relative path may start anywhere.
    if path.starts_with('/') { places.check_path(&path).err() } else { None }
}
