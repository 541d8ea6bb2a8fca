//! Decides which words are a command line and not a task. Someone who types `undo last` means another agent's command,
//! and a run would cost money and change files. A line of at most three words is a command line if each of them belongs
//! to one: a command of rawko, of git or of another agent, and then its subcommands, flags, ids, `all`, `last`, a
//! provider's name.
//!
//! The words of rawko are those of the parser, so that a new command is known here by itself.

use rawko::provider::preset::PRESETS;

/// Longer lines are sentences.
const MOST_WORDS: usize = 3;
/// Digits of the date with which a session's id begins.
const DATE_DIGITS: usize = 8;

/// Programs whose command lines people know by heart.
const PROGRAMS: &str =
    "rawko git claude codex gemini aider opencode goose copilot cursor cursor-agent amp crush qwen";

/// What accounts are called besides the names of the presets.
const PROVIDERS: &str = "anthropic google github chatgpt azure bedrock vertex";

/// Commands of other agents that mean the same, typed or with a slash. Those that are here with a slash are words of
/// tasks without it.
struct Others {
    names: &'static str,
    /// What may follow besides flags, ids, `all` and `last`.
    then: &'static str,
    /// Whether a provider's name may follow.
    of_provider: bool,
    meant: &'static str,
}

const OTHERS: &[Others] = &[
    Others {
        names: "auth login logout signin signout connect setup-token whoami credentials",
        then: "login logout signin status token list",
        of_provider: true,
        meant: "a key comes from the environment: set ANTHROPIC_API_KEY, for instance; `rawko providers list` names the \
                variable of each provider, and `rawko doctor` says what is missing",
    },
    Others {
        names: "model models",
        then: "list default",
        of_provider: true,
        meant: "`rawko providers models` lists models, and --model NAME chooses one",
    },
    Others {
        names: "configure settings setup",
        then: "list show get set reset",
        of_provider: true,
        meant: "`rawko config show` shows the configuration, and `rawko init` writes one",
    },
    Others {
        names: "undo redo rollback discard checkpoint checkpoints",
        then: "changes list",
        of_provider: false,
        meant: "`rawko rewind last --to 1` restores the files as they were before the last session, and \
                `rawko rewind last --list` lists what else can be restored",
    },
    Others {
        names: "stop kill abort quit exit interrupt terminate /q /bye",
        then: "run session",
        of_provider: false,
        meant: "`rawko cancel last` stops a run",
    },
    Others {
        names: "delete remove",
        then: "",
        of_provider: false,
        meant: "`rawko sessions list` lists sessions, and `rawko sessions rm --help` says how to remove some",
    },
    Others {
        names: "list show export history logs ps share",
        then: "session sessions run runs history",
        of_provider: false,
        meant: "`rawko sessions list` lists sessions, and `rawko sessions show last` shows the last one",
    },
    Others {
        names: "cost costs stats tokens /context",
        then: "session",
        of_provider: false,
        meant: "`rawko usage` sums up tokens and costs",
    },
    Others {
        names: "apply accept reject deny",
        then: "changes",
        of_provider: false,
        meant: "`rawko approve` lists the calls that wait for you; what a run changed is in your folder already: \
                `rawko diff last`",
    },
    Others {
        names: "clear compact new",
        then: "session chat conversation context history",
        of_provider: false,
        meant: "each task begins a new conversation, unless it is given with -c: `rawko continue --help`",
    },
    Others {
        names: "plugin plugins extension extensions hooks",
        then: "list install uninstall add remove update enable disable link",
        of_provider: false,
        meant: "`rawko plugins list`, `rawko skills list` and `rawko mcp list` show what agents have besides their tools",
    },
    Others {
        names: "serve web tui attach acp app-server mcp-server daemon ui gui",
        then: "list start stop open session",
        of_provider: false,
        meant: "`rawko inspect` shows sessions in a browser, and `rawko watch` in the terminal",
    },
    Others {
        names: "update upgrade install uninstall version",
        then: "latest stable self rawko cli",
        of_provider: false,
        meant: "rawko does not update itself; `rawko --version` says which one this is",
    },
    Others {
        names: "chat ask repl interactive /code /architect /plan /review /test /goal /new-task",
        then: "session start",
        of_provider: false,
        meant: "`rawko \"add a test\"` runs a task, `rawko -p \"what does it do?\"` prints only the answer, and \
                `rawko -c \"now document it\"` says what to do next in the same session",
    },
    Others {
        names: "/add /drop /read /read-only",
        then: "",
        of_provider: false,
        meant: "agents find the files of a project by themselves; `rawko --file notes.md \"add a test\"` gives one with the task",
    },
    Others {
        names: "permissions approvals allowed-tools",
        then: "list show",
        of_provider: false,
        meant: "`rawko agents show developer` shows what an agent may do, and from which line",
    },
    Others {
        names: "sandbox",
        then: "",
        of_provider: false,
        meant: "commands are in a sandbox already: `rawko doctor` says what it holds on this machine",
    },
    Others {
        names: "/theme /color /vim /statusline /terminal-setup /keybindings",
        then: "",
        of_provider: false,
        meant: "`rawko --color never \"add a test\"` shows no colors, and `rawko --plain \"add a test\"` plain lines",
    },
    Others {
        names: "pr github",
        then: "list create install checkout view",
        of_provider: false,
        meant: "rawko opens no pull requests: push your branch yourself",
    },
];

/// A command of git: its name, the words that follow it, and the flags that people type without their dashes.
type OfGit = (&'static str, &'static str, &'static str);

const GIT: &[OfGit] = &[
    ("add", "", "all update patch"),
    ("bisect", "start good bad reset skip log", ""),
    ("blame", "", ""),
    ("branch", "main master", "all list"),
    ("checkout", "main master develop", ""),
    ("cherry-pick", "", "abort continue skip"),
    ("clean", "", "force"),
    ("clone", "", ""),
    ("commit", "changes", "all amend"),
    ("describe", "", "all tags"),
    ("fetch", "origin upstream main master", "all tags prune"),
    ("gc", "", "aggressive"),
    ("log", "", "all oneline graph"),
    ("merge", "main master develop origin", "abort continue"),
    ("mv", "", ""),
    ("notes", "add show list", ""),
    ("pull", "origin upstream main master", "all rebase"),
    ("push", "changes origin upstream main master", "all tags force"),
    ("rebase", "main master develop origin", "abort continue skip"),
    ("reflog", "show expire", "all"),
    ("remote", "add remove rename show update prune", ""),
    ("reset", "changes", "hard soft mixed"),
    ("restore", "changes", "staged"),
    ("revert", "changes", "abort continue"),
    ("rm", "", "cached"),
    ("stash", "push pop apply drop list show clear branch changes", "all"),
    ("status", "", "short branch"),
    ("submodule", "add update init sync status deinit", ""),
    ("switch", "main master develop", ""),
    ("tag", "", "list"),
    ("worktree", "add list remove prune move lock repair", ""),
];

/// Commands of git that are commands of rawko too. After the word `git` they are git's.
const ALSO_GIT: &[OfGit] = &[("config", "", "list"), ("diff", "", "staged cached"), ("init", "", "")];

/// The command that these words probably mean if they are a command line. The first is no command of rawko, or in
/// quotes with the others.
pub(crate) fn meant(cli: &clap::Command, words: &[&str]) -> Option<String> {
    if words.is_empty() || words.len() > MOST_WORDS {
        return None;
    }
    let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let first = lower[0].trim_start_matches('/');
    if words.len() > 1 && has(PROGRAMS, first) {
        let (of_git, rest) = (first == "git", &words[1..]);
        return if of_git { of_git_itself(&lower[1], &rest[1..]) } else { meant(cli, rest) };
    }
    let rest = &words[1..];
    // The noun comes first in rawko.
    if let ("list" | "show", [noun, more @ ..]) = (first, rest)
        && let Some(line) = of_rawko(cli, &[&[*noun, first], more].concat(), Nearness::Exact)
    {
        return Some(line);
    }
    of_rawko(cli, &[&[first], rest].concat(), Nearness::Exact)
        .or_else(|| of_others(&lower[0], rest))
        .or_else(|| of_others(first, rest))
        .or_else(|| of_git(GIT, first, rest))
        .or_else(|| of_rawko(cli, &[&[first], rest].concat(), Nearness::Slip))
}

/// How a command of rawko has to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nearness {
    Exact,
    /// With a slip. Then what follows has to be clear: `patch` is near to `watch`.
    Slip,
}

/// The line of rawko that these words are.
fn of_rawko(cli: &clap::Command, words: &[&str], nearness: Nearness) -> Option<String> {
    let (first, rest) = words.split_first()?;
    if *first == "help" {
        return rest
            .iter()
            .all(|word| cli.find_subcommand(word).is_some())
            .then(|| did_you_mean("rawko --help"));
    }
    let mut command = find(cli, first, nearness)?;
    let mut line = vec!["rawko".to_owned(), command.get_name().to_owned()];
    let mut rest = rest.iter();
    let mut left = rest.as_slice();
    while let Some(inner) = left.first().and_then(|word| find(command, word, nearness)) {
        line.push(inner.get_name().to_owned());
        command = inner;
        rest.next();
        left = rest.as_slice();
    }
    let is_inner = line.len() > 2;
    let belongs = |at: usize, word: &str| match nearness {
        Nearness::Exact => is_argument(word) || is_provider(word) || is_value(command, word),
        Nearness::Slip if at == 0 => word == "last" || is_session(word),
        Nearness::Slip => word.chars().all(|c| c.is_ascii_digit()),
    };
    // After a subcommand comes the name of something, which is not a word of a sentence.
    let is_name = |word: &str| is_inner && word.contains(|c: char| !c.is_alphabetic());
    if !left.iter().enumerate().all(|(at, word)| belongs(at, word) || is_name(word)) {
        return None;
    }
    let help = format!("{} --help", line.join(" "));
    line.extend(left.iter().map(|word| (*word).to_owned()));
    let takes_task =
        command.get_positionals().any(|it| it.get_value_names().is_some_and(|it| it[0] == "TASK"));
    let works = (left.is_empty() || !takes_task) && parses(cli, &line);
    match (works, nearness) {
        (true, _) => Some(did_you_mean(&line.join(" "))),
        (false, Nearness::Slip) if !left.is_empty() => None,
        (false, _) => Some(did_you_mean(&help)),
    }
}

/// Whether this line is one of rawko's.
fn parses(cli: &clap::Command, line: &[String]) -> bool {
    cli.clone().try_get_matches_from(line).is_ok()
}

/// The subcommand of this name, or with a slip the nearest.
fn find<'a>(command: &'a clap::Command, word: &str, nearness: Nearness) -> Option<&'a clap::Command> {
    let word = word.to_lowercase();
    if nearness == Nearness::Exact {
        return command.find_subcommand(&word);
    }
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
    let scored = shown.map(|it| (strsim::damerau_levenshtein(it.get_name(), &word), it));
    let nearest = scored.min_by_key(|(distance, it)| (*distance, it.get_name()));
    nearest.filter(|(distance, it)| *distance <= 2.min(it.get_name().len() / 3)).map(|(_, it)| it)
}

/// Whether `word` is one of the few values that the command takes.
fn is_value(command: &clap::Command, word: &str) -> bool {
    let mut listed = command.get_positionals().flat_map(clap::Arg::get_possible_values);
    // Its commands are words to the parser.
    let steers = command.get_name() == "steer" && has("pause go say force skip retry cancel", word);
    steers || listed.any(|value| value.matches(word, true))
}

fn of_others(first: &str, rest: &[&str]) -> Option<String> {
    let of = OTHERS.iter().find(|of| has(of.names, first))?;
    let belongs = |word: &str| {
        is_argument(word) || has(of.then, &word.to_lowercase()) || (of.of_provider && is_provider(word))
    };
    rest.iter().all(|word| belongs(word)).then(|| of.meant.to_owned())
}

/// After the word `git`.
fn of_git_itself(first: &str, rest: &[&str]) -> Option<String> {
    of_git(GIT, first, rest).or_else(|| of_git(ALSO_GIT, first, rest))
}

fn of_git(commands: &[OfGit], first: &str, rest: &[&str]) -> Option<String> {
    let (name, then, flags) = commands.iter().find(|(name, ..)| *name == first)?;
    let mut line = format!("git {name}");
    let mut works = true;
    for word in rest {
        let lower = word.to_lowercase();
        match lower.as_str() {
            flag if has(flags, flag) => line.push_str(&format!(" --{flag}")),
            "last" if matches!(*name, "log" | "revert" | "reset" | "checkout") => line.push_str(" HEAD"),
            "all" | "last" | "changes" => works = false,
            _ if has(then, &lower) || is_argument(word) => line.push_str(&format!(" {word}")),
            _ => return None,
        }
    }
    if !works {
        line = format!("git {name} -h");
    }
    Some(match *name {
        "commit" => format!("rawko commits nothing: what you keep, you commit yourself, with `{line}`"),
        "reset" | "restore" | "revert" => format!(
            "`rawko rewind last --to 1` restores the files as they were before the last session; the command of git is \
             `{line}`"
        ),
        "status" | "log" => {
            format!(
                "`rawko sessions list` lists sessions, and `rawko diff last` shows what the last one changed; the \
                     command of git is `{line}`"
            )
        }
        _ => format!("the command of git is `{line}`"),
    })
}

fn did_you_mean(line: &str) -> String {
    format!("did you mean `{line}`?")
}

/// Whether `word` is one of these.
fn has(words: &str, word: &str) -> bool {
    words.split(' ').any(|it| it == word)
}

/// Whether `word` follows commands and is not part of a sentence: a flag, an id, `all`, `last`, this folder.
fn is_argument(word: &str) -> bool {
    let digits = word.trim_start_matches('#');
    let is_hash = || {
        let is_hex = |c: char| c.is_ascii_digit() || matches!(c, 'a'..='f');
        (7..=40).contains(&word.len())
            && word.chars().all(is_hex)
            && word.contains(|c: char| c.is_ascii_digit())
    };
    let is_revision = || {
        let rest = word.strip_prefix("HEAD");
        rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || "~^@{}".contains(c)))
    };
    let is_entry = word.starts_with("stash@{");
    matches!(word.to_lowercase().as_str(), "all" | "last" | ".")
        || (word.starts_with('-') && word.len() > 1)
        || (!digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()))
        || is_session(word)
        || is_hash()
        || is_revision()
        || is_entry
}

/// Whether `word` is a session's id or its beginning: a date, and then the time and whatever else.
fn is_session(word: &str) -> bool {
    let date = word.chars().take_while(char::is_ascii_digit).count();
    date == DATE_DIGITS && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_provider(word: &str) -> bool {
    let word = word.to_lowercase();
    PRESETS.iter().any(|preset| preset.name == word) || has(PROVIDERS, &word)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use proptest::prelude::*;

    use super::*;
    use crate::arguments::Cli;

    /// What these words, apart and in quotes, are taken for.
    #[track_caller]
    fn check(line: &str, expected: Option<&str>) {
        let words: Vec<&str> = line.split(' ').collect();
        let got = meant(&Cli::command(), &words);
        match expected {
            Some(part) => assert!(got.as_ref().is_some_and(|got| got.contains(part)), "{line}: {got:?}"),
            None => assert_eq!(got, None, "{line}"),
        }
    }

    #[test]
    fn a_command_line_is_no_task() {
        for (line, part) in [
            ("auth login", "`rawko doctor`"),
            ("login openai", "ANTHROPIC_API_KEY"),
            ("auth login anthropic", "`rawko providers list`"),
            ("undo last", "`rawko rewind last --to 1`"),
            ("Undo all", "`rawko rewind last --to 1`"),
            ("/undo last", "`rawko rewind last --to 1`"),
            ("stop last", "`rawko cancel last`"),
            ("kill 20261126-183416-808-5ztae", "`rawko cancel last`"),
            ("explain 20261126-1834", "did you mean `rawko explain 20261126-1834`?"),
            ("commit all", "`git commit --all`"),
            ("commit all changes", "rawko commits nothing"),
            ("commit --amend", "`git commit --amend`"),
            ("commit last", "`git commit -h`"),
            ("push origin main", "`git push origin main`"),
            ("push --force", "`git push --force`"),
            ("stash pop", "`git stash pop`"),
            ("rebase continue", "`git rebase --continue`"),
            ("cherry-pick 4f9d2ab", "`git cherry-pick 4f9d2ab`"),
            ("revert HEAD~1", "`git revert HEAD~1`"),
            ("add .", "`git add .`"),
            ("git status", "`git status`"),
            ("git commit all", "`git commit --all`"),
            ("git init", "`git init`"),
            ("claude update", "rawko does not update itself"),
            ("codex login", "`rawko doctor`"),
            ("gemini extensions list", "`rawko skills list`"),
            ("copilot logout", "`rawko doctor`"),
            ("goose session list", "did you mean `rawko sessions list`?"),
            ("opencode stats", "`rawko usage`"),
            ("claude resume last", "did you mean `rawko resume last`?"),
            ("model openai", "`rawko providers models`"),
            ("plugin install", "`rawko mcp list`"),
            ("list sessions", "did you mean `rawko sessions list`?"),
            ("show agents", "did you mean `rawko agents show --help`?"),
            ("show last", "`rawko sessions show last`"),
            ("accept all", "`rawko approve`"),
            ("chat", "`rawko -p \"what does it do?\"`"),
            ("/review", "`rawko \"add a test\"`"),
            ("/add", "`rawko --file notes.md"),
            ("/quit", "`rawko cancel last`"),
            ("/model openai", "`rawko providers models`"),
            ("/help", "did you mean `rawko --help`?"),
            // In quotes, or after the name of the program.
            ("sessions list", "did you mean `rawko sessions list`?"),
            ("explain last 2", "did you mean `rawko explain last 2`?"),
            ("memory show api-style", "did you mean `rawko memory show api-style`?"),
            ("steer pause", "did you mean `rawko steer pause`?"),
            ("completions bash", "did you mean `rawko completions bash`?"),
            ("providers check openai", "did you mean `rawko providers check openai`?"),
            ("trust all", "did you mean `rawko trust --help`?"),
            ("run all", "did you mean `rawko run --help`?"),
            ("rawko sessions list", "did you mean `rawko sessions list`?"),
            ("help sessions", "did you mean `rawko --help`?"),
        ] {
            check(line, Some(part));
        }
    }

    #[test]
    fn a_slip_is_no_task() {
        check("docter", Some("did you mean `rawko doctor`?"));
        check("sesions list", Some("did you mean `rawko sessions list`?"));
        check("sesions lsit", Some("did you mean `rawko sessions list`?"));
        check("memry show api-style", Some("did you mean `rawko memory show api-style`?"));
        check("explian last 2", Some("did you mean `rawko explain last 2`?"));
        check(
            "resme 20261126-183416-808-5ztae",
            Some("did you mean `rawko resume 20261126-183416-808-5ztae`?"),
        );
        // Words that are near to a command, and mean something else.
        for line in ["catch all", "patch 12", "form v2", "work 3", "rust 2024", "memo 1", "form 1", "use 2FA"]
        {
            check(line, None);
        }
    }

    /// Tasks that people give in two or three words.
    const HONEST: &str = "\
        add tests, update dependencies, fix typos, remove dead code, add logging, upgrade clippy, run tests, fix build, \
        fix lint, update readme, bump version, rename module, add docs, add types, fix warnings, fix #12, fix 404, \
        fix all tests, fix all, update all dependencies, remove all todos, add oauth2, add utf8 support, add i18n, \
        init project, init the project, test login, fix login, fix auth login, add auth, add login page, add undo, \
        implement undo, support undo/redo, add openai provider, add openai, remove ollama, upgrade tokio, \
        update changelog, clean up imports, clean up, merge duplicate helpers, merge configs, log errors, \
        log all requests, show version, show progress bar, list all files, commit hooks, git hooks, push notifications, \
        reset button, stop button, revert button, restore window size, status page, switch to tokio, tag releases, \
        config parser, explain the bug, explain main.rs, diff viewer, fork bomb protection, memory leak, tool support, \
        tool support is broken, session timeout, skill tree, agent crashes, resume upload, trust proxy headers, \
        login page, login broken, auth middleware, model validation, models cleanup, plugin system, hooks cleanup, \
        remove feature flag, delete unused files, install script, version flag, web frontend, server crash, \
        update claude.md, review the code, write tests, refactor parser, improve performance, speed up tests, \
        document the api, cancel button, watch mode, demo page, usage text, approve workflow, rewind animation, \
        new endpoint, review #12, add main.rs, code review, sandbox escape, chat window, clear cache, compact layout, apply clippy, apply rustfmt, accept json, reject duplicates, \
        export csv, history page, cost estimate, setup docker, configure eslint, catch all, search all";

    #[test]
    fn an_honest_short_task_runs() {
        let tasks: Vec<&str> = HONEST.split(',').map(str::trim).collect();
        assert!(tasks.len() > 100, "{}", tasks.len());
        for task in tasks {
            check(task, None);
            // As a sentence begins.
            let (first, rest) = task.split_at(1);
            check(&format!("{}{rest}", first.to_uppercase()), None);
        }
    }

    #[test]
    fn each_command_with_each_subcommand_and_last_is_refused() {
        let cli = Cli::command();
        for command in cli.get_subcommands().filter(|it| !it.is_hide_set()) {
            let name = command.get_name();
            check(&format!("{name} last"), Some("did you mean `rawko "));
            check(&format!("{name} all"), Some("did you mean `rawko "));
            for inner in command.get_subcommands() {
                check(&format!("{name} {}", inner.get_name()), Some("did you mean `rawko "));
                check(&format!("rawko {name} {}", inner.get_name()), Some("did you mean `rawko "));
                check(&format!("{name} {} last", inner.get_name()), Some("did you mean `rawko "));
            }
        }
    }

    #[test]
    fn every_line_of_rawko_that_is_named_works() {
        let lines = OTHERS.iter().flat_map(|of| of.meant.split('`').skip(1).step_by(2));
        let mut checked = 0;
        for line in lines {
            assert_eq!(crate::documentation::refusals(line), Ok(Vec::new()), "{line}");
            checked += 1;
        }
        assert!(checked > 15, "{checked}");
    }

    fn of_commands() -> Vec<(String, String)> {
        let others =
            OTHERS.iter().flat_map(|of| of.names.split(' ').map(move |name| (name, of.then.to_owned())));
        let git = GIT.iter().map(|(name, then, flags)| (*name, format!("{then} {flags}")));
        others.chain(git).map(|(name, then)| (name.to_owned(), then)).collect()
    }

    proptest! {
        #[test]
        fn commands_of_others_are_refused(at: prop::sample::Index, then: prop::sample::Index, third: prop::sample::Index) {
            let commands = of_commands();
            let (name, then_words) = at.get(&commands[..]);
            let mut words: Vec<&str> = then_words.split(' ').filter(|word| !word.is_empty()).collect();
            words.extend(["all", "last", "7", "--force", "20261126-183416-808-5ztae", "4f9d2ab"]);
            let cli = Cli::command();
            let (second, third) = (*then.get(&words[..]), *third.get(&words[..]));
            prop_assert!(meant(&cli, &[name, second]).is_some());
            prop_assert!(meant(&cli, &[name, second, third]).is_some());
            // A word that belongs to none of them makes it a task, and so does a fourth.
            for task in [&[name, "carefully"][..], &[name, second, "carefully"], &[name, "all", "last", "7"]] {
                prop_assert_eq!(meant(&cli, task), None);
            }
        }
    }
}
