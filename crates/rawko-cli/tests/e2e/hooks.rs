//! The user's hooks, through the real binary: they deny and add, they grant nothing, and one that misbehaves harms nothing.

use serde_json::{Value, json};
use testkit::ModelServer;

use crate::answers::{bash, call, complete, developer, report, select};
use crate::trial::{Ended, Trial};

/// One hook with its matcher.
fn hook(matcher: &str, command: &str) -> Value {
    json!([{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}])
}

/// The settings of Claude Code with these hooks.
fn settings(hooks: &Value) -> String {
    json!({ "hooks": hooks }).to_string()
}

fn writes() -> ModelServer {
    developer([call("Write", &json!({"file_path": "a.txt", "content": "hello\n"}))])
}

/// A trusted project with these hooks in `.claude/settings.json`.
fn with_settings(server: ModelServer, hooks: &Value) -> Trial {
    Trial::new(server).file(".claude/settings.json", &settings(hooks)).trusted()
}

/// The only result of a call of this tool.
#[track_caller]
fn result(ended: &Ended, tool: &str) -> (String, bool) {
    let mut results = ended.results(tool);
    assert_eq!(results.len(), 1, "{results:?}");
    results.remove(0)
}

/// The warnings of a run, as one text.
fn warnings(ended: &Ended) -> String {
    let warnings = ended.events_of("warned").into_iter().chain(ended.events_of("warning"));
    warnings
        .map(|event| event["message"].as_str().unwrap_or_default().to_owned())
        .collect::<Vec<_>>()
        .join("\n")
}

/// No hook is asked again.
#[track_caller]
fn replays_without_hooks(ended: &Ended) {
    let _ = std::fs::remove_dir_all(ended.trial.project().join(".claude"));
    let (code, out, err) = ended.trial.rawko(&["replay", "last"]);
    assert_eq!(code, Some(0), "{out}\n{err}");
}

#[test]
fn a_hook_denies_a_call_and_the_agent_reads_why() {
    let script = "grep -q '\"tool_name\":\"Write\"' && { echo 'a.txt is frozen' >&2; exit 2; }; exit 0";
    let ended = with_settings(writes(), &json!({"PreToolUse": hook("Write|Edit", script)})).run("Write it.");
    ended.exits(0);
    let (content, is_error) = result(&ended, "Write");
    assert!(is_error && content.contains("a.txt is frozen"), "{content}");
    assert!(!ended.trial.project().join("a.txt").exists());
    let read =
        ended.trial.server.asked().iter().any(|asked| asked.json.to_string().contains("a.txt is frozen"));
    assert!(read, "the model reads it");
    replays_without_hooks(&ended);
    // The same hook, and a call that it is not about.
    let ended = with_settings(writes(), &json!({"PreToolUse": hook("Bash", script)})).run("Write it.");
    ended.exits(0);
    assert!(!result(&ended, "Write").1);
    assert!(ended.trial.project().join("a.txt").exists());
}

#[test]
fn a_hook_that_allows_grants_nothing() {
    let allow = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}});
    let allow = format!("echo '{allow}'");
    let outside = json!({"file_path": "../beside.txt", "content": "x"});
    let server =
        developer([call("Write", &outside), call("Write", &json!({"file_path": "a.txt", "content": "x"}))]);
    let ended = with_settings(server, &json!({"PreToolUse": hook("*", &allow)})).run("Write it.");
    ended.exits(0);
    let results = ended.results("Write");
    assert!(results[0].1 && !results[1].1, "{results:?}");
    assert!(!ended.trial.outside().join("beside.txt").exists());
}

#[test]
fn a_hook_that_hangs_denies_and_does_not_hold_the_run() {
    let hangs = json!([{"hooks": [{"type": "command", "command": "sleep 86309", "timeout": 1}]}]);
    let ended = with_settings(writes(), &json!({ "PreToolUse": hangs })).run("Write it.");
    ended.exits(0);
    let (content, is_error) = result(&ended, "Write");
    assert!(is_error && content.contains("did not end in time"), "{content}");
    assert!(!is_running("86309"));
    // Elsewhere it is a warning.
    let ended = with_settings(writes(), &json!({ "PostToolUse": hangs, "Stop": hangs })).run("Write it.");
    ended.exits(0);
    assert!(!result(&ended, "Write").1);
    assert!(warnings(&ended).contains("did not end in time"), "{}", ended.stdout);
}

#[test]
fn a_hook_that_is_not_there_or_answers_nonsense_denies_and_an_honest_one_does_not() {
    for (command, said) in [
        ("scripts/not-there.sh", "could not be run (exit code 127)"),
        ("echo '{\"decision\": \"block\"'", "cannot be read"),
    ] {
        let ended = with_settings(writes(), &json!({"PreToolUse": hook("*", command)})).run("Write it.");
        ended.exits(0);
        let (content, is_error) = result(&ended, "Write");
        assert!(is_error && content.contains(said), "{command}: {content}");
        assert!(warnings(&ended).contains(said), "{command}: {}", ended.stdout);
        assert!(!ended.trial.project().join("a.txt").exists());
    }
    let honest = "echo '{\"hookSpecificOutput\": null, \"systemMessage\": null}'";
    let hooks = json!({"PreToolUse": hook("*", honest), "PostToolUse": hook("*", "scripts/not-there.sh")});
    let ended = with_settings(writes(), &hooks).run("Write it.");
    ended.exits(0);
    assert!(!result(&ended, "Write").1);
    assert!(warnings(&ended).contains("could not be run"), "{}", ended.stdout);
    assert!(ended.trial.project().join("a.txt").exists());
}

#[test]
fn files_that_a_hook_changes_after_the_end_are_a_warning() {
    for (command, warns) in [("echo broken > a.txt", true), ("cat a.txt", false)] {
        let ended = Trial::new(writes())
            .user_config("/hooks/sandbox", json!("off"))
            .user_config("/hooks/SessionEnd", hook("*", command))
            .run("Write it.");
        ended.exits(0);
        let text = warnings(&ended);
        assert_eq!(text.contains("a SessionEnd hook changed files"), warns, "{text}");
        replays_without_hooks(&ended);
    }
}

/// Whether a process has this word in its command line.
fn is_running(word: &str) -> bool {
    let mut processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.any(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    })
}

#[test]
fn a_megabyte_is_cut_and_a_daemon_is_ended() {
    let prints = "head -c 1048576 /dev/zero | tr '\\0' x; head -c 1048576 /dev/zero | tr '\\0' y >&2; exit 2";
    let forks = "(setsid sleep 86311 >/dev/null 2>&1 &) ; exit 0";
    let hooks = json!({"PreToolUse": hook("*", forks), "PostToolUse": hook("*", prints)});
    let ended = with_settings(writes(), &hooks).run("Write it.");
    ended.exits(0);
    let (content, is_error) = result(&ended, "Write");
    assert!(!is_error && content.contains("yyyy"), "{}", content.len());
    assert!(content.len() < 20_000, "{}", content.len());
    assert!(!is_running("86311"), "the daemon is gone");
    let journal = rawko::journal::SessionStore::of_project(&ended.trial.project()).find("last").unwrap();
    assert!(journal.metadata().unwrap().len() < 500_000);
}

#[test]
fn an_untrusted_project_has_no_hooks() {
    let deny = json!({"PreToolUse": hook("*", "exit 2")});
    let ended = Trial::new(writes()).file(".claude/settings.json", &settings(&deny)).run("Write it.");
    ended.exits(0).says(&["not trusted", "hooks", "rawko trust"]);
    assert!(!result(&ended, "Write").1, "the hook was not asked");
    // In rawko's own configuration they are a claim like other programs.
    let refused = Trial::new(writes()).config(&json!({ "hooks": deny })).run("Write it.");
    refused.exits(5).says(&["would be run as a PreToolUse hook", "rawko trust"]);
    let asked = Trial::new(writes()).config(&json!({ "hooks": deny })).trusted().run("Write it.");
    asked.exits(0);
    assert!(result(&asked, "Write").1);
}

#[test]
fn a_project_does_not_take_the_users_hooks_away() {
    let deny = hook("Write", "echo 'my own rule' >&2; exit 2");
    let ended = Trial::new(writes())
        .user_config("/hooks/PreToolUse", deny)
        .config(&json!({"hooks": {"PreToolUse": hook("Bash", "exit 0")}}))
        .trusted()
        .run("Write it.");
    ended.exits(0);
    assert!(result(&ended, "Write").0.contains("my own rule"));
    for (key, value) in [("sandbox", json!("off")), ("claudeSettings", json!(true))] {
        let refused = Trial::new(writes()).config(&json!({"hooks": {key: value}})).trusted().run("Write it.");
        refused.exits(2).says(&["only your own configuration"]);
    }
}

#[test]
fn the_users_own_settings_of_claude_count_if_the_user_says_so() {
    for says_so in [false, true] {
        let trial = Trial::new(writes()).user_config("/hooks/claudeSettings", json!(says_so));
        let home = trial.outside().join("home/.claude");
        std::fs::create_dir_all(&home).unwrap();
        let deny = json!({"PreToolUse": hook("Write", "echo no >&2; exit 2")});
        std::fs::write(home.join("settings.json"), settings(&deny)).unwrap();
        let ended = trial.run("Write it.");
        ended.exits(0);
        assert_eq!(result(&ended, "Write").1, says_so);
    }
}

#[test]
fn hooks_write_nothing_outside_unless_the_user_lets_them() {
    if !crate::sandbox::is_possible() {
        return;
    }
    for off in [false, true] {
        let mut trial = Trial::new(writes());
        let mark = trial.outside().join("mark");
        let command = format!("cat > '{}'; exit 0", mark.display());
        if off {
            trial = trial.user_config("/hooks/sandbox", json!("off"));
        }
        for event in ["PreToolUse", "SessionEnd"] {
            trial = trial.user_config(&format!("/hooks/{event}"), hook("*", &command));
        }
        let ended = trial.run("Write it.");
        ended.exits(0);
        assert!(!result(&ended, "Write").1);
        assert_eq!(mark.exists(), off);
        if off {
            let last: Value = serde_json::from_str(&std::fs::read_to_string(&mark).unwrap()).unwrap();
            assert_eq!(
                (&last["hook_event_name"], &last["status"]),
                (&json!("SessionEnd"), &json!("claimed"))
            );
            assert_eq!(last["session_id"], ended.finish()["session"]);
        }
    }
}

#[test]
fn what_hooks_add_to_a_task_reaches_the_agent() {
    let hooks = json!({
        "SessionStart": hook("startup", "echo 'the database is at port 7'"),
        "UserPromptSubmit": hook("", "grep -q 'Write it' && echo '{\"hookSpecificOutput\": \
            {\"additionalContext\": \"mind the tests\"}}'"),
    });
    let ended = with_settings(writes(), &hooks).run("Write it.");
    ended.exits(0);
    let asked: Vec<String> = ended.trial.server.asked().iter().map(|asked| asked.json.to_string()).collect();
    for text in ["the database is at port 7", "mind the tests"] {
        assert!(asked.iter().any(|body| body.contains(text)), "{text}");
    }
    replays_without_hooks(&ended);
}

#[test]
fn a_task_that_a_hook_refuses_is_not_begun() {
    let hooks = json!({"UserPromptSubmit": hook("", "echo 'no ticket in the task' >&2; exit 2")});
    let ended = with_settings(ModelServer::sequence([]), &hooks).run("Write it.");
    ended.exits(1);
    assert!(ended.finish()["summary"].as_str().unwrap().contains("no ticket in the task"));
    assert!(ended.trial.server.asked().is_empty(), "no model was asked");
}

#[test]
fn a_stop_hook_sends_the_run_back_three_times() {
    let edits = |n: usize| call("Write", &json!({"file_path": format!("{n}.txt"), "content": "x\n"}));
    let mut answers = vec![select("developer")];
    for n in 0..4 {
        answers.extend([edits(n), report("did it"), complete("all done")]);
    }
    let script = "echo 'the changelog has no line' >&2; exit 2";
    let ended =
        with_settings(ModelServer::sequence(answers), &json!({"Stop": hook("", script)})).run("Do it.");
    ended.exits(0);
    assert_eq!(ended.finish()["iterations"], 4);
    assert_eq!(ended.results("Write").len(), 4);
    let asked =
        ended.trial.server.asked().iter().filter(|asked| asked.json.to_string().contains("no line")).count();
    assert!(asked >= 3, "{asked}");
    assert!(warnings(&ended).contains("(3 of 3)"), "{}", ended.stdout);
    replays_without_hooks(&ended);
    // One that is content once the work is done.
    let script = "test -e 0.txt -a -e 1.txt || { echo 'write 1.txt' >&2; exit 2; }";
    let answers = [
        select("developer"),
        edits(0),
        report("did it"),
        complete("all done"),
        edits(1),
        report("now"),
        complete("all done"),
    ];
    let ended =
        with_settings(ModelServer::sequence(answers), &json!({"Stop": hook("", script)})).run("Do it.");
    ended.exits(0);
    assert_eq!(ended.finish()["iterations"], 2);
}

#[test]
fn a_session_is_resumed_where_its_hooks_are_gone() {
    let server = ModelServer::sequence([
        select("developer"),
        bash("echo begun"),
        call("Write", &json!({"file_path": "a.txt", "content": "x\n"})),
        report("did it"),
        complete("all done"),
    ]);
    // It waits in the hook of a call that only it is about; a kill leaves the call open.
    let hooks = json!({"SessionStart": hook("", "echo 'port 7'"), "Stop": hook("", "exit 0"),
        "PreToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": "sleep 300", "timeout": 300}]}]});
    let running = with_settings(server, &hooks).start("Do it.");
    running.wait_for_request(3);
    let ended = running.end_after(rustix::process::Signal::KILL);
    std::fs::remove_dir_all(ended.trial.project().join(".claude")).unwrap();
    let (code, out, err) = ended.trial.resume();
    assert_eq!(code, Some(0), "{out}\n{err}");
    assert_eq!(ended.trial.rawko(&["replay", "last"]).0, Some(0));
}

#[test]
fn a_formatter_may_write_to_the_project_and_no_other_hook() {
    if !crate::sandbox::is_possible() {
        return;
    }
    let hooks = json!({
        "PreToolUse": hook("*", "touch before.txt; exit 0"),
        "PostToolUse": hook("Write", "echo formatted >> a.txt"),
        "Stop": hook("", "touch stop.txt; exit 0"),
    });
    let ended = with_settings(writes(), &hooks).run("Write it.");
    ended.exits(0);
    let project = ended.trial.project();
    assert_eq!(std::fs::read_to_string(project.join("a.txt")).unwrap(), "hello\nformatted\n");
    assert!(!project.join("before.txt").exists() && !project.join("stop.txt").exists());
}
