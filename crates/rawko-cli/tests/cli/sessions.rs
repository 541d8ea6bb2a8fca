//! `rawko sessions`: a journal says what the run said.

use serde_json::{Value, json};

use crate::place::Place;

fn place() -> Place {
    Place::scripted(&json!([
        {"for": "select", "decision": {"decision": "SELECT_MODE", "mode": "developer", "reason": "it is time"}},
        {"for": "developer", "text": "At work.", "tools": [
            {"name": "Write", "input": {"file_path": "new.txt", "content": "hello\n"}},
            {"name": "Report", "input": {"outcome": "success", "summary": "Written."}}]},
        {"for": "evaluate", "decision": {"decision": "COMPLETE", "reason": "done", "summary": "It is done."}},
    ]))
}

#[test]
fn a_run_is_listed_and_shown_again() {
    let place = place();
    place.rawko(&["sessions", "list"]).ends(0).says(&["no sessions yet"]);
    assert_eq!(place.rawko(&["sessions", "list", "--json"]).ends(0).json(), json!([]));
    place.rawko(&["sessions", "show"]).ends(2).complains(&["there are no sessions in", "rawko \"a task\""]);

    let live = place.rawko(&["--yes", "--output", "stream-json", "write it"]).ends(0).json_lines();
    let id = live[0]["session"].as_str().unwrap();
    place.rawko(&["sessions", "list"]).ends(0).says(&[id, "claimed", "write it"]);
    let list = place.rawko(&["sessions", "list", "--json"]).ends(0).json();
    assert_eq!((&list[0]["id"], &list[0]["outcome"]["status"]), (&json!(id), &json!("claimed")));

    let again = place.rawko(&["sessions", "show", &id[..15], "--json"]).ends(0).json();
    // Pieces of text come whole from a journal.
    let comparable = |events: &[Value]| -> Vec<Value> {
        let mut events: Vec<Value> =
            events.iter().filter(|event| event["type"] != "text_delta").cloned().collect();
        events[0]["at"] = json!(0);
        events
    };
    assert_eq!(comparable(again["events"].as_array().unwrap()), comparable(&live));
    let shown = place.rawko(&["sessions", "show"]).ends(0);
    shown.says(&["developer: At work.", "developer> Write new.txt", "Claimed done", "It is done."]);
}

#[test]
fn a_folder_within_a_project_belongs_to_it() {
    let place = place();
    std::fs::create_dir_all(place.project().join("deep/down")).unwrap();
    let live = place
        .rawko(&["--yes", "-C", "deep/down", "--output", "stream-json", "write it"])
        .ends(0)
        .json_lines();
    assert!(place.project().join("new.txt").exists() && !place.project().join("deep/down/.rawko").exists());
    let id = live[0]["session"].as_str().unwrap();
    place.rawko(&["-C", "deep", "sessions", "list"]).ends(0).says(&[id]);
    // The root of another repository is where the project ends.
    std::fs::create_dir_all(place.project().join("deep/.git")).unwrap();
    place.rawko(&["-C", "deep/down", "sessions", "list"]).ends(0).says(&["no sessions yet"]);
}

#[test]
fn what_is_torn_or_damaged_is_said() {
    let place = place();
    let live = place.rawko(&["--yes", "--output", "stream-json", "write it"]).ends(0).json_lines();
    let journal = live[0]["journal"].as_str().unwrap().to_owned();
    let whole = std::fs::read(&journal).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let torn = [lines[..3].concat(), lines[3][..9].to_vec()].concat();
    std::fs::write(&journal, &torn).unwrap();
    place.rawko(&["sessions", "show"]).ends(0).says(&["the last record is incomplete", "has not ended"]);
    place.rawko(&["sessions", "list"]).ends(0).says(&["unfinished"]);
    let damaged = String::from_utf8(whole).unwrap().replacen("write it", "write at", 1);
    std::fs::write(&journal, damaged).unwrap();
    place.rawko(&["sessions", "show"]).ends(1).complains(&["record 0", "damaged", "checksum"]);
}
