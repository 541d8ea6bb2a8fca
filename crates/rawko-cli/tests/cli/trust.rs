//! Trust: what an untrusted folder may not have, and how it is given and taken.

use serde_json::json;

use crate::place::Place;

fn place() -> Place {
    Place::scripted(&json!([
        {"for": "select", "repeat": true, "decision": {"decision": "SELECT_MODE", "mode": "planner", "reason": "look"}},
        {"for": "planner", "repeat": true, "tools": [{"name": "Report", "input": {"outcome": "success", "summary": "Seen."}}]},
        {"for": "evaluate", "repeat": true, "decision": {"decision": "COMPLETE", "reason": "nothing to do"}},
    ]))
}

#[test]
fn an_untrusted_folder_is_refused_until_it_is_trusted_as_it_is() {
    let place = place();
    let refused = place.rawko(&["do it"]).ends(5);
    insta::assert_snapshot!(place.normal(&refused.err));
    assert!(!place.project().join(".rawko/sessions").exists(), "nothing was begun");
    place.rawko(&["do it", "--yes"]).ends(0);
    place.rawko(&["do it"]).ends(5);

    place.rawko(&["trust"]).ends(0).says(&["is trusted", "config.yaml:"]);
    place.rawko(&["do it"]).ends(0);
    place.rawko(&["config", "check"]).ends(0).says(&["and the folder is trusted"]);

    place.write(".rawko/prompts/arbiter-select.md", "Choose.\n");
    place.rawko(&["do it"]).ends(5);
    place.rawko(&["trust", "--json"]).ends(0).says(&["\"trusted\": true"]);
    place.rawko(&["do it"]).ends(0);
    place.rawko(&["trust", "--revoke"]).ends(0).says(&["no longer trusted"]);
    place.rawko(&["do it"]).ends(5);
    place.rawko(&["config", "check"]).ends(0).says(&["the folder is not trusted", "rawko trust"]);
}

#[test]
fn looking_needs_no_trust_and_acting_does() {
    let place = place();
    place.rawko(&["agents", "list"]).ends(0);
    place.rawko(&["config", "show"]).ends(0).says(&["provider.default = s"]);
    place.rawko(&["tools", "call", "Read", "--agent", "planner", "--input", r#"{"file_path":"x"}"#]).ends(5);
    place.rawko(&["providers", "models"]).ends(5);
    let doctor = place.rawko(&["doctor"]).ends(1);
    doctor.says(&["problem  trust", "rawko trust"]);
}

#[test]
fn a_folder_without_configuration_has_nothing_to_trust() {
    let place = Place::new();
    place.rawko(&["trust"]).ends(0).says(&["nothing to trust"]);
    let mut command = place.command(&["trust"]);
    crate::place::Done::of(command.env_remove("HOME").output().unwrap())
        .ends(2)
        .complains(&["neither XDG_STATE_HOME nor HOME is set"]);
}
