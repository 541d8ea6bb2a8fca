//! Gates: who is asked about a tool call before it is made, and the user's hooks at the other points of a run
//! (`docs/hooks.md`).
//!
//! A gate sees a call after the policy and the user have granted it, and may deny it. Nothing that a gate says grants anything.
//! What was said is part of the answer that is journaled, so no replay asks again.

mod answer;
mod matcher;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use rawko_core::ErrorCode;
use rawko_core::agent::Permissions;
use rawko_core::hook::{HookEvent, HookOccasion, HookReply};
use rawko_core::message::ToolCall;
use rawko_core::tool::{ToolAccess, ToolOutcome};
use rawko_tools::{BoxFuture, Confinement, HookProcess, ToolContext};
use serde_json::{Map, Value, json};

use crate::config::{LoadedHook, PluginPlace};
pub(crate) use matcher::HookMatcher;

/// How long one hook of the run's end may take: the user waits for it.
const AT_THE_END: Duration = Duration::from_secs(10);
/// The name of the hooks where commands have an owner.
const OWNER: &str = "hooks";

/// A tool call that is granted and about to be made: what [`RawkoBuilder::on_call`](crate::RawkoBuilder::on_call) is shown.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GrantedCall {
    /// The agent that calls.
    pub agent: String,
    /// The call. Secrets in it are masked.
    pub call: ToolCall,
    /// What the tool may do.
    pub access: ToolAccess,
}

/// What the embedding program says about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallVerdict {
    /// The call is made.
    Allow,
    /// The call is not made. The agent is given the reason.
    Deny {
        /// The reason, for the agent and for people.
        reason: String,
    },
}

impl CallVerdict {
    /// A denial for this reason.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny { reason: reason.into() }
    }
}

/// The function of the embedding program.
pub(crate) type CallGate = Arc<dyn Fn(GrantedCall) -> BoxFuture<'static, CallVerdict> + Send + Sync>;

/// The points at which the session itself has hooks asked. Those about tool calls are asked where a call is made, and those of
/// the end when the run is over.
pub(crate) fn asked_by_session(hooks: &[LoadedHook]) -> BTreeSet<HookEvent> {
    use HookEvent::{SessionStart, Stop, SubagentStop, UserPromptSubmit};
    let events = hooks.iter().map(|hook| hook.event);
    events.filter(|event| matches!(event, SessionStart | Stop | SubagentStop | UserPromptSubmit)).collect()
}

/// A hook that is ready to be asked.
#[derive(Debug, Clone)]
struct ReadyHook {
    hook: LoadedHook,
    matcher: HookMatcher,
}

/// All gates of one run.
pub(crate) struct Gates {
    on_call: Option<CallGate>,
    hooks: Vec<ReadyHook>,
    process: HookProcess,
    /// Where hooks run that are about no call.
    context: ToolContext,
    session: String,
    transcript: PathBuf,
}

impl Gates {
    /// Those of the session `session`, whose folder this is. Hooks that are about no call run as `permissions` and
    /// `confinement` say.
    pub(crate) fn new(
        on_call: Option<CallGate>,
        hooks: &[LoadedHook],
        (session, directory): (&str, &Path),
        (root, permissions, confinement): (&Path, Permissions, &Confinement),
    ) -> Self {
        let ready = |hook: &LoadedHook| {
            // One that is no regular expression was reported as the configuration was read.
            let matcher = HookMatcher::parse(hook.matcher.as_deref().unwrap_or_default()).ok()?;
            Some(ReadyHook { hook: hook.clone(), matcher })
        };
        Self {
            on_call,
            hooks: hooks.iter().filter_map(ready).collect(),
            process: HookProcess::default(),
            context: ToolContext {
                root: root.to_owned(),
                agent: OWNER.to_owned(),
                permissions: Arc::new(permissions),
                approved: Vec::new(),
                confinement: confinement.clone(),
                traceparent: None,
                progress: Arc::new(|_| {}),
            },
            session: session.to_owned(),
            transcript: directory.join("journal.jsonl"),
        }
    }

    /// Leaves the hooks out.
    pub(crate) fn drop_hooks(&mut self) {
        self.hooks.clear();
    }

    /// Makes a call if every gate lets it through, and has hooks asked about its result.
    pub(crate) async fn around<F: Future<Output = ToolOutcome>>(
        &self,
        call: GrantedCall,
        context: &ToolContext,
        mask: impl Fn(&mut ToolOutcome),
        make: F,
    ) -> ToolOutcome {
        if self.on_call.is_none() && self.hooks.is_empty() {
            return make.await;
        }
        let mut reply = self.before(&call, context).await;
        let mut outcome = match &reply.blocked {
            Some(reason) => ToolOutcome::error(
                ErrorCode::PermissionError,
                format!("Not done: the user's rules for calls deny this one. {reason}"),
            ),
            None => make.await,
        };
        if !outcome.is_error {
            reply.add(self.after(&call, &outcome, context, mask).await);
        }
        // The agent reads these with the result; the record has them there.
        for text in std::mem::take(&mut reply.context) {
            outcome.content.push_str(&format!("\n\n[A hook of the user adds: {text}]"));
        }
        outcome.hooks = (!reply.is_empty()).then(|| Box::new(reply));
        outcome
    }

    async fn before(&self, call: &GrantedCall, context: &ToolContext) -> HookReply {
        if let Some(gate) = &self.on_call {
            let asked = AssertUnwindSafe(async { gate(call.clone()).await }).catch_unwind().await;
            match asked {
                Ok(CallVerdict::Allow) => {}
                Ok(CallVerdict::Deny { reason }) => return HookReply::refusal(&reason),
                Err(_) => {
                    let message = "the program's function for calls broke, so the call is not made";
                    let mut reply = HookReply::refusal(message);
                    reply.warn(message);
                    return reply;
                }
            }
        }
        let fields = json!({
            "agent_type": call.agent, "tool_name": call.call.name, "tool_input": call.call.input,
            "tool_use_id": call.call.id,
        });
        // Asking changes nothing in the project.
        let context = read_only(context);
        self.ask(HookEvent::PreToolUse, Some(&call.call.name), fields, &context).await
    }

    async fn after(
        &self,
        call: &GrantedCall,
        outcome: &ToolOutcome,
        context: &ToolContext,
        mask: impl Fn(&mut ToolOutcome),
    ) -> HookReply {
        if !self.has(HookEvent::PostToolUse) {
            return HookReply::default();
        }
        let mut shown = ToolOutcome { images: Vec::new(), ..outcome.clone() };
        mask(&mut shown);
        let fields = json!({
            "agent_type": call.agent, "tool_name": call.call.name, "tool_input": call.call.input,
            "tool_use_id": call.call.id,
            "tool_response": {
                "content": shown.content, "exitCode": shown.exit_code, "filesModified": shown.files_modified,
            },
        });
        // What may follow a change may be one, such as a formatter.
        let context = match call.access {
            ToolAccess::Mutating => ToolContext { approved: Vec::new(), ..context.clone() },
            ToolAccess::ReadOnly => read_only(context),
        };
        self.ask(HookEvent::PostToolUse, Some(&call.call.name), fields, &context).await
    }

    /// Has the hooks of `occasion` asked.
    pub(crate) async fn at(&self, occasion: &HookOccasion) -> HookReply {
        let (matched, fields) = match occasion {
            HookOccasion::SessionStart { continued } => {
                let source = if *continued { "resume" } else { "startup" };
                (Some(source), json!({ "source": source }))
            }
            HookOccasion::UserPromptSubmit { prompt } => (None, json!({ "prompt": prompt })),
            HookOccasion::SubagentStop { agent, output } => (
                Some(agent.as_str()),
                json!({"agent_type": agent, "last_assistant_message": output, "stop_hook_active": false}),
            ),
            HookOccasion::Stop { output, again } => {
                (None, json!({"last_assistant_message": output, "stop_hook_active": again}))
            }
        };
        self.ask(occasion.event(), matched, fields, &read_only(&self.context)).await
    }

    /// Whether a hook of the run's end runs where it may change the project.
    pub(crate) fn may_write_at_the_end(&self) -> bool {
        let is_off = matches!(self.context.confinement, Confinement::Off);
        self.hooks
            .iter()
            .any(|ready| ready.hook.event == HookEvent::SessionEnd && (is_off || ready.hook.outside_sandbox))
    }

    /// Has the hooks of the run's end run.
    pub(crate) async fn at_the_end(&self, status: &str) -> HookReply {
        let fields = json!({"reason": "other", "status": status});
        self.ask(HookEvent::SessionEnd, Some("other"), fields, &read_only(&self.context)).await
    }

    fn has(&self, event: HookEvent) -> bool {
        self.hooks.iter().any(|ready| ready.hook.event == event)
    }

    /// Asks the hooks of `event` that are about `name`, one after another, until one refuses.
    async fn ask(
        &self,
        event: HookEvent,
        name: Option<&str>,
        fields: Value,
        context: &ToolContext,
    ) -> HookReply {
        let is_about = |ready: &&ReadyHook| {
            ready.hook.event == event && name.is_none_or(|name| ready.matcher.is_about(name))
        };
        let mut reply = HookReply::default();
        let mut commands: Vec<(&str, Option<&PluginPlace>)> = Vec::new();
        for ReadyHook { hook, .. } in self.hooks.iter().filter(is_about) {
            // Two files may name the same one. Of two plug-ins, the same words mean two programs.
            let command = (hook.command.as_str(), hook.plugin.as_ref());
            if commands.contains(&command) {
                continue;
            }
            commands.push(command);
            let confinement =
                if hook.outside_sandbox { Confinement::Off } else { context.confinement.clone() };
            let may_write = matches!(confinement, Confinement::Off);
            let context = ToolContext { confinement, ..context.clone() };
            let context = match &hook.plugin {
                Some(place) => of_plugin(context, place),
                None => context,
            };
            let input = format!("{}\n", self.input(event, fields.clone(), &context)).into_bytes();
            let mut variables: Vec<(String, String)> =
                hook.plugin.iter().flat_map(PluginPlace::variables).collect();
            variables.push(("CLAUDE_PROJECT_DIR".to_owned(), context.root.display().to_string()));
            let timeout = match event {
                HookEvent::SessionEnd => hook.timeout.min(AT_THE_END),
                _ => hook.timeout,
            };
            let ended = self.process.run(&hook.command, input, &variables, &context, timeout).await;
            tracing::info!(event = event.as_str(), end = ?ended.end, "hook ended");
            reply.add(answer::read(event, &hook.command, &ended));
            reply.may_have_changed |= may_write;
            if reply.blocked.is_some() {
                break;
            }
        }
        reply
    }

    /// What a hook reads: the fields of every event, then its own.
    fn input(&self, event: HookEvent, fields: Value, context: &ToolContext) -> Value {
        let mut input = Map::new();
        for (key, value) in [
            ("session_id", self.session.clone()),
            ("transcript_path", self.transcript.display().to_string()),
            ("cwd", context.root.display().to_string()),
            ("permission_mode", "default".to_owned()),
            ("hook_event_name", event.as_str().to_owned()),
        ] {
            input.insert(key.to_owned(), Value::from(value));
        }
        if let Value::Object(fields) = fields {
            input.extend(fields);
        }
        Value::Object(input)
    }
}

/// The same without the right to write anything in the project, and without what a person approved for a call.
fn read_only(context: &ToolContext) -> ToolContext {
    let permissions = Permissions { write: Some(Vec::new()), ..(*context.permissions).clone() };
    ToolContext { permissions: Arc::new(permissions), approved: Vec::new(), ..context.clone() }
}

/// The same for a hook of a plug-in: it also reads the plug-in and writes the folder of its own, and it is given neither hosts
/// nor variables of the user.
fn of_plugin(context: ToolContext, place: &PluginPlace) -> ToolContext {
    let and = |paths: Option<&Vec<String>>, more: &Path| {
        // An absent list means the project.
        let mut paths = paths.cloned().unwrap_or_else(|| vec![".".to_owned()]);
        paths.push(more.to_string_lossy().into_owned());
        Some(paths)
    };
    let permissions = Permissions {
        read: and(context.permissions.read.as_ref(), &place.root),
        write: and(context.permissions.write.as_ref(), &place.data),
        net: Some(Vec::new()),
        env: Some(Vec::new()),
        ..(*context.permissions).clone()
    };
    ToolContext { permissions: Arc::new(permissions), approved: Vec::new(), ..context }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::config::Scope;

    fn hook(event: HookEvent, matcher: &str, command: &str) -> LoadedHook {
        LoadedHook {
            event,
            matcher: Some(matcher.to_owned()),
            command: command.to_owned(),
            timeout: Duration::from_secs(60),
            path: PathBuf::from("config.yaml"),
            scope: Scope::User,
            outside_sandbox: false,
            plugin: None,
        }
    }

    fn granted(tool: &str, input: Value) -> GrantedCall {
        let call =
            ToolCall { id: "c1".into(), name: tool.into(), input, invalid_input: None, withheld: None };
        GrantedCall { agent: "developer".into(), call, access: ToolAccess::ReadOnly }
    }

    /// The outcome of a call, and whether it was made.
    async fn call(on_call: Option<CallGate>, hooks: &[LoadedHook], tool: &str) -> (ToolOutcome, bool) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let here = (root, Permissions::default(), &Confinement::Off);
        let gates = Gates::new(on_call, hooks, ("s1", root), here);
        let made = Mutex::new(false);
        let make = async {
            *made.lock().unwrap() = true;
            ToolOutcome::ok("the result")
        };
        let granted = granted(tool, json!({"file_path": "a"}));
        let context = gates.context.clone();
        let outcome = gates.around(granted, &context, |_| {}, make).await;
        let made = *made.lock().unwrap();
        (outcome, made)
    }

    #[tokio::test]
    async fn a_function_sees_a_call_that_only_reads_and_may_deny_it() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let gate = |answer: CallVerdict| -> CallGate {
            let seen = Arc::clone(&seen);
            Arc::new(move |call: GrantedCall| {
                seen.lock().unwrap().push((call.agent, call.call.name));
                let answer = answer.clone();
                Box::pin(async move { answer })
            })
        };
        let (outcome, made) = call(Some(gate(CallVerdict::Allow)), &[], "Read").await;
        assert_eq!((outcome, made), (ToolOutcome::ok("the result"), true));
        let (outcome, made) = call(Some(gate(CallVerdict::deny("not on Sundays"))), &[], "mcp__x__y").await;
        assert!(!made && outcome.is_error && outcome.content.contains("not on Sundays"), "{outcome:?}");
        assert_eq!(outcome.error_code, Some(ErrorCode::PermissionError));
        assert_eq!(outcome.hooks.unwrap().blocked.as_deref(), Some("not on Sundays"));
        let names: Vec<String> = seen.lock().unwrap().iter().map(|(_, name)| name.clone()).collect();
        assert_eq!(names, ["Read", "mcp__x__y"]);
    }

    #[tokio::test]
    async fn a_function_that_breaks_denies() {
        let gate: CallGate = Arc::new(|_| Box::pin(async { panic!("oh") }));
        let (outcome, made) = call(Some(gate), &[], "Read").await;
        assert!(!made && outcome.is_error, "{outcome:?}");
    }

    #[tokio::test]
    async fn hooks_are_asked_about_what_they_match_and_the_first_no_counts() {
        let pre = HookEvent::PreToolUse;
        let hooks = [
            hook(pre, "Write", "exit 2"),
            hook(pre, "Read", "grep -q '\"tool_name\":\"Read\"' || exit 2"),
            hook(pre, "Read", "echo first >&2; exit 2"),
            hook(pre, "Read", "echo second >&2; exit 2"),
        ];
        let (outcome, made) = call(None, &hooks, "Read").await;
        assert!(!made, "{outcome:?}");
        assert!(outcome.content.contains("first") && !outcome.content.contains("second"), "{outcome:?}");
        let (outcome, made) = call(None, &hooks[..2], "Read").await;
        assert!(made && !outcome.is_error, "{outcome:?}");
        let (outcome, made) = call(None, &hooks, "Glob").await;
        assert_eq!((outcome, made), (ToolOutcome::ok("the result"), true), "no hook is about it");
    }

    #[tokio::test]
    async fn a_hook_after_the_call_sees_its_result_and_adds_to_it() {
        let command = "grep -q 'the result' && echo 'look again' >&2; exit 2";
        let (outcome, made) = call(None, &[hook(HookEvent::PostToolUse, "*", command)], "Read").await;
        assert!(made && !outcome.is_error);
        assert!(
            outcome.content.starts_with("the result\n") && outcome.content.contains("look again"),
            "{outcome:?}"
        );
    }

    #[tokio::test]
    async fn every_hook_reads_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let command = "cat; cat >&2 </dev/null; exit 0";
        let hooks = [hook(HookEvent::UserPromptSubmit, "", command)];
        let here = (folder.path(), Permissions::default(), &Confinement::Off);
        let gates = Gates::new(None, &hooks, ("s1", Path::new("/s/s1")), here);
        let reply = gates.at(&HookOccasion::UserPromptSubmit { prompt: "Do it.".into() }).await;
        // Its object has no field that is an answer.
        assert_eq!((reply.blocked, reply.context.len()), (None, 0));
        let input = gates.input(HookEvent::Stop, json!({"stop_hook_active": true}), &gates.context);
        let expected = json!({
            "session_id": "s1", "transcript_path": "/s/s1/journal.jsonl", "cwd": folder.path(),
            "permission_mode": "default", "hook_event_name": "Stop", "stop_hook_active": true,
        });
        assert_eq!(input, expected);
    }
}
