//! Where in an event secrets are looked for: in every text that comes from people, models, tools and servers. Structure
//! (kinds, numbers, opaque bytes of providers and pictures) is left alone.

use std::collections::BTreeMap;

use rawko_core::ErrorInfo;
use rawko_core::agent::OneOrMany;
use rawko_core::message::{Content, Message, ToolCall};
use rawko_core::session::{Event, KeptMemory, Override};
use rawko_core::setup::{AgentSetup, Setup, VerifySetup};
use rawko_core::tool::ToolOutcome;

use super::Redactor;

impl Redactor {
    /// Takes the secrets out of what happened.
    pub(crate) fn event(&self, event: &mut Event) {
        match event {
            Event::TaskStarted { task, setup } => {
                self.clean(task);
                self.setup(setup);
            }
            Event::ModelReplied {
                message,
                effect: _,
                usage: _,
                stop_reason: _,
                duration_ms: _,
                cached: _,
            } => {
                self.message(message);
            }
            Event::ModelFailed { error, effect: _, duration_ms: _, usage: _ } => self.error(error),
            Event::ToolFinished { outcome, effect: _ } => self.outcome(outcome),
            Event::CheckpointTaken { checkpoint, effect: _ } => self.clean(checkpoint),
            Event::CheckpointFailed { message, effect: _ } => self.clean(message),
            Event::MemoriesRecalled { recalled, effect: _ } => {
                self.clean(&mut recalled.block);
                self.clean_all(&mut recalled.problems);
                for memory in &mut recalled.memories {
                    self.clean_all([&mut memory.path, &mut memory.title]);
                    self.clean_all(&mut memory.files);
                }
            }
            Event::MemoryKept { kept, effect: _ } => match kept {
                KeptMemory::Written { path } | KeptMemory::NotedOn { path } => self.clean(path),
                KeptMemory::Refused { message } => self.clean(message),
            },
            Event::TreeInspected { inspection, effect: _ } => {
                self.clean_all(&mut inspection.execution.names);
                self.clean_all(&mut inspection.run.names);
            }
            Event::TreeInspectionFailed { message, effect: _ } => self.clean(message),
            Event::VerificationFinished { verification, effect: _ } => {
                for run in &mut verification.runs {
                    self.clean(&mut run.command);
                    self.clean(&mut run.output);
                }
            }
            Event::SessionResumed { changed_files, verify } => {
                self.clean_all(changed_files);
                self.verify(verify);
            }
            Event::OverrideRequested { command } => match command {
                Override::ForceAgent { agent } => self.clean(agent),
                Override::SkipStep | Override::Retry => {}
            },
            Event::CancelRequested { reason } => self.clean(reason),
            Event::AgentsReloaded { agents } => self.agents(agents),
            Event::TimerFired { effect: _ } | Event::EffectLost { effect: _ } => {}
        }
    }

    /// Takes the secrets out of what a run is made of.
    pub(crate) fn setup(&self, setup: &mut Setup) {
        self.agents(&mut setup.agents);
        self.clean_all([&mut setup.arbiter.templates.select, &mut setup.arbiter.templates.evaluate]);
        self.clean_fields(&mut setup.arbiter.model.extra);
        for choice in &mut setup.fallback {
            self.clean_fields(&mut choice.extra);
        }
        for tool in &mut setup.tools {
            self.clean(&mut tool.description);
        }
        self.verify(&mut setup.verify);
        if let Some(extract) = setup.memory.as_mut().and_then(|memory| memory.extract.as_mut()) {
            self.clean(&mut extract.prompt);
            self.clean_fields(&mut extract.model.extra);
        }
        let place = &mut setup.place;
        self.clean_all(place.instructions.iter_mut().chain(&mut place.instructions_from));
        self.clean_all(place.more_instructions.iter_mut().chain(&mut place.instruction_problems));
    }

    /// A command that holds a secret will fail without it, and show that. It would otherwise be kept for ever.
    fn verify(&self, verify: &mut Option<VerifySetup>) {
        if let Some(verify) = verify {
            self.clean_all(&mut verify.commands);
        }
    }

    fn agents(&self, agents: &mut BTreeMap<String, AgentSetup>) {
        for agent in agents.values_mut() {
            let config = &mut agent.config;
            self.clean(&mut config.system_prompt);
            self.clean_all(&mut config.display_name);
            match &mut config.when_to_use {
                OneOrMany::One(text) => self.clean(text),
                OneOrMany::Many(texts) => self.clean_all(texts),
            }
            self.clean_fields(&mut config.metadata);
            self.clean_fields(&mut agent.model.extra);
        }
    }

    fn message(&self, message: &mut Message) {
        for block in &mut message.content {
            match block {
                Content::Text { text } => self.clean(text),
                Content::Thinking { thinking, signature } => {
                    let clean = self.text(thinking);
                    if clean != *thinking {
                        *thinking = clean;
                        // The provider's proof is of other words now; without it the block is not sent back.
                        *signature = None;
                    }
                }
                Content::RedactedThinking { data: _ } => {}
                Content::ToolUse(ToolCall { id, name, input, invalid_input }) => {
                    self.clean_all([id, name]);
                    self.clean_value(input);
                    self.clean_all(invalid_input);
                }
                Content::ToolResult { tool_use_id, content, is_error: _, images: _ } => {
                    self.clean_all([tool_use_id, content]);
                }
            }
        }
    }

    fn outcome(&self, outcome: &mut ToolOutcome) {
        self.clean(&mut outcome.content);
        self.clean_all(&mut outcome.files_modified);
        self.clean_all(outcome.files_seen.iter_mut().map(|file| &mut file.path));
    }

    /// Takes the secrets out of what is said of a failure.
    pub(crate) fn error(&self, error: &mut ErrorInfo) {
        self.clean(&mut error.message);
        self.clean_all(&mut error.request_id);
        self.clean_all(&mut error.tool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rawko_core::session::{EffectId, Stamped};
    use rawko_core::{ErrorCode, Timestamp};
    use serde_json::{Value, json};

    const CANARY: &str = "sk-canary-1";

    /// An event with the canary in every text of it.
    #[track_caller]
    fn check(event: Value) -> Event {
        let mut stamped = event;
        stamped["at"] = json!(7);
        let mut stamped: Stamped = serde_json::from_value(stamped).unwrap();
        assert!(serde_json::to_string(&stamped).unwrap().contains(CANARY));
        Redactor::new([CANARY.to_owned()], []).event(&mut stamped.event);
        let written = serde_json::to_string(&stamped).unwrap();
        assert!(!written.contains(CANARY), "{written}");
        assert!(written.contains("[redacted]"), "{written}");
        assert_eq!(stamped.at, Timestamp(7));
        stamped.event
    }

    #[test]
    fn no_text_of_an_event_keeps_a_secret() {
        let said = |content: Value| {
            json!({"type": "ModelReplied", "effect": 3, "usage": {}, "stopReason": "end_turn", "durationMs": 1,
                "message": {"role": "assistant", "content": [content]}})
        };
        check(said(json!({"type": "text", "text": format!("it is {CANARY}")})));
        check(said(json!({"type": "tool_use", "id": "a", "name": "Bash",
            "input": {"command": format!("curl -H 'x-api-key: {CANARY}'"), CANARY: [CANARY]}})));
        check(said(json!({"type": "tool_use", "id": CANARY, "name": CANARY, "input": {},
            "invalidInput": format!("{{\"a\": \"{CANARY}")})));
        let thought = check(said(json!({"type": "thinking", "thinking": CANARY, "signature": "proof"})));
        let Event::ModelReplied { message, .. } = thought else { panic!("it is a reply") };
        assert!(matches!(&message.content[0], Content::Thinking { signature: None, .. }));

        check(json!({"type": "ToolFinished", "effect": 3, "outcome": {"content": CANARY, "isError": false,
            "filesModified": [CANARY], "filesSeen": [{"path": CANARY, "digest": ""}], "durationMs": 1}}));
        check(json!({"type": "ModelFailed", "effect": 3, "durationMs": 1, "error": {
            "code": "authentication_failed", "message": format!("bad key {CANARY}"), "requestId": CANARY, "tool": CANARY}}));
        check(json!({"type": "CheckpointTaken", "effect": 3, "checkpoint": CANARY}));
        check(json!({"type": "CheckpointFailed", "effect": 3, "message": CANARY}));
        check(json!({"type": "TreeInspectionFailed", "effect": 3, "message": CANARY}));
        let figures =
            json!({"files": 1, "insertions": 1, "deletions": 0, "names": [format!("{CANARY} +1 -0")]});
        check(
            json!({"type": "TreeInspected", "effect": 3, "inspection": {"tree": "t", "execution": figures, "run": figures}}),
        );
        check(json!({"type": "VerificationFinished", "effect": 3, "verification": {
            "runs": [{"command": format!("curl -u {CANARY}"), "exitCode": 1, "output": CANARY, "durationMs": 1}]}}));
        check(json!({"type": "SessionResumed", "changedFiles": [CANARY],
            "verify": {"commands": [CANARY], "timeoutMs": 1}}));
        check(json!({"type": "CancelRequested", "reason": CANARY}));
        let recalled = json!({"path": CANARY, "title": CANARY, "score": 1.0, "files": [CANARY]});
        check(json!({"type": "MemoriesRecalled", "effect": 3,
            "recalled": {"block": CANARY, "memories": [recalled], "problems": [CANARY]}}));
        for kept in [json!({"as": "written", "path": CANARY}), json!({"as": "refused", "message": CANARY})] {
            check(json!({"type": "MemoryKept", "effect": 3, "kept": kept}));
        }
        check(json!({"type": "OverrideRequested", "command": {"type": "force_agent", "agent": CANARY}}));
        let choice =
            json!({"provider": "p", "model": "m", "maxTokens": 1, "extra": {"metadata": {"k": CANARY}}});
        let agents = json!({"a": {"source": "s", "model": choice, "config": {"name": "a", "displayName": CANARY,
            "whenToUse": [CANARY], "systemPrompt": CANARY, "metadata": {"tags": [CANARY]}}}});
        check(json!({"type": "AgentsReloaded", "agents": agents}));
        check(json!({"type": "TaskStarted", "task": CANARY, "setup": {
            "agents": agents, "fallback": [choice], "limits": {"maxIterations": 1, "maxConsecutiveFailures": 1},
            "arbiter": {"mode": "llm", "model": choice, "templates": {"select": CANARY, "evaluate": CANARY}},
            "verify": {"commands": [CANARY], "timeoutMs": 1},
            "memory": {"inject": true, "extract": {"model": choice, "prompt": CANARY, "maxTokens": 1}},
            "tools": [{"name": "T", "description": CANARY, "inputSchema": {}, "access": "read_only"}],
            "place": {"directory": "/p", "platform": "linux", "git": false}}}));
    }

    #[test]
    fn structure_is_left_alone_whatever_the_secrets_are() {
        // Words of the format itself, as somebody's passwords.
        let words = ["assistant", "ModelReplied", "end_turn", "tool_use", "max_tokens"];
        let redactor = Redactor::new(words.map(str::to_owned), []);
        let error = ErrorInfo::new(ErrorCode::Timeout, "late");
        let mut event = Event::ModelFailed { effect: EffectId(1), error, duration_ms: 5, usage: None };
        let before = event.clone();
        redactor.event(&mut event);
        assert_eq!(event, before);
        let mut message = Message::assistant("fine");
        redactor.message(&mut message);
        assert_eq!(message, Message::assistant("fine"));
    }
}
