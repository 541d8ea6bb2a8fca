//! The view at each width, and what a recorded run leaves on a terminal.

use std::sync::{Arc, Mutex};

use rawko::{Override, RunEvent};
use rawko_core::Timestamp;
use rawko_core::session::Note;
use serde_json::{Value, json};

use super::super::recorded_tests::{clock, events};
use super::area::Size;
use super::*;

/// The widths at which the view is looked at.
const WIDTHS: [usize; 5] = [40, 80, 100, 120, 200];

fn event(value: Value) -> RunEvent {
    serde_json::from_value(value).expect("an event")
}

/// A view without a terminal, at a time of its own.
struct Bench {
    model: Model,
    control: KeyboardControl,
    now: Timestamp,
    /// Whether the terminal is asked for the answer to the open question.
    asked: bool,
}

impl Bench {
    fn new() -> Self {
        let now = clock().now();
        let mut control = KeyboardControl::default();
        control.active = true;
        let mut bench = Self { model: Model::new(clock(), now), control, now, asked: false };
        let task = "Let the parser accept leap seconds";
        bench.takes(json!({"type": "session_started", "session": "s", "task": task, "at": now, "journal": "/p/j",
            "agents": ["developer", "planner", "reviewer"], "resumed": false, "degraded": [],
            "limits": {"maxIterations": 50, "maxConsecutiveFailures": 3, "maxCostUsd": 10.0, "maxTokens": 500_000,
                "maxDurationMs": 14_400_000}}));
        bench
    }

    fn takes(&mut self, value: Value) -> Vec<StyledLine> {
        self.model.take(&event(value), self.now)
    }

    fn begins(&mut self, id: &str) {
        self.takes(json!({"type": "tool_begun", "agent": "developer", "callId": id, "tool": "t"}));
    }

    fn after(&mut self, ms: u64) -> &mut Self {
        self.now = Timestamp(self.now.0 + ms);
        self.control.pass(&self.model, self.asked, self.now);
        self
    }

    fn typed(&mut self, text: &str) -> Vec<UserAction> {
        let mut reader = KeyReader::default();
        let mut keys = reader.keys(text.as_bytes());
        keys.extend(reader.pause());
        keys.iter().filter_map(|key| self.control.key(key, &self.model, self.now)).collect()
    }

    /// What the menu has.
    fn actions(&mut self) -> Vec<SteerRequest> {
        let mut actions = Vec::new();
        for place in 0.. {
            assert_eq!(self.typed("\x1b"), []);
            let chosen = self.typed(&("\x1b[B".repeat(place) + "\n"));
            let [UserAction::Steer(action)] = chosen.as_slice() else { panic!("{chosen:?}") };
            if actions.last() == Some(action) {
                break;
            }
            actions.push(action.clone());
        }
        actions
    }

    /// The developer asks for a call.
    fn asks(&mut self, digest: &str) {
        let until = Timestamp(self.now.0 + 600_000);
        self.takes(
            json!({"type": "approval_requested", "digest": digest, "agent": "developer", "needs": [], "why": "w",
            "until": until, "call": {"id": "x", "name": "Bash", "input": {"command": "curl example.com"}}}),
        );
    }

    fn is_answered(&mut self, digest: &str) {
        self.takes(
            json!({"type": "approval_answered", "agent": "developer", "callId": "x", "digest": digest,
            "answer": "expired"}),
        );
    }

    /// A developer with a plan in the midst of its calls.
    fn at_work() -> Self {
        let mut bench = Self::new();
        let reason = "the plan stands, and its first step is a change of the code that parses dates";
        bench.takes(
            json!({"type": "decision_made", "point": "select", "source": "llm", "latencyMs": 1, "usage": {},
            "decision": {"type": "SELECT_MODE", "mode": "developer", "reason": reason}}),
        );
        bench.takes(json!({"type": "state_changed", "from": "selecting", "to": "executing", "iteration": 2}));
        bench.takes(
            json!({"type": "agent_started", "agent": "developer", "iteration": 2, "continued": false}),
        );
        bench.takes(json!({"type": "plan_updated", "agent": "planner", "plan": {"currentStepIndex": 1, "isComplete": false,
            "steps": [
                {"index": 1, "description": "Find where seconds are checked", "status": "complete"},
                {"index": 2, "description": "Let the parser accept 23:59:60, and only where a leap second can be", "status": "in_progress"},
                {"index": 3, "description": "Cover it by tests", "status": "pending"}]}}));
        let text = "I found **two** places:\n\n1. `parse_seconds` rejects 60\n2. the table of leap seconds is out of \
                    date, so that the last of them is not known\n\n```rust\nif seconds > 59 {\n```\n\nBoth have to be changed.";
        bench.after(4_000).takes(json!({"type": "text_delta", "agent": "developer", "text": text}));
        let usage = json!({"inputTokens": 41_000, "outputTokens": 2_300, "cacheReadTokens": 0, "cacheWriteTokens": 0});
        bench.takes(
            json!({"type": "tokens_used", "effect": 4, "agent": "developer", "usage": usage, "total": usage,
            "costUsd": 0.4213}),
        );
        for (id, name, input) in [
            ("a", "Read", json!({"file_path": "src/date/parse.rs"})),
            (
                "b",
                "Bash",
                json!({"command": "cargo test --package dates --test leap_seconds -- --nocapture"}),
            ),
            ("c", "Grep", json!({"pattern": "leap", "path": "src"})),
        ] {
            bench.takes(json!({"type": "tool_called", "agent": "developer", "allowed": true, "rule": "r",
                "call": {"id": id, "name": name, "input": input}}));
            bench.begins(id);
        }
        bench.takes(json!({"type": "tool_finished", "agent": "developer", "callId": "a", "tool": "Read",
            "outcome": {"content": "1\n2\n3", "durationMs": 3}}));
        bench
            .after(62_000)
            .takes(json!({"type": "tool_finished", "agent": "developer", "callId": "c", "tool": "Grep",
            "outcome": {"content": "no", "isError": true, "durationMs": 1_200}}));
        bench
    }

    fn frame(&self, columns: usize, rows: usize) -> Frame {
        layout::frame(&self.model, &self.control, Size { columns, rows }, self.now)
    }

    /// The view at each width.
    fn shown(&self) -> String {
        let mut shown = String::new();
        for columns in WIDTHS {
            shown.push_str(&format!("--- {columns} columns\n"));
            let frame = self.frame(columns, 40);
            for line in &frame.lines {
                assert!(line.width() < columns, "{line:?}");
                shown.push_str(line.text().trim_end());
                shown.push('\n');
            }
            if let Some((row, column)) = frame.cursor {
                shown.push_str(&format!("cursor in line {row}, column {column}\n"));
            }
        }
        shown
    }
}

#[test]
fn calls_of_a_turn_stand_side_by_side() {
    insta::assert_snapshot!(Bench::at_work().shown());
}

#[test]
fn what_was_under_way_is_shown_after_a_resume_with_its_limits() {
    let mut bench = Bench::at_work();
    let before = bench.frame(80, 40);
    // No process carried the run for an hour.
    bench.after(3_600_000);
    let usage =
        json!({"inputTokens": 41_000, "outputTokens": 2_300, "cacheReadTokens": 0, "cacheWriteTokens": 0});
    let left = bench.takes(json!({"type": "session_started", "session": "s", "task": "t", "at": bench.now, "journal": "/p/j",
        "agents": ["developer", "planner", "reviewer"], "resumed": true, "degraded": [],
        "limits": {"maxIterations": 50, "maxConsecutiveFailures": 3, "maxCostUsd": 10.0, "maxTokens": 500_000,
            "maxDurationMs": 14_400_000},
        "soFar": {"earlierIterations": 0, "iterations": 2, "usage": usage, "costUsd": 0.4213, "elapsedMs": 66_000}}));
    assert!(left.is_empty(), "{left:?}");
    let text = |frame: &Frame| frame.lines.iter().map(StyledLine::text).collect::<Vec<_>>().join("\n");
    assert_eq!(text(&bench.frame(80, 40)), text(&before));
    assert!(text(&before).contains("1 m 06 s of 4 h"), "{}", text(&before));
}

#[test]
fn the_next_task_begins_anew_and_its_executions_are_counted_alone() {
    let mut bench = Bench::at_work();
    bench.takes(
        json!({"type": "session_started", "session": "s", "task": "t", "at": bench.now, "journal": "/p/j",
        "agents": ["developer"], "resumed": true, "continued": true, "degraded": [],
        "limits": {"maxIterations": 5, "maxConsecutiveFailures": 3}, "soFar":
            {"earlierIterations": 2, "iterations": 0, "usage": {}, "costUsd": 0.0, "elapsedMs": 0}}),
    );
    bench.takes(json!({"type": "agent_started", "agent": "developer", "iteration": 3, "continued": false}));
    let shown: Vec<String> = bench.frame(80, 40).lines.iter().map(StyledLine::text).collect();
    let shown = shown.join("\n");
    assert!(shown.contains("iteration 1 of 5") && !shown.contains("plan"), "{shown}");
}

#[test]
fn what_a_fork_shares_counts_towards_its_limits() {
    let mut bench = Bench::new();
    let usage =
        json!({"inputTokens": 40_000, "outputTokens": 0, "cacheReadTokens": 0, "cacheWriteTokens": 0});
    bench.takes(
        json!({"type": "session_started", "session": "s", "task": "t", "at": bench.now, "journal": "/p/j",
        "agents": ["developer"], "resumed": true, "degraded": [], "forkedFrom": {"session": "o", "record": 9},
        "limits": {"maxIterations": 5, "maxConsecutiveFailures": 3, "maxTokens": 100_000, "maxCostUsd": 1.0},
        "soFar": {"earlierIterations": 0, "iterations": 2, "usage": {}, "costUsd": 0.0, "elapsedMs": 60_000,
            "shared": {"iterations": 1, "usage": usage, "costUsd": 0.5}}}),
    );
    let shown: Vec<String> = bench.frame(80, 40).lines.iter().map(StyledLine::text).collect();
    let shown = shown.join("\n");
    for part in ["40.0k of 100.0k tokens", "$0.5000 of $1.00", "iteration 2 of 5", "1 m 00 s"] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
}

#[test]
fn only_a_call_that_runs_counts_on() {
    let mut bench = Bench::at_work();
    let call = |id: &str| {
        json!({"type": "tool_called", "agent": "developer", "allowed": true, "rule": "r",
        "call": {"id": id, "name": "Write", "input": {"file_path": format!("{id}.txt")}}})
    };
    bench.takes(call("d"));
    let line = |bench: &Bench, part: &str| {
        let frame = bench.frame(80, 40);
        let line = frame.lines.iter().map(StyledLine::text).find(|line| line.contains(part));
        line.unwrap_or_else(|| panic!("{part} is missing in {frame:?}"))
    };
    // It waits for the command before it.
    assert!(line(bench.after(5_000), "d.txt").trim_end().ends_with("waits"));
    assert!(line(&bench, "●").contains("running Bash"));
    bench.begins("d");
    bench.after(2_000);
    assert!(line(&bench, "d.txt").trim_end().ends_with("2 s"));
    // It ends in a pause, and its result follows later.
    bench.takes(json!({"type": "run_paused"}));
    bench.takes(json!({"type": "tool_ended", "agent": "developer", "callId": "d", "tool": "Write",
        "outcome": {"content": "ok", "durationMs": 2_000}}));
    let ended = line(&bench, "d.txt");
    assert!(ended.contains("✓ Write d.txt"), "{ended}");
    assert_eq!(line(bench.after(60_000), "d.txt"), ended);
    bench.takes(json!({"type": "tool_finished", "agent": "developer", "callId": "d", "tool": "Write",
        "outcome": {"content": "ok", "durationMs": 2_000}}));
    assert_eq!(line(&bench, "d.txt"), ended);
}

#[test]
fn a_server_asks_for_a_line() {
    let mut bench = Bench::at_work();
    bench.control.ask_for_line(Some("color: ".to_owned()));
    assert_eq!(bench.typed("pq"), []);
    bench.control.ask_for_line(Some("color: ".to_owned()));
    let frame = bench.frame(80, 40);
    let row = frame.cursor.unwrap().0;
    assert_eq!(frame.lines[row].text(), "  color: pq");
    assert_eq!(bench.typed("\n"), [UserAction::Line(Some("pq".to_owned()))]);
    bench.control.ask_for_line(Some("color: ".to_owned()));
    assert_eq!(bench.typed("\x1b"), [UserAction::Line(None)]);
    bench.control.ask_for_line(None);
    assert_eq!(bench.typed("p\n"), [said("p")]);
    // A message that was begun before is not for the server.
    bench.typed("run the li");
    bench.control.ask_for_line(Some("color: ".to_owned()));
    assert_eq!(bench.typed("nter too\n"), [said("run the linter too")]);
    assert_eq!(bench.typed("red\n"), [UserAction::Line(Some("red".to_owned()))]);
}

#[test]
fn text_is_shown_as_it_streams() {
    let mut bench = Bench::at_work();
    bench.takes(json!({"type": "tool_finished", "agent": "developer", "callId": "b", "tool": "Bash",
        "outcome": {"content": "ok", "exitCode": 0, "durationMs": 62_000}}));
    let text = "# What is left\n\nThe tests pass. *One* thing is left, and that is to say in the documentation which \
                leap seconds are known, because the table ends at some";
    bench.after(3_000).takes(json!({"type": "text_delta", "agent": "developer", "text": text}));
    insta::assert_snapshot!(bench.shown());
}

#[test]
fn a_wait_says_when_it_ends() {
    let mut bench = Bench::at_work();
    let until = Timestamp(bench.now.0 + 600_000);
    bench.takes(json!({"type": "waiting", "reason": "rate_limited", "message": "slow\n\u{1b}[2Jdown", "provider": "claude",
        "until": until.to_rfc3339(), "afterMs": 600_000, "attempt": 2}));
    insta::assert_snapshot!(bench.after(118_000).shown());
    // Its end has come, and nothing has happened yet.
    let over = bench.after(600_000).frame(80, 40);
    assert!(!over.lines[0].text().contains("waiting"), "{over:?}");
}

#[test]
fn a_question_waits_for_a_typed_answer() {
    let mut bench = Bench::at_work();
    bench.asks("d");
    bench.asked = true;
    assert_eq!(bench.typed("y\n"), [said("y")], "the question was not shown yet");
    bench.after(0);
    assert_eq!(bench.typed("qs"), []);
    insta::assert_snapshot!(bench.shown());
    assert_eq!(bench.typed("\x1by\n"), [], "Alt with a key is none");
    assert_eq!(bench.typed("\x1b\x1b"), [], "neither");
    bench.typed("\x1b");
    assert_eq!(bench.typed("yes\n"), [UserAction::Answer(true)]);
    assert_eq!(bench.typed("\n"), [UserAction::Answer(false)]);
    assert_eq!(bench.typed("No\n"), [UserAction::Answer(false)]);
    bench.typed("ye");
    bench.is_answered("d");
    bench.after(1);
    assert_eq!(bench.typed("s\n"), [said("s")], "what was typed for it is gone with it");
}

#[test]
fn a_question_under_the_fingers_is_not_answered_by_a_message() {
    // A message that was begun before it.
    let mut bench = Bench::at_work();
    bench.asked = true;
    bench.typed("y");
    bench.asks("d");
    bench.after(0);
    assert_eq!(bench.typed("es\n"), [said("yes")]);
    // One that is begun while it is there asks once more.
    assert_eq!(bench.typed("yes please\n"), []);
    let shown: Vec<String> = bench.frame(100, 40).lines.iter().map(StyledLine::text).collect();
    let shown = shown.join("\n");
    assert!(
        shown.contains("neither yes nor no") && shown.contains("Say to the agent: yes please"),
        "{shown}"
    );
    assert_eq!(bench.typed("\n"), [said("yes please")]);
    // What is pasted is a message too.
    assert_eq!(bench.typed("\x1b[200~y\n\x1b[201~"), []);
    assert_eq!(bench.typed("\n"), [said("y")]);
    // An answer that was begun is not for the next question.
    assert_eq!(bench.typed("y"), []);
    bench.is_answered("d");
    bench.asks("e");
    assert_eq!(bench.typed("\n\x1b"), [], "that one was not shown yet");
    bench.after(0);
    assert_eq!(bench.typed("\n"), [UserAction::Answer(false)]);
    // Actions are there as always.
    assert_eq!(bench.typed("\x1b[F\x1b"), []);
    assert_eq!(bench.typed("\x1b[F\n"), [UserAction::Steer(SteerRequest::Cancel)]);
}

#[test]
fn a_pause_and_the_verification_are_shown() {
    let mut bench = Bench::at_work();
    bench.takes(json!({"type": "run_paused"}));
    let paused = bench.after(5_000).shown();
    assert_eq!(bench.actions()[0], SteerRequest::Override(Override::Go));
    bench.takes(json!({"type": "run_unpaused", "afterMs": 5_000}));
    assert_eq!(bench.actions()[0], SteerRequest::Override(Override::Pause));
    bench.takes(json!({"type": "state_changed", "from": "executing", "to": "evaluating", "iteration": 2}));
    let judging = bench.after(1_000).shown();
    bench.takes(json!({"type": "verification_started", "commands": ["cargo test", "npm\u{1b}[2J test"]}));
    insta::assert_snapshot!(format!("{paused}\n{judging}\n{}", bench.after(12_000).shown()));
}

#[test]
fn the_menu_has_every_action() {
    let mut bench = Bench::at_work();
    let force = |agent: &str| SteerRequest::Override(Override::ForceAgent { agent: agent.to_owned() });
    assert_eq!(
        bench.actions(),
        [
            SteerRequest::Override(Override::Pause),
            SteerRequest::Override(Override::SkipStep),
            SteerRequest::Override(Override::Retry),
            force("developer"),
            force("planner"),
            force("reviewer"),
            SteerRequest::Override(Override::Reset),
            SteerRequest::Cancel
        ]
    );
    bench.typed("\x1b");
    bench.typed("\x1b[B\x1b[B\x1b[B\x1b[B");
    let choosing = bench.shown();
    assert_eq!(bench.typed("\x1b"), []);
    let rest = bench.shown();
    bench.typed("the last leap second was in 2016, see https://example.com/leap-seconds");
    insta::assert_snapshot!(format!("{rest}\n{choosing}\n{}", bench.shown()));
}

fn said(text: &str) -> UserAction {
    UserAction::Steer(SteerRequest::Override(Override::Say { text: text.to_owned() }))
}

/// Whatever the run does, and whether the menu is open.
#[test]
fn text_is_said_and_never_an_action() {
    let wait = |bench: &mut Bench| {
        let until = Timestamp(bench.now.0 + 600_000);
        bench.takes(
            json!({"type": "waiting", "reason": "overloaded", "message": "down", "provider": "claude",
            "until": until.to_rfc3339(), "afterMs": 600_000, "attempt": 2}),
        );
    };
    let situations: [&dyn Fn(&mut Bench); 5] = [
        &|_| {},
        &|bench| drop(bench.takes(json!({"type": "run_paused"}))),
        &wait,
        &|bench| drop(bench.typed("\x1b")),
        &|bench| bench.asks("d"),
    ];
    for prepare in situations {
        for text in [
            "run the linter too",
            "quickly please",
            "p",
            "q",
            "s",
            "r",
            "?",
            "m",
            "f3",
            "y",
            "1",
            "é",
            "日本",
        ] {
            let mut bench = Bench::at_work();
            prepare(&mut bench);
            bench.after(0);
            assert_eq!(bench.typed(&format!("{text}\n")), [said(text)]);
        }
    }
    let mut bench = Bench::at_work();
    assert_eq!(bench.typed("msay q\x7f it\n"), [said("msay  it")]);
    assert_eq!(bench.typed("\n \n"), [], "nothing was said");
    assert_eq!(bench.typed("q\x1b"), [], "Esc leaves");
    assert_eq!(bench.typed("\x1b[A\x1b[C\x1b[H\x1b[3~\x7f\t\x10\x12\x18\x1bq"), [], "these do nothing");
    // Without the marks of a paste, as in an old terminal.
    assert_eq!(bench.typed("quickly\r\tretry it\r"), [said("quickly"), said("retry it")]);
}

#[test]
fn a_paste_is_never_taken_for_keys() {
    for before in ["", "\x1b"] {
        let mut bench = Bench::at_work();
        bench.typed(before);
        assert_eq!(bench.typed("\x1b[200~q\nsrq\x1b[201~"), []);
        assert_eq!(bench.typed("\n"), [said("q srq")]);
    }
}

#[test]
fn a_view_is_never_higher_or_wider_than_its_terminal() {
    let mut bench = Bench::at_work();
    for typed in ["", "\x1b", "something to say that is long enough for more than a line or two"] {
        bench.typed(typed);
        for columns in 1..130 {
            for rows in 2..50 {
                let frame = bench.frame(columns, rows);
                assert!(frame.lines.len() < rows, "{} lines in {columns} by {rows}", frame.lines.len());
                assert!(frame.lines.iter().all(|line| line.width() < columns.max(2)), "{frame:?}");
                assert!(frame.cursor.is_none_or(|(row, _)| row < frame.lines.len()), "{frame:?}");
            }
        }
    }
}

/// What a terminal of 60 columns shows when all of these events have come, with what has scrolled away.
fn on_a_terminal(events: &[RunEvent], verbosity: Verbosity) -> String {
    let mut out = Vec::new();
    let size = Box::new(|| Size { columns: 60, rows: 24 });
    let keyboard = Keyboard::default();
    let mut view = TerminalView::new(&mut out, Paint::new(true), verbosity, clock(), size, keyboard, None);
    for event in events {
        view.event(event).unwrap();
        view.tick().unwrap();
    }
    view.close().unwrap();
    drop(view);
    let mut terminal = area::terminal(500, 60, 0);
    terminal.process(&out);
    assert!(!terminal.screen().hide_cursor());
    terminal.screen().contents()
}

#[test]
fn what_stays_on_a_terminal() {
    for verbosity in [Verbosity::Normal, Verbosity::Verbose] {
        let shown = on_a_terminal(&events(), verbosity);
        // Our own sequences were understood; nothing of anybody else's was left.
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
        insta::assert_snapshot!(format!("terminal_{verbosity:?}"), shown);
    }
}

#[test]
fn nothing_is_drawn_while_nothing_changes() {
    let mut out = Vec::new();
    let size = Box::new(|| Size { columns: 80, rows: 24 });
    let keyboard = Keyboard::default();
    let mut view =
        TerminalView::new(&mut out, Paint::new(true), Verbosity::Normal, clock(), size, keyboard, None);
    let started =
        events().into_iter().take_while(|event| !matches!(event, RunEvent::Note(Note::ToolCalled { .. })));
    for event in started {
        view.event(&event).unwrap();
    }
    view.tick().unwrap();
    // Frames are between the marks of synchronized output.
    let frames = |out: &[u8]| String::from_utf8_lossy(out).matches("?2026h").count();
    let drawn = frames(view.area.written());
    for _ in 0..50 {
        view.tick().unwrap();
    }
    assert_eq!(frames(view.area.written()), drawn);
}

#[test]
fn a_resized_window_is_drawn_anew() {
    let columns = Arc::new(Mutex::new(80));
    let measured = Arc::clone(&columns);
    let mut out = Vec::new();
    let size = Box::new(move || Size { columns: *measured.lock().unwrap(), rows: 24 });
    let keyboard = Keyboard::default();
    let mut view =
        TerminalView::new(&mut out, Paint::new(false), Verbosity::Normal, clock(), size, keyboard, None);
    for event in events().into_iter().take(7) {
        view.event(&event).unwrap();
    }
    view.tick().unwrap();
    let before = view.area.written().len();
    *columns.lock().unwrap() = 40;
    view.tick().unwrap();
    assert!(view.area.written().len() > before);
}

#[test]
fn a_panic_leaves_a_clean_terminal() {
    let mut out = Vec::new();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let size = Box::new(|| Size { columns: 60, rows: 24 });
        let keyboard = Keyboard::default();
        let mut view =
            TerminalView::new(&mut out, Paint::new(true), Verbosity::Normal, clock(), size, keyboard, None);
        for event in events().into_iter().take(9) {
            view.event(&event).unwrap();
        }
        view.tick().unwrap();
        assert!(String::from_utf8_lossy(view.area.written()).contains("iteration"));
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    let mut terminal = area::terminal(24, 60, 0);
    terminal.process(&out);
    let shown = terminal.screen().contents();
    assert!(shown.contains("fix the bug") && !shown.contains("iteration"), "{shown}");
    assert!(!terminal.screen().hide_cursor());
}

#[test]
fn fifty_turns_leave_a_handful_of_lines() {
    let mut bench = Bench::at_work();
    for turn in 0..50 {
        let usage =
            json!({"inputTokens": 10, "outputTokens": 1, "cacheReadTokens": 0, "cacheWriteTokens": 0});
        bench.takes(json!({"type": "tokens_used", "effect": turn, "agent": "developer", "usage": usage,
            "total": {"inputTokens": 50_000, "outputTokens": 1, "cacheReadTokens": 0, "cacheWriteTokens": 0}, "costUsd": 0.5}));
        bench.takes(
            json!({"type": "tool_called", "agent": "developer", "allowed": turn % 10 > 0, "rule": "r",
            "call": {"id": turn.to_string(), "name": "Bash", "input": {"command": "true"}}}),
        );
        bench.takes(json!({"type": "tool_finished", "agent": "developer", "callId": turn.to_string(), "tool": "Bash",
            "outcome": {"content": "x", "exitCode": turn % 2, "filesModified": [format!("f{turn}")], "durationMs": 1}}));
    }
    let summary = "It **works**.\n\n- one\n- two\n- three\n- four";
    bench.takes(json!({"type": "tool_called", "agent": "developer", "allowed": true, "rule": "r",
        "call": {"id": "r", "name": "Report", "input": {"outcome": "success", "summary": summary}}}));
    let left = bench
        .takes(json!({"type": "state_changed", "from": "executing", "to": "evaluating", "iteration": 2}));
    let shown: Vec<String> = left.iter().map(StyledLine::text).collect();
    insta::assert_snapshot!(shown.join("\n"));
}
