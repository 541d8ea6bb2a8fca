//! A person is asked for what the permissions do not grant, if the configuration says so, and for nothing else.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "session_support/mod.rs"]
mod session_support;

use rawko_core::agent::{Ask, BashFilter};
use rawko_core::approval::{APPROVED, Approval, ApprovalQuestion};
use rawko_core::message::{Content, StopReason};
use rawko_core::session::{Effect, EffectAnswer, EffectId, Event, Note, PhaseKind, Session, TimerPurpose};
use rawko_core::setup::{CallRetry, Setup};
use rawko_core::tool::{Refusal, ToolOutcome};
use rawko_core::{ErrorCode, TimeSpan};
use serde_json::json;
use session_support::{Bench, call, setup};

const ALL: [Ask; 3] = [Ask::Commands, Ask::Hosts, Ask::Paths];

/// A developer who may run `ls` and no other program.
fn asking(ask: &[Ask]) -> Setup {
    let mut setup = setup();
    setup.first_agent = Some("developer".to_owned());
    for agent in setup.agents.values_mut() {
        agent.permissions.ask = Some(ask.to_vec()).filter(|ask| !ask.is_empty());
        agent.config.tools.bash_filter = Some(BashFilter {
            allowed_commands: Some(vec!["ls".to_owned()]),
            blocked_patterns: vec!["sudo".to_owned()],
        });
    }
    setup
}

fn bash(id: &str, command: &str) -> Content {
    call(id, "Bash", json!({ "command": command }))
}

fn yes() -> Approval {
    Approval::Allowed { by: "terminal".to_owned() }
}

fn no() -> Approval {
    Approval::Denied { by: "terminal".to_owned() }
}

fn refused(needs: &[Refusal]) -> ToolOutcome {
    let outcome = ToolOutcome::error(ErrorCode::PermissionError, "not granted");
    ToolOutcome { refused: needs.to_vec(), ..outcome }
}

fn host(name: &str) -> Refusal {
    Refusal::Host { host: name.to_owned() }
}

fn read(path: &str) -> Refusal {
    Refusal::Read { path: path.to_owned() }
}

trait Approving {
    fn say(&mut self, calls: Vec<Content>);
    fn question(&self) -> Option<ApprovalQuestion>;
    fn answer_question(&mut self, approval: Approval);
    fn result_of_call(&self) -> String;
    fn run_of(&self, tool: &str) -> (EffectId, String, Vec<Refusal>);
    fn only(&self, tool: &str);
}

impl Approving for Bench {
    fn say(&mut self, calls: Vec<Content>) {
        self.reply(calls, StopReason::ToolUse);
    }

    fn question(&self) -> Option<ApprovalQuestion> {
        let asked = self.open.iter().find_map(|effect| match effect {
            Effect::AskUser { id, question } => Some((*id, (**question).clone())),
            _ => None,
        });
        let known = self.session.open_question().map(|(id, question)| (id, question.clone()));
        assert_eq!(asked, known);
        asked.map(|(_, question)| question)
    }

    fn answer_question(&mut self, approval: Approval) {
        assert_eq!(self.session.phase(), PhaseKind::Approving);
        self.answer(
            |effect| matches!(effect, Effect::AskUser { .. }),
            |effect| Event::answered(effect, EffectAnswer::ApprovalAnswered { approval }),
        );
    }

    /// The results that the model is given.
    fn result_of_call(&self) -> String {
        let asked = self.asked();
        asked.rsplit("ToolResult").next().unwrap().to_owned()
    }

    fn run_of(&self, tool: &str) -> (EffectId, String, Vec<Refusal>) {
        let found = self.open.iter().find_map(|effect| match effect {
            Effect::RunTool { id, call, rule, grants, .. } if call.name == tool => {
                Some((*id, rule.clone(), grants.clone()))
            }
            _ => None,
        });
        found.unwrap_or_else(|| panic!("{tool} does not run: {:?}", self.open))
    }

    fn only(&self, tool: &str) {
        let running: Vec<String> = self.running().into_iter().map(|(_, name)| name).collect();
        assert_eq!(running, [tool]);
    }
}

#[test]
fn a_command_on_no_list_runs_once_it_is_allowed() {
    let mut bench = Bench::start(asking(&ALL));
    bench.say(vec![bash("1", "make")]);
    assert!(bench.running().is_empty());
    let question = bench.question().unwrap();
    assert_eq!((question.agent.as_str(), &question.needs[..]), ("developer", &[Refusal::Command][..]));
    assert!(question.why.contains("`make` is not listed"), "{}", question.why);
    assert_eq!(question.until.0, bench.clock + 600_000);
    bench.answer_question(yes());
    let (id, rule, grants) = bench.run_of("Bash");
    assert_eq!((rule.as_str(), grants), (APPROVED, vec![Refusal::Command]));
    bench.finish_tool(id, ToolOutcome::ok("made"));
    assert!(bench.result_of_call().contains("made"));
    // It was allowed once.
    bench.say(vec![bash("2", "make")]);
    assert_ne!(bench.question().unwrap().digest, question.digest);
}

#[test]
fn a_call_that_was_not_allowed_is_not_asked_for_again() {
    for (answer, words) in [
        (no(), "said no"),
        (Approval::Expired, "did not answer in time"),
        (Approval::Unattended, "no person to ask"),
    ] {
        let mut bench = Bench::start(asking(&ALL));
        bench.say(vec![bash("1", "make")]);
        bench.answer_question(answer);
        assert!(bench.running().is_empty());
        let result = bench.result_of_call();
        assert!(result.contains("is not listed") && result.contains(words), "{result}");
        let called = |note: &Note| matches!(note, Note::ToolCalled { allowed: false, rule, .. } if rule == "tools.bashFilter.allowedCommands");
        assert!(bench.notes.iter().any(called));
        // With other words about it, it is the same call.
        bench.say(vec![call("2", "Bash", json!({"command": "make", "description": "Builds it"}))]);
        assert_eq!(bench.question(), None);
        assert!(bench.result_of_call().contains("asked for this very call before"));
        bench.say(vec![bash("3", "make all")]);
        assert!(bench.question().is_some(), "another call is asked for");
    }
}

#[track_caller]
fn check_not_asked(setup: Setup, command: &str) {
    let mut bench = Bench::start(setup);
    bench.say(vec![bash("1", command)]);
    assert_eq!((bench.question(), bench.running()), (None, vec![]), "{command}");
    assert_eq!(bench.session.phase(), PhaseKind::Turn);
}

#[test]
fn denied_calls_are_not_asked_for_and_nothing_is_where_asking_is_off() {
    check_not_asked(asking(&[]), "make");
    check_not_asked(asking(&[Ask::Hosts, Ask::Paths]), "make");
    // A blocked pattern wins, and what is not understood cannot be judged by a person either.
    for command in ["sudo ls", "make; sudo ls", "make 'x", "make\u{0}"] {
        check_not_asked(asking(&ALL), command);
    }
    let mut removing = asking(&ALL);
    for agent in removing.agents.values_mut() {
        agent.permissions.write = Some(vec![".".to_owned()]);
    }
    check_not_asked(removing, "rm -rf /usr/lib");
    let mut blocked = asking(&ALL);
    for agent in blocked.agents.values_mut() {
        agent.config.tools.blocked = vec!["Bash".to_owned()];
    }
    check_not_asked(blocked, "make");
}

#[test]
fn calls_of_one_turn_are_asked_for_one_after_the_other_and_keep_their_order() {
    let mut bench = Bench::start(asking(&ALL));
    let writes = call("3", "Write", json!({}));
    bench.say(vec![call("0", "Read", json!({})), bash("1", "make"), bash("2", "make x"), writes]);
    bench.only("Read");
    assert_eq!(bench.question(), None, "the call before is not done");
    bench.finish_tool(bench.run_of("Read").0, ToolOutcome::ok("text"));
    assert_eq!(bench.question().unwrap().call.id, "1");
    bench.answer_question(no());
    assert_eq!(bench.question().unwrap().call.id, "2");
    bench.answer_question(yes());
    bench.only("Bash");
    bench.finish_tool(bench.run_of("Bash").0, ToolOutcome::ok("made"));
    bench.only("Write");
    bench.finish_tool(bench.run_of("Write").0, ToolOutcome::ok("written"));
    assert_eq!(bench.session.phase(), PhaseKind::Turn);
}

#[test]
fn a_path_that_was_refused_is_tried_again_with_that_path() {
    let mut bench = Bench::start(asking(&ALL));
    bench.say(vec![call("1", "Read", json!({"file_path": "/etc/hosts"})), call("2", "Grep", json!({}))]);
    let (id, rule, grants) = bench.run_of("Read");
    assert_eq!(grants, []);
    bench.finish_tool(id, refused(&[read("/etc/hosts")]));
    assert_eq!(bench.question(), None, "the other read goes on");
    bench.finish_tool(bench.run_of("Grep").0, ToolOutcome::ok("found"));
    assert_eq!(bench.question().unwrap().needs, [read("/etc/hosts")]);
    bench.answer_question(yes());
    let (id, new_rule, grants) = bench.run_of("Read");
    assert_eq!((new_rule.as_str(), grants), (APPROVED, vec![read("/etc/hosts")]));
    assert_ne!(rule, APPROVED);
    // Refused for the same reason although it was granted: that is the end of it.
    bench.finish_tool(id, refused(&[read("/etc/hosts")]));
    assert_eq!(bench.session.phase(), PhaseKind::Turn);
    let calls =
        bench.notes.iter().filter(|note| matches!(note, Note::ToolCalled { call, .. } if call.id == "1"));
    assert_eq!(calls.count(), 1);
}

#[test]
fn refusals_that_are_not_askable_end_the_call() {
    let outcomes = [
        // Something was done, so the call cannot be repeated.
        ToolOutcome { is_error: false, ..refused(&[read("/x")]) },
        ToolOutcome { error_code: Some(ErrorCode::ToolFailure), ..refused(&[read("/x")]) },
        // A part of it is not asked for.
        refused(&[read("/x"), host("a.example")]),
        refused(&[]),
    ];
    for outcome in outcomes {
        let mut bench = Bench::start(asking(&[Ask::Commands, Ask::Paths]));
        bench.say(vec![call("1", "Read", json!({}))]);
        bench.finish_tool(bench.run_of("Read").0, outcome.clone());
        assert_eq!((bench.question(), bench.session.phase()), (None, PhaseKind::Turn), "{outcome:?}");
    }
}

#[test]
fn a_command_that_met_a_refused_host_is_not_repeated_by_itself() {
    let mut bench = Bench::start(asking(&ALL));
    bench.say(vec![bash("1", "ls")]);
    let outcome =
        ToolOutcome { is_error: false, error_code: None, ..refused(&[host("pypi.org"), host("pypi.org")]) };
    bench.finish_tool(bench.run_of("Bash").0, ToolOutcome { exit_code: Some(1), ..outcome });
    assert_eq!(bench.question().unwrap().needs, [host("pypi.org")]);
    bench.answer_question(yes());
    assert!(bench.running().is_empty());
    let result = bench.result_of_call();
    assert!(result.contains("not granted") && result.contains("to reach pypi.org"), "{result}");
    bench.say(vec![bash("2", "ls -l")]);
    assert_eq!(bench.run_of("Bash").2, [], "another call is granted nothing");
    bench.finish_tool(bench.run_of("Bash").0, ToolOutcome::ok(""));
    bench.say(vec![bash("3", "ls")]);
    assert_eq!(bench.run_of("Bash").2, [host("pypi.org")]);
    // What it needs besides is asked for, and added.
    bench.finish_tool(bench.run_of("Bash").0, refused(&[host("pypi.org"), host("files.example")]));
    assert_eq!(bench.question().unwrap().needs, [host("files.example")]);
    bench.answer_question(yes());
    bench.say(vec![bash("4", "ls")]);
    assert_eq!(bench.run_of("Bash").2, [host("files.example"), host("pypi.org")]);
    // It was allowed once: the same words may do something else the next time.
    bench.finish_tool(bench.run_of("Bash").0, ToolOutcome::ok(""));
    bench.say(vec![bash("5", "ls")]);
    assert_eq!(bench.run_of("Bash").2, []);
}

#[test]
fn a_host_that_was_not_allowed_leaves_the_result() {
    let mut bench = Bench::start(asking(&ALL));
    bench.say(vec![bash("1", "ls")]);
    bench.finish_tool(bench.run_of("Bash").0, refused(&[host("pypi.org")]));
    bench.answer_question(no());
    let result = bench.result_of_call();
    assert!(result.contains("not granted") && result.contains("[The user was asked"), "{result}");
    bench.say(vec![bash("2", "ls")]);
    bench.finish_tool(bench.run_of("Bash").0, refused(&[host("pypi.org")]));
    assert_eq!(bench.question(), None, "asked for before");
}

#[test]
fn a_question_that_was_lost_is_asked_again_as_it_was() {
    let mut bench = Bench::start(asking(&ALL));
    bench.say(vec![bash("1", "make")]);
    let first = bench.question().unwrap();
    let lost = bench.take(|effect| matches!(effect, Effect::AskUser { .. })).awaits_answer().unwrap();
    bench.clock += 100_000;
    let lost_work = Default::default();
    bench.give(Event::SessionResumed { changed_files: vec![], verify: None, limits: None, lost: lost_work });
    bench.give(Event::answered(lost, EffectAnswer::EffectLost));
    assert_eq!(bench.question().unwrap(), first, "the same digest and the same deadline");
    // The answer to the lost effect comes too late.
    let late = EffectAnswer::ApprovalAnswered { approval: yes() };
    assert!(bench.give(Event::answered(lost, late)).ignored);
    bench.answer_question(yes());
    bench.only("Bash");
    let mut folded = Session::new();
    bench.journal.iter().for_each(|stamped| drop(folded.apply(stamped)));
    assert_eq!(folded, bench.session);
}

#[test]
fn an_approved_call_that_was_lost_is_not_run_again() {
    let mut bench = Bench::start(asking(&ALL));
    bench.say(vec![bash("1", "make")]);
    bench.answer_question(yes());
    let lost = bench.run_of("Bash").0;
    bench.take(|effect| matches!(effect, Effect::RunTool { .. }));
    bench.give(Event::answered(lost, EffectAnswer::EffectLost));
    assert!(bench.running().is_empty() && bench.question().is_none());
    assert!(bench.result_of_call().contains("Outcome unknown"));
}

#[test]
fn a_question_waits_no_longer_than_the_run_may_take() {
    let mut setup = asking(&ALL);
    setup.limits.max_duration_ms = Some(60_000);
    let mut bench = Bench::start(setup);
    bench.say(vec![bash("1", "make")]);
    let until = bench.question().unwrap().until.0;
    assert!(until <= 1_010 + 60_000 && until > 50_000, "{until}");
    let mut setup = asking(&ALL);
    for agent in setup.agents.values_mut() {
        agent.permissions.ask_timeout = TimeSpan::from_ms(5_000);
    }
    let mut bench = Bench::start(setup);
    bench.say(vec![bash("1", "make")]);
    assert_eq!(bench.question().unwrap().until.0, bench.clock + 5_000);
}

#[test]
fn waiting_for_a_person_is_no_working_time() {
    let mut setup = asking(&ALL);
    setup.retry = Some(CallRetry { patience_ms: 60_000 });
    for agent in setup.agents.values_mut() {
        agent.config.limits.timeout = Some(1_000);
    }
    let mut bench = Bench::start(setup);
    bench.say(vec![bash("1", "make")]);
    bench.clock += 1_000;
    bench.fire(TimerPurpose::ExecutionDeadline);
    assert!(bench.question().is_some(), "the execution goes on");
    bench.answer_question(yes());
    bench.only("Bash");
}

#[test]
fn a_cancelled_run_takes_its_question_back() {
    let mut bench = Bench::start(asking(&ALL));
    bench.say(vec![bash("1", "make")]);
    bench.give(Event::CancelRequested { reason: "enough".to_owned() });
    assert!(bench.session.open_question().is_none());
    assert!(bench.open.is_empty(), "{:?}", bench.open);
}
