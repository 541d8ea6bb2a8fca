//! Options and commands that users of other agents type, each with rawko's equivalent.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::Failure;
use crate::output::clean_line;

/// Options or subcommands of others that mean the same.
struct Foreign {
    /// As they are typed, with spaces between them.
    typed: &'static str,
    /// The equivalent in rawko.
    meant: &'static str,
    /// A command line that does it.
    instead: &'static str,
}

const OPTIONS: &[Foreign] = &[
    Foreign {
        typed: "--yolo --dangerously-skip-permissions --dangerously-bypass-approvals-and-sandbox --full-auto --yes-always \
                --auto-approve --auto-accept --allow-all-tools --trust-all-tools --allow-dangerously-skip-permissions \
                --skip-permissions --auto --auto-edit --autopilot --no-ask-user --allow-all --allow-all-paths --allow-all-urls --force",
        meant: "agents work within their permissions and in a sandbox, and ask nothing unless you say so; \
                to trust this folder for one run",
        instead: "rawko --yes \"fix the failing test\"",
    },
    Foreign {
        typed: "--allowedTools --allowed-tools --allow-tool --tools --disallowedTools --disallowed-tools --deny-tool \
                --available-tools --exclude-tools --excluded-tools --allow-url --deny-url",
        meant: "the file of an agent says which tools it has; to see what holds",
        instead: "rawko agents show developer",
    },
    Foreign {
        typed: "--max-turns --max-steps --max-session-turns --max-iter --turns --steps",
        meant: "a run is limited in executions, tokens, cost or time",
        instead: "rawko --max-iterations 5 \"fix the failing test\"",
    },
    Foreign {
        typed: "--max-budget-usd --budget --max-budget --max-spend",
        meant: "the limit of a run's cost, in US dollars, is",
        instead: "rawko --max-cost 2 \"fix the failing test\"",
    },
    Foreign {
        typed: "--add-dir --add-directory --include-directories --include-directory",
        meant: "folders besides the project are granted by their paths",
        instead: "rawko --allow-read=.,../other \"fix the failing test\"",
    },
    Foreign {
        typed: "-r --resume --session --session-id --resume-session --fork-session --restore-chat-history",
        meant: "an interrupted session is resumed, and a next task is given, by commands of their own: `rawko resume ID`, \
                `rawko continue ID \"a task\"`; for the last session",
        instead: "rawko resume",
    },
    Foreign {
        typed: "--last --resume-last",
        meant: "without an id it is the last session",
        instead: "rawko resume",
    },
    Foreign {
        typed: "--permission-mode --permission-prompt-tool --approval-mode -a --ask-for-approval --approval-policy --plan",
        meant: "permissions say what agents may do; to see the first decision and what its agent would do, without a change",
        instead: "rawko --dry-run \"fix the failing test\"",
    },
    Foreign {
        typed: "--output-format --format --json-output --json --stream-json --experimental-json --input-format -o \
                --include-partial-messages --output-schema --json-schema --output-last-message --replay-user-messages",
        meant: "the result as JSON, or every event with `stream-json`",
        instead: "rawko --output json \"fix the failing test\"",
    },
    Foreign {
        typed: "-s --sandbox --sandbox-mode --sandbox-image --sandbox-policy",
        meant: "commands of agents always run in a sandbox; what it holds on this machine",
        instead: "rawko doctor",
    },
    Foreign {
        typed: "--message --prompt --prompt-interactive --instruction --task --text --query --command",
        meant: "the task stands without an option",
        instead: "rawko \"fix the failing test\"",
    },
    Foreign {
        typed: "--headless --non-interactive --no-interactive --batch --no-input --interactive --chat",
        meant: "without a person, a run asks nothing that stops it",
        instead: "rawko \"fix the failing test\"",
    },
    Foreign {
        typed: "--system-prompt --append-system-prompt --system-prompt-file --append-system-prompt-file \
                --custom-instructions --agents --subagents",
        meant: "standing instructions are in AGENTS.md, and an agent's own in its file; to see an agent",
        instead: "rawko agents show developer",
    },
    Foreign {
        typed: "--mcp-config --mcp --allowed-mcp-server-names --strict-mcp-config --additional-mcp-config \
                --disable-mcp-server --mcp-debug",
        meant: "servers of tools are in .mcp.json or under `mcp` in .rawko/config.yaml; to see which are there",
        instead: "rawko mcp list",
    },
    Foreign {
        typed: "-i --image --images --attach --attachment --attachments --read -f --message-file --prompt-file \
                --instruction-file --instructions",
        meant: "a picture or a text is given with the task",
        instead: "rawko --file screen.png \"make it look like this\"",
    },
    Foreign {
        typed: "--cd --cwd-dir --working-dir --working-directory --workdir --work-dir --dir --directory --project-dir \
                --workspace",
        meant: "to work in another folder",
        instead: "rawko -C ../other \"fix the failing test\"",
    },
    Foreign {
        typed: "--test --test-cmd --auto-test --lint --lint-cmd --auto-lint --check",
        meant: "what verifies a run is found, or named",
        instead: "rawko --verify \"npm test\" \"fix the failing test\"",
    },
    Foreign {
        typed: "-d --debug --debug-file --log-level --trace --show-diffs",
        meant: "to see more of a run",
        instead: "rawko --verbose \"fix the failing test\"",
    },
    Foreign {
        typed: "--list-sessions --history",
        meant: "to see the sessions of this folder",
        instead: "rawko sessions list",
    },
    Foreign {
        typed: "--list-models --models",
        meant: "to see the models",
        instead: "rawko providers models",
    },
    Foreign {
        typed: "--fallback-model --weak-model --editor-model --small-model --oss --local-provider",
        meant: "provider and model are chosen by their names",
        instead: "rawko --provider ollama --model qwen3 \"fix the failing test\"",
    },
    Foreign {
        typed: "--mode --chat-mode --architect --subagent",
        meant: "the arbiter chooses the agent; to begin with one",
        instead: "rawko --agent planner \"fix the failing test\"",
    },
    Foreign {
        typed: "--effort --reasoning-effort --thinking --thinking-tokens --max-thinking-tokens --variant",
        meant: "how much a model thinks is `thinking` of its provider in .rawko/config.yaml; to see what holds",
        instead: "rawko config show",
    },
    Foreign {
        typed: "--settings --setting-sources --set --profile --config-file --model-settings-file",
        meant: "values are in .rawko/config.yaml, or in the file that --config names; to see each and where it comes from",
        instead: "rawko config show",
    },
    Foreign {
        typed: "--api-key --openai-api-key --anthropic-api-key --key --token --env-file --login --auth",
        meant: "a key comes from the environment; to see the variable of each provider",
        instead: "rawko providers list",
    },
    Foreign {
        typed: "--update --upgrade --check-update --install-main-branch",
        meant: "rawko does not update itself; to see which one this is",
        instead: "rawko --version",
    },
    Foreign {
        typed: "--undo --rollback --checkpointing",
        meant: "each run keeps the files as they were; to take back the last one",
        instead: "rawko rewind --to 1",
    },
    Foreign {
        typed: "--auto-commits --no-auto-commits --auto-commit --commit --dirty-commits --no-git --skip-git-repo-check",
        meant: "rawko commits nothing and needs no repository; to see what a run changed",
        instead: "rawko diff",
    },
    Foreign {
        typed: "-w --worktree --background --bg --detach --parallel",
        meant: "a run beside others works in a tree of its own",
        instead: "rawko --isolated \"fix the failing test\"",
    },
    Foreign {
        typed: "--search --web-search --enable-web-search --chrome --no-chrome",
        meant: "agents that have the tool WebSearch search where a service is configured, or by their provider; to see \
                what an agent has",
        instead: "rawko agents show developer",
    },
    Foreign {
        typed: "--no-color --theme --dark-mode --light-mode --pretty --no-pretty --no-stream --vim --screen-reader \
                --no-alt-screen",
        meant: "lines without a view, and with --color never without colors",
        instead: "rawko --plain \"fix the failing test\"",
    },
    Foreign {
        typed: "--serve --server --web --gui --browser --port --hostname --ide",
        meant: "sessions are shown in a browser",
        instead: "rawko inspect",
    },
    Foreign {
        typed: "--acp --experimental-acp",
        meant: "an editor starts a command of its own",
        instead: "rawko acp",
    },
    Foreign {
        typed: "--ephemeral --no-session --no-session-persistence --new --new-session --clear",
        meant: "each task begins a new conversation, unless it is given with -c",
        instead: "rawko \"fix the failing test\"",
    },
    Foreign {
        typed: "--plugin-dir --extensions --list-extensions --no-plugins --hooks",
        meant: "agents have skills and servers of tools besides their tools; to see the skills",
        instead: "rawko skills list",
    },
];

/// Subcommands of commands that rawko has too.
const SUBCOMMANDS: &[(&str, Foreign)] = &[
    (
        "mcp",
        Foreign {
            typed: "add add-json add-from-claude-desktop remove rm get edit enable disable reset-project-choices",
            meant: "servers of tools are in .mcp.json or under `mcp` in .rawko/config.yaml, and are changed there; to see which \
                    are there",
            instead: "rawko mcp list",
        },
    ),
    (
        "config",
        Foreign {
            typed: "set get add remove rm unset edit list ls reset path init",
            meant: "values are in .rawko/config.yaml, and are changed there; to see each and where it comes from",
            instead: "rawko config show",
        },
    ),
    (
        "sessions",
        Foreign {
            typed: "resume continue open attach",
            meant: "an interrupted session goes on",
            instead: "rawko resume",
        },
    ),
    (
        "sessions",
        Foreign {
            typed: "delete remove del clear prune",
            meant: "sessions are removed by their ids, or all that ended before a day; the last one",
            instead: "rawko sessions rm last",
        },
    ),
    (
        "sessions",
        Foreign {
            typed: "history view get ls share",
            meant: "to see the last one",
            instead: "rawko sessions show last",
        },
    ),
    (
        "mcp",
        Foreign {
            typed: "auth authenticate logout",
            meant: "to log in at a server",
            instead: "rawko mcp login tracker",
        },
    ),
    (
        "skills",
        Foreign {
            typed: "add install create new remove uninstall rm update",
            meant: "a skill is a folder in .agents/skills; to see which are there",
            instead: "rawko skills list",
        },
    ),
    (
        "tools",
        Foreign {
            typed: "allow deny add remove enable disable show trust",
            meant: "the file of an agent says which tools it has; to see what holds",
            instead: "rawko agents show developer",
        },
    ),
    (
        "memory",
        Foreign {
            typed: "delete remove rm forget clear",
            meant: "a memory is a file in .rawko/memories; to let one expire",
            instead: "rawko memory retire oauth",
        },
    ),
    (
        "agents",
        Foreign {
            typed: "create new add generate remove delete rm edit",
            meant: "an agent is a file in .rawko/agents; to see which are there",
            instead: "rawko agents list",
        },
    ),
    (
        "providers",
        Foreign {
            typed: "login logout add set remove auth",
            meant: "a key comes from the environment; to see the variable of each provider",
            instead: "rawko providers list",
        },
    ),
];

/// The commands that begin work.
const TAKE_TASKS: [&str; 3] = ["run", "continue", "resume"];

impl Foreign {
    fn is_typed(&self, word: &str) -> bool {
        self.typed.split_whitespace().any(|known| known == word)
    }

    fn answer(&self) -> String {
        format!("{}: {}", self.meant, self.instead)
    }
}

/// Whether another agent has an option of this name.
pub(crate) fn is_option(flag: &str) -> bool {
    let name = flag.split('=').next().unwrap_or(flag);
    OPTIONS.iter().any(|option| option.is_typed(name))
}

/// The answer to a command line that the parser refused, if it is one of another agent.
pub(crate) fn answered(error: &clap::Error) -> Option<Failure> {
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let typed = word(ContextKind::InvalidArg)?;
            let name = typed.split(['=', ' ']).next().unwrap_or(typed);
            // They are those of a run: the same word may mean something else to another command.
            let usage = error.get(ContextKind::Usage)?.to_string();
            let is_of = |command: &&str| {
                usage.contains(&format!("rawko {command} ")) || usage.contains(&format!("rawko [{command}] "))
            };
            TAKE_TASKS.iter().find(|command| is_of(command))?;
            let option = OPTIONS.iter().find(|option| option.is_typed(name))?;
            let message = format!("there is no option `{}` here", clean_line(name));
            Some(Failure::usage(message).with_hint(option.answer()))
        }
        ErrorKind::InvalidSubcommand => {
            let typed = word(ContextKind::InvalidSubcommand)?;
            let usage = error.get(ContextKind::Usage)?.to_string();
            let (command, known) = SUBCOMMANDS.iter().find(|(command, known)| {
                known.is_typed(typed) && usage.contains(&format!("rawko {command} "))
            })?;
            let message = format!("there is no command `{command} {}`", clean_line(typed));
            Some(Failure::usage(message).with_hint(known.answer()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Parser as _;

    use super::*;
    use crate::arguments::{Cli, with_command};
    use crate::documentation::refusals;

    /// The answer to a command line.
    #[track_caller]
    fn answer(line: &[&str]) -> String {
        let arguments = ["rawko"].iter().chain(line).map(OsString::from).collect();
        let arguments =
            with_command(arguments).unwrap_or_else(|_| panic!("{line:?} is refused by its words"));
        let error = Cli::try_parse_from(arguments).err().unwrap_or_else(|| panic!("rawko takes {line:?}"));
        let Some(Failure::Report(report)) = answered(&error) else {
            panic!("{line:?} has no answer: {error}")
        };
        format!("{report:?}")
    }

    #[test]
    fn every_foreign_option_is_answered_with_a_line_that_works() {
        for option in OPTIONS {
            assert_eq!(refusals(option.instead), Ok(Vec::new()), "{}", option.instead);
            for flag in option.typed.split_whitespace() {
                for line in [
                    &[flag, "fix"][..],
                    &[flag, "x", "fix the test"],
                    &["fix the test", flag],
                    &["run", flag],
                ] {
                    let answer = answer(line);
                    assert!(answer.contains(&option.answer().replace('"', "\\\"")), "{line:?}: {answer}");
                }
            }
        }
    }

    #[test]
    fn every_foreign_subcommand_is_answered_with_a_line_that_works() {
        for (command, known) in SUBCOMMANDS {
            assert_eq!(refusals(known.instead), Ok(Vec::new()), "{}", known.instead);
            for typed in known.typed.split_whitespace() {
                let answer = answer(&[*command, typed, "x"]);
                assert!(answer.contains(known.meant), "{command} {typed}: {answer}");
            }
        }
    }

    #[test]
    fn known_and_unknown_words_are_left_to_the_parser() {
        for line in [&["sessions", "list", "--json"][..], &["--verify", "make", "fix it"], &["mcp", "list"]] {
            let arguments = ["rawko"].iter().chain(line).map(OsString::from).collect();
            let taken = with_command(arguments).map(Cli::try_parse_from);
            assert!(matches!(taken, Ok(Ok(_))), "{line:?}");
        }
        for line in [
            &["run", "--frobnicate", "x"][..],
            &["init", "--force"],
            &["trust", "--force"],
            &["doctor", "--format", "json"],
            &["sessions", "list", "--search", "x"],
            &["usage", "--session", "last"],
        ] {
            let arguments = ["rawko"].iter().chain(line).map(OsString::from).collect();
            let error = Cli::try_parse_from(with_command(arguments).unwrap()).unwrap_err();
            assert!(answered(&error).is_none(), "{line:?}");
        }
    }
}
