//! HTML as Markdown, whatever the HTML is.
//!
//! The conversion is that of `htmd`. It walks the tree by recursion and indents what is nested, so the tree is no deeper
//! than its size allows.

use std::rc::Rc;
use std::time::{Duration, Instant};

use htmd::element_handler::{HandlerResult, Handlers};
use htmd::options::{BrStyle, BulletListMarker, Options};
use htmd::{Element, HtmlToMarkdown, Node};
use markup5ever_rcdom::NodeData;

use crate::tree::tree;

/// The deepest tree.
const MAX_DEPTH: usize = 128;
/// The least depth that a tree may have.
const MIN_DEPTH: usize = 8;
/// The most tags and lines, times the depth: each may be indented once a level.
const WORK: usize = 16_000_000;
/// The longest time to read a page.
const PATIENCE: Duration = Duration::from_secs(5);
/// The stack of the thread that converts: several times what the deepest tree takes in a build that is not optimised.
const STACK: usize = 32 * 1024 * 1024;
const MAX_TITLE: usize = 300;

/// A page as Markdown.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Markdown {
    pub(crate) title: Option<String>,
    pub(crate) text: String,
    /// Whether it took too long to read all of it.
    pub(crate) is_cut: bool,
}

/// Converts a page. Blocks.
///
/// # Errors
/// Why it could not be converted.
pub(crate) fn markdown(html: &str) -> Result<Markdown, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("html".to_owned()).stack_size(STACK);
        let running = thread.spawn_scoped(scope, || convert(html)).map_err(|error| error.to_string())?;
        running.join().map_err(|_| "the converter of HTML broke".to_owned())
    })
}

fn convert(html: &str) -> Markdown {
    let options = Options {
        br_style: BrStyle::Backslash,
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    let converter = HtmlToMarkdown::builder()
        .options(options)
        .add_handler(vec!["img"], picture)
        .add_handler(vec!["table"], table)
        .build();
    let parts = memchr::memchr2_iter(b'<', b'\n', html.as_bytes()).count();
    let depth = (WORK / parts.max(1)).clamp(MIN_DEPTH, MAX_DEPTH);
    let tree = tree(html, depth, Instant::now() + PATIENCE);
    let title = tree.title.map(|title| title.split_whitespace().collect::<Vec<_>>().join(" "));
    let title = title.filter(|title| !title.is_empty());
    Markdown {
        title: title.map(|title| rawko_core::text::truncate(&title, MAX_TITLE)),
        text: converter.tree_to_markdown(&tree.root),
        is_cut: tree.is_cut,
    }
}

/// A picture within the page is data without a use for a model.
fn picture(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let source = element.attrs.iter().find(|attribute| &*attribute.name.local == "src")?;
    if source.value.trim_start().get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:")) {
        return None;
    }
    handlers.fallback(element)
}

/// A table with headings, a line for each row. `htmd` makes all cells of a column as wide as the widest, which is many
/// bytes for nothing. A table without headings is a layout: its cells follow each other.
fn table(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let rows = rows(element.node);
    let has_headings = rows.iter().flatten().any(|cell| tag(cell) == Some("th"));
    if !has_headings {
        return Some(format!("\n\n{}\n\n", handlers.walk_children(element.node).content.trim()).into());
    }
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let mut text = String::from("\n\n");
    for (number, row) in rows.iter().enumerate() {
        text.push('|');
        for cell in row {
            let words = handlers.walk_children(cell).content;
            text.push(' ');
            text.push_str(&words.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|"));
            text.push_str(" |");
        }
        text.push('\n');
        if number == 0 {
            text.push('|');
            text.push_str(&" --- |".repeat(columns));
            text.push('\n');
        }
    }
    text.push('\n');
    Some(text.into())
}

/// The cells of a table by rows, without those of tables in it.
fn rows(table: &Rc<Node>) -> Vec<Vec<Rc<Node>>> {
    let mut rows = Vec::new();
    for part in table.children.borrow().iter() {
        match tag(part) {
            Some("tr") => rows.push(cells(part)),
            Some("thead" | "tbody" | "tfoot") => {
                let part = part.children.borrow();
                rows.extend(part.iter().filter(|row| tag(row) == Some("tr")).map(cells));
            }
            _ => {}
        }
    }
    rows.retain(|row| !row.is_empty());
    rows
}

fn cells(row: &Rc<Node>) -> Vec<Rc<Node>> {
    let children = row.children.borrow();
    children.iter().filter(|cell| matches!(tag(cell), Some("td" | "th"))).cloned().collect()
}

fn tag(node: &Node) -> Option<&str> {
    match &node.data {
        NodeData::Element { name, .. } => Some(&name.local),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(html: &str, expected: &str) {
        assert_eq!(markdown(html).unwrap().text.trim(), expected, "{html}");
    }

    #[test]
    fn pages_are_markdown() {
        check(
            "<h2>Title</h2><p>Some <b>bold</b> <a href='/x'>link</a>.</p>",
            "## Title\n\nSome **bold** [link](/x).",
        );
        check("<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>", "- a\n  - b\n- c");
        check("<pre><code class='language-rust'>fn x() {\n}\n</code></pre>", "```rust\nfn x() {\n}\n```");
        check("<p>a</p><script>evil()</script><style>b{}</style><svg><text>x</text></svg>", "a");
        check("<img src='data:image/png;base64,AAAA' alt=x><img src=/i.png alt=pic>", "![pic](/i.png)");
        check("a &amp; b &lt;c&gt;", "a & b \\<c>");
        check("", "");
        check("just text", "just text");
    }

    #[test]
    fn tables_with_headings_are_tables_and_others_are_layout() {
        let table = "<table><thead><tr><th>A<th>B|C</tr></thead><tbody><tr><td>1<td><p>2</p><p>3</p></tr></tbody></table>";
        check(table, "| A | B\\|C |\n| --- | --- |\n| 1 | 2 3 |");
        let layout = markdown("<table><tr><td><h1>Head</h1><td>text</table>").unwrap().text;
        assert!(layout.contains("# Head") && layout.contains("text") && !layout.contains("---"), "{layout}");
    }

    #[test]
    fn the_title_is_that_of_the_page() {
        let page =
            "<html><head><title> A\n page </title></head><body><svg><title>no</title></svg>x</body></html>";
        let expected = Markdown { title: Some("A page".into()), text: "x".into(), is_cut: false };
        assert_eq!(markdown(page).unwrap(), expected);
        assert_eq!(markdown("<p>x</p><svg><title>no</title></svg>").unwrap().title, None);
    }

    #[track_caller]
    fn check_cost(html: &str) {
        let begun = Instant::now();
        let found = markdown(html).unwrap();
        let beginning = &html[..20];
        assert!(found.text.contains("end"), "{beginning}");
        assert!(found.text.len() < 64 * 1024 * 1024, "{beginning}: {} bytes", found.text.len());
        assert!(begun.elapsed() < Duration::from_secs(60), "{beginning}: {:?}", begun.elapsed());
    }

    #[test]
    fn deep_pages_cost_little() {
        check_cost(&("<div>".repeat(10_000) + "end"));
        check_cost(&("<b>".repeat(5_000) + "end"));
        check_cost(&("<ul><li>".repeat(5_000) + "end"));
        check_cost(&("<table><tr><td>".repeat(5_000) + "end"));
        check_cost(&("<div><table><td></div></table>".repeat(5_000) + "end"));
    }

    #[test]
    fn long_and_wide_pages_cost_little() {
        check_cost(&("<blockquote>".repeat(5_000) + &"x<br>".repeat(20_000) + "end"));
        check_cost(&("<blockquote>".repeat(200) + "<pre>" + &"\n".repeat(60_000) + "end"));
        check_cost(&("<a href=x>".repeat(10_000) + "end"));
        check_cost("<ol start=2147483647><li>end");
        let (widest, rows) = ("x".repeat(100_000), "<tr><td>y</tr>".repeat(2_000));
        check_cost(&format!("<table><tr><th>{widest}</tr>{rows}</table>end"));
    }

    #[test]
    fn what_is_too_deep_keeps_its_text_and_order() {
        let html = "<div>".repeat(500) + "one <i>two</i> <script>no</script>three";
        let text = markdown(&html).unwrap().text;
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["one", "two", "three"]);
    }
}
