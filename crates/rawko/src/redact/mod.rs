//! Keeping secrets out of prompts, journals and the screen (`docs/sessions.md`: "Secrets are redacted before a record is
//! written").
//!
//! There is one rule. Text that comes in from people, models, tools, files and servers is redacted (`event`). Outgoing
//! text is never altered: a call, a configured command or an agent's prompt is used as it is, or refused with the
//! reason (`outgoing`). Ids are never rewritten, and a path that would have to be is left out.
//!
//! This module owns which texts are secrets: the providers' keys, the values of environment variables whose names say
//! so, and what the embedding program names, as far as they are worth it ([`is_worth_hiding`]). An event is redacted
//! before it is applied, not only before it is written: what a later resume folds is then what the live run folded, and
//! its requests are the same bytes.
//!
//! It looks for the texts themselves, for their forms in JSON, addresses and HTML, for long parts of them (`forms`), and
//! in what tools, commands and files say also for tokens that are known by their shape (`shapes`), which are secrets everywhere
//! from then on; in the text itself and
//! in what people see of it (`plain`). What an agent writes back gets its secrets back (`unmask`). A model that spells
//! a secret backwards or in base64 is not caught; `rawko-provider` and the bare environment of child processes keep secrets away from models.

mod event;
mod forms;
mod masked;
mod outgoing;
mod plain;
mod shapes;
mod stream;
mod unmask;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rawko_provider::{Provider, REDACTED, is_worth_hiding};
use rawko_tools::looks_like_secret;
use regex::Regex;
use serde_json::Value;

use forms::{SecretForm, forms_of};
use masked::{SecretMatch, SeenTokens};
pub(crate) use stream::RedactedStream;

/// A secret, and a description of it: "the value of `DEPLOY_TOKEN`".
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct KnownSecret {
    pub(crate) what: String,
    pub(crate) text: String,
}

impl KnownSecret {
    /// The value of an environment variable.
    pub(crate) fn of_variable(name: &str, text: String) -> Self {
        Self { what: format!("the value of `{name}`"), text }
    }

    /// A secret that the embedding program named.
    pub(crate) fn of_program(text: String) -> Self {
        Self { what: "a secret of the program that started this run".to_owned(), text }
    }
}

/// The secrets of one run.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    /// Longest first: one may be the beginning of another.
    secrets: Vec<SecretForm>,
    /// They hold keys that nothing else can read.
    providers: Vec<Arc<dyn Provider>>,
    /// Whether tokens that are only known by their shape are left alone.
    shows_tokens: bool,
    /// The tokens that the run has seen.
    seen: Arc<Mutex<SeenTokens>>,
    /// Finds what every part of a secret that is looked for begins with: most texts hold none, and are searched once.
    beginnings: Option<Regex>,
}

impl Redactor {
    /// Looks for those of `secrets` that are worth it, and for what the providers hold.
    pub(crate) fn new(
        secrets: impl IntoIterator<Item = KnownSecret>,
        providers: impl IntoIterator<Item = Arc<dyn Provider>>,
    ) -> Self {
        // By text: the first name that a secret is given stays.
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        for KnownSecret { what, text } in secrets {
            let text = text.trim();
            if !is_worth_hiding(text) {
                continue;
            }
            for form in forms_of(text) {
                all.entry(form).or_insert_with(|| what.clone());
            }
        }
        let mut secrets: Vec<SecretForm> =
            all.into_iter().map(|(text, what)| SecretForm::new(what, text)).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.text.len()));
        let beginnings: BTreeSet<String> =
            secrets.iter().flat_map(SecretForm::beginnings).map(regex::escape).collect();
        let beginnings = Vec::from_iter(beginnings).join("|");
        Self {
            // An empty pattern would be found everywhere, which costs time only.
            beginnings: Regex::new(&beginnings).ok(),
            secrets,
            providers: providers.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Sets whether tokens that are only known by their shape are left alone.
    pub(crate) fn showing_tokens(self, shows_tokens: bool) -> Self {
        Self { shows_tokens, ..self }
    }

    /// The description of the secret in `text`, if there is one.
    fn found_in(&self, text: &str) -> Option<String> {
        let known = self.secrets.iter().find(|secret| text.contains(secret.text.as_str()));
        known
            .map(|secret| secret.what.clone())
            .or_else(|| {
                let holder = self.providers.iter().find(|provider| !provider.secrets_in(text).is_empty());
                holder.map(|provider| format!("the key of the provider `{}`", provider.name()))
            })
            .or_else(|| {
                let is_seen = !self.seen_in(text).is_empty();
                is_seen.then(|| "a token that this run has seen before".to_owned())
            })
    }

    /// Where in `value` a secret is, names of fields included, and which one it is.
    fn found_in_value(&self, value: &Value) -> Option<(String, String)> {
        match value {
            Value::String(text) => Some((String::new(), self.found_in(text)?)),
            Value::Array(items) => items.iter().enumerate().find_map(|(at, item)| {
                let (below, what) = self.found_in_value(item)?;
                Some((format!("[{at}]{below}"), what))
            }),
            Value::Object(fields) => fields.iter().find_map(|(name, field)| {
                if let Some(what) = self.found_in(name) {
                    return Some((format!(".{REDACTED}"), what));
                }
                let (below, what) = self.found_in_value(field)?;
                Some((format!(".{name}{below}"), what))
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }

    /// Whether a known secret, or a part of one that is looked for, may be in `text`.
    fn may_hold_secret(&self, text: &str) -> bool {
        self.beginnings.as_ref().is_none_or(|beginnings| beginnings.is_match(text))
    }

    /// `text` without secrets.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.clean(&mut text);
        text
    }

    fn clean(&self, text: &mut String) {
        for SecretMatch { range, placeholder } in self.known_in(text).into_iter().rev() {
            text.replace_range(range, &placeholder);
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

/// The values of those variables whose names suggest a secret. A place in the file system is none, and neither is what
/// the project's own path shows to everybody.
pub(crate) fn secrets_in(
    variables: impl Iterator<Item = (OsString, OsString)>,
    project: &Path,
) -> Vec<KnownSecret> {
    let texts =
        variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let is_place = |value: &str| {
        (value.starts_with('/') && Path::new(value).exists()) || project.to_string_lossy().contains(value)
    };
    let secret = texts.filter(|(name, value)| looks_like_secret(name) && !is_place(value.trim()));
    secret.map(|(name, value)| KnownSecret::of_variable(&name, value)).collect()
}

#[cfg(test)]
pub(crate) fn redactor(secrets: &[&str]) -> Redactor {
    let named = secrets.iter().map(|secret| KnownSecret::of_variable("A_KEY", (*secret).to_owned()));
    Redactor::new(named, [])
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-canary-9f31c0d7";

    #[track_caller]
    fn check(secrets: &[&str], text: &str, expected: &str) {
        assert_eq!(redactor(secrets).text(text), expected);
    }

    #[test]
    fn secrets_go_and_everything_else_stays() {
        check(&[KEY], &format!("key {KEY}, again {KEY}."), "key [redacted], again [redacted].");
        check(&[KEY], "k=sk-\u{1b}[01;31m\u{1b}[Kcanary\u{1b}[m-9f31c0d7!", "k=[redacted]!");
        check(&[KEY, "sk-canary-9f31c0d7-long"], "sk-canary-9f31c0d7-long", "[redacted]");
        check(&["  sk-canary-9f31c0d7\n"], KEY, "[redacted]");
        check(&["line one\nline \"two\""], "line one\nline \"two\"", "[redacted]");
        check(&["line one\nline \"two\""], r#"{"key":"line one\nline \"two\""}"#, r#"{"key":"[redacted]"}"#);
    }

    #[test]
    fn a_key_that_is_a_word_breaks_no_text() {
        check(&["test", "developer", ""], "the tester tests the developer", "the tester tests the developer");
        check(&["sk-no-key-required"], "api_key = 'sk-no-key-required'", "api_key = 'sk-no-key-required'");
    }

    #[test]
    fn json_is_cleaned_in_depth_names_included() {
        let mut value = serde_json::json!({"a": [format!("x {KEY}")], KEY: {"b": 1}});
        redactor(&[KEY]).clean_value(&mut value);
        assert_eq!(value, serde_json::json!({"a": ["x [redacted]"], "[redacted]": {"b": 1}}));
    }

    #[test]
    fn names_of_variables_tell_of_secrets() {
        let here = std::env::temp_dir().display().to_string();
        let variables = [
            ("DEPLOY_TOKEN", "tok-canary-2a94c1f0"),
            ("EDITOR", "vi-canary-4b94c1f0"),
            ("KEY_FILE", here.as_str()),
            ("PROJECT_KEY", "customer-portal-7"),
        ];
        let pairs = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let found = secrets_in(pairs, Path::new("/builds/customer-portal-7"));
        let found: Vec<(&str, &str)> =
            found.iter().map(|secret| (secret.what.as_str(), secret.text.as_str())).collect();
        assert_eq!(found, [("the value of `DEPLOY_TOKEN`", "tok-canary-2a94c1f0")]);
    }

    #[test]
    fn it_shows_none_of_them() {
        assert!(!format!("{:?}", redactor(&[KEY])).contains("canary"));
    }
}
