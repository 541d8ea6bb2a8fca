//! Standard output and standard error, and whether they use colors: by `--color`, then `NO_COLOR`, then `CLICOLOR_FORCE`,
//! then whether the output is a terminal.

use std::io::{self, IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::path::Path;

use serde::Serialize;

use crate::output::{Paint, clean_line, escape_json, quoted};

/// `--color`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// Only on a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// `--json`: in which form a command prints what it has to say.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct OutputArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The two outputs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Console {
    output_color: bool,
    error_color: bool,
    is_watched: bool,
    /// The folder that `--cwd` names, as a shell takes it.
    folder: Option<&'static str>,
    /// The file that `--config` names, as a shell takes it.
    config: Option<&'static str>,
}

/// The commands that work in a project.
const OF_A_PROJECT: [&str; 26] = [
    "agents",
    "approve",
    "cancel",
    "config",
    "continue",
    "diff",
    "doctor",
    "explain",
    "fleet",
    "fork",
    "init",
    "inspect",
    "mcp",
    "memory",
    "providers",
    "replay",
    "resume",
    "rewind",
    "run",
    "sessions",
    "skills",
    "steer",
    "tools",
    "trust",
    "usage",
    "watch",
];

/// Those of them that act on the configuration.
const BY_CONFIGURATION: [&str; 4] = ["continue", "fork", "resume", "run"];

impl Console {
    /// The process's outputs, where `env` is its environment. `plain` asks for lines without a movable cursor.
    pub(crate) fn new(choice: ColorChoice, plain: bool, env: impl Fn(&str) -> Option<String>) -> Self {
        let error_is_terminal = io::stderr().is_terminal();
        Self {
            output_color: takes_color(choice, &env, io::stdout().is_terminal()),
            error_color: takes_color(choice, &env, error_is_terminal),
            is_watched: error_is_terminal && !plain && can_have_a_view(&env),
            folder: None,
            config: None,
        }
    }

    /// Outputs without colors.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self::new(ColorChoice::Never, true, |_| None)
    }

    /// The outputs of a command that works in this folder and not in the current one.
    pub(crate) fn in_folder(self, folder: &Path) -> Self {
        Self { folder: Some(named(folder)), ..self }
    }

    /// The outputs of a command that reads this configuration and not the project's.
    pub(crate) fn by_config(self, file: &Path) -> Self {
        Self { config: Some(named(file)), ..self }
    }

    /// A text for people in which the commands of rawko can be typed where the user is.
    pub(crate) fn commands(&self, text: &str) -> String {
        let mut parts = text.split("rawko ");
        let mut typed = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let is_word = !typed.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '/' | '.'));
            let command = part.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default();
            typed.push_str("rawko ");
            let repeated =
                [("-C", self.folder, &OF_A_PROJECT[..]), ("--config", self.config, &BY_CONFIGURATION)];
            for (option, value, commands) in repeated {
                if let Some(value) = value.filter(|_| is_word && commands.contains(&command)) {
                    typed.push_str(&format!("{option} {value} "));
                }
            }
            typed.push_str(part);
        }
        typed
    }

    /// Colors for standard output.
    pub(crate) fn paint(&self) -> Paint {
        Paint::new(self.output_color)
    }

    /// Colors for standard error.
    pub(crate) fn error_paint(&self) -> Paint {
        Paint::new(self.error_color)
    }

    /// Whether standard error is a terminal with a movable cursor, and plain lines were not asked for.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Writes `text` to standard output and flushes it. The caller has removed control codes from foreign text.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Writes `text` and a line break to standard output.
    pub(crate) fn line(&self, text: &str) -> io::Result<()> {
        self.write(&format!("{text}\n"))
    }

    /// Writes `value` to standard output as indented JSON.
    pub(crate) fn json(&self, value: &impl Serialize) -> io::Result<()> {
        self.line(&escape_json(serde_json::to_string_pretty(value)?))
    }

    /// Writes to standard output what a command has to say: `value` as indented JSON for programs, or `text` for people.
    pub(crate) fn output(
        &self,
        as_json: bool,
        value: &impl Serialize,
        text: impl FnOnce(Paint) -> String,
    ) -> io::Result<()> {
        if as_json { self.json(value) } else { self.write(&text(self.paint())) }
    }

    /// Writes `value` to standard output as one line of JSON.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> io::Result<()> {
        self.line(&escape_json(serde_json::to_string(value)?))
    }

    /// Writes `text` to standard error as it is, at once.
    pub(crate) fn write_error(&self, text: &str) -> io::Result<()> {
        let mut out = io::stderr().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

/// Whether somebody can be asked: standard input and standard error are a terminal.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// How wide the terminal is that standard output goes to; `None` where it does not go to one.
pub(crate) fn output_columns() -> Option<usize> {
    columns(&io::stdout())
}

/// How wide the terminal is that standard error goes to, if it goes to one.
pub(crate) fn error_columns() -> Option<usize> {
    columns(&io::stderr())
}

fn columns(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = stream.is_terminal().then(|| rustix::termios::tcgetwinsize(stream).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Whether a terminal can show a view, and its user can use one: a screen reader reads lines that stay.
fn can_have_a_view(env: &impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name: &str| env(name).is_some_and(|value| !matches!(value.trim(), "" | "0" | "false"));
    env("TERM").is_none_or(|term| term != "dumb") && !is_set("RAWKO_PLAIN") && !is_set("ACCESSIBLE")
}

fn takes_color(choice: ColorChoice, env: &impl Fn(&str) -> Option<String>, is_terminal: bool) -> bool {
    let is_set = |name: &str| env(name).is_some_and(|value| !value.is_empty());
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if is_set("NO_COLOR") => false,
        ColorChoice::Auto if env("CLICOLOR_FORCE").is_some_and(|v| !v.is_empty() && v != "0") => true,
        ColorChoice::Auto => is_terminal && env("TERM").is_none_or(|term| term != "dumb"),
    }
}

/// A path in a command that is printed, kept until the process ends.
fn named(path: &Path) -> &'static str {
    String::leak(clean_line(&quoted(&path.to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(choice: ColorChoice, env: &[(&str, &str)], is_terminal: bool, expected: bool) {
        let env = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        assert_eq!(takes_color(choice, &env, is_terminal), expected);
    }

    #[test]
    fn a_dumb_terminal_and_a_screen_reader_get_lines() {
        let check = |name: &'static str, value: &'static str, expected: bool| {
            let env = |asked: &str| (asked == name).then(|| value.to_owned());
            assert_eq!(can_have_a_view(&env), expected, "{name}={value}");
        };
        check("TERM", "xterm", true);
        check("TERM", "dumb", false);
        check("RAWKO_PLAIN", "1", false);
        check("RAWKO_PLAIN", "0", true);
        check("ACCESSIBLE", "yes", false);
        check("ACCESSIBLE", "", true);
    }

    #[test]
    fn a_command_that_acts_on_the_configuration_names_its_file() {
        let console = Console::plain().by_config(Path::new("ci.yaml"));
        assert_eq!(
            console.commands("rawko resume s1, rawko diff s1"),
            "rawko --config ci.yaml resume s1, rawko diff s1"
        );
        let console = console.in_folder(Path::new("p"));
        assert_eq!(console.commands("rawko resume s1"), "rawko -C p --config ci.yaml resume s1");
    }

    #[track_caller]
    fn check_typed(folder: Option<&str>, text: &str, typed: &str) {
        let console = Console::plain();
        let console = folder.map_or(console, |folder| console.in_folder(Path::new(folder)));
        assert_eq!(console.commands(text), typed);
    }

    #[test]
    fn a_command_that_is_named_can_be_typed_where_the_user_is() {
        check_typed(None, "to go on: rawko resume s1", "to go on: rawko resume s1");
        check_typed(Some("../p"), "to go on: rawko resume s1", "to go on: rawko -C ../p resume s1");
        let two = "`rawko approve` lists it\nrawko diff last";
        check_typed(Some("a b"), two, "`rawko -C 'a b' approve` lists it\nrawko -C 'a b' diff last");
        check_typed(Some("p"), "rawko opens no pull requests", "rawko opens no pull requests");
        check_typed(Some("p"), "target/rawko run", "target/rawko run");
        check_typed(Some("p"), "rawko continue", "rawko -C p continue");
    }

    #[test]
    fn flag_then_environment_then_terminal() {
        use ColorChoice::{Always, Auto, Never};
        check(Auto, &[], true, true);
        check(Auto, &[], false, false);
        check(Auto, &[("TERM", "dumb")], true, false);
        check(Auto, &[("NO_COLOR", "1")], true, false);
        check(Auto, &[("NO_COLOR", "")], true, true);
        check(Auto, &[("CLICOLOR_FORCE", "1")], false, true);
        check(Auto, &[("CLICOLOR_FORCE", "0")], false, false);
        check(Auto, &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], true, false);
        check(Always, &[("NO_COLOR", "1")], false, true);
        check(Never, &[("CLICOLOR_FORCE", "1")], true, false);
    }
}
