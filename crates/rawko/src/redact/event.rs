//! What comes in: secrets are taken out of every text of an event that people, models, tools and servers wrote.
//!
//! Structure is left alone: kinds, numbers, ids, opaque bytes of providers and pictures. Paths that name a file to rawko
//! are left out where they hold a secret, never rewritten. Instructions are left alone too: the setup of a run and the
//! verification commands were checked before they got here, and a call that held a secret is marked, so that the core
//! refuses it.

use rawko_core::ErrorInfo;
use rawko_core::agent::outside::OutsideEnd;
use rawko_core::facts::Verification;
use rawko_core::hook::HookReply;
use rawko_core::hosted::HostedBlock;
use rawko_core::message::{Content, Message, ToolCall};
use rawko_core::session::{EffectAnswer, EffectId, Event, KeptMemory, Landing, Lost, Override};
use rawko_core::setup::Setup;
use rawko_core::tool::ToolOutcome;

use super::Redactor;

impl Redactor {
    /// Takes the secrets out of what happened.
    pub(crate) fn event(&self, event: &mut Event) {
        match event {
            Event::TaskStarted { task, setup, shared_events: _ } => {
                self.clean(task);
                self.instructions(setup);
            }
            Event::TaskContinued { task, setup, changed_files, lost, ended } => {
                self.clean(task);
                self.instructions(setup);
                self.keep_clean(changed_files);
                self.lost(lost);
                self.clean_all(ended.iter_mut().map(|ended| &mut ended.task));
            }
            Event::TaskTakenUp { limits: _, changed_files, verify: _, lost } => {
                self.keep_clean(changed_files);
                self.lost(lost);
            }
            Event::Answered {
                effect,
                answer:
                    EffectAnswer::ModelReplied { message, usage: _, stop_reason: _, duration_ms: _, cached: _ },
            } => {
                self.message(*effect, message);
            }
            Event::Answered {
                effect: _,
                answer: EffectAnswer::ModelFailed { error, duration_ms: _, usage: _ },
            } => self.error(error),
            Event::Answered { effect: _, answer: EffectAnswer::ToolFinished { outcome } } => {
                self.outcome(outcome);
            }
            Event::Answered { effect: _, answer: EffectAnswer::OutsideAgentEnded { work } } => {
                self.mask(&mut work.text);
                self.clean_all(work.asked.iter_mut().map(|asked| &mut asked.title));
                if let OutsideEnd::Failed { error } = &mut work.end {
                    self.error(error);
                }
            }
            Event::Answered { effect: _, answer: EffectAnswer::CheckpointFailed { message } } => {
                self.clean(message);
            }
            Event::Answered { effect: _, answer: EffectAnswer::MemoriesRecalled { recalled } } => {
                self.mask(&mut recalled.block);
                self.clean_all(&mut recalled.problems);
                recalled.memories.retain(|memory| self.found_in(&memory.path).is_none());
                for memory in &mut recalled.memories {
                    self.clean(&mut memory.title);
                    self.keep_clean(&mut memory.files);
                }
            }
            Event::Answered { effect: _, answer: EffectAnswer::MemoryKept { kept } } => match kept {
                // These are shown to people, and lead to no file.
                KeptMemory::Written { path } | KeptMemory::NotedOn { path } => self.clean(path),
                KeptMemory::Refused { message } => self.clean(message),
            },
            Event::Answered { effect: _, answer: EffectAnswer::TreeInspected { inspection } }
            | Event::FinalTreeInspected { inspection } => {
                // Lines for people: a path with its figures.
                self.clean_all(&mut inspection.execution.names);
                self.clean_all(&mut inspection.run.names);
                self.keep_clean(&mut inspection.files);
                self.keep_clean(&mut inspection.execution_files);
                self.keep_clean(&mut inspection.runs_later);
                inspection.patch.iter_mut().for_each(|patch| self.mask(patch));
            }
            Event::WorkLanded { landing } => {
                let Landing { written, removed, merged, left, conflicts, problem, branch: _, end: _ } =
                    landing;
                for names in [written, removed, merged, left] {
                    self.clean_all(names);
                }
                for conflict in conflicts {
                    self.clean(&mut conflict.path);
                }
                problem.iter_mut().for_each(|problem| self.clean(problem));
            }
            Event::Answered { effect: _, answer: EffectAnswer::HooksAnswered { reply } } => self.hooks(reply),
            Event::Answered { effect: _, answer: EffectAnswer::TreeInspectionFailed { message } } => {
                self.clean(message);
            }
            Event::Answered { effect: _, answer: EffectAnswer::VerificationFinished { verification } } => {
                let Verification { runs, baseline, original, flaky, others, new_tests, .. } = verification;
                let before = baseline.iter_mut().flat_map(|baseline| &mut baseline.runs);
                let again = original.iter_mut().flat_map(|original| &mut original.runs);
                let others = others
                    .iter_mut()
                    .flat_map(|other| std::iter::once(&mut other.now).chain(&mut other.before));
                for run in runs.iter_mut().chain(flaky).chain(before).chain(again).chain(others) {
                    self.mask(&mut run.output);
                    self.clean_all(run.failures.iter_mut().chain(&mut run.unavailable));
                }
                self.clean_all(new_tests);
                self.clean_all(original.iter_mut().filter_map(|original| original.problem.as_mut()));
            }
            Event::SessionResumed { changed_files, verify: _, limits: _, lost } => {
                self.keep_clean(changed_files);
                self.lost(lost);
            }
            Event::CancelRequested { reason } => self.clean(reason),
            Event::OverrideRequested { command, request: _ } => match command {
                Override::Say { text } => self.clean(text),
                Override::ForceAgent { agent } => self.clean(agent),
                Override::SkipStep | Override::Retry | Override::Pause | Override::Go | Override::Reset => {}
            },
            Event::Answered { effect: _, answer: EffectAnswer::CheckpointTaken { checkpoint: _ } }
            | Event::AgentsReloaded { agents: _ }
            | Event::RanBeside { sessions: _ }
            | Event::Answered { effect: _, answer: EffectAnswer::ApprovalAnswered { approval: _ } }
            | Event::Answered { effect: _, answer: EffectAnswer::TimerFired }
            | Event::Answered { effect: _, answer: EffectAnswer::EffectLost } => {}
        }
    }

    /// Takes the secrets out of the standing instructions, the descriptions of skills and what was given with the task: they
    /// are the text of a file like any other.
    pub(crate) fn instructions(&self, setup: &mut Setup) {
        let place = &mut setup.place;
        place.instructions.iter_mut().for_each(|text| self.mask(text));
        self.clean_all(&mut place.instruction_problems);
        place.skills.iter_mut().for_each(|skill| self.mask(&mut skill.description));
        for given in &mut setup.attachments {
            self.clean(&mut given.name);
            self.mask(&mut given.text);
        }
    }

    /// It was recorded clean; the secrets of today may be others.
    fn lost(&self, lost: &mut Lost) {
        self.clean_all(lost.jobs.iter_mut().map(|job| &mut job.command));
        self.clean_all(lost.work.iter_mut().flat_map(|work| &mut work.calls));
    }

    fn message(&self, effect: EffectId, message: &mut Message) {
        let mut changed = false;
        for (number, block) in message.content.iter_mut().enumerate() {
            match block {
                Content::Text { text } => changed |= self.change(text),
                Content::Thinking { thinking, signature } => {
                    changed |= self.change(thinking);
                    if changed {
                        // The provider's proof is of other words, or comes after other words; without it the block is
                        // not sent back.
                        *signature = None;
                    }
                }
                Content::RedactedThinking { data: _ } | Content::Image(_) => {}
                Content::Hosted(block) => {
                    changed |= self.hosted(block, &format!("withheld-{effect}-{number}"));
                }
                Content::ToolUse(call) => changed |= self.call(call, &format!("withheld-{effect}-{number}")),
                Content::ToolResult { content, tool_use_id: _, is_error: _, images: _ } => {
                    changed |= self.change(content);
                }
            }
        }
        let has_hosted = message.content.iter().any(|block| matches!(block, Content::Hosted(_)));
        if changed && has_hosted {
            // A call without its result, or citations of other words, would be refused.
            for block in &mut message.content {
                if let Content::Hosted(block) = block {
                    block.block.clear();
                }
            }
        }
    }

    /// Takes the secrets out of what a tool of the provider left. A block that held one is not sent back.
    fn hosted(&self, block: &mut HostedBlock, own_id: &str) -> bool {
        let mut changed = block.readable().is_some_and(|block| self.found_in_value(&block).is_some());
        if let Some(call) = &mut block.call {
            changed |= self.call(call, own_id);
        }
        if let Some(result) = &mut block.result {
            changed |= self.change(&mut result.content);
        }
        changed
    }

    /// Marks a call whose arguments hold a secret, and says whether anything in it has changed. `own_id` takes the
    /// place of an id that holds a secret: such an id is no id of a provider.
    fn call(&self, call: &mut ToolCall, own_id: &str) -> bool {
        let ToolCall { id, name, input, invalid_input, withheld } = call;
        let found = self.found_in_value(input);
        let mut changed = found.is_some();
        if let Some((place, what)) = found {
            let place = place.trim_start_matches('.');
            *withheld = Some(format!("`{place}` holds {what}"));
            self.clean_value(input);
        }
        if let Some(raw) = invalid_input {
            changed |= self.change(raw);
        }
        if self.found_in(id).is_some() {
            own_id.clone_into(id);
            changed = true;
        }
        if self.found_in(name).is_some() {
            // No tool has such a name. It has to be one that providers take back.
            "withheld".clone_into(name);
            changed = true;
        }
        changed
    }

    /// Takes the secrets out of the result of a call.
    pub(crate) fn outcome(&self, outcome: &mut ToolOutcome) {
        self.mask(&mut outcome.content);
        outcome.hooks.iter_mut().for_each(|reply| self.hooks(reply));
        self.keep_clean(&mut outcome.files_modified);
        outcome.files_seen.retain(|file| self.found_in(&file.path).is_none());
        outcome.refused.retain(|need| self.found_in(&need.to_string()).is_none());
    }

    /// Takes the secrets out of what hooks have said.
    fn hooks(&self, reply: &mut HookReply) {
        let HookReply { blocked, context, warnings, may_have_changed: _ } = reply;
        for text in blocked.iter_mut().chain(context).chain(warnings) {
            self.mask(text);
        }
    }

    /// Takes the secrets out of the description of a failure.
    pub(crate) fn error(&self, error: &mut ErrorInfo) {
        self.clean(&mut error.message);
        error.request_id = error.request_id.take().filter(|id| self.found_in(id).is_none());
        error.tool = error.tool.take().filter(|name| self.found_in(name).is_none());
    }

    /// Takes the secrets out of `text`, and says whether there were any.
    fn change(&self, text: &mut String) -> bool {
        let held = self.found_in(text).is_some();
        if held {
            self.clean(text);
        }
        held
    }

    /// Leaves out the paths that hold a secret.
    fn keep_clean(&self, paths: &mut Vec<String>) {
        paths.retain(|path| self.found_in(path).is_none());
    }
}

#[cfg(test)]
mod tests {
    use super::super::redactor;
    use super::*;
    use rawko_core::session::Stamped;
    use rawko_core::{ErrorCode, Timestamp};
    use serde_json::{Value, json};

    const CANARY: &str = "sk-canary-9f31c0d7";

    /// An event with the canary in texts of it, redacted.
    #[track_caller]
    fn check(event: Value) -> Event {
        let mut stamped = event;
        stamped["at"] = json!(7);
        let mut stamped: Stamped = serde_json::from_value(stamped).unwrap();
        assert!(serde_json::to_string(&stamped).unwrap().contains(CANARY));
        redactor(&[CANARY]).event(&mut stamped.event);
        let written = serde_json::to_string(&stamped).unwrap();
        assert!(!written.contains(CANARY), "{written}");
        assert_eq!(stamped.at, Timestamp(7));
        stamped.event
    }

    fn reply(content: Value) -> Value {
        json!({"type": "ModelReplied", "effect": 3, "usage": {}, "stopReason": "end_turn", "durationMs": 1,
            "message": {"role": "assistant", "content": content}})
    }

    /// The blocks of a reply, redacted.
    #[track_caller]
    fn check_said(content: Value) -> Vec<Content> {
        let Event::Answered { answer: EffectAnswer::ModelReplied { message, .. }, .. } =
            check(reply(content))
        else {
            panic!("it is a reply")
        };
        message.content
    }

    #[test]
    fn no_text_of_an_event_keeps_a_secret() {
        check(json!({"type": "ToolFinished", "effect": 3, "outcome": {"content": CANARY, "isError": false,
            "filesModified": [CANARY], "filesSeen": [{"path": CANARY, "digest": ""}], "durationMs": 1}}));
        check(json!({"type": "ModelFailed", "effect": 3, "durationMs": 1, "error": {
            "code": "authentication_failed", "message": format!("bad key {CANARY}"), "requestId": CANARY, "tool": CANARY}}));
        let error = json!({"code": "tool_failure", "message": CANARY});
        let asked = json!([{"act": "edit", "title": CANARY, "allowed": true, "rule": "r"}]);
        check(json!({"type": "OutsideAgentEnded", "effect": 3, "work": {
            "end": {"how": "failed", "error": error}, "text": CANARY, "asked": asked, "durationMs": 1}}));
        check(json!({"type": "CheckpointFailed", "effect": 3, "message": CANARY}));
        check(json!({"type": "TreeInspectionFailed", "effect": 3, "message": CANARY}));
        let reply = json!({"blocked": CANARY, "context": [CANARY], "warnings": [CANARY]});
        check(json!({"type": "HooksAnswered", "effect": 3, "reply": reply}));
        check(
            json!({"type": "ToolFinished", "effect": 3, "outcome": {"content": "", "durationMs": 1, "hooks": reply}}),
        );
        let figures =
            json!({"files": 1, "insertions": 1, "deletions": 0, "names": [format!("{CANARY} +1 -0")]});
        check(
            json!({"type": "TreeInspected", "effect": 3, "inspection": {"tree": "t", "execution": figures, "run": figures,
                "files": [CANARY], "executionFiles": [CANARY], "patch": CANARY}}),
        );
        let run = json!({"command": "make test", "exitCode": 1, "output": CANARY, "durationMs": 1,
            "failures": [CANARY], "unavailable": CANARY});
        let runs = json!([run]);
        check(json!({"type": "VerificationFinished", "effect": 3, "verification": {
            "runs": runs, "flaky": runs, "newTests": [CANARY], "others": [{"now": run, "before": run}], "baseline": {"runs": runs, "tree": "t"},
            "original": {"runs": runs, "problem": CANARY}}}));
        check(json!({"type": "SessionResumed", "changedFiles": [CANARY]}));
        check(json!({"type": "CancelRequested", "reason": CANARY}));
        for command in
            [json!({"type": "say", "text": CANARY}), json!({"type": "force_agent", "agent": CANARY})]
        {
            check(json!({"type": "OverrideRequested", "command": command}));
        }
        let recalled = |path: &str| json!({"path": path, "title": CANARY, "score": 1.0, "files": [CANARY]});
        check(json!({"type": "MemoriesRecalled", "effect": 3,
            "recalled": {"block": CANARY, "memories": [recalled("a.md"), recalled(CANARY)], "problems": [CANARY]}}));
        for kept in [json!({"as": "written", "path": CANARY}), json!({"as": "refused", "message": CANARY})] {
            check(json!({"type": "MemoryKept", "effect": 3, "kept": kept}));
        }
        let choice = json!({"provider": "p", "model": "m", "maxTokens": 1});
        check(json!({"type": "TaskStarted", "task": CANARY, "setup": {
            "agents": {}, "limits": {"maxIterations": 1, "maxConsecutiveFailures": 1},
            "arbiter": {"mode": "llm", "model": choice, "templates": {"select": "s", "evaluate": "e"}}, "tools": [],
            "place": {"directory": "/p", "platform": "linux", "git": false, "instructions": CANARY,
                "instructionProblems": [CANARY]}}}));
    }

    #[test]
    fn a_token_that_was_seen_is_a_secret_wherever_it_comes_again() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let redactor = redactor(&[]);
        let redacted = |event: Value| {
            let mut stamped = event;
            stamped["at"] = json!(7);
            let mut stamped: Stamped = serde_json::from_value(stamped).unwrap();
            redactor.event(&mut stamped.event);
            serde_json::to_string(&stamped).unwrap()
        };
        let said = json!([{"type": "text", "text": format!("it is x{token}")},
            {"type": "tool_use", "id": "call_1", "name": "Bash", "input": {"command": format!("curl {token}")}}]);
        assert!(
            redacted(reply(said.clone())).contains(&token),
            "a token of the task is the user's own affair"
        );
        redacted(
            json!({"type": "ToolFinished", "effect": 3, "outcome": {"content": format!("T={token}\n"), "durationMs": 1}}),
        );
        let again = redacted(reply(said));
        assert!(!again.contains(&token) && again.contains("it is x[redacted:github-token:"), "{again}");
        assert!(again.contains("`command` holds a token that this run has seen before"), "{again}");
        let error = json!({"code": "unknown", "message": format!("bad {token}")});
        let failed = redacted(json!({"type": "ModelFailed", "effect": 3, "durationMs": 1, "error": error}));
        assert!(failed.contains("bad [redacted:github-token:"), "{failed}");
    }

    #[test]
    fn a_call_with_a_secret_is_marked_and_its_id_stays() {
        let command = format!("curl -H 'x-api-key: {CANARY}'");
        let content = check_said(json!([
            {"type": "text", "text": format!("it is {CANARY}")},
            {"type": "tool_use", "id": "call_1", "name": "Bash", "input": {"command": command}},
            {"type": "tool_use", "id": "call_2", "name": "X", "input": {"a": [{"b": CANARY}], CANARY: 1}},
            {"type": "tool_use", "id": "call_3", "name": "Read", "input": {"file_path": "a"}},
            {"type": "tool_use", "id": CANARY, "name": CANARY, "input": {}, "invalidInput": format!("{{\"a\": \"{CANARY}")},
        ]));
        let calls: Vec<(&str, &str, Option<&str>)> = content
            .iter()
            .filter_map(|block| match block {
                Content::ToolUse(call) => {
                    Some((call.id.as_str(), call.name.as_str(), call.withheld.as_deref()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(
            calls,
            [
                ("call_1", "Bash", Some("`command` holds the value of `A_KEY`")),
                ("call_2", "X", Some("`a[0].b` holds the value of `A_KEY`")),
                ("call_3", "Read", None),
                ("withheld-e3-4", "withheld", None),
            ]
        );
    }

    #[test]
    fn a_proof_of_other_words_is_not_sent_back() {
        let signatures = |content: Vec<Content>| {
            let of = |block| match block {
                Content::Thinking { signature, .. } => Some(signature),
                _ => None,
            };
            content.into_iter().filter_map(of).collect::<Vec<_>>()
        };
        let thought = |words: &str| json!({"type": "thinking", "thinking": words, "signature": "proof"});
        assert_eq!(signatures(check_said(json!([thought(CANARY)]))), [None]);
        let between = json!([thought("a"), {"type": "text", "text": CANARY}, thought("b")]);
        assert_eq!(signatures(check_said(between)), [Some("proof".to_owned()), None]);
    }

    #[test]
    fn ids_and_paths_are_left_alone_with_a_key_that_is_a_word() {
        let words = redactor(&["test", "sk-no-key-required"]);
        let call = json!({"type": "tool_use", "id": "call_test_1", "name": "Write",
            "input": {"file_path": "tests/a", "content": "sk-no-key-required"}});
        let mut event: Event = serde_json::from_value(reply(json!([call]))).unwrap();
        let before = event.clone();
        words.event(&mut event);
        assert_eq!(event, before);
        let error = ErrorInfo::new(ErrorCode::Timeout, "late for the test");
        let mut event = Event::Answered {
            effect: EffectId(1),
            answer: EffectAnswer::ModelFailed { error, duration_ms: 5, usage: None },
        };
        let before = event.clone();
        words.event(&mut event);
        assert_eq!(event, before);
    }
}
