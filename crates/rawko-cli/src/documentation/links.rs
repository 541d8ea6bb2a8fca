//! Links of the documentation: each leads to a file of the repository and to a heading in it, every page of `docs` is in the
//! book, and the book lists all decisions.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Tag, TagEnd};

use super::{Page, ROOT, check_generated, line_of, pages, parsed};

const SUMMARY: &str = "docs/SUMMARY.md";
/// The last part of the summary is generated: decisions are added by several people at once.
const DECISIONS: &str = "\n# Decisions\n\n";

/// The anchors of a page, as GitHub and mdBook make them of its headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    for (event, _) in parsed(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let id = anchor(&heading.take().unwrap_or_default());
                let more = (1..).map(|n| format!("{id}-{n}"));
                let free = std::iter::once(id.clone()).chain(more).find(|id| !anchors.contains(id));
                anchors.extend(free);
            }
            _ => {}
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Where links of a page lead: line and destination.
fn links(text: &str) -> Vec<(usize, String)> {
    let found = parsed(text).filter_map(|(event, offset)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some((line_of(text, offset), dest_url.to_string()))
        }
        _ => None,
    });
    found.collect()
}

/// A path without `.` and `..`; `None` if it leaves the repository.
fn resolved(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => clean.pop().then_some(())?,
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(clean)
}

/// Why a link of the page leads nowhere.
fn broken(page: &Page, link: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, fragment) = link.split_once('#').map_or((link, None), |(path, id)| (path, Some(id)));
    let folder = Path::new(&page.name).parent().unwrap_or(Path::new(""));
    let Some(target) = resolved(&folder.join(path)) else {
        return Some("it leaves the repository".to_owned());
    };
    let text = if path.is_empty() { Some(page.text.clone()) } else { read(&target) };
    let Some(text) = text else { return Some("there is no such file".to_owned()) };
    let id = fragment?;
    (!anchors(&text).contains(id)).then(|| format!("no heading makes the anchor {id}"))
}

#[test]
fn every_link_leads_somewhere() {
    let read = |path: &Path| {
        let path = Path::new(ROOT).join(path);
        if path.is_dir() { Some(String::new()) } else { std::fs::read_to_string(path).ok() }
    };
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for page in pages() {
        for (line, link) in links(&page.text) {
            checked += 1;
            wrong.extend(
                broken(&page, &link, &read).map(|why| format!("{}:{line}: {link}: {why}", page.name)),
            );
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(checked > 300, "{checked}");
}

/// Comments cite pages, and rules by the anchors of their headings.
#[test]
fn what_comments_cite_is_there() {
    let (mut sources, mut wrong, mut checked) = (Vec::new(), Vec::new(), 0);
    files_with("`docs/", &Path::new(ROOT).join("crates"), &mut sources);
    let read = |path: &Path| std::fs::read_to_string(Path::new(ROOT).join(path)).ok();
    for source in sources.iter().filter(|path| path.extension().is_some_and(|ending| ending == "rs")) {
        let text = read(source).expect("it was found");
        let page = Page { name: "README.md".to_owned(), text: String::new() };
        let comments = text.lines().filter(|line| line.trim_start().starts_with("//"));
        for cited in comments.flat_map(|line| line.split('`').skip(1).step_by(2)) {
            if cited.starts_with("docs/") && cited.contains(".md") {
                checked += 1;
                wrong.extend(
                    broken(&page, cited, &read).map(|why| format!("{}: {cited}: {why}", source.display())),
                );
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(checked > 100, "{checked}");
}

#[test]
fn a_broken_link_would_be_noticed() {
    let read = |path: &Path| {
        (path == Path::new("docs/b.md")).then(|| "# One `two`\n\n## Three\n\n## Three".to_owned())
    };
    let page = Page { name: "docs/a.md".to_owned(), text: "# Here".to_owned() };
    let check = |link: &str| broken(&page, link, &read);
    assert_eq!(check("b.md"), None);
    assert_eq!(check("../docs/b.md#one-two"), None);
    assert_eq!(check("b.md#three-1"), None);
    assert_eq!(check("#here"), None);
    assert_eq!(check("https://example.com/#x"), None);
    assert_eq!(check("b.md#three-2").unwrap(), "no heading makes the anchor three-2");
    assert_eq!(check("#there").unwrap(), "no heading makes the anchor there");
    assert_eq!(check("c.md").unwrap(), "there is no such file");
    assert_eq!(check("../../x.md").unwrap(), "it leaves the repository");
    assert_eq!(
        links("a [b](c.md)\n![d](e.svg) `[f](g.md)`"),
        [(1, "c.md".to_owned()), (2, "e.svg".to_owned())]
    );
}

#[test]
fn the_book_has_every_page_and_every_decision() {
    let pages = pages();
    let summary = &pages.iter().find(|page| page.name == SUMMARY).expect(SUMMARY).text;
    let (guide, _) = summary.split_once(DECISIONS).expect("the decisions");
    let mut current = format!("{guide}{DECISIONS}");
    for page in pages.iter().filter(|page| page.name.starts_with("docs/adr/")) {
        let title = page.text.lines().next().unwrap_or_default().trim_start_matches("# ");
        let name = page.name.trim_start_matches("docs/");
        current.push_str(&format!("- [{title}]({name})\n"));
    }
    check_generated(SUMMARY, &current);
    let listed: BTreeSet<String> =
        links(&current).into_iter().map(|(_, link)| format!("docs/{link}")).collect();
    let missing: Vec<&String> = pages
        .iter()
        .map(|page| &page.name)
        .filter(|name| name.starts_with("docs/") && *name != SUMMARY && !listed.contains(*name))
        .collect();
    assert_eq!(missing, Vec::<&String>::new(), "add them to {SUMMARY}");
}

/// The files of the repository that contain a text. What git does not keep is passed over.
fn files_with(text: &str, folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        let name = entry.file_name();
        if kind.is_dir() && !["target", "node_modules", ".git"].iter().any(|left_out| name == *left_out) {
            files_with(text, &path, found);
        } else if kind.is_file()
            && memchr::memmem::find(&std::fs::read(&path).unwrap_or_default(), text.as_bytes()).is_some()
        {
            found.push(path.strip_prefix(ROOT).expect("below the root").to_owned());
        }
    }
}

/// It comes from the manifest, like repository and homepage, so that a move changes one file.
#[test]
fn the_address_of_the_repository_stands_in_one_file() {
    let address = env!("CARGO_PKG_REPOSITORY");
    let (_, name) = address.split_once("://").expect("an address");
    let mut found = Vec::new();
    files_with(name, Path::new(ROOT), &mut found);
    assert_eq!(found, [Path::new("Cargo.toml")], "{address}: link relatively, or take it from Cargo.toml");
    let manifest = std::fs::read_to_string(Path::new(ROOT).join("Cargo.toml")).expect("the manifest");
    assert_eq!(manifest.matches(name).count(), 2, "{address}");
}
