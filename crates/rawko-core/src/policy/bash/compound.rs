//! Compound commands: groups, conditions, loops, `case`, `[[ ]]`, functions, and lists in variables.

use super::calculation::{are_integers, compared, plain_steps};
use super::parser::{Parser, Result, is_name};
use super::script::{CommandList, Flow, LoopVariable, Member, PlainConstruct, ShellWord};

impl Parser<'_> {
    /// The command that the reserved word `word` begins.
    pub(super) fn compound(&mut self, word: &'static str) -> Result<Member> {
        let first = self.script.commands.len();
        match word {
            "{" => return self.group().map(Member::Group),
            "if" => self.unsure(Self::condition)?,
            "while" | "until" => {
                self.accept(word);
                self.unsure(|this| this.body("do").and_then(|_| this.body("done")))?;
            }
            "for" => self.unsure(|this| this.for_loop(word))?,
            "select" => {
                self.unfollowed("`select`");
                self.unsure(|this| this.for_loop(word))?;
            }
            "function" => {
                self.accept(word);
                self.skip_blanks();
                self.word()?;
                self.skip_blanks();
                self.function()?;
                return Ok(Member::Other(first..self.script.commands.len()));
            }
            "case" => self.unsure(Self::case)?,
            "[[" => self.test()?,
            "coproc" => return self.fail("`coproc` is not understood"),
            _ => return self.fail(&format!("`{word}` where a command was expected")),
        }
        self.redirections()?;
        Ok(Member::Other(first..self.script.commands.len()))
    }

    fn group(&mut self) -> Result<CommandList> {
        let (first, before) = (self.script.commands.len(), self.script.redirections.len());
        self.accept("{");
        let list = match self.flow {
            Flow::Straight => self.body("}")?,
            Flow::Chained(_) | Flow::Unsure => self.unsure(|this| this.body("}"))?,
        };
        self.redirections()?;
        // Where a file cannot be opened the group does not run.
        if self.script.redirections.len() > before {
            self.unsure_since(first);
        }
        Ok(list)
    }

    fn condition(&mut self) -> Result<()> {
        self.accept("if");
        self.body("then")?;
        loop {
            self.skip_lines()?;
            self.list()?;
            self.skip_lines()?;
            if self.reserved() == Some("elif") {
                self.accept("elif");
                self.body("then")?;
            } else if self.reserved() == Some("else") {
                self.accept("else");
                return self.body("fi").map(drop);
            } else {
                return self.expect("fi");
            }
        }
    }

    /// `for` and `select`.
    fn for_loop(&mut self, keyword: &str) -> Result<()> {
        self.accept(keyword);
        self.skip_blanks();
        if self.peek() == Some('(') {
            let start = self.position();
            self.skip_balanced('(', ')')?;
            let text = self.text_since(start);
            let inside = text.strip_prefix("((").and_then(|rest| rest.strip_suffix("))"));
            self.unfollowed_but("`for ((`", inside.and_then(plain_steps));
            self.skip_blanks();
            self.accept(";");
            self.expect("do")?;
            return self.body("done").map(drop);
        }
        let name = self.word()?;
        let Some(variable) = name.word.text().filter(|n| name.is_bare && is_name(n)) else {
            return self.fail("`for` without a name");
        };
        let name = variable.to_owned();
        let mut words = Vec::new();
        self.skip_lines()?;
        if self.reserved() == Some("in") {
            self.accept("in");
            loop {
                self.skip_blanks();
                if matches!(self.peek(), Some(';' | '\n')) {
                    break;
                }
                words.push(self.word()?.word);
            }
        }
        let is_integer = keyword == "for" && are_integers(&words);
        self.script.loop_variables.push(LoopVariable { name, is_integer });
        self.accept(";");
        self.expect("do")?;
        self.body("done").map(drop)
    }

    fn case(&mut self) -> Result<()> {
        self.accept("case");
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
        const COMPARES: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
        const EVALUATES: [&str; 3] = ["-v", "-R", "=~"];
        const SYMBOLS: [&str; 7] = ["&&", "||", "|", "(", ")", "<", ">"];
        self.accept("[[");
        // The word before this one, and where `unfollowed` has the operator before it.
        let mut before: Option<ShellWord> = None;
        let mut operator: Option<usize> = None;
        loop {
            self.skip_lines()?;
            if self.reserved() == Some("]]") {
                self.accept("]]");
                return Ok(());
            }
            // `<(` runs commands here as everywhere.
            let is_process = matches!(self.peek(), Some('<' | '>')) && self.peek_at(1) == Some('(');
            if !is_process && SYMBOLS.into_iter().any(|symbol| self.accept(symbol)) {
                (before, operator) = (None, None);
                continue;
            }
            let word = self.word()?.word;
            if let Some(at) = operator.take() {
                // Both sides are calculated.
                let right = compared(&word);
                let one = &mut self.script.unfollowed[at];
                one.plain = one.plain.take().zip(right).map(|(left, right)| left.with(right));
            } else if word.text().is_some_and(|text| COMPARES.contains(&text)) {
                operator = Some(self.script.unfollowed.len());
                self.unfollowed_but(
                    &format!("`{}` in [[ ]]", word.shown),
                    before.as_ref().and_then(compared),
                );
            } else if word.text().is_some_and(|text| EVALUATES.contains(&text)) {
                self.unfollowed(&format!("`{}` in [[ ]]", word.shown));
            }
            before = Some(word);
        }
    }

    /// What follows a function's name: its parentheses, and the command that is its body.
    pub(super) fn function(&mut self) -> Result<()> {
        self.unfollowed("a function");
        self.enter()?;
        if self.accept("(") {
            self.skip_blanks();
            if !self.accept(")") {
                return self.fail("`(` inside a command");
            }
        }
        self.skip_lines()?;
        self.unsure(Self::command)?;
        self.leave();
        Ok(())
    }

    /// `NAME=(…)`.
    pub(super) fn array(&mut self) -> Result<()> {
        let at = self.script.unfollowed.len();
        self.unfollowed_but("a list in a variable", Some(PlainConstruct::default()));
        let begin = self.at;
        self.accept("(");
        loop {
            self.skip_lines()?;
            if self.accept(")") {
                break;
            }
            // `[INDEX]=value` evaluates the index.
            if self.peek() == Some('[') {
                self.script.unfollowed[at].plain = None;
            }
            self.word()?;
        }
        // There bash 5.2 takes an escaped character as syntax, gives up at the end of the line, and runs the next one.
        if self.in_substitution && self.text.get(begin..self.at).unwrap_or_default().contains(&'\\') {
            return self.fail("`\\` in a list of a variable inside `$( )` or `<( )`");
        }
        // The word goes on: in `a=()# x` nothing is a comment, and `x` is run.
        match self.peek() {
            None | Some(' ' | '\t' | '\n' | '|' | '&' | ';' | '(' | ')' | '<' | '>') => Ok(()),
            Some(_) => self.fail("text directly after the list of a variable"),
        }
    }
}
