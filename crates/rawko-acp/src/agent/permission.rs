//! Asks the person at the client: for calls that the permissions do not grant, and for the tools of servers.

use agent_client_protocol::Client;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest, SessionId,
    ToolCallId, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use rawko::ApprovalQuestion;
use std::path::PathBuf;

use super::tool_calls::{CallNames, ShownCall, text_content};

/// Who answered, in the journal.
pub(super) const BY: &str = "the ACP client";
const ALLOW: &str = "allow-once";
const REJECT: &str = "reject-once";

/// Puts questions to the client of one session.
#[derive(Clone)]
pub(super) struct ClientAsker {
    pub(super) connection: ConnectionTo<Client>,
    pub(super) session: SessionId,
    pub(super) names: CallNames,
    pub(super) tree: PathBuf,
}

impl ClientAsker {
    /// Asks whether a call may be made, this once. A client that cannot answer says no: an unanswered question would
    /// hold the run up.
    pub(super) async fn approval(self, question: ApprovalQuestion) -> Option<bool> {
        let shown = ShownCall::of(&question.call, &self.tree);
        let why = format!("{} wants {}\n\n{}", question.agent, question.needs_in_words(), question.why);
        let mut content = vec![text_content(&why)];
        if shown.content.is_empty() {
            // The whole call, whatever its title leaves out.
            content.push(super::tool_calls::output_content(&arguments(&question)));
        }
        content.extend(shown.content);
        let fields = ToolCallUpdateFields::new()
            .title(shown.title)
            .kind(shown.kind)
            .status(ToolCallStatus::Pending)
            .locations(shown.locations)
            .content(content)
            .raw_input(shown.input);
        let id = self.names.of(&question.agent, &question.call.id);
        Some(self.ask(id, fields).await)
    }

    /// Asks a question; everything but a yes is a no.
    pub(super) async fn ask(&self, id: ToolCallId, fields: ToolCallUpdateFields) -> bool {
        let options = vec![
            PermissionOption::new(ALLOW.to_owned(), "Allow once", PermissionOptionKind::AllowOnce),
            PermissionOption::new(REJECT.to_owned(), "Reject", PermissionOptionKind::RejectOnce),
        ];
        let update = ToolCallUpdate::new(id, fields);
        let request = RequestPermissionRequest::new(self.session.clone(), update, options);
        match self.connection.send_request(request).block_task().await.map(|answer| answer.outcome) {
            Ok(RequestPermissionOutcome::Selected(selected)) => *selected.option_id.0 == *ALLOW,
            Ok(_) | Err(_) => false,
        }
    }
}

fn arguments(question: &ApprovalQuestion) -> String {
    let input = &question.call.input;
    match input.get("command").and_then(serde_json::Value::as_str) {
        Some(command) => command.to_owned(),
        None => serde_json::to_string_pretty(input).unwrap_or_default(),
    }
}
