//! Takes a command apart as bash would, as far as bash's grammar is understood here.
//!
//! Fails on what it does not understand, and never overflows the stack: nesting is counted. Where bash would run
//! something in a way that is not followed (arithmetic with names, functions, …) it goes on and notes it.

use super::redirect::{Heredoc, names_descriptor};
use super::script::{Assignment, Script, Simple};

/// Characters of a command.
const MAX_LENGTH: usize = 100_000;
/// Commands within commands.
const MAX_DEPTH: usize = 40;

/// A part of a command, or why it cannot be understood.
pub(super) type Result<T> = std::result::Result<T, String>;

/// Words that are syntax where a command may begin.
const RESERVED: [&str; 22] = [
    "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if",
    "in", "select", "then", "time", "until", "while", "{", "}",
];

/// Takes `command` apart.
pub(super) fn parse(command: &str) -> Result<Script> {
    if command.contains('\0') {
        return Err("it contains a NUL".into());
    }
    if command.len() > MAX_LENGTH {
        return Err(format!("it is longer than {MAX_LENGTH} bytes"));
    }
    let mut script = Script::default();
    Parser::new(command, &mut script, 0).whole()?;
    Ok(script)
}

pub(super) struct Parser<'s> {
    text: Vec<char>,
    pub(super) at: usize,
    depth: usize,
    pub(super) heredocs: Vec<Heredoc>,
    pub(super) script: &'s mut Script,
}

impl<'s> Parser<'s> {
    fn new(text: &str, script: &'s mut Script, depth: usize) -> Self {
        Self { text: text.chars().collect(), at: 0, depth, heredocs: Vec::new(), script }
    }

    fn whole(mut self) -> Result<()> {
        self.skip_lines()?;
        if self.peek().is_some() {
            self.list()?;
        }
        match self.peek() {
            Some(c) => self.fail(&format!("`{c}` where no command can begin")),
            None if self.heredocs.is_empty() => Ok(()),
            None => self.fail("a here-document without its end"),
        }
    }

    // Characters.

    pub(super) fn peek(&self) -> Option<char> {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn text_since(&self, start: usize) -> String {
        self.text[start..self.at].iter().collect()
    }

    pub(super) fn fail<T>(&self, why: &str) -> Result<T> {
        Err(format!("{why} (at character {})", self.at + 1))
    }

    pub(super) fn unfollowed(&mut self, what: &str) {
        self.script.unfollowed.push(what.to_owned());
    }

    pub(super) fn accept(&mut self, text: &str) -> bool {
        let found = text.chars().enumerate().all(|(i, c)| self.peek_at(i) == Some(c));
        if found {
            self.at += text.chars().count();
        }
        found
    }

    /// Skips blanks and joined lines, and a comment.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.at += 1,
                Some('\\') if self.peek_at(1) == Some('\n') => self.at += 2,
                Some('#') => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    /// Skips blanks, comments and line ends, and with the line ends the here-documents that begin there.
    fn skip_lines(&mut self) -> Result<()> {
        loop {
            self.skip_blanks();
            if self.peek() != Some('\n') {
                return Ok(());
            }
            self.at += 1;
            for heredoc in std::mem::take(&mut self.heredocs) {
                self.heredoc_body(&heredoc)?;
            }
        }
    }

    /// Skips from an opening character to its partner. Quotes hide both.
    pub(super) fn skip_balanced(&mut self, open: char, close: char) -> Result<()> {
        let mut depth = 0_usize;
        while let Some(c) = self.next() {
            match c {
                '\\' => {
                    self.next();
                }
                '\'' => while self.next().ok_or("a quote without its partner")? != '\'' {},
                c if c == open => depth += 1,
                c if c == close => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        self.fail(&format!("`{open}` without its partner"))
    }

    /// The reserved word that stands here, if one does.
    fn reserved(&self) -> Option<&'static str> {
        let is_end = |c: Option<char>| c.is_none_or(|c| " \t\n|&;()<>".contains(c));
        RESERVED.into_iter().find(|word| {
            let length = word.chars().count();
            word.chars().enumerate().all(|(i, c)| self.peek_at(i) == Some(c)) && is_end(self.peek_at(length))
        })
    }

    fn expect(&mut self, word: &'static str) -> Result<()> {
        self.skip_lines()?;
        if self.reserved() == Some(word) && self.accept(word) {
            Ok(())
        } else {
            self.fail(&format!("`{word}` is missing"))
        }
    }

    // Lists.

    /// One or more commands, up to something that ends a list.
    fn list(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail("commands nested too deeply");
        }
        loop {
            self.and_or()?;
            self.skip_blanks();
            match self.peek() {
                Some(';') if self.peek_at(1) != Some(';') => self.at += 1,
                Some('&') => {
                    self.at += 1;
                    self.script.branches = true;
                }
                Some('\n') => {}
                _ => break,
            }
            self.skip_lines()?;
            if self.ends_list() {
                break;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn ends_list(&self) -> bool {
        let closes = matches!(self.peek(), None | Some(')'))
            || (self.peek() == Some(';') && self.peek_at(1) == Some(';'));
        closes
            || matches!(self.reserved(), Some("}" | "do" | "done" | "elif" | "else" | "esac" | "fi" | "then"))
    }

    fn and_or(&mut self) -> Result<()> {
        self.pipeline()?;
        loop {
            self.skip_blanks();
            if self.accept("||") {
                self.script.branches = true;
            } else if !self.accept("&&") {
                return Ok(());
            }
            self.skip_lines()?;
            self.pipeline()?;
        }
    }

    fn pipeline(&mut self) -> Result<()> {
        loop {
            self.skip_blanks();
            match self.reserved() {
                Some("!") => self.at += 1,
                Some("time") => {
                    self.at += 4;
                    self.skip_blanks();
                    if self.peek() == Some('-') {
                        self.unfollowed("`time` with an option");
                    }
                }
                _ => break,
            }
        }
        self.command()?;
        loop {
            self.skip_blanks();
            if self.peek() != Some('|') || self.peek_at(1) == Some('|') {
                return Ok(());
            }
            self.at += 1;
            self.accept("&");
            self.script.branches = true;
            self.skip_lines()?;
            self.command()?;
        }
    }

    // Commands.

    fn command(&mut self) -> Result<()> {
        if self.peek() == Some('(') {
            self.at += 1;
            if self.peek() == Some('(') {
                self.arithmetic('(', ')')?;
            } else {
                self.substitution()?;
            }
            return self.redirections();
        }
        match self.reserved() {
            None => return self.simple(),
            Some("{") => {
                self.at += 1;
                self.body("}")?;
            }
            Some("if") => self.condition()?,
            Some("while" | "until") => {
                self.at += 5;
                self.script.branches = true;
                self.body("do")?;
                self.body("done")?;
            }
            Some("for") => self.for_loop(3)?,
            Some("select") => {
                self.unfollowed("`select`");
                self.for_loop(6)?;
            }
            Some("function") => {
                self.at += 8;
                self.skip_blanks();
                self.word()?;
                self.skip_blanks();
                return self.function();
            }
            Some("case") => self.case()?,
            Some("[[") => self.test()?,
            Some("coproc") => return self.fail("`coproc` is not understood"),
            Some(word) => return self.fail(&format!("`{word}` where a command was expected")),
        }
        self.redirections()
    }

    /// Commands up to a reserved word, and that word.
    fn body(&mut self, end: &'static str) -> Result<()> {
        self.skip_lines()?;
        self.list()?;
        self.expect(end)
    }

    fn condition(&mut self) -> Result<()> {
        self.script.branches = true;
        self.at += 2;
        self.body("then")?;
        loop {
            self.skip_lines()?;
            self.list()?;
            self.skip_lines()?;
            match self.reserved() {
                Some("elif") => {
                    self.at += 4;
                    self.body("then")?;
                }
                Some("else") => {
                    self.at += 4;
                    return self.body("fi");
                }
                _ => return self.expect("fi"),
            }
        }
    }

    /// `for` and `select`, whose keyword has `length` characters.
    fn for_loop(&mut self, length: usize) -> Result<()> {
        self.script.branches = true;
        self.at += length;
        self.skip_blanks();
        if self.peek() == Some('(') {
            self.unfollowed("`for ((`");
            self.skip_balanced('(', ')')?;
            self.skip_blanks();
            self.accept(";");
            self.expect("do")?;
            return self.body("done");
        }
        let name = self.word()?;
        let Some(variable) = name.word.text().filter(|n| name.is_bare && is_name(n)) else {
            return self.fail("`for` without a name");
        };
        self.script.loop_variables.push(variable.to_owned());
        self.skip_lines()?;
        if self.reserved() == Some("in") {
            self.at += 2;
            loop {
                self.skip_blanks();
                if matches!(self.peek(), Some(';' | '\n')) {
                    break;
                }
                self.word()?;
            }
        }
        self.accept(";");
        self.expect("do")?;
        self.body("done")
    }

    fn case(&mut self) -> Result<()> {
        self.script.branches = true;
        self.at += 4;
        self.skip_blanks();
        self.word()?;
        self.expect("in")?;
        loop {
            self.skip_lines()?;
            if self.reserved() == Some("esac") {
                return self.expect("esac");
            }
            self.accept("(");
            loop {
                self.skip_blanks();
                self.word()?;
                self.skip_blanks();
                if !self.accept("|") {
                    break;
                }
            }
            if !self.accept(")") {
                return self.fail("a pattern of `case` without its `)`");
            }
            self.skip_lines()?;
            if !self.ends_list() {
                self.list()?;
            }
            self.skip_lines()?;
            if !(self.accept(";;&") || self.accept(";;") || self.accept(";&")) {
                return self.expect("esac");
            }
        }
    }

    /// `[[ … ]]`: strings and files may be compared; arithmetic and variables by name evaluate what they are given.
    fn test(&mut self) -> Result<()> {
        const EVALUATES: [&str; 9] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R", "=~"];
        self.at += 2;
        loop {
            self.skip_lines()?;
            if self.reserved() == Some("]]") {
                self.at += 2;
                return Ok(());
            }
            let symbols = ["&&", "||", "|", "(", ")", "<", ">"];
            if symbols.into_iter().any(|symbol| self.accept(symbol)) {
                continue;
            }
            let word = self.word()?.word;
            if word.text().is_some_and(|text| EVALUATES.contains(&text)) {
                self.unfollowed(&format!("`{}` in [[ ]]", word.shown));
            }
        }
    }

    /// Commands up to `)`, in a shell of their own.
    pub(super) fn substitution(&mut self) -> Result<()> {
        self.script.branches = true;
        if !self.heredocs.is_empty() {
            return self.fail("a substitution on the line of a here-document");
        }
        self.skip_lines()?;
        if self.peek() != Some(')') {
            self.list()?;
        }
        if !self.heredocs.is_empty() {
            return self.fail("a here-document without its end");
        }
        if self.accept(")") { Ok(()) } else { self.fail("`(` without its `)`") }
    }

    /// A script inside backquotes.
    pub(super) fn inner_script(&mut self, text: &str) -> Result<()> {
        self.script.branches = true;
        if self.depth >= MAX_DEPTH {
            return self.fail("commands nested too deeply");
        }
        Parser::new(text, self.script, self.depth + 1).whole()
    }

    fn simple(&mut self) -> Result<()> {
        let mut simple = Simple::default();
        loop {
            self.skip_blanks();
            if let Some(redirection) = self.redirection()? {
                simple.redirections.push(redirection);
                continue;
            }
            match self.peek() {
                None | Some('\n' | '|' | '&' | ';' | ')') => break,
                Some('(') if simple.words.len() == 1 && simple.redirections.is_empty() => {
                    return self.function();
                }
                Some('(') => return self.fail("`(` inside a command"),
                Some(_) => {}
            }
            let spelt = self.word()?;
            if matches!(self.peek(), Some('<' | '>')) && names_descriptor(&spelt.word.shown) {
                self.unfollowed("a descriptor in a variable");
            }
            match spelt.assigns {
                Some(name) if simple.words.is_empty() => {
                    if self.peek() == Some('(') {
                        self.array()?;
                    }
                    simple.assignments.push(Assignment { name, shown: spelt.word.shown });
                }
                _ if spelt.assigns_element && simple.words.is_empty() => {
                    self.unfollowed("an assignment to an element");
                    simple.words.push(spelt.word);
                }
                _ => simple.words.push(spelt.word),
            }
        }
        if simple == Simple::default() {
            return self.fail("a command was expected");
        }
        self.script.commands.push(simple);
        Ok(())
    }

    /// What follows a function's name: its parentheses, and the command that is its body.
    fn function(&mut self) -> Result<()> {
        self.unfollowed("a function");
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail("commands nested too deeply");
        }
        if self.accept("(") {
            self.skip_blanks();
            if !self.accept(")") {
                return self.fail("`(` inside a command");
            }
        }
        self.skip_lines()?;
        self.command()?;
        self.depth -= 1;
        Ok(())
    }

    /// `NAME=(…)`.
    fn array(&mut self) -> Result<()> {
        self.unfollowed("a list in a variable");
        self.at += 1;
        loop {
            self.skip_lines()?;
            if self.accept(")") {
                return Ok(());
            }
            self.word()?;
        }
    }
}

/// Whether it is a name that a variable can have.
pub(super) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
