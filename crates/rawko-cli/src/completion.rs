//! Shell completion. The script of a shell calls rawko for each completion, so that it also offers what only rawko knows:
//! sessions, agents and providers of the folder. Nothing is run and no address reached for that.

use std::sync::OnceLock;

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command, CommandFactory as _, ValueHint};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};

use crate::arguments::Cli;
use crate::commands::completions::VARIABLE;
use crate::commands::steer::{commands as steering, is_command};
use crate::console::{ColorChoice, Console};
use crate::environment::ProcessEnv;
use crate::global_args::GlobalArgs;
use crate::output::shortened;
use crate::workspace::Workspace;

/// The most sessions that are offered, newest first.
const MOST_SESSIONS: usize = 30;
/// Characters of a description.
const HELP_CHARS: usize = 60;

static ENVIRONMENT: OnceLock<ProcessEnv> = OnceLock::new();

/// Answers a shell that asks for completions, and ends the process then.
pub(crate) fn complete_if_asked(environment: ProcessEnv) {
    if environment.var(VARIABLE).is_some() && ENVIRONMENT.set(environment).is_ok() {
        CompleteEnv::with_factory(|| with_candidates(command_line(), "")).var(VARIABLE).complete();
    }
}

/// The command line as a shell completes it: where no command is given, the options are those of `run`.
fn command_line() -> Command {
    let cli = Cli::command();
    let of_run = cli.find_subcommand("run").into_iter().flat_map(Command::get_arguments);
    let of_run: Vec<Arg> = of_run
        .filter(|arg| !arg.is_global_set())
        // The words of a task are not completed.
        .map(|arg| if arg.is_positional() { arg.clone().value_hint(ValueHint::Other) } else { arg.clone() })
        .collect();
    let next = Arg::new("continue").short('c').long("continue").action(ArgAction::SetTrue);
    cli.args(of_run).arg(next.help("The task is the next one of the newest session"))
}

/// The command line, with what rawko knows as candidates for its values. `within` is the command's parent.
fn with_candidates(command: Command, within: &str) -> Command {
    let path = format!("{within} {}", command.get_name());
    let command = command.mut_args(|arg| offered(arg, &path));
    command.mut_subcommands(|inner| with_candidates(inner, &path))
}

fn offered(arg: Arg, path: &str) -> Arg {
    let candidates: fn() -> Vec<CompletionCandidate> = match arg.get_id().as_str() {
        "id" | "ids" | "session" => sessions,
        "words" if path.ends_with(" continue") => sessions,
        "words" if path.ends_with(" steer") => words_to_steer,
        "agent" => agents,
        "name" if path.contains(" agents ") => agents,
        "provider" => providers,
        "name" if path.contains(" providers ") => providers,
        _ => return arg,
    };
    arg.add(ArgValueCandidates::new(candidates))
}

fn workspace() -> Option<Workspace> {
    let environment = *ENVIRONMENT.get()?;
    Some(Workspace::new(
        environment,
        Console::new(ColorChoice::Never, false, |_| None),
        GlobalArgs::default(),
    ))
}

/// Whether a shell takes the name as one word that does nothing. Names come from the folder, which may be anybody's, and
/// shells insert candidates as they are.
fn is_plain(name: &str) -> bool {
    name.starts_with(char::is_alphanumeric)
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

fn candidate(name: impl Into<String>, help: &str) -> CompletionCandidate {
    let help = shortened(help, HELP_CHARS);
    CompletionCandidate::new(name.into()).help((!help.is_empty()).then(|| StyledStr::from(help)))
}

fn sessions() -> Vec<CompletionCandidate> {
    let listed = workspace().and_then(|workspace| workspace.sessions().ok()?.list().ok()).unwrap_or_default();
    let newest = listed.iter().rev().filter(|session| is_plain(&session.id)).take(MOST_SESSIONS);
    let last = candidate("last", "the newest session").display_order(Some(0));
    let named = newest.zip(1..).map(|(session, n)| {
        let task = session.task.as_str();
        candidate(session.id.clone(), task).display_order(Some(n))
    });
    std::iter::once(last).chain(named).collect()
}

/// What may come next after `rawko steer`: a session or a command, or the agent that is forced.
fn words_to_steer() -> Vec<CompletionCandidate> {
    let before = words_before();
    let before = before.iter().position(|word| word == "steer").map_or(&[][..], |at| &before[at + 1..]);
    let before: Vec<&str> = before.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let commands =
        || steering().zip(0..).map(|((word, help), n)| candidate(word, help).display_order(Some(n)));
    match before.as_slice() {
        [] => commands().chain(sessions()).collect(),
        [.., "force"] => agents(),
        [session] if !is_command(session) => commands().collect(),
        [..] => Vec::new(),
    }
}

/// The words of the command line before the one that is completed.
fn words_before() -> Vec<String> {
    // After `--`, with the place of the word in a variable, or else the last one.
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let place =
        ENVIRONMENT.get().and_then(|environment| environment.var("_CLAP_COMPLETE_INDEX")?.parse().ok());
    let place = place.unwrap_or(words.len().saturating_sub(1)).min(words.len());
    words.into_iter().take(place).collect()
}

fn agents() -> Vec<CompletionCandidate> {
    let rawko = workspace().and_then(|workspace| workspace.builder().trusted(true).build().ok());
    let agents = rawko.iter().flat_map(|rawko| rawko.config().agents.values());
    let names = agents.map(|agent| agent.config.name.clone()).filter(|name| is_plain(name));
    names.map(|name| candidate(name, "")).collect()
}

fn providers() -> Vec<CompletionCandidate> {
    let rawko = workspace().and_then(|workspace| workspace.builder().trusted(true).build().ok());
    let configured: Vec<String> =
        rawko.iter().flat_map(|rawko| rawko.config().config.provider.named.keys().cloned()).collect();
    let presets = rawko::provider::preset::PRESETS.iter().map(|preset| preset.name.to_owned());
    let presets: Vec<String> = presets.filter(|name| !configured.contains(name)).collect();
    let names = configured.into_iter().chain(presets).filter(|name| is_plain(name));
    names.map(|name| candidate(name, "")).collect()
}
