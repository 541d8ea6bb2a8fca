//! Judges which programs a shell command may run under a `bashFilter` (`docs/sandbox.md#the-filter`).
//!
//! It judges the command as bash would parse it, never by the first word of its text, and refuses a command that it
//! does not understand. What a program does once it runs is not the filter's business but the sandbox's: a listed
//! interpreter or build tool may do what it likes as far as this goes.

mod allowlist;
mod builtins;
mod calculation;
mod compound;
mod denial;
mod directory;
mod effects;
mod find;
mod git;
mod git_remote;
mod judge;
mod options;
mod parser;
mod programs;
mod reader;
mod redirect;
mod removal;
pub(crate) mod script;
mod stream_editors;
mod tables;
mod words;
mod wrappers;
mod write_places;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};

use crate::agent::BashFilter;
use crate::policy::Permission;
use crate::text::truncate;
pub(crate) use effects::{effect_of_redirection, effect_of_words, keeps_output, writes_its_words};
pub(crate) use parser::parse as parse_script;

use allowlist::{Allowlist, ListPlace};
use denial::{Denial, Lift};
use directory::ProjectRoot;
use judge::FilterContext;
use script::{ParsedScript, Redirection, Simple};
use write_places::WritePlaces;

/// Bytes that one compiled pattern may take.
const PATTERN_BYTES: usize = 1024 * 1024;
/// Characters of a command, word or pattern in a message.
const SHOWN: usize = 120;

/// Why a filter cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BashFilterError {
    /// An entry of `allowedCommands` is no name of a program.
    #[error(
        "tools.bashFilter.allowedCommands: `{entry}` is no name of a program: give the name alone, without path, \
         arguments or blanks."
    )]
    NotAName {
        /// The entry.
        entry: String,
    },
    /// An entry of `blockedPatterns` is no regular expression.
    #[error(
        "tools.bashFilter.blockedPatterns: `{pattern}` is not a valid regular expression: {why}. Escape literal \
         ( ) [ ] {{ }} . * + ? | ^ $ with a backslash."
    )]
    BadPattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
}

/// Checks a filter when configuration is loaded.
///
/// # Errors
/// All entries that cannot be used.
pub fn validate_filter(filter: &BashFilter) -> Result<(), Vec<BashFilterError>> {
    let names = filter.allowed_commands.iter().flatten().filter(|entry| !is_program_name(entry));
    let mut errors: Vec<BashFilterError> = names
        .map(|entry| BashFilterError::NotAName { entry: truncate(&entry.escape_debug().to_string(), SHOWN) })
        .collect();
    errors.extend(filter.blocked_patterns.iter().filter_map(|pattern| compile(pattern).err()));
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Whether `command`, the argument of `bash -c`, may run under `filter` in the project whose absolute path is `project`.
#[must_use]
pub fn bash_permission(filter: &BashFilter, project: &str, command: &str) -> Permission {
    let rules = BashRules {
        agent: None,
        filter: Some(filter),
        own_run: None,
        granted_run: None,
        writable: &[],
        denied: &[],
        is_confined: false,
        project,
    };
    permission(rules, command)
}

/// The rules for the commands of an agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct BashRules<'a> {
    /// The agent's name, if it is one's.
    pub(super) agent: Option<&'a str>,
    pub(super) filter: Option<&'a BashFilter>,
    /// The agent's own `permissions.run`.
    pub(super) own_run: Option<&'a [String]>,
    /// `permissions.run` in the end.
    pub(super) granted_run: Option<&'a [String]>,
    /// Where it may write. Empty if it may not, or if this is not said.
    pub(super) writable: &'a [String],
    /// Paths that are denied to it.
    pub(super) denied: &'a [String],
    /// Whether the sandbox enforces that. Where it does not, only Write and Edit write.
    pub(super) is_confined: bool,
    /// Absolute path of the project.
    pub(super) project: &'a str,
}

/// Whether `command` may run under these rules.
pub(super) fn permission(rules: BashRules<'_>, command: &str) -> Permission {
    let filter = rules.filter;
    let listed = filter.and_then(|filter| filter.allowed_commands.as_deref());
    let lists: Vec<Allowlist<'_>> = [
        (listed, ListPlace::BashFilter),
        (rules.own_run, ListPlace::AgentRun),
        (rules.granted_run, ListPlace::GlobalRun),
    ]
    .into_iter()
    .filter_map(|(names, place)| Some(Allowlist { names: names?, place }))
    .collect();
    let blocked_patterns = filter.map(|filter| filter.blocked_patterns.as_slice()).unwrap_or_default();
    let project = ProjectRoot::at(rules.project);
    if let Some(denial) = denied_removal(&rules, &project, command) {
        return denial;
    }
    if lists.is_empty() && blocked_patterns.is_empty() {
        return Permission::allowed("tools.bashFilter (absent: all)");
    }
    // The first list decides where several do: the others only take away.
    let first = lists.first().map(|list| list.place.rule());
    if let Err(why) = parser::check_size(command) {
        return not_judged(first, &why);
    }
    let patterns: Result<Vec<Regex>, BashFilterError> = blocked_patterns.iter().map(|p| compile(p)).collect();
    let patterns = match patterns {
        Ok(patterns) => patterns,
        Err(error) => return Permission::denied("tools.bashFilter.blockedPatterns", error.to_string()),
    };
    if let Some(pattern) = patterns.iter().find(|p| p.is_match(command)) {
        return blocked(pattern, command, rules.agent);
    }
    let script = match parser::parse(command) {
        Ok(script) => script,
        Err(why) => return not_judged(first, &why),
    };
    for text in script.with_heredocs().flat_map(matched_texts) {
        if let Some(pattern) = patterns.iter().find(|p| p.is_match(&text)) {
            return blocked(pattern, &text, rules.agent);
        }
    }
    let Some(tables) = tables::tables() else {
        return not_judged(first, "the tables of programs are damaged");
    };
    let is_moved = script.with_heredocs().any(|part| part.commands.iter().any(Simple::changes_directory));
    let writable = if rules.is_confined {
        let mut commands = script.with_heredocs().flat_map(|part| &part.commands);
        let is_in_protected = commands.any(Simple::goes_to_protected);
        WritePlaces::new(&rules, &project, is_moved).in_protected(is_in_protected)
    } else {
        WritePlaces::none()
    };
    for list in &lists {
        let context = FilterContext::new(list, &project, &writable, rules.is_confined, tables);
        if let Err(Denial { why, lift }) = judge::judge(&script, context) {
            // Where the sandbox lets it write nothing, the list is not what is in the way.
            let only_reads = rules.is_confined && rules.writable.is_empty();
            let lift = if only_reads && matches!(lift, Lift::NoList) { Lift::Nothing } else { lift };
            return Permission::unlisted(list.place.rule(), format!("The command was not run: {why}"))
                .lifted_by(list.place.lifted(&lift, rules.agent));
        }
    }
    Permission::allowed(first.unwrap_or("tools.bashFilter.blockedPatterns (none matches)"))
}

/// The denial of a command that removes what is not the agent's. A command that cannot be understood is left to the others.
fn denied_removal(rules: &BashRules<'_>, project: &ProjectRoot<'_>, command: &str) -> Option<Permission> {
    if rules.writable.is_empty() {
        return None;
    }
    let script = parser::parse(command).ok()?;
    let tables = tables::tables()?;
    let places = WritePlaces::new(rules, project, true);
    let Denial { why, lift } =
        script.with_heredocs().find_map(|part| removal::refusal(part, tables, &places, rules.project))?;
    let lift = match &lift {
        Lift::WritePath(path) => Some(allowlist::write_path(path, rules.agent)),
        Lift::NoList | Lift::Program(_) | Lift::Nothing => None,
    };
    Some(Permission::denied("permissions.write", format!("The command was not run: {why}")).lifted_by(lift))
}

/// A command that cannot be judged is denied by the `list` that would have judged it, or else by the blocked patterns.
fn not_judged(list: Option<&'static str>, why: &str) -> Permission {
    let message = format!(
        "The command was not run: it cannot be understood, and what is not understood is refused: {why}. \
         Write it more plainly, as several calls if need be."
    );
    Permission::denied(list.unwrap_or("tools.bashFilter.blockedPatterns"), message)
}

/// The directories that `command` names to work in (`cd`, `git -C`), as they are spelt: from the project on, or absolute.
/// For the second wall, which can look at them: a link of the project may lead out of it. `is_directory` says whether a
/// place is there: where it is not, `cd` fails and the shell stays where it was.
///
/// # Errors
/// Where there are too many to look at, or the command cannot be understood.
pub fn named_directories(
    command: &str,
    is_directory: &dyn Fn(&str) -> bool,
) -> Result<BTreeSet<String>, String> {
    let script = parser::parse(command)?;
    let places: BTreeSet<String> =
        script.with_heredocs().flat_map(|part| directory::visited(part, is_directory)).collect();
    if places.len() > directory::MAX_VISITED {
        return Err("it goes to too many directories".into());
    }
    Ok(places)
}

fn is_program_name(entry: &str) -> bool {
    !entry.is_empty() && !entry.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control())
}

fn compile(pattern: &str) -> Result<Regex, BashFilterError> {
    RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build().map_err(|error| {
        BashFilterError::BadPattern { pattern: truncate(pattern, SHOWN), why: error.to_string() }
    })
}

fn blocked(pattern: &Regex, text: &str, agent: Option<&str>) -> Permission {
    const RULE: &str = "tools.bashFilter.blockedPatterns";
    let message = format!(
        "The command was not run: `{}` is blocked for you, by the pattern `{}`. Go on without it, or report that it is \
         needed.",
        truncate(text, SHOWN),
        truncate(pattern.as_str(), SHOWN)
    );
    let lift = format!("remove `- {}` under {RULE} {}", pattern.as_str(), allowlist::of_agent(agent));
    Permission::denied(RULE, message).lifted_by(Some(lift))
}

/// What patterns are matched on besides the raw text: each command's words after quote removal, joined by one
/// blank, alone and with its redirections, and each redirection.
fn matched_texts(script: &ParsedScript) -> Vec<String> {
    let mut texts: Vec<String> = script.redirections.iter().map(redirected).collect();
    for Simple { assignments, words, redirections, .. } in &script.commands {
        let words = words.iter().map(|w| w.shown.as_str()).collect::<Vec<_>>().join(" ");
        let assigned: Vec<&str> = assignments.iter().map(|a| a.shown.as_str()).collect();
        if !assigned.is_empty() {
            texts.push(format!("{} {words}", assigned.join(" ")));
        }
        if !redirections.is_empty() {
            let redirected: Vec<String> = redirections.iter().map(redirected).collect();
            texts.push(format!("{words} {}", redirected.join(" ")));
            texts.extend(redirected);
        }
        texts.push(words);
    }
    texts
}

fn redirected(redirection: &Redirection) -> String {
    format!("{} {}", redirection.operator, redirection.target.shown)
}
