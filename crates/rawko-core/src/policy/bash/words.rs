//! Reads one word: quotes, escapes, expansions, patterns.

use super::calculation::{is_integer, plain_arithmetic, plain_parameter};
use super::parser::{Parser, Result};
use super::script::{ShellWord, WordKind};

/// A word while it is read.
#[derive(Default)]
pub(super) struct WordBuilder {
    /// For patterns and people.
    shown: String,
    /// What is known for sure since the last unknown part; all of it while there is none.
    known: String,
    /// What was known before the first unknown part.
    prefix: Option<String>,
    /// Length of `known` at the first quote or escape, if any: names and keywords are unquoted.
    quoted_from: Option<usize>,
    unknown: Option<Unknown>,
    /// An unquoted `{` was seen, and after it a comma or `..`: it may be several words.
    brace: bool,
    is_brace: bool,
    /// Expansions to an integer, and all of what is not known.
    integers: usize,
    unknowns: usize,
}

/// How much is unknown of a word; the later the worse.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unknown {
    /// A file name pattern.
    Pattern,
    /// An expansion in quotes: one word.
    Quoted,
    /// Brace alternatives: each has the same beginning.
    Alternatives,
    /// An unquoted expansion: any number of words.
    Split,
}

impl WordBuilder {
    fn push(&mut self, c: char) {
        self.known.push(c);
        self.shown.push(c);
    }

    /// The characters that follow are quoted. After the first unknown part, that makes no difference any more.
    fn quote(&mut self) {
        if self.prefix.is_none() {
            self.quoted_from.get_or_insert(self.known.len());
        }
    }

    /// Something comes that is not known before the command runs.
    fn unknown(&mut self, how: Unknown, shown: &str) {
        self.shown.push_str(shown);
        self.unknowns += 1;
        let known = std::mem::take(&mut self.known);
        self.prefix.get_or_insert(known);
        self.unknown = self.unknown.max(Some(how));
    }

    /// Whether it assigns an integer to `name`: digits, or what was calculated.
    fn assigns_integer(&self, name: &str) -> bool {
        let value = |known: &str| {
            let rest = known.strip_prefix(name)?;
            Some(rest.strip_prefix('+').unwrap_or(rest).strip_prefix('=')?.to_owned())
        };
        match &self.prefix {
            None => value(&self.known).is_some_and(|value| is_integer(&value)),
            Some(prefix) => {
                (self.integers, self.unknowns) == (1, 1)
                    && !self.is_brace
                    && self.known.is_empty()
                    && value(prefix).is_some_and(|value| value.is_empty())
            }
        }
    }

    fn finish(mut self) -> ShellWord {
        if self.is_brace {
            self.unknown(Unknown::Alternatives, "");
            let head = self.prefix.take().unwrap_or_default();
            // The text before the first brace is common to all alternatives.
            self.prefix = Some(head.split('{').next().unwrap_or_default().to_owned());
        }
        let kind = match (self.unknown, self.prefix.unwrap_or_default()) {
            (None, _) => WordKind::Literal(self.known),
            (Some(Unknown::Split), _) => WordKind::Many,
            (Some(Unknown::Alternatives), prefix) if prefix.is_empty() => WordKind::Many,
            (Some(Unknown::Quoted), prefix) if prefix.is_empty() => WordKind::One,
            (Some(Unknown::Pattern), prefix) if prefix.is_empty() => WordKind::FileNames(self.known),
            (Some(_), prefix) => WordKind::Begins(prefix),
        };
        ShellWord { shown: self.shown, kind }
    }
}

/// A word, with what its spelling shows beyond its value.
pub(super) struct Spelt {
    pub(super) word: ShellWord,
    /// Nothing of it was quoted or escaped.
    pub(super) is_bare: bool,
    /// The name it assigns to, if it has the form of an assignment.
    pub(super) assigns: Option<String>,
    /// What it assigns is an integer.
    pub(super) assigns_integer: bool,
    /// It has the form of an assignment to an element, whose index is evaluated.
    pub(super) assigns_element: bool,
}

impl Parser<'_> {
    /// Reads the word that begins here. There must be one.
    pub(super) fn word(&mut self) -> Result<Spelt> {
        let start = self.position();
        let mut draft = WordBuilder::default();
        if self.peek() == Some('~') {
            self.next();
            draft.quote();
            // A home directory begins with a slash; an unknown name stays as it is. Neither is an option.
            draft.push('~');
            draft.unknown(Unknown::Quoted, "");
        }
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | '|' | '&' | ';' | '(' | ')' => break,
                '<' | '>' if self.peek_at(1) == Some('(') => {
                    self.next();
                    self.next();
                    self.substitution()?;
                    draft.known.push_str("/dev/fd/");
                    draft.unknown(Unknown::Quoted, "/dev/fd/");
                }
                '<' | '>' => break,
                '\'' => self.single_quotes(&mut draft)?,
                '"' => {
                    self.next();
                    draft.quote();
                    self.double_quotes(&mut draft)?;
                }
                '\\' => {
                    self.next();
                    let Some(escaped) = self.next_raw() else {
                        return self.fail("a backslash at the end");
                    };
                    draft.quote();
                    draft.push(escaped);
                }
                '`' => self.backquotes(&mut draft, false)?,
                '$' => self.dollar(&mut draft, false)?,
                '[' if self.peek_at(1).is_none_or(|c| " \t\n|&;()<>".contains(c)) => {
                    // Nothing can close it: it is the command of that name.
                    self.next();
                    draft.push(c);
                }
                '*' | '?' | '[' => {
                    self.next();
                    draft.unknown(Unknown::Pattern, c.encode_utf8(&mut [0; 4]));
                }
                _ => {
                    self.next();
                    draft.push(c);
                    draft.is_brace |= draft.brace && (c == ',' || draft.known.ends_with(".."));
                    draft.brace |= c == '{';
                }
            }
        }
        if self.position() == start {
            return self.fail("a word was expected");
        }
        let bare = &draft.prefix.as_ref().unwrap_or(&draft.known)[..];
        let bare = draft.quoted_from.map_or(bare, |end| bare.get(..end).unwrap_or(bare));
        let (assigns, assigns_element) = assignment(bare, &draft);
        let is_bare = draft.quoted_from.is_none();
        let assigns_integer = assigns.as_deref().is_some_and(|name| draft.assigns_integer(name));
        Ok(Spelt { word: draft.finish(), is_bare, assigns, assigns_integer, assigns_element })
    }

    fn single_quotes(&mut self, draft: &mut WordBuilder) -> Result<()> {
        self.next();
        draft.quote();
        loop {
            match self.next_raw() {
                None => return self.fail("a single quote without its partner"),
                Some('\'') => return Ok(()),
                Some(c) => draft.push(c),
            }
        }
    }

    fn double_quotes(&mut self, draft: &mut WordBuilder) -> Result<()> {
        loop {
            match self.peek() {
                None => return self.fail("a double quote without its partner"),
                Some('"') => {
                    self.next();
                    return Ok(());
                }
                Some('$') => self.dollar(draft, true)?,
                Some('`') => self.backquotes(draft, true)?,
                Some('\\') => {
                    self.next();
                    match self.next_raw() {
                        Some(c @ ('$' | '`' | '"' | '\\')) => draft.push(c),
                        Some(other) => {
                            draft.push('\\');
                            draft.push(other);
                        }
                        None => return self.fail("a double quote without its partner"),
                    }
                }
                Some(c) => {
                    self.next();
                    draft.push(c);
                }
            }
        }
    }

    /// What a `$` begins.
    pub(super) fn dollar(&mut self, draft: &mut WordBuilder, quoted: bool) -> Result<()> {
        let start = self.position();
        self.next();
        let how = if quoted { Unknown::Quoted } else { Unknown::Split };
        match self.peek() {
            Some('\'') if !quoted => return self.ansi_quotes(draft),
            Some('"') if !quoted => {
                self.next();
                draft.quote();
                self.unfollowed("$\"…\" (translated text)");
                return self.double_quotes(draft);
            }
            Some('(') if self.peek_at(1) == Some('(') => {
                self.next();
                self.arithmetic('(', ')')?;
                draft.integers += 1;
            }
            Some('(') => {
                self.next();
                self.substitution()?;
            }
            Some('[') => {
                self.unfollowed("$[…] (arithmetic)");
                self.skip_balanced('[', ']')?;
            }
            Some('{') => {
                if self.braced_parameter()? {
                    draft.unknown(Unknown::Split, &self.text_since(start));
                    return Ok(());
                }
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.next();
                }
            }
            Some('@' | '*') => {
                self.next();
                draft.unknown(Unknown::Split, &self.text_since(start));
                return Ok(());
            }
            Some(c) if c.is_ascii_digit() || "?#$!-".contains(c) => {
                self.next();
            }
            _ => {
                draft.push('$');
                return Ok(());
            }
        }
        draft.unknown(how, &self.text_since(start));
        Ok(())
    }

    /// `${NAME}`. Every other form may evaluate or run something. Returns whether it may be several words even in quotes.
    fn braced_parameter(&mut self) -> Result<bool> {
        let start = self.position();
        self.skip_balanced('{', '}')?;
        let text = self.text_since(start);
        let inside = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
        let plain = !inside.is_empty() && inside.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !plain {
            self.unfollowed_but(&format!("${text} (an expansion with an operator)"), plain_parameter(inside));
        }
        Ok(inside.contains('@'))
    }

    /// `((…))`, after its first parenthesis. Constants are harmless; a name is evaluated again, and so may run
    /// commands.
    pub(super) fn arithmetic(&mut self, open: char, close: char) -> Result<()> {
        let start = self.position();
        self.skip_balanced(open, close)?;
        if self.next() != Some(close) {
            return self.fail("arithmetic without its end");
        }
        let text = self.text_since(start);
        if !text.chars().all(|c| c.is_ascii_digit() || " \t+-*/%()<>=!&|^~?:,".contains(c)) {
            let plain = text.strip_suffix(')').and_then(plain_arithmetic);
            self.unfollowed_but("arithmetic on something that is not constant", plain);
        }
        Ok(())
    }

    /// `$'…'`: the escapes of C.
    fn ansi_quotes(&mut self, draft: &mut WordBuilder) -> Result<()> {
        self.next();
        draft.quote();
        loop {
            match self.next_raw() {
                None => return self.fail("a quote without its partner"),
                Some('\'') => return Ok(()),
                Some('\\') => self.ansi_escape(draft)?,
                Some(c) => draft.push(c),
            }
        }
    }

    fn ansi_escape(&mut self, draft: &mut WordBuilder) -> Result<()> {
        let Some(c) = self.next_raw() else { return self.fail("a quote without its partner") };
        let code = match c {
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            '\\' | '\'' | '"' | '?' => u32::from(c),
            '0'..='7' => self.digits(8, 2, u32::from(c) - u32::from('0')),
            'x' => self.digits(16, 2, 0),
            'u' => self.digits(16, 4, 0),
            'U' => self.digits(16, 8, 0),
            _ => {
                self.unfollowed("an escape in $'…' that is not known");
                draft.push(c);
                return Ok(());
            }
        };
        // A byte that is no character of its own would have to be put together with its neighbours.
        let is_byte = matches!(c, 'x' | '0'..='7');
        match char::from_u32(code) {
            Some('\0') => return self.fail("a NUL in $'…'"),
            Some(decoded) if !is_byte || decoded.is_ascii() => draft.push(decoded),
            _ => {
                self.unfollowed("a byte in $'…' that is no character");
                draft.push(char::REPLACEMENT_CHARACTER);
            }
        }
        Ok(())
    }

    fn digits(&mut self, radix: u32, most: usize, first: u32) -> u32 {
        let mut value = first;
        for _ in 0..most {
            let Some(digit) = self.peek_raw().and_then(|c| c.to_digit(radix)) else { break };
            self.next_raw();
            value = value.saturating_mul(radix).saturating_add(digit);
        }
        value
    }

    /// `` `…` ``: what is inside is a script of its own after one round of unescaping.
    fn backquotes(&mut self, draft: &mut WordBuilder, quoted: bool) -> Result<()> {
        let start = self.position();
        self.next();
        let mut inner = String::new();
        loop {
            match self.next() {
                None => return self.fail("a backquote without its partner"),
                Some('`') => break,
                Some('\\') => {
                    self.unfollowed("a backslash inside backquotes");
                    match self.next_raw() {
                        Some(c @ ('`' | '$' | '\\')) => inner.push(c),
                        Some(c) => inner.extend(['\\', c]),
                        None => return self.fail("a backquote without its partner"),
                    }
                }
                Some(c) => {
                    if quoted && c == '"' {
                        self.unfollowed("quotes inside backquotes inside quotes");
                    }
                    inner.push(c);
                }
            }
        }
        self.inner_script(&inner)?;
        draft.unknown(if quoted { Unknown::Quoted } else { Unknown::Split }, &self.text_since(start));
        Ok(())
    }
}

/// The name that an unquoted beginning assigns to, and whether it has the form of an element's assignment.
fn assignment(bare: &str, draft: &WordBuilder) -> (Option<String>, bool) {
    let end = bare.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(bare.len());
    let (name, rest) = bare.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return (None, false);
    }
    let assigns = rest.starts_with('=') || rest.starts_with("+=");
    let opens_index =
        rest.is_empty() && draft.shown[name.len()..].starts_with('[') && draft.shown.contains('=');
    (assigns.then(|| name.to_owned()), opens_index)
}
