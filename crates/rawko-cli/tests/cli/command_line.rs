//! Arguments: what is a command, what is a task, and what is neither.

use crate::place::Place;

#[track_caller]
fn check(arguments: &[&str], code: i32, parts: &[&str]) {
    let done = Place::new().rawko(arguments).ends(code).complains(parts);
    assert_eq!(done.out, "", "a failure says nothing on standard output");
}

#[test]
fn what_cannot_be_used_ends_in_2_and_says_what_to_try() {
    check(&[], 2, &["error: no task was given", "hint:", "rawko demo"]);
    check(&["run"], 2, &["error: no task was given"]);
    check(&["  "], 2, &["error: no task was given"]);
    check(&["docter"], 2, &["there is no command `docter`", "did you mean `rawko doctor`?"]);
    check(&["agnets", "list"], 2, &["did you mean `rawko agents list`?"]);
    check(&["agents", "lst"], 2, &["unrecognized subcommand 'lst'", "list"]);
    check(&["memory", "lst"], 2, &["unrecognized subcommand 'lst'", "list"]);
    check(&["init", "the", "project"], 2, &["unexpected argument 'the'", "to run a task: rawko run"]);
    check(&["--modle", "x", "do it"], 2, &["unexpected argument '--modle'", "--model"]);
    check(&["--max-iterations", "0", "do it"], 2, &["invalid value '0'", "--max-iterations"]);
    check(&["--max-cost", "much", "do it"], 2, &["invalid value 'much'", "like 2.50"]);
    check(&["--timeout", "1.5h", "do it"], 2, &["invalid value '1.5h'", "`1h30m`"]);
    check(&["--output", "xml", "do it"], 2, &["invalid value 'xml'", "stream-json"]);
    check(&["--quiet", "--verbose", "do it"], 2, &["--quiet", "--verbose"]);
    check(&["--color", "pink", "doctor"], 2, &["invalid value 'pink'"]);
    check(&["--cwd", "nowhere", "do it"], 2, &["cannot work in nowhere", "--cwd DIR"]);
    check(&["--config", "nowhere.yaml", "do it"], 2, &["nowhere.yaml", "there is no such file"]);
    check(
        &["--agent", "plannr", "--provider", "ollama", "--model", "m", "do it"],
        2,
        &["there is no agent `plannr`", "planner"],
    );
    check(&["completions", "tcsh"], 2, &["invalid value 'tcsh'", "fish"]);
}

/// Short tasks as people give them. What each of them does is up to the agents.
const HONEST: [&str; 42] = [
    "add tests",
    "update dependencies",
    "fix typos",
    "remove dead code",
    "add logging",
    "upgrade clippy",
    "run tests",
    "fix build",
    "fix lint",
    "update readme",
    "bump version",
    "rename module",
    "add docs",
    "add types",
    "fix warnings",
    "fix #12",
    "fix all tests",
    "update all dependencies",
    "remove all todos",
    "add oauth2",
    "add utf8 support",
    "add login page",
    "fix auth login",
    "implement undo",
    "add openai provider",
    "remove ollama",
    "upgrade tokio",
    "clean up imports",
    "merge duplicate helpers",
    "log errors",
    "list all files",
    "push notifications",
    "stop button",
    "switch to tokio",
    "tag releases",
    "model validation",
    "plugin system",
    "install script",
    "refactor parser",
    "improve performance",
    "apply rustfmt",
    "catch all",
];

/// A place in which a run ends before it has begun: no provider was chosen.
fn without_provider() -> Place {
    let place = Place::new();
    place.without_servers();
    place
}

#[test]
fn a_command_line_starts_no_run() {
    let place = without_provider();
    for (line, parts) in [
        ("auth login", &["set ANTHROPIC_API_KEY", "`rawko doctor`"][..]),
        ("login openai", &["`rawko doctor`"]),
        ("undo last", &["`rawko rewind last --to 1`"]),
        ("stop last", &["`rawko cancel last`"]),
        ("commit all", &["rawko commits nothing", "`git commit --all`"]),
        ("push origin main", &["`git push origin main`"]),
        ("git status", &["`git status`"]),
        ("claude update", &["`rawko --version`"]),
        ("goose session list", &["did you mean `rawko sessions list`?"]),
        ("explian last 2", &["did you mean `rawko explain last 2`?"]),
    ] {
        let apart: Vec<&str> = line.split(' ').collect();
        for arguments in [&apart[..], &[line]] {
            let done =
                place.rawko(arguments).ends(2).complains(&["no run was started", line]).complains(parts);
            assert_eq!(done.out, "");
            // The line that it gives, typed in, begins a run, which has no provider here.
            let as_task = format!("to run it as a task: rawko run \"{line}\"\n");
            assert!(done.err.contains(&as_task), "{done:?}");
        }
        place.rawko(&["run", line]).ends(4).complains(&["no provider is configured"]);
    }
    assert!(!place.project().join(".rawko").exists(), "nothing was begun");
}

/// Lines that users of other agents would type.
#[test]
fn lines_of_other_agents_are_answered_with_rawkos_own() {
    let place = without_provider();
    for (line, part) in [
        ("--yolo|fix the test", "rawko --yes"),
        ("--dangerously-skip-permissions|-p|fix the test", "rawko --yes"),
        ("--permission-mode|acceptEdits|fix the test", "rawko --dry-run"),
        ("--full-auto|fix it", "rawko --yes"),
        ("exec|--full-auto|fix it", "rawko --yes"),
        ("-a|never|fix it", "permissions say"),
        ("--allowedTools|Bash,Edit|fix it", "rawko agents show developer"),
        ("--max-turns|5|fix it", "rawko --max-iterations"),
        ("--add-dir|../lib|fix it", "rawko --allow-read=.,../other"),
        ("--resume", "rawko resume"),
        ("-r|20260123-094000", "rawko resume"),
        ("--resume|abc123", "rawko resume"),
        ("-p|what is it|--output-format|json", "rawko --output json"),
        ("exec|--json|fix it", "rawko --output json"),
        ("--message|fix it", "without an option"),
        ("--yes-always|fix it", "rawko --yes"),
        ("-s|workspace-write|fix it", "rawko doctor"),
        ("--weak-model|x|fix it", "rawko --provider ollama"),
        ("--no-auto-commits|fix it", "rawko commits nothing"),
        ("--effort|high|fix it", "`thinking` of its provider"),
        ("mcp|add|docs|--|npx|docs", "rawko mcp list"),
        ("config|set|model|x", "rawko config show"),
        ("agents|create", "rawko agents list"),
        ("sessions|delete|x", "rawko sessions rm"),
        ("skills|install|x", "rawko skills list"),
        ("login", "set ANTHROPIC_API_KEY"),
        ("logout", "set ANTHROPIC_API_KEY"),
        ("update", "rawko does not update itself"),
        ("chat", "`rawko -p"),
        ("/help", "`rawko --help`"),
        ("/quit", "`rawko cancel last`"),
        ("/model", "`rawko providers models`"),
        ("/review", "`rawko \"add a test\"`"),
    ] {
        let words: Vec<&str> = line.split('|').collect();
        let done = place.rawko(&words).ends(2).complains(&["error:", "hint:", part]);
        assert_eq!(done.out, "", "{line}");
        assert!(!done.err.contains("a similar argument"), "{line}: {done:?}");
    }
    // What rawko has, and a task about such an option, is none.
    for line in ["--yes|fix the test", "document --yolo and --max-turns", "--|--yolo|is broken"] {
        let words: Vec<&str> = line.split('|').collect();
        place.rawko(&words).ends(4).complains(&["no provider is configured"]);
    }
    assert!(!place.project().join(".rawko").exists(), "nothing was begun");
}

#[test]
fn an_honest_short_task_begins() {
    let place = without_provider();
    for task in HONEST {
        place.rawko(&[task]).ends(4).complains(&["no provider is configured"]);
    }
    let apart: Vec<&str> = HONEST[0].split(' ').collect();
    place.rawko(&apart).ends(4).complains(&["no provider is configured"]);
    // Words that are given as a task are a task.
    for arguments in [
        &["run", "undo", "last"][..],
        &["exec", "undo last"],
        &["-p", "undo last"],
        &["--file", "/dev/null", "undo", "last"],
        &["--", "undo", "last"],
    ] {
        place.rawko(arguments).ends(4).complains(&["no provider is configured"]);
    }
    place.rawko_with(&["-"], b"undo last").ends(4).complains(&["no provider is configured"]);
}

#[test]
fn help_is_no_failure() {
    let place = Place::new();
    let help = place.rawko(&["--help"]).ends(0).out;
    // What a build lacks is not in its help.
    let of_features = |line: &&str| {
        ["  submit ", "  fleet ", "  worker ", "  acp "].iter().any(|name| line.starts_with(name))
    };
    let shown = if cfg!(feature = "fleet") { 3 } else { 0 } + usize::from(cfg!(feature = "acp"));
    assert_eq!(help.lines().filter(of_features).count(), shown, "{help}");
    let help: Vec<&str> = help.lines().filter(|line| !of_features(line)).collect();
    insta::assert_snapshot!("help", help.join("\n"));
    insta::assert_snapshot!("help_run", place.rawko(&["run", "--help"]).ends(0).out);
    insta::assert_snapshot!("help_simulate", place.rawko(&["help", "machine", "simulate"]).ends(0).out);
    let version = place.rawko(&["--version"]).ends(0);
    assert_eq!(version.out, format!("rawko {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_shell_gets_its_completions() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        place.rawko(&["completions", shell]).ends(0).says(&["rawko", "COMPLETE"]);
    }
}

/// What bash offers after these words, as after pressing Tab.
fn offered(place: &Place, words: &[&str]) -> Vec<String> {
    let script = r#"
        source <(rawko completions bash) || exit 1
        COMP_WORDS=(rawko "$@"); COMP_CWORD=$#
        _clap_complete_rawko rawko "${@: -1}" ""
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_rawko"));
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = std::process::Command::new("bash");
    command.arg("-c").arg(script).arg("bash").args(words).current_dir(place.project()).env_clear();
    command.env("HOME", place.tmp()).env("PATH", format!("{}:{path}", binary.parent().unwrap().display()));
    let done = crate::support::Said::of(command.output().unwrap()).ends(0);
    done.out.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn bash_completes_commands_sessions_agents_and_providers() {
    let script =
        serde_json::json!([{"for": "select", "error": {"code": "invalid_request", "message": "no"}}]);
    let place = Place::scripted(&script);
    assert_eq!(offered(&place, &["resu"]), ["resume"]);
    assert_eq!(offered(&place, &["resume", ""]).first().map(String::as_str), Some("last"));
    let ended = place.rawko(&["--yes", "--output", "json", "do it"]);
    let session = ended.json()["session"].as_str().unwrap().to_owned();
    assert!(!session.is_empty(), "{ended:?}");
    for command in [&["resume", ""][..], &["sessions", "show", ""], &["explain", ""], &["continue", ""]] {
        let offered = offered(&place, command);
        assert!(offered.contains(&session), "{command:?}: {offered:?}");
    }
    assert_eq!(offered(&place, &["fork", &session[..10]]), [session.as_str()]);
    // Bash would insert it as it is, and run what follows the semicolon.
    let sessions = place.project().join(".rawko/sessions");
    let hostile = sessions.join(format!("{session};touch x"));
    std::fs::create_dir(&hostile).unwrap();
    std::fs::copy(sessions.join(&session).join("journal.jsonl"), hostile.join("journal.jsonl")).unwrap();
    assert_eq!(offered(&place, &["fork", &session[..10]]), [session.as_str()]);
    assert_eq!(offered(&place, &["run", "--agent", "plan"]), ["planner"]);
    assert!(offered(&place, &["run", "--provider", "olla"]).contains(&"ollama".to_owned()));
    // Without the word `run`, before and after the words of a task.
    for words in [&["--max-it"][..], &["fix", "it", "--max-it"], &["run", "--max-it"]] {
        assert_eq!(offered(&place, words), ["--max-iterations"], "{words:?}");
    }
    assert_eq!(offered(&place, &["fix it", "--agent", "plan"]), ["planner"]);
    assert_eq!(offered(&place, &["--conti"]), ["--continue"]);
    assert_eq!(offered(&place, &["steer", "fo"]), ["force"]);
    assert!(offered(&place, &["steer", ""]).contains(&session));
    assert_eq!(offered(&place, &["steer", &session, "pau"]), ["pause"]);
    assert_eq!(offered(&place, &["steer", "force", "plan"]), ["planner"]);
    assert_eq!(offered(&place, &["steer", &session, "force", "plan"]), ["planner"]);
}

#[test]
fn variables_of_the_command_line_are_checked_like_its_options() {
    let place = Place::new();
    for (name, value) in [("RAWKO_OUTPUT", "xml"), ("RAWKO_COLOR", "pink"), ("RAWKO_MAX_ITERATIONS", "many")]
    {
        let output = place.command(&["do it"]).env(name, value).output().unwrap();
        crate::support::Said::of(output).ends(2).complains(&["error:", name]);
    }
    let empty = place.command(&["agents", "list"]).env("RAWKO_COLOR", "").output().unwrap();
    crate::support::Said::of(empty).ends(0);
}

#[test]
fn colours_come_when_they_are_asked_for() {
    let place = Place::new();
    let colored = |arguments: &[&str], variable: Option<(&str, &str)>| {
        let mut command = place.command(arguments);
        command.envs(variable);
        crate::support::Said::of(command.output().unwrap()).ends(0).out.contains('\u{1b}')
    };
    assert!(!colored(&["agents", "list"], None));
    assert!(colored(&["agents", "list", "--color", "always"], None));
    assert!(colored(&["--color=always", "agents", "list"], Some(("NO_COLOR", "1"))));
    assert!(colored(&["agents", "list"], Some(("CLICOLOR_FORCE", "1"))));
    assert!(colored(&["--help"], Some(("RAWKO_COLOR", "always"))));
    assert!(!colored(&["--color", "never", "--help"], Some(("CLICOLOR_FORCE", "1"))));
}
