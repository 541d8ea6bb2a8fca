//! One prompt, from what the client gives to the reason why it stopped. The first prompt of a session begins it, a further
//! one is its next task. Where a task was left in its middle, because the session was closed, the client gone or the process
//! killed, the prompt takes that task up again and is said to the agents.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{Meta, PromptRequest, PromptResponse, SessionId, StopReason};
use rawko::journal::{SessionStatus, SessionStore};
use rawko::{Attachment, Notifications, Outcome, Rawko, RawkoBuilder, Run, Status};
use rawko_core::session::{LimitKind, SAID_BYTES};
use rawko_core::setup::Setup;
use serde_json::json;

use super::fault::{AcpFault, broken};
use super::input::PromptInput;
use super::outbox::Outbox;
use super::permission::{BY, ClientAsker};
use super::server::AcpServer;
use super::servers;
use super::session::{OpenSession, PromptTurn};
use super::tool_calls::CallNames;
use super::updates::{maker, thought};

/// How long the last spans of a run may take.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// What is left to do after the answer to a prompt.
pub(super) type Afterwards = Box<dyn FnOnce() + Send>;

/// A run that is ready to be carried out.
struct ReadyRun {
    run: Run,
    tree: PathBuf,
    agents: BTreeMap<String, Option<u32>>,
}

/// Carries out a prompt.
pub(super) async fn carry_out(
    server: &Arc<AcpServer>,
    known: OpenSession,
    turn: &PromptTurn,
    request: PromptRequest,
    outbox: Outbox,
) -> Result<(PromptResponse, Afterwards), Error> {
    let (blocks, folder) = (request.prompt, known.folder.clone());
    let input = blocking(move || PromptInput::read(blocks, &folder)).await??;
    let names = CallNames::default();
    let asker = ClientAsker {
        connection: outbox.connection.clone(),
        session: request.session_id.clone(),
        names: names.clone(),
        tree: known.folder.clone(),
    };
    if !known.is_asked {
        for problem in ask_about_servers(server, &known, &asker).await? {
            // A client that is gone stops the turn itself.
            let _ = outbox.send(thought(&format!("warning: {problem}"))).await;
        }
        server.sessions.asked(&request.session_id);
    }
    if turn.is_stopped() {
        return Ok((PromptResponse::new(StopReason::Cancelled), Box::new(|| {})));
    }
    let (id, there) = (request.session_id.clone(), Arc::clone(server));
    let ready = blocking(move || prepare(&there, &known, &id, input, &asker)).await??;
    drive(ready, turn, names, &outbox, server.has_terminals()).await
}

/// Builds what a prompt runs with. Blocks.
fn build(
    server: &AcpServer,
    known: &OpenSession,
    asker: &ClientAsker,
    given: impl FnOnce(RawkoBuilder) -> RawkoBuilder,
) -> Result<Rawko, AcpFault> {
    let asker = asker.clone();
    let mut builder = (server.host.builder)(&known.folder)?
        .on_approval(BY, move |question| asker.clone().approval(question));
    if let Some(agent) = known.modes.agent() {
        builder = builder.first_agent(agent);
    }
    for (name, server) in &known.handed.servers {
        builder = builder.mcp_server(name, server.clone());
    }
    given(builder).build().map_err(|error| (server.host.explain)(error, &known.folder))
}

async fn ask_about_servers(
    server: &Arc<AcpServer>,
    known: &OpenSession,
    asker: &ClientAsker,
) -> Result<Vec<String>, Error> {
    if known.handed.servers.is_empty() {
        return Ok(known.handed.problems.clone());
    }
    let (there, session, for_build) = (Arc::clone(server), known.clone(), asker.clone());
    let rawko = blocking(move || build(&there, &session, &for_build, |builder| builder)).await??;
    Ok(servers::approve(&rawko, &known.handed, asker).await)
}

/// Prepares the run of a prompt. Blocks.
fn prepare(
    server: &AcpServer,
    known: &OpenSession,
    id: &SessionId,
    input: PromptInput,
    asker: &ClientAsker,
) -> Result<ReadyRun, AcpFault> {
    let explain = |error| (server.host.explain)(error, &known.folder);
    let PromptInput { task, attachments } = input;
    let store = SessionStore::of_project(&(server.host.project)(&known.folder)?);
    let recorded = store.list().map_err(|error| explain(error.into()))?;
    let status = recorded.iter().find(|session| session.id == *id.0).map(|session| session.status);
    if status == Some(SessionStatus::Running) {
        let hint = format!("wait for its end, or stop it: rawko cancel {id}");
        return Err(AcpFault::of_request(format!("another process runs session {id}")).with_hint(Some(&hint)));
    }
    let is_interrupted = status == Some(SessionStatus::Unfinished);
    let (words, given) =
        if is_interrupted { (said(&task, &attachments)?, Vec::new()) } else { (task, attachments) };
    let rawko = build(server, known, asker, |builder| builder.attach(given).session_id(&*id.0))?;
    let run = match status {
        None => rawko.run(&words),
        Some(_) if is_interrupted => rawko.resume(Some(&id.0)),
        Some(_) => rawko.continue_session(Some(&id.0), &words),
    };
    let run = run.map_err(explain)?;
    if is_interrupted {
        drop(run.control().say(&words));
    }
    let tree = run.tree().unwrap_or(rawko.tree()).to_owned();
    let agents = windows(&rawko.setup().map_err(explain)?);
    Ok(ReadyRun { run, tree, agents })
}

/// What is said to the agents of an interrupted task: a prompt with its files, as one text. They are shown nothing cut.
fn said(task: &str, attachments: &[Attachment]) -> Result<String, AcpFault> {
    if attachments.iter().any(|attachment| attachment.image.is_some()) {
        let fault = AcpFault::of_request(
            "the session was interrupted in the middle of a task, which takes no pictures",
        );
        return Err(fault.with_hint(Some("let it end first: say `go on`; then give the picture")));
    }
    let mut text = task.to_owned();
    for attachment in attachments {
        text.push_str(&format!("\n\n{}:\n{}", attachment.name, attachment.text));
    }
    if text.trim().len() > SAID_BYTES {
        let fault = AcpFault::of_request(format!(
            "the session was interrupted in the middle of a task, to which at most {} KiB can be said; the prompt has {} KiB \
             with its files",
            SAID_BYTES / 1024,
            text.len().div_ceil(1024)
        ));
        let hint = "say less, and name files of the project without giving them; or let the task end first: say `go on`";
        return Err(fault.with_hint(Some(hint)));
    }
    Ok(text)
}

/// Carries a run to its end, and shows it.
async fn drive(
    ready: ReadyRun,
    turn: &PromptTurn,
    names: CallNames,
    outbox: &Outbox,
    has_terminals: bool,
) -> Result<(PromptResponse, Afterwards), Error> {
    let ReadyRun { mut run, tree, agents } = ready;
    let mut maker = maker(&tree, agents, has_terminals);
    maker.names = names;
    let session = run.session_id().to_owned();
    let (mut events, notifications, telemetry) = (run.events(), run.take_notifications(), run.telemetry());
    turn.begin(run.control());
    let finished = tokio::spawn(run.finish());
    let mut is_gone = false;
    while let Some(event) = events.next().await {
        for update in maker.of(&event) {
            // Nobody sees it any more, and the run goes on to its end.
            is_gone = is_gone || outbox.send(update).await.is_err();
        }
    }
    let (reason, status) = match finished.await.map_err(broken)? {
        Ok(outcome) => {
            let files = &outcome.files_modified;
            (reason(&outcome), json!({"session": session, "status": outcome.status, "filesModified": files}))
        }
        // For the client the prompt is over, and the task is not.
        Err(rawko::Error::Suspended { session }) => {
            (StopReason::Cancelled, json!({"session": session, "status": "suspended"}))
        }
        Err(error) => return Err(broken(error)),
    };
    let meta: Meta = [("rawko".to_owned(), status)].into_iter().collect();
    let response = PromptResponse::new(reason).meta(meta);
    let afterwards = move || {
        // A notification or a span that was not sent is no matter of the client's.
        drop(notifications.map(Notifications::finish));
        drop(telemetry.and_then(|telemetry| telemetry.wait(LAST_SPANS)));
    };
    Ok((response, Box::new(afterwards)))
}

/// Why a turn ended, in the protocol's words. It has none for a failure: the last words of the turn say that it failed.
fn reason(outcome: &Outcome) -> StopReason {
    match (outcome.status, outcome.limit) {
        (Status::Cancelled, _) => StopReason::Cancelled,
        (Status::Limited, Some(LimitKind::Tokens)) => StopReason::MaxTokens,
        (Status::Limited, _) => StopReason::MaxTurnRequests,
        (Status::Verified | Status::Claimed | Status::Failed, _) => StopReason::EndTurn,
    }
}

/// The agents of a setup, with the windows of their models.
pub(super) fn windows(setup: &Setup) -> BTreeMap<String, Option<u32>> {
    setup.agents.iter().map(|(name, agent)| (name.clone(), agent.model.context_window)).collect()
}

/// Does work that blocks on a thread for it.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(broken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rawko::{ErrorCode, ErrorInfo};
    use rawko_core::message::Image;

    #[test]
    fn reasons_are_those_of_the_protocol() {
        let failed = Outcome::failed(ErrorInfo::new(ErrorCode::Unknown, ""));
        let limited = |limit| Outcome { status: Status::Limited, limit: Some(limit), ..failed.clone() };
        assert_eq!(reason(&limited(LimitKind::Tokens)), StopReason::MaxTokens);
        assert_eq!(reason(&limited(LimitKind::Cost)), StopReason::MaxTurnRequests);
        assert_eq!(reason(&Outcome { status: Status::Cancelled, ..failed.clone() }), StopReason::Cancelled);
        assert_eq!(reason(&failed), StopReason::EndTurn);
    }

    #[test]
    fn what_is_said_to_an_interrupted_task_is_text_and_not_too_long() {
        let text = Attachment { name: "a.txt".into(), text: "A".into(), image: None };
        assert_eq!(said("Go on.", std::slice::from_ref(&text)).unwrap(), "Go on.\n\na.txt:\nA");
        let image = Some(Image { media_type: "image/png".into(), data: String::new() });
        assert!(said("Go on.", &[Attachment { image, ..text.clone() }]).is_err());
        let most = "x".repeat(SAID_BYTES);
        assert_eq!(said(&format!("{most}\n"), &[]).unwrap().trim(), most);
        let refused = said(&most, &[text]).unwrap_err();
        assert!(refused.message().contains("at most 16 KiB"), "{}", refused.message());
    }
}
