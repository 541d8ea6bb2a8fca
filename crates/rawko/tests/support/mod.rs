//! Sessions made up for tests and benchmarks: a driver in miniature that folds and journals as the real one does, with
//! answers out of a list instead of models and tools, and a clock of its own.

use std::collections::VecDeque;
use std::path::Path;

use rawko::journal::{FORMAT, JournalHeader, JournalWriter, StepRecord};
use rawko_core::Timestamp;
use rawko_core::message::{Content, Message, Role, StopReason, ToolCall};
use rawko_core::session::{Effect, EffectAnswer, EffectId, Event, Session, Stamped};
use rawko_core::setup::Setup;
use rawko_core::tool::ToolOutcome;
use rawko_core::usage::Usage;
use serde_json::{Value, json};

/// The instant at which made-up sessions begin.
pub(crate) const BEGUN: u64 = 1_750_000_000_000;

/// A setup with one agent that may take `turns` turns an execution.
pub(crate) fn setup(turns: u32) -> Setup {
    let model = json!({"provider": "claude", "model": "m", "maxTokens": 1000});
    let tool = |name: &str, access: &str| json!({"name": name, "description": name, "inputSchema": {"type": "object"}, "access": access});
    serde_json::from_value(json!({
        "agents": {"developer": {
            "source": "test", "model": model,
            "config": {"name": "developer", "systemPrompt": "You develop.", "limits": {"maxIterations": turns}},
        }},
        "arbiter": {"mode": "llm", "model": model, "templates": {
            "select": "Choose.<!-- volatile -->{task}", "evaluate": "Judge.<!-- volatile -->{task}",
        }},
        "limits": {"maxIterations": 1_000_000, "maxConsecutiveFailures": 3},
        "tools": [tool("Read", "read_only"), tool("Write", "mutating"), tool("Bash", "mutating"), tool("Report", "mutating")],
        "place": {"directory": "/p", "platform": "linux", "git": false},
    }))
    .unwrap()
}

/// The header of a made-up session.
pub(crate) fn header(session: &str) -> JournalHeader {
    serde_json::from_value(json!({
        "format": FORMAT, "rawko": "0.1.0", "session": session, "createdAt": BEGUN,
        "task": "do it", "configDigest": "d".repeat(64),
    }))
    .unwrap()
}

/// A session being made up.
pub(crate) struct Play {
    pub(crate) writer: JournalWriter,
    pub(crate) session: Session,
    at: u64,
    open: VecDeque<Effect>,
}

impl Play {
    /// Begins one in `directory`.
    pub(crate) fn begin(directory: &Path, setup: Setup) -> Self {
        let name = directory.file_name().unwrap().to_str().unwrap();
        let writer = JournalWriter::create(directory, &header(name)).unwrap();
        let mut play = Self { writer, session: Session::new(), at: BEGUN, open: VecDeque::new() };
        play.give(Event::TaskStarted { task: "do it".into(), setup: Box::new(setup), shared_events: 0 });
        play
    }

    /// Journals and folds what happened.
    pub(crate) fn give(&mut self, event: Event) {
        self.at += 1_000;
        let stamped = Stamped { at: Timestamp(self.at), event };
        self.writer.event(&stamped).unwrap();
        let reaction = self.session.apply(&stamped);
        assert!(!reaction.ignored, "{stamped:?}");
        let step = StepRecord::of(&reaction.effects, &reaction.notes);
        if !step.is_empty() {
            self.writer.step(&step).unwrap();
        }
        self.open.extend(reaction.effects.into_iter().filter(|effect| effect.awaits_answer().is_some()));
    }

    /// The oldest effect that waits for an answer.
    #[track_caller]
    pub(crate) fn open(&mut self) -> EffectId {
        self.open.pop_front().and_then(|effect| effect.awaits_answer()).expect("an effect is open")
    }

    /// The model that was asked says this, and calls these tools.
    #[track_caller]
    pub(crate) fn reply(&mut self, text: &str, calls: &[(&str, Value)]) {
        let effect = self.open();
        let mut content = vec![Content::text(text)];
        content.extend(calls.iter().enumerate().map(|(at, (name, input))| {
            let id = format!("call-{}-{at}", effect.0);
            Content::ToolUse(ToolCall {
                id,
                name: (*name).into(),
                input: input.clone(),
                invalid_input: None,
                withheld: None,
            })
        }));
        let stop_reason = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        let usage = Usage { input_tokens: 100, output_tokens: 20, ..Usage::default() };
        let message = Message { role: Role::Assistant, content };
        self.give(Event::Answered {
            effect,
            answer: EffectAnswer::ModelReplied {
                message,
                usage,
                stop_reason,
                duration_ms: 900,
                cached: false,
            },
        });
    }

    /// The tool that was called answers this.
    #[track_caller]
    pub(crate) fn answer(&mut self, content: &str) {
        let effect = self.open();
        let outcome = ToolOutcome { duration_ms: 3, ..ToolOutcome::ok(content) };
        self.give(Event::Answered { effect, answer: EffectAnswer::ToolFinished { outcome } });
    }

    /// The agent writes a file.
    #[track_caller]
    pub(crate) fn write(&mut self, path: &str) {
        self.reply("I write it.", &[("Write", json!({"file_path": path, "content": path}))]);
        let effect = self.open();
        let outcome = ToolOutcome { files_modified: vec![path.to_owned()], ..ToolOutcome::ok("Written.") };
        self.give(Event::Answered { effect, answer: EffectAnswer::ToolFinished { outcome } });
    }

    /// The agent runs a check.
    #[track_caller]
    pub(crate) fn check(&mut self, exit_code: i32, output: &str) {
        self.reply("I check it.", &[("Bash", json!({"command": "make test"}))]);
        let effect = self.open();
        let is_error = exit_code != 0;
        let outcome = ToolOutcome { exit_code: Some(exit_code), is_error, ..ToolOutcome::ok(output) };
        self.give(Event::Answered { effect, answer: EffectAnswer::ToolFinished { outcome } });
    }

    /// The arbiter that was asked decides this.
    #[track_caller]
    pub(crate) fn decide(&mut self, decision: Value) {
        self.reply(&decision.to_string(), &[]);
    }

    /// The agent says that its part is done.
    #[track_caller]
    pub(crate) fn report(&mut self, summary: &str) {
        self.reply("", &[("Report", json!({"outcome": "success", "summary": summary}))]);
    }
}

/// A word that no other number has: a session that reads the same again and again is ended.
fn word(mut number: u32) -> String {
    let mut word = String::new();
    while number > 0 {
        word.extend(char::from_digit(10 + number % 26, 36));
        number /= 26;
    }
    word
}

/// A session of so many executions of so many turns each, with answers of usual lengths. It ends complete.
pub(crate) fn long_session(directory: &Path, executions: u32, turns: u32) -> Play {
    let next = |number: u32| json!({"decision": "SELECT_MODE", "mode": "developer", "reason": word(number)});
    let mut play = Play::begin(directory, setup(turns + 1));
    play.decide(next(1));
    for execution in 1..=executions {
        if turns > 1 {
            // A check that gets better: without, a run is stopped in the end.
            play.check(1, &format!("FAILED {}", word(execution)));
            play.write(&format!("src/{}.rs", word(execution * turns)));
            play.check(0, "ok");
        }
        for turn in 4..turns {
            let name = word(execution * turns + turn);
            let path = format!("src/{name}.rs");
            play.reply(&"I look at the next file. ".repeat(10), &[("Read", json!({ "file_path": path }))]);
            play.answer(&format!("    let value = compute(\"{name}\", 42);\n").repeat(30));
        }
        play.report(&word(execution));
        if execution < executions {
            play.decide(next(execution + 1));
        }
    }
    play.decide(json!({"decision": "COMPLETE", "summary": "all done", "reason": "it works"}));
    play
}
