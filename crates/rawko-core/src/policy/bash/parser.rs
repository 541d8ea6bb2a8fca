//! Takes a command apart as bash would, as far as bash's grammar is understood here.
//!
//! Fails on what it does not understand. Where bash would run something in a way that is not followed (arithmetic
//! with names, functions, …) it goes on and notes it. It is recursive, so it counts how deep it is: no command may
//! overflow the caller's stack.

use super::redirect::{Heredoc, names_descriptor};
use super::script::{
    AndOrList, Assignment, CommandList, Flow, Joint, Member, ParsedScript, Pipeline, PlainConstruct, Simple,
    Unfollowed,
};

/// Bytes of a command.
const MAX_LENGTH: usize = 100_000;
/// Commands within commands. Models nest three or four deep.
const MAX_DEPTH: usize = 24;

/// A part of a command, or why it cannot be understood.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// Words that are syntax where a command may begin.
const RESERVED: [&str; 22] = [
    "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if",
    "in", "select", "then", "time", "until", "while", "{", "}",
];

/// Whether `command` can be looked at at all.
pub(super) fn check_size(command: &str) -> Result<()> {
    if command.len() > MAX_LENGTH {
        return Err(format!("it is longer than {MAX_LENGTH} bytes"));
    }
    if command.contains('\0') {
        return Err("it contains a NUL".into());
    }
    Ok(())
}

/// Takes `command` apart.
pub(crate) fn parse(command: &str) -> Result<ParsedScript> {
    check_size(command)?;
    let mut script = ParsedScript::default();
    Parser::new(command, &mut script, 0).whole()?;
    Ok(script)
}

pub(super) struct Parser<'s> {
    pub(super) text: Vec<char>,
    pub(super) at: usize,
    depth: usize,
    /// Whether the commands here run at all, and in the shell itself.
    pub(super) flow: Flow,
    /// Inside `$( )` or `<( )`, where bash looks for the end of a here-document in another way.
    pub(super) in_substitution: bool,
    /// Inside the text of a here-document, where another one would be read in ways that are not followed.
    pub(super) in_heredoc: bool,
    pub(super) heredocs: Vec<Heredoc>,
    pub(super) script: &'s mut ParsedScript,
}

impl<'s> Parser<'s> {
    fn new(text: &str, script: &'s mut ParsedScript, depth: usize) -> Self {
        let text = text.chars().collect();
        let flow = if depth == 0 { Flow::Straight } else { Flow::Unsure };
        let heredocs = Vec::new();
        Self { text, at: 0, depth, flow, in_substitution: false, in_heredoc: false, heredocs, script }
    }

    fn whole(mut self) -> Result<()> {
        self.skip_lines()?;
        if self.peek().is_some() {
            let is_outermost = self.depth == 0;
            let list = self.list()?;
            if is_outermost {
                self.script.list = list;
            }
        }
        match self.peek() {
            Some(c) => self.fail(&format!("`{c}` where no command can begin")),
            None if self.heredocs.is_empty() => Ok(()),
            None => self.fail("a here-document without its end"),
        }
    }

    pub(super) fn unfollowed(&mut self, what: &str) {
        self.unfollowed_but(what, None);
    }

    /// The same of a construct that may be plain.
    pub(super) fn unfollowed_but(&mut self, what: &str, plain: Option<PlainConstruct>) {
        self.script.unfollowed.push(Unfollowed { what: what.to_owned(), plain });
    }

    /// Goes one command deeper. [`leave`](Self::leave) comes back; an error ends the parser anyway.
    pub(super) fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(&format!("commands nested more than {MAX_DEPTH} deep"));
        }
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// The reserved word here, if there is one.
    pub(super) fn reserved(&self) -> Option<&'static str> {
        let is_end = |c: Option<char>| c.is_none_or(|c| " \t\n|&;()<>".contains(c));
        RESERVED.into_iter().find(|word| {
            let length = word.chars().count();
            word.chars().enumerate().all(|(i, c)| self.peek_at(i) == Some(c)) && is_end(self.peek_at(length))
        })
    }

    pub(super) fn expect(&mut self, word: &'static str) -> Result<()> {
        self.skip_lines()?;
        if self.reserved() == Some(word) && self.accept(word) {
            Ok(())
        } else {
            self.fail(&format!("`{word}` is missing"))
        }
    }

    /// One or more commands, up to something that ends a list.
    pub(super) fn list(&mut self) -> Result<CommandList> {
        self.enter()?;
        let mut list = CommandList::default();
        loop {
            let first = self.script.commands.len();
            let mut and_or = self.and_or()?;
            self.skip_blanks();
            match self.peek() {
                Some(';') if self.peek_at(1) != Some(';') => {
                    self.next();
                }
                Some('&') => {
                    self.next();
                    self.unsure_since(first);
                    and_or.in_background = true;
                }
                Some('\n') => {}
                _ => {
                    list.0.push(and_or);
                    break;
                }
            }
            list.0.push(and_or);
            self.skip_lines()?;
            if self.ends_list() {
                break;
            }
        }
        self.leave();
        Ok(list)
    }

    pub(super) fn ends_list(&self) -> bool {
        let closes = matches!(self.peek(), None | Some(')'))
            || (self.peek() == Some(';') && self.peek_at(1) == Some(';'));
        closes
            || matches!(self.reserved(), Some("}" | "do" | "done" | "elif" | "else" | "esac" | "fi" | "then"))
    }

    /// What was read since the command number `first` runs in a shell of its own, or on some condition.
    pub(super) fn unsure_since(&mut self, first: usize) {
        for command in &mut self.script.commands[first..] {
            command.flow = Flow::Unsure;
        }
    }

    fn and_or(&mut self) -> Result<AndOrList> {
        let outer = self.flow;
        let first = self.script.commands.len();
        self.script.lists += 1;
        let list = self.script.lists;
        let mut pipelines = 1;
        let pipeline = self.pipeline()?;
        let mut and_or = AndOrList { first: pipeline, rest: Vec::new(), in_background: false };
        loop {
            self.skip_blanks();
            let since = &self.script.commands[first..];
            let only_cd = since.len() == pipelines && since.iter().all(Simple::is_cd);
            let or = self.accept("||");
            if !or && !self.accept("&&") {
                self.flow = outer;
                return Ok(and_or);
            }
            let second = self.script.commands.len();
            self.flow = match self.flow {
                Flow::Straight if only_cd && !or => Flow::Straight,
                Flow::Straight | Flow::Chained(_) if !or => Flow::Chained(list),
                Flow::Straight | Flow::Chained(_) | Flow::Unsure => Flow::Unsure,
            };
            self.skip_lines()?;
            let pipeline = self.pipeline()?;
            and_or.rest.push((if or { Joint::Or } else { Joint::And }, pipeline));
            pipelines += 1;
            if let ([only], true) = (&mut self.script.commands[second..], only_cd && or) {
                only.follows_failed_cd = true;
            }
        }
    }

    fn pipeline(&mut self) -> Result<Pipeline> {
        let first = self.script.commands.len();
        let mut negated = false;
        loop {
            self.skip_blanks();
            match self.reserved() {
                Some("!") => {
                    self.next();
                    negated = true;
                }
                Some("time") => {
                    self.accept("time");
                    self.skip_blanks();
                    if self.peek() == Some('-') {
                        self.unfollowed("`time` with an option");
                    }
                }
                _ => break,
            }
        }
        let mut members = vec![self.command()?];
        loop {
            self.skip_blanks();
            if self.peek() != Some('|') || self.peek_at(1) == Some('|') {
                break;
            }
            self.next();
            self.accept("&");
            self.skip_lines()?;
            members.push(self.command()?);
        }
        if negated || members.len() > 1 {
            self.unsure_since(first);
        }
        Ok(Pipeline { is_negated: negated, members })
    }

    pub(super) fn command(&mut self) -> Result<Member> {
        let first = self.script.commands.len();
        if self.peek() == Some('(') {
            self.next();
            let member = if self.peek() == Some('(') {
                self.arithmetic('(', ')')?;
                Member::Other(first..self.script.commands.len())
            } else {
                Member::Group(self.subshell()?)
            };
            self.redirections()?;
            return Ok(member);
        }
        match self.reserved() {
            None => self.simple(),
            Some(word) => self.compound(word),
        }
    }

    /// Commands up to a reserved word, and that word.
    pub(super) fn body(&mut self, end: &'static str) -> Result<CommandList> {
        self.skip_lines()?;
        let list = self.list()?;
        self.expect(end)?;
        Ok(list)
    }

    /// Does `read` where nothing is sure: in a branch, in a loop, in another shell.
    pub(super) fn unsure<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let outer = std::mem::replace(&mut self.flow, Flow::Unsure);
        let done = read(self)?;
        self.flow = outer;
        Ok(done)
    }

    /// Commands inside `$( )` or `<( )`, after the opening parenthesis.
    pub(super) fn substitution(&mut self) -> Result<()> {
        let outer = std::mem::replace(&mut self.in_substitution, true);
        self.subshell()?;
        self.in_substitution = outer;
        Ok(())
    }

    /// Commands up to `)`, in a shell of their own.
    fn subshell(&mut self) -> Result<CommandList> {
        if !self.heredocs.is_empty() {
            return self.fail("a substitution on the line of a here-document");
        }
        self.skip_lines()?;
        let list = if self.peek() == Some(')') { CommandList::default() } else { self.unsure(Self::list)? };
        if !self.heredocs.is_empty() {
            return self.fail("a here-document without its end");
        }
        if self.accept(")") { Ok(list) } else { self.fail("`(` without its `)`") }
    }

    /// A script inside backquotes.
    pub(super) fn inner_script(&mut self, text: &str) -> Result<()> {
        self.enter()?;
        let mut inner = Parser::new(text, self.script, self.depth);
        inner.in_heredoc = self.in_heredoc;
        inner.whole()?;
        self.leave();
        Ok(())
    }

    /// The text of a here-document in which bash expands, read as a script of its own.
    pub(super) fn expansions_of(&mut self, text: &str) -> Result<ParsedScript> {
        let mut script = ParsedScript::default();
        let mut inner = Parser::new(text, &mut script, self.depth + 1);
        inner.in_heredoc = true;
        inner.text_with_expansions()?;
        Ok(script)
    }

    fn simple(&mut self) -> Result<Member> {
        let first = self.script.commands.len();
        let mut simple = Simple::new(self.flow);
        loop {
            self.skip_blanks();
            if let Some(redirection) = self.redirection()? {
                simple.redirections.push(redirection);
                continue;
            }
            match self.peek() {
                None | Some('\n' | '|' | '&' | ';' | ')') => break,
                Some('(') if simple.words.len() == 1 && simple.redirections.is_empty() => {
                    self.function()?;
                    return Ok(Member::Other(first..self.script.commands.len()));
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
                    let is_list = self.peek() == Some('(');
                    if is_list {
                        self.array()?;
                    }
                    let is_integer = spelt.assigns_integer && !is_list;
                    simple.assignments.push(Assignment { name, shown: spelt.word.shown, is_integer });
                }
                _ if spelt.assigns_element && simple.words.is_empty() => {
                    self.unfollowed("an assignment to an element");
                    simple.words.push(spelt.word);
                }
                _ => simple.words.push(spelt.word),
            }
        }
        if simple.is_empty() {
            return self.fail("a command was expected");
        }
        self.script.commands.push(simple);
        Ok(Member::Simple(self.script.commands.len() - 1))
    }
}

/// Whether it is a name that a variable can have.
pub(super) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
