//! The exports, and the documentation that contains them.

#![allow(clippy::expect_used, clippy::panic)]

use std::fs;

use rawko_core::machine::export;
use rawko_core::machine::table::{STATES, TABLE, Trigger};
use serde_json::Value;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/machine.md");

#[test]
fn mermaid() {
    insta::assert_snapshot!(export::mermaid());
}

#[test]
fn dot() {
    insta::assert_snapshot!(export::dot());
}

#[test]
fn xstate() {
    insta::assert_snapshot!(export::xstate().expect("the config"));
}

/// A label of a state diagram ends at a line break, and a `;` or a second `:` would end it early.
#[test]
fn mermaid_labels_are_plain() {
    for line in export::mermaid().lines().skip(1) {
        assert!(line.matches(':').count() <= 1 && !line.contains(';'), "{line}");
    }
}

/// Every row is in each picture, once for each state that it leaves.
#[test]
fn no_row_is_lost() {
    let config: Value = serde_json::from_str(&export::xstate().expect("the config")).expect("JSON");
    let (mermaid, dot) = (export::mermaid(), export::dot());
    let mut expected = 0;
    for row in TABLE {
        let trigger = match row.trigger {
            Trigger::Event(kind) => kind.as_str(),
            Trigger::Always => "always",
        };
        for from in row.from {
            expected += 1;
            let Some(to) = row.target else { continue };
            for (picture, arrow) in
                [(&mermaid, format!("{from} --> {to}: ")), (&dot, format!("{from} -> {to} [label="))]
            {
                let line = picture.lines().find(|line| line.contains(&arrow)).expect("an arrow");
                assert!(line.contains(trigger), "{trigger} is missing in {line}");
                let guard = row.guard.map(|guard| format!("{trigger} [{}]", guard.name()));
                assert!(guard.is_none_or(|guard| line.contains(&guard)), "{row:?} is missing in {line}");
            }
        }
    }
    let count = |state: &Value| -> usize {
        let on = state["on"].as_object().into_iter().flat_map(|on| on.values());
        on.chain(state.get("always")).map(|rows| rows.as_array().map_or(0, Vec::len)).sum()
    };
    let states = config["states"].as_object().expect("states");
    assert_eq!(states.values().map(count).sum::<usize>(), expected);
}

/// `docs/machine.md` contains the diagram and the table between its markers. `RAWKO_UPDATE_DOCS=1` updates it.
#[test]
fn the_documentation_shows_the_machine_as_it_is() {
    let page = fs::read_to_string(PAGE).expect("docs/machine.md");
    let diagram = format!("```mermaid\n{}```\n", export::mermaid());
    let current = replace(&replace(&page, "diagram", &diagram), "transitions", &transitions());
    if page != current && std::env::var_os("RAWKO_UPDATE_DOCS").is_some() {
        fs::write(PAGE, &current).expect("to write docs/machine.md");
        return;
    }
    assert!(
        page == current,
        "docs/machine.md does not show the transition table as it is; run\n    \
         RAWKO_UPDATE_DOCS=1 cargo test -p rawko-core --test machine_export\nand look at the difference"
    );
}

/// The page with `block` between the marker comments of this name.
fn replace(page: &str, name: &str, block: &str) -> String {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no `{begin}` in docs/machine.md"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("no `{end}` in docs/machine.md"));
    format!("{before}{begin}\n{block}\n{end}{after}")
}

/// The rows as a Markdown table, in the order in which they are checked.
fn transitions() -> String {
    let mut lines =
        vec!["| in | on | if | to | actions |".to_owned(), "| --- | --- | --- | --- | --- |".to_owned()];
    for row in TABLE {
        let from: Vec<&str> = row.from.iter().map(|state| state.as_str()).collect();
        let trigger = match row.trigger {
            Trigger::Event(kind) => format!("`{kind}`"),
            Trigger::Always => "entry".to_owned(),
        };
        let actions: Vec<String> = row.actions.iter().map(|action| format!("`{}`", action.name())).collect();
        lines.push(format!(
            "| {} | {trigger} | {} | {} | {} |",
            from.join(", "),
            row.guard.map_or("", |guard| guard.description()),
            row.target.map_or("", |target| target.as_str()),
            actions.join(" "),
        ));
    }
    lines.push(String::new());
    for row in STATES.iter().filter(|row| !row.entry.is_empty()) {
        let entry: Vec<String> = row.entry.iter().map(|action| format!("`{}`", action.name())).collect();
        lines.push(format!("- every entry into {}: {}", row.state, entry.join(" ")));
    }
    lines.push(String::new());
    lines.join("\n")
}
