//! Redirections and here-documents.

use super::parser::{Parser, Result, is_name};
use super::script::{Effect, Redirection, Word};

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
        const OPERATORS: [(&str, Effect); 12] = [
            ("&>>", Effect::Writes),
            ("&>", Effect::Writes),
            ("<<<", Effect::Nothing),
            ("<<-", Effect::Nothing),
            ("<<", Effect::Nothing),
            ("<&", Effect::Reads),
            ("<>", Effect::Writes),
            (">>", Effect::Writes),
            (">&", Effect::Writes),
            (">|", Effect::Writes),
            ("<", Effect::Reads),
            (">", Effect::Writes),
        ];
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        let is_process = matches!(self.peek(), Some('<' | '>')) && self.peek_at(1) == Some('(');
        let found = OPERATORS.into_iter().find(|(operator, _)| !is_process && self.accept(operator));
        let Some((symbol, effect)) = found else {
            self.at = start;
            return Ok(None);
        };
        if symbol.starts_with('&') && self.at - symbol.len() != start {
            // `2&>x` is the word `2` and then `&>x`.
            self.at = start;
            return self.fail("a redirection that is not understood");
        }
        let operator = self.text_since(start);
        self.skip_blanks();
        let target = self.word()?;
        if matches!(symbol, "<<" | "<<-") {
            return self.heredoc(operator, target.word, target.is_bare, symbol == "<<-").map(Some);
        }
        let is_descriptor = |text: &str| {
            let digits = text.strip_suffix('-').unwrap_or(text);
            !text.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
        };
        let duplicates = symbol.ends_with('&') && target.word.text().is_some_and(is_descriptor);
        let effect = if duplicates { Effect::Nothing } else { effect };
        Ok(Some(Redirection { operator, effect, target: target.word }))
    }

    fn heredoc(
        &mut self,
        operator: String,
        end: Word,
        is_bare: bool,
        strips_tabs: bool,
    ) -> Result<Redirection> {
        match end.text() {
            Some(text) if !text.contains('\n') => {
                self.heredocs.push(Heredoc { end: text.to_owned(), is_quoted: !is_bare, strips_tabs });
                Ok(Redirection { operator, effect: Effect::Nothing, target: end })
            }
            _ => self.fail("a here-document whose end is not plain"),
        }
    }

    pub(super) fn heredoc_body(&mut self, heredoc: &Heredoc) -> Result<()> {
        while self.peek().is_some() {
            let start = self.at;
            while self.peek().is_some_and(|c| c != '\n') {
                self.at += 1;
            }
            let line = self.text_since(start);
            self.at += usize::from(self.peek().is_some());
            let bare = if heredoc.strips_tabs { line.trim_start_matches('\t') } else { &line };
            if bare == heredoc.end {
                return Ok(());
            }
            if !heredoc.is_quoted {
                self.heredoc_line(&line);
            }
        }
        self.fail("a here-document without its end")
    }

    /// A line in which bash expands. Plain variables are harmless.
    fn heredoc_line(&mut self, line: &str) {
        let expands =
            line.contains('`') || ["$(", "${", "$["].into_iter().any(|opening| line.contains(opening));
        if expands || line.ends_with('\\') {
            self.unfollowed("an expansion or a joined line in a here-document");
        }
    }
}

/// Whether a word before a redirection is `{NAME}`, which sets a variable to the descriptor.
pub(super) fn names_descriptor(shown: &str) -> bool {
    shown.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).is_some_and(is_name)
}
