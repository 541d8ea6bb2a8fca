//! A shell command taken apart: what it would run, with what words, and what is written where.
//!
//! Flat for the filter, which asks what may run at all and not when. [`CommandList`] says how the commands are joined, for
//! those who ask whose exit status a script ends with.

use std::ops::Range;

use super::write_places::leads_to_protected;

/// Everything that `bash -c` would do with a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ParsedScript {
    /// Every simple command, wherever it is, in the order of the text.
    pub(crate) commands: Vec<Simple>,
    /// How the commands are joined. What runs in substitutions is not part of it.
    pub(crate) list: CommandList,
    /// Redirections of groups, loops and other compounds.
    pub(crate) redirections: Vec<Redirection>,
    /// Variables that loops set.
    pub(crate) loop_variables: Vec<LoopVariable>,
    /// Lists of commands joined by `&&` and `||`, to number them.
    pub(crate) lists: usize,
    /// Constructs whose effect is not followed here.
    pub(crate) unfollowed: Vec<Unfollowed>,
    /// What substitutions in here-documents run. It is not among the commands above: a here-document with one is unfollowed.
    pub(crate) in_heredocs: Vec<ParsedScript>,
}

impl ParsedScript {
    /// This script, and those in its here-documents. There are no more below: a here-document in one is not understood.
    pub(crate) fn with_heredocs(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.in_heredocs)
    }
}

/// A construct whose effect is not followed. An allowlist refuses it, unless it is plain and the sandbox is the wall.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unfollowed {
    /// In words.
    pub(crate) what: String,
    pub(crate) plain: Option<PlainConstruct>,
}

/// A construct that runs and writes nothing but what is found elsewhere in the script, if what it calculates with are
/// integers: bash evaluates any other text as an expression, and that can run commands.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PlainConstruct {
    /// Variables that it calculates with.
    pub(crate) integers: Vec<String>,
    /// Those of them that it sets.
    pub(crate) sets: Vec<String>,
}

impl PlainConstruct {
    /// Both of them.
    pub(crate) fn with(mut self, other: Self) -> Self {
        self.integers.extend(other.integers);
        self.sets.extend(other.sets);
        self
    }
}

/// A variable that a loop sets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LoopVariable {
    pub(crate) name: String,
    /// It is an integer every time.
    pub(crate) is_integer: bool,
}

/// Commands one after the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandList(pub(crate) Vec<AndOrList>);

/// Pipelines joined by `&&` and `||`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AndOrList {
    pub(crate) first: Pipeline,
    pub(crate) rest: Vec<(Joint, Pipeline)>,
    /// It ends with `&`.
    pub(crate) in_background: bool,
}

impl AndOrList {
    /// All its pipelines, in order.
    pub(crate) fn pipelines(&self) -> Vec<&Pipeline> {
        std::iter::once(&self.first).chain(self.rest.iter().map(|(_, pipeline)| pipeline)).collect()
    }
}

/// How a pipeline depends on what comes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joint {
    /// `&&`: it runs if that succeeded.
    And,
    /// `||`: it runs if that failed.
    Or,
}

/// Commands joined by `|`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pipeline {
    /// It begins with `!`.
    pub(crate) is_negated: bool,
    pub(crate) members: Vec<Member>,
}

/// One member of a pipeline.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Member {
    /// A simple command, by its place in [`ParsedScript::commands`].
    Simple(usize),
    /// `( … )` or `{ … }`.
    Group(CommandList),
    /// A condition, a loop, a function, a test: the commands in it.
    Other(Range<usize>),
}

/// Whether a command runs, and whether it runs in the shell itself: what `cd` needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It runs in the shell itself, if every `cd` before it succeeds.
    Straight,
    /// It runs in the shell itself, if what comes before it in a list joined by `&&` succeeds. Lists have different
    /// numbers.
    Chained(usize),
    /// It may not run, run several times, or run in another shell.
    Unsure,
}

/// A simple command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Simple {
    pub(crate) flow: Flow,
    /// It is all that comes after `cd … ||`.
    pub(crate) follows_failed_cd: bool,
    /// `NAME=value` before the command, or alone.
    pub(crate) assignments: Vec<Assignment>,
    /// Its name and arguments. Empty for assignments alone.
    pub(crate) words: Vec<ShellWord>,
    /// Its redirections.
    pub(crate) redirections: Vec<Redirection>,
}

impl Simple {
    pub(crate) fn new(flow: Flow) -> Self {
        let (assignments, words, redirections) = (Vec::new(), Vec::new(), Vec::new());
        Self { flow, follows_failed_cd: false, assignments, words, redirections }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.assignments.is_empty() && self.words.is_empty() && self.redirections.is_empty()
    }

    /// Whether `cd` is among its words, which is the case for every change of directory that passes.
    pub(crate) fn changes_directory(&self) -> bool {
        self.words.iter().any(|word| word.text() == Some("cd"))
    }

    /// Whether it changes to a protected folder.
    pub(crate) fn goes_to_protected(&self) -> bool {
        self.changes_directory() && self.words.iter().filter_map(ShellWord::text).any(leads_to_protected)
    }

    /// Whether it is nothing but a `cd` that runs for certain. What else could keep it from running (a file that
    /// cannot be opened, a variable that cannot be set) is not there.
    pub(crate) fn is_cd(&self) -> bool {
        let harmless = |redirection: &Redirection| match redirection.target.text() {
            Some("/dev/null") => true,
            // Other descriptors may not be open, and then the command does not run.
            Some("1" | "2") => redirection.effect == RedirectionEffect::Nothing,
            _ => false,
        };
        self.flow == Flow::Straight
            && self.assignments.is_empty()
            && self.redirections.iter().all(harmless)
            && self.words.first().and_then(ShellWord::text) == Some("cd")
    }
}

/// One assignment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    /// The whole of it, for patterns.
    pub(crate) shown: String,
    /// Its value is an integer.
    pub(crate) is_integer: bool,
}

/// One redirection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Redirection {
    /// With the descriptor in front, e.g. `2>>`.
    pub(crate) operator: String,
    pub(crate) effect: RedirectionEffect,
    pub(crate) target: ShellWord,
}

/// What a redirection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RedirectionEffect {
    /// Opens a file for reading.
    Reads,
    /// Opens a file for writing.
    Writes,
    /// Duplicates or closes a descriptor, or feeds text.
    Nothing,
}

/// A word after quote removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShellWord {
    /// As it is matched by patterns and shown: quotes removed, expansions as they are spelt.
    pub(crate) shown: String,
    pub(crate) kind: WordKind,
}

/// What is known of a word before the command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WordKind {
    /// Exactly this.
    Literal(String),
    /// One or several words that begin with this, which is not empty.
    Begins(String),
    /// One or several words that are names of files, and end with this.
    FileNames(String),
    /// One word that may be anything.
    One,
    /// Any number of words that may be anything.
    Many,
}

impl ShellWord {
    pub(crate) fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { shown: text.clone(), kind: WordKind::Literal(text) }
    }

    /// Its text, if that is known.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            WordKind::Literal(text) => Some(text),
            WordKind::Begins(_) | WordKind::FileNames(_) | WordKind::One | WordKind::Many => None,
        }
    }

    /// Whether it is certainly no option: it begins with something else than a dash.
    pub(crate) fn is_operand(&self) -> bool {
        match &self.kind {
            WordKind::Literal(text) | WordKind::Begins(text) => !text.starts_with('-'),
            WordKind::FileNames(_) | WordKind::One | WordKind::Many => false,
        }
    }

    /// Whether it is certainly one word, whatever it says.
    pub(crate) fn is_one(&self) -> bool {
        matches!(self.kind, WordKind::Literal(_) | WordKind::One)
    }
}
