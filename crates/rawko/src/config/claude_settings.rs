//! Hooks in the form of Claude Code: those of `.claude/settings.json`, `.claude/settings.local.json` and, if the user says so,
//! `~/.claude/settings.json`.
//!
//! These files were not written for rawko, so what cannot be used is a warning, never an error. Of everything else in them
//! nothing is read.

use std::path::Path;

use rawko_core::hook::HookEvent;
use serde_json::{Map, Value};

use super::diagnostic::{Diagnostic, printable, whole};
use super::hooks::LoadedHook;
use super::jsonc;
use super::load::Loader;
use super::model::Config;
use super::source::{Scope, SourceFile};
use crate::hooks::HookMatcher;

/// The project's files.
const OF_PROJECT: [&str; 2] = [".claude/settings.json", ".claude/settings.local.json"];
/// The user's file, below the home.
const OF_USER: &str = ".claude/settings.json";
/// Fields of a hook that change what it does, and that rawko does not have.
const NOT_READ: [&str; 3] = ["args", "async", "if"];

impl Loader<'_> {
    /// The hooks of Claude Code's settings. Files of the project that have some are part of what is trusted.
    pub(super) fn claude_hooks(&mut self, config: &Config) -> Vec<LoadedHook> {
        let mut hooks = Vec::new();
        if config.hooks.claude_settings
            && let Some(home) = self.home()
        {
            let path = home.join(OF_USER);
            hooks.extend(self.hooks_of_settings(&path, &path, Scope::User));
        }
        for name in OF_PROJECT {
            let path = self.options.project_dir.join(name);
            hooks.extend(self.hooks_of_settings(&path, Path::new(name), Scope::Project));
        }
        hooks
    }

    fn hooks_of_settings(&mut self, path: &Path, name: &Path, scope: Scope) -> Vec<LoadedHook> {
        self.fingerprint.note(path);
        let within = (scope == Scope::Project).then_some(self.options.project_dir);
        let source = match SourceFile::read(path, name, scope, within) {
            Ok(Some(source)) => source,
            Ok(None) => return Vec::new(),
            Err(unreadable) => {
                self.warnings.push(*unreadable);
                return Vec::new();
            }
        };
        let hooks = parse(&source, &mut self.warnings);
        if scope == Scope::Project && !hooks.is_empty() {
            self.hashed.push(source);
        }
        hooks
    }
}

/// The hooks in a file of settings.
fn parse(source: &SourceFile, warnings: &mut Vec<Diagnostic>) -> Vec<LoadedHook> {
    let mut warn = |message: String, help: &str| {
        warnings.push(Diagnostic::of_file(&source.name, message, Some(help.to_owned())));
    };
    let file: Value = match jsonc::parse(&source.text) {
        Ok(file) => file,
        Err(error) => {
            warn(format!("this is not JSON, so its hooks are not asked: {error}"), "correct it");
            return Vec::new();
        }
    };
    if file.get("disableAllHooks").and_then(Value::as_bool) == Some(true) {
        return Vec::new();
    }
    match file.get("hooks").and_then(Value::as_object) {
        Some(events) => asked(events, (&source.name, source.scope), &mut warn),
        None => Vec::new(),
    }
}

/// Those of the hooks of `events`, for each a list of `{matcher, hooks}`, that runs ask. `warn` is given what is wrong with each
/// other one, and what helps.
pub(super) fn asked(
    events: &Map<String, Value>,
    place: (&Path, Scope),
    warn: &mut dyn FnMut(String, &str),
) -> Vec<LoadedHook> {
    let mut hooks = Vec::new();
    for (name, groups) in events {
        let Some(event) = HookEvent::parse(name) else {
            let message =
                format!("the hooks of `{}` are not asked: rawko has no such event", printable(name));
            warn(message, "docs/hooks.md lists the events");
            continue;
        };
        for group in groups.as_array().into_iter().flatten() {
            let matcher = group.get("matcher").and_then(Value::as_str);
            if let Err(error) = HookMatcher::parse(matcher.unwrap_or_default()) {
                warn(
                    format!("{name} hooks are not asked: their matcher is no regular expression: {error}"),
                    "correct the matcher",
                );
                continue;
            }
            for entry in group.get("hooks").and_then(Value::as_array).into_iter().flatten() {
                match command(entry) {
                    Ok((command, timeout)) => {
                        hooks.push(LoadedHook::new(event, matcher, command, timeout, place));
                    }
                    Err(why) => warn(format!("a {name} hook is not asked: {why}"), "give it a plain command"),
                }
            }
        }
    }
    hooks
}

/// The command of a hook, and its time in seconds.
fn command(entry: &Value) -> Result<(&str, Option<u64>), String> {
    let kind = entry.get("type").and_then(Value::as_str).unwrap_or("command");
    if kind != "command" {
        return Err(format!("rawko has no hooks of the type `{}`", printable(kind)));
    }
    let command = entry.get("command").and_then(Value::as_str).map(str::trim).filter(|it| !it.is_empty());
    let Some(command) = command else { return Err("it has no command".to_owned()) };
    let is_set = |key: &&str| entry.get(*key).is_some_and(|value| *value != Value::Bool(false));
    if let Some(key) = NOT_READ.into_iter().find(|key| is_set(key)) {
        return Err(format!("rawko does not support `{key}` (of `{}`)", whole(command)));
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounded up, and not negative"
    )]
    let timeout = entry.get("timeout").and_then(Value::as_f64).map(|seconds| seconds.max(1.0).ceil() as u64);
    Ok((command, timeout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(settings: &Value) -> (Vec<LoadedHook>, Vec<String>) {
        let source = SourceFile::new(Path::new(OF_USER), Scope::Project, &settings.to_string());
        let mut warnings = Vec::new();
        let hooks = parse(&source, &mut warnings);
        (hooks, warnings.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_form_of_claude_code_is_read() {
        let (hooks, warnings) = parsed(&json!({"model": "opus", "hooks": {
            "PreToolUse": [{"matcher": "Bash|Write", "hooks": [
                {"type": "command", "command": "check.sh", "timeout": 5, "statusMessage": "checking"},
                {"type": "command", "command": "other", "timeout": 99_999}]}],
            "Stop": [{"hooks": [{"type": "command", "command": "done.sh", "async": false}]}]}}));
        assert_eq!(warnings, [""; 0]);
        let found: Vec<_> = hooks
            .iter()
            .map(|hook| (hook.event, hook.matcher.as_deref(), hook.command.as_str(), hook.timeout.as_secs()))
            .collect();
        assert_eq!(
            found,
            [
                (HookEvent::PreToolUse, Some("Bash|Write"), "check.sh", 5),
                (HookEvent::PreToolUse, Some("Bash|Write"), "other", 600),
                (HookEvent::Stop, None, "done.sh", 60),
            ]
        );
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        let hook = |entry: Value| json!([{"hooks": [entry]}]);
        for (event, groups, said) in [
            ("PreCompact", hook(json!({"type": "command", "command": "x"})), "no such event"),
            ("Stop", hook(json!({"type": "prompt", "prompt": "x"})), "type `prompt`"),
            ("Stop", hook(json!({"type": "command"})), "no command"),
            ("Stop", hook(json!({"type": "command", "command": "x", "async": true})), "`async`"),
            ("PreToolUse", hook(json!({"type": "command", "command": "x", "if": "Bash(git *)"})), "`if`"),
            ("PreToolUse", json!([{"matcher": "(", "hooks": []}]), "no regular expression"),
        ] {
            let (hooks, warnings) = parsed(&json!({"hooks": {event: groups}}));
            assert_eq!((hooks.len(), warnings.len()), (0, 1), "{event} {warnings:?}");
            assert!(warnings[0].contains(said), "{said:?} is missing in {warnings:?}");
        }
        let off = json!({"disableAllHooks": true, "hooks": {"Stop": hook(json!({"command": "x"}))}});
        assert_eq!(parsed(&off), (Vec::new(), Vec::new()));
    }
}
