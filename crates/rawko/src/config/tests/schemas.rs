//! The schemas, and the documents that must match them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::config::{Config, agent_schema, config_schema, environment_variables};

const DOCUMENTATION: &str = include_str!("../../../../../docs/configuration.md");

fn keys(schema: &Value, keys: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                keys.extend(properties.keys().cloned());
            }
            map.values().for_each(|inner| self::keys(inner, keys));
        }
        Value::Array(items) => items.iter().for_each(|inner| self::keys(inner, keys)),
        _ => {}
    }
}

#[track_caller]
fn check_every_key_in(text: &str, schema: &Value, quote: &str) {
    let mut all = BTreeSet::new();
    keys(schema, &mut all);
    assert!(all.len() > 15, "{all:?}");
    let missing: Vec<&String> = all.iter().filter(|key| !text.contains(&format!("{quote}{key}"))).collect();
    assert!(missing.is_empty(), "not mentioned: {missing:?}");
}

#[test]
fn the_documentation_names_every_key_and_variable() {
    check_every_key_in(DOCUMENTATION, &config_schema(), "`");
    check_every_key_in(DOCUMENTATION, &agent_schema(), "`");
    for variable in environment_variables() {
        assert!(DOCUMENTATION.contains(&format!("`{variable}`")), "{variable}");
    }
}

#[test]
fn the_file_that_init_writes_names_every_key() {
    let schema = config_schema();
    let mut all = BTreeSet::new();
    keys(&schema, &mut all);
    let written = include_str!("../init/config.yaml");
    // `longPrompt` and its fields are described in the documentation only.
    let left_out = ["longPrompt", "aboveTokens", "inputFactor", "outputFactor"];
    let missing: Vec<&String> = all
        .iter()
        .filter(|key| !left_out.contains(&key.as_str()) && !written.contains(&format!("{key}:")))
        .collect();
    assert!(missing.is_empty(), "not mentioned: {missing:?}");
}

#[test]
fn schemas_describe_themselves() {
    fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
        if let Some(Value::Object(properties)) = schema.get("properties") {
            for (key, inner) in properties {
                if inner.get("description").is_none() {
                    found.push(format!("{path}/{key}"));
                }
            }
        }
        if let Value::Object(map) = schema {
            for (key, inner) in map {
                undescribed(inner, &format!("{path}/{key}"), found);
            }
        }
    }
    let mut found = Vec::new();
    undescribed(&config_schema(), "config", &mut found);
    undescribed(&agent_schema(), "agent", &mut found);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn schemas_compile_and_take_the_defaults() {
    let validator = jsonschema::validator_for(&config_schema()).expect("a valid schema");
    let defaults = serde_json::to_value(Config::default()).expect("JSON");
    let errors: Vec<String> = validator.iter_errors(&defaults).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let validator = jsonschema::validator_for(&agent_schema()).expect("a valid schema");
    for agent in rawko_core::agent::builtin_agents() {
        assert!(validator.is_valid(&serde_json::to_value(agent).expect("JSON")));
    }
}

/// Files are validated by the rules of an older draft, for which a schema is nothing but its `$ref` where it has one.
#[test]
fn the_schemas_mean_the_same_in_the_draft_that_validates_files() {
    fn check(schema: &Value) {
        match schema {
            Value::Object(map) => {
                let others = |name: &&String| !["$ref", "default", "description"].contains(&name.as_str());
                let is_reference = map.get("$ref").is_some_and(Value::is_string);
                assert!(!is_reference || map.keys().find(others).is_none(), "{schema}");
                for newer in ["prefixItems", "unevaluatedProperties", "dependentSchemas", "$dynamicRef"] {
                    assert!(!map.contains_key(newer), "{schema}");
                }
                map.values().for_each(check);
            }
            Value::Array(items) => items.iter().for_each(check),
            _ => {}
        }
    }
    for schema in [config_schema(), agent_schema()] {
        assert!(jsonschema::meta::is_valid(&schema) && jsonschema::draft7::meta::is_valid(&schema));
        check(&schema);
    }
}
