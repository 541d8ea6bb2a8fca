//! A run is steered from another process, and watched by one.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Asked, ModelServer, Who};

use crate::answers::{bash, call, calls, complete, decide, developer, report, select};
use crate::trial::{Running, Trial};

/// A command that runs until the test lets it end, and leaves a line every time.
const WAIT: &str = "echo ran >> ran; until [ -e go ]; do sleep 0.02; done";

fn waiting_in(server: ModelServer) -> Running {
    at_work(Trial::new(server))
}

/// The developer runs [`WAIT`].
fn at_work(trial: Trial) -> Running {
    let running = trial.start("Make it.");
    running.wait_for_line("ran");
    running
}

fn go_file(trial: &Trial) -> PathBuf {
    trial.project().join("go")
}

fn let_it_end(trial: &Trial) {
    std::fs::write(go_file(trial), "").unwrap();
}

/// Steers the run: the exit status and what was printed as JSON.
#[track_caller]
fn steer(trial: &Trial, words: &[&str]) -> (Option<i32>, Value) {
    let (code, stdout, stderr) = trial.rawko(&[&["steer", "--json"], words].concat());
    (code, serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}")))
}

#[track_caller]
fn taken(trial: &Trial, words: &[&str]) {
    let (code, said) = steer(trial, words);
    assert_eq!((code, &said["taken"]), (Some(0), &json!(true)), "{said}");
}

#[track_caller]
fn ignored(trial: &Trial, words: &[&str], why: &str) {
    let (code, said) = steer(trial, words);
    assert_eq!((code, &said["taken"]), (Some(1), &json!(false)), "{said}");
    assert!(said["reason"].as_str().unwrap().contains(why), "{said}");
}

/// The journal of the only session, as text.
fn journal(trial: &Trial) -> String {
    let sessions = std::fs::read_dir(trial.project().join(".rawko/sessions")).unwrap().flatten();
    let folder = sessions.map(|entry| entry.path()).find(|path| path.is_dir()).unwrap();
    std::fs::read_to_string(folder.join("journal.jsonl")).unwrap()
}

/// Pauses the run, lets its tool call end, and waits until its answer is journaled. It stays without effect.
#[track_caller]
fn paused_for_good(running: &Running) {
    taken(&running.trial, &["pause"]);
    let asked = running.trial.server.asked().len();
    let_it_end(&running.trial);
    running.wait_until("the tool's answer", || journal(&running.trial).contains("\"ToolFinished\""));
    // This comes after the answer.
    ignored(&running.trial, &["pause"], "it is paused already");
    assert_eq!(running.trial.server.asked().len(), asked, "nothing new begins");
    let (_, list, _) = running.trial.rawko(&["sessions", "list"]);
    assert!(list.contains("paused"), "{list}");
}

#[track_caller]
fn replays(trial: &Trial) {
    let (code, out, err) = trial.rawko(&["replay", "last"]);
    assert_eq!(code, Some(0), "{out}{err}");
}

#[test]
fn a_run_is_paused_and_goes_on() {
    let running = waiting_in(developer([bash(WAIT)]));
    ignored(&running.trial, &["last", "go"], "it is not paused");
    paused_for_good(&running);
    let (code, text, _) = running.trial.rawko(&["steer", "last", "go"]);
    assert!(code == Some(0) && text.contains("it goes on"), "{text}");
    let ended = running.end();
    ended.exits(0);
    assert_eq!((ended.events_of("run_paused").len(), ended.events_of("run_unpaused").len()), (1, 1));
    replays(&ended.trial);
    let (_, list, _) = ended.trial.rawko(&["sessions", "list"]);
    assert!(!list.contains("paused"), "{list}");
    let (code, _, stderr) = ended.trial.rawko(&["steer", "last", "pause"]);
    assert!(code == Some(2) && stderr.contains("has ended") && stderr.contains("rawko continue"), "{stderr}");
    let (code, _, stderr) = ended.trial.rawko(&["steer", "pause"]);
    assert!(code == Some(2) && stderr.contains("no session is running"), "{stderr}");
    let (code, _, stderr) = ended.trial.rawko(&["steer", "nothing", "pause"]);
    assert!(code == Some(2) && stderr.contains("nothing"), "{stderr}");
}

#[test]
fn a_run_begins_anew() {
    // The first developer is given up; the second is selected and works in a new conversation.
    let running = waiting_in(developer([bash(WAIT), select("developer"), bash("echo anew > anew.txt")]));
    let (code, text, _) = running.trial.rawko(&["steer", "reset"]);
    assert!(code == Some(0) && text.contains("the task begins anew; files, costs and limits stay"), "{text}");
    let ended = running.end();
    ended.exits(0);
    let states: Vec<_> = ended.events_of("state_changed").iter().map(|event| event["to"].clone()).collect();
    let anew = ["selecting", "executing", "evaluating", "complete"];
    let expected: Vec<Value> =
        ["selecting", "executing", "idle"].iter().chain(&anew).map(|it| json!(it)).collect();
    assert_eq!(states, expected);
    let asked = ended.trial.server.asked();
    let last = String::from_utf8_lossy(&asked[asked.len() - 2].body);
    assert!(last.contains("anew.txt") && !last.contains(WAIT), "{last}");
    assert_eq!(std::fs::read_to_string(ended.trial.project().join("anew.txt")).unwrap(), "anew\n");
    replays(&ended.trial);
}

#[test]
fn background_jobs_end_with_a_reset() {
    let job = call(
        "Bash",
        &json!({"command": "while :; do echo tick >> job.log; sleep 0.02; done",
                                   "run_in_background": true}),
    );
    let stands_still =
        "until n=$(wc -l < job.log); sleep 0.3; [ $n -eq $(wc -l < job.log) ]; do :; done; echo STILL";
    let turns = [job, bash(WAIT), select("developer"), bash(stands_still)];
    let running = waiting_in(developer(turns));
    running.wait_for_line("job.log");
    taken(&running.trial, &["reset"]);
    let ended = running.end();
    ended.exits(0);
    let (output, _) = ended.results("Bash").pop().unwrap();
    assert!(output.contains("STILL"), "{output}");
}

#[test]
fn a_failing_run_gets_the_way_from_the_user() {
    let hint = "> The greeting is in hello.txt.";
    let mut turns = 0;
    let server = ModelServer::start(move |asked: &Asked| {
        let body = String::from_utf8_lossy(&asked.body).into_owned();
        match asked.who() {
            Who::Select => select("developer"),
            Who::Evaluate if body.contains("greeting is in hello.txt") && body.contains("found it") => {
                complete("found")
            }
            Who::Evaluate => decide(json!({"decision": "RETRY", "reason": "not found"})),
            Who::Agent if !body.contains(hint) => bash(&format!("{WAIT}; cat greeting.txt")),
            Who::Agent => {
                turns += 1;
                if turns == 1 { bash("cat hello.txt") } else { report("found it") }
            }
        }
    });
    let running = at_work(Trial::new(server).file("hello.txt", "Hello!\n"));
    let (code, text, _) = running.trial.rawko(&["steer", "say", "The greeting", "is in hello.txt."]);
    assert!(code == Some(0) && text.contains("said; an agent reads it"), "{text}");
    let_it_end(&running.trial);
    let ended = running.end();
    ended.exits(0);
    let results = ended.results("Bash");
    assert!(results[0].0.contains("No such file") && results[1].0.contains("Hello!"), "{results:?}");
    assert_eq!(ended.events_of("steered")[0]["command"]["text"], "The greeting is in hello.txt.");
    replays(&ended.trial);
}

#[test]
fn another_agent_is_made_to_work() {
    let server = ModelServer::sequence([
        select("developer"),
        bash(WAIT),
        call("Report", &json!({"verdict": "approved", "summary": "fine", "findings": []})),
        complete("all done"),
    ]);
    let running = waiting_in(server);
    let (code, _, stderr) = running.trial.rawko(&["steer", "force", "reviwer"]);
    assert!(code == Some(2) && stderr.contains("did you mean `reviewer`"), "{stderr}");
    taken(&running.trial, &["force", "reviewer"]);
    let ended = running.end();
    ended.exits(0);
    let agents: Vec<Value> =
        ended.events_of("agent_started").into_iter().map(|event| event["agent"].clone()).collect();
    assert_eq!(agents, ["developer", "reviewer"]);
    let sources = ended.events_of("decision_made");
    assert!(sources.iter().any(|event| event["source"] == "human"), "{sources:?}");
    replays(&ended.trial);
}

#[test]
fn a_step_is_skipped_and_an_agent_tries_again() {
    let steps = json!({"steps": [{"description": "one"}, {"description": "two"}]});
    let planned = json!({"outcome": "success", "summary": "planned"});
    let server = ModelServer::sequence([
        select("planner"),
        calls(&[("UpdatePlan", steps), ("Report", planned)]),
        select("developer"),
        bash(WAIT),
        select("developer"),
        bash("touch second; until [ -e go ]; do sleep 0.02; done"),
        report("did it"),
        complete("all done"),
    ]);
    let running = waiting_in(server);
    taken(&running.trial, &["skip"]);
    running.wait_until("the second call", || running.trial.project().join("second").exists());
    taken(&running.trial, &["retry"]);
    let ended = running.end();
    ended.exits(0);
    let text = ended
        .trial
        .server
        .asked()
        .iter()
        .map(|asked| String::from_utf8_lossy(&asked.body).into_owned())
        .collect::<String>();
    assert!(text.contains("[skipped] one"), "the plan says it");
    replays(&ended.trial);
}

#[test]
fn a_run_is_cancelled() {
    let running = waiting_in(developer([bash(WAIT)]));
    let (code, text, stderr) = running.trial.rawko(&["steer", "cancel"]);
    assert!(code == Some(0) && text.contains("cancelled"), "{text}{stderr}");
    running.end().exits(130);
}

#[test]
fn without_an_id_the_run_is_cancelled_and_the_latest_is_taken_back() {
    let running = waiting_in(developer([bash(WAIT)]));
    let (code, text, stderr) = running.trial.rawko(&["cancel"]);
    assert!(code == Some(0) && text.contains("cancelled"), "{text}{stderr}");
    let ended = running.end();
    ended.exits(130);
    let (code, text, stderr) = ended.trial.rawko(&["rewind", "--to", "1", "--dry-run"]);
    assert_eq!(code, Some(0), "{text}{stderr}");
    // Nothing else is closed by mistake.
    let (code, _, stderr) = ended.trial.rawko(&["cancel"]);
    assert!(code == Some(2) && stderr.contains("no session is running"), "{stderr}");
}

#[test]
fn a_paused_run_that_was_killed_is_resumed() {
    let running = waiting_in(developer([bash(WAIT)]));
    paused_for_good(&running);
    let trial = running.end_after(Signal::KILL).trial;
    let (_, list, _) = trial.rawko(&["sessions", "list"]);
    assert!(list.contains("paused"), "{list}");
    let (_, shown, _) = trial.rawko(&["sessions", "show"]);
    assert!(shown.contains("It is paused"), "{shown}");
    let (code, _, stderr) = trial.rawko(&["steer", "last", "go"]);
    assert!(code == Some(2) && stderr.contains("not running") && stderr.contains("rawko resume"), "{stderr}");
    let (code, out, err) = trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("\"run_unpaused\""), "{out}");
    assert_eq!(std::fs::read_to_string(trial.project().join("ran")).unwrap(), "ran\n", "it ran once");
    replays(&trial);
}

#[test]
fn a_paused_run_without_anyone_ends_with_its_time() {
    let running = at_work(Trial::new(developer([bash(WAIT)])).args(&["--timeout", "4s"]));
    paused_for_good(&running);
    let ended = running.end();
    ended.exits(3);
    assert_eq!(ended.finish()["limit"], "time");
    replays(&ended.trial);
}

#[test]
fn a_command_without_a_seal_is_not_carried_out() {
    let running = waiting_in(developer([bash(WAIT)]));
    let session = std::fs::read_dir(running.trial.project().join(".rawko/sessions")).unwrap().flatten();
    let folder = session.map(|entry| entry.path()).find(|path| path.is_dir()).unwrap().join("steering");
    std::fs::create_dir_all(&folder).unwrap();
    let name = "20261124-033054-322-8egmb";
    let forged =
        json!({"request": name, "command": {"type": "retry"}, "at": u64::MAX, "seal": "0".repeat(64)});
    std::fs::write(folder.join(name), forged.to_string()).unwrap();
    running.wait_until("its removal", || !folder.join(name).exists());
    // A sealed one that comes later is the first that the journal has.
    taken(&running.trial, &["say", "hi"]);
    let_it_end(&running.trial);
    let ended = running.end();
    ended.exits(0);
    let steered = ended.events_of("steered");
    assert_eq!((steered.len(), &steered[0]["command"]["type"]), (1, &json!("say")));
    assert!(!folder.exists(), "nothing is left");
}

/// The events that watching derives from the journal: text comes in one piece, waits of a provider are not stored.
fn kinds(lines: &str) -> Vec<String> {
    let kind =
        |line: &str| serde_json::from_str::<Value>(line).expect(line)["type"].as_str().unwrap().to_owned();
    lines.lines().map(kind).filter(|kind| kind != "text_delta").collect()
}

#[test]
fn a_running_session_is_watched_to_its_end_and_a_past_one_again() {
    let running = waiting_in(developer([bash(WAIT)]));
    let watching = running.trial.begin(&["watch", "--json"]);
    let detached = running.trial.begin(&["watch"]);
    // It has begun to watch when it has printed something: a signal before that would end it the hard way.
    detached.wait_until("a line", || detached.err().contains('\n'));
    detached.signal(Signal::INT);
    detached.end().ends(0).complains(&["no longer watching"]);
    let_it_end(&running.trial);
    let ended = running.end();
    ended.exits(0);
    let watched = watching.end().ends(0).out;
    assert_eq!(kinds(&watched), kinds(&ended.stdout));
    assert_eq!(watched.lines().last(), ended.stdout.lines().last(), "the same end");
    let (code, again, _) = ended.trial.rawko(&["watch", "last", "--output", "stream-json"]);
    assert_eq!((code, again), (Some(0), watched));
    let (code, text, progress) = ended.trial.rawko(&["watch"]);
    assert_eq!(code, Some(0));
    assert!(text.contains("all done") && progress.contains("developer"), "{text}{progress}");
    let (code, _, stderr) = Trial::new(developer([])).rawko(&["watch"]);
    assert!(code == Some(2) && stderr.contains("no sessions in this folder"), "{stderr}");
}

#[test]
fn watching_ends_where_no_process_goes_on() {
    let running = waiting_in(developer([bash(WAIT)]));
    let watching = running.trial.begin(&["watch", "--json"]);
    let ended = running.end_after(Signal::KILL);
    let_it_end(&ended.trial);
    watching.end().ends(1).complains(&["no process runs session", "rawko resume"]);
}
