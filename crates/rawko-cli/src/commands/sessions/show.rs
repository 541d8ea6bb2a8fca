//! `rawko sessions show`: the events of a session, derived from its journal.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use rawko::journal::{Journal, JournalHeader, Record, SessionStore, read, session_cost, tasks};
use rawko::{InstructionsRead, RunEvent};
use rawko_core::session::{Effect, EffectAnswer, Event, Outcome, Session, Stamped};
use rawko_core::setup::Setup;
use serde_json::json;

use super::{broken, find};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Clock;
use crate::reporters::{Plain, Reporter as _, Summary, Verbosity};
use crate::verify_args::VerifyArgs;
use crate::workspace::Workspace;

/// Shows the events of a session.
pub(super) fn show(
    workspace: &Workspace,
    store: &SessionStore,
    id: &str,
    verbose: bool,
    as_json: bool,
) -> Result<Exit, Failure> {
    let path = find(store, id)?;
    let journal = read(&path).map_err(broken)?;
    let history = History::of(&journal, &path);
    let console = &workspace.console;
    if as_json {
        let tasks = tasks(&journal);
        console.json(&json!({
            "header": journal.header,
            "journal": path,
            "tornBytes": journal.torn_bytes,
            "outcome": history.outcome,
            "costUsd": session_cost(&tasks),
            "tasks": tasks,
            "events": history.events,
        }))?;
        return Ok(Exit::Success);
    }
    let verbosity = if verbose { Verbosity::Verbose } else { Verbosity::Normal };
    let mut reporter = Plain::new(console.paint(), verbosity, Clock::local(), io::stdout());
    for event in &history.events {
        reporter.event(event)?;
    }
    if journal.torn_bytes > 0 {
        reporter.notice(&format!(
            "the last record is incomplete and was left out: {} bytes, after a power cut or on a full disk",
            journal.torn_bytes
        ))?;
    }
    reporter.close()?;
    let summary =
        history.events.last().and_then(|event| Summary::of(event, Some(path.display().to_string()), false));
    match summary {
        Some(summary) => {
            let summary = Summary { not_kept: not_kept(workspace, &history.verify), ..summary };
            console.write(&format!("\n{}", summary.text(console.paint())))?;
        }
        None => {
            let waits = match history.is_waiting {
                true => " It waits for an approval: `rawko approve` shows it.",
                false => "",
            };
            console
                .write(&format!("\nThe session has not ended: it is running or was interrupted.{waits}\n"))?;
        }
    }
    Ok(Exit::Success)
}

/// The options that a command which goes on with the session has to repeat.
fn not_kept(workspace: &Workspace, verify: &[String]) -> String {
    // Where the configuration has errors, the command that goes on says so.
    let Ok(rawko) = workspace.builder().build() else { return String::new() };
    VerifyArgs::recorded(verify, &rawko.verification_plan()).as_options()
}

/// The events of a session as a live run would have sent them.
struct History {
    events: Vec<RunEvent>,
    /// The verification commands of its last task.
    verify: Vec<String>,
    outcome: Option<Outcome>,
    /// Whether it waits for a person.
    is_waiting: bool,
}

impl History {
    /// Folds the journal's events once more.
    fn of(journal: &Journal, path: &Path) -> Self {
        let id = &journal.header.session;
        let mut history = Self { events: Vec::new(), verify: Vec::new(), outcome: None, is_waiting: false };
        let mut session = Session::new();
        let mut speakers = BTreeMap::new();
        for record in &journal.records {
            let Record::Event(stamped) = record else { continue };
            history.events.extend(reported(stamped, &journal.header, path, &speakers));
            let reaction = session.apply(stamped);
            if !session.state().is_final() {
                history.outcome = None;
            }
            history.events.extend(reaction.notes.iter().cloned().map(RunEvent::Note));
            for effect in &reaction.effects {
                history.events.extend(RunEvent::of_effect(effect, &session, stamped.at));
                if let Effect::CallModel { id, purpose, .. } = effect {
                    speakers.insert(*id, purpose.to_string());
                }
                if let Some(outcome) = effect.outcome() {
                    // The end again, now that it is known what was changed.
                    if matches!(stamped.event, Event::FinalTreeInspected { .. }) {
                        history.events.pop();
                    }
                    history.events.push(RunEvent::finished(id, outcome.clone()));
                    history.outcome = Some(outcome.clone());
                }
            }
        }
        history.is_waiting = session.open_question().is_some();
        let verify = session.setup().and_then(|setup| setup.verify.as_ref());
        history.verify = verify.map(|verify| verify.commands.clone()).unwrap_or_default();
        history
    }
}

/// The live event for a journaled event itself, before its notes.
fn reported(
    stamped: &Stamped,
    header: &JournalHeader,
    path: &Path,
    speakers: &BTreeMap<rawko_core::session::EffectId, String>,
) -> Option<RunEvent> {
    let started = |task: &str, setup: &Setup, continued: bool| RunEvent::SessionStarted {
        session: header.session.clone(),
        task: task.to_owned(),
        at: stamped.at,
        agents: setup.agents.keys().cloned().collect(),
        journal: path.display().to_string(),
        resumed: continued,
        continued,
        forked_from: header.forked_from.clone(),
        dry_run: false,
        limits: Some(setup.limits),
        degraded: header.degraded.clone(),
        confined: header.confined.clone(),
        instructions: InstructionsRead::of(&setup.place),
        skills: setup.place.skills.iter().map(|skill| skill.name.clone()).collect(),
    };
    match &stamped.event {
        Event::TaskStarted { task, setup, .. } => Some(started(task, setup, false)),
        Event::TaskContinued { task, setup, .. } => Some(started(task, setup, true)),
        Event::TaskTakenUp { .. } => {
            Some(RunEvent::warning("the task was taken up again, with these limits"))
        }
        Event::Answered { effect, answer: EffectAnswer::ModelReplied { message, .. } } => {
            let text = message.text();
            let agent = speakers.get(effect).cloned().unwrap_or_default();
            (!text.trim().is_empty()).then_some(RunEvent::TextDelta { agent, text })
        }
        Event::Answered { answer: EffectAnswer::ModelFailed { error, .. }, .. } => {
            Some(RunEvent::Error { error: error.clone() })
        }
        Event::CancelRequested { reason } => {
            Some(RunEvent::warning(format!("the run was asked to stop: {reason}")))
        }
        Event::AgentsReloaded { .. } => {
            Some(RunEvent::warning("the configuration changed; the new one applies from now on"))
        }
        Event::SessionResumed { .. } => Some(RunEvent::warning("another process resumed the session")),
        Event::Answered { answer: EffectAnswer::ToolFinished { .. }, .. }
        | Event::Answered { answer: EffectAnswer::ApprovalAnswered { .. }, .. }
        | Event::Answered { answer: EffectAnswer::CheckpointTaken { .. }, .. }
        | Event::Answered { answer: EffectAnswer::CheckpointFailed { .. }, .. }
        | Event::Answered { answer: EffectAnswer::TreeInspected { .. }, .. }
        | Event::Answered { answer: EffectAnswer::MemoriesRecalled { .. }, .. }
        | Event::Answered { answer: EffectAnswer::MemoryKept { .. }, .. }
        | Event::Answered { answer: EffectAnswer::TreeInspectionFailed { .. }, .. }
        | Event::Answered { answer: EffectAnswer::VerificationFinished { .. }, .. }
        | Event::Answered { answer: EffectAnswer::TimerFired, .. }
        | Event::Answered { answer: EffectAnswer::EffectLost, .. }
        | Event::FinalTreeInspected { .. }
        | Event::RanBeside { .. }
        | Event::OverrideRequested { .. } => None,
    }
}
