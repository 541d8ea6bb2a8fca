//! Commands that remove files: never above or beside what the agent may write, regardless of what confines the command.
//!
//! It is no security boundary and reads no list of programs: it stops what cannot be meant, such as `rm -rf /` by an
//! agent whose Bash is not filtered.

use std::collections::BTreeSet;

use super::denial::Denial;
use super::directory::{MAX_VISITED, cd_arguments, joined, names, target_of_cd};
use super::script::{Flow, ParsedScript, ShellWord, WordKind};
use super::tables::{FilterTables, OptionRule};
use super::write_places::{WritePlaces, leads_to_protected};

/// Programs whose operands are removed.
const REMOVES: [&str; 4] = ["rm", "rmdir", "shred", "unlink"];
/// Programs that start another one, besides those that the tables say.
const STARTS: [&str; 4] = ["command", "env", "nice", "xargs"];

/// Why the removal of something in `script` is refused. `project` is where its relative paths begin.
pub(super) fn refusal(
    script: &ParsedScript,
    tables: &FilterTables,
    places: &WritePlaces<'_>,
    project: &str,
) -> Option<Denial> {
    // Where the shell may be. If the set is empty, the place is not known.
    let mut starts = BTreeSet::from([project.to_owned()]);
    script.commands.iter().find_map(|simple| {
        if let Some(arguments) = cd_arguments(&simple.words) {
            let ends =
                target_of_cd(arguments).map(|path| starts.iter().map(|start| joined(start, path)).collect());
            let mut ends: BTreeSet<String> = ends.unwrap_or_default();
            if !ends.is_empty() && simple.flow != Flow::Straight {
                ends.append(&mut starts);
            }
            starts = if ends.len() > MAX_VISITED { BTreeSet::new() } else { ends };
            return None;
        }
        if matches!(simple.words.first().and_then(ShellWord::text), Some("popd" | "pushd")) {
            starts.clear();
        }
        let (at, name) = removal(&simple.words, tables)?;
        let mut operands = simple.words[at + 1..].iter().filter(|word| word.is_operand());
        operands.find_map(|word| {
            let why = outside(word, places, project, &starts)?;
            Some(Denial { why: format!("`{name}` would remove `{}`: {}", word.shown, why.why), ..why })
        })
    })
}

/// The position of a program that removes files: the command itself, or after programs that start it.
fn removal<'w>(words: &'w [ShellWord], tables: &FilterTables) -> Option<(usize, &'w str)> {
    let name = |word: &'w ShellWord| word.text().and_then(|text| text.rsplit('/').next());
    let first = name(words.first()?)?;
    let starts = STARTS.contains(&first)
        || matches!(tables.rule(first), Some(OptionRule::Starts { .. } | OptionRule::Unread));
    let looked_at = if starts { words } else { &words[..1] };
    let found = looked_at.iter().enumerate().filter_map(|(at, word)| Some((at, name(word)?)));
    found.into_iter().find(|(_, name)| REMOVES.contains(name))
}

/// Why a path that is removed is not the agent's, if that is known.
fn outside(
    word: &ShellWord,
    places: &WritePlaces<'_>,
    project: &str,
    starts: &BTreeSet<String>,
) -> Option<Denial> {
    let path = match &word.kind {
        WordKind::Begins(start) if start.starts_with('~') => {
            return Some(Denial::always("this is in a home directory, outside of what you may write."));
        }
        // A pattern of what is there: `/*`.
        WordKind::Begins(start) if !word.shown.contains(['$', '`']) => format!("{start}x"),
        WordKind::Literal(text) => text.clone(),
        WordKind::Begins(_) | WordKind::FileNames(_) | WordKind::One | WordKind::Many => return None,
    };
    if path.starts_with('/') {
        return places.check_path(&path).err();
    }
    // A relative path is outside if it is from every place where the shell may be.
    let refused = |start: &String| {
        let path = format!("/{}", names(&joined(start, &path)).join("/"));
        let below = path.strip_prefix(project).unwrap_or(&path);
        places.check_path(&path).err().filter(|_| !leads_to_protected(below))
    };
    let refusals: Option<Vec<Denial>> = starts.iter().map(refused).collect();
    refusals?.pop()
}
