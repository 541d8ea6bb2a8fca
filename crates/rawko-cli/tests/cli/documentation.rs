//! `docs/cli.md` mentions every event and exit status, and nothing names a command that is not there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::place::Place;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");

/// The events of the stream, where they are declared: the session's own and the core's.
const EVENTS: [(&str, &str); 2] = [
    ("pub enum RunEvent", include_str!("../../../rawko/src/run/event.rs")),
    ("pub enum Note", include_str!("../../../rawko-core/src/note.rs")),
];

/// Names of all events as they are printed.
fn events() -> Vec<String> {
    let variants = EVENTS.into_iter().flat_map(|(head, source)| {
        let declared =
            source.lines().skip_while(move |line| !line.starts_with(head)).take_while(|line| *line != "}");
        declared.filter_map(|line| line.strip_prefix("    ")?.split_once([' ', '(']))
    });
    let named = variants.filter(|(name, rest)| {
        name.starts_with(char::is_uppercase) && *name != "Note" && rest.ends_with(['{', ','])
    });
    named.map(|(name, _)| snake_case(name)).collect()
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

/// Commands under `arguments`, from their help.
fn commands(place: &Place, arguments: &[&str]) -> Vec<String> {
    let help = place.rawko(&[arguments, &["--help"]].concat()).ends(0).out;
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Deeper lines go on with a description.
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty() && *name != "help");
    names.map(str::to_owned).collect()
}

#[test]
fn every_event_and_status_is_mentioned() {
    let docs = std::fs::read_to_string(DOCS).expect("docs/cli.md");
    let events = events();
    assert!(events.len() >= 20 && events.contains(&"session_finished".to_owned()), "{events:?}");
    let mut wanted: Vec<String> = events.iter().map(|event| format!("| `{event}` |")).collect();
    wanted.extend([0, 1, 2, 3, 4, 5, 130].map(|code| format!("| {code} |")));
    let missing: Vec<String> = wanted.into_iter().filter(|part| !docs.contains(part.as_str())).collect();
    assert_eq!(missing, Vec::<String>::new());
}

/// Files below `folder` with this ending.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            files(&entry, ending, found);
        } else if entry.extension().is_some_and(|it| it == ending) {
            found.push(entry);
        }
    }
}

#[test]
fn every_command_that_hints_and_documentation_name_is_there() {
    let place = Place::new();
    // Those of features are in the help of builds that have them.
    let all =
        commands(&place, &[]).into_iter().chain(["submit", "fleet", "worker", "acp"].map(str::to_owned));
    let actions: BTreeMap<String, Vec<String>> =
        all.map(|name| (name.clone(), commands(&place, &[&name]))).collect();
    let root = Path::new(ROOT);
    let mut sources = vec![root.join("README.md")];
    files(&root.join("docs"), "md", &mut sources);
    for entry in std::fs::read_dir(root.join("crates")).expect("the crates") {
        files(&entry.expect("a crate").path().join("src"), "rs", &mut sources);
    }
    let mut wrong = Vec::new();
    for source in sources {
        let text = std::fs::read_to_string(&source).expect("text");
        for line in text.split("`rawko ").skip(1) {
            // The example of a word that is no command.
            let words =
                line.split(|c: char| !(c.is_ascii_lowercase() || c == ' ')).next().unwrap_or_default();
            let mut words = words.split(' ').filter(|word| !word.is_empty() && *word != "login");
            let (Some(name), action) = (words.next(), words.next()) else { continue };
            let is_there = actions.get(name).is_some_and(|actions| {
                actions.is_empty() || action.is_none_or(|it| actions.iter().any(|one| one == it))
            });
            if !is_there {
                wrong.push(format!("{}: rawko {name} {}", source.display(), action.unwrap_or_default()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Texts between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a source has a test (or a function that every test goes through) of this name: as a function, or as an entry of a
/// table of tests.
fn has_test(source: &str, name: &str) -> bool {
    [format!("fn {name}("), format!("\n    {name}: \""), format!("\"{name}\"")]
        .iter()
        .any(|form| source.contains(form.as_str()))
}

/// What is wrong with a table of attacks: tests and files that are not there, attempts without a test.
fn wrong_attempts(page: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    let is_file = |name: &str| name.ends_with(".rs");
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| part ") && !line.starts_with("| ---"));
    // The sentences before the tables name files and tests in the same way.
    let parts = rows
        .map(|row| row.split(" | ").nth(1).unwrap_or_default())
        .chain(page.lines().filter(|line| !line.starts_with('|')));
    for part in parts {
        let mut source = None;
        for name in code(part) {
            if is_file(name) {
                source = read(name);
                if source.is_none() {
                    wrong.push(format!("there is no {name}"));
                }
            } else if name.contains('_') && !source.as_ref().is_some_and(|source| has_test(source, name)) {
                wrong.push(format!("there is no test {name}"));
            }
        }
    }
    for row in page.lines().filter(|line| line.starts_with("| ") && line.contains(".rs")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let guards = cells.get(2).into_iter().flat_map(|cell| code(cell)).filter(|name| is_file(name));
        wrong.extend(
            guards.filter(|name| read(name).is_none()).map(|name| format!("there is no guard {name}")),
        );
        if cells.len() != 3 || !cells[1].contains("`: `") {
            wrong.push(format!("nothing attempts: {row}"));
        }
    }
    wrong
}

#[test]
fn every_attack_has_tests_that_are_there() {
    let root = Path::new(ROOT);
    let page = std::fs::read_to_string(root.join("docs/attacks.md")).expect("docs/attacks.md");
    let read = |name: &str| std::fs::read_to_string(root.join("crates").join(name)).ok();
    assert_eq!(wrong_attempts(&page, read), Vec::<String>::new());
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains("`: `")).count();
    assert!(rows >= 40, "{rows}");
}

#[test]
fn an_attack_without_its_test_would_be_noticed() {
    let read = |name: &str| (name == "a.rs").then(|| "fn tries() {}".to_owned());
    let row = |attempts: &str| wrong_attempts(&format!("| it | {attempts} | `a.rs` |"), read);
    assert_eq!(row("`a.rs`: `tries`"), Vec::<String>::new());
    assert_eq!(row("`a.rs`: `tries_not`"), ["there is no test tries_not"]);
    assert_eq!(row("`b.rs`: `tries_it`"), ["there is no b.rs", "there is no test tries_it"]);
    assert_eq!(row("by hand").len(), 1);
}
