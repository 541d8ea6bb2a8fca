//! What Anthropic's Messages API refuses (<https://platform.claude.com/docs/en/api/messages>).
//!
//! [`models`] lists which model accepts which setting, [`settings`] checks these, [`messages`] checks the conversation, and
//! [`thinking`] signs thinking blocks and checks that nothing before them has changed when they come back.

mod messages;
mod models;
mod settings;
mod thinking;

pub(crate) use settings::thinks;
pub(crate) use thinking::sign;

use crate::answer::Answer;
use crate::exchange::{Asked, Wire};

/// A 400 with the service's message, or nothing.
type Checked = Result<(), String>;

/// How the Messages API would refuse this request.
pub(super) fn refusal(asked: &Asked) -> Option<Answer> {
    // A body without messages is a probe of the server, not a request to a model.
    if asked.wire != Wire::Claude || asked.json.get("messages").is_none() {
        return None;
    }
    let checks = [settings::check, messages::check, thinking::check];
    let refused = checks.iter().find_map(|check| check(asked).err())?;
    Some(Answer::refuse(400, "invalid_request_error", refused))
}

#[cfg(test)]
mod tests;
