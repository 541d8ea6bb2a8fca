//! Taking secrets out of what is recorded (`spec/sessions.md`: "Secrets are redacted before a record is written").
//!
//! Owns which texts are secrets (the providers' keys, the values of environment variables whose names say so, what the
//! embedder names) and where in an event they are looked for. An event is redacted before it is applied, not only before
//! it is written: what a later resume folds is then what the live run folded, and its requests are the same bytes.
//!
//! It looks for the texts themselves and for their form in JSON. A model that spells a secret backwards or in base64 gets
//! it past; that it never sees one is the business of `rawko-provider` and of the children's bare environment.

mod event;
mod stream;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use rawko_provider::{Provider, REDACTED};
use rawko_tools::looks_like_secret;
use serde_json::Value;

pub(crate) use stream::Pieces;

/// Shorter texts are not looked for: taking them out would make texts unreadable and hide nothing.
const SHORTEST: usize = 4;

/// The secrets of one run.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    /// Longest first: one may be the beginning of another.
    secrets: Vec<String>,
    /// Hold keys that they do not show.
    providers: Vec<Arc<dyn Provider>>,
}

impl Redactor {
    /// Looks for `secrets`, and for what the providers hold.
    pub(crate) fn new(
        secrets: impl IntoIterator<Item = String>,
        providers: impl IntoIterator<Item = Arc<dyn Provider>>,
    ) -> Self {
        let mut all = BTreeSet::new();
        for secret in secrets {
            let secret = secret.trim();
            if secret.len() < SHORTEST || REDACTED.contains(secret) {
                continue;
            }
            let in_json = Value::from(secret).to_string();
            all.insert(in_json.get(1..in_json.len() - 1).unwrap_or_default().to_owned());
            all.insert(secret.to_owned());
        }
        let mut secrets: Vec<String> = all.into_iter().collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { secrets, providers: providers.into_iter().collect() }
    }

    /// `text` without secrets.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.clean(&mut text);
        text
    }

    fn clean(&self, text: &mut String) {
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), REDACTED);
            }
        }
        for provider in &self.providers {
            let clean = provider.without_secrets(text);
            if clean != *text {
                *text = clean;
            }
        }
    }

    fn clean_all<'a>(&self, texts: impl IntoIterator<Item = &'a mut String>) {
        for text in texts {
            self.clean(text);
        }
    }

    /// Every text in `value`, names of fields included.
    fn clean_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.clean(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean_value(item)),
            Value::Object(fields) => self.clean_fields(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn clean_fields(&self, fields: &mut serde_json::Map<String, Value>) {
        for field in fields.values_mut() {
            self.clean_value(field);
        }
        let tainted: Vec<String> = fields.keys().filter(|name| self.text(name) != **name).cloned().collect();
        for name in tainted {
            if let Some(field) = fields.remove(&name) {
                fields.insert(self.text(&name), field);
            }
        }
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("secrets", &self.secrets.len()).finish_non_exhaustive()
    }
}

/// The values of those variables whose names tell of a secret.
pub(crate) fn secrets_in(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<String> {
    let texts =
        variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let secret = texts.filter(|(name, value)| looks_like_secret(name) && may_be_secret(value.trim()));
    secret.map(|(_, value)| value).collect()
}

/// Words and paths are no secrets, whatever the name of their variable says. `DB_PASSWORD=postgres` protects nothing, and
/// taking the word out of everything would have agents write `[redacted]` into code.
fn may_be_secret(value: &str) -> bool {
    let has_digit = value.bytes().any(|b| b.is_ascii_digit());
    let is_number = value.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_punctuation());
    let is_place = value.starts_with('/') && Path::new(value).exists();
    let is_random = value.len() >= 20 || (value.len() >= 8 && has_digit && !is_number);
    is_random && !is_place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor(secrets: &[&str]) -> Redactor {
        Redactor::new(secrets.iter().map(|secret| (*secret).to_owned()), [])
    }

    #[track_caller]
    fn check(secrets: &[&str], text: &str, expected: &str) {
        assert_eq!(redactor(secrets).text(text), expected);
    }

    #[test]
    fn secrets_go_and_everything_else_stays() {
        check(&["sk-canary-1"], "key sk-canary-1, again sk-canary-1.", "key [redacted], again [redacted].");
        check(&["sk-canary-1", "sk-canary-1-long"], "sk-canary-1-long", "[redacted]");
        check(&["  sk-canary-1\n"], "sk-canary-1", "[redacted]");
        check(&["line one\nline \"two\""], "line one\nline \"two\"", "[redacted]");
        check(&["line one\nline \"two\""], r#"{"key":"line one\nline \"two\""}"#, r#"{"key":"[redacted]"}"#);
        // Words that are no secrets, and what stands in a secret's place.
        check(&["tru", "redacted", ""], "true [redacted]", "true [redacted]");
    }

    #[test]
    fn json_is_cleaned_in_depth_names_included() {
        let mut value = serde_json::json!({"a": ["x sk-canary-1"], "sk-canary-1": {"b": 1}});
        redactor(&["sk-canary-1"]).clean_value(&mut value);
        assert_eq!(value, serde_json::json!({"a": ["x [redacted]"], "[redacted]": {"b": 1}}));
    }

    #[test]
    fn names_of_variables_tell_of_secrets() {
        let here = std::env::temp_dir().display().to_string();
        let variables = [
            ("DEPLOY_TOKEN", "tok-canary-2"),
            ("DB_PASSWORD", "pw-canary-3"),
            ("EDITOR", "vi-canary-4"),
            ("POSTGRES_PASSWORD", "postgres"),
            ("API_KEY_HEADER", "X-Api-Key"),
            ("TOKEN_LIFETIME", "86400000"),
            ("SIGNING_KEY", "correct horse battery staple"),
            ("KEY_FILE", here.as_str()),
        ];
        let pairs = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        assert_eq!(secrets_in(pairs), ["tok-canary-2", "pw-canary-3", "correct horse battery staple"]);
    }

    #[test]
    fn it_shows_none_of_them() {
        assert!(!format!("{:?}", redactor(&["sk-canary-1"])).contains("canary"));
    }
}
