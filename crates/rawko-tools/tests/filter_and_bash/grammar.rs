//! Command lines made of what is hard to judge, and small changes of them.
//!
//! Unlisted programs are wherever bash should see text: in quotes, comments, here-documents and patterns, and wherever
//! a listed program could be made to start or write something by an option.

use std::process::Command;

use super::dice::Dice;
use super::options::{LISTED, OPTIONS, WRAPPERS};
use super::texts::{BODY, COMMANDS, INERT, JOINTS, PLAIN_WORDS, TOKENS, WORDS};
use super::values::{CALCULATIONS, OPERATORS, SETTINGS};

pub(crate) struct Generator {
    dice: Dice,
    /// Lines to change.
    earlier: Vec<String>,
    /// All variables that bash has.
    variables: Vec<String>,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed), earlier: Vec::new(), variables: variables() }
    }

    /// The next line: a new one, or a change of one that was kept.
    pub(crate) fn line(&mut self) -> String {
        if self.earlier.is_empty() || self.dice.once_in(2) { self.script(2) } else { self.changed() }
    }

    /// Keeps a line that the filter allows: its neighbours are the most interesting ones.
    pub(crate) fn keep(&mut self, line: &str) {
        const KEPT: usize = 500;
        if line.len() > 400 {
            return;
        }
        if self.earlier.len() < KEPT {
            self.earlier.push(line.to_owned());
        } else {
            let at = self.dice.below(KEPT);
            line.clone_into(&mut self.earlier[at]);
        }
    }

    fn changed(&mut self) -> String {
        let at = self.dice.below(self.earlier.len());
        let mut line: Vec<char> = self.earlier[at].chars().collect();
        for _ in 0..=self.dice.below(3) {
            let start = self.dice.below(line.len() + 1);
            let end = (start + self.dice.below(6)).min(line.len());
            match self.dice.below(4) {
                0 => drop(line.drain(start..end)),
                1 => {
                    let copy: Vec<char> = line[start..end].to_vec();
                    let to = self.dice.below(line.len() + 1);
                    line.splice(to..to, copy);
                }
                _ => {
                    let token = self.dice.of(TOKENS);
                    line.splice(start..start, token.chars());
                }
            }
        }
        line.into_iter().filter(|c| *c != '\0').collect()
    }

    /// Fills in a template: `@` is a word, `&` a script, `~` text that must not run, `^` a here-document, `%` an unlisted
    /// program, `\u{1}` an occasional joined line, `\u{2}` a listed program with words of its own, `\u{3}` a wrapper,
    /// `\u{4}` an option, `\u{5}` something to calculate, `\u{6}` an operator of an expansion, `\u{7}` a variable that is set,
    /// `\u{8}` the name of a variable that bash has.
    fn fill(&mut self, template: &str, depth: usize) -> String {
        let mut text = String::new();
        for c in template.chars() {
            match c {
                '@' => text.push_str(&self.word(depth)),
                '&' if depth == 0 => text.push_str("ls"),
                '&' => text.push_str(&self.script(depth - 1)),
                '~' => text.push_str(self.dice.of(INERT)),
                '^' => text.push_str(&self.heredoc()),
                '%' => text.push_str(self.dice.of(&["evil", "touch z", "rm z"])),
                '\u{1}' => text.push_str(if self.dice.once_in(4) { "\\\n" } else { "" }),
                '\u{2}' => text.push_str(&self.call(depth)),
                '\u{3}' => {
                    let wrapper = self.dice.of(WRAPPERS);
                    text.push_str(&self.fill(wrapper, 0));
                }
                '\u{4}' => text.push_str(&self.option()),
                '\u{5}' => text.push_str(self.dice.of(CALCULATIONS)),
                '\u{6}' => text.push_str(self.dice.of(OPERATORS)),
                '\u{7}' => {
                    let setting = self.dice.of(SETTINGS);
                    text.push_str(&self.fill(setting, 0));
                }
                '\u{8}' => {
                    let at = self.dice.below(self.variables.len());
                    text.push_str(&self.variables[at]);
                }
                c => text.push(c),
            }
        }
        text
    }

    fn call(&mut self, depth: usize) -> String {
        let mut text = self.dice.of(LISTED).to_owned();
        for _ in 0..self.dice.below(4) {
            text.push(' ');
            let word = if self.dice.once_in(4) { self.word(depth) } else { self.option() };
            text.push_str(&word);
        }
        text
    }

    fn option(&mut self) -> String {
        if self.dice.once_in(6) {
            let letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
            let mut text = "-".to_owned();
            for _ in 0..=self.dice.below(2) {
                text.push(char::from(letters[self.dice.below(letters.len())]));
            }
            text.push_str(self.dice.of(&["", " z", "z", " evil", "=z"]));
            return text;
        }
        let option = self.dice.of(OPTIONS);
        let mut text = option.replace('%', "evil");
        // The same word in another spelling.
        match self.dice.below(12) {
            0 => text = text.replacen('-', "\\-", 1),
            1 if !text.contains(['\'', '"']) => text = format!("'{text}'"),
            2 if !text.contains(['\'', '"']) => text = format!("$'{text}'"),
            3 => text = text.replacen('o', "\"o\"", 1),
            4 => text = text.replacen('e', "\\\ne", 1),
            _ => {}
        }
        text
    }

    fn word(&mut self, depth: usize) -> String {
        let templates = if depth == 0 { PLAIN_WORDS } else { WORDS };
        let template = self.dice.of(templates);
        if depth == 0 && matches!(template, "@" | "%") {
            return template.to_owned();
        }
        self.fill(template, depth.saturating_sub(1))
    }

    fn script(&mut self, depth: usize) -> String {
        let template = self.dice.of(COMMANDS);
        let mut text = self.fill(template, depth);
        while self.dice.once_in(3) {
            let (joint, template) = (self.dice.of(JOINTS), self.dice.of(COMMANDS));
            // The `&` of an operator is an ordinary character.
            text.push_str(&joint.replace('~', self.dice.of(INERT)).replace('\u{1}', ""));
            text.push_str(&self.fill(template, depth.saturating_sub(1)));
        }
        text
    }

    fn heredoc(&mut self) -> String {
        let end = self.dice.of(&["E", "EOF"]);
        let start = self.dice.of(&["<<'%'", "<<%", "<<-%", "<<\\%", "<<-\"%\""]).replace('%', end);
        let rest = self.dice.of(&["", "", " | wc", " && ls", " # touch z", " >/dev/null"]);
        let mut text = format!("{start}{rest}\n");
        for _ in 0..self.dice.below(4) {
            text.push_str(&self.dice.of(BODY).replace('%', end));
            text.push('\n');
        }
        text + end + "\n"
    }
}

/// The names of all variables that bash has without being asked to, and of those that it makes when they are first used.
fn variables() -> Vec<String> {
    const LATER: [&str; 8] =
        ["COMP_POINT", "COPROC", "FUNCNAME", "HISTSIZE", "MAPFILE", "OPTARG", "READLINE_POINT", "TMOUT"];
    let shell = rawko_tools::shell().unwrap();
    let output = Command::new(shell).args(["-c", "compgen -v"]).env_clear().output().unwrap();
    let names = String::from_utf8(output.stdout).unwrap();
    let names: Vec<String> = names.lines().chain(LATER).map(str::to_owned).collect();
    assert!(names.iter().any(|name| name == "RANDOM"), "{names:?}");
    names
}
