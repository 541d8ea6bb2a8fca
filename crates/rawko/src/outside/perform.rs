//! Performs the execution of an outside agent: starts its program, has it spoken with, and ends it.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use rawko_core::agent::outside::{OutsideAct, OutsideAsked, OutsideEnd, OutsideWork};
use rawko_core::agent::{AcpProgram, AgentConfig, Permissions};
use rawko_core::setup::AgentSetup;
use rawko_core::text::keep_ends;
use rawko_core::tool::ToolAccess;
use rawko_core::{ErrorCode, ErrorInfo};
use rawko_tools::{Confinement, ServerProcess, ServerProgram};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use super::{OutsideAgents, OutsideTask, OutsideWatcher};
use crate::channel::control::{DriverMessage, Signals};
use crate::redact::{RedactedStream, Redactor};
use crate::run::event::RunEvent;
use crate::setup::assemble::Environment;

/// How long a program that was ended may take to be gone. The tree is compared after that.
const GONE_WITHIN: Duration = Duration::from_secs(10);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long the end of a program may take to be known after its line has closed.
const KNOWN_WITHIN: Duration = Duration::from_secs(1);
/// Bytes of its standard error in a message.
const STDERR_SHOWN: usize = 2_000;
/// Bytes of its last message that are kept.
const TEXT_KEPT: usize = 24_000;
/// Bytes of its text that are shown while it works. Nobody reads more, and the run must not be held up.
const TEXT_SHOWN: usize = 1024 * 1024;
/// Questions that are recorded. Later ones are answered all the same.
const QUESTIONS: usize = 200;
/// The folder of rawko's own state in a project.
const OWN_STATE: &str = ".rawko";

/// What carries out the executions of outside agents in one run.
pub(crate) struct OutsidePerformer {
    agents: Arc<dyn OutsideAgents>,
    environment: Environment,
    configured: Mutex<BTreeMap<String, OutsideAgent>>,
}

/// An outside agent, and what it may touch.
#[derive(Clone)]
struct OutsideAgent {
    config: AgentConfig,
    granted: Permissions,
}

/// What an execution needs of its run.
pub(crate) struct OutsidePlace<'a> {
    pub(crate) root: &'a Path,
    pub(crate) confinement: &'a Confinement,
    pub(crate) redactor: &'a Redactor,
    pub(crate) signals: &'a Signals,
}

impl OutsidePerformer {
    pub(crate) fn new(
        agents: Arc<dyn OutsideAgents>,
        environment: Environment,
        configured: &BTreeMap<String, AgentSetup>,
    ) -> Self {
        Self { agents, environment, configured: Mutex::new(outside_of(configured)) }
    }

    /// Replaces the agents after a reload.
    pub(crate) fn reconfigure(&self, configured: &BTreeMap<String, AgentSetup>) {
        *self.configured.lock().unwrap_or_else(PoisonError::into_inner) = outside_of(configured);
    }

    /// Carries out one execution of `name`.
    pub(crate) async fn run(
        &self,
        name: &str,
        prompt: String,
        access: ToolAccess,
        place: OutsidePlace<'_>,
    ) -> OutsideWork {
        let begun = Instant::now();
        let worked = match self.begin(name, access, &place).await {
            Ok((program, line, agent)) => self.work(name, (program, line, agent), prompt, &place).await,
            Err(error) => OutsideWork::failed(error),
        };
        let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        OutsideWork { duration_ms, ..worked }
    }

    /// Starts the agent's program.
    async fn begin(
        &self,
        name: &str,
        access: ToolAccess,
        place: &OutsidePlace<'_>,
    ) -> Result<(ServerProcess, UnixStream, OutsideAgent), ErrorInfo> {
        let wrong = |message: String| ErrorInfo::new(ErrorCode::ConfigError, message);
        let configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let agent = configured.ok_or_else(|| wrong(format!("the ACP agent `{name}` is not configured")))?;
        let acp = agent.config.acp.clone().unwrap_or_default();
        let is_held = matches!(place.confinement, Confinement::Sandboxed(_));
        if access == ToolAccess::ReadOnly && !is_held {
            return Err(wrong(format!(
                "the agent `{name}` may change no files, and without a sandbox nothing would hold its program to that: \
                 run with the sandbox, or give it Edit under tools.allowed"
            )));
        }
        let program = self.program(name, &acp, access, &agent.granted, place.root).map_err(wrong)?;
        let (root, confinement) = (place.root.to_owned(), place.confinement.clone());
        let started =
            tokio::task::spawn_blocking(move || ServerProcess::start(&program, &root, &confinement)).await;
        let started = started.unwrap_or_else(|error| Err(error.to_string()));
        let not_started = |why: String| wrong(format!("the ACP agent `{name}` could not be started: {why}"));
        let (process, line) = started.map_err(not_started)?;
        let line = line.set_nonblocking(true).and_then(|()| UnixStream::from_std(line));
        let line = line.map_err(|error| not_started(error.to_string()))?;
        Ok((process, line, agent))
    }

    /// The program with all that it is given.
    fn program(
        &self,
        name: &str,
        acp: &AcpProgram,
        access: ToolAccess,
        granted: &Permissions,
        root: &Path,
    ) -> Result<ServerProgram, String> {
        let (program, arguments) = acp.command.split_first().ok_or("its `acp.command` is empty")?;
        let mut variables: Vec<(String, String)> = acp.env.clone().into_iter().collect();
        if let Some(key) = &acp.key {
            let value = (self.environment)(key).filter(|value| !value.trim().is_empty());
            let value = value.ok_or_else(|| format!("{key}, which it is to be given, is not set"))?;
            variables.push((key.clone(), value));
        }
        Ok(ServerProgram {
            name: format!("acp agent {name}"),
            program: PathBuf::from(program),
            arguments: arguments.to_vec(),
            variables,
            directory: root.to_owned(),
            permissions: Arc::new(permissions(granted, acp, access)),
        })
    }

    /// Has the program do its work, and ends it.
    async fn work(
        &self,
        name: &str,
        (program, line, agent): (ServerProcess, UnixStream, OutsideAgent),
        prompt: String,
        place: &OutsidePlace<'_>,
    ) -> OutsideWork {
        let (said, mut heard) = mpsc::unbounded_channel();
        let watcher = Arc::new(Watcher { config: agent.config, said, asked: Mutex::default() });
        let task = OutsideTask {
            prompt,
            directory: place.root.to_owned(),
            watcher: Arc::clone(&watcher) as Arc<dyn OutsideWatcher>,
        };
        let mut pieces = RedactedStream::new(place.redactor);
        let mut left = TEXT_SHOWN;
        let mut show = |text: String| {
            if !text.is_empty() && text.len() <= left {
                left -= text.len();
                let event = RunEvent::TextDelta { agent: name.to_owned(), text };
                let _ = place.signals.send(DriverMessage::Progress(event));
            }
        };
        // An implementation of the embedding program may panic. Without an answer the run would wait forever.
        let work = AssertUnwindSafe(self.agents.work(line, task)).catch_unwind();
        tokio::pin!(work);
        let worked = loop {
            tokio::select! {
                biased;
                Some(text) = heard.recv() => show(pieces.push(&text)),
                worked = &mut work => break worked,
            }
        };
        while let Ok(text) = heard.try_recv() {
            show(pieces.push(&text));
        }
        show(pieces.finish());
        let mut worked = worked.unwrap_or_else(|_| {
            let message = "what speaks with ACP agents broke: a fault of this program, not of the agent";
            OutsideWork::failed(ErrorInfo::new(ErrorCode::Unknown, message))
        });
        if let OutsideEnd::Failed { error } = &mut worked.end {
            wait_for_end(&program, KNOWN_WITHIN).await;
            error.message = format!("the ACP agent `{name}` failed: {}{}", error.message, ended(&program));
        }
        program.kill();
        wait_for_end(&program, GONE_WITHIN).await;
        worked.text = keep_ends(&worked.text, TEXT_KEPT);
        worked.asked = std::mem::take(&mut *watcher.asked.lock().unwrap_or_else(PoisonError::into_inner));
        tracing::info!(agent = name, asked = worked.asked.len(), end = ?worked.end, "outside agent ended");
        worked
    }
}

fn outside_of(configured: &BTreeMap<String, AgentSetup>) -> BTreeMap<String, OutsideAgent> {
    let outside = configured.iter().filter(|(_, agent)| agent.config.acp.is_some());
    let with_grants = outside.map(|(name, agent)| {
        (name.clone(), OutsideAgent { config: agent.config.clone(), granted: agent.permissions.clone() })
    });
    with_grants.collect()
}

/// What the program may touch: the project as far as its agent may, nothing of rawko's own state, and the hosts that it needs.
fn permissions(granted: &Permissions, acp: &AcpProgram, access: ToolAccess) -> Permissions {
    let mut deny = granted.deny.clone().unwrap_or_default();
    if !deny.iter().any(|path| path == OWN_STATE) {
        deny.push(OWN_STATE.to_owned());
    }
    Permissions {
        write: match access {
            ToolAccess::Mutating => granted.write.clone(),
            ToolAccess::ReadOnly => Some(Vec::new()),
        },
        deny: Some(deny),
        net: Some(acp.net.clone()),
        env: Some(Vec::new()),
        ..granted.clone()
    }
}

/// How the program ended by itself, and what it wrote to its standard error; empty where there is nothing to say.
fn ended(program: &ServerProcess) -> String {
    let mut text = String::new();
    if let Some(end) = program.end() {
        text.push_str(&format!("; its program ended: {end}"));
    }
    let stderr = program.stderr();
    if !stderr.is_empty() {
        text.push_str(&format!("; its standard error:\n{}", keep_ends(&stderr, STDERR_SHOWN)));
    }
    text
}

async fn wait_for_end(program: &ServerProcess, most: Duration) {
    let deadline = Instant::now() + most;
    while program.end().is_none() && Instant::now() < deadline {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Passes on what the program says, and answers what it asks.
struct Watcher {
    config: AgentConfig,
    said: mpsc::UnboundedSender<String>,
    asked: Mutex<Vec<OutsideAsked>>,
}

impl OutsideWatcher for Watcher {
    fn said(&self, text: &str) {
        let _ = self.said.send(text.to_owned());
    }

    fn may(&self, act: OutsideAct, title: &str) -> bool {
        let asked = OutsideAsked::judged(&self.config, act, title);
        let allowed = asked.allowed;
        let mut all = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < QUESTIONS {
            all.push(asked);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_tree_its_hosts_and_nothing_of_rawkos_own() {
        let granted = Permissions {
            deny: Some(vec!["secrets".to_owned()]),
            net: Some(vec!["of-the-project.example".to_owned()]),
            ..Permissions::default()
        };
        let acp = AcpProgram { net: vec!["api.example.com".to_owned()], ..AcpProgram::default() };
        let of = |access| permissions(&granted, &acp, access);
        let writer = of(ToolAccess::Mutating);
        assert_eq!(writer.write, None, "the project is the default");
        assert_eq!(writer.net, Some(vec!["api.example.com".to_owned()]));
        assert_eq!(writer.deny, Some(vec!["secrets".to_owned(), ".rawko".to_owned()]));
        assert_eq!(of(ToolAccess::ReadOnly).write, Some(Vec::new()));
    }
}
