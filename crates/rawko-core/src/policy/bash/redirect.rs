//! Redirections and here-documents.

use super::parser::{Parser, Result, is_name};
use super::script::{PlainConstruct, Redirection, RedirectionEffect, ShellWord};
use super::words::WordBuilder;

/// What ends a word where nothing is quoted.
const ENDS_WORD: &str = " \t\n|&;()<>";

/// A here-document whose body comes after the line.
pub(super) struct Heredoc {
    end: String,
    is_quoted: bool,
    strips_tabs: bool,
}

impl Parser<'_> {
    pub(super) fn redirections(&mut self) -> Result<()> {
        loop {
            self.skip_blanks();
            match self.redirection()? {
                Some(redirection) => self.script.redirections.push(redirection),
                None => return Ok(()),
            }
        }
    }

    /// The redirection that begins here, if one does.
    pub(super) fn redirection(&mut self) -> Result<Option<Redirection>> {
        const OPERATORS: [(&str, RedirectionEffect); 12] = [
            ("&>>", RedirectionEffect::Writes),
            ("&>", RedirectionEffect::Writes),
            ("<<<", RedirectionEffect::Nothing),
            ("<<-", RedirectionEffect::Nothing),
            ("<<", RedirectionEffect::Nothing),
            ("<&", RedirectionEffect::Reads),
            ("<>", RedirectionEffect::Writes),
            (">>", RedirectionEffect::Writes),
            (">&", RedirectionEffect::Writes),
            (">|", RedirectionEffect::Writes),
            ("<", RedirectionEffect::Reads),
            (">", RedirectionEffect::Writes),
        ];
        let start = self.at;
        let mut digits = 0;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.next();
            digits += 1;
        }
        let is_process = matches!(self.peek(), Some('<' | '>')) && self.peek_at(1) == Some('(');
        let found = OPERATORS.into_iter().find(|(operator, _)| !is_process && self.accept(operator));
        let Some((symbol, effect)) = found else {
            self.at = start;
            return Ok(None);
        };
        if symbol.starts_with('&') && digits > 0 {
            // `2&>x` is the word `2` and then `&>x`.
            self.at = start;
            return self.fail("a redirection that is not understood");
        }
        let operator = self.text_since(start);
        self.skip_blanks();
        if symbol.ends_with('&')
            && self.peek() == Some('-')
            && self.peek_at(1).is_some_and(|c| !ENDS_WORD.contains(c))
        {
            // Here a `-` is whole: in `>&-ls x` the command is `ls x`.
            return self.fail("a redirection that is not understood");
        }
        let target = self.word()?;
        if matches!(symbol, "<<" | "<<-") {
            return self.heredoc(operator, target.word, target.is_bare, symbol == "<<-").map(Some);
        }
        let is_descriptor = |text: &str| {
            let digits = text.strip_suffix('-').unwrap_or(text);
            !text.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
        };
        let duplicates = symbol.ends_with('&') && target.word.text().is_some_and(is_descriptor);
        if symbol == ">&" && !duplicates && !target.word.text().is_some_and(is_plain_name) {
            // Bash expands this word twice, also what the first expansion gave: `ls >&'$(touch x)'` runs `touch`.
            return self.fail("`>&` with a file name that is not plain (write `&>`)");
        }
        let effect = if duplicates { RedirectionEffect::Nothing } else { effect };
        Ok(Some(Redirection { operator, effect, target: target.word }))
    }

    fn heredoc(
        &mut self,
        operator: String,
        end: ShellWord,
        is_bare: bool,
        strips_tabs: bool,
    ) -> Result<Redirection> {
        match end.text() {
            _ if self.in_heredoc => self.fail("a here-document inside a here-document"),
            Some(text) if !text.contains('\n') => {
                self.heredocs.push(Heredoc { end: text.to_owned(), is_quoted: !is_bare, strips_tabs });
                Ok(Redirection { operator, effect: RedirectionEffect::Nothing, target: end })
            }
            _ => self.fail("a here-document whose end is not plain"),
        }
    }

    pub(super) fn heredoc_body(&mut self, heredoc: &Heredoc) -> Result<()> {
        let mut body = String::new();
        while self.at < self.text.len() {
            let line = if heredoc.is_quoted { self.skip_line() } else { self.skip_joined_line() };
            let bare = if heredoc.strips_tabs { line.trim_start_matches('\t') } else { &line };
            if bare == heredoc.end {
                self.heredoc_text(&body);
                return Ok(());
            }
            // Inside a substitution bash also takes `EOF)` and `EOF; ls)` for the end, and runs the rest.
            if self.in_substitution && bare.starts_with(&heredoc.end) {
                return self.fail("a line of a here-document that begins like its end");
            }
            if !heredoc.is_quoted {
                body.push_str(bare);
                body.push('\n');
            }
        }
        self.fail("a here-document without its end")
    }

    /// A line of a here-document whose end is not quoted: a backslash joins lines, also one with the end.
    fn skip_joined_line(&mut self) -> String {
        let mut line = String::new();
        loop {
            let piece = self.skip_line();
            line.push_str(&piece);
            let joins = piece.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1;
            if !joins || self.at >= self.text.len() {
                return line;
            }
            line.pop();
        }
    }

    /// Text in which bash expands. Plain variables are harmless; commands are read and judged like others.
    fn heredoc_text(&mut self, body: &str) {
        let expands =
            body.contains('`') || ["$(", "${", "$["].into_iter().any(|opening| body.contains(opening));
        if !expands {
            return;
        }
        let inner = self.expansions_of(body).ok();
        self.unfollowed_but("an expansion in a here-document", inner.is_some().then(PlainConstruct::default));
        self.script.in_heredocs.extend(inner);
    }

    /// Text as between double quotes, in which quotes are ordinary characters.
    pub(super) fn text_with_expansions(&mut self) -> Result<()> {
        let mut draft = WordBuilder::default();
        while let Some(c) = self.peek_raw() {
            match c {
                '\\' => {
                    self.next_raw();
                    self.next_raw();
                }
                '$' => self.dollar(&mut draft, true)?,
                '`' => return self.fail("a backquote in a here-document"),
                _ => drop(self.next_raw()),
            }
        }
        Ok(())
    }
}

/// Whether a second expansion leaves this text as it is.
fn is_plain_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "/._-+,@%:".contains(c))
}

/// Whether a word before a redirection is `{NAME}`, which sets a variable to the descriptor.
pub(super) fn names_descriptor(shown: &str) -> bool {
    shown.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).is_some_and(is_name)
}
