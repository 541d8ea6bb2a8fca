//! What a hook's end and output mean, in Claude Code's form: the exit code, and a JSON object on standard output.
//!
//! A hook may refuse and add text. What would grant or change something is either ignored (`allow`) or, where ignoring it would
//! let through what the hook did not mean to let through, a refusal.

use rawko_core::hook::{HookEvent, HookReply};
use rawko_core::text::truncate;
use rawko_tools::{EndedHook, HookEnd};
use serde::Deserialize;
use serde_json::Value;
use serde_json::error::Category;

/// Characters of a command in a message.
const COMMAND_CHARS: usize = 120;
/// Characters of what a hook printed in a warning.
const SAID_CHARS: usize = 300;
/// The exit codes of a shell that found a program that cannot be run, or none.
const NOT_RUN: [i32; 2] = [126, 127];

/// The object that a hook may print. Unknown fields are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HookOutput {
    #[serde(rename = "continue")]
    goes_on: Option<bool>,
    stop_reason: Option<String>,
    system_message: Option<String>,
    decision: Option<String>,
    /// Its place is in `hookSpecificOutput`. Who wrote it here meant it.
    permission_decision: Option<String>,
    reason: Option<String>,
    hook_specific_output: Option<SpecificOutput>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecificOutput {
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Value>,
    additional_context: Option<String>,
}

/// What a hook of `event` with this command says by `ended`.
pub(super) fn read(event: HookEvent, command: &str, ended: &EndedHook) -> HookReply {
    let mut reply = HookReply::default();
    let name = format!("the {} hook `{}`", event.as_str(), truncate(command, COMMAND_CHARS));
    let said = || match ended.stderr.trim() {
        "" => String::new(),
        said => format!(": {}", truncate(said, SAID_CHARS)),
    };
    match &ended.end {
        HookEnd::Exited(0) => {
            if ended.is_cut && ended.stdout.trim_start().starts_with('{') {
                let message = format!("{name} printed too much, so its answer could not be read");
                no_answer(event, message, &mut reply);
            } else {
                printed(event, &name, &ended.stdout, &mut reply);
            }
        }
        HookEnd::Exited(2) => refuses(event, &ended.stderr, &mut reply),
        HookEnd::Exited(code) if NOT_RUN.contains(code) => {
            let message = format!("{name} could not be run (exit code {code}){}", said());
            no_answer(event, message, &mut reply);
        }
        HookEnd::Exited(code) => reply.warn(format!(
            "{name} ended with exit code {code}, which is neither yes (0) nor no (2){}",
            said()
        )),
        HookEnd::TimedOut => {
            no_answer(event, format!("{name} did not end in time and was ended"), &mut reply);
        }
        HookEnd::Failed(why) => {
            no_answer(event, format!("{name} did not run to its end: {why}"), &mut reply);
        }
    }
    reply
}

/// It gave no answer that can be read. A hook that could not say no has not said yes, so a call is denied.
fn no_answer(event: HookEvent, message: String, reply: &mut HookReply) {
    if event == HookEvent::PreToolUse {
        reply.block(&message);
    }
    reply.warn(message);
}

/// It said no, for this reason.
fn refuses(event: HookEvent, reason: &str, reply: &mut HookReply) {
    match event {
        HookEvent::PreToolUse | HookEvent::UserPromptSubmit | HookEvent::Stop | HookEvent::SubagentStop => {
            reply.block(reason);
        }
        // It is done already: the agent reads why.
        HookEvent::PostToolUse => reply.add_context(reason),
        _ => reply.warn(format!(
            "a {} hook cannot refuse anything; it said: {}",
            event.as_str(),
            truncate(reason.trim(), SAID_CHARS)
        )),
    }
}

/// It ended well and printed this.
fn printed(event: HookEvent, name: &str, stdout: &str, reply: &mut HookReply) {
    let takes_text = matches!(event, HookEvent::UserPromptSubmit | HookEvent::SessionStart);
    let is_list = stdout.trim_start().starts_with('[') && serde_json::from_str::<Value>(stdout).is_ok();
    if !is_list && !stdout.trim_start().starts_with('{') {
        if takes_text {
            reply.add_context(stdout);
        }
        return;
    }
    match serde_json::from_str::<HookOutput>(stdout) {
        Ok(output) => answered(event, name, output, reply),
        Err(error) => {
            // It may have been meant as a refusal.
            no_answer(event, format!("the answer of {name} cannot be read: {error}"), reply);
            // Where text is expected, one that is not JSON may be just that.
            if takes_text && error.classify() != Category::Data {
                reply.add_context(stdout);
            }
        }
    }
}

/// It answered with an object.
fn answered(event: HookEvent, name: &str, output: HookOutput, reply: &mut HookReply) {
    let HookOutput { goes_on, stop_reason, system_message, decision, reason, hook_specific_output, .. } =
        output;
    let outer_decision = output.permission_decision;
    let SpecificOutput { permission_decision, permission_decision_reason, updated_input, additional_context } =
        hook_specific_output.unwrap_or_default();
    if let Some(message) = system_message {
        reply.warn(format!("a {} hook says: {}", event.as_str(), truncate(&message, SAID_CHARS)));
    }
    if let Some(context) = additional_context {
        reply.add_context(&context);
    }
    // The older form of the same comes in `decision`. A refusal in either of them counts.
    let permission_reason = permission_decision_reason.or_else(|| reason.clone()).unwrap_or_default();
    let reason = reason.unwrap_or_else(|| permission_reason.clone());
    let permission_decision = permission_decision.or(outer_decision);
    match (permission_decision.as_deref(), decision.as_deref()) {
        (Some("deny" | "block"), _) => refuses(event, &permission_reason, reply),
        (_, Some("deny" | "block")) => refuses(event, &reason, reply),
        (Some("ask"), _) | (_, Some("ask")) if event == HookEvent::PreToolUse => {
            reply.block(&format!(
                "the hook wants a person to be asked, which rawko's hooks cannot do. {permission_reason}"
            ));
        }
        (permission, older) => {
            let unknown = |word: &&str| !matches!(*word, "allow" | "approve" | "ask");
            if let Some(word) = permission.into_iter().chain(older).find(unknown) {
                let word = truncate(word, SAID_CHARS);
                no_answer(event, format!("the decision `{word}` of {name} is none that rawko knows"), reply);
            }
        }
    }
    if updated_input.is_some() && event == HookEvent::PreToolUse {
        reply.block("the hook wants other arguments for this call, which rawko's hooks cannot give it");
    }
    if goes_on == Some(false) {
        let reason = stop_reason.unwrap_or(reason);
        match event {
            // The end that it wants is the end that follows.
            HookEvent::Stop | HookEvent::SubagentStop => reply.blocked = None,
            _ => refuses(event, &reason, reply),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ended(end: HookEnd, stdout: &str, stderr: &str) -> EndedHook {
        EndedHook { end, stdout: stdout.into(), is_cut: false, stderr: stderr.into() }
    }

    fn said(event: HookEvent, output: &Value) -> HookReply {
        read(event, "h", &ended(HookEnd::Exited(0), &output.to_string(), ""))
    }

    #[test]
    fn exit_codes_are_yes_no_and_a_warning() {
        let pre = HookEvent::PreToolUse;
        assert!(read(pre, "h", &ended(HookEnd::Exited(0), "fine", "")).is_empty());
        let no = read(pre, "h", &ended(HookEnd::Exited(2), "", "not that\n"));
        assert_eq!((no.blocked.as_deref(), no.warnings.len()), (Some("not that"), 0));
        let odd = read(pre, "h", &ended(HookEnd::Exited(1), "", "oops"));
        assert_eq!(odd.blocked, None);
        assert!(odd.warnings[0].contains("exit code 1") && odd.warnings[0].contains("oops"), "{odd:?}");
    }

    #[test]
    fn one_that_cannot_answer_denies_a_call_and_nothing_else() {
        let cut = EndedHook { is_cut: true, ..ended(HookEnd::Exited(0), "{\"decision\":", "") };
        for end in [ended(HookEnd::TimedOut, "", ""), ended(HookEnd::Failed("no bash".into()), "", ""), cut] {
            for event in HookEvent::ALL {
                let reply = read(event, "h", &end);
                assert_eq!(reply.blocked.is_some(), event == HookEvent::PreToolUse, "{event:?} {reply:?}");
                assert_eq!(reply.warnings.len(), 1, "{event:?}");
            }
        }
        for code in NOT_RUN {
            let reply = read(HookEvent::PreToolUse, "h", &ended(HookEnd::Exited(code), "", "h: not found\n"));
            assert!(reply.blocked.is_some_and(|reason| reason.contains("h: not found")), "{code}");
            let reply = read(HookEvent::PostToolUse, "h", &ended(HookEnd::Exited(code), "", ""));
            assert_eq!((reply.blocked.is_some(), reply.warnings.len()), (false, 1), "{code}");
        }
        // A long text is no answer that could not be read.
        let long = EndedHook { is_cut: true, ..ended(HookEnd::Exited(0), "xxxx", "") };
        assert!(read(HookEvent::PreToolUse, "h", &long).is_empty());
    }

    #[test]
    fn answers_deny_and_never_allow() {
        let decides = |decision: &str| {
            json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision,
                "permissionDecisionReason": "because"}})
        };
        let pre = HookEvent::PreToolUse;
        assert_eq!(said(pre, &decides("deny")).blocked.as_deref(), Some("because"));
        assert!(said(pre, &decides("ask")).blocked.unwrap().contains("because"));
        assert!(said(pre, &decides("allow")).is_empty());
        assert!(said(pre, &json!({"decision": "approve"})).is_empty());
        assert_eq!(said(pre, &json!({"decision": "block", "reason": "r"})).blocked.as_deref(), Some("r"));
        assert_eq!(said(pre, &json!({"continue": false, "stopReason": "s"})).blocked.as_deref(), Some("s"));
        let other =
            json!({"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"command": "ls"}}});
        assert!(said(pre, &other).blocked.is_some(), "the call that it means is another one");
        assert!(said(pre, &json!({"decision": 7})).blocked.is_some(), "it may be a refusal");
    }

    #[test]
    fn a_decision_in_other_words_is_no_yes() {
        for word in ["Deny", "deny ", "defer", "no"] {
            let inside = json!({"hookSpecificOutput": {"permissionDecision": word}});
            for answer in [json!({"decision": word}), json!({"permissionDecision": word}), inside] {
                let reply = said(HookEvent::PreToolUse, &answer);
                assert!(reply.blocked.is_some() && reply.warnings[0].contains(word), "{answer}");
                let reply = said(HookEvent::PostToolUse, &answer);
                assert_eq!((reply.blocked, reply.warnings.len()), (None, 1), "{answer}");
            }
        }
        assert!(said(HookEvent::PreToolUse, &json!({"permissionDecision": "deny"})).blocked.is_some());
        assert!(said(HookEvent::PreToolUse, &json!([{"decision": "block"}])).blocked.is_some());
        let log = ended(HookEnd::Exited(0), "[info] fine\n", "");
        assert!(read(HookEvent::PreToolUse, "h", &log).is_empty(), "a line of a log is no answer");
    }

    #[test]
    fn an_object_that_cannot_be_read_denies_a_call_and_is_a_warning_elsewhere() {
        for text in ["{\"decision\": \"block\"", "{'decision': 'block'}", "{\"decision\": 7}", "{} and more"]
        {
            for event in HookEvent::ALL {
                let reply = read(event, "h", &ended(HookEnd::Exited(0), text, ""));
                assert_eq!(reply.blocked.is_some(), event == HookEvent::PreToolUse, "{event:?} {text}");
                assert_eq!(reply.warnings.len(), 1, "{event:?} {text}");
            }
        }
        let text = read(HookEvent::SessionStart, "h", &ended(HookEnd::Exited(0), "{see docs} first", ""));
        assert_eq!(text.context, ["{see docs} first"], "it may be a text");
        assert!(read(HookEvent::PreToolUse, "h", &ended(HookEnd::Exited(0), "see {docs}", "")).is_empty());
    }

    #[test]
    fn a_field_that_is_null_is_absent() {
        let nothing = json!({"continue": null, "stopReason": null, "systemMessage": null, "decision": null,
            "reason": null, "hookSpecificOutput": null});
        let inside = json!({"hookSpecificOutput": {"permissionDecision": null, "updatedInput": null,
            "permissionDecisionReason": null, "additionalContext": null}});
        for event in HookEvent::ALL {
            assert!(said(event, &nothing).is_empty() && said(event, &inside).is_empty(), "{event:?}");
        }
    }

    #[test]
    fn an_allow_hides_no_refusal() {
        let both = json!({"decision": "block", "reason": "no", "hookSpecificOutput": {
            "permissionDecision": "allow", "permissionDecisionReason": "yes"}});
        assert_eq!(said(HookEvent::PreToolUse, &both).blocked.as_deref(), Some("no"));
        let other = json!({"decision": "approve", "reason": "yes", "hookSpecificOutput": {
            "permissionDecision": "deny", "permissionDecisionReason": "no"}});
        assert_eq!(said(HookEvent::PreToolUse, &other).blocked.as_deref(), Some("no"));
        let neither = json!({"decision": "approve", "hookSpecificOutput": {"permissionDecision": "allow"}});
        assert!(said(HookEvent::PreToolUse, &neither).is_empty());
    }

    #[test]
    fn each_event_takes_what_it_can_use() {
        let block = json!({"decision": "block", "reason": "r"});
        for (event, blocks, adds) in [
            (HookEvent::PreToolUse, true, false),
            (HookEvent::PostToolUse, false, true),
            (HookEvent::UserPromptSubmit, true, false),
            (HookEvent::SubagentStop, true, false),
            (HookEvent::Stop, true, false),
            (HookEvent::SessionStart, false, false),
            (HookEvent::SessionEnd, false, false),
        ] {
            let reply = said(event, &block);
            assert_eq!((reply.blocked.is_some(), !reply.context.is_empty()), (blocks, adds), "{event:?}");
        }
        for event in HookEvent::ALL {
            let adds = json!({"hookSpecificOutput": {"additionalContext": "mind this"}});
            assert_eq!(said(event, &adds).context, ["mind this"], "{event:?}");
            let plain = read(event, "h", &ended(HookEnd::Exited(0), "plain words\n", ""));
            let takes = matches!(event, HookEvent::UserPromptSubmit | HookEvent::SessionStart);
            assert_eq!(plain.context.len(), usize::from(takes), "{event:?}");
        }
        let stop = said(HookEvent::Stop, &json!({"decision": "block", "reason": "r", "continue": false}));
        assert_eq!(stop.blocked, None, "it wants the end");
    }
}
