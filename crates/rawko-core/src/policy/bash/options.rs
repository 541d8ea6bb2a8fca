//! Reads options as `getopt_long` does, so that a rule can say which ones pass.

use serde::Deserialize;

use super::SHOWN;
use super::denial::{Denial, PolicyResult};
use super::script::{ShellWord, WordKind};
use super::write_places::WritePlaces;
use crate::text::truncate;

/// The options of a program that may be used. All others are refused, abbreviations of long ones included.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ProgramOptions {
    /// Letters without a value.
    pub(super) flags: String,
    /// Letters with a value, glued or as the next word.
    pub(super) values: String,
    /// Long names without a value, or with one after `=` that is harmless.
    pub(super) long_flags: Vec<String>,
    /// Long names with a value, after `=` or as the next word.
    pub(super) long_values: Vec<String>,
    /// Letters and long names whose value is a file that is written. They pass where that file may be written.
    pub(super) writes: String,
    pub(super) long_writes: Vec<String>,
    /// Options end at the first operand: what follows belongs to another program.
    pub(super) stops: bool,
}

/// What an option takes.
enum Takes<'t> {
    Nothing,
    /// The next word is its value.
    Value,
    /// A file that is written: this one, or the next word.
    File(Option<&'t str>),
}

impl ProgramOptions {
    /// The operands, if all options pass.
    pub(super) fn operands<'w>(
        &self,
        words: &'w [ShellWord],
        writable: &WritePlaces<'_>,
    ) -> Result<&'w [ShellWord], Denial> {
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
            let takes = if let Some(long) = text.strip_prefix("--") {
                self.long(long, writable)?
            } else if let Some(letters) = text.strip_prefix('-').filter(|l| !l.is_empty()) {
                self.letters(letters, writable)?
            } else if self.stops {
                return Ok(rest);
            } else {
                Takes::Nothing
            };
            rest = match takes {
                Takes::Nothing => after,
                Takes::File(Some(path)) => {
                    writable.check_path(path)?;
                    after
                }
                Takes::File(None) => written_value(text, after, writable)?,
                Takes::Value => match after.split_first() {
                    Some((value, after)) if value.is_one() => after,
                    _ => {
                        return Err(
                            format!("the value of `{}` must be one word.", truncate(text, SHOWN)).into()
                        );
                    }
                },
            };
        }
        Ok(rest)
    }

    fn long<'t>(&self, text: &'t str, writable: &WritePlaces<'_>) -> Result<Takes<'t>, Denial> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let is_in = |names: &[String]| names.iter().any(|other| other == name);
        if is_in(&self.long_values) {
            return Ok(if value.is_none() { Takes::Value } else { Takes::Nothing });
        }
        if is_in(&self.long_flags) {
            return Ok(Takes::Nothing);
        }
        if is_in(&self.long_writes) && !writable.is_empty() {
            return Ok(Takes::File(value));
        }
        Err(not_granted(&format!("--{name}")))
    }

    fn letters<'t>(&self, letters: &'t str, writable: &WritePlaces<'_>) -> Result<Takes<'t>, Denial> {
        for (at, letter) in letters.char_indices() {
            let glued = &letters[at + letter.len_utf8()..];
            if self.values.contains(letter) {
                return Ok(if glued.is_empty() { Takes::Value } else { Takes::Nothing });
            }
            if self.writes.contains(letter) && !writable.is_empty() {
                return Ok(Takes::File(Some(glued).filter(|glued| !glued.is_empty())));
            }
            if !self.flags.contains(letter) {
                return Err(not_granted(&format!("-{letter}")));
            }
        }
        Ok(Takes::Nothing)
    }
}

/// What follows the next word, which is a file that `option` writes.
fn written_value<'w>(
    option: &str,
    after: &'w [ShellWord],
    writable: &WritePlaces<'_>,
) -> Result<&'w [ShellWord], Denial> {
    let Some((value, after)) = after.split_first() else {
        return Err(format!("the value of `{}` is missing.", truncate(option, SHOWN)).into());
    };
    writable.check(value)?;
    Ok(after)
}

/// Options of a program that are refused; all others pass.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct RefusedOptions {
    letters: String,
    long: Vec<String>,
    /// These write the file that is their value. They pass where it may be written, and where it is no file at all.
    writes: String,
    long_writes: Vec<String>,
    /// These write files where the command runs, under names that they find themselves.
    writes_here: String,
    long_writes_here: Vec<String>,
    /// Letters with a harmless value: what is glued to them is no letter.
    values: String,
    /// Long names that pass although a refused one begins with them.
    passes: Vec<String>,
    /// Parts of any word by which it writes or starts something.
    texts: Vec<String>,
    /// `-name` is a long option too.
    one_dash: bool,
}

impl RefusedOptions {
    /// Refuses some options of a program and lets all others pass: for programs with many harmless ones.
    pub(super) fn judge(&self, words: &[ShellWord], writable: &WritePlaces<'_>) -> PolicyResult {
        if let Some(text) = self.texts.iter().find(|text| words.iter().any(|word| word.shown.contains(*text)))
        {
            return Err(not_granted(text));
        }
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            let Some(text) = literal(word)? else { continue };
            if text == "--" {
                return Ok(());
            }
            let next = after.first();
            if let Some(long) = text.strip_prefix("--") {
                self.long(long, next, writable)?;
            } else if let Some(cluster) = text.strip_prefix('-') {
                if self.one_dash && self.long.iter().any(|refused| refused == cluster) {
                    return Err(not_granted(text));
                }
                self.letters(cluster, next, writable)?;
            }
        }
        Ok(())
    }

    fn long(&self, text: &str, next: Option<&ShellWord>, writable: &WritePlaces<'_>) -> PolicyResult {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        // An unambiguous beginning of a long option is that option.
        let could_be = |names: &[String]| names.iter().any(|refused| refused.starts_with(name));
        let shown = || format!("--{name}");
        if self.passes.iter().any(|passes| passes == name) {
            return Ok(());
        }
        if could_be(&self.long) || (could_be(&self.long_writes_here) && writable.is_empty()) {
            return Err(not_granted(&shown()));
        }
        if could_be(&self.long_writes) {
            return check_written(&shown(), value.or_else(|| next.and_then(ShellWord::text)), writable);
        }
        Ok(())
    }

    fn letters(&self, cluster: &str, next: Option<&ShellWord>, writable: &WritePlaces<'_>) -> PolicyResult {
        for (at, letter) in cluster.char_indices() {
            let glued = Some(&cluster[at + letter.len_utf8()..]).filter(|glued| !glued.is_empty());
            if self.letters.contains(letter) || (self.writes_here.contains(letter) && writable.is_empty()) {
                return Err(not_granted(&format!("-{letter}")));
            }
            if self.writes.contains(letter) {
                let file = glued.or_else(|| next.and_then(ShellWord::text));
                return check_written(&format!("-{letter}"), file, writable);
            }
            if self.values.contains(letter) {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The file that an option writes: none, the standard output, or one that may be written.
fn check_written(option: &str, file: Option<&str>, writable: &WritePlaces<'_>) -> PolicyResult {
    match file {
        Some("-" | "/dev/null" | "/dev/stdout") => Ok(()),
        Some(path) if !writable.is_empty() => writable.check_path(path),
        _ => Err(not_granted(option)),
    }
}

/// The text of a word that may be an option; `None` for an operand whose text is not known.
pub(super) fn literal(word: &ShellWord) -> Result<Option<&str>, Denial> {
    match &word.kind {
        WordKind::Literal(text) => Ok(Some(text)),
        _ if word.is_operand() => Ok(None),
        _ => Err(could_be_option(word)),
    }
}

/// What is said of an option that writes or starts something.
pub(super) const NOT_GRANTED: &str = "may not be used here: leave it out.";

pub(super) fn not_granted(option: &str) -> Denial {
    format!("the option `{}` {NOT_GRANTED}", truncate(option, SHOWN)).into()
}

pub(super) fn could_be_option(word: &ShellWord) -> Denial {
    let shown = truncate(&word.shown, SHOWN);
    format!("`{shown}` could turn into an option: put it after `--` or begin it with `./`.").into()
}
