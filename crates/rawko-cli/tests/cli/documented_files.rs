//! Every configuration, agent, skill, memory and script that README and book show is one that rawko reads.

use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use rawko::provider::Script;

use crate::place::Place;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A file that a page shows: the page, where the file is, and its text.
struct Shown {
    page: String,
    path: String,
    text: String,
}

/// The files in the fences of a page. YAML without a title is the project's configuration.
fn shown(page: &str, markdown: &str) -> Vec<Shown> {
    let mut found = Vec::new();
    let mut open: Option<Shown> = None;
    for event in Parser::new(markdown) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                let title = info.split_once("title=\"").and_then(|(_, rest)| rest.split('"').next());
                let path = title.or_else(|| (info.as_ref() == "yaml").then_some(".rawko/config.yaml"));
                let shown =
                    |path: &str| Shown { page: page.to_owned(), path: path.to_owned(), text: String::new() };
                open = path.map(shown);
            }
            Event::Text(text) => {
                if let Some(file) = &mut open {
                    file.text.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => found.extend(open.take()),
            _ => {}
        }
    }
    found
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    let docs =
        std::fs::read_dir(root.join("docs")).expect("docs").map(|entry| entry.expect("an entry").path());
    let mut pages: Vec<PathBuf> = docs.filter(|path| path.extension().is_some_and(|it| it == "md")).collect();
    pages.push(root.join("README.md"));
    pages.sort();
    pages
}

/// What is wrong with a file, as rawko says.
fn complaint(file: &Shown) -> Option<String> {
    let place = Place::new();
    let is_wrong = |arguments: &[&str]| {
        let done = place.rawko(arguments);
        (done.code != Some(0)).then(|| format!("{}{}", done.out, done.err))
    };
    match file.path.as_str() {
        "rehearsal.yaml" => {
            place.write(&file.path, &file.text);
            let value = rawko::config::read_data_file(&place.project().join(&file.path));
            let script = value
                .map_err(|error| error.to_string())
                .and_then(|value| serde_json::from_value::<Script>(value).map_err(|error| error.to_string()));
            script.err()
        }
        path if path.ends_with("/SKILL.md") => {
            place.write(path, &file.text);
            is_wrong(&["skills", "check", path.trim_end_matches("/SKILL.md")])
        }
        path if path.starts_with(".rawko/memories/") => {
            place.write(path, &file.text);
            is_wrong(&["memory", "check"])
        }
        path => {
            let of_user = path.strip_prefix("~/").map(|path| format!("../home/{path}"));
            place.write(of_user.as_deref().unwrap_or(path), &file.text);
            is_wrong(&["config", "check"]).or_else(|| warnings(&place))
        }
    }
}

/// What rawko warns of in the file itself, and not for want of the servers and skills that it names.
fn warnings(place: &Place) -> Option<String> {
    let printed = place.rawko(&["config", "check", "--json"]).ends(0).json();
    let is_of_others = |text: &str| text.contains("MCP server") || text.contains("names the skill");
    let messages =
        printed["warnings"].as_array().expect("warnings").iter().filter_map(|one| one["message"].as_str());
    let messages: Vec<&str> = messages.filter(|text| !is_of_others(text)).collect();
    (!messages.is_empty()).then(|| messages.join("; "))
}

/// Files that other tests run: programs, and workflows, whose steps go through the parser of the command line.
fn is_for_others(path: &str) -> bool {
    path == ".rawko/tools/ticket" || path == "check-journal.py" || path.starts_with(".github/")
}

#[test]
fn rawko_reads_every_file_that_the_documentation_shows() {
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for path in pages() {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a page");
        for file in shown(&name, &text).iter().filter(|file| !is_for_others(&file.path)) {
            checked += 1;
            wrong.extend(complaint(file).map(|why| format!("{}, {}: {why}", file.page, file.path)));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(checked >= 15, "{checked}");
}

#[test]
fn a_wrong_file_would_be_noticed() {
    let check = |fence: &str, text: &str| {
        let files = shown("p.md", &format!("{fence}\n{text}\n```\n"));
        assert_eq!(files.len(), 1);
        complaint(&files[0])
    };
    assert_eq!(check("```yaml", "arbiter: {mode: hybrid}"), None);
    assert!(check("```yaml", "arbiter: {mood: hybrid}").unwrap().contains("mood"));
    assert!(
        check("```yaml title=\"~/.config/rawko/config.yaml\"", "arbitre: {}").unwrap().contains("arbitre")
    );
    assert!(check("```yaml title=\".rawko/agents/a.yaml\"", "nome: a").unwrap().contains("nome"));
    assert!(check("```yaml title=\"rehearsal.yaml\"", "- fore: select").is_some());
    assert!(check("```markdown title=\".agents/skills/a/SKILL.md\"", "---\nname: b\n---").is_some());
    assert!(check("```markdown title=\".rawko/memories/a.md\"", "no front matter").is_some());
}

/// The program of `docs/journal-format.md`, with a real journal and with one in which a byte was changed.
#[test]
fn the_program_that_checks_a_journal_does() {
    let page = std::fs::read_to_string(Path::new(ROOT).join("docs/journal-format.md")).expect("the page");
    let program =
        shown("", &page).into_iter().find(|file| file.path == "check-journal.py").expect("the program");
    let place = Place::scripted(&serde_json::json!([
        {"for": "select", "decision": {"decision": "SELECT_MODE", "mode": "planner", "reason": "first"}},
        {"for": "planner", "tools": [{"name": "Report", "input": {"outcome": "success", "summary": "planned"}}]},
        {"for": "evaluate", "decision": {"decision": "COMPLETE", "summary": "planned", "reason": "there is a plan"}},
    ]));
    place.rawko(&["--yes", "Plan it."]).ends(0);
    place.write(&program.path, &program.text);
    let sessions = place.project().join(".rawko/sessions");
    let mut folders =
        std::fs::read_dir(sessions).expect("sessions").map(|entry| entry.expect("a session").path());
    let journal = folders.find(|path| path.is_dir()).expect("a session").join("journal.jsonl");
    let check = || {
        let mut python = std::process::Command::new("python3");
        let output = python.arg(place.project().join(&program.path)).arg(&journal).output().expect("python3");
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat();
        (output.status.success(), text)
    };
    let (is_sound, printed) = check();
    assert!(is_sound && printed.contains("'header': 1") && printed.contains("'step'"), "{printed}");
    let text = std::fs::read_to_string(&journal).expect("the journal");
    std::fs::write(&journal, text.replacen("there is a plan", "there is no plan", 1)).expect("the journal");
    let (is_sound, printed) = check();
    assert!(!is_sound && printed.contains("is not the one that was written"), "{printed}");
}
