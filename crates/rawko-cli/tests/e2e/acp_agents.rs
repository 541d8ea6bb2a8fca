//! Agents whose work another program does, by the Agent Client Protocol: what it says is a claim, and the checks decide.

use rawko::outside::OutsideEnd;
use rawko_core::session::{EffectAnswer, Event};
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::ModelServer;

use crate::answers::{complete, select};
use crate::trial::{Ended, Trial};

const PROGRAM: &str = include_str!("../support/acp_agent.py");
const CALC: &str = "def add(a, b):\n    return a - b\n";
const TEST: &str = "import unittest\nfrom calc import add\n\n\nclass AddTest(unittest.TestCase):\n    def test_add(self):\n        \
                    self.assertEqual(add(1, 2), 3)\n";
const CHECK: &str = "python3 -B -m unittest -q test_calc";

/// An ACP agent of the project that does `what`.
fn agent(what: &str) -> Value {
    json!({"name": "coder", "whenToUse": "for all work", "role": "implement", "systemPrompt": "You write code.",
        "acp": {"command": ["python3", "-B", "acp_agent.py", what]}})
}

/// A project with a fault, and that agent in it.
fn trial(agent: &Value) -> Trial {
    Trial::new(ModelServer::sequence([select("coder"), complete("all done")]))
        .file("acp_agent.py", PROGRAM)
        .file("calc.py", CALC)
        .file("test_calc.py", TEST)
        .agent(agent)
        .args(&["--verify", CHECK])
        .trusted()
}

/// What the agent said, as the journal has it.
fn said(ended: &Ended) -> String {
    let work = ended.journal().records.into_iter().find_map(|record| match record {
        rawko::journal::Record::Event(stamped) => match stamped.event {
            Event::Answered { answer: EffectAnswer::OutsideAgentEnded { work }, .. } => Some(work.text),
            _ => None,
        },
        rawko::journal::Record::Step(_) => None,
    });
    work.expect("an outside agent has worked")
}

#[test]
fn a_run_is_verified_by_the_checks_after_the_work_of_another_program() {
    let ended = trial(&agent("fix")).run("Fix add.");
    let finish = ended.exits(0).finish();
    assert_eq!(finish["status"], "verified", "{finish:#}");
    assert_eq!(finish["filesModified"], json!(["calc.py"]));
    assert_eq!(finish["outside"], json!([{"agent": "coder", "program": "python3"}]));
    assert_eq!(said(&ended), "I fixed add.");
    let streamed: String =
        ended.events_of("text_delta").iter().map(|event| event["text"].as_str().unwrap()).collect();
    assert!(streamed.contains("I look. I fixed add."), "{streamed}");
    assert_eq!(ended.events_of("checkpoint_taken").len(), 1);
    // What it says of its spend is counted.
    let used = ended.events_of("tokens_used").into_iter().find(|event| event["agent"] == "coder").unwrap();
    assert_eq!((&used["usage"]["inputTokens"], &used["usage"]["outputTokens"]), (&json!(20), &json!(10)));
}

#[test]
fn a_run_says_what_does_not_hold_another_program() {
    let hooks = json!({"PreToolUse": [{"hooks": [{"type": "command", "command": "exit 2"}]}]});
    let run = with(&agent("fix"), &json!({"permissions": {"run": ["cat"]}}));
    let ended = trial(&run).user_config("/hooks", hooks).run("Fix add.");
    ended
        .exits(0)
        .says(&["hooks do not see what the program of `coder` does", "`permissions.run` does not hold"]);
    assert_eq!(ended.finish()["filesModified"], json!(["calc.py"]), "the hook is not asked about its calls");
    let ended = trial(&agent("fix")).run("Fix add.");
    ended.exits(0);
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(!said.contains("hooks do not see") && !said.contains("`permissions.run`"), "{said}");
}

#[test]
fn a_claim_without_work_is_not_verified() {
    let ended = trial(&agent("claim")).run("Fix add.");
    let finish = ended.finish();
    assert_ne!(finish["status"], "verified", "{finish:#}");
    assert_eq!(finish["filesModified"], json!([]));
}

/// The same agent with other settings.
fn with(agent: &Value, settings: &Value) -> Value {
    let mut agent = agent.clone();
    for (key, value) in settings.as_object().unwrap() {
        agent[key] = value.clone();
    }
    agent
}

/// How the work of the program failed, with what is known of it.
#[track_caller]
fn failure(ended: &Ended) -> String {
    let error = ended.journal().records.into_iter().find_map(|record| match record {
        rawko::journal::Record::Event(stamped) => match stamped.event {
            Event::Answered { answer: EffectAnswer::OutsideAgentEnded { work }, .. } => match work.end {
                OutsideEnd::Failed { error } => Some(error.message),
                OutsideEnd::Stopped { .. } => None,
            },
            _ => None,
        },
        rawko::journal::Record::Step(_) => None,
    });
    error.unwrap_or_else(|| panic!("it did not fail:\n{}", ended.stdout))
}

/// Processes of this machine whose command line has `word`.
fn processes_with(word: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(word)).collect()
}

#[test]
fn a_developer_may_do_what_it_asks_for() {
    let ended = trial(&agent("ask")).run("Fix add.");
    assert_eq!(ended.exits(0).finish()["status"], "verified");
    assert_eq!(said(&ended), "The answer was yes.");
    let asked = ended.events_of("tool_called");
    let asked = asked.iter().find(|event| event["call"]["name"] == "edit").unwrap();
    assert_eq!((&asked["allowed"], &asked["call"]["input"]["title"]), (&json!(true), &json!("Edit calc.py")));
}

#[test]
fn a_reviewer_is_refused_and_cannot_write_all_the_same() {
    let reader = json!({"role": "review", "tools": {"allowed": ["Read", "Grep"]}});
    let ended = trial(&with(&agent("review"), &reader)).run("Review add.");
    let said = said(&ended);
    assert!(said.starts_with("answer no, edit OSError, new file OSError\n"), "{said}");
    assert_eq!(std::fs::read_to_string(ended.trial.project().join("calc.py")).unwrap(), CALC);
    assert!(!ended.trial.project().join("new.txt").exists());
    let finish = ended.finish();
    assert_ne!(finish["status"], "verified");
    let decisions = ended.events_of("decision_made");
    let shown = decisions.iter().map(|event| event["input"].to_string()).collect::<String>();
    assert!(shown.contains("rejected") && shown.contains("add subtracts"), "{shown}");
}

#[test]
fn the_program_has_no_key_but_the_one_that_is_granted_and_sees_no_state_of_rawko() {
    let mut curious = agent("look");
    curious["acp"]["env"] = json!({"PLAIN": "text"});
    let ended = trial(&curious).env("MODEL_KEY", "sk-model-7c2d").run("Fix add.");
    let words = said(&ended);
    assert!(words.starts_with("names none; state "), "{words}");
    assert!(!words.contains("sessions") && !words.contains("agents"), "{words}");
    assert!(words.ends_with("plain text"), "{words}");

    curious["acp"]["key"] = json!("MODEL_KEY");
    let ended = trial(&curious).env("MODEL_KEY", "sk-model-7c2d").run("Fix add.");
    let words = said(&ended);
    assert!(words.starts_with("names MODEL_KEY; "), "{words}");
    let finish = ended.finish();
    assert_eq!(finish["outside"][0]["key"], "MODEL_KEY", "{finish:#}");
    let text = trial(&curious).env("MODEL_KEY", "sk-model-7c2d").output("text").run("Fix add.");
    assert!(text.stdout.contains("was given your MODEL_KEY"), "{}", text.stdout);

    trial(&curious).run("Fix add.").says(&["`coder` is to be given MODEL_KEY, which is not set"]);
}

#[test]
fn a_program_that_never_ends_is_ended_with_its_time() {
    let mut endless = with(&agent("hang"), &json!({"limits": {"timeout": 3_000}}));
    let probe = trial(&endless);
    let word = format!("mark-{}", probe.outside().file_name().unwrap().to_string_lossy());
    endless["acp"]["command"].as_array_mut().unwrap().push(json!(word));
    let ended = probe.agent(&endless).args(&["--max-iterations", "1"]).run("Fix add.");
    let finish = ended.finish();
    assert!(["failed", "limited"].contains(&finish["status"].as_str().unwrap()), "{finish:#}");
    assert!(finish.to_string().contains("time for one execution is up"), "{finish:#}");
    assert!(ended.trial.project().join("began.txt").exists(), "it did begin");
    assert_eq!(processes_with(&word), Vec::<String>::new());
}

#[test]
fn a_program_that_fails_is_an_outcome_with_a_reason() {
    let died = trial(&agent("die")).run("Fix add.");
    let why = failure(&died);
    assert!(why.contains("exit code 3") && why.contains("out of luck"), "{why}");
    // What it had changed was seen, and counts.
    assert_eq!(died.finish()["filesModified"], json!(["calc.py"]));

    let garbage = trial(&agent("garbage")).run("Fix add.");
    assert!(failure(&garbage).contains("no message of the protocol: this is no message"));

    let login = trial(&agent("login")).run("Fix add.");
    let why = failure(&login);
    assert!(why.contains("wants a login") && why.contains("acp.key"), "{why}");
    assert_ne!(login.finish()["status"], "verified");

    let mut absent = agent("fix");
    absent["acp"]["command"] = json!(["no-such-program"]);
    let why = failure(&trial(&absent).run("Fix add."));
    assert!(why.contains("could not be started") && why.contains("no-such-program"), "{why}");
}

#[test]
fn a_flood_of_words_ends_with_the_time() {
    let flood = with(&agent("flood"), &json!({"limits": {"timeout": 3_000}}));
    let ended = trial(&flood).args(&["--max-iterations", "1"]).output("json").run("Fix add.");
    assert!(ended.stdout.contains("time for one execution is up"), "{}", ended.stdout);
}

#[test]
fn what_was_begun_before_a_kill_is_not_begun_again() {
    let running = trial(&agent("hang")).start("Fix add.");
    running.wait_for_line("began.txt");
    let killed = running.end_after(Signal::KILL);
    let (code, stdout, stderr) = killed.trial.resume_with(&["last", "--yes", "--verify", CHECK]);
    let finish: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert_ne!(finish["status"], "verified", "{code:?} {stderr}");
    assert!(stdout.contains("Outcome unknown: rawko was interrupted while this agent worked"), "{stdout}");
    let began = std::fs::read_to_string(killed.trial.project().join("began.txt")).unwrap();
    assert_eq!(began.lines().count(), 1, "its program was started again");
    let (code, _, stderr) = killed.trial.rawko(&["replay", "last"]);
    assert_eq!(code, Some(0), "{stderr}");
}

#[test]
fn a_cost_limit_needs_a_limit_of_the_time() {
    trial(&agent("fix")).args(&["--max-cost", "1"]).run("Fix add.").says(&[
        "cost limit",
        "`coder`",
        "--timeout",
    ]);
    let timed = trial(&agent("fix")).args(&["--max-cost", "1", "--timeout", "5m"]).run("Fix add.");
    assert_eq!(timed.exits(0).finish()["status"], "verified");
}

#[test]
fn a_folder_that_is_not_trusted_runs_no_program() {
    let agent = agent("fix");
    let untrusted = Trial::new(ModelServer::sequence([select("coder"), complete("all done")]))
        .file("acp_agent.py", PROGRAM)
        .file("calc.py", CALC)
        .agent(&agent)
        .run("Fix add.");
    untrusted.says(&["`coder` would run `python3 -B acp_agent.py fix`"]);
    assert_eq!(std::fs::read_to_string(untrusted.trial.project().join("calc.py")).unwrap(), CALC);
}

#[test]
fn without_a_sandbox_only_an_agent_that_may_write_is_run() {
    let ended = trial(&agent("fix")).args(&["--no-sandbox"]).run("Fix add.");
    assert_eq!(ended.exits(0).finish()["status"], "verified");
    let reader = json!({"role": "review", "tools": {"allowed": ["Read", "Grep"]}});
    let ended = trial(&with(&agent("review"), &reader)).args(&["--no-sandbox"]).run("Review add.");
    let why = failure(&ended);
    assert!(why.contains("without a sandbox nothing would hold its program to that"), "{why}");
    assert_eq!(std::fs::read_to_string(ended.trial.project().join("calc.py")).unwrap(), CALC);
}

#[test]
fn a_run_that_is_cancelled_ends_its_program() {
    let mut endless = agent("hang");
    let probe = trial(&endless);
    let word = format!("cancel-{}", probe.outside().file_name().unwrap().to_string_lossy());
    endless["acp"]["command"].as_array_mut().unwrap().push(json!(word));
    let running = probe.agent(&endless).start("Fix add.");
    running.wait_for_line("began.txt");
    assert!(!processes_with(&word).is_empty(), "it runs");
    let ended = running.end_after(Signal::INT);
    assert_eq!(ended.finish()["status"], "cancelled");
    assert_eq!(processes_with(&word), Vec::<String>::new());
}
