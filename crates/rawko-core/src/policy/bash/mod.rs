//! What a shell command may run: the verdict on a `bashFilter` (`spec/bash-and-sandbox.md`, "The filter").
//!
//! Decided on the command taken apart as bash would take it, never on its text's first word. What is not
//! understood is refused. What a program does once it runs is not the filter's business but the sandbox's: a
//! listed interpreter or build tool may do what it likes as far as this goes.

mod builtins;
mod git;
mod judge;
mod options;
mod parser;
mod programs;
mod redirect;
mod script;
mod stream_editors;
mod words;
mod wrappers;

#[cfg(test)]
mod tests;

use regex::{Regex, RegexBuilder};

use crate::agent::BashFilter;
use crate::policy::Verdict;
use crate::text::truncate;
use script::{Redirection, Script, Simple};

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

/// The filter that holds under `permissions.run`: only what both lists name.
#[must_use]
pub fn narrowed_filter(filter: Option<&BashFilter>, run: Option<&[String]>) -> BashFilter {
    let mut filter = filter.cloned().unwrap_or_default();
    if let Some(run) = run {
        filter.allowed_commands = Some(match filter.allowed_commands.take() {
            None => run.to_vec(),
            Some(listed) => listed.into_iter().filter(|name| run.contains(name)).collect(),
        });
    }
    filter
}

/// Whether `command`, the argument of `bash -c`, may run under `filter`.
#[must_use]
pub fn bash_verdict(filter: &BashFilter, command: &str) -> Verdict {
    if filter.allowed_commands.is_none() && filter.blocked_patterns.is_empty() {
        return Verdict::allowed("tools.bashFilter (absent: all)");
    }
    let patterns: Result<Vec<Regex>, BashFilterError> =
        filter.blocked_patterns.iter().map(|p| compile(p)).collect();
    let patterns = match patterns {
        Ok(patterns) => patterns,
        Err(error) => return Verdict::denied("tools.bashFilter.blockedPatterns", error.to_string()),
    };
    if let Some(pattern) = patterns.iter().find(|p| p.is_match(command)) {
        return blocked(pattern, command);
    }
    let script = match parser::parse(command) {
        Ok(script) => script,
        Err(why) => {
            let message = format!(
                "The command was not run: it cannot be understood, and what is not understood is refused: {why}. \
                 Write it more plainly, as several calls if need be."
            );
            return Verdict::denied("tools.bashFilter", message);
        }
    };
    for text in matched_texts(&script) {
        if let Some(pattern) = patterns.iter().find(|p| p.is_match(&text)) {
            return blocked(pattern, &text);
        }
    }
    match &filter.allowed_commands {
        None => Verdict::allowed("tools.bashFilter.blockedPatterns (none matches)"),
        Some(allowed) => match judge::judge(&script, allowed) {
            Ok(()) => Verdict::allowed("tools.bashFilter.allowedCommands"),
            Err(why) => {
                Verdict::denied("tools.bashFilter.allowedCommands", format!("The command was not run: {why}"))
            }
        },
    }
}

fn is_program_name(entry: &str) -> bool {
    !entry.is_empty() && !entry.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control())
}

fn compile(pattern: &str) -> Result<Regex, BashFilterError> {
    RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build().map_err(|error| {
        BashFilterError::BadPattern { pattern: truncate(pattern, SHOWN), why: error.to_string() }
    })
}

fn blocked(pattern: &Regex, text: &str) -> Verdict {
    let message = format!(
        "The command was not run: the pattern `{}` under tools.bashFilter.blockedPatterns matches `{}`. \
         Do it another way, or ask the user to change the pattern.",
        truncate(pattern.as_str(), SHOWN),
        truncate(text, SHOWN)
    );
    Verdict::denied("tools.bashFilter.blockedPatterns", message)
}

/// What patterns are matched on besides the raw text: each command's words after quote removal, joined by one
/// blank, alone and with its redirections, and each redirection.
fn matched_texts(script: &Script) -> Vec<String> {
    let mut texts: Vec<String> = script.redirections.iter().map(redirected).collect();
    for Simple { assignments, words, redirections } in &script.commands {
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
