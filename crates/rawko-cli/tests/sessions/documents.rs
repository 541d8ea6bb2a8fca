//! Listing and exporting.

use serde_json::{Value, json};

use crate::bench::{Bench, CANARY, complete, report, select, short, turn};

/// What a hostile model would like a reader's program to do.
const HOSTILE: &str = "<script>alert(1)</script>\n```\n</details>\n![x](http://h/p)\u{1b}[31mred\u{202e}";

fn exported() -> Bench {
    let bench = Bench::new(&json!([
        select(),
        turn("", "UpdatePlan", json!({"steps": [{"description": "write it", "status": "in_progress"}]})),
        turn(HOSTILE, "Bash", json!({"command": "seq 1 4000; printenv DEPLOY_TOKEN; echo end of it"})),
        turn(
            &format!("the key is {CANARY}"),
            "Write",
            json!({"file_path": "/etc/outside", "content": HOSTILE})
        ),
        report(),
        complete(),
    ]));
    bench.rawko(&["run", "--quiet", &format!("Do it with {CANARY} and <i>care</i>.")]).check(0, &[]);
    let recorded = std::fs::read_to_string(bench.journal_path()).unwrap();
    assert!(recorded.contains("[redacted]") && !recorded.contains(CANARY), "the key is in the journal");
    bench
}

#[test]
fn a_session_is_exported_as_json() {
    let bench = exported();
    let said = bench.rawko(&["sessions", "export", "--format", "json"]).check(0, &[]);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(document["format"], 2);
    assert_eq!(document["task"], "Do it with [redacted] and <i>care</i>.");
    assert_eq!(document["outcome"]["status"], "claimed");
    assert_eq!(document["plan"]["steps"][0]["description"], "write it");
    let entries = document["entries"].as_array().unwrap();
    let of = |kind: &str| entries.iter().filter(|entry| entry["type"] == kind).collect::<Vec<_>>();
    assert_eq!(of("decision_made").len(), 2);
    assert_eq!(of("decision_made")[0]["decision"]["reason"], "it is <b>code</b>");
    let calls = of("tool_called");
    let tools: Vec<&Value> = calls.iter().map(|called| &called["call"]["name"]).collect();
    assert_eq!(tools, ["UpdatePlan", "Bash", "Write", "Report"]);
    let result_of = |called: &Value| {
        let mut finished = of("tool_finished").into_iter();
        finished.find(|it| it["callId"] == called["call"]["id"]).unwrap()["outcome"].clone()
    };
    let bash = result_of(calls[1]);
    assert_eq!(bash["exitCode"], 0);
    assert!(bash["content"].as_str().unwrap().contains("end of it"), "{bash}");
    assert_eq!(result_of(calls[2])["isError"], true);
    assert!(of("model_replied")[1]["text"] == "the key is [redacted]", "{:?}", of("model_replied"));
    // Every record that is named is there.
    let records = bench.journal().records.len() as u64;
    assert!(entries.iter().all(|entry| (1..=records).contains(&entry["record"].as_u64().unwrap())));
}

#[test]
fn a_session_is_exported_to_be_read() {
    let bench = exported();
    let words = [
        "[redacted]",
        "developer",
        "Bash",
        "exit 0",
        "end of it",
        "bytes cut",
        "all done",
        "write it",
        "Iteration 1",
    ];
    let markdown = bench.rawko(&["sessions", "export"]).check(0, &words).out;
    assert!(markdown.starts_with("# Session 2"), "{markdown}");
    let quoted: Vec<&str> = markdown.lines().filter(|line| line.starts_with('>')).collect();
    assert!(quoted.iter().any(|line| line.contains("&lt;script>alert(1)")), "{quoted:?}");
    for markup in ["<", "![", "]("] {
        assert!(!quoted.iter().any(|line| line.contains(markup)), "{markup} in an agent's words: {quoted:?}");
    }

    let html = bench.rawko(&["sessions", "export", "last", "--format", "html"]).check(0, &words).out;
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
    assert!(html.contains("&lt;script&gt;") && !html.contains("<script"), "{html}");
    assert!(html.contains("default-src 'none'"));
    for loaded in ["src=", "href=", "url(", "@import"] {
        assert!(!html.contains(loaded), "{loaded}");
    }
    let count = |tag: &str| html.matches(tag).count();
    for tag in ["details", "pre", "blockquote", "table", "ul", "h3"] {
        assert_eq!(
            count(&format!("<{tag}>")) + count(&format!("<{tag} ")),
            count(&format!("</{tag}>")),
            "{tag}"
        );
    }
    assert_eq!(count("<details>"), 4, "one for each call");
    assert!(html.len() < 60_000 && markdown.len() < 60_000, "long outputs are bounded");
}

#[test]
fn a_list_tells_of_each_session() {
    let bench = Bench::new(&short());
    bench.rawko(&["sessions", "list"]).check(0, &["no sessions yet"]);
    bench.rawko(&["run", "--quiet", "Do it."]).check(0, &[]);
    bench.rawko(&["sessions", "list"]).check(0, &["ITERATIONS", "claimed", " 1 ", "Do it."]);
    let listed: Value =
        serde_json::from_str(&bench.rawko(&["sessions", "list", "--json"]).check(0, &[]).out).unwrap();
    assert_eq!((&listed[0]["status"], &listed[0]["iterations"]), (&json!("ended"), &json!(1)));
    bench
        .rawko(&["sessions", "export", "nothing-like-it"])
        .check(2, &["no session `nothing-like-it`", "sessions list"]);
}
