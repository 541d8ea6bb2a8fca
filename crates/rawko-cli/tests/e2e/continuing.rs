//! What follows an ending: the next task in the same session, or the same task with a raised limit.

use rawko_core::Usage;
use serde_json::{Value, json};
use testkit::{Answer, Asked, ModelServer, Say};

use crate::answers::{call, complete, decide, report, select};
use crate::trial::Trial;

fn write(path: &str) -> Answer {
    Say::default().with_call("Write", &json!({"file_path": path, "content": "text\n"})).into()
}

/// Two tasks, each with a file.
fn two_tasks() -> [Answer; 8] {
    [
        select("developer"),
        write("one.txt"),
        report("wrote one"),
        complete("one is there"),
        select("developer"),
        write("two.txt"),
        report("wrote two"),
        complete("two is there"),
    ]
}

fn last(out: &str) -> Value {
    serde_json::from_str(out.lines().last().unwrap_or_default()).unwrap_or_else(|_| panic!("{out}"))
}

/// The session is whole: it replays, is shown and exported with both tasks, and its files are restored to each execution.
#[track_caller]
fn check_readers(trial: &Trial, first: &str, second: &str) {
    let (_, replayed, _) = trial.rawko(&["replay", "last"]);
    assert!(replayed.contains("everything matches the record"), "{replayed}");
    for arguments in [&["sessions", "show", "last"][..], &["sessions", "export", "last"]] {
        let (code, out, err) = trial.rawko(arguments);
        assert_eq!(code, Some(0), "{err}");
        assert!(out.contains(first) && out.contains(second), "{arguments:?}: {out}");
    }
    let (code, out, err) = trial.rawko(&["sessions", "list"]);
    assert_eq!((code, out.contains("claimed")), (Some(0), true), "{out}{err}");
    let (code, _, err) = trial.rawko(&["explain", "last"]);
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn the_next_task_goes_on_in_the_same_session_and_conversation() {
    let ended = Trial::new(ModelServer::sequence(two_tasks())).run("Write one.");
    ended.exits(0);
    let id = ended.finish()["session"].as_str().unwrap().to_owned();
    let trial = ended.trial;
    let (code, out, err) = trial.ask(&["--output", "stream-json", "-c", "Now write two."]);
    assert_eq!(code, Some(0), "{out}{err}");
    let end = last(&out);
    assert_eq!((&end["session"], &end["iterations"]), (&json!(id), &json!(1)), "{end}");
    assert_eq!(end["filesModified"], json!(["two.txt"]));
    let first = serde_json::from_str::<Value>(out.lines().next().unwrap()).unwrap();
    assert_eq!((&first["task"], &first["resumed"]), (&json!("Now write two."), &json!(true)));
    let asked = trial.server.asked();
    let question = asked[4].last_text();
    assert!(question.contains("Now write two.") && question.contains("one is there"), "{question}");
    let turns = (&asked[2].json["messages"], &asked[5].json["messages"]);
    let (before, after) = (turns.0.as_array().unwrap(), turns.1.as_array().unwrap());
    assert!(after.len() > before.len(), "the conversation goes on: {after:#?}");
    check_readers(&trial, "Write one.", "Now write two.");

    // Checkpoints of both tasks keep their own names.
    let (code, shown, err) = trial.rawko(&["diff", "last", "--execution", "2"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(shown.contains("two.txt") && !shown.contains("one.txt"), "{shown}");
    let (code, _, err) = trial.rawko(&["rewind", "last", "--to", "1"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(!trial.project().join("one.txt").exists() && !trial.project().join("two.txt").exists());
    let (_, out, _) = trial.rawko(&["cancel", "last"]);
    assert!(out.contains("ended"), "{out}");
}

#[test]
fn a_session_is_named_by_its_id_and_a_wrong_one_is_an_error() {
    let answers = [
        select("developer"),
        report("did it"),
        complete("done"),
        select("developer"),
        report("did more"),
        complete("more done"),
    ];
    let ended = Trial::new(ModelServer::sequence(answers)).run("Do it.");
    let id = ended.finish()["session"].as_str().unwrap().to_owned();
    let trial = ended.trial;
    let (code, _, err) = trial.ask(&["continue", "20200101-000000-000-abcde", "and", "more"]);
    assert_eq!(code, Some(2), "{err}");
    // A slip in a part of an id is no task.
    let (code, _, err) = trial.ask(&["continue", &format!("{}9", &id[..15]), "and", "more"]);
    assert_eq!((code, err.contains("no session of this folder")), (Some(2), true), "{err}");
    let (code, _, err) = trial.ask(&["continue", &id]);
    assert_eq!((code, err.contains("rawko continue")), (Some(2), true), "{err}");
    let (code, out, err) = trial.ask(&["continue", &id, "and", "more"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(trial.server.asked()[3].last_text().contains("and more"));
    // A fork takes the second task over.
    let (code, out, err) = trial.ask(&["fork", "last", "--no-run"]);
    assert_eq!(code, Some(0), "{out}{err}");
}

#[test]
fn a_task_follows_a_failure_and_an_interruption_is_resumed_first() {
    static ASKED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let server =
        ModelServer::start(|_: &Asked| match ASKED.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 | 2 => select("developer"),
            1 => Answer::unauthorized(),
            3 => Answer::Silence,
            4 => report("did it"),
            _ => complete("done"),
        });
    let ended = Trial::new(server).run("Do it.");
    ended.exits(4);
    ended.says(&[]);
    let trial = ended.trial;
    // The next task is killed in the middle of a turn, and resumed.
    let running = trial.args(&["--cwd", "."]).start_with("continue", "Do something else.");
    running.wait_for_event("agent_started");
    running.wait_until("the turn", || ASKED.load(std::sync::atomic::Ordering::SeqCst) == 4);
    running.signal(rustix::process::Signal::KILL);
    let trial = running.end_unchecked().trial;
    let (code, _, err) = trial.ask(&["-c", "And", "this?"]);
    assert_eq!((code, err.contains("rawko resume")), (Some(2), true), "{err}");
    let (code, out, err) = trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(last(&out)["status"], "claimed");
    check_readers(&trial, "Do it.", "Do something else.");
}

#[test]
fn a_limit_is_raised_in_the_same_conversation() {
    let answers = [
        select("developer"),
        report("half of it"),
        select("developer"),
        select("developer"),
        report("all of it"),
        complete("done"),
    ];
    let trial = Trial::new(ModelServer::sequence(answers)).args(&["--max-iterations", "1"]);
    let ended = trial.output("json").run("Do it.");
    ended.exits(3);
    let end: Value = serde_json::from_str(&ended.stdout).unwrap();
    let id = end["session"].as_str().unwrap().to_owned();
    let trial = ended.trial;
    let (code, _, err) = trial.resume();
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains(&format!("rawko resume {id} --output json --max-iterations N")), "{err}");
    let (code, out, err) = trial.resume_with(&["--max-iterations", "3"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let end = last(&out);
    assert_eq!((&end["session"], &end["iterations"]), (&json!(id), &json!(2)), "{end}");
    let (_, replayed, _) = trial.rawko(&["replay", "last"]);
    assert!(replayed.contains("everything matches the record"), "{replayed}");
    let (code, _, err) = trial.resume();
    assert_eq!((code, err.contains("no unfinished session")), (Some(2), true), "{err}");
}

#[test]
fn a_failure_of_the_provider_is_resumed_in_the_same_conversation() {
    static ASKED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let server =
        ModelServer::start(|_: &Asked| match ASKED.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => select("developer"),
            1 => write("one.txt"),
            2 => Answer::unauthorized(),
            3 => report("did it"),
            _ => complete("done"),
        });
    let ended = Trial::new(server).output("text").run("Do it.");
    ended.exits(4);
    assert!(ended.stdout.contains("rawko resume "), "{}", ended.stdout);
    let trial = ended.trial;
    let (code, out, err) = trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    let turn = &trial.server.asked()[3].json["messages"];
    assert!(turn.to_string().contains("one.txt"), "{turn}");
}

fn blocked(reason: &str) -> Answer {
    decide(json!({"decision": "BLOCKED", "reason": reason}))
}

/// A run that ends with BLOCKED after these answers, and goes on with the others once it is resumed.
#[track_caller]
fn check_blocked(before: Vec<Answer>, after: Vec<Answer>) -> Trial {
    const REASON: &str = "the compiler is missing; install gcc";
    let answers = before.into_iter().chain([blocked(REASON)]).chain(after);
    let ended = Trial::new(ModelServer::sequence(answers)).output("json").run("Do it.");
    ended.exits(1);
    let end: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(end["status"], "failed", "{end}");
    assert_eq!(end["error"], json!({"code": "blocked", "message": REASON}), "{end}");
    assert!(end["summary"].as_str().unwrap().contains(&format!("Blocked: {REASON}")), "{end}");
    let trial = ended.trial;
    let asked = trial.server.asked().len();
    let (code, out, err) = trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(
        (&last(&out)["status"], &last(&out)["session"]),
        (&json!("claimed"), &end["session"]),
        "{out}"
    );
    let first = trial.server.asked()[asked].last_text();
    assert!(first.contains(REASON) && first.contains("should be gone"), "{first}");
    let (_, replayed, _) = trial.rawko(&["replay", "last"]);
    assert!(replayed.contains("everything matches the record"), "{replayed}");
    let (code, _, err) = trial.resume();
    assert_eq!((code, err.contains("no unfinished session")), (Some(2), true), "{err}");
    trial
}

#[test]
fn a_blocked_task_goes_on_when_what_stood_in_the_way_is_gone() {
    let failure = call("Report", &json!({"outcome": "failure", "summary": "there is no gcc"}));
    let trial = check_blocked(vec![select("developer"), failure], vec![report("built it"), complete("done")]);
    let asked = trial.server.asked();
    let conversation = asked[3].json["messages"].to_string();
    assert!(conversation.contains("there is no gcc"), "the developer goes on: {conversation}");
}

#[test]
fn a_task_that_is_blocked_at_once_is_put_to_the_arbiter_again() {
    check_blocked(vec![], vec![select("developer"), report("built it"), complete("done")]);
    // The last agent succeeded: another may work next.
    check_blocked(
        vec![select("planner"), report("there is a plan")],
        vec![select("developer"), report("built it"), complete("done")],
    );
}

/// The ending names this command.
#[track_caller]
fn check_hint(answers: Vec<Answer>, arguments: &[&str], part: &str) {
    let trial = Trial::new(ModelServer::sequence(answers)).output("text").args(arguments);
    let ended = trial.run("Do it.");
    let (_, list, _) = ended.trial.rawko(&["sessions", "list", "--json"]);
    let list: Value = serde_json::from_str(&list).unwrap();
    let id = list[0]["id"].as_str().unwrap_or_else(|| panic!("{list}"));
    let part = part.replace("ID", id);
    assert!(ended.stdout.contains(&part), "{part} is missing in:\n{}", ended.stdout);
    assert!(!ended.stdout.contains("run it again"), "{}", ended.stdout);
}

#[test]
fn every_ending_names_the_command_that_goes_on() {
    let done = || vec![select("developer"), report("did it"), complete("done")];
    check_hint(done(), &[], "rawko continue ID \"");
    check_hint(done(), &["--verify", "test -d ."], "rawko continue ID --verify 'test -d .' \"");
    let limited = vec![select("developer"), report("half"), select("developer")];
    check_hint(limited, &["--max-iterations", "1"], "rawko resume ID --max-iterations N");
    check_hint(vec![Answer::unauthorized()], &[], "rawko resume ID");
    check_hint(vec![blocked("no key")], &[], "rawko resume ID");
}

/// A fork that shares an ending leads to what was recorded.
#[test]
fn a_fork_of_a_continued_session_replays() {
    let trial = Trial::new(ModelServer::sequence(two_tasks())).run("Write one.").trial;
    let (code, out, err) = trial.ask(&["continue", "Now write two."]);
    assert_eq!(code, Some(0), "{out}{err}");
    let (code, out, err) = trial.ask(&["fork", "last", "--no-run"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let (_, replayed, err) = trial.rawko(&["replay", "last"]);
    assert!(replayed.contains("everything matches the record"), "{replayed}{err}");
}

/// What the arbiter and an agent say in a task that takes one execution, with the tokens that each answer is billed for.
fn one_task(tokens: u64) -> [Answer; 3] {
    let usage = Usage { input_tokens: tokens, output_tokens: tokens, ..Usage::default() };
    let billed =
        |name: &str, input: &Value| Answer::from(Say { usage, ..Say::default().with_call(name, input) });
    let decided = |decision: Value| Answer::from(Say { usage, decision: Some(decision), ..Say::default() });
    [
        decided(json!({"decision": "SELECT_MODE", "mode": "developer", "reason": "r"})),
        billed("Report", &json!({"outcome": "success", "summary": "did it"})),
        decided(json!({"decision": "COMPLETE", "summary": "done", "reason": "r"})),
    ]
}

#[test]
fn each_task_of_a_session_is_listed_with_its_outcome_and_the_costs_add_up() {
    let answers = one_task(1_000).into_iter().chain(one_task(2_000)).chain(one_task(4_000));
    let trial = Trial::new(ModelServer::sequence(answers)).run("The first.").trial;
    for task in ["The second.", "The third."] {
        let (code, out, err) = trial.ask(&["continue", task]);
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(!format!("{out}{err}").contains("resumed"), "{out}{err}");
        assert!(err.contains(" continued: "), "{err}");
    }
    let parsed = |arguments: &[&str]| -> Value { serde_json::from_str(&trial.rawko(arguments).1).unwrap() };
    let documents = [
        parsed(&["sessions", "show", "last", "--json"]),
        parsed(&["sessions", "export", "last", "--format", "json"]),
    ];
    for document in &documents {
        let tasks = document["tasks"].as_array().unwrap();
        let texts: Vec<&Value> = tasks.iter().map(|task| &task["task"]).collect();
        assert_eq!(texts, ["The first.", "The second.", "The third."]);
        assert!(tasks.iter().all(|task| task["outcome"]["status"] == "claimed"), "{tasks:?}");
        let costs: Vec<f64> = tasks.iter().map(|task| task["outcome"]["costUsd"].as_f64().unwrap()).collect();
        assert!(costs[0] > 0.0 && costs[1] > costs[0] && costs[2] > costs[1], "{costs:?}");
        let total = document["costUsd"].as_f64().unwrap();
        assert!((total - costs.iter().sum::<f64>()).abs() < 1e-9, "{total} {costs:?}");
    }
    // A list reads the journal's end alone, and says the same.
    let listed = &parsed(&["sessions", "list", "--json"])[0];
    assert_eq!(listed["costUsd"], documents[0]["costUsd"]);
    let earlier = listed["outcome"]["earlierTasks"].as_array().unwrap();
    let in_short = |task: &Value| (task["task"].clone(), task["outcome"]["costUsd"].clone());
    let shown: Vec<_> = documents[0]["tasks"].as_array().unwrap()[..2].iter().map(in_short).collect();
    let said: Vec<_> = earlier.iter().map(|task| (task["task"].clone(), task["costUsd"].clone())).collect();
    assert_eq!(said, shown);
    assert_eq!(trial.rawko(&["replay", "last"]).0, Some(0));
}

#[test]
fn what_a_resume_needs_is_named_as_a_whole_command() {
    let answers =
        [select("developer"), report("half of it"), select("developer"), report("all"), complete("done")];
    let server = ModelServer::sequence(answers);
    let ended = Trial::new(server)
        .output("text")
        .args(&["--verify", "test -d .", "--max-iterations", "1"])
        .run("Do it.");
    ended.exits(3);
    let hint = "--max-iterations N --verify 'test -d .'";
    assert!(ended.stdout.contains(hint), "{}", ended.stdout);
    let trial = ended.trial;
    let (code, _, err) = trial.resume_with(&["last"]);
    assert_eq!(code, Some(5), "{err}");
    let whole = "rawko resume --output text last --verify 'test -d .' --max-iterations N";
    assert!(err.contains(whole), "{err}");
    let (code, _, err) = trial.resume_with(&["last", "--verify", "test -d ."]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains(whole), "{err}");
    let (code, out, err) = trial.resume_with(&["last", "--verify", "test -d .", "--max-iterations", "2"]);
    assert_eq!(code, Some(0), "{out}{err}");
}

#[test]
fn a_limit_below_what_was_used_is_refused_with_both_figures() {
    let [select, report, complete] = one_task(1_000);
    let answers = [select, report, complete, Answer::unauthorized()];
    let ended = Trial::new(ModelServer::sequence(answers)).args(&["--max-iterations", "1"]).run("Do it.");
    ended.exits(0);
    let trial = ended.trial;
    // The next task is ended by its provider before it has used anything.
    let (code, out, err) = trial.ask(&["continue", "And this."]);
    assert_eq!(code, Some(4), "{out}{err}");
    let (code, _, err) = trial.resume_with(&["--max-cost", "0.000001"]);
    // The call that it makes first does not fit, but it has not used anything.
    assert_eq!((code, err.contains("has already used")), (Some(3), false), "{err}");

    let [select, report, complete] = one_task(1_000);
    let limited = [select.clone(), report.clone(), select, report, complete];
    let ended = Trial::new(ModelServer::sequence(limited)).args(&["--max-iterations", "1"]).run("Do it.");
    ended.exits(3);
    let used = ended.finish()["usage"]["inputTokens"].as_u64().unwrap();
    let spent = ended.finish()["costUsd"].as_f64().unwrap();
    assert!(used >= 2_000 && spent > 0.001);
    let trial = ended.trial;
    let (code, _, err) = trial.resume_with(&["--max-cost", "0.001"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.contains(&format!("has already used ${spent:.4}, and the limit given for it is $0.001")),
        "{err}"
    );
    let (code, _, err) = trial.resume_with(&["--max-tokens", "1999"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("tokens, and the limit given for it is 1999 tokens"), "{err}");
    let (code, out, err) = trial.resume_with(&["--max-iterations", "2", "--max-cost", "5"]);
    assert_eq!(code, Some(0), "{out}{err}");
}
