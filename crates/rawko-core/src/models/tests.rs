use serde_json::json;

use super::*;

#[test]
fn the_table_can_be_read_and_says_where_it_comes_from() {
    let groups: Vec<Group> = serde_json::from_str(include_str!("models.json")).expect("the table");
    assert!(groups.len() >= 4);
    for group in &groups {
        let is_date = |text: &str| text.len() == 10 && text.split('-').count() == 3;
        assert!(is_date(&group.as_of), "{}: {}", group.of, group.as_of);
        let FigureSources { limits, prices, behaviour, aliases } = &group.sources;
        let given = [limits, prices, aliases].into_iter().flatten().chain(behaviour);
        assert!(given.clone().count() > 0, "{} has no source", group.of);
        assert!(given.clone().all(|source| source.starts_with("https://")), "{:?}", group.sources);
        // Each figure has a source for its kind.
        for row in &group.models {
            let is_limited = row.context_window.is_some() || row.max_output.is_some();
            assert!(!is_limited || limits.is_some(), "no source for the limits of {}", row.name);
            assert!(row.price.is_none() || prices.is_some(), "no source for the price of {}", row.name);
        }
        assert_eq!(group.aliases.is_empty(), aliases.is_none(), "{}", group.of);
    }
    let names: Vec<&str> =
        groups.iter().flat_map(|group| &group.models).map(|row| row.name.as_str()).collect();
    for (at, name) in names.iter().enumerate() {
        assert_eq!(&bare_name(name), name, "names are written as they are looked up");
        assert!(!names[..at].contains(name), "{name} is there twice");
    }
}

#[test]
fn aliases_lead_to_models_whose_limits_are_known() {
    let services: Vec<&str> =
        TABLE.iter().flat_map(|group| group.aliases.keys().map(String::as_str)).collect();
    assert_eq!(services, ["claude", "openai", "responses", "gemini", "openrouter"]);
    assert!(aliases("openai").eq(aliases("responses")), "one service over two wires");
    for service in services {
        for (short, full) in aliases(service) {
            assert!(find(full).context_window.or(find(full).max_output).is_some(), "{short} is {full}");
            assert_eq!(find_alias(service, full), None, "{full} is no alias itself");
        }
    }
    assert_eq!(find_alias("claude", "opus"), Some("claude-opus-5-5"));
    assert_eq!(find_alias("openrouter", "opus"), Some("anthropic/claude-opus-5.5"));
    assert_eq!(find_alias("openai", "opus"), None);
    assert_eq!(find_alias("unknown", "opus"), None);
    assert_eq!(services_with_alias("sonnet").collect::<Vec<_>>(), ["claude", "openrouter"]);
    assert_eq!(services_with_alias("claude-opus-5-5").count(), 0);
}

#[test]
fn a_price_has_a_date_and_a_source() {
    let known = find("claude-sonnet-5-5");
    assert_eq!(known.as_of.map(str::len), Some(10));
    assert!(known.price_source.is_some_and(|source| source.ends_with("/pricing")), "{known:?}");
    assert_eq!(find("gpt-5-nano").price_source, None, "no price, no source");
}

#[track_caller]
fn check_price(model: &str, input: Option<f64>) {
    assert_eq!(find(model).price.map(|price| price.input), input, "{model}");
}

#[test]
fn prices_hold_for_releases_and_not_for_look_alikes() {
    check_price("claude-sonnet-5-5", Some(2.0));
    check_price("claude-sonnet-4-5-20250929", Some(3.0));
    check_price("claude-sonnet-4-20250514", Some(3.0));
    check_price("claude-opus-4-1-20250805", Some(15.0));
    check_price("anthropic/claude-opus-5.5", Some(4.0));
    check_price("gpt-5.4-mini-2026-03-17", Some(0.75));
    check_price("gpt-4o:extended", Some(2.5));
    check_price("gpt-4.1", Some(2.0));
    check_price("gpt-4-0613", Some(30.0));
    check_price("gpt-4-turbo-2024-04-09", Some(10.0));
    for unknown in [
        "claude-haiku-4-9",
        "gpt-4-32k",
        "claude-sonnet-4-9",
        "claude-opus-5-7",
        "gpt-5-pro",
        "gpt-5.9",
        "llama3.2:latest",
        "",
    ] {
        check_price(unknown, None);
    }
}

/// The models that the project's founding documents name.
#[test]
fn models_of_the_founding_documents_have_a_price_and_limits() {
    for name in ["claude-haiku-4", "claude-sonnet-4", "gpt-4"] {
        for model in [name, find_alias("claude", name).unwrap_or(name)] {
            let facts = find(model);
            assert!(facts.price.is_some() && facts.price_source.is_some(), "{model}: {facts:?}");
            assert!(facts.context_window.is_some() && facts.max_output.is_some(), "{model}: {facts:?}");
        }
    }
    // Anthropic's service has no model of these names (any more): they mean the newest one of that generation.
    assert_eq!(find_alias("claude", "claude-haiku-4"), Some("claude-haiku-4-5"));
    assert_eq!(find_alias("claude", "claude-sonnet-4"), Some("claude-sonnet-4-6"));
    assert_eq!(find_alias("claude", "claude-opus-4"), Some("claude-opus-4-8"));
    // A model of its own keeps its name.
    for model in ["claude-sonnet-5", "claude-haiku-4-5", "claude-sonnet-4-20250514"] {
        assert_eq!(find_alias("claude", model), None, "{model}");
    }
}

#[track_caller]
fn check_window(model: &str, expected: Option<u32>) {
    assert_eq!(find(model).context_window, expected, "{model}");
}

#[test]
fn windows_hold_for_families_and_not_for_look_alikes() {
    check_window("claude-sonnet-4-5-20250929", Some(200_000));
    check_window("claude-3-5-haiku-latest", Some(200_000));
    check_window("claude-sonnet-5-5", Some(1_000_000));
    check_window("anthropic/claude-opus-5.5", Some(1_000_000));
    check_window("bedrock/us.anthropic.claude-sonnet-5-5-20260928-v1:0", Some(1_000_000));
    check_window("claude-opus-5-5@20260910", Some(1_000_000));
    check_window("gpt-4-0613", Some(8_192));
    check_window("gpt-4-turbo-preview", Some(128_000));
    check_window("gpt-4o-mini", Some(128_000));
    check_window("gpt-4.1-mini", Some(1_047_576));
    check_window("gpt-5.4", Some(272_000));
    check_window("o3-mini", Some(200_000));
    check_window("google/gemini-2.5-pro", Some(1_048_576));
    check_window("deepseek-chat", Some(128_000));
    for unknown in [
        "",
        "claudette",
        "gpt-4-32k",
        "gpt-4-1106-preview",
        "gpt-oss:20b",
        "deepseek-r1:8b",
        "o30",
        "qwen3-coder",
    ] {
        check_window(unknown, None);
    }
}

/// Output, whether it thinks by itself, how it thinks least, whether that is off; temperature and forced tools.
type Facts = (Option<u32>, Option<bool>, Value, bool, Option<When>, Option<When>);

#[track_caller]
fn check(model: &str, expected: &Facts) {
    let known = find(model);
    let least = known.least_thinking;
    let fields = least.map_or(Value::Null, |least| Value::Object(least.fields.clone()));
    let is_off = least.is_some_and(|least| least.is_off);
    let facts = (known.max_output, known.thinks, fields, is_off, known.temperature, known.forced_tools);
    assert_eq!(&facts, expected, "{model}");
}

#[test]
fn each_generation_refuses_something_else() {
    use When::{Never, WithoutThinking};
    let (long, short) = (Some(128_000), Some(64_000));
    let between = json!({"thinking": {"type": "between_tools"}});
    let disabled = json!({"thinking": {"type": "disabled"}});
    let low = json!({"output_config": {"effort": "low"}});
    check("claude-sonnet-5-5", &(long, Some(true), between, true, Some(Never), Some(Never)));
    check("claude-opus-5-5", &(long, Some(true), low.clone(), false, Some(Never), Some(Never)));
    check("claude-fable-5-1", &(long, Some(true), low, false, Some(Never), Some(Never)));
    for model in ["claude-sonnet-5", "claude-opus-5", "claude-haiku-5-5"] {
        check(model, &(long, Some(true), disabled.clone(), true, Some(Never), Some(WithoutThinking)));
    }
    check("claude-opus-4-8", &(long, Some(false), Value::Null, false, Some(Never), Some(WithoutThinking)));
    let old = (short, Some(false), Value::Null, false, Some(WithoutThinking), Some(WithoutThinking));
    check("claude-haiku-4-5", &old);
    check("claude-sonnet-4-5-20250929", &old);
    // A model that is not in the table has the limits of its family, and no extra fields.
    check("claude-sonnet-5-9", &(long, Some(true), Value::Null, false, Some(Never), Some(WithoutThinking)));
    check("gpt-5.6-terra", &(long, Some(true), json!({"reasoning_effort": "none"}), true, Some(Never), None));
    assert_eq!(find("gpt-5.6-terra").with_tools, json!({"reasoning_effort": "none"}).as_object());
    assert_eq!(find("gpt-5.4").with_tools, None);
    check("gpt-4.1-mini", &(Some(32_768), Some(false), Value::Null, false, None, None));
    check("qwen3-coder", &(None, None, Value::Null, false, None, None));
}
