//! `sed` and `awk`: languages that can write files and start programs. Scripts that plainly do neither pass.

use super::denial::PolicyResult;
use super::options::ProgramOptions;
use super::script::ShellWord;
use super::write_places::WritePlaces;

const SED: &str = "this script is not known to only read. Use p, d, q, =, s///, y/// and addresses; \
                   to change files use Edit, if you have it.";
const AWK: &str =
    "this program is not known to only read. Leave out system, getline, pipes, redirections and @.";

/// Judges a call of `sed`.
pub(super) fn sed(
    arguments: &[ShellWord],
    options: &ProgramOptions,
    writable: &WritePlaces<'_>,
) -> PolicyResult {
    let (arguments, in_place) = without_in_place(arguments, writable);
    options.operands(&arguments, writable)?;
    let (scripts, files) = sed_scripts(&arguments);
    let reads_only = |script: &Option<&str>| script.is_some_and(sed_reads_only);
    if scripts.is_empty() || !scripts.iter().all(reads_only) {
        return Err(SED.into());
    }
    if in_place { files.into_iter().try_for_each(|file| writable.check(file)) } else { Ok(()) }
}

/// The arguments without `-i` where files may be edited in place, and whether it was there. What follows the letter is the
/// ending of a copy, unless it could lead elsewhere.
fn without_in_place(arguments: &[ShellWord], writable: &WritePlaces<'_>) -> (Vec<ShellWord>, bool) {
    let mut found = false;
    let mut words = Vec::with_capacity(arguments.len());
    let mut before_value = false;
    let mut only_operands = false;
    for word in arguments {
        let text = word.text().filter(|_| !writable.is_empty() && !before_value && !only_operands);
        only_operands |= text == Some("--");
        let split = text.and_then(|text| match text.strip_prefix("--in-place") {
            Some(ending) => (ending.is_empty() || ending.starts_with('=')).then_some(("", ending)),
            None if text.starts_with("--") => None,
            None => text.strip_prefix('-').filter(|letters| !letters.contains('e'))?.split_once('i'),
        });
        before_value = text.is_some_and(|text| {
            text == "--expression"
                || (text.ends_with('e') && text.starts_with('-') && !text.starts_with("--"))
        });
        match split {
            Some((letters, ending)) if !ending.contains(['/', '*']) => {
                found = true;
                if !letters.is_empty() {
                    words.push(ShellWord::literal(format!("-{letters}")));
                }
            }
            _ => words.push(word.clone()),
        }
    }
    (words, found)
}

/// The scripts among the arguments, and the files: the values of `-e`, or else the first operand. `None` for a script that
/// is not known.
fn sed_scripts(arguments: &[ShellWord]) -> (Vec<Option<&str>>, Vec<&ShellWord>) {
    let mut given = Vec::new();
    let mut operands: Vec<&ShellWord> = Vec::new();
    let mut only_operands = false;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.text() {
            Some("--") if !only_operands => only_operands = true,
            Some("--expression") if !only_operands => given.push(words.next().and_then(ShellWord::text)),
            Some(text) if !only_operands && text.starts_with("--expression=") => {
                given.push(text.strip_prefix("--expression="));
            }
            Some(text) if !only_operands && text.starts_with("--") => {}
            Some(text) if !only_operands && text.len() > 1 && text.starts_with('-') => {
                if let Some((_, glued)) = text.split_once('e') {
                    given.push(if glued.is_empty() {
                        words.next().and_then(ShellWord::text)
                    } else {
                        Some(glued)
                    });
                }
            }
            _ => operands.push(word),
        }
    }
    if given.is_empty() && !operands.is_empty() {
        given.push(operands.remove(0).text());
    }
    (given, operands)
}

/// Whether a script consists of commands that neither write nor run.
fn sed_reads_only(script: &str) -> bool {
    let mut rest = Cursor(script);
    loop {
        rest.skip(|c| c.is_ascii_whitespace() || c == ';' || c == '}');
        if rest.0.is_empty() {
            return true;
        }
        if rest.0.starts_with('#') {
            rest.skip(|c| c != '\n');
            continue;
        }
        if rest.sed_command().is_none() {
            return false;
        }
    }
}

struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<char> {
        self.0.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.0 = &self.0[c.len_utf8()..];
        Some(c)
    }

    fn skip(&mut self, which: impl Fn(char) -> bool) {
        self.0 = self.0.trim_start_matches(which);
    }

    /// Addresses, one command and what ends it.
    fn sed_command(&mut self) -> Option<()> {
        self.sed_address()?;
        self.skip(|c| c == ' ');
        if self.peek() == Some(',') {
            self.next();
            self.skip(|c| c == ' ');
            self.sed_address()?;
        }
        self.skip(|c| c == ' ' || c == '!');
        match self.next()? {
            '{' => return Some(()),
            'p' | 'd' | 'n' | 'N' | 'h' | 'H' | 'g' | 'G' | 'x' | 'D' | 'P' | '=' => {}
            'q' | 'Q' | 'l' => {
                self.skip(|c| c == ' ');
                self.skip(|c| c.is_ascii_digit());
            }
            'a' | 'i' | 'c' => return self.sed_lines(),
            ':' | 'b' | 't' | 'T' => {
                self.skip(|c| c == ' ');
                self.skip(|c| c.is_ascii_alphanumeric() || c == '_');
            }
            's' => {
                self.sed_parts()?;
                self.skip(|c| "gpiIM0123456789".contains(c));
            }
            'y' => self.sed_parts()?,
            _ => return None,
        }
        self.skip(|c| c == ' ');
        matches!(self.peek(), None | Some(';' | '\n' | '}')).then_some(())
    }

    /// The text of `a`, `i` and `c`: to the end of the line, and further after a backslash. What follows a backslash at the
    /// very end is in another script.
    fn sed_lines(&mut self) -> Option<()> {
        loop {
            match self.next() {
                None | Some('\n') => return Some(()),
                Some('\\') => {
                    self.next()?;
                }
                Some(_) => {}
            }
        }
    }

    /// A number, `$`, or a pattern between slashes; or nothing.
    fn sed_address(&mut self) -> Option<()> {
        match self.peek() {
            Some('/') => {
                self.next();
                self.sed_text('/')?;
                self.skip(|c| c == 'I' || c == 'M');
            }
            Some('$') => {
                self.next();
            }
            Some('0'..='9' | '+' | '~') => self.skip(|c| c.is_ascii_digit() || c == '~' || c == '+'),
            // Another delimiter.
            Some('\\') => return None,
            _ => {}
        }
        Some(())
    }

    fn sed_parts(&mut self) -> Option<()> {
        let delimiter = self.next().filter(|c| c.is_ascii_punctuation() && *c != '\\')?;
        self.sed_text(delimiter)?;
        self.sed_text(delimiter)
    }

    /// Text up to a delimiter. Where implementations could disagree on its end it is not known.
    fn sed_text(&mut self, delimiter: char) -> Option<()> {
        let start: &'a str = self.0;
        loop {
            match self.next()? {
                '\n' => return None,
                '\\' => {
                    self.next().filter(|c| *c != '\n')?;
                }
                c if c == delimiter => break,
                _ => {}
            }
        }
        let text = &start[..start.len() - self.0.len()];
        brackets_are_closed(text).then_some(())
    }
}

/// A delimiter inside brackets ends the text for some implementations and not for others. So there must be no doubt that
/// all brackets are closed before it.
fn brackets_are_closed(text: &str) -> bool {
    let doubtful = ["[]", "[^]", "[.", "[="].iter().any(|start| text.contains(start));
    let classes = text.matches("[:").count() == text.matches(":]").count();
    let closed = text.rfind('[').is_none_or(|open| text[open..].contains(']'));
    !doubtful && classes && closed
}

/// Judges a call of `awk`.
pub(super) fn awk(arguments: &[ShellWord], options: &ProgramOptions) -> PolicyResult {
    let operands = options.operands(arguments, &WritePlaces::none())?;
    match operands.first().and_then(ShellWord::text) {
        Some(program) if awk_reads_only(program) => Ok(()),
        _ => Err(AWK.into()),
    }
}

fn awk_reads_only(program: &str) -> bool {
    let runs = ["system", "getline", "@", "printf |", "print |"].iter().any(|word| program.contains(word));
    // `||` is an or; any other bar may be a pipe.
    let pipes = program.replace("||", "").contains('|');
    !runs && !pipes && !awk_writes(program)
}

/// A `>` redirects inside of an action. Before the first action, and before anything that could hide one, it compares.
fn awk_writes(program: &str) -> bool {
    let hides = program.find(['{', '"', '/', '\n', ';']).unwrap_or(program.len());
    program[hides..].contains('>')
}
