//! `rawko approve [ID]`: lists the calls that wait for a person, and answers for one.

use clap::Args;
use rawko::journal::{SessionInfo, SessionStatus};
use rawko::{WaitingSession, answer_question, open_question, waiting_sessions};
use serde_json::json;

use crate::approval_prompt;
use crate::console::{Console, OutputArgs, can_ask};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, clean_line};
use crate::reporters::{call_in_question, question};
use crate::workspace::Workspace;

/// Characters of a digest that are shown.
const DIGEST_CHARS: usize = 12;

/// Options of `rawko approve`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ApproveArgs {
    /// Session id, or the beginning or end of it; `last` is the latest. Without one, all that waits is listed
    id: Option<String>,
    /// Say no
    #[arg(long, requires = "id")]
    deny: bool,
    /// Answer only if this call waits: its digest, or the beginning of it. Without it, a terminal shows the call and asks
    #[arg(long, value_name = "DIGEST", requires = "id")]
    call: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Lists or answers.
pub(crate) fn run(workspace: &Workspace, arguments: &ApproveArgs) -> Result<Exit, Failure> {
    let store = workspace.sessions()?;
    let console = &workspace.console;
    let Some(id) = &arguments.id else {
        let waiting = waiting_sessions(&store)?;
        console.output(arguments.output.json, &waiting, |_| match waiting.is_empty() {
            true => "nothing waits for your approval\n".to_owned(),
            false => waiting.iter().map(|session| listed(session, console) + "\n").collect(),
        })?;
        return Ok(Exit::Success);
    };
    let trust = workspace.key_store()?;
    let mut call = arguments.call.clone();
    if call.is_none() && !arguments.deny && can_ask() {
        // What waits may be another call by now than the one that was listed.
        if let Some(asked) = open_question(&store, id)? {
            console.write_error(&format!("{}\n", question(&asked, Clock::local())))?;
            if !approval_prompt::ask(console) {
                return Err(Failure::usage("nothing was answered").with_hint("`--deny` says no"));
            }
            call = Some(asked.digest);
        }
    }
    let (session, asked) =
        answer_question(&store, &workspace.project()?, &trust, id, call.as_deref(), !arguments.deny)?;
    let is_this = |info: &SessionInfo| info.id == session && info.status == SessionStatus::Running;
    let is_running = store.list()?.iter().any(is_this);
    let value = json!({
        "session": session,
        "call": asked.digest,
        "allowed": !arguments.deny,
        "running": is_running,
    });
    console.output(arguments.output.json, &value, |_| {
        let word = if arguments.deny { "denied" } else { "allowed" };
        let name = clean_line(&session);
        let (tool, agent) = (clean_line(&asked.call.name), clean_line(&asked.agent));
        let call = call_in_question(&asked.call);
        let mut text = format!("{word}: {tool} of {agent} in session {name}:\n{}\n", call.trim_end());
        if !is_running {
            let next = format!("no process runs it; to go on: rawko resume {name}\n");
            text.push_str(&console.commands(&next));
        }
        text
    })?;
    Ok(Exit::Success)
}

fn listed(waiting: &WaitingSession, console: &Console) -> String {
    let name = clean_line(&waiting.session);
    let digest = waiting.question.digest.get(..DIGEST_CHARS).unwrap_or_default();
    let state = match (waiting.is_over, waiting.is_running) {
        (true, _) => ", its time is over",
        (false, true) => "",
        (false, false) => ", not running",
    };
    let answer = console.commands(&format!("rawko approve {name} --call {digest} [--deny]"));
    format!("session {name}{state}: {}\n  to answer: {answer}\n", question(&waiting.question, Clock::local()))
}
