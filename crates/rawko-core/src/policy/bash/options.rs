//! Reads options as `getopt_long` does, so that a rule can say which ones pass.

use serde::Deserialize;

use super::SHOWN;
use super::script::{ShellWord, WordKind};
use crate::text::truncate;

/// Passed, or why not.
pub(super) type Refused = Result<(), String>;

/// The options of a program that may be used. All others are refused, abbreviations of long ones included.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Options {
    /// Letters without a value.
    pub(super) flags: String,
    /// Letters with a value, glued or as the next word.
    pub(super) values: String,
    /// Long names without a value, or with one after `=` that is harmless.
    pub(super) long_flags: Vec<String>,
    /// Long names with a value, after `=` or as the next word.
    pub(super) long_values: Vec<String>,
    /// Options end at the first operand: what follows belongs to another program.
    pub(super) stops: bool,
}

impl Options {
    /// The operands, if all options pass.
    pub(super) fn operands<'w>(&self, words: &'w [ShellWord]) -> Result<&'w [ShellWord], String> {
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            let Some(text) = literal(word)? else {
                if self.stops {
                    return Ok(rest);
                }
                rest = after;
                continue;
            };
            if text == "--" {
                return Ok(after);
            }
            let takes_next = if let Some(long) = text.strip_prefix("--") {
                self.long(long)?
            } else if let Some(letters) = text.strip_prefix('-').filter(|l| !l.is_empty()) {
                self.letters(letters)?
            } else if self.stops {
                return Ok(rest);
            } else {
                false
            };
            rest = after;
            if takes_next {
                match rest.split_first() {
                    Some((value, after)) if value.is_one() => rest = after,
                    _ => return Err(format!("the value of `{}` must be one word.", truncate(text, SHOWN))),
                }
            }
        }
        Ok(rest)
    }

    fn long(&self, text: &str) -> Result<bool, String> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        if self.long_values.iter().any(|other| other == name) {
            return Ok(value.is_none());
        }
        if self.long_flags.iter().any(|other| other == name) {
            return Ok(false);
        }
        Err(not_granted(&format!("--{name}")))
    }

    fn letters(&self, letters: &str) -> Result<bool, String> {
        for (at, letter) in letters.char_indices() {
            if self.values.contains(letter) {
                return Ok(at + letter.len_utf8() == letters.len());
            }
            if !self.flags.contains(letter) {
                return Err(not_granted(&format!("-{letter}")));
            }
        }
        Ok(false)
    }
}

/// Refuses some options of a program and lets all others pass: for programs with many harmless ones.
pub(super) fn forbid(words: &[ShellWord], letters: &str, names: &[String]) -> Refused {
    for word in words {
        let Some(text) = literal(word)? else { continue };
        if text == "--" {
            return Ok(());
        }
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            // An unambiguous beginning of a long option is that option.
            if names.iter().any(|forbidden| forbidden.starts_with(name)) {
                return Err(not_granted(&format!("--{name}")));
            }
        } else if let Some(cluster) = text.strip_prefix('-')
            && let Some(letter) = cluster.chars().find(|c| letters.contains(*c))
        {
            return Err(not_granted(&format!("-{letter}")));
        }
    }
    Ok(())
}

/// The text of a word that may be an option; `None` for an operand whose text is not known.
pub(super) fn literal(word: &ShellWord) -> Result<Option<&str>, String> {
    match &word.kind {
        WordKind::Literal(text) => Ok(Some(text)),
        _ if word.is_operand() => Ok(None),
        _ => Err(could_be_option(word)),
    }
}

pub(super) fn not_granted(option: &str) -> String {
    format!("the option `{}` is not granted by listing the program.", truncate(option, SHOWN))
}

pub(super) fn could_be_option(word: &ShellWord) -> String {
    format!(
        "`{}` could turn into an option: put it behind `--` or begin it with `./`.",
        truncate(&word.shown, SHOWN)
    )
}
