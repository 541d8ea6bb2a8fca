//! rawko as an MCP server on standard input and output: what a client's agent does with it, and what bad clients do to it.

use rawko::journal::SessionStatus;
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Answer, ModelServer};

use crate::answers::{bash, complete, developer, report, select};
use crate::approvals::asking;
use crate::mcp_serve_client::Served;
use crate::signals::{nothing_is_left, sleepers};
use crate::support::Said;
use crate::trial::Trial;

const CHECKED: &str = "test:\n\ttest -f made\n";

/// A run that lasts until it is ended: its command sleeps. A later one goes well.
pub(crate) fn sleeping() -> ModelServer {
    let turns = [select("developer"), bash("sleep 1000"), report("did it"), complete("all done")];
    ModelServer::sequence(turns)
}

/// A server whose first session sleeps, and that session.
pub(crate) fn at_work(trial: Trial) -> (Served, String) {
    sleeping_in(Served::start(trial))
}

fn sleeping_in(mut served: Served) -> (Served, String) {
    let session = served.begin("Sleep.");
    served.wait_until("the command", |trial| sleepers(trial) > 0);
    (served, session)
}

pub(crate) fn has_ended(seen: &Value) -> bool {
    seen["status"] == "ended"
}

#[track_caller]
fn status_of(trial: &Trial, session: &str) -> SessionStatus {
    trial.store().info(session).unwrap().unwrap().status
}

#[test]
fn a_task_is_started_watched_looked_at_and_continued() {
    let turns = [select("developer"), bash("touch made"), report("made it"), complete("made")];
    let next = [select("developer"), report("looked at it"), complete("looked")];
    let trial = Trial::new(ModelServer::sequence(turns.into_iter().chain(next))).file("Makefile", CHECKED);
    let mut served = Served::start(trial);
    let tools = served.ask("tools/list", &json!({}));
    let tools = tools["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["start", "watch", "steer", "answer", "diff", "explain", "continue"]);

    let session = served.begin("Make it.");
    let (seen, lines) = served.watch_until(&session, has_ended);
    assert_eq!(seen["end"]["status"], "verified", "{seen:#}");
    for part in ["task: Make it.", "developer begins execution 1", "touch made", "checks passed"] {
        assert!(lines.iter().any(|line| line.contains(part)), "{part:?} is missing in {lines:#?}");
    }
    let (changed, patch) = served.call("diff", &json!({}));
    assert!(patch.contains("A made"), "{patch}");
    assert_eq!(changed["files"][0]["path"], "made", "{changed:#}");
    let (decided, words) = served.call("explain", &json!({"session": session}));
    assert!(words.contains("SELECT_MODE: developer is next"), "{words}");
    assert_eq!(decided["decisions"][0]["number"], 1);
    let (one, _) = served.call("explain", &json!({"session": "last", "decision": 1}));
    assert_eq!(one["decision"]["point"], "select", "{one:#}");
    assert!(served.refused("explain", &json!({"decision": 99})).contains("none with the number 99"));

    let (continued, _) = served.call("continue", &json!({"task": "Now look at it."}));
    assert_eq!(continued["session"], session);
    let (seen, lines) = served.watch_until(&session, has_ended);
    assert_eq!(seen["end"]["answer"], "looked at it", "{seen:#}");
    assert!(lines[0].contains("task: Now look at it."), "from the beginning of the present task: {lines:?}");

    let (said, trial) = served.leave();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(nothing_is_left(&trial));
    let (code, out, err) = trial.rawko(&["replay", &session]);
    assert_eq!(code, Some(0), "{out}{err}");
}

#[test]
fn another_terminal_sees_and_steers_the_run_and_the_client_cancels_it() {
    let (mut served, session) = at_work(Trial::new(sleeping()));
    let (code, out, err) = served.trial.rawko(&["steer", "pause", "--json"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let (seen, lines) = served.watch_until(&session, |seen| seen["events"].to_string().contains("paused"));
    assert_eq!(seen["status"], "running", "{lines:?}");
    assert!(served.refused("steer", &json!({"command": "say"})).contains("`say` needs `text`"));
    let (said, _) = served.call("steer", &json!({"command": "say", "text": "hurry"}));
    assert_eq!(said["taken"], true);
    served.call("steer", &json!({"command": "go"}));
    let again = served.refused("steer", &json!({"command": "go"}));
    assert!(again.contains("ignored `go`"), "{again}");
    let (cancelled, _) = served.call("steer", &json!({"session": session, "command": "cancel"}));
    assert_eq!(cancelled["status"], "cancelled", "{cancelled:#}");
    assert_eq!(sleepers(&served.trial), 0);
    // The server goes on.
    let over = served.refused("steer", &json!({"command": "pause"}));
    assert!(over.contains("no session is running") && over.contains("`start` begins one"), "{over}");
    let (said, _) = served.leave();
    assert_eq!(said.code, Some(0), "{}", said.err);
}

#[test]
fn the_run_of_another_terminal_is_watched_and_cancelled() {
    let trial = Trial::new(sleeping());
    let other = trial.spawn(&["--output", "stream-json", "Sleep there."]);
    other.wait_until("the command", || sleepers(&trial) > 0);
    let mut served = Served::start(trial);
    let (seen, words) = served.call("watch", &json!({}));
    assert!(seen["status"] == "running" && words.contains("task: Sleep there."), "{words}");
    let (cancelled, _) = served.call("steer", &json!({"command": "cancel"}));
    assert_eq!(cancelled["status"], "cancelled", "{cancelled:#}");
    assert_eq!(other.end().code, Some(130));
    served.leave();
}

#[test]
fn a_call_that_waits_is_answered_once_and_by_its_name() {
    let trial = asking(Trial::new(developer([bash("echo made >> made")])));
    let mut served = Served::start(trial);
    let session = served.begin("Make it.");
    let (seen, _) = served.watch_until(&session, |seen| seen.get("question").is_some());
    let question = &seen["question"];
    assert_eq!(
        (&question["agent"], &question["input"]["command"]),
        (&json!("developer"), &json!("echo made >> made"))
    );
    let made = served.trial.project().join("made");
    for (call, part) in [("", "too short"), ("00000000000000", "waits for an answer to another call")] {
        let refused = served.refused("answer", &json!({"call": call, "allow": true}));
        assert!(refused.contains(part), "{refused}");
    }
    assert!(!made.exists());
    let (answered, _) = served.call("answer", &json!({"call": question["call"], "allow": true}));
    assert_eq!((&answered["session"], &answered["allowed"]), (&json!(session), &json!(true)));
    served.watch_until(&session, has_ended);
    assert_eq!(std::fs::read_to_string(&made).unwrap(), "made\n");
    let late = served.refused("answer", &json!({"call": question["call"], "allow": true}));
    assert!(late.contains("no session waits for an answer"), "{late}");
    served.leave();
}

#[test]
fn a_call_that_a_client_does_not_see_whole_is_not_allowed_by_it() {
    let hidden = format!("echo {} > made", "x".repeat(11_000));
    let marked = "echo a\u{202e}b > made";
    let whole = format!("echo {} > made", "x".repeat(9_000));
    for (command, is_seen) in [(hidden.as_str(), false), (marked, false), (whole.as_str(), true)] {
        let trial = asking(Trial::new(developer([bash(command)])));
        let mut served = Served::start(trial);
        let session = served.begin("Make it.");
        let (seen, _) = served.watch_until(&session, |seen| seen.get("question").is_some());
        let question = &seen["question"];
        assert_eq!(question["whole"], is_seen, "{question}");
        assert_eq!(question["input"]["command"] == command, is_seen, "{question}");
        let allow = json!({"call": question["call"], "allow": true});
        if is_seen {
            served.call("answer", &allow);
        } else {
            let refused = served.refused("answer", &allow);
            assert!(refused.contains(&format!("rawko approve {session}")), "{refused}");
            let beginning = json!({"call": question["call"].as_str().unwrap()[..8], "allow": true});
            served.refused("answer", &beginning);
            let (_, words) = served.call("watch", &json!({"session": session, "waitSeconds": 0}));
            assert!(
                words.contains("it waits for an answer") && words.contains("cannot be allowed here"),
                "{words}"
            );
            served.call("answer", &json!({"call": question["call"], "allow": false}));
        }
        served.watch_until(&session, has_ended);
        assert_eq!(served.trial.project().join("made").exists(), is_seen, "{}", question["why"]);
        served.leave();
    }
}

#[test]
fn a_long_answer_keeps_its_form_and_says_what_is_missing() {
    let many = "for n in $(seq 1 3000); do echo $n > a-file-with-a-long-enough-name-$n; done";
    let mut served = Served::start(Trial::new(developer([bash(many)])));
    let session = served.begin("Make them.");
    served.watch_until(&session, has_ended);
    let (changed, _) = served.call("diff", &json!({"filesOnly": true}));
    let files = changed["files"].as_array().unwrap();
    assert_eq!(changed["session"], session);
    assert!(files.iter().all(|file| file["path"].is_string()), "{}", files[0]);
    assert_eq!(files.len() as u64 + changed["omitted"]["files"].as_u64().unwrap(), 3_000);
    served.leave();
}

#[test]
fn an_untrusted_project_is_refused_until_the_user_trusts_it() {
    let config = json!({"permissions": {"net": ["evil.example"]}, "verify": ["touch verified"]});
    let mut served = Served::start(Trial::new(developer([bash("touch made")])).config(&config));
    let refused = served.refused("start", &json!({"task": "Make it."}));
    assert!(refused.contains("is not trusted") && refused.contains("evil.example"), "{refused}");
    assert!(refused.contains("rawko trust"), "{refused}");
    assert!(served.trial.store().list().unwrap().is_empty(), "nothing was begun");
    let (code, out, err) = served.trial.rawko(&["trust"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let session = served.begin("Make it.");
    served.watch_until(&session, has_ended);
    served.leave();
}

#[test]
fn a_client_narrows_a_run_and_widens_none() {
    // The client names the first agent, so nobody is asked for it.
    let server = ModelServer::sequence([bash("touch made"), report("made"), complete("made")]);
    let mut served = Served::start(Trial::new(server).file("Makefile", CHECKED));
    let evil = "touch /tmp/evil; true";
    for (arguments, part) in [
        (json!({"task": "x", "verify": [evil]}), "unknown field `verify`"),
        (json!({"task": "x", "verify": ["make test"]}), "unknown field `verify`"),
        (json!({"task": "x", "verify": []}), "unknown field `verify`"),
        (json!({"task": "x", "maxIterations": 51}), "more than the user allows"),
        (json!({"task": "x", "timeout": "5h"}), "more than the user allows"),
        (json!({"task": "x", "agent": "nobody"}), "there is no agent `nobody`"),
        (json!({"task": " "}), "no task was given"),
        (json!({"task": "x", "noSandbox": true}), "unknown field `noSandbox`"),
        (json!({"task": "x", "maxTokens": "1"}), "compare them with the tool's input schema"),
        (json!({}), "missing field `task`"),
    ] {
        let refused = served.refused("start", &arguments);
        assert!(refused.contains(part), "{arguments}: {refused}");
        assert!(refused.contains("What to try: "), "{refused}");
    }
    let all = json!({"task": "Make it.", "maxIterations": 2, "agent": "developer"});
    let (started, words) = served.call("start", &all);
    assert!(started["limits"]["maxIterations"] == 2 && !words.contains("stays"), "{words} {started}");
    let session = started["session"].as_str().unwrap().to_owned();
    let (seen, _) = served.watch_until(&session, has_ended);
    assert_eq!(seen["end"]["status"], "verified", "{seen:#}");
    served.leave();
}

#[test]
fn all_checks_of_the_project_run_whatever_a_client_names() {
    let checks =
        json!({"verify": ["test -f made", "test -f documented"], "constraints": {"maxIterations": 1}});
    for (command, expected) in [("touch made documented", Some("verified")), ("touch made", None)] {
        let server = developer([bash(command)]);
        let mut served = Served::start(Trial::new(server).config(&checks));
        served.trial.rawko(&["trust"]);
        let refused = served.refused("start", &json!({"task": "Make it.", "verify": ["test -f made"]}));
        assert!(refused.contains("unknown field `verify`"), "{refused}");
        let session = served.begin("Make it.");
        let (seen, _) = served.watch_until(&session, has_ended);
        let status = seen["end"]["status"].as_str().unwrap();
        assert_eq!(expected.is_some(), status == "verified", "{command}: {seen:#}");
        served.leave();
    }
}

/// A run of the user's in a terminal that ends at the only iteration it was given, with one that would end the task.
fn limited() -> (Trial, String) {
    let first = [select("developer"), report("half of it"), select("developer")];
    let then = [select("developer"), report("all of it"), complete("done")];
    let next = [select("developer"), report("looked"), complete("looked")];
    let server = ModelServer::sequence(first.into_iter().chain(then).chain(next));
    let ended = Trial::new(server).args(&["--max-iterations", "1"]).run("Do it.");
    ended.exits(3);
    let session = ended.trial.store().list().unwrap()[0].id.clone();
    (ended.trial, session)
}

#[test]
fn a_client_does_not_raise_the_limits_of_a_session() {
    let (trial, session) = limited();
    let mut served = Served::start(trial);
    for more in [json!({}), json!({"maxIterations": 9}), json!({"session": session, "maxIterations": 50})] {
        let refused = served.refused("continue", &more);
        assert!(refused.contains("a client cannot raise a limit of the session"), "{more}: {refused}");
        assert!(refused.contains(&format!("rawko resume {session} --max-iterations")), "{refused}");
    }
    // The user can, and the client's next task is held to the session's limit.
    let (_, trial) = served.leave();
    let (code, out, err) = trial.resume_with(&["--max-iterations", "3"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let mut served = Served::start(trial);
    let more = json!({"session": session, "task": "Look.", "maxIterations": 9});
    let (continued, words) = served.call("continue", &more);
    assert_eq!(continued["limits"]["maxIterations"], 3, "{continued}");
    assert!(words.contains("`maxIterations` stays 3: a client cannot raise"), "{words}");
    served.watch_until(&session, has_ended);
    let (seen, _) = served.call("watch", &json!({"session": session, "detail": "full"}));
    let events = seen["events"].as_array().unwrap();
    let started = events.iter().rfind(|event| event["type"] == "session_started").unwrap();
    assert_eq!(started["limits"]["maxIterations"], 3, "{started:#}");
    served.leave();
}

#[test]
fn an_interrupted_session_goes_on_with_its_own_limits_or_lower_ones() {
    for (asked, expected) in [(json!({"maxIterations": 9}), "7"), (json!({"maxIterations": 5}), "5")] {
        let trial = Trial::new(sleeping());
        let first = Served::start_with(trial, &["--max-iterations", "7"], &json!({}));
        let (served, session) = sleeping_in(first);
        let (_, trial) = served.leave();
        let mut served = Served::start_with(trial, &["--max-iterations", "20"], &json!({}));
        let (resumed, _) = served.call("continue", &asked);
        assert_eq!(resumed["limits"]["maxIterations"].to_string(), expected, "{resumed}");
        served.watch_until(&session, has_ended);
        let (seen, _) = served.call("watch", &json!({"session": session, "after": 0, "detail": "full"}));
        // Decisions are made with the limits of their time.
        let events = seen["events"].to_string();
        let limits: Vec<&str> = events
            .split("\"maxIterations\":")
            .skip(1)
            .map(|rest| rest.split([',', '}']).next().unwrap())
            .collect();
        assert_eq!((limits.first(), limits.last()), (Some(&"7"), Some(&expected)), "{seen:#}");
        served.leave();
    }
}

/// The client is gone, in whatever way: the session is interrupted, nothing of it runs, and a resume ends it.
#[track_caller]
pub(crate) fn check_resumable(trial: &Trial, session: &str, said: &Said) {
    assert!(said.err.contains(&format!("to go on with it: rawko resume {session}")), "{}", said.err);
    assert!(nothing_is_left(trial), "something outlived the server");
    assert_eq!(status_of(trial, session), SessionStatus::Unfinished);
    let (code, out, err) = trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(status_of(trial, session), SessionStatus::Ended);
    let (code, out, err) = trial.rawko(&["replay", session]);
    assert_eq!(code, Some(0), "{out}{err}");
}

#[test]
fn a_run_whose_client_goes_away_is_left_to_be_resumed() {
    let (served, session) = at_work(Trial::new(sleeping()));
    assert_eq!(status_of(&served.trial, &session), SessionStatus::Running);
    let (said, trial) = served.leave();
    assert_eq!(said.code, Some(0), "{}", said.err);
    check_resumable(&trial, &session, &said);
}

#[test]
fn commands_of_a_suspended_run_are_asked_to_end() {
    let polite = "trap 'touch asked; exit 1' TERM; sleep 1000 & wait";
    let turns = [select("developer"), bash(polite), report("did it"), complete("all done")];
    let (served, session) = at_work(Trial::new(ModelServer::sequence(turns)));
    let (said, trial) = served.leave();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(trial.project().join("asked").exists());
    check_resumable(&trial, &session, &said);
}

#[test]
fn a_server_that_is_asked_to_end_leaves_its_run_to_be_resumed() {
    for signal in [Signal::TERM, Signal::INT] {
        let (served, session) = at_work(Trial::new(sleeping()));
        served.signal(signal);
        let (said, trial) = served.leave();
        assert_eq!(said.code, Some(0), "{}", said.err);
        check_resumable(&trial, &session, &said);
    }
}

#[test]
fn a_client_that_dies_in_a_call_ends_the_server() {
    let mut served = Served::start(Trial::new(developer([bash("touch made")])));
    served.send("tools/call", &json!({"name": "start", "arguments": {"task": "Make it."}}));
    served.say("{\"jsonrpc\": \"2.0\", \"id\": 7, \"meth");
    let (said, trial) = served.leave();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(nothing_is_left(&trial));
    // Whether or not the run had begun, it is not closed.
    for session in trial.store().list().unwrap() {
        assert!(matches!(session.status, SessionStatus::NotBegun | SessionStatus::Unfinished), "{session:?}");
    }
}

#[test]
fn an_interrupted_session_goes_on_by_continue() {
    let (served, session) = at_work(Trial::new(sleeping()));
    let (_, trial) = served.leave();
    let mut served = Served::start(trial);
    let (seen, words) = served.call("watch", &json!({"waitSeconds": 0}));
    assert!(seen["status"] == "interrupted" && words.contains("`continue` without a task"), "{words}");
    let refused = served.refused("continue", &json!({"agent": "developer"}));
    assert!(refused.contains("can begin only a new task"), "{refused}");
    let unfinished = served.refused("continue", &json!({"session": session, "task": "Next."}));
    assert!(unfinished.contains("has not ended its task"), "{unfinished}");
    let (resumed, _) = served.call("continue", &json!({}));
    assert_eq!(resumed["session"], session);
    let (seen, _) = served.watch_until(&session, has_ended);
    assert_eq!(seen["end"]["answer"], "did it", "{seen:#}");
    served.leave();
}

#[test]
fn of_two_starts_at_once_one_is_refused() {
    let mut served = Served::start(Trial::new(sleeping()));
    let start = |task: &str| json!({"name": "start", "arguments": {"task": task}});
    let (one, other) =
        (served.send("tools/call", &start("First.")), served.send("tools/call", &start("Second.")));
    let answers = [served.answer(one), served.answer(other)];
    let refused: Vec<&Value> = answers.iter().filter(|answer| answer["result"]["isError"] == true).collect();
    assert_eq!(refused.len(), 1, "{answers:?}");
    let words = refused[0]["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("is busy") && words.contains("`watch`"), "{words}");
    assert_eq!(served.trial.store().list().unwrap().len(), 1);
    served.leave();
}

#[test]
fn garbage_changes_nothing() {
    let trial = Trial::new(developer([bash("touch made")]));
    let mut served = Served::start(trial);
    for garbage in ["", "no json", "{", "[]", "7", "null", "{\"jsonrpc\": \"1.0\"}", "\u{0}\u{1b}[31m"] {
        served.say(garbage);
    }
    let long = "y".repeat(5 * 1024 * 1024);
    served.say(&format!("{{\"x\": \"{long}\"}}"));
    let refused = served.ask("tools/call", &json!({"name": "start", "arguments": {"task": long}}));
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("longer than 4 MiB"), "{refused}");
    let unnamed =
        served.messages().into_iter().filter(|message| message.get("id").is_none_or(Value::is_null));
    assert!(unnamed.filter(|message| message["error"].to_string().contains("4 MiB")).count() == 1);
    let unread: Vec<Value> =
        served.messages().into_iter().filter(|message| message["error"]["code"] == -32700).collect();
    assert_eq!(unread.len(), 3, "{unread:?}");
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for (id, params) in [(701, "Infinity"), (702, deep.as_str())] {
        served.say(&format!(r#"{{"jsonrpc": "2.0", "id": {id}, "method": "ping", "params": {params}}}"#));
        let answer = served.answer(id);
        assert_eq!(answer["error"]["code"], -32700, "{answer}");
    }
    let whole = served.refused("start", &json!({"task": "y".repeat(3 * 1024 * 1024)}));
    assert!(whole.contains("the task is longer than 256 KiB"), "{whole}");
    let unknown = served.ask("tools/call", &json!({"name": "rm", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let method = served.ask("no/such/method", &json!({}));
    assert_eq!(method["error"]["code"], -32601, "{method}");
    let wrong = served.refused("watch", &json!({"session": 7}));
    assert!(wrong.contains("the arguments of `watch` cannot be read"), "{wrong}");
    for nowhere in ["../../etc", "20990101-000000-000-aaaaa", ""] {
        let refused = served.refused("diff", &json!({"session": nowhere}));
        assert!(refused.contains("session"), "{refused}");
    }
    let none = served.refused("watch", &json!({}));
    assert!(none.contains("there are no sessions in this project"), "{none}");
    let session = served.begin("Make it.");
    let (seen, _) = served.watch_until(&session, has_ended);
    let beyond = served.refused("watch", &json!({"session": session, "after": 100_000}));
    assert!(beyond.contains("`after` is 100000"), "{beyond}");
    assert_eq!(seen["end"]["status"], "claimed");
    served.leave();
}

#[test]
fn a_client_that_says_nothing_or_something_else_ends_the_server() {
    let trial = Trial::new(ModelServer::sequence([Answer::Silence]));
    let (code, out, err) = trial.ask(&["mcp", "serve"]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
    let mut command = trial.asker();
    command.args(["mcp", "serve"]);
    let mut served = Served::silent(trial, &mut command);
    served.say("hello?");
    let (said, trial) = served.leave();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(trial.store().list().unwrap().is_empty());
}
