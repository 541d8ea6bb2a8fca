//! The settings that a flag or an environment variable can give, in one table.
//!
//! Owns their names and how their text is parsed. The environment itself is an argument of loading.

use serde_json::Value;

use super::diagnostic::Diagnostic;
use super::layers::{Layers, Origin};
use super::time_limit::TimeLimit;
use crate::isolation::{LandingPolicy, Workspace};
use rawko_core::PlainNumber;
use rawko_core::integrity::ChangedChecks;

/// Settings from the command line. Absent fields leave the setting to the other sources.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// `--provider`: the provider to use if an agent or the arbiter names none.
    pub provider: Option<String>,
    /// `--model`: the model of that provider.
    pub model: Option<String>,
    /// `--max-iterations`: most executions of agents.
    pub max_iterations: Option<u32>,
    /// `--max-tokens`: most tokens of all model calls.
    pub max_tokens: Option<u32>,
    /// `--no-cache`: asks the arbiter's model even if the answer is cached.
    pub no_cache: bool,
    /// `--max-cost`: highest cost, in US dollars; 0 for no limit.
    pub max_cost_usd: Option<f64>,
    /// `--timeout`: longest wall time, such as `30m`.
    pub timeout: Option<TimeLimit>,
    /// `--verify`, once for each command; empty for `--no-verify`.
    pub verify: Option<Vec<String>>,
    /// `--isolated`: the run works in a tree of its own.
    pub isolated: bool,
    /// `--land`: when its work lands.
    pub land: Option<LandingPolicy>,
    /// `--allow-changed-checks`: checks that the run changes count like any others.
    pub allow_changed_checks: bool,
}

/// A setting that an environment variable can give.
struct Setting {
    variable: &'static str,
    /// JSON pointer of the setting; `None` for the model of the default provider.
    pointer: Option<&'static str>,
    form: ValueForm,
}

#[derive(Clone, Copy)]
enum ValueForm {
    Text,
    Count,
    Amount,
    Time,
    Mode,
}

const fn setting(variable: &'static str, pointer: &'static str, form: ValueForm) -> Setting {
    Setting { variable, pointer: Some(pointer), form }
}

const SETTINGS: [Setting; 15] = [
    setting("RAWKO_PROVIDER", "/provider/default", ValueForm::Text),
    Setting { variable: "RAWKO_MODEL", pointer: None, form: ValueForm::Text },
    setting("RAWKO_MAX_ITERATIONS", "/constraints/maxIterations", ValueForm::Count),
    setting("RAWKO_MAX_CONSECUTIVE_FAILURES", "/constraints/maxConsecutiveFailures", ValueForm::Count),
    setting("RAWKO_MAX_COST", "/constraints/maxCostUsd", ValueForm::Amount),
    setting("RAWKO_MAX_TOKENS", "/constraints/maxTokens", ValueForm::Count),
    setting("RAWKO_TIMEOUT", "/constraints/maxDuration", ValueForm::Time),
    setting("RAWKO_ARBITER_PROVIDER", "/arbiter/provider", ValueForm::Text),
    setting("RAWKO_ARBITER_MODEL", "/arbiter/model", ValueForm::Text),
    setting("RAWKO_ARBITER_MODE", "/arbiter/mode", ValueForm::Mode),
    setting("ANTHROPIC_BASE_URL", "/provider/claude/baseUrl", ValueForm::Text),
    setting("OPENAI_BASE_URL", "/provider/openai/baseUrl", ValueForm::Text),
    setting("COPILOT_MODEL", "/provider/copilot/model", ValueForm::Text),
    setting("COPILOT_CLI_PATH", "/provider/copilot/cli", ValueForm::Text),
    setting("OPENAI_BASE_URL", "/provider/responses/baseUrl", ValueForm::Text),
];

/// Names of all environment variables that loading reads, except those that hold keys.
pub fn environment_variables() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.variable)
}

/// A model that was named without a provider, for the default provider.
pub(super) struct LooseModel {
    pub(super) model: String,
    pub(super) origin: Origin,
}

/// Applies the environment over the files. An empty variable counts as unset.
pub(super) fn push_environment(
    layers: &mut Layers,
    env: &dyn Fn(&str) -> Option<String>,
    errors: &mut Vec<Diagnostic>,
) -> Option<LooseModel> {
    let mut loose = None;
    for setting in &SETTINGS {
        let Some(text) = env(setting.variable).filter(|text| !text.trim().is_empty()) else { continue };
        let origin = Origin::Environment { name: setting.variable.to_owned() };
        match (setting.form.read(text.trim()), setting.pointer) {
            (Ok(value), Some(pointer)) => layers.set(pointer, value, origin),
            (Ok(_), None) => loose = Some(LooseModel { model: text.trim().to_owned(), origin }),
            (Err(wants), _) => {
                let message = format!(
                    "{} {wants}, but is \"{}\"",
                    setting.variable,
                    super::diagnostic::printable(&text)
                );
                let help = Some("change or unset the variable".to_owned());
                errors.push(Diagnostic::of_environment(setting.variable, message, help));
            }
        }
    }
    loose
}

/// Applies the command line over everything else.
pub(super) fn push_flags(
    layers: &mut Layers,
    overrides: &Overrides,
    errors: &mut Vec<Diagnostic>,
) -> Option<LooseModel> {
    let constraints = [
        ("--provider", "/provider/default", ValueForm::Text, overrides.provider.clone()),
        (
            "--max-iterations",
            "/constraints/maxIterations",
            ValueForm::Count,
            overrides.max_iterations.map(|n| n.to_string()),
        ),
        (
            "--max-tokens",
            "/constraints/maxTokens",
            ValueForm::Count,
            overrides.max_tokens.map(|n| n.to_string()),
        ),
        (
            "--max-cost",
            "/constraints/maxCostUsd",
            ValueForm::Amount,
            overrides.max_cost_usd.map(|n| n.to_string()),
        ),
        ("--timeout", "/constraints/maxDuration", ValueForm::Time, overrides.timeout.map(|t| t.to_string())),
    ];
    for (flag, pointer, form, text) in constraints {
        let Some(text) = text else { continue };
        match form.read(text.trim()) {
            Ok(value) => layers.set(pointer, value, Origin::Flag { name: flag.to_owned() }),
            Err(wants) => {
                let message = format!("{flag} {wants}, but is \"{}\"", super::diagnostic::printable(&text));
                errors.push(Diagnostic::of_flag(flag, message, None));
            }
        }
    }
    if let Some(commands) = &overrides.verify {
        let name = if commands.is_empty() { "--no-verify" } else { "--verify" };
        layers.set("/verify/commands", commands.clone().into(), Origin::Flag { name: name.to_owned() });
    }
    if overrides.allow_changed_checks {
        // A list is short for its commands.
        if let Some(list) = layers.get("/verify").filter(|value| value.is_array()).cloned() {
            let origin = layers.provenance.origin("/verify").clone();
            layers.set("/verify/commands", list, origin);
        }
        let origin = Origin::Flag { name: "--allow-changed-checks".to_owned() };
        layers.set("/verify/changedChecks", ChangedChecks::Allow.as_str().into(), origin);
    }
    if overrides.isolated {
        let isolated = Workspace::Isolated.as_str().into();
        layers.set("/workspace", isolated, Origin::Flag { name: "--isolated".to_owned() });
    }
    if let Some(land) = overrides.land {
        layers.set("/land", land.as_str().into(), Origin::Flag { name: "--land".to_owned() });
    }
    if overrides.no_cache {
        layers.set("/arbiter/cache", Value::from(false), Origin::Flag { name: "--no-cache".to_owned() });
    }
    let model = overrides.model.as_ref().filter(|model| !model.trim().is_empty())?;
    Some(LooseModel { model: model.trim().to_owned(), origin: Origin::Flag { name: "--model".to_owned() } })
}

impl ValueForm {
    /// Parses `text`; the error says what it should be.
    fn read(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Text if text.is_empty() => Err("should not be empty".to_owned()),
            Self::Text => Ok(Value::from(text)),
            Self::Count => match text.parse::<u32>() {
                Ok(count) if count > 0 => Ok(Value::from(count)),
                _ => Err(format!("should be a whole number from 1 to {}", u32::MAX)),
            },
            Self::Amount => match text.parse::<f64>() {
                Ok(amount) if amount.is_finite() && amount >= 0.0 => Ok(Value::from(amount)),
                _ => Err("should be an amount in US dollars, like `2.50`".to_owned()),
            },
            Self::Time => match TimeLimit::parse(text, PlainNumber::Seconds) {
                Ok(limit) => Ok(Value::from(limit.to_string())),
                Err(_) => {
                    Err("should be a duration, like `90s`, `30m` or `1h30m`, or a number of seconds; `0` for no limit"
                        .to_owned())
                }
            },
            Self::Mode if matches!(text, "llm" | "hybrid" | "rules") => Ok(Value::from(text)),
            Self::Mode => Err("should be `llm` or `hybrid` or `rules`".to_owned()),
        }
    }
}
