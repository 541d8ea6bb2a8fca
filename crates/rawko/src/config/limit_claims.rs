//! Claims about what a run may use: limits, prices, and models whose price is not known.

use rawko_core::PlainNumber;
use rawko_core::cost::PriceTable;
use rawko_core::thinking::{Effort, Thinking, ThinkingEffort};
use serde::Deserialize as _;
use serde_json::Value;

use super::address::{host_of, is_loopback};
use super::agent_file::AgentFile;
use super::claim::{Claim, ClaimKind, Claims};
use super::diagnostic::{dotted, printable};
use super::layers::Origin;
use super::model::{Config, ProviderType};
use super::source::Scope;
use super::time_limit::TimeLimit;
use super::trust_keys::{self, Needs};
use super::yaml::escape;

impl Claims<'_> {
    /// Limits that are wider than the user's own or the default, and switches that the user has turned off.
    pub(super) fn limits(&mut self, config: &Config) {
        for (key, needs) in trust_keys::CONFIG {
            let pointers = match key.strip_prefix("/provider/*") {
                Some(rest) => config
                    .provider
                    .named
                    .keys()
                    .map(|name| format!("/provider/{}{rest}", escape(name)))
                    .collect(),
                None => vec![(*key).to_owned()],
            };
            for pointer in pointers {
                let users = self.layers.value_in(Scope::User, &pointer);
                if let Some(message) = wider(&dotted(&pointer), *needs, users, self.layers.get(&pointer)) {
                    self.add(ClaimKind::Limit, &pointer, message);
                }
            }
        }
    }

    /// The same for the project's agents.
    pub(super) fn agent_limits(&mut self, files: &[AgentFile]) {
        for file in files.iter().filter(|file| file.source.scope == Scope::Project) {
            let Some(agent) = &file.config else { continue };
            for (key, needs) in trust_keys::AGENT {
                let message = wider(&dotted(key), *needs, None, file.document.value.pointer(key));
                if let Some(message) = message {
                    let message = format!("the agent `{}`: {message}", printable(&agent.name));
                    self.found.push(claim_of(file, key, message));
                }
            }
        }
    }

    /// Prices of the project's own, with which costs are counted, and models without a price, for which the default cost
    /// limit does not count.
    pub(super) fn prices(&mut self, config: &Config, files: &[AgentFile]) {
        for (name, price) in &config.prices {
            let message = format!(
                "costs of models named `{}…` would be counted with {} and {} USD per million tokens",
                printable(name),
                price.input,
                price.output
            );
            let users = self.layers.value_in(Scope::User, &format!("/prices/{}", escape(name)));
            if users != self.layers.get(&format!("/prices/{}", escape(name))) {
                self.add(ClaimKind::Limit, &format!("/prices/{}", escape(name)), message);
            }
        }
        if *self.layers.provenance.origin("/constraints/maxCostUsd") != Origin::Default {
            return;
        }
        let prices = PriceTable::with_overrides(config.prices.clone());
        let default = config.default_provider();
        let arbiter = config.arbiter.provider.as_deref();
        let extractor = config.memory.extractor.provider.as_deref();
        let mut choices = vec![
            (vec!["/provider/default"], default, None),
            (
                vec!["/arbiter/provider", "/arbiter/model"],
                arbiter.unwrap_or(default),
                config.arbiter.model.as_deref(),
            ),
            (
                vec!["/memory/extractor/provider", "/memory/extractor/model"],
                extractor.unwrap_or(default),
                config.memory.extractor.model.as_deref(),
            ),
        ];
        choices.extend(
            config.provider.fallback.iter().map(|name| (vec!["/provider/fallback"], name.as_str(), None)),
        );
        for (pointers, provider, model) in choices {
            let Some(unpriced) = unpriced(config, &prices, provider, model) else { continue };
            // Whatever of the project makes it so.
            let at = format!("/provider/{}", escape(provider));
            let of_provider = ["model", "preset", "type"].map(|key| format!("{at}/{key}"));
            let mut all = pointers.into_iter().map(str::to_owned).chain(of_provider);
            if let Some(pointer) = all.find(|pointer| self.layers.provenance.is_projects(pointer)) {
                self.add(ClaimKind::Limit, &pointer, no_price(&unpriced));
            }
        }
        for file in files.iter().filter(|file| file.source.scope == Scope::Project) {
            let Some(own) = file.config.as_ref().map(|agent| &agent.provider) else { continue };
            if own.name.is_none() && own.model.is_none() {
                continue;
            }
            let provider = own.name.as_deref().unwrap_or(default);
            if let Some(model) = unpriced(config, &prices, provider, own.model.as_deref()) {
                self.found.push(claim_of(file, "/provider", no_price(&model)));
            }
        }
        // One model may be chosen in several ways.
        let mut seen = Vec::new();
        self.found.retain(|claim| {
            !seen.contains(claim) && {
                seen.push(claim.clone());
                true
            }
        });
    }
}

fn claim_of(file: &AgentFile, key: &str, message: String) -> Claim {
    let line = file.document.place(key).line;
    Claim { kind: ClaimKind::Limit, path: file.source.name.clone(), line, message }
}

fn no_price(model: &str) -> String {
    format!(
        "the default cost limit would not count: the price of the model `{}` is not known",
        printable(model)
    )
}

/// The model that would be asked, if it costs something and its price is not known. Scripts and servers on this machine cost nothing.
fn unpriced(config: &Config, prices: &PriceTable, provider: &str, model: Option<&str>) -> Option<String> {
    let known = config.provider(provider).filter(|known| known.kind != ProviderType::Scripted)?;
    if known.key_env().is_none() && known.base_url().is_some_and(|url| is_loopback(host_of(url))) {
        return None;
    }
    let model = model.map(|model| known.full_name(model)).or_else(|| known.model())?;
    prices.price(model).is_none().then(|| model.to_owned())
}

/// What is wider than the user's value or the default, in words.
fn wider(key: &str, needs: Needs, users: Option<&Value>, now: Option<&Value>) -> Option<String> {
    let (default, zero_lifts) = match needs {
        Needs::NoMoreThan(default) => (default, false),
        Needs::NoMoreThanUnlessOff(default) => (default, true),
        Needs::NotOn => {
            let is = |value: Option<&Value>, wanted| value.and_then(Value::as_bool) == Some(wanted);
            return (is(users, false) && is(now, true))
                .then(|| format!("`{key}`, which you have switched off, would be switched on"));
        }
        Needs::OnByUser => {
            let is_on = |value: Option<&Value>| value.and_then(Value::as_bool) == Some(true);
            return (is_on(now) && !is_on(users))
                .then(|| format!("`{key}` would be switched on, which costs money for each search"));
        }
        Needs::NoMoreThinking => {
            let most = users.and_then(thinking_tokens).unwrap_or(HIGH_EFFORT);
            return (thinking_tokens(now?)? > most)
                .then(|| format!("`{key}` would have models think harder, which costs more"));
        }
        Needs::Judged(_) | Needs::Nothing(_) => return None,
    };
    let read = |value: &Value| limit(value, zero_lifts);
    let (most, whose) = match users.and_then(read) {
        Some(users) => (Some(users), "your own limit"),
        None => (default(), "the default of"),
    };
    (read(now?)? > most?).then(|| format!("{whose} `{key}` would be raised"))
}

/// What `effort: high` counts for. Most models think so hard by themselves.
const HIGH_EFFORT: u32 = 16_384;

/// Tokens that a thinking setting is worth, so that budgets and efforts can be compared; `None` if it is not valid.
fn thinking_tokens(value: &Value) -> Option<u32> {
    Some(match Thinking::deserialize(value).ok()? {
        Thinking::Off(_) => 0,
        Thinking::Budget(budget) => budget.budget,
        Thinking::Effort(ThinkingEffort { effort }) => match effort {
            Effort::Minimal => 1_024,
            Effort::Low => 4_096,
            Effort::Medium => 8_192,
            Effort::High => HIGH_EFFORT,
            Effort::Xhigh => 2 * HIGH_EFFORT,
            Effort::Max => u32::MAX,
        },
    })
}

/// A limit as a number; a length of time in milliseconds.
fn limit(value: &Value, zero_lifts: bool) -> Option<f64> {
    let amount = value.as_f64().or_else(|| {
        match TimeLimit::parse(value.as_str()?, PlainNumber::Milliseconds).ok()? {
            TimeLimit::Off => Some(0.0),
            TimeLimit::After(span) => Some(span.as_duration().as_secs_f64() * 1e3),
        }
    })?;
    Some(if zero_lifts && amount <= 0.0 { f64::INFINITY } else { amount })
}
