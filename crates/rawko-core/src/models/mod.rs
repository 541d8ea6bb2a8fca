//! Facts about models by name: context windows, limits, thinking, prices, and what each model refuses.
//!
//! The table is data: `models.json` beside this file, with the date on which each group was last compared with its
//! sources, and short names of models by service. This file looks up names. It does not guess: a model that is not in the table has no known price and no
//! known limit, and requests to it are sent in full. Self-hosted models are not in the table, because their limits are
//! set where the server is started.
//!
//! Figures are list prices in US dollars per million tokens for the plain service tier with five-minute cache writes,
//! and windows without any beta.

mod price;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

pub use price::{LongPrompt, Price};

/// Facts about a model. An absent field is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ModelFacts {
    /// Most tokens of a prompt and its response together.
    pub context_window: Option<u32>,
    /// Most tokens of a response, thinking included.
    pub max_output: Option<u32>,
    /// Whether it thinks before it answers if the request does not say.
    pub thinks: Option<bool>,
    /// The request fields that make it think as little as it can.
    pub least_thinking: Option<&'static LeastThinking>,
    /// Fields that a request with tools must have, or the provider refuses it.
    pub with_tools: Option<&'static Map<String, Value>>,
    /// When it accepts a sampling temperature; absent if always, or unknown.
    pub temperature: Option<When>,
    /// When it accepts a request that forces a certain tool; absent if always, or unknown.
    pub forced_tools: Option<When>,
    /// Its list price.
    pub price: Option<Price>,
    /// What a thousand searches of the web cost that its vendor's service runs; absent if there are none.
    pub search_price: Option<f64>,
    /// The date on which its figures were last compared with their sources, `2026-11-22`.
    pub as_of: Option<&'static str>,
    /// The address where its price was read.
    pub price_source: Option<&'static str>,
    /// The wire format of its vendor, which `least_thinking` and `with_tools` are in.
    pub wire: Option<VendorWire>,
}

/// When a model accepts something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Only where it does not think before it answers.
    WithoutThinking,
    /// Never.
    Never,
}

impl When {
    /// Whether the model accepts it in a request with or without thinking.
    #[must_use]
    pub fn allows(self, thinks: bool) -> bool {
        match self {
            Self::WithoutThinking => !thinks,
            Self::Never => false,
        }
    }
}

/// The request fields that make a model think as little as it can.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LeastThinking {
    /// Top-level fields of the request.
    pub fields: Map<String, Value>,
    /// Whether it then does not think at all before it answers.
    #[serde(default)]
    pub is_off: bool,
}

/// The wire format of a vendor's own service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VendorWire {
    /// Anthropic's Messages API.
    Messages,
    /// Chat Completions.
    Chat,
}

/// The facts about `model`.
///
/// A vendor prefix (`anthropic/claude-…`, `us.anthropic.claude-…`) is ignored, and dots count as dashes. Limits and
/// refusals also apply to models of the same family that are not in the table (`claude-sonnet-5-9` is treated as a
/// `claude-sonnet-5`), because leaving something out of a request costs little. Prices and required fields only apply to
/// the model itself and its dated releases (`claude-haiku-4-5-20251001`), because there a wrong guess is worse than none.
/// `claude-haiku-4` is the only model of its generation under a shorter name, so it has that one's price.
#[must_use]
pub fn find(model: &str) -> ModelFacts {
    let name = bare_name(model);
    let mut rows: Vec<(&Group, &ModelRow)> = TABLE
        .iter()
        .flat_map(|group| group.models.iter().map(move |row| (group, row)))
        .filter(|(_, row)| row.is_about(&name))
        .collect();
    rows.sort_by_key(|(_, row)| row.name.len());
    let mut found = ModelFacts::default();
    // The most specific name comes last, so it wins.
    for (group, row) in rows {
        found.wire = Some(group.wire);
        found.as_of = Some(&group.as_of);
        found.context_window = row.context_window.or(found.context_window);
        found.max_output = row.max_output.or(found.max_output);
        found.thinks = row.thinks.or(found.thinks);
        found.temperature = row.temperature.or(found.temperature);
        found.forced_tools = row.forced_tools.or(found.forced_tools);
        found.search_price = row.search_price.or(found.search_price);
        if is_release_of(&name, &row.name) {
            found.least_thinking = row.least_thinking.as_ref();
            found.with_tools = row.with_tools.as_ref();
            found.price = row.price;
            found.price_source = row.price.and(group.sources.prices.as_deref());
        }
    }
    found
}

/// The short names of models at `service`, each with the full name that is sent.
pub fn aliases(service: &str) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
    let of_service = TABLE.iter().find_map(|group| group.aliases.get(service));
    of_service.into_iter().flatten().map(|(short, full)| (short.as_str(), full.as_str()))
}

/// The full name of the model that `name` means at `service`; `None` if it is no short name there.
#[must_use]
pub fn find_alias(service: &str, name: &str) -> Option<&'static str> {
    aliases(service).find(|(short, _)| *short == name).map(|(_, full)| full)
}

/// The services at which `name` is a short name.
pub fn services_with_alias(name: &str) -> impl Iterator<Item = &'static str> {
    let services = TABLE.iter().flat_map(|group| &group.aliases);
    services.filter(move |(_, aliases)| aliases.contains_key(name)).map(|(service, _)| service.as_str())
}

/// The models of one vendor.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
// The name is for readers of the file.
#[cfg_attr(not(test), expect(dead_code))]
struct Group {
    of: String,
    /// The date on which the figures were last compared with the sources.
    as_of: String,
    sources: FigureSources,
    wire: VendorWire,
    models: Vec<ModelRow>,
    /// Full names by short name, by service.
    #[serde(default)]
    aliases: BTreeMap<String, BTreeMap<String, String>>,
}

/// Where the figures of a group were read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
// Most are for readers of the file; a test checks that what is needed is there.
#[cfg_attr(not(test), expect(dead_code))]
struct FigureSources {
    /// Of windows and longest responses.
    limits: Option<String>,
    prices: Option<String>,
    /// Of thinking, and of what models refuse.
    #[serde(default)]
    behaviour: Vec<String>,
    aliases: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ModelRow {
    name: String,
    /// Names that continue this one are of other models, with other limits: `gpt-4-32k` is no `gpt-4`.
    #[serde(default)]
    alone: bool,
    context_window: Option<u32>,
    max_output: Option<u32>,
    thinks: Option<bool>,
    least_thinking: Option<LeastThinking>,
    with_tools: Option<Map<String, Value>>,
    temperature: Option<When>,
    forced_tools: Option<When>,
    search_price: Option<f64>,
    price: Option<Price>,
}

impl ModelRow {
    /// Whether its limits are those of `model`, a bare name.
    fn is_about(&self, model: &str) -> bool {
        if self.alone { is_release_of(model, &self.name) } else { is_of_family(model, &self.name) }
    }
}

/// The file is compiled in, and a test parses it, so parsing cannot fail.
static TABLE: LazyLock<Vec<Group>> =
    LazyLock::new(|| serde_json::from_str(include_str!("models.json")).unwrap_or_default());

/// The name without a vendor prefix, in lower case, dots as dashes: gateways and clouds spell it in many ways.
fn bare_name(model: &str) -> String {
    let name = model.rsplit_once('/').map_or(model, |(_, name)| name);
    let name = name.rsplit_once("anthropic.").map_or(name, |(_, name)| name);
    name.to_ascii_lowercase().replace('.', "-")
}

/// Whether `model` is `name`, or a name that continues it.
fn is_of_family(model: &str, name: &str) -> bool {
    let rest = model.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':', '@']))
}

/// Whether `model` is `name`, or a dated or tagged release of it.
fn is_release_of(model: &str, name: &str) -> bool {
    let Some(rest) = model.strip_prefix(name) else { return false };
    match rest.as_bytes().first() {
        None | Some(b':' | b'@') => true,
        Some(b'-') => {
            let tag = &rest[1..];
            let digits = tag.bytes().filter(u8::is_ascii_digit).count();
            tag == "latest" || (digits >= 4 && tag.bytes().all(|b| b.is_ascii_digit() || b == b'-'))
        }
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests;
