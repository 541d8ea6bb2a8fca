//! Outgoing text: it is used as it is, or refused with the reason. Never altered, but for one thing: a `Write` or
//! `Edit` of what an agent was shown gets the secrets of that file back.
//!
//! Owns the check of what a run is made of, and of a call that is about to be performed. That a call with a secret in its
//! arguments is refused is decided in the core, by the mark that `event` leaves; this is the second wall.

use std::sync::Arc;

use rawko_core::ErrorCode;
use rawko_core::message::ToolCall;
use rawko_core::setup::Setup;
use rawko_core::text::REDACTED;
use rawko_core::tool::ToolOutcome;
use rawko_tools::{FileAccess, ToolContext, ToolRegistry};
use serde::Serialize;
use serde_json::Value;

use super::Redactor;
use super::masked::placeholders;
use super::unmask::{self, Shown, Unclear};
use crate::error::Error;

impl Redactor {
    /// Makes what a run is made of fit to be recorded: secrets are taken out of the standing instructions, which are the
    /// text of a file, and are refused anywhere else.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(crate) fn setup(&self, setup: &mut Setup) -> Result<(), Error> {
        self.instructions(setup);
        // What the user gives is masked, and a picture in base64 only looks like text.
        let given = std::mem::take(&mut setup.attachments);
        let checked = self.check(setup);
        setup.attachments = given;
        checked
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

    /// Makes a call, with the secrets in place of its placeholders. The outcome is not masked yet.
    pub(crate) async fn call_tool(
        self: &Arc<Self>,
        tools: &ToolRegistry,
        call: ToolCall,
        context: &ToolContext,
    ) -> ToolOutcome {
        match self.performed(call, context).await {
            Err(refusal) => refusal,
            Ok(call) => {
                let outcome = tools.call(&call.name, call.input.clone(), context).await;
                self.mask_part(&call, context, outcome).await
            }
        }
    }

    /// `call` as it is performed: what an agent writes back of what it was shown gets the secrets of the file back.
    ///
    /// # Errors
    /// The refusal, where a call holds a secret itself, or where it is not certain which secret a placeholder
    /// represents.
    async fn performed(
        self: &Arc<Self>,
        call: ToolCall,
        context: &ToolContext,
    ) -> Result<ToolCall, ToolOutcome> {
        if let Some((place, what)) = self.found_in_value(&call.input) {
            let place = place.trim_start_matches('.');
            let message = format!("Not done: `{place}` holds {what}, and rawko does not pass secrets on.");
            return Err(ToolOutcome::error(ErrorCode::PermissionError, message));
        }
        if let Some(placeholder) = token_in_command(&call) {
            let message = format!(
                "Not done: `{placeholder}` stands for a secret that is not shown to you. Let the command read it from its \
                 file, or use Edit, which puts it back."
            );
            return Err(ToolOutcome::error(ErrorCode::ToolFailure, message));
        }
        if !needs_secrets(&call) {
            return Ok(call);
        }
        let (redactor, context) = (Arc::clone(self), context.clone());
        let unchanged = call.clone();
        let unmasked = tokio::task::spawn_blocking(move || redactor.with_secrets(call, &context));
        // It fails where the runtime shuts down, and the tool then fails too.
        unmasked.await.unwrap_or(Ok(unchanged))
    }

    /// A `Write` or `Edit` with the secrets of its file in place of the placeholders.
    fn with_secrets(&self, mut call: ToolCall, context: &ToolContext) -> Result<ToolCall, ToolOutcome> {
        let text = |name: &str| call.input.get(name).and_then(Value::as_str).unwrap_or_default();
        let path = text("file_path").to_owned();
        let bytes = content(&path, context).unwrap_or_default();
        let file = String::from_utf8_lossy(&bytes);
        let is_text = std::str::from_utf8(&bytes).is_ok();
        let masked = self.masked(&file);
        let refusal = |message| ToolOutcome::error(ErrorCode::ToolFailure, message);
        let unclear = |unclear: Unclear| refusal(unclear.message(&path));
        let real = if call.name == "Write" {
            if !is_text && !masked.marks.is_empty() {
                return Err(refusal(not_utf8(&path)));
            }
            let content =
                Shown::of(&masked).unmask(text("content"), 0..masked.shown.len()).map_err(unclear)?;
            unmask::stays_masked(self, &masked, &content).map_err(unclear)?;
            vec![("content", content)]
        } else {
            let all = call.input.get("replace_all").and_then(Value::as_bool).unwrap_or(false);
            let (old, new) = (text("old_string"), text("new_string"));
            let real = unmask::edit(self, &masked, old, new, all).map_err(unclear)?;
            if !is_text && real.old.contains(char::REPLACEMENT_CHARACTER) && real.old != old {
                return Err(refusal(not_utf8(&path)));
            }
            vec![("old_string", real.old), ("new_string", real.new)]
        };
        for (name, text) in real {
            if let Some(field) = call.input.get_mut(name) {
                *field = text.into();
            }
        }
        Ok(call)
    }

    /// Masks the lines of a private key in the part of a file that a Read or Edit shows, where the beginning of the key
    /// is not in it.
    async fn mask_part(
        self: &Arc<Self>,
        call: &ToolCall,
        context: &ToolContext,
        mut outcome: ToolOutcome,
    ) -> ToolOutcome {
        let is_part = call.name == "Edit" || (call.name == "Read" && call.input.get("offset").is_some());
        let path = call.input.get("file_path").and_then(Value::as_str).filter(|_| is_part);
        let Some(path) = path.filter(|_| !self.shows_tokens).map(str::to_owned) else { return outcome };
        let (redactor, context) = (Arc::clone(self), context.clone());
        let begun = tokio::task::spawn_blocking(move || {
            let file = content(&path, &context).unwrap_or_default();
            let masked = redactor.masked(std::str::from_utf8(&file).unwrap_or_default());
            let marks = masked.marks.iter().filter(|mark| mark.secret.len() >= LINE_OF_KEY);
            marks
                .map(|mark| (mark.secret.to_owned(), masked.shown[mark.range.clone()].to_owned()))
                .collect::<Vec<_>>()
        });
        for (secret, placeholder) in begun.await.unwrap_or_default() {
            if outcome.content.contains(&secret) {
                outcome.content = outcome.content.replace(&secret, &placeholder);
            }
        }
        outcome
    }
}

/// Lines of a private key that are shorter are the last ones, and could be words.
const LINE_OF_KEY: usize = 16;

/// The file at `path`, if the agent may read it. One that cannot be read cannot be replaced either: the tool says why.
fn content(path: &str, context: &ToolContext) -> Option<Vec<u8>> {
    let access = FileAccess::of(context).ok()?;
    access.open_file(path).ok()?.read_all(path).ok()
}

/// The placeholder of a token in a shell command: written to a file, it would take the token's place.
fn token_in_command(call: &ToolCall) -> Option<&str> {
    let command = call.input.get("command")?.as_str().filter(|_| call.name == "Bash")?;
    placeholders(command).map(|range| &command[range]).find(|placeholder| *placeholder != REDACTED)
}

/// Whether secrets of the file matter to `call`: a `Write` of what may be a placeholder, and any `Edit`, which could
/// change a part of a secret.
fn needs_secrets(call: &ToolCall) -> bool {
    match call.name.as_str() {
        "Write" => {
            let content = call.input.get("content").and_then(Value::as_str);
            content.is_some_and(|text| placeholders(text).next().is_some())
        }
        "Edit" => true,
        _ => false,
    }
}

/// In a file that is not text, nothing is put back.
fn not_utf8(path: &str) -> String {
    format!(
        "Nothing was written. `{path}` is not valid UTF-8 and holds a secret, which is shown to you as a placeholder; this \
         would put other bytes in its place. Change single lines with Edit."
    )
}

#[cfg(test)]
mod tests {
    use super::super::redactor;
    use super::*;
    use rawko_core::agent::Permissions;
    use serde_json::json;

    const KEY: &str = "sk-canary-9f31c0d7";

    async fn check(name: &str, input: Value, refused_for: Option<&str>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(".env"), format!("A_KEY={KEY}\n")).unwrap();
        std::fs::write(dir.path().join("two"), format!("{KEY}\nas [redacted]\n")).unwrap();
        std::fs::write(dir.path().join("binary"), [KEY.as_bytes(), b"\xff"].concat()).unwrap();
        std::fs::write(dir.path().join("plain"), "A_KEY=[redacted]\n").unwrap();
        let context = ToolContext {
            root: dir.path().to_owned(),
            agent: "a".to_owned(),
            permissions: Arc::new(Permissions::default()),
            approved: Vec::new(),
            confinement: rawko_tools::Confinement::Off,
            traceparent: None,
            progress: Arc::new(|_: &str| {}),
        };
        let call = ToolCall { id: "c".into(), name: name.into(), input, invalid_input: None, withheld: None };
        let performed = Arc::new(redactor(&[KEY])).performed(call.clone(), &context).await;
        let refusal = performed.err().map(|outcome| outcome.content);
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
        check("Write", write(".env", "A_KEY=[redacted]\nB=1\n"), None).await;
        check("Write", write("two", "x=[redacted]\n"), Some("which of them belongs on line 1 is not clear"))
            .await;
        check("Write", write("binary", "A_KEY=[redacted]\n"), Some("is not valid UTF-8")).await;
        let token = "[redacted:github-token:00000000]";
        check("Write", write("new", token), Some("stands for a secret that `new` does not hold")).await;
        check("Bash", json!({"command": format!("echo {token} > a")}), Some("is not shown to you")).await;
        check("Bash", json!({"command": "echo '[redacted]'"}), None).await;
        check("Write", write(".env", "B=1\n"), None).await;
        check("Write", write("plain", "A_KEY=[redacted]\nB=1\n"), None).await;
        check(
            "Write",
            write("new", "A_KEY=[redacted]\n"),
            Some("stands for a secret that `new` does not hold"),
        )
        .await;
        let edit = |path: &str, old: &str| json!({"file_path": path, "old_string": old, "new_string": "q"});
        for part in ["sk-canary", "sk-c4nary", "canary", "redacted", "=[redac"] {
            check("Edit", edit(".env", part), Some("Nothing was written")).await;
        }
        check("Edit", edit(".env", "A_KEY"), None).await;
        check("Edit", edit("binary", "sk-can"), Some("Nothing was written")).await;
        check("Edit", json!("no object"), None).await;
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
