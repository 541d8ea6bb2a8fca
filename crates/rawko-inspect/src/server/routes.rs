//! The addresses that are answered.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use percent_encoding::percent_decode_str;
use rawko::checkpoint::{Checkpoints, DiffRange};
use rawko::journal::{SessionStatus, read};
use serde_json::json;
use tokio::sync::mpsc;

use super::guard::RejectedRequest;
use super::live::{LiveStatus, Missing, Sessions, json as to_json};
use super::{InspectorState, ResponseBody};
use crate::assets::{ICON, STYLE, script};
use crate::diff::DiffView;
use crate::machine::MachineView;
use crate::text::plain;

const PAGE: &str = include_str!("../../assets/index.html");

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// Bytes of the lines of a diff.
const DIFF: usize = 4 * 1024 * 1024;
/// How often a session that runs is looked at, and another one.
const RUNNING: Duration = Duration::from_millis(250);
const RESTING: Duration = Duration::from_secs(2);
/// After this time without updates, the server sends a sign of life, so that a dead connection is noticed.
const SILENCE: Duration = Duration::from_secs(15);

/// The answer to a request that may be answered.
pub(super) async fn answer<B>(shared: &Arc<InspectorState>, request: &Request<B>) -> Response<ResponseBody> {
    let path = request.uri().path();
    let parts: Option<Vec<String>> = path
        .split('/')
        .skip(1)
        .map(|part| Some(percent_decode_str(part).decode_utf8().ok()?.into_owned()))
        .collect();
    let parts = parts.unwrap_or_default();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        [""] => text(HTML, PAGE),
        ["inspector.js"] => text("text/javascript; charset=utf-8", script()),
        ["inspector.css"] => text("text/css; charset=utf-8", STYLE),
        ["icon.svg"] => text("image/svg+xml", ICON),
        ["api", "machine"] => text(JSON, to_json(&MachineView::new())),
        ["api", "project"] => text(JSON, project(&shared.project)),
        ["api", "sessions"] => data(shared, |shared| Ok(to_json(&shared.sessions.list()?))).await,
        ["api", "sessions", id] => {
            let id = (*id).to_owned();
            data(shared, move |shared| shared.sessions.session(&id)).await
        }
        ["api", "sessions", id, "follow"] => follow(shared.clone(), (*id).to_owned(), after(request)),
        ["api", "sessions", id, what, number] => {
            let Ok(number) = number.parse() else { return missing(Missing::Unknown) };
            let (id, what) = ((*id).to_owned(), (*what).to_owned());
            data(shared, move |shared| detail(shared, &id, &what, number)).await
        }
        _ => missing(Missing::Unknown),
    }
}

/// The answer to a request that may not be answered.
pub(super) fn refusal(refused: RejectedRequest) -> Response<ResponseBody> {
    with_status(refused.status, text(JSON, json!({"error": refused.why}).to_string()))
}

/// What the project is called, and where it is.
fn project(folder: &Path) -> String {
    let whole = plain(&folder.to_string_lossy());
    let name = folder.file_name().map_or_else(|| whole.clone(), |name| plain(&name.to_string_lossy()));
    json!({"name": name, "folder": whole}).to_string()
}

fn detail(shared: &InspectorState, id: &str, what: &str, number: usize) -> Result<String, Missing> {
    match what {
        "entries" => shared.sessions.entry(id, number),
        "decisions" => shared.sessions.decision(id, number),
        "diffs" => {
            let path = shared.sessions.path(id)?;
            let checkpoints = Checkpoints::of_journal(&shared.project, &path, &read(&path)?);
            let span = match u32::try_from(number) {
                Ok(0) => DiffRange::Session,
                Ok(number) => DiffRange::Execution(number),
                Err(_) => return Err(Missing::Unknown),
            };
            Ok(to_json(&DiffView::of(&checkpoints, span, DIFF, &*shared.mask)))
        }
        _ => Err(Missing::Unknown),
    }
}

/// An answer that takes files to give: off the thread that serves the others.
async fn data(
    shared: &Arc<InspectorState>,
    make: impl FnOnce(&InspectorState) -> Result<String, Missing> + Send + 'static,
) -> Response<ResponseBody> {
    let shared = shared.clone();
    match tokio::task::spawn_blocking(move || make(&shared)).await {
        Ok(Ok(json)) => text(JSON, json),
        Ok(Err(why)) => missing(why),
        Err(_) => missing(Missing::Unreadable("the session could not be shown".to_owned())),
    }
}

/// Which record the client has already: from a number of its own, or from the last event that it got.
fn after<B>(request: &Request<B>) -> u64 {
    let given = request.headers().get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let asked =
        || request.uri().query()?.split('&').find_map(|pair| pair.strip_prefix("after="))?.parse().ok();
    given.or_else(asked).unwrap_or(0)
}

/// What happens in a session, as server-sent events, until the client goes away.
fn follow(shared: Arc<InspectorState>, id: String, after: u64) -> Response<ResponseBody> {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let mut record = after;
        let mut standing: Option<LiveStatus> = None;
        let mut silent = Duration::ZERO;
        loop {
            let known = standing.clone();
            let (shared, asked) = (shared.clone(), id.clone());
            let sessions = move |sessions: &Sessions| sessions.updates(&asked, record, known.as_ref());
            let updates = tokio::task::spawn_blocking(move || sessions(&shared.sessions)).await;
            let message = match updates {
                Ok(Ok(Some((up_to, now, json)))) => {
                    (record, standing) = (up_to, Some(now));
                    Some(format!("event: change\nid: {up_to}\ndata: {json}\n\n"))
                }
                Ok(Ok(None)) if silent >= SILENCE => Some(": nothing new\n\n".to_owned()),
                Ok(Ok(None)) => None,
                // The session is gone.
                Ok(Err(_)) | Err(_) => return,
            };
            let runs = standing.as_ref().is_some_and(|standing| standing.status == SessionStatus::Running);
            let pause = if runs { RUNNING } else { RESTING };
            silent += pause;
            if let Some(message) = message {
                silent = Duration::ZERO;
                if sender.send(message).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = sender.closed() => return,
            }
        }
    });
    let frames = unfold(receiver, |mut receiver| async move {
        let message = receiver.recv().await?;
        Some((Ok(Frame::data(Bytes::from(message))), receiver))
    });
    with_type("text/event-stream", StreamBody::new(frames).boxed_unsync())
}

fn missing(why: Missing) -> Response<ResponseBody> {
    let (status, message) = match why {
        Missing::Unknown => (StatusCode::NOT_FOUND, "there is no such thing".to_owned()),
        Missing::Unreadable(message) => (StatusCode::INTERNAL_SERVER_ERROR, crate::text::plain(&message)),
    };
    with_status(status, text(JSON, json!({"error": message}).to_string()))
}

fn text(kind: &'static str, text: impl Into<Bytes>) -> Response<ResponseBody> {
    with_type(kind, Full::new(text.into()).boxed_unsync())
}

fn with_type(kind: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn with_status(status: StatusCode, mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    *response.status_mut() = status;
    response
}
