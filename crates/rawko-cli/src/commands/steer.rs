//! `rawko steer [ID] COMMAND`: a command of the user to a session that another process runs.

use std::time::Duration;

use clap::Args;
use rawko::{Override, Steered};
use serde_json::json;

use super::cancel;
use crate::console::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{clean_line, shortened};
use crate::workspace::Workspace;

/// How long the process that runs the session may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Characters of an unknown command that are shown.
const WORD_CHARS: usize = 40;

/// Options of `rawko steer`.
#[derive(Debug, Clone, Default, Args)]
#[command(override_usage = "rawko steer [OPTIONS] [ID] COMMAND", after_help = commands_help() + EXIT_STATUS)]
pub(crate) struct SteerArgs {
    /// Session id, or the beginning or end of it (left out: the one that runs), and the command
    #[arg(value_name = "[ID] COMMAND", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// The commands: each with what it takes, and what it does.
const COMMANDS: [(&str, &str, &str); 8] = [
    ("pause", "", "let what is under way end, and begin nothing new"),
    ("go", "", "end the pause"),
    ("say", "TEXT", "tell the agent that works, or the next one, and the arbiter"),
    ("force", "NAME", "make this agent work now, in a new conversation"),
    ("skip", "", "skip the current step of the plan"),
    ("retry", "", "let the agent try again, in a new conversation"),
    ("reset", "", "begin the task anew; files, costs and limits stay"),
    ("cancel", "", "stop it"),
];

/// The commands, each with what it does.
pub(crate) fn commands() -> impl Iterator<Item = (&'static str, &'static str)> {
    COMMANDS.iter().map(|(word, _, does)| (*word, *does))
}

/// The end of the help.
pub(super) fn commands_help() -> String {
    let lines = COMMANDS.iter().map(|(word, value, does)| {
        let command = format!("{word} {value}");
        format!("\n  {command:<11}  {does}")
    });
    format!("COMMAND is one of:{}", lines.collect::<String>())
}

const EXIT_STATUS: &str =
    "\n\nExit status:\n  0 carried out  1 ignored: it has no meaning in the present state";

/// What a person asks of a run, here or at its own terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SteerRequest {
    Cancel,
    Override(Override),
}

impl SteerRequest {
    /// Its word, as it is typed.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Override(command) => command.word(),
        }
    }

    /// What it does.
    pub(crate) fn meaning(&self) -> &'static str {
        commands().find(|(word, _)| *word == self.word()).map_or("", |(_, does)| does)
    }
}

/// Steers the session.
pub(crate) fn run(workspace: &Workspace, arguments: &SteerArgs) -> Result<Exit, Failure> {
    let (id, wanted) = parse(&arguments.words)?;
    let store = workspace.sessions()?;
    let id = match id {
        Some(id) => id.to_owned(),
        None => workspace.running_session()?,
    };
    let command = match wanted {
        SteerRequest::Cancel => {
            return cancel::stop(workspace, &id, cancel::DEFAULT_WAIT, arguments.output.json);
        }
        SteerRequest::Override(command) => command,
    };
    let trust = workspace.key_store()?;
    let (session, steered) =
        rawko::steer(&store, &workspace.project()?, &trust, &id, command.clone(), PATIENCE)?;
    let ignored = match &steered {
        Steered::Taken => None,
        Steered::Ignored { reason } => Some(reason.as_str()),
    };
    let value = json!({
        "session": session,
        "command": command,
        "taken": ignored.is_none(),
        "reason": ignored,
    });
    workspace.console.output(arguments.output.json, &value, |_| {
        let name = clean_line(&session);
        match ignored {
            Some(reason) => {
                format!("session {name} ignored `{}`: {}\n", command.word(), clean_line(reason))
            }
            None => format!("session {name}: {}\n", carried_out(&command, &name)),
        }
    })?;
    Ok(if ignored.is_some() { Exit::Failed } else { Exit::Success })
}

/// What a command has led to.
fn carried_out(command: &Override, session: &str) -> String {
    match command {
        Override::ForceAgent { agent } => format!("{} works now", clean_line(agent)),
        Override::SkipStep => "the current step is skipped".to_owned(),
        Override::Retry => "the agent tries again".to_owned(),
        Override::Pause => {
            format!("paused, once what is under way has ended; to go on: rawko steer {session} go")
        }
        Override::Go => "it goes on".to_owned(),
        Override::Reset => "the task begins anew; files, costs and limits stay".to_owned(),
        Override::Say { .. } => "said; an agent reads it with its next model request".to_owned(),
    }
}

/// The session, if one is named, and the command.
fn parse(words: &[String]) -> Result<(Option<&str>, SteerRequest), Failure> {
    let mut id = None;
    let mut rest = words;
    if let [first, more @ ..] = words
        && !more.is_empty()
        && !is_command(first)
    {
        (id, rest) = (Some(first.as_str()), more);
    }
    Ok((id, command(rest)?))
}

/// The command alone.
pub(super) fn command(words: &[String]) -> Result<SteerRequest, Failure> {
    let [word, values @ ..] = words else { return Err(unknown("")) };
    let value = values.join(" ");
    let missing = |what: &str, example: &str| {
        Failure::usage(format!("`{word}` needs {what}"))
            .with_hint(format!("for example: rawko steer {example}"))
    };
    let wanted = match word.as_str() {
        "force" if value.trim().is_empty() => {
            return Err(missing("the name of an agent", "force developer"));
        }
        "say" if value.trim().is_empty() => {
            return Err(missing("a message", "say \"use the existing parser\""));
        }
        "force" => SteerRequest::Override(Override::ForceAgent { agent: value.trim().to_owned() }),
        "say" => return Ok(SteerRequest::Override(Override::Say { text: value })),
        "skip" => SteerRequest::Override(Override::SkipStep),
        "retry" => SteerRequest::Override(Override::Retry),
        "pause" => SteerRequest::Override(Override::Pause),
        "go" => SteerRequest::Override(Override::Go),
        "reset" => SteerRequest::Override(Override::Reset),
        "cancel" => SteerRequest::Cancel,
        other => return Err(unknown(other)),
    };
    if word != "force" && !values.is_empty() {
        return Err(Failure::usage(format!("`{word}` takes nothing more, and got `{}`", shown(&value)))
            .with_hint("to tell an agent something: rawko steer say TEXT"));
    }
    Ok(wanted)
}

pub(crate) fn is_command(word: &str) -> bool {
    commands().any(|(command, _)| command == word)
}

fn shown(text: &str) -> String {
    shortened(text, WORD_CHARS)
}

fn unknown(word: &str) -> Failure {
    Failure::usage(format!("`{}` is no command to a session", shown(word)))
        .with_hint(format!("the commands are: {}", COMMANDS.map(|(command, ..)| command).join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &str, expected: Result<(Option<&str>, SteerRequest), &str>) {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        match (parse(&words), expected) {
            (Ok(parsed), Ok(expected)) => assert_eq!(parsed, expected, "{words:?}"),
            (Err(failure), Err(part)) => {
                assert!(failure.message().contains(part), "{words:?}: {}", failure.message());
            }
            (parsed, _) => panic!("{words:?}: {parsed:?}"),
        }
    }

    #[test]
    fn a_session_may_be_named_before_the_command() {
        let force = || SteerRequest::Override(Override::ForceAgent { agent: "developer".into() });
        let say = |text: &str| SteerRequest::Override(Override::Say { text: text.into() });
        check("force developer", Ok((None, force())));
        check("last force developer", Ok((Some("last"), force())));
        check("pause", Ok((None, SteerRequest::Override(Override::Pause))));
        check("x7f2k go", Ok((Some("x7f2k"), SteerRequest::Override(Override::Go))));
        check("cancel", Ok((None, SteerRequest::Cancel)));
        // A message may be a command's word, or begin with one.
        check("say go", Ok((None, say("go"))));
        check("say skip the tests", Ok((None, say("skip the tests"))));
        check("last say a b", Ok((Some("last"), say("a b"))));
        check("say", Err("`say` needs a message"));
        check("last force", Err("`force` needs the name"));
        check("pause now", Err("`pause` takes nothing more, and got `now`"));
        check("last stop", Err("`stop` is no command"));
        check("last", Err("`last` is no command"));
    }
}
