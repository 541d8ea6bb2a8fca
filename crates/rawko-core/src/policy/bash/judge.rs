//! The allowlist: every name that would run is listed, and nothing listed is told to run or write more.

use super::SHOWN;
use super::builtins;
use super::git;
use super::options::Refused;
use super::programs;
use super::script::{Effect, Redirection, Script, Word};
use super::stream_editors;
use super::wrappers;
use crate::text::truncate;

/// Directories whose programs may be named by path, if their names are listed.
const SYSTEM: [&str; 2] = ["/bin/", "/usr/bin/"];

/// Judges everything that a script would do.
pub(super) fn judge(script: &Script, allowed: &[String]) -> Refused {
    if let Some(what) = script.unfollowed.first() {
        return Err(format!(
            "{} is not allowed under an allowlist. Write it more plainly.",
            truncate(what, SHOWN)
        ));
    }
    if let Some(name) = script.loop_variables.iter().find(|name| !is_harmless_variable(name)) {
        return Err(changes_meaning(name));
    }
    script.redirections.iter().try_for_each(redirection)?;
    let mut directory = Directory { below: Some(0), branches: script.branches };
    for simple in &script.commands {
        if let Some(bad) = simple.assignments.iter().find(|a| !is_harmless_variable(&a.name)) {
            return Err(changes_meaning(&bad.name));
        }
        simple.redirections.iter().try_for_each(redirection)?;
        match simple.words.split_first() {
            None => {}
            Some((name, arguments)) if name.text() == Some("cd") => directory.change(arguments)?,
            Some(_) => command(&simple.words, allowed)?,
        }
    }
    Ok(())
}

/// Judges one command: a name and its arguments.
pub(super) fn command(words: &[Word], allowed: &[String]) -> Refused {
    let Some((name, arguments)) = words.split_first() else { return Ok(()) };
    let Some(text) = name.text() else {
        return Err(format!(
            "the name of a program must be spelt out, not come from an expansion: `{}`.",
            truncate(&name.shown, SHOWN)
        ));
    };
    let program = SYSTEM.iter().find_map(|dir| text.strip_prefix(dir)).unwrap_or(text);
    if program.contains('/') {
        return Err(format!("`{}` is a path, not the name of a program.", truncate(text, SHOWN)));
    }
    if !allowed.iter().any(|a| a == program) {
        let shown = truncate(program, SHOWN);
        return Err(format!(
            "`{shown}` is not listed. To allow it, add `- {shown}` under tools.bashFilter.allowedCommands of this agent. \
             Listed are: {}.",
            if allowed.is_empty() { "none".to_owned() } else { truncate(&allowed.join(", "), 400) }
        ));
    }
    let judged = match program {
        "git" => git::judge(arguments),
        "sed" | "gsed" => stream_editors::sed(arguments),
        "awk" | "gawk" | "mawk" | "nawk" => stream_editors::awk(arguments),
        _ => builtins::judge(program, arguments)
            .or_else(|| programs::judge(program, arguments))
            .or_else(|| wrappers::judge(program, arguments, allowed))
            .unwrap_or(Ok(())),
    };
    judged.map_err(|why| format!("`{}`: {why}", truncate(program, SHOWN)))
}

fn redirection(redirection: &Redirection) -> Refused {
    let shown = format!("{} {}", redirection.operator, truncate(&redirection.target.shown, SHOWN));
    match redirection.effect {
        Effect::Nothing => Ok(()),
        Effect::Writes if redirection.target.text() == Some("/dev/null") => Ok(()),
        Effect::Writes => {
            Err(format!("`{shown}` writes a file, which an allowlist does not grant. Use Write instead."))
        }
        Effect::Reads => match redirection.target.text() {
            Some(text) if !is_network(text) => Ok(()),
            Some(_) => Err(format!("`{shown}` opens a network connection.")),
            None => Err(format!("`{shown}`: what is read must be spelt out.")),
        },
    }
}

/// The files by which bash reaches the network, in any spelling of the path.
fn is_network(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
    parts.contains(&"dev") && (parts.contains(&"tcp") || parts.contains(&"udp"))
}

fn changes_meaning(name: &str) -> String {
    format!("setting `{}` can change what runs or what is loaded.", truncate(name, SHOWN))
}

/// Whether no program is known to take orders from this variable.
pub(super) fn is_harmless_variable(name: &str) -> bool {
    /// Wherever in a name.
    const PARTS: [&str; 38] = [
        "BASH", "BROWSER", "CARGO", "COMMAND", "CONFIG", "DYLD", "EDITOR", "EXEC", "FLAGS", "GCONV", "GIT",
        "GLOB", "HIST", "HOME", "INIT", "JAVA", "LESS", "LIBRARY", "MAKE", "MALLOC", "NODE", "NPM",
        "OPTIONS", "OPTS", "PAGER", "PATH", "PERL", "PRELOAD", "PROMPT", "PROXY", "PYTHON", "RUBY", "RUST",
        "SHELL", "SSH", "TERM", "VISUAL", "XDG",
    ];
    /// As a word of a name.
    const WORDS: [&str; 24] = [
        "AR", "CC", "CMD", "CPP", "CXX", "DIR", "ENV", "EUID", "IFS", "LC", "LD", "LOCPATH", "NLSPATH",
        "OPT", "OPTIND", "PS0", "PS1", "PS2", "PS3", "PS4", "TEMP", "TMP", "TMPDIR", "UID",
    ];
    const HARMLESS: [&str; 19] = [
        "CI",
        "COLUMNS",
        "DEBUG",
        "FORCE_COLOR",
        "LANG",
        "LANGUAGE",
        "LC_ALL",
        "LC_COLLATE",
        "LC_CTYPE",
        "LC_MESSAGES",
        "LC_NUMERIC",
        "LC_TIME",
        "LINES",
        "NODE_ENV",
        "NO_COLOR",
        "RUST_BACKTRACE",
        "RUST_LOG",
        "TERM",
        "TZ",
    ];
    if HARMLESS.contains(&name) {
        return true;
    }
    // Names are told apart by case, and next to no program looks at one in small letters.
    if !name.starts_with('_') && !name.chars().any(|c| c.is_ascii_uppercase()) {
        return !["proxy", "npm", "config"].iter().any(|part| name.contains(part));
    }
    let upper = name.to_ascii_uppercase();
    let orders =
        PARTS.iter().any(|part| upper.contains(part)) || upper.split('_').any(|word| WORDS.contains(&word));
    !orders && !upper.starts_with('_') && !upper.ends_with("RC")
}

/// Where `cd` has led, as far as it is known.
struct Directory {
    /// How deep below the project.
    below: Option<usize>,
    /// The script does not run straight through: where a `cd` leads may depend on what went before.
    branches: bool,
}

impl Directory {
    fn change(&mut self, arguments: &[Word]) -> Refused {
        let target = match arguments {
            [only] => only.text(),
            [dashes, only] if dashes.text() == Some("--") => only.text(),
            _ => None,
        };
        let target = target.filter(|t| !t.is_empty() && !t.starts_with(['-', '/', '~']));
        let Some(target) = target else {
            return Err("`cd` may only go to a directory of the project that is spelt out.".into());
        };
        let start = if self.branches { 0 } else { self.below.unwrap_or(0) };
        let mut depth = start;
        for part in target.split('/').filter(|part| !part.is_empty() && *part != ".") {
            if part == ".." {
                let Some(up) = depth.checked_sub(1) else {
                    return Err(format!("`cd {}` may lead out of the project.", truncate(target, SHOWN)));
                };
                depth = up;
            } else {
                depth += 1;
            }
        }
        self.below = Some(depth);
        Ok(())
    }
}

/// Whether a path is relative and stays below where it starts.
pub(super) fn stays_below(path: &str) -> bool {
    Directory { below: Some(0), branches: false }.change(&[Word::literal(path)]).is_ok()
}
