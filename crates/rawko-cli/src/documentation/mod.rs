//! Tests of the documentation: the reference pages are those of this build, links lead somewhere, and rawko accepts
//! every command line. None of this is compiled into the program.

mod commands;
mod events;
mod links;
mod sdk;
mod settings;
mod shell;

pub(crate) use shell::refusals;

use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// One page.
struct Page {
    /// Its path below the root.
    name: String,
    text: String,
}

/// A fenced block of a page.
struct Block {
    /// The page and the line where it begins.
    place: String,
    /// The words after the fence: the language first.
    info: String,
    text: String,
}

impl Block {
    fn language(&self) -> &str {
        self.info.split_whitespace().next().unwrap_or_default()
    }

    fn title(&self) -> Option<&str> {
        let (_, title) = self.info.split_once("title=\"")?;
        title.split('"').next()
    }
}

/// All pages for people: those of the root, the book, and those of the packages for others' programs.
fn pages() -> Vec<Page> {
    let root = Path::new(ROOT);
    let mut found: Vec<PathBuf> = Vec::new();
    markdown(root, false, &mut found);
    markdown(&root.join("docs"), true, &mut found);
    markdown(&root.join("integrations"), true, &mut found);
    found.sort();
    let pages = found.into_iter().map(|path| Page {
        name: path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned(),
        text: std::fs::read_to_string(&path).expect("a page"),
    });
    pages.collect()
}

fn markdown(folder: &Path, is_deep: bool, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() && is_deep {
            markdown(&entry, true, found);
        } else if entry.extension().is_some_and(|ending| ending == "md") {
            found.push(entry);
        }
    }
}

/// The Markdown that GitHub and mdBook both read.
fn parsed(text: &str) -> impl Iterator<Item = (Event<'_>, usize)> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    Parser::new_ext(text, options).into_offset_iter().map(|(event, range)| (event, range.start))
}

fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// The fenced blocks of a page.
fn blocks(page: &Page) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (event, offset) in parsed(&page.text) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                let place = format!("{}:{}", page.name, line_of(&page.text, offset));
                open = Some(Block { place, info: info.to_string(), text: String::new() });
            }
            Event::Text(text) => {
                if let Some(block) = &mut open {
                    block.text.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
            _ => {}
        }
    }
    blocks
}

/// Compares a generated page with the one in the repository. `RAWKO_UPDATE_DOCS=1` writes it.
#[track_caller]
fn check_generated(name: &str, current: &str) {
    let path = Path::new(ROOT).join(name);
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    if page != current && std::env::var_os("RAWKO_UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, current).expect("to write the page");
        return;
    }
    assert!(
        page == current,
        "{name} does not describe this build; run\n    \
         RAWKO_UPDATE_DOCS=1 cargo test -p rawko-cli --bin rawko documentation\nand look at the difference"
    );
}

#[test]
fn blocks_have_a_place_a_language_and_a_title() {
    let text = "# A\n\n```yaml title=\"a.yaml\"\na: 1\n```\n\n- b\n  ```sh\n  c\n  ```\n".to_owned();
    let found = blocks(&Page { name: "p.md".to_owned(), text });
    let seen: Vec<_> = found.iter().map(|b| (&*b.place, b.language(), b.title(), &*b.text)).collect();
    assert_eq!(seen, [("p.md:3", "yaml", Some("a.yaml"), "a: 1\n"), ("p.md:8", "sh", None, "c\n")]);
}
