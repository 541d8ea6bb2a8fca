//! What each key of the configuration needs before an untrusted folder gets it.
//!
//! One table for all keys, from which `claims` and `limit_claims` work. A test compares it with the schemas, so that a new
//! key is not forgotten.

use std::collections::BTreeSet;

use rawko_core::agent::{AgentConfig, DEFAULT_MAX_TURNS, builtin_agents};
use rawko_core::retry::RetryPolicy;
use rawko_provider::preset::PRESETS;
use rawko_provider::{ProviderSettings, Timeouts};

use super::model::{ArbiterConfig, Constraints, ExtractorConfig};
use super::patience::Patience;
use super::web::ProviderSearchConfig;

/// What a value of the project needs.
#[derive(Clone, Copy)]
pub(super) enum Needs {
    /// What a function in `claims` decides by rules of its own.
    Judged(Judge),
    /// Trust, if it is more than the user's value, or than this one where the user has none; `None`: more than no limit
    /// is impossible.
    NoMoreThan(fn() -> Option<f64>),
    /// The same, for a limit that `0` lifts.
    NoMoreThanUnlessOff(fn() -> Option<f64>),
    /// Trust, if the user has switched it off.
    NotOn,
    /// Trust, if the user has not switched it on.
    OnByUser,
    /// Trust, if models would think harder than the user has them think, or than `high` where the user does not say.
    NoMoreThinking,
    /// Nothing, for this reason.
    Nothing(#[cfg_attr(not(test), allow(dead_code, reason = "for the reader and the test"))] &'static str),
}

/// The functions that judge values without a limit, each for several keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Judge {
    Agents,
    Fleet,
    Hooks,
    Mcp,
    Notify,
    Observability,
    Permissions,
    Prices,
    Providers,
    Secrets,
    Tools,
    Verification,
    Web,
    Workspace,
}

/// The judges that the tables name, each once.
pub(super) fn judges() -> BTreeSet<Judge> {
    let judge = |(_, needs): &(_, Needs)| match needs {
        Needs::Judged(judge) => Some(*judge),
        _ => None,
    };
    CONFIG.iter().chain(AGENT).filter_map(judge).collect()
}

use Needs::{Judged, NoMoreThan, NoMoreThanUnlessOff, NoMoreThinking, NotOn, Nothing, OnByUser};

#[allow(clippy::cast_precision_loss, reason = "limits, not sums")]
fn number(value: u64) -> Option<f64> {
    Some(value as f64)
}

/// The default length of one response, in tokens.
const RESPONSE_TOKENS: u64 = 16_384;
/// Why texts need no trust.
const TEXT: &str = "a text for models: it changes what agents try, not what they may do";
const RUN: &str = "what a run costs is limited by `constraints`";
const NARROWS: &str = "it only narrows what is granted";
const TOOL: &str = "part of a tool, whose command needs trust";

/// The keys of `config.yaml` by JSON pointer; `*` is any name or position, and a key covers all keys below it.
pub(super) const CONFIG: &[(&str, Needs)] = &[
    ("/version", Nothing("there is one version")),
    ("/provider/default", Judged(Judge::Prices)),
    ("/provider/fallback", Judged(Judge::Prices)),
    ("/provider/retry/patience", NoMoreThan(|| number(Patience::default().as_ms()))),
    ("/provider/*/type", Judged(Judge::Providers)),
    ("/provider/*/preset", Judged(Judge::Providers)),
    ("/provider/*/model", Judged(Judge::Prices)),
    ("/provider/*/baseUrl", Judged(Judge::Providers)),
    ("/provider/*/apiKeyEnv", Judged(Judge::Providers)),
    ("/provider/*/maxTokens", NoMoreThan(|| number(RESPONSE_TOKENS))),
    ("/provider/*/contextWindow", Nothing(RUN)),
    ("/provider/*/maxOutput", Nothing(RUN)),
    ("/provider/*/temperature", Nothing("it changes how a model answers, not what agents may do")),
    ("/provider/*/thinking", NoMoreThinking),
    ("/provider/*/webSearch", OnByUser),
    ("/provider/*/timeouts/connect", NoMoreThan(|| longest(|timeouts| timeouts.connect_ms))),
    ("/provider/*/timeouts/idle", NoMoreThan(|| longest(|timeouts| timeouts.idle_ms))),
    ("/provider/*/timeouts/total", NoMoreThan(|| longest(|timeouts| timeouts.total_ms))),
    ("/provider/*/retry/maxAttempts", NoMoreThan(|| Some(RetryPolicy::default().max_attempts.into()))),
    ("/provider/*/retry/baseMs", NoMoreThan(|| number(RetryPolicy::default().base_ms))),
    ("/provider/*/retry/capMs", NoMoreThan(|| number(RetryPolicy::default().cap_ms))),
    ("/provider/*/retry/deadlineMs", NoMoreThan(|| number(RetryPolicy::default().deadline_ms))),
    ("/provider/*/cli", Judged(Judge::Providers)),
    ("/provider/*/script", Judged(Judge::Providers)),
    ("/provider/*/extra", Judged(Judge::Providers)),
    ("/arbiter/provider", Judged(Judge::Prices)),
    ("/arbiter/model", Judged(Judge::Prices)),
    ("/arbiter/maxTokens", NoMoreThan(|| Some(ArbiterConfig::default().max_tokens.into()))),
    ("/arbiter/temperature", Nothing("it changes how a model decides, not what agents may do")),
    ("/arbiter/cache", Nothing("the cache is the user's own, and holds answers to the same questions")),
    ("/arbiter/mode", Nothing(RUN)),
    ("/agents/directory", Nothing("agents need trust wherever they are, if they may run commands")),
    ("/agents/builtin", Nothing("it leaves agents out; what the others may do needs trust as ever")),
    ("/agents/default", Nothing("it names an agent that is there anyway")),
    ("/constraints/maxIterations", NoMoreThan(|| Some(Constraints::default().max_iterations.into()))),
    (
        "/constraints/maxConsecutiveFailures",
        NoMoreThan(|| Some(Constraints::default().max_consecutive_failures.into())),
    ),
    ("/constraints/maxTokens", NoMoreThan(|| None)),
    ("/constraints/maxCostUsd", NoMoreThanUnlessOff(|| Some(Constraints::default().max_cost_usd))),
    (
        "/constraints/maxDuration",
        NoMoreThanUnlessOff(|| Constraints::default().max_duration.as_ms().and_then(number)),
    ),
    ("/permissions/read", Judged(Judge::Permissions)),
    ("/permissions/write", Judged(Judge::Permissions)),
    ("/permissions/deny", Nothing("it is added to what the user denies")),
    ("/permissions/protect", Nothing("it is added to what the user protects")),
    ("/permissions/net", Judged(Judge::Permissions)),
    ("/permissions/env", Judged(Judge::Permissions)),
    ("/permissions/run", Judged(Judge::Permissions)),
    ("/permissions/caches", Judged(Judge::Permissions)),
    ("/permissions/require", Nothing("there is one value, which asks for more protection")),
    ("/permissions/memory", Judged(Judge::Permissions)),
    ("/permissions/ask/*", Judged(Judge::Permissions)),
    ("/permissions/askTimeout", Nothing("no answer is a no, however long it takes")),
    ("/permissions/sandbox", Judged(Judge::Permissions)),
    ("/secrets/maskTokens", Judged(Judge::Secrets)),
    ("/memory/enabled", NotOn),
    ("/memory/extract", NotOn),
    ("/memory/extractor/provider", Judged(Judge::Prices)),
    ("/memory/extractor/model", Judged(Judge::Prices)),
    ("/memory/extractor/maxTokens", NoMoreThan(|| number(ExtractorConfig::default().max_tokens))),
    ("/memory/maxInjected", Nothing("the memories of an untrusted folder are not used")),
    ("/memory/minImportance", Nothing("the memories of an untrusted folder are not used")),
    ("/tools/*/name", Nothing(TOOL)),
    ("/tools/*/description", Nothing(TOOL)),
    ("/tools/*/inputSchema", Nothing(TOOL)),
    ("/tools/*/command", Judged(Judge::Tools)),
    ("/tools/*/access", Nothing(TOOL)),
    ("/tools/*/timeout", Nothing(TOOL)),
    ("/mcp/servers/*", Judged(Judge::Mcp)),
    ("/web/search/searxng", Judged(Judge::Web)),
    ("/web/search/brave/apiKeyEnv", Judged(Judge::Web)),
    ("/web/search/brave/baseUrl", Judged(Judge::Web)),
    ("/web/search/provider/enabled", NotOn),
    ("/web/search/provider/maxUses", NoMoreThan(|| Some(ProviderSearchConfig::default().max_uses.into()))),
    ("/web/search/provider/allowedDomains", Judged(Judge::Web)),
    ("/web/search/provider/blockedDomains", Judged(Judge::Web)),
    ("/notify/*", Judged(Judge::Notify)),
    ("/hooks/sandbox", Nothing("a project cannot set it")),
    ("/hooks/claudeSettings", Nothing("a project cannot set it")),
    ("/hooks/PreToolUse", Judged(Judge::Hooks)),
    ("/hooks/PostToolUse", Judged(Judge::Hooks)),
    ("/hooks/UserPromptSubmit", Judged(Judge::Hooks)),
    ("/hooks/SubagentStop", Judged(Judge::Hooks)),
    ("/hooks/Stop", Judged(Judge::Hooks)),
    ("/hooks/SessionStart", Judged(Judge::Hooks)),
    ("/hooks/SessionEnd", Judged(Judge::Hooks)),
    ("/observability/endpoint", Judged(Judge::Observability)),
    ("/observability/protocol", Nothing("it says how to speak to a collector, whose address needs trust")),
    ("/observability/captureContent", Judged(Judge::Observability)),
    ("/fleet/address", Judged(Judge::Fleet)),
    ("/fleet/namespace", Judged(Judge::Fleet)),
    ("/fleet/profile", Judged(Judge::Fleet)),
    ("/fleet/queue", Judged(Judge::Fleet)),
    ("/fleet/store", Judged(Judge::Fleet)),
    ("/fleet/takeover", Nothing("a step goes on elsewhere sooner or later")),
    ("/workspace", Judged(Judge::Workspace)),
    ("/land", Judged(Judge::Workspace)),
    ("/verify/*", Judged(Judge::Verification)),
    ("/verify/commands", Judged(Judge::Verification)),
    ("/verify/timeout", NoMoreThan(|| None)),
    ("/verify/tests", Nothing("it names more files as tests, which are compared with their originals")),
    ("/verify/changedChecks", Judged(Judge::Verification)),
    ("/prices", Judged(Judge::Prices)),
];

/// The same for the keys of an agent.
pub(super) const AGENT: &[(&str, Needs)] = &[
    ("/name", Nothing(TEXT)),
    ("/displayName", Nothing(TEXT)),
    ("/whenToUse", Nothing(TEXT)),
    ("/role", Nothing(TEXT)),
    ("/systemPrompt", Nothing(TEXT)),
    ("/acp", Judged(Judge::Agents)),
    ("/tools/allowed", Judged(Judge::Agents)),
    ("/tools/blocked", Judged(Judge::Agents)),
    ("/tools/bashFilter", Nothing(NARROWS)),
    ("/transitions", Nothing("they name agents that are there anyway")),
    ("/limits/maxIterations", NoMoreThan(|| Some(most_turns().into()))),
    ("/limits/timeout", Nothing("without it there is no limit")),
    ("/limits/maxTokens", NoMoreThan(|| number(RESPONSE_TOKENS))),
    ("/budget", Nothing("without it there is no limit")),
    ("/provider/name", Judged(Judge::Prices)),
    ("/provider/model", Judged(Judge::Prices)),
    ("/provider/thinking", NoMoreThinking),
    ("/memory", Nothing("the memories of an untrusted folder are not used")),
    ("/skills", Nothing(NARROWS)),
    ("/permissions", Nothing(NARROWS)),
    ("/metadata", Nothing(TEXT)),
];

/// The longest time that a known server is given.
fn longest(time: fn(&Timeouts) -> u64) -> Option<f64> {
    PRESETS.iter().map(|preset| time(&ProviderSettings::from_preset(preset).timeouts)).max().and_then(number)
}

/// The most turns of one execution that an agent has without any file.
fn most_turns() -> u32 {
    builtin_agents().iter().map(AgentConfig::max_turns).max().unwrap_or(DEFAULT_MAX_TURNS)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::config::{agent_schema, config_schema};

    /// The pointers of all keys below `schema` that have none below them.
    fn leaves(root: &Value, schema: &Value, at: &str, found: &mut BTreeSet<String>) {
        let before = found.len();
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let target = root.pointer(target.trim_start_matches('#')).expect("a definition");
            leaves(root, target, at, found);
        }
        for (name, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            leaves(root, inner, &format!("{at}/{name}"), found);
        }
        for list in ["allOf", "anyOf", "oneOf"] {
            for part in schema.get(list).and_then(Value::as_array).into_iter().flatten() {
                let mut below = BTreeSet::new();
                leaves(root, part, at, &mut below);
                below.remove(at);
                found.extend(below);
            }
        }
        for inner in ["items", "additionalProperties"] {
            if let Some(inner) = schema.get(inner).filter(|inner| inner.is_object()) {
                leaves(root, inner, &format!("{at}/*"), found);
            }
        }
        if found.len() == before && !found.iter().any(|known| known.starts_with(&format!("{at}/"))) {
            found.insert(at.to_owned());
        }
    }

    #[track_caller]
    fn check(schema: &Value, table: &[(&str, Needs)]) {
        let mut keys = BTreeSet::new();
        leaves(schema, schema, "", &mut keys);
        assert!(keys.len() > 15, "{keys:?}");
        let covers = |entry: &str, key: &str| key == entry || key.starts_with(&format!("{entry}/"));
        let missing: Vec<_> =
            keys.iter().filter(|key| !table.iter().any(|(entry, _)| covers(entry, key))).collect();
        assert!(missing.is_empty(), "does a folder need trust for these? {missing:?}");
        let unknown: Vec<_> = table
            .iter()
            .filter(|(entry, _)| !keys.iter().any(|key| covers(entry, key)))
            .map(|e| e.0)
            .collect();
        assert!(unknown.is_empty(), "no such keys: {unknown:?}");
        let empty = table.iter().filter(|(_, needs)| matches!(needs, Nothing(why) if why.is_empty()));
        assert_eq!(empty.count(), 0, "a reason is missing");
    }

    #[test]
    fn every_key_is_in_the_table() {
        check(&config_schema(), CONFIG);
        check(&agent_schema(), AGENT);
    }
}
