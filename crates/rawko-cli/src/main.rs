//! The `rawko` command line: options, colors, progress, error messages, exit statuses and signals. It decides nothing about
//! a run; what it shows is a projection of the SDK's events.

mod approval_prompt;
mod arguments;
mod build_facts;
mod busy;
mod command_words;
mod commands;
mod completion;
mod config_args;
mod console;
mod demo;
#[cfg(test)]
mod documentation;
mod editor;
mod environment;
mod exit;
mod failure;
mod foreign;
mod global_args;
mod home;
mod input;
mod keyboard;
mod lines;
mod logs;
mod newcomer;
mod output;
mod privacy;
mod recorded;
mod reporters;
mod run_args;
mod runtime;
mod server_question;
mod signals;
mod trust_question;
mod trust_shown;
mod verify_args;
mod watch;
mod workspace;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};

use crate::arguments::{Cli, Command};
use crate::commands::{
    acp, agents, approve, arbiter, cancel, completions, config, continuing, demo as demo_command, diff,
    discard, doctor, explain, fleet, fork, init, inspect, land, machine, man, mcp, memory, plugins,
    providers, replay, resume, rewind, run, sessions, skills, steer, tools, trust, usage,
    watch as watch_command,
};
use crate::console::{ColorChoice, Console};
use crate::environment::ProcessEnv;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::workspace::Workspace;

fn main() -> ExitCode {
    rawko::tools::run_helper_if_asked();
    privacy::close();
    let environment = ProcessEnv::take();
    completion::complete_if_asked(environment);
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let (mut console, color_error) = console_for(&arguments, environment);
    let result = match color_error {
        Some(failure) => Err(failure),
        None => carry_out(arguments, environment, &mut console),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.report(&console);
            failure.exit().into()
        }
    }
}

fn carry_out(
    arguments: Vec<OsString>,
    environment: ProcessEnv,
    console: &mut Console,
) -> Result<Exit, Failure> {
    if arguments::asks_for_build(&arguments) {
        console.write(&build_facts::page(environment))?;
        return Ok(Exit::Success);
    }
    let cli = match Cli::try_parse_from(arguments::with_command(arguments)?) {
        Ok(cli) => cli,
        Err(error) => return of_clap(&error, console),
    };
    if let Some(folder) = &cli.global.cwd {
        *console = console.in_folder(folder);
    }
    if let Some(file) = &cli.global.config {
        *console = console.by_config(file);
    }
    logs::start(environment)?;
    let workspace = Workspace::new(environment, *console, cli.global);
    match cli.command {
        Command::Run(arguments) => run::run(&workspace, arguments),
        Command::Continue(arguments) => continuing::run(&workspace, arguments),
        Command::Resume(arguments) => resume::run(&workspace, &arguments),
        Command::Replay(arguments) => replay::run(&workspace, arguments),
        Command::Fork(arguments) => fork::run(&workspace, arguments),
        Command::Explain(arguments) => explain::run(&workspace, &arguments),
        Command::Inspect(arguments) => inspect::run(&workspace, &arguments),
        Command::Approve(arguments) => approve::run(&workspace, &arguments),
        Command::Watch(arguments) => watch_command::run(&workspace, &arguments),
        Command::Steer(arguments) => steer::run(&workspace, &arguments),
        Command::Cancel(arguments) => cancel::run(&workspace, &arguments),
        Command::Land(arguments) => land::run(&workspace, &arguments),
        Command::Discard(arguments) => discard::run(&workspace, &arguments),
        Command::Diff(arguments) => diff::run(&workspace, &arguments),
        Command::Rewind(arguments) => rewind::run(&workspace, &arguments),
        Command::Demo(arguments) => demo_command::run(&workspace, &arguments),
        Command::Init(arguments) => init::run(&workspace, &arguments),
        Command::Doctor(arguments) => doctor::run(&workspace, &arguments),
        Command::Trust(arguments) => trust::run(&workspace, &arguments),
        Command::Agents(action) => agents::run(&workspace, &action),
        Command::Skills(action) => skills::run(&workspace, &action),
        Command::Plugins(action) => plugins::run(&workspace, &action),
        Command::Config(action) => config::run(&workspace, &action),
        Command::Sessions(action) => sessions::run(&workspace, &action),
        Command::Usage(arguments) => usage::run(&workspace, &arguments),
        Command::Tools(action) => tools::run(&workspace, &action),
        Command::Memory(action) => memory::run(&workspace, &action),
        Command::Mcp(action) => mcp::run(&workspace, &action),
        Command::Providers(action) => providers::run(&workspace, &action),
        Command::Submit(arguments) => fleet::submit(&workspace, arguments),
        Command::Fleet(action) => fleet::run(&workspace, action),
        Command::Worker(arguments) => fleet::worker(&workspace, arguments),
        Command::Acp(arguments) => acp::run(&workspace, arguments),
        Command::Arbiter(action) => arbiter::run(&workspace, &action),
        Command::Machine(action) => machine::run(&workspace, &action),
        Command::Completions(arguments) => completions::run(&workspace, &arguments),
        Command::Man(arguments) => man::run(&workspace, &arguments, Cli::command()),
    }
}

/// Help and version go to standard output and are a success; everything else is a usage error.
fn of_clap(error: &clap::Error, console: &Console) -> Result<Exit, Failure> {
    let text = error.render();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let colored = console.paint().is_on();
            console.write(&if colored { text.ansi().to_string() } else { text.to_string() })?;
            Ok(Exit::Success)
        }
        _ => {
            if let Some(failure) = foreign::answered(error) {
                return Err(failure);
            }
            let colored = console.error_paint().is_on();
            // If standard error is closed, the exit status still says it.
            let _ = console.write_error(&if colored { text.ansi().to_string() } else { text.to_string() });
            if let Some(word) = stray_word(error) {
                let hint = console.error_paint().hint("hint:");
                let line = format!(
                    "{hint} `{word}` is not an argument of this command; to run a task: rawko run \"…\"\n"
                );
                let _ = console.write_error(&line);
            }
            Ok(Exit::Usage)
        }
    }
}

/// A word where a command takes none: probably from a task that begins with a command's name.
fn stray_word(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_word = error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-');
    is_word.then(|| clean_line(word))
}

/// The outputs. Decided before the arguments are parsed, because errors about these may be colored.
fn console_for(arguments: &[OsString], environment: ProcessEnv) -> (Console, Option<Failure>) {
    let mut given = environment.var("RAWKO_COLOR").map(|text| (text, "RAWKO_COLOR"));
    let mut plain = false;
    let mut rest = arguments.iter().skip(1).map(|argument| argument.to_string_lossy());
    while let Some(argument) = rest.next() {
        match argument.as_ref() {
            "--" => break,
            "--plain" => plain = true,
            "--color" => given = rest.next().map(|text| (text.into_owned(), "--color")),
            other => {
                if let Some(text) = other.strip_prefix("--color=") {
                    given = Some((text.to_owned(), "--color"));
                }
            }
        }
    }
    let choice = match given.as_ref().map(|(text, _)| text.as_str()) {
        None | Some("auto") => Some(ColorChoice::Auto),
        Some("always") => Some(ColorChoice::Always),
        Some("never") => Some(ColorChoice::Never),
        Some(_) => None,
    };
    let console = Console::new(choice.unwrap_or_default(), plain, |name| environment.var(name));
    // clap reports a wrong `--color`, but does not read the variable.
    let wrong = given.filter(|(_, from)| choice.is_none() && *from == "RAWKO_COLOR");
    let failure = wrong.map(|(text, from)| {
        Failure::usage(format!("{from} is `{text}`"))
            .with_hint("set it to auto, always or never, or unset it")
    });
    (console, failure)
}
