//! The tables that the filter judges by. They are in `programs.json`, so that a reviewer reads data and not code.
//!
//! A program that the tables do not name has no options that are known to write or start anything, and passes if it is
//! listed. What needs more than a table (`sed` scripts, `find` expressions, the old form of `tar`) is code beside this.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

use super::options::{ProgramOptions, RefusedOptions};

static TABLES: LazyLock<Option<FilterTables>> =
    LazyLock::new(|| serde_json::from_str(include_str!("programs.json")).ok());

/// All tables. `None`, where they cannot be read, must refuse everything; a test reads them.
pub(super) fn tables() -> Option<&'static FilterTables> {
    TABLES.as_ref()
}

/// All tables.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FilterTables {
    programs: Vec<ProgramEntry>,
    unread_wrappers: UnreadWrappers,
    pub(super) find: FindTable,
    pub(super) git: GitTable,
    pub(super) builtins: BuiltinTable,
    pub(super) variables: VariableTable,
}

/// Programs with the same rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramEntry {
    names: Vec<String>,
    /// For reviewers, and for whom it refuses.
    why: String,
    rule: OptionRule,
}

/// What a program's words may be.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum OptionRule {
    /// These options and no others, and any operands.
    Pass(ProgramOptions),
    /// These options and no others, and one operand: a second one would be written.
    PassWithOneOperand(ProgramOptions),
    /// All options but these.
    Refuse(RefusedOptions),
    /// No options at all.
    OperandsOnly,
    /// It starts the program that its operands name, after so many operands of its own.
    Starts { after: usize, options: ProgramOptions },
    /// Code judges its words. The options are those that it lets pass.
    Code(ProgramOptions),
    /// It starts other programs in ways that are not followed: refused, listed or not.
    Unread,
}

/// Wrappers whose arguments are not read: refused, listed or not.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnreadWrappers {
    #[serde(rename = "why")]
    _why: String,
    names: BTreeSet<String>,
}

/// The expressions of `find`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FindTable {
    #[serde(rename = "why")]
    _why: String,
    /// Those that only look, each with the number of words it takes.
    pub(super) looks: BTreeMap<String, usize>,
    /// Those that write, delete or start something. A file of such a name would become one through a pattern.
    pub(super) acts: Vec<String>,
}

/// The subcommands and options of `git`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GitTable {
    #[serde(rename = "why")]
    _why: String,
    /// Subcommands that no option makes dangerous: their words may be anything.
    pub(super) any_options: BTreeSet<String>,
    /// The others that may be used. A name in neither list is refused: it may be an alias, which runs anything.
    pub(super) judged_options: BTreeSet<String>,
    /// Options that start programs or write files, whatever the subcommand.
    pub(super) refused_options: Vec<String>,
    /// The same for commands that talk to other repositories: these name programs, hooks and settings.
    pub(super) refused_remote_options: Vec<String>,
    /// Letters of a subcommand that take a value, and letters that start programs or write files.
    pub(super) letters: BTreeMap<String, GitLetters>,
    /// Options without a value that may come before the subcommand.
    pub(super) options_before_subcommand: BTreeSet<String>,
    /// How settings begin that `-c` may give: they change how something looks, not what runs.
    pub(super) settings: Vec<String>,
    /// Settings that `-c` may give with this value.
    pub(super) whole_settings: Vec<String>,
    /// Words by which `git config` reads.
    pub(super) config_reads: BTreeSet<String>,
    /// Further options of `git config`.
    pub(super) config_options: BTreeSet<String>,
    /// Subcommands of `git bisect`.
    pub(super) bisect: BTreeSet<String>,
    /// Subcommands of `git submodule`.
    pub(super) submodule: BTreeSet<String>,
}

/// Letters of a subcommand of `git`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct GitLetters {
    /// They take a value.
    pub(super) values: String,
    /// They start programs or write files.
    pub(super) refused: String,
    /// `--message` and `--file` take the next word.
    pub(super) takes_message: bool,
}

/// Builtins of the shell.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct BuiltinTable {
    #[serde(rename = "why")]
    _why: String,
    /// Those that change what later commands mean.
    pub(super) refused: BTreeSet<String>,
    /// Names that `set -o` may be given.
    pub(super) set: BTreeSet<String>,
    /// Operators of `test` that do not evaluate their operand.
    pub(super) test_operators: BTreeSet<String>,
}

/// Names of variables.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct VariableTable {
    #[serde(rename = "why")]
    _why: String,
    /// Wherever in a name.
    pub(super) parts: Vec<String>,
    /// As a word of a name.
    pub(super) words: BTreeSet<String>,
    /// These names and no longer ones.
    whole: BTreeSet<String>,
    /// Wherever in a name in small letters.
    pub(super) small_letters: Vec<String>,
    /// These pass, whatever they are made of.
    pub(super) harmless: BTreeSet<String>,
    /// These assignments pass, whatever the name is made of.
    harmless_assignments: BTreeSet<String>,
    /// These names pass in the sandbox.
    in_sandbox: BTreeSet<String>,
}

impl FilterTables {
    /// The rule for a program; `None` where there is none.
    pub(super) fn rule(&self, name: &str) -> Option<&OptionRule> {
        if self.unread_wrappers.names.contains(name) {
            return Some(&OptionRule::Unread);
        }
        self.entry(name).map(|program| &program.rule)
    }

    /// Why a program has a rule.
    pub(super) fn why(&self, name: &str) -> Option<&str> {
        // Where it points to the code it is for reviewers only.
        self.entry(name).map(|program| program.why.as_str()).filter(|why| !why.contains(".rs"))
    }

    fn entry(&self, name: &str) -> Option<&ProgramEntry> {
        self.programs.iter().find(|program| program.names.iter().any(|other| other == name))
    }
}

impl VariableTable {
    /// The same of a whole assignment, `NAME=value`, and of what may be set in the sandbox.
    pub(super) fn passes(&self, name: &str, assignment: &str, in_sandbox: bool) -> bool {
        self.is_harmless(name)
            || self.harmless_assignments.contains(assignment)
            || (in_sandbox && self.in_sandbox.contains(name))
    }

    /// Whether no program is known to take orders from the variable `name`.
    pub(super) fn is_harmless(&self, name: &str) -> bool {
        if self.harmless.contains(name) {
            return true;
        }
        // Names are case-sensitive, and hardly any program reads one in small letters.
        if !name.starts_with('_') && !name.chars().any(|c| c.is_ascii_uppercase()) {
            return !self.small_letters.iter().any(|part| name.contains(part));
        }
        let upper = name.to_ascii_uppercase();
        let orders = self.whole.contains(&upper)
            || self.parts.iter().any(|part| upper.contains(part))
            || upper.split('_').any(|word| self.words.contains(word));
        !orders && !upper.starts_with('_') && !upper.ends_with("RC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_can_be_read_and_name_each_program_once() {
        let tables: FilterTables = serde_json::from_str(include_str!("programs.json")).unwrap();
        let builtins = tables.builtins.refused.iter().chain(&tables.unread_wrappers.names);
        let mut seen = BTreeSet::from(["find", "git", "cd", "export", "read", "set", "printf", "test", "["]);
        for name in builtins {
            assert!(seen.insert(name), "`{name}` has two rules");
        }
        let mut named = BTreeSet::new();
        for program in &tables.programs {
            for name in &program.names {
                assert!(!seen.contains(name.as_str()), "`{name}` has two rules");
                assert!(named.insert(name), "`{name}` has two rules");
            }
        }
        let twice = tables.git.any_options.intersection(&tables.git.judged_options).count();
        assert_eq!(twice, 0);
    }
}
