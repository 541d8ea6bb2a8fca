//! What goes out: it is used as it is, or refused with the reason. Never altered.
//!
//! Owns the check of what a run is made of, and of a call that is about to be performed. That a call with a secret in its
//! arguments is refused is decided in the core, by the mark that `event` leaves; this is the second wall.

use std::sync::Arc;

use rawko_core::ErrorCode;
use rawko_core::message::ToolCall;
use rawko_core::setup::Setup;
use rawko_core::text::REDACTED;
use rawko_core::tool::ToolOutcome;
use rawko_tools::{FileAccess, ToolContext};
use serde::Serialize;

use super::Redactor;
use crate::error::Error;

impl Redactor {
    /// Makes what a run is made of fit to be recorded: secrets are taken out of the standing instructions, which are the
    /// text of a file, and are refused anywhere else.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(crate) fn setup(&self, setup: &mut Setup) -> Result<(), Error> {
        self.instructions(setup);
        self.check(setup)
    }

    /// Whether what a run is made of (prompts, commands, options of models), or a part of it, is free of secrets. It
    /// would be recorded and sent to a model; without the secret it would not be what the user wrote.
    ///
    /// # Errors
    /// [`Error::Setup`] that names the place and the secret.
    pub(crate) fn check(&self, parts: &impl Serialize) -> Result<(), Error> {
        let value = serde_json::to_value(parts).unwrap_or_default();
        let Some((place, what)) = self.found_in_value(&value) else { return Ok(()) };
        let place = place.trim_start_matches('.');
        Err(Error::Setup {
            message: format!("the configuration holds a secret: `{place}` contains {what}"),
            hint: "take it out: it would be sent to a model and kept in the journal. A command can read it from a file"
                .to_owned(),
        })
    }

    /// Why `call` is not performed, if it is not. Looks at the file that a `Write` would replace.
    pub(crate) async fn refusal(
        self: &Arc<Self>,
        call: &ToolCall,
        context: &ToolContext,
    ) -> Option<ToolOutcome> {
        if let Some((place, what)) = self.found_in_value(&call.input) {
            let place = place.trim_start_matches('.');
            let message = format!("Not done: `{place}` holds {what}, and rawko does not pass secrets on.");
            return Some(ToolOutcome::error(ErrorCode::PermissionError, message));
        }
        let path = replaced_by_what_was_shown(call)?.to_owned();
        let (redactor, context) = (Arc::clone(self), context.clone());
        let look = tokio::task::spawn_blocking(move || redactor.would_be_lost(&path, &context));
        // It fails where the runtime shuts down, and the tool then fails too.
        look.await.unwrap_or_default()
    }

    /// The refusal to replace the file at `path`, where that holds a secret.
    fn would_be_lost(&self, path: &str, context: &ToolContext) -> Option<ToolOutcome> {
        // A file that cannot be read cannot be replaced either: the tool says why.
        let access = FileAccess::new(&context.root, &context.permissions).ok()?;
        let bytes = access.open_file(path).ok()?.read_all(path).ok()?;
        let what = self.found_in(&String::from_utf8_lossy(&bytes))?;
        let message = format!(
            "Not written: `{path}` holds {what}, which is shown to you as {REDACTED}, and this Write would put that word in \
             its place. Change the other lines with Edit."
        );
        Some(ToolOutcome::error(ErrorCode::ToolFailure, message))
    }
}

/// The file that `call` may be about to replace by what an agent was shown of it. Written back, `[redacted]` would take
/// the secret's place.
fn replaced_by_what_was_shown(call: &ToolCall) -> Option<&str> {
    let text = |name: &str| call.input.get(name)?.as_str();
    let content = text("content").filter(|_| call.name == "Write")?;
    text("file_path").filter(|_| content.contains(REDACTED))
}

#[cfg(test)]
mod tests {
    use super::super::redactor;
    use super::*;
    use rawko_core::agent::Permissions;
    use serde_json::{Value, json};

    const KEY: &str = "sk-canary-9f31c0d7";

    async fn check(name: &str, input: Value, refused_for: Option<&str>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(".env"), format!("A_KEY={KEY}\n")).unwrap();
        std::fs::write(dir.path().join("plain"), "A_KEY=[redacted]\n").unwrap();
        let context = ToolContext {
            root: dir.path().to_owned(),
            agent: "a".to_owned(),
            permissions: Arc::new(Permissions::default()),
            confinement: rawko_tools::Confinement::Off,
            progress: Arc::new(|_: &str| {}),
        };
        let call = ToolCall { id: "c".into(), name: name.into(), input, invalid_input: None, withheld: None };
        let refusal = Arc::new(redactor(&[KEY])).refusal(&call, &context).await;
        let refusal = refusal.map(|outcome| outcome.content);
        match refused_for {
            Some(words) => {
                assert!(refusal.as_ref().is_some_and(|refusal| refusal.contains(words)), "{refusal:?}");
            }
            None => assert_eq!(refusal, None, "{call:?}"),
        }
    }

    #[tokio::test]
    async fn a_file_is_not_replaced_by_what_was_shown_of_it() {
        let write = |path: &str, content: &str| json!({"file_path": path, "content": content});
        check("Write", write(".env", "A_KEY=[redacted]\nB=1\n"), Some("Change the other lines with Edit"))
            .await;
        check("Write", write(".env", "B=1\n"), None).await;
        check("Write", write("plain", "A_KEY=[redacted]\nB=1\n"), None).await;
        check("Write", write("new", "A_KEY=[redacted]\n"), None).await;
        check("Write", write("new", KEY), Some("`content` holds the value of `A_KEY`")).await;
        check("Bash", json!({"command": format!("echo {KEY}")}), Some("`command` holds")).await;
    }

    #[test]
    fn a_configuration_with_a_secret_is_refused_with_its_place() {
        let setup = json!({"agents": {"developer": {"config": {"systemPrompt": format!("Use {KEY}.")}}}});
        let error = redactor(&[KEY]).check(&setup).unwrap_err().to_string();
        assert!(
            error.contains("`agents.developer.config.systemPrompt` contains the value of `A_KEY`"),
            "{error}"
        );
        assert!(!error.contains(KEY));
        assert!(redactor(&["test"]).check(&setup).is_ok());
    }
}
