//! Performing effects: the only place where a run touches models and tools.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{FutureExt as _, StreamExt as _};
use rawko_core::agent::Permissions;
use rawko_core::approval::Approval;
use rawko_core::arbiter::cached_answer;
use rawko_core::hook::HookReply;
use rawko_core::message::{StopReason, ToolCall};
use rawko_core::policy::permissions_of_calls;
use rawko_core::request::{ModelRequest, Purpose};
use rawko_core::session::{ConversationId, DecisionRecord, Effect, EffectAnswer};
use rawko_core::setup::AgentSetup;
use rawko_core::tool::{Refusal, ToolAccess, ToolOutcome};
use rawko_core::{ErrorCode, ErrorInfo, Usage};
use rawko_provider::{Provider, ProviderEvent, ProviderSession};
use rawko_tools::{CommandRunner, Confinement, FileAccess, ToolContext, ToolRegistry};
use tokio::sync::Mutex as AsyncMutex;

use crate::channel::approval::Asker;
use crate::channel::control::{DriverMessage, Signals};
use crate::checkpoint::Checkpoints;
use crate::checks::tree_checks::SeenTrees;
use crate::clock::now;
use crate::hooks::{Gates, GrantedCall};
use crate::integrity::{IntegrityGuard, VerifyPlan};
use crate::outside::{OutsidePerformer, OutsidePlace, OutsideWork};
use crate::redact::{RedactedStream, Redactor};
use crate::run::decision_cache::DecisionCache;
use crate::run::event::RunEvent;
use crate::run::remembering::{MemoryOrigin, RunMemory};

/// What each agent may touch, by name.
type Grants = BTreeMap<String, Arc<Permissions>>;

/// What a run stores besides its journal.
pub(crate) struct RunStores {
    pub(crate) checkpoints: Checkpoints,
    pub(crate) memory: Arc<RunMemory>,
}

/// Models and tools of one run.
pub(crate) struct Performer {
    providers: BTreeMap<String, Arc<dyn Provider>>,
    tools: ToolRegistry,
    root: PathBuf,
    grants: Mutex<Grants>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) memory: Arc<RunMemory>,
    /// Runs the verification commands.
    pub(crate) runner: CommandRunner,
    /// Knows whether the checks are those of the beginning.
    pub(crate) guard: Arc<IntegrityGuard>,
    /// How the verification commands ended.
    pub(crate) seen: SeenTrees,
    redactor: Arc<Redactor>,
    /// What confines the agents' commands to their permissions.
    confinement: Confinement,
    /// Asks people.
    asker: Option<Asker>,
    /// Who is asked about calls, and hooks.
    gates: Option<Gates>,
    /// Carries out the executions of outside agents.
    outside: Option<OutsidePerformer>,
    /// The arbiter's cache.
    cache: Option<DecisionCache>,
    /// Open provider sessions: the arbiter's and the agents' latest. A new conversation takes the place of the old
    /// one, because an old one is never continued.
    arbiter: SessionSlot,
    agent: SessionSlot,
}

type SessionSlot = Mutex<Option<OpenSession>>;

#[derive(Clone)]
struct OpenSession {
    conversation: ConversationId,
    provider: String,
    session: Arc<AsyncMutex<Box<dyn ProviderSession>>>,
}

impl Performer {
    pub(crate) fn new(
        providers: BTreeMap<String, Arc<dyn Provider>>,
        tools: ToolRegistry,
        root: PathBuf,
        agents: &BTreeMap<String, AgentSetup>,
        RunStores { checkpoints, memory }: RunStores,
        guard: Arc<IntegrityGuard>,
        redactor: Arc<Redactor>,
    ) -> Self {
        Self {
            confinement: Confinement::Off,
            providers,
            tools,
            root,
            grants: Mutex::new(grants_of(agents)),
            checkpoints,
            memory,
            runner: guard.runner().clone(),
            guard,
            seen: SeenTrees::default(),
            redactor,
            asker: None,
            gates: None,
            outside: None,
            cache: None,
            arbiter: Mutex::new(None),
            agent: Mutex::new(None),
        }
    }

    /// Confines the agents' commands.
    pub(crate) fn confined(self, confinement: Confinement) -> Self {
        Self { confinement, ..self }
    }

    /// Sets who asks people.
    pub(crate) fn asking(self, asker: Asker) -> Self {
        Self { asker: Some(asker), ..self }
    }

    /// Sets who is asked about calls, and hooks.
    pub(crate) fn with_gates(self, gates: Gates) -> Self {
        Self { gates: Some(gates), ..self }
    }

    /// The same without hooks. The embedding program's function for calls stays.
    pub(crate) fn without_hooks(mut self) -> Self {
        self.gates.iter_mut().for_each(Gates::drop_hooks);
        self
    }

    /// Has the hooks of the run's end run. Returns what went wrong.
    pub(crate) async fn run_end_hooks(&self, status: &str) -> Vec<String> {
        let Some(gates) = &self.gates else { return Vec::new() };
        let before = if gates.may_write_at_the_end() { self.tree().await } else { None };
        let mut problems = gates.at_the_end(status).await.warnings;
        if before.is_some() && self.tree().await != before {
            problems.push(format!(
                "a SessionEnd hook changed files of the project after the run had ended as {status}: no check has seen \
                 them. Look at them, and run your checks again"
            ));
        }
        problems
    }

    /// Sets who carries out the executions of outside agents.
    pub(crate) fn with_outside(self, outside: Option<OutsidePerformer>) -> Self {
        Self { outside, ..self }
    }

    /// Sets the arbiter's cache.
    pub(crate) fn with_cache(self, cache: Option<DecisionCache>) -> Self {
        Self { cache, ..self }
    }

    /// Sets how the verification commands ended before, by the tree that they ran on.
    pub(crate) fn with_seen(self, seen: BTreeMap<String, bool>) -> Self {
        Self { seen: SeenTrees::new(seen), ..self }
    }

    /// Caches a decision for the next run with the same question.
    pub(crate) fn remember(&self, decision: &DecisionRecord) {
        if let Some(cache) = &self.cache {
            cache.remember(decision, now());
        }
    }

    /// Replaces the permissions after a reload.
    pub(crate) fn grant(&self, agents: &BTreeMap<String, AgentSetup>) {
        *self.grants.lock().unwrap_or_else(PoisonError::into_inner) = grants_of(agents);
        self.memory.set_recipients(agents);
        self.outside.iter().for_each(|outside| outside.reconfigure(agents));
    }

    /// Stops running tool calls, without waiting.
    pub(crate) fn interrupt(&self) {
        self.tools.interrupt();
    }

    /// Stops what the tools leave running between calls, without waiting.
    pub(crate) fn end(&self) {
        self.tools.end();
    }

    /// Performs `effect`. Returns `None` if it has no answer. `request` is that of a `CallModel`, and `records` names the
    /// records of the journal that a memory is learned from. `traceparent` is the place of the effect in a trace. Pieces of text
    /// go to the event streams as they arrive.
    pub(crate) async fn perform(
        self: Arc<Self>,
        effect: Effect,
        request: Option<ModelRequest>,
        records: Vec<u64>,
        traceparent: Option<String>,
        signals: Signals,
    ) -> Option<EffectAnswer> {
        Some(match effect {
            Effect::CallModel { provider, conversation, cache_key, .. } => {
                self.call_model(&provider, conversation, request?, cache_key, &signals).await
            }
            Effect::RunTool { agent, call, grants, access, .. } => {
                if access == ToolAccess::Mutating {
                    self.seen.forget_last();
                }
                self.run_tool(GrantedCall { agent, call, access }, grants, traceparent).await
            }
            Effect::RunOutsideAgent { id: _, agent, prompt, access } => {
                self.seen.forget_last();
                let work = Box::new(self.run_outside(&agent, prompt, access, &signals).await);
                EffectAnswer::OutsideAgentEnded { work }
            }
            Effect::AskUser { id: _, question } => {
                let report = |problem: &str| {
                    let _ = signals.send(DriverMessage::Progress(RunEvent::warning(problem)));
                };
                let approval = match &self.asker {
                    Some(asker) => asker.ask(*question, &report).await,
                    None => Approval::Unattended,
                };
                EffectAnswer::ApprovalAnswered { approval }
            }
            Effect::RunHooks { id: _, occasion } => {
                let reply = match &self.gates {
                    Some(gates) => gates.at(&occasion).await,
                    None => HookReply::default(),
                };
                EffectAnswer::HooksAnswered { reply }
            }
            Effect::TakeCheckpoint { iteration, .. } => self.take_checkpoint(iteration, &signals).await,
            Effect::Recall { agent, task, step, .. } => {
                Arc::clone(&self.memory).recall(agent, task, step).await
            }
            Effect::Remember { agent, iteration, draft, files, .. } => {
                let source = MemoryOrigin { agent, iteration, files, records };
                Arc::clone(&self.memory).remember(*draft, source).await
            }
            Effect::InspectTree { iteration, .. } => self.inspect_tree(iteration).await,
            Effect::Verify {
                id: _,
                commands,
                others,
                timeout_ms,
                tests,
                changed_checks,
                seen_red,
                found,
                adopted,
            } => {
                let timeout = Duration::from_millis(timeout_ms);
                let plan = VerifyPlan { commands, timeout, tests, changed_checks, found, adopted };
                self.verify(&plan, others, seen_red).await
            }
            Effect::StartTimer { after_ms, .. } => {
                tokio::time::sleep(Duration::from_millis(after_ms)).await;
                EffectAnswer::TimerFired
            }
            Effect::Abandon { .. } | Effect::Finish { .. } => return None,
        })
    }

    async fn run_outside(
        &self,
        agent: &str,
        prompt: String,
        access: ToolAccess,
        signals: &Signals,
    ) -> OutsideWork {
        let Some(outside) = &self.outside else {
            let message = format!("`{agent}` is an ACP agent, and this rawko was built without ACP");
            return OutsideWork::failed(ErrorInfo::new(ErrorCode::ConfigError, message));
        };
        let (root, confinement, redactor) = (&*self.root, &self.confinement, &*self.redactor);
        outside.run(agent, prompt, access, OutsidePlace { root, confinement, redactor, signals }).await
    }

    async fn call_model(
        &self,
        provider: &str,
        conversation: ConversationId,
        request: ModelRequest,
        cache_key: Option<String>,
        signals: &Signals,
    ) -> EffectAnswer {
        let begun = Instant::now();
        let known = cache_key.and_then(|key| self.cache.as_ref()?.get(&key, now()));
        if let Some(decision) = known {
            return EffectAnswer::ModelReplied {
                message: cached_answer(&decision),
                usage: Usage::default(),
                stop_reason: StopReason::ToolUse,
                duration_ms: elapsed_ms(begun),
                cached: true,
            };
        }
        let speaker = request.purpose.to_string();
        // A provider of the embedding program may panic. Without an answer the run would wait forever.
        let asked = AssertUnwindSafe(async {
            let session = self.session(provider, conversation, &request.purpose)?;
            let mut session = session.lock().await;
            reply(session.as_mut(), request, &speaker, signals, &self.redactor).await
        });
        let reply = asked.catch_unwind().await.unwrap_or_else(|_| {
            let message =
                format!("the provider `{provider}` broke: a fault of the provider, not of the request");
            Err(ErrorInfo::new(ErrorCode::Unknown, message).into())
        });
        let duration_ms = elapsed_ms(begun);
        match &reply {
            Ok(StreamedReply { usage, stop_reason, .. }) => {
                let (input, output) = (usage.prompt_tokens(), usage.output_tokens);
                tracing::info!(provider, speaker, duration_ms, input, output, ?stop_reason, "model replied");
            }
            // Its message may quote what was asked.
            Err(NoReply { error, .. }) => {
                tracing::warn!(provider, speaker, duration_ms, code = error.code.as_str(), "model failed");
            }
        }
        match reply {
            Ok(StreamedReply { message, usage, stop_reason }) => {
                EffectAnswer::ModelReplied { message, usage, stop_reason, duration_ms, cached: false }
            }
            Err(NoReply { error, usage }) => EffectAnswer::ModelFailed { error: *error, duration_ms, usage },
        }
    }

    fn session(
        &self,
        provider: &str,
        conversation: ConversationId,
        purpose: &Purpose,
    ) -> Result<Arc<AsyncMutex<Box<dyn ProviderSession>>>, ErrorInfo> {
        let slot = match purpose {
            Purpose::Select | Purpose::Evaluate | Purpose::Remember { .. } => &self.arbiter,
            Purpose::Agent { .. } | Purpose::Summarize { .. } => &self.agent,
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = slot.as_ref()
            && open.conversation == conversation
            && open.provider == provider
        {
            return Ok(Arc::clone(&open.session));
        }
        let source = self.providers.get(provider).ok_or_else(|| {
            ErrorInfo::new(ErrorCode::ConfigError, format!("no provider `{provider}` is configured"))
        })?;
        let session = Arc::new(AsyncMutex::new(source.open()));
        let open = OpenSession { conversation, provider: provider.to_owned(), session: Arc::clone(&session) };
        *slot = Some(open);
        Ok(session)
    }

    async fn take_checkpoint(&self, iteration: u32, signals: &Signals) -> EffectAnswer {
        let checkpoints = self.checkpoints.clone();
        match rawko_tools::on_thread(move || checkpoints.take(iteration)).await {
            Ok(Ok(checkpoint)) => {
                // Before anything is changed.
                if let Some(baseline) = self.guard.begin().await {
                    let _ = signals.send(DriverMessage::Accompany(baseline));
                }
                EffectAnswer::CheckpointTaken { checkpoint }
            }
            Ok(Err(error)) => EffectAnswer::CheckpointFailed { message: error.to_string() },
            Err(error) => EffectAnswer::CheckpointFailed { message: error.to_string() },
        }
    }

    /// Saves the tree at the end of the run, if the run changed anything. `diff` and `rewind` use it if it is there, and
    /// work without it.
    pub(crate) async fn keep_end(self: Arc<Self>) {
        let checkpoints = self.checkpoints.clone();
        let _ = rawko_tools::on_thread(move || checkpoints.take_end()).await;
    }

    async fn run_tool(
        &self,
        granted: GrantedCall,
        approved: Vec<Refusal>,
        traceparent: Option<String>,
    ) -> EffectAnswer {
        let GrantedCall { agent, call, access: _ } = granted.clone();
        let context = self.context(&agent).map(|context| ToolContext { approved, traceparent, ..context });
        let tool = call.name.clone();
        let outcome = match context {
            Some(context) => {
                let made = self.redactor.call_tool(&self.tools, call, &context);
                let mask = |outcome: &mut ToolOutcome| self.redactor.outcome(outcome);
                match &self.gates {
                    Some(gates) => gates.around(granted, &context, mask, made).await,
                    None => made.await,
                }
            }
            // Absent lists of permissions mean the whole project; an unknown agent gets nothing at all.
            None => ToolOutcome::error(
                ErrorCode::PermissionError,
                format!("agent `{agent}` is not configured, so nothing is granted to it"),
            ),
        };
        let ToolOutcome { is_error, duration_ms, exit_code, .. } = outcome;
        tracing::info!(agent, tool, is_error, duration_ms, exit_code, "tool finished");
        EffectAnswer::ToolFinished { outcome }
    }

    /// Cleans up after a call that an earlier process did not finish.
    pub(crate) fn clear_up(&self, agent: &str, call: &ToolCall) {
        if let Some(context) = self.context(agent) {
            self.tools.abandoned(&call.name, &call.input, &context);
        }
    }

    /// The folders outside the project that agents may write to.
    pub(crate) fn granted_outside(&self) -> Vec<PathBuf> {
        let grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        let access = grants.values().filter_map(|granted| FileAccess::new(&self.root, granted).ok());
        access.flat_map(|access| access.writable_outside()).collect()
    }

    fn context(&self, agent: &str) -> Option<ToolContext> {
        let permissions = self.grants.lock().unwrap_or_else(PoisonError::into_inner).get(agent).cloned()?;
        let (root, agent) = (self.root.clone(), agent.to_owned());
        let confinement = self.confinement.clone();
        let progress = Arc::new(|_: &str| {});
        let (approved, traceparent) = (Vec::new(), None);
        Some(ToolContext { root, agent, permissions, approved, confinement, traceparent, progress })
    }
}

fn grants_of(agents: &BTreeMap<String, AgentSetup>) -> Grants {
    let granted = |agent: &AgentSetup| Arc::new(permissions_of_calls(&agent.config, &agent.permissions));
    agents.iter().map(|(name, agent)| (name.clone(), granted(agent))).collect()
}

struct StreamedReply {
    message: rawko_core::message::Message,
    usage: rawko_core::Usage,
    stop_reason: rawko_core::message::StopReason,
}

/// A failed call, with the tokens that it consumed.
struct NoReply {
    error: Box<ErrorInfo>,
    usage: Option<Usage>,
}

impl From<ErrorInfo> for NoReply {
    fn from(error: ErrorInfo) -> Self {
        Self { error: Box::new(error), usage: None }
    }
}

async fn reply(
    session: &mut dyn ProviderSession,
    request: ModelRequest,
    speaker: &str,
    signals: &Signals,
    redactor: &Redactor,
) -> Result<StreamedReply, NoReply> {
    let mut pieces = RedactedStream::new(redactor);
    let send = |text: String| {
        if !text.is_empty() {
            let _ = signals
                .send(DriverMessage::Progress(RunEvent::TextDelta { agent: speaker.to_owned(), text }));
        }
    };
    let mut stream = session.send(request);
    while let Some(event) = stream.next().await {
        match event {
            ProviderEvent::TextDelta(text) => send(pieces.push(&text)),
            ProviderEvent::Retrying { mut error, attempt, after_ms } => {
                redactor.error(&mut error);
                let event = RunEvent::waiting(&error, attempt, after_ms, now()).unwrap_or_else(|| {
                    RunEvent::warning(format!("{}: {}; attempt {attempt} follows", error.code, error.message))
                });
                let _ = signals.send(DriverMessage::Progress(event));
            }
            ProviderEvent::ThinkingDelta(_)
            | ProviderEvent::ToolUseStart { .. }
            | ProviderEvent::ToolUseInput { .. }
            | ProviderEvent::ToolUseEnd { .. } => {}
            ProviderEvent::MessageDone { message, usage, stop_reason } => {
                send(pieces.finish());
                return Ok(StreamedReply { message, usage, stop_reason });
            }
            ProviderEvent::Error { error, usage } => {
                return Err(NoReply { error: Box::new(error), usage });
            }
        }
    }
    Err(ErrorInfo::new(ErrorCode::NetworkError, "the provider's stream ended without an answer").into())
}

fn elapsed_ms(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}
