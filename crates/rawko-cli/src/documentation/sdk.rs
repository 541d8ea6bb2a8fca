//! `docs/sdk.md` shows the programs of `examples`, which other tests run, as they are.

use std::path::Path;

use super::{ROOT, check_generated};

const PAGE: &str = "docs/sdk.md";

#[test]
fn the_guide_shows_the_examples_as_they_are() {
    let read = |name: &str| std::fs::read_to_string(Path::new(ROOT).join(name)).expect(name);
    let mut page = String::new();
    let mut shown = 0;
    let text = read(PAGE);
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("<!-- begin ") {
        let (name, after) = after.split_once(" -->\n").expect("the end of a marker");
        let end = format!("<!-- end {name} -->");
        let (_, after) = after.split_once(&end).unwrap_or_else(|| panic!("{PAGE} has no {end}"));
        let code = without_header(&read(&format!("examples/{name}")));
        page.push_str(&format!("{before}<!-- begin {name} -->\n```rust,no_run\n{code}```\n{end}"));
        rest = after;
        shown += 1;
    }
    page.push_str(rest);
    assert_eq!(shown, 5);
    check_generated(PAGE, &page);
}

/// The program without the comment that describes it.
fn without_header(code: &str) -> String {
    let lines = code.lines().skip_while(|line| line.starts_with("//!") || line.is_empty());
    lines.map(|line| format!("{line}\n")).collect()
}
