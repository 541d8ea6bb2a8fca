//! `rawko fleet approve ID [yes|no]`: answers the question of a task. The answer names its question, because another
//! one may be open when it arrives.

use rawko_temporal::ApprovalAnswer;
use serde_json::json;

use super::arguments::{ApproveTaskArgs, YesOrNo};
use super::connection::{FleetAddress, OrFailure as _};
use super::show;
use super::submit::user_name;
use crate::approval_prompt;
use crate::console::can_ask;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, clean_line};
use crate::runtime::block_on;
use crate::workspace::Workspace;

pub(super) fn run(workspace: &Workspace, arguments: &ApproveTaskArgs) -> Result<Exit, Failure> {
    let id = &arguments.task;
    let name = clean_line(id);
    if arguments.output.json && (arguments.question.is_none() || arguments.answer.is_none()) {
        return Err(Failure::usage("--json needs the question and the answer").with_hint(format!(
            "`rawko fleet show {name} --json` has the question's digest: --question DIGEST yes|no"
        )));
    }
    let target = FleetAddress::of(workspace, &arguments.connection)?;
    let console = &workspace.console;
    let mut question = arguments.question.clone();
    let mut answer = arguments.answer;
    if question.is_none() || answer.is_none() {
        let task = block_on(async { target.connect().await?.show(id).await.or_failure() })?;
        let asked = task.status.as_ref().and_then(|status| status.question.clone());
        let (Some(asked), Some(text)) = (asked, show::asked(&task, Clock::local())) else {
            return Err(Failure::new(Exit::Failed, format!("task {name} asks nothing")));
        };
        console.write_error(&format!("{text}\n"))?;
        if let Some(named) = question.as_ref().filter(|named| !asked.digest.starts_with(named.as_str())) {
            let message = format!("task {name} asks another question than `{}`", clean_line(named));
            return Err(Failure::new(Exit::Failed, message));
        }
        // A user must not say yes to something that they may not have seen.
        if answer != Some(YesOrNo::No) {
            if !can_ask() {
                return Err(Failure::usage("nothing was answered").with_hint("the line above says how"));
            }
            if !approval_prompt::ask(console) {
                return Err(Failure::usage("nothing was answered")
                    .with_hint(format!("to deny it: rawko fleet approve {name} no")));
            }
            answer = Some(YesOrNo::Yes);
        }
        question = Some(asked.digest);
    }
    let (Some(question), Some(answer)) = (question, answer) else {
        return Err(Failure::usage("nothing was answered"));
    };
    let allowed = answer == YesOrNo::Yes;
    let by = format!("{} by rawko fleet approve", user_name(workspace));
    let given = ApprovalAnswer { question, allowed, by };
    let digest = block_on(async { target.connect().await?.approve(id, given).await.or_failure() })?;
    let value = json!({"id": id, "question": digest, "allowed": allowed});
    console.output(arguments.output.json, &value, |_| {
        let word = if allowed { "allowed" } else { "denied" };
        format!("{word}: the question {} of task {name}\n", clean_line(&digest))
    })?;
    Ok(Exit::Success)
}
