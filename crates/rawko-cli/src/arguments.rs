//! The top level of the command line: the options of every command, the list of commands, and the rule that words are a
//! task if they do not begin with a command. A single word is not a task, nor is a command line of another program
//! ([`command_words`]): someone who types `rawko login` expects a command, not a run that costs money and changes files. Each
//! command's own options are in its module.

use std::ffi::OsString;

use clap::{CommandFactory as _, Parser, Subcommand};
use rawko_core::text::truncate;

use crate::command_words;
use crate::commands::{
    acp, agents, approve, arbiter, cancel, completions, config, continuing, demo, diff, doctor, explain,
    fleet, fork, init, inspect, land, machine, man, mcp, memory, plugins, providers, replay, resume, rewind,
    run, sessions, skills, steer, tools, trust, usage, watch,
};
use crate::failure::Failure;
use crate::foreign;
use crate::global_args::GlobalArgs;
use crate::output::quoted;

/// Runs several LLM agents under a state machine, from a task in one sentence to a verified change
#[derive(Debug, Parser)]
#[command(
    name = "rawko",
    version,
    override_usage = "rawko [run] [OPTIONS] TASK...\n       rawko COMMAND [OPTIONS]",
    subcommand_required = true,
    max_term_width = 100,
    after_help = AFTER_HELP
)]
pub(crate) struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  rawko demo                                 a whole run in a temporary project, without a key
  rawko \"add a --version flag\"               run a task in this folder
  rawko run --help                           the options of a run
  rawko -c \"now also document it\"            the next task of the newest session
  git diff | rawko \"review this\"             what is piped in is given to the agents
  rawko -p \"what does it do?\"                only the answer
  rawko --output json - < task.md            the task from standard input, the result as JSON

Exit status:
  0 done  1 failed  2 usage or configuration  3 stopped by a limit  4 provider or credentials
  5 folder not trusted  130 cancelled";

/// Characters of an unknown word that an error shows.
const MAX_WORD_CHARS: usize = 60;

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a task (you can leave out the word `run`)
    #[command(visible_alias = "exec")]
    Run(run::RunArgs),
    /// Give a session that has ended its next task (short: `rawko -c TASK`)
    Continue(continuing::ContinueArgs),
    /// Go on with an interrupted session, or with one that a limit or its provider ended
    Resume(resume::ResumeArgs),
    /// Derive a session again from its journal, and show the first difference
    Replay(replay::ReplayArgs),
    /// Start a new session from an old one, with the same or another task
    Fork(fork::ForkArgs),
    /// Explain the decisions of a session
    Explain(explain::ExplainArgs),
    /// Show sessions as a local page in your browser, live
    Inspect(inspect::InspectArgs),
    /// List the calls that wait for your approval, and allow or deny one
    Approve(approve::ApproveArgs),
    /// Follow a running session, or show a past one, as if it ran here
    Watch(watch::WatchArgs),
    /// Pause a running session, speak to its agents, or overrule the arbiter
    Steer(steer::SteerArgs),
    /// Stop a running session
    Cancel(cancel::CancelArgs),
    /// Land the work of an isolated run in the project
    Land(land::LandArgs),
    /// Throw the work of an isolated run away
    Discard(land::TreeArgs),
    /// Show what a session or one of its executions changed
    Diff(diff::DiffArgs),
    /// Restore the files as they were before an execution
    Rewind(rewind::RewindArgs),
    /// Show a whole run in a temporary project, without a key
    Demo(demo::DemoArgs),
    /// Write a .rawko/ folder with a configuration and the agents, for you to edit
    Init(init::InitArgs),
    /// Check providers, keys, git and the sandbox, and say what to do
    Doctor(doctor::DoctorArgs),
    /// Trust this folder's configuration
    Trust(trust::TrustArgs),
    /// List, show and check the agents
    #[command(subcommand)]
    Agents(agents::AgentsCommand),
    /// List, show and check the skills
    #[command(subcommand)]
    Skills(skills::SkillsCommand),
    /// Add, list, check and remove plug-ins: skills, agents, servers and hooks in one folder
    #[command(subcommand)]
    Plugins(plugins::PluginsCommand),
    /// Show and check the configuration, and where each value comes from
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// List, show, export, repair and remove the sessions of this folder
    #[command(subcommand)]
    Sessions(sessions::SessionsCommand),
    /// Sum up tokens and costs of sessions
    Usage(usage::UsageArgs),
    /// What earlier runs learned, and which of it agents would get
    Memory(memory::MemoryArgs),
    /// List tools, check who may use them, and call one
    #[command(subcommand)]
    Tools(tools::ToolsCommand),
    /// List, check and call servers of tools (MCP)
    #[command(subcommand)]
    Mcp(mcp::McpCommand),
    /// List and check the providers and their models
    #[command(subcommand)]
    Providers(providers::ProvidersCommand),
    /// Give tasks to a fleet, whose workers do them on other machines
    #[command(hide = !cfg!(feature = "fleet"))]
    Submit(fleet::SubmitArgs),
    /// See the tasks of a fleet, answer, steer and stop them, and take their sessions over
    #[command(subcommand, hide = !cfg!(feature = "fleet"))]
    Fleet(fleet::FleetCommand),
    /// Work for a fleet: take steps of tasks from its queues
    #[command(hide = !cfg!(feature = "fleet"))]
    Worker(fleet::WorkerArgs),
    /// Serve an editor as its agent, by the Agent Client Protocol on standard input and output
    #[command(hide = !cfg!(feature = "acp"))]
    Acp(acp::AcpArgs),
    /// Evaluate the arbiter on labelled situations
    #[command(subcommand)]
    Arbiter(arbiter::ArbiterCommand),
    /// Simulate and export the state machine
    #[command(subcommand)]
    Machine(machine::MachineCommand),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Write the manual pages into a folder, for packages
    #[command(hide = true)]
    Man(man::ManArgs),
}

/// The arguments, with `run` inserted where it was left out.
///
/// # Errors
/// If the words are neither a command nor a task: a command line, or a single word.
pub(crate) fn with_command(mut arguments: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let cli = Cli::command();
    if let Some(place) = continue_flag(&cli, &arguments) {
        arguments.remove(place);
        arguments.insert(1, OsString::from("continue"));
    }
    match first_words(&cli, arguments.get(1..).unwrap_or_default()) {
        FirstWord::Help => return Ok(arguments),
        FirstWord::Nothing => {}
        FirstWord::Words { places, is_given_as_task } => {
            let words: Vec<String> = places.iter().map(|(_, word)| word.clone()).collect();
            if words.first().is_some_and(|word| cli.find_subcommand(word).is_some() || word == "help") {
                return Ok(arguments);
            }
            let line = words.join(" ");
            if !is_given_as_task && let Some(hint) = not_a_task(&cli, &line, &arguments) {
                let as_task = as_task(&arguments, &places, &line);
                return Err(refused(&line, &hint, &as_task));
            }
        }
    }
    arguments.insert(1.min(arguments.len()), OsString::from("run"));
    Ok(arguments)
}

/// Whether the version is asked for with all that is known of this build: `--version --verbose`, `-vV`.
pub(crate) fn asks_for_build(arguments: &[OsString]) -> bool {
    let (mut version, mut verbose) = (false, false);
    for argument in arguments.iter().skip(1) {
        match argument.to_str() {
            Some("--version" | "-V") => version = true,
            Some("--verbose" | "-v") => verbose = true,
            Some("-vV" | "-Vv") => (version, verbose) = (true, true),
            _ => return false,
        }
    }
    version && verbose
}

/// Where `-c` means the command `continue`: among the options, before or after the words of a task.
fn continue_flag(cli: &clap::Command, arguments: &[OsString]) -> Option<usize> {
    let mut is_task = false;
    let mut place = 1;
    while let Some(argument) = arguments.get(place) {
        let text = argument.to_string_lossy();
        match text.as_ref() {
            "-c" | "--continue" => return Some(place),
            "--" => return None,
            "-" => is_task = true,
            flag if flag.starts_with('-') => place += usize::from(takes_next(cli, flag)),
            word if !is_task && (cli.find_subcommand(word).is_some() || word == "help") => return None,
            _ => is_task = true,
        }
        place += 1;
    }
    None
}

/// Whether the value of an option is the next argument.
fn takes_next(cli: &clap::Command, flag: &str) -> bool {
    let is_joined = flag.contains('=') || (!flag.starts_with("--") && flag.len() > 2);
    let of_run = cli.find_subcommand("run").into_iter().flat_map(clap::Command::get_arguments);
    let mut all = cli.get_arguments().chain(of_run);
    let long = flag.strip_prefix("--");
    let short = flag.strip_prefix('-').and_then(|s| s.chars().next());
    let known = all.find(|arg| match long {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short() == short,
    });
    !is_joined && known.is_some_and(|arg| arg.get_action().takes_values() && !arg.is_require_equals_set())
}

/// The words of the command line that are not options.
enum FirstWord {
    /// Only options, or a `--` before the first word.
    Nothing,
    /// No word, but `--help` or `--version`.
    Help,
    /// Words, each with its place among the arguments after the program's name.
    Words {
        places: Vec<(usize, String)>,
        /// Whether an option says that they are a task.
        is_given_as_task: bool,
    },
}

fn first_words(cli: &clap::Command, arguments: &[OsString]) -> FirstWord {
    let (mut asks, mut only_help, mut is_given_as_task) = (false, true, false);
    let mut places: Vec<(usize, String)> = Vec::new();
    let mut rest = arguments.iter().enumerate();
    while let Some((place, argument)) = rest.next() {
        let text = argument.to_string_lossy();
        match text.as_ref() {
            "--" if places.is_empty() => return FirstWord::Nothing,
            "--" => places.extend(rest.by_ref().map(|(at, word)| (at, word.to_string_lossy().into_owned()))),
            "-h" | "--help" | "-V" | "--version" => asks = true,
            // The task comes from standard input.
            "-" if places.is_empty() => return FirstWord::Nothing,
            flag if flag.starts_with('-') && flag != "-" => {
                only_help = false;
                is_given_as_task |= gives_task(cli, flag);
                if takes_next(cli, flag) {
                    rest.next();
                }
            }
            word => places.push((place, word.to_owned())),
        }
    }
    match places.as_slice() {
        [] if asks && only_help => FirstWord::Help,
        [] => FirstWord::Nothing,
        _ => FirstWord::Words { places, is_given_as_task },
    }
}

/// Whether an option has a meaning for a task alone: the answer to it, what is given with it, its editor.
fn gives_task(cli: &clap::Command, flag: &str) -> bool {
    match flag.strip_prefix("--") {
        Some(long) => matches!(long, "print" | "edit" | "file") || long.starts_with("file="),
        None => {
            let letters = flag.chars().skip(1);
            // After an option with a value comes the value.
            let mut options = letters.take_while(|letter| !takes_next(cli, &format!("-{letter}")));
            options.any(|letter| matches!(letter, 'p' | 'e'))
        }
    }
}

/// Why this is not run as a task, if it is not: what was probably meant.
fn not_a_task(cli: &clap::Command, line: &str, arguments: &[OsString]) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let meant = command_words::meant(cli, &words);
    // The parser refuses an option of another agent, and its answer says what it is called here.
    let mut options = arguments.iter().take_while(|argument| *argument != "--");
    let is_foreign = options.any(|argument| foreign::is_option(&argument.to_string_lossy()));
    meant.or_else(|| (is_one_word(line) && !is_foreign).then(|| "all commands: rawko --help".to_owned()))
}

/// Whether `text` is a single word: then it is more likely a wrong command than a task.
fn is_one_word(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || is_of_unspaced_script(c))
}

/// Whether `c` belongs to a script without spaces between words, where a sentence looks like one word: Thai, Lao, Burmese,
/// Khmer, Japanese and Chinese.
fn is_of_unspaced_script(c: char) -> bool {
    matches!(
        c,
        '\u{0e00}'..='\u{0eff}'
            | '\u{1000}'..='\u{109f}'
            | '\u{1780}'..='\u{17ff}'
            | '\u{3040}'..='\u{30ff}'
            | '\u{3400}'..='\u{9fff}'
            | '\u{20000}'..='\u{3ffff}'
    )
}

/// The same line with its words as a task.
fn as_task(arguments: &[OsString], places: &[(usize, String)], line: &str) -> String {
    let first = places.first().map(|(place, _)| *place);
    let mut shown = String::from("rawko run");
    for (place, argument) in arguments.iter().skip(1).enumerate() {
        let argument = argument.to_string_lossy();
        if Some(place) == first {
            // In double quotes, as people type it, if the shell leaves everything in them alone.
            let is_plain = line.contains(' ') && !line.contains(['"', '\'', '$', '`', '\\', '!', '\n']);
            let task = if is_plain { format!("\"{line}\"") } else { quoted(line) };
            shown.push_str(&format!(" {task}"));
        } else if argument != "--"
            && !foreign::is_option(&argument)
            && !places.iter().any(|(at, _)| *at == place)
        {
            shown.push_str(&format!(" {}", quoted(&argument)));
        }
    }
    shown
}

/// The error for a line that is not run as a task, with what was probably meant and the same line as a task.
fn refused(line: &str, hint: &str, as_task: &str) -> Failure {
    let shown = truncate(line.trim(), MAX_WORD_CHARS);
    let message = if is_one_word(line) {
        format!("there is no command `{shown}`, and a single word is not run as a task")
    } else {
        format!("`{shown}` is a command line and no task, so no run was started")
    };
    Failure::usage(message).with_hint(format!("{hint}\nto run it as a task: {as_task}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &[&str], expected: Result<&[&str], &str>) {
        let arguments: Vec<OsString> = ["rawko"].iter().chain(line).map(OsString::from).collect();
        match (with_command(arguments), expected) {
            (Ok(got), Ok(expected)) => {
                assert_eq!(got[1..], expected.iter().map(OsString::from).collect::<Vec<_>>());
            }
            (Err(Failure::Report(report)), Err(part)) => {
                let shown = format!("{report:?}");
                assert!(shown.contains(part), "{shown} lacks {part}");
            }
            (got, _) => panic!("{line:?}: {got:?}"),
        }
    }

    #[test]
    fn words_that_begin_with_no_command_are_a_task() {
        check(&["add", "a", "test"], Ok(&["run", "add", "a", "test"]));
        check(&["init the project"], Ok(&["run", "init the project"]));
        check(&["run", "init", "it"], Ok(&["run", "init", "it"]));
        check(&["init"], Ok(&["init"]));
        check(&["help", "run"], Ok(&["help", "run"]));
        check(&["--", "init"], Ok(&["run", "--", "init"]));
        check(&["-"], Ok(&["run", "-"]));
        check(&[], Ok(&["run"]));
        check(&["--verbose"], Ok(&["run", "--verbose"]));
        check(&["--help"], Ok(&["--help"]));
        check(&["-V"], Ok(&["-V"]));
        check(&["--verbose", "--help"], Ok(&["run", "--verbose", "--help"]));
    }

    #[test]
    fn values_of_options_are_not_taken_for_the_first_word() {
        check(&["--model", "init", "fix", "it"], Ok(&["run", "--model", "init", "fix", "it"]));
        check(&["--model=init", "doctor"], Ok(&["--model=init", "doctor"]));
        check(&["--color", "never", "doctor"], Ok(&["--color", "never", "doctor"]));
        check(&["-C", "sub", "doctor"], Ok(&["-C", "sub", "doctor"]));
        check(&["-Csub", "agents", "list"], Ok(&["-Csub", "agents", "list"]));
        check(&["--allow-read", "doctor"], Ok(&["--allow-read", "doctor"]));
        check(&["--quiet", "fix", "doctor"], Ok(&["run", "--quiet", "fix", "doctor"]));
    }

    #[test]
    fn the_short_form_of_continue_may_stand_among_the_options() {
        check(&["-c", "fix it"], Ok(&["continue", "fix it"]));
        check(&["-c", "doctor"], Ok(&["continue", "doctor"]));
        check(&["--verbose", "-c", "fix", "it"], Ok(&["continue", "--verbose", "fix", "it"]));
        check(&["--model", "-c", "fix it"], Ok(&["run", "--model", "-c", "fix it"]));
        check(&["fix", "it", "--continue", "--quiet"], Ok(&["continue", "fix", "it", "--quiet"]));
        check(&["fix it", "--", "-c"], Ok(&["run", "fix it", "--", "-c"]));
        check(&["sessions", "list", "-c"], Ok(&["sessions", "list", "-c"]));
        check(&["-C", "sub", "-c", "fix it"], Ok(&["continue", "-C", "sub", "fix it"]));
    }

    #[test]
    fn a_single_unknown_word_is_no_task() {
        check(&["login"], Err("to run it as a task: rawko run login"));
        check(&["login"], Err("`rawko doctor`"));
        check(&["login "], Err("there is no command `login`"));
        check(&["frobnicate"], Err("all commands: rawko --help"));
        check(&["https://example.com/issues/5"], Err("rawko run https://example.com/issues/5"));
        check(&["später"], Err("rawko run 'später'"));
        check(&["it's"], Err(r"rawko run 'it'\\''s'"));
        // The options stay in the suggested line.
        check(&["--dry-run", "fix", "--model", "m"], Err("rawko run --dry-run fix --model m"));
        check(&["login", "--json"], Err("there is no command `login`"));
        // Explicitly a task.
        check(&["run", "login"], Ok(&["run", "login"]));
        check(&["--", "login"], Ok(&["run", "--", "login"]));
        check(&["exec", "login"], Ok(&["exec", "login"]));
        check(&["-p", "hello"], Ok(&["run", "-p", "hello"]));
        check(&["-p"], Ok(&["run", "-p"]));
        check(&["-m", "opus", "login"], Err("rawko run -m opus login"));
        check(&["--quiet", "--", "login"], Ok(&["run", "--quiet", "--", "login"]));
        // More than one word.
        check(&["fix", "it"], Ok(&["run", "fix", "it"]));
        check(&["fix it"], Ok(&["run", "fix it"]));
        check(&["fix", "--", "it"], Ok(&["run", "fix", "--", "it"]));
        check(&["fix", "--model", "m", "it"], Ok(&["run", "fix", "--model", "m", "it"]));
        // A whole sentence.
        check(&["修复登录错误"], Ok(&["run", "修复登录错误"]));
        // No task at all: `run` reports it.
        check(&[" "], Ok(&["run", " "]));
    }

    #[test]
    fn a_command_line_is_no_task() {
        let as_task = "to run it as a task: rawko run \\\"commit all\\\"";
        for line in [&["commit", "all"][..], &["commit all"], &["commit", "--", "all"], &[" commit  all "]] {
            check(line, Err("`commit"));
        }
        check(&["commit", "all"], Err(as_task));
        check(&["commit all"], Err(as_task));
        check(&["commit", "--", "all"], Err(as_task));
        check(&["-q", "commit", "--model", "m", "all"], Err("rawko run -q \\\"commit all\\\" --model m"));
        check(&["sessions list"], Err("did you mean `rawko sessions list`?"));
        check(&["explian", "last", "2"], Err("did you mean `rawko explain last 2`?"));
        check(&["docter"], Err("did you mean `rawko doctor`?"));
        check(&["drop", "$HOME", "last"], Ok(&["run", "drop", "$HOME", "last"]));
        // It is typed as a command of rawko, which says itself what is wrong with it.
        for line in [&["agents", "lst"][..], &["fork", "last"], &["init", "all"]] {
            check(line, Ok(line));
        }
    }

    #[test]
    fn what_is_given_as_a_task_is_one() {
        for line in [
            &["run", "commit", "all"][..],
            &["exec", "commit all"],
            &["--", "commit", "all"],
            &["-p", "commit", "all"],
            &["-qp", "commit all"],
            &["commit", "all", "--print"],
            &["--file", "notes.md", "commit", "all"],
            &["commit all", "--file=notes.md"],
            &["-e", "commit", "all"],
            &["-p", "docter"],
            &["--file", "notes.md", "summarize"],
            &["add tests"],
            &["add", "tests"],
        ] {
            let is_run = matches!(line[0], "run" | "exec");
            let expected = if is_run { line.to_vec() } else { [&["run"], line].concat() };
            check(line, Ok(&expected));
        }
        // The value of an option is not an option.
        check(&["-mp", "commit", "all"], Err("rawko run -mp"));
        check(&["--model", "-p", "commit", "all"], Err("rawko run --model -p"));
    }

    /// The line that the error gives, typed into a shell, is that task.
    #[test]
    fn the_line_that_runs_it_as_a_task_works() {
        for words in
            ["commit all", "undo last", "stash drop stash@{0}", "revert HEAD~1", "/undo last", "push --force"]
        {
            let arguments: Vec<OsString> = ["rawko", words].map(OsString::from).to_vec();
            let Err(Failure::Report(report)) = with_command(arguments) else { panic!("{words} is a task") };
            let report = format!("{report:?}").replace("\\\"", "\"");
            let line = report.split("as a task: ").nth(1).unwrap().split("\") }").next().unwrap();
            let shell = format!("rawko() {{ printf '%s|' \"$@\"; }}; {line}");
            let output = std::process::Command::new("bash").arg("-c").arg(shell).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), format!("run|{words}|"), "{report}");
        }
    }

    #[test]
    fn the_build_is_printed_on_request_only() {
        #[track_caller]
        fn check(line: &[&str], expected: bool) {
            let arguments: Vec<OsString> = ["rawko"].iter().chain(line).map(OsString::from).collect();
            assert_eq!(asks_for_build(&arguments), expected, "{line:?}");
        }
        check(&["--version", "--verbose"], true);
        check(&["-v", "-V"], true);
        check(&["-vV"], true);
        check(&["-Vv"], true);
        check(&["--version"], false);
        check(&["--verbose"], false);
        check(&["--version", "--verbose", "fix it"], false);
        check(&["run", "--verbose", "--version"], false);
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
