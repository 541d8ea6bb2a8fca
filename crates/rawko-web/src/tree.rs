//! A page as a tree, in time and memory that its length bounds.
//!
//! The tokens are those of `html5ever`. Its own trees are as deep as a page likes, repeat elements that were left open, and
//! take quadratic time for some pages; so the tree is made here. It follows what people write: an element ends with its
//! parent, and `p`, `li`, `td` and similar elements end where the next one begins. An element below the greatest depth
//! is left out, and what is in it hangs above.
//!
//! No other parser does this: `scraper`, `html2text`, `mdka` and `htmd` itself use `html5ever`'s tree builder, which had not
//! ended after 12 seconds with 100,000 nested `div`s, and `tl` ends no element where the next one begins and decodes no `&amp;`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use htmd::Node;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer};
use html5ever::{LocalName, QualName, ns};
use markup5ever_rcdom::NodeData;

/// The text that is tokenized between two looks at the clock. The tokenizer takes quadratic time for the attributes of one tag.
const PIECE: usize = 8 * 1024;

/// A page.
pub(crate) struct HtmlDocument {
    pub(crate) root: Rc<Node>,
    pub(crate) title: Option<String>,
    /// Whether time was up before the end.
    pub(crate) is_cut: bool,
}

/// Reads `html` until `deadline`, no deeper than `depth`.
pub(crate) fn tree(html: &str, depth: usize, deadline: Instant) -> HtmlDocument {
    let sink = Sink(RefCell::new(HtmlTreeBuilder {
        root: Node::new(NodeData::Document),
        open: Vec::new(),
        depth,
        beyond: HashMap::new(),
        unread: None,
        title: None,
    }));
    let tokenizer = Tokenizer::new(sink, Default::default());
    let input = BufferQueue::default();
    let mut rest = html;
    while !rest.is_empty() && Instant::now() < deadline {
        let (piece, more) = rest.split_at(rest.floor_char_boundary(PIECE));
        input.push_back(StrTendril::from_slice(piece));
        // Nothing here asks the tokenizer to pause.
        let _ = tokenizer.feed(&input);
        rest = more;
    }
    if rest.is_empty() {
        tokenizer.end();
    }
    let builder = tokenizer.sink.0.into_inner();
    HtmlDocument { root: builder.root, title: builder.title, is_cut: !rest.is_empty() }
}

struct Sink(RefCell<HtmlTreeBuilder>);

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let mut builder = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => return builder.start(tag),
            Token::TagToken(tag) => builder.end(&tag.name),
            Token::CharacterTokens(text) => builder.text(text),
            Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::NullCharacterToken
            | Token::EOFToken
            | Token::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }
}

struct HtmlTreeBuilder {
    root: Rc<Node>,
    /// The open elements, outermost first.
    open: Vec<(LocalName, Rc<Node>)>,
    depth: usize,
    /// How many elements of a name are open that were too deep.
    beyond: HashMap<LocalName, usize>,
    /// An element whose content is no part of the page, and how many of its name are open.
    unread: Option<(LocalName, usize)>,
    title: Option<String>,
}

impl HtmlTreeBuilder {
    fn start(&mut self, tag: Tag) -> TokenSinkResult<()> {
        let name = tag.name.clone();
        if let Some((unread, count)) = &mut self.unread {
            *count += usize::from(*unread == name && !tag.self_closing);
            return TokenSinkResult::Continue;
        }
        let raw = match &*name {
            "script" => Some(RawKind::ScriptData),
            "style" | "noscript" | "iframe" | "noembed" | "noframes" => Some(RawKind::Rawtext),
            "title" => Some(RawKind::Rcdata),
            _ => None,
        };
        if let Some(raw) = raw {
            self.unread = Some((name, 1));
            return TokenSinkResult::RawData(raw);
        }
        match &*name {
            "svg" | "template" if !tag.self_closing => self.unread = Some((name, 1)),
            "html" | "head" | "body" | "meta" | "link" | "base" | "svg" | "template" => {}
            "br" | "hr" | "img" | "wbr" | "input" | "embed" | "source" | "track" | "area" | "col" => {
                self.close_before(&name);
                self.add(&element(tag));
            }
            _ => {
                self.close_before(&name);
                self.open(tag);
            }
        }
        TokenSinkResult::Continue
    }

    fn open(&mut self, tag: Tag) {
        if self.open.len() >= self.depth {
            *self.beyond.entry(tag.name).or_default() += 1;
            self.part_words();
            return;
        }
        let name = tag.name.clone();
        let node = element(tag);
        self.add(&node);
        self.open.push((name, node));
    }

    fn end(&mut self, name: &LocalName) {
        if let Some((unread, count)) = &mut self.unread {
            if unread == name {
                *count -= 1;
                if *count == 0 {
                    self.unread = None;
                }
            }
            return;
        }
        if let Some(count) = self.beyond.get_mut(name).filter(|count| **count > 0) {
            *count -= 1;
            self.part_words();
            return;
        }
        // An element left open in a cell does not end the table, and one that ends in it was not begun outside.
        let until: &[&str] = if is_of_table(name) { &["table"] } else { &["td", "th", "table"] };
        if let Some(at) = self.last(&[name], if &**name == "table" { &[] } else { until }) {
            self.close(at);
        }
    }

    /// Ends what cannot go on where `name` begins.
    fn close_before(&mut self, name: &str) {
        const BLOCKS: [&str; 30] = [
            "address",
            "article",
            "aside",
            "blockquote",
            "center",
            "details",
            "dialog",
            "dir",
            "div",
            "dl",
            "fieldset",
            "figcaption",
            "figure",
            "footer",
            "form",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
            "header",
            "hr",
            "main",
            "nav",
            "ol",
            "p",
            "pre",
            "section",
            "ul",
        ];
        let ended: (&[&str], &[&str]) = match name {
            "li" => (&["li"], &["ul", "ol", "table"]),
            "dt" | "dd" => (&["dt", "dd"], &["dl", "table"]),
            "tr" => (&["tr"], &["table"]),
            "td" | "th" => (&["td", "th"], &["tr", "table"]),
            "thead" | "tbody" | "tfoot" => (&["thead", "tbody", "tfoot"], &["table"]),
            "option" | "optgroup" => (&["option"], &["select"]),
            "a" => (&["a"], &["p", "div", "li", "td", "th", "table"]),
            "table" | "summary" | "menu" => (&["p"], &["td", "th", "table"]),
            name if BLOCKS.contains(&name) => (&["p"], &["td", "th", "table"]),
            _ => return,
        };
        if let Some(at) = self.last(ended.0, ended.1) {
            self.close(at);
        }
    }

    /// The place of the innermost open element of these names, unless one of `until` is within it.
    fn last(&self, names: &[&str], until: &[&str]) -> Option<usize> {
        let from = self.open.iter().rposition(|(open, _)| names.contains(&&**open))?;
        let within = self.open.get(from + 1..).unwrap_or_default();
        (!within.iter().any(|(open, _)| until.contains(&&**open))).then_some(from)
    }

    fn close(&mut self, at: usize) {
        self.open.truncate(at);
        self.beyond.clear();
    }

    fn text(&mut self, text: StrTendril) {
        if let Some((unread, _)) = &self.unread {
            if &**unread == "title" {
                self.title.get_or_insert_default().push_str(&text);
            }
            return;
        }
        let parent = self.parent();
        if let Some(last) = parent.children.borrow().last()
            && let NodeData::Text { contents } = &last.data
        {
            contents.borrow_mut().push_slice(&text);
            return;
        }
        self.add(&Node::new(NodeData::Text { contents: RefCell::new(text) }));
    }

    /// A space where an element that is left out may have been between two words.
    fn part_words(&mut self) {
        let is_within = self.parent().children.borrow().last().is_some_and(|last| match &last.data {
            NodeData::Text { contents } => !contents.borrow().ends_with(char::is_whitespace),
            _ => false,
        });
        if is_within {
            self.text(StrTendril::from_slice(" "));
        }
    }

    fn add(&self, node: &Rc<Node>) {
        let parent = self.parent();
        node.parent.set(Some(Rc::downgrade(parent)));
        parent.children.borrow_mut().push(Rc::clone(node));
    }

    fn parent(&self) -> &Rc<Node> {
        self.open.last().map_or(&self.root, |(_, node)| node)
    }
}

fn is_of_table(name: &str) -> bool {
    matches!(name, "table" | "thead" | "tbody" | "tfoot" | "tr" | "td" | "th" | "caption")
}

fn element(tag: Tag) -> Rc<Node> {
    Node::new(NodeData::Element {
        name: QualName::new(None, ns!(html), tag.name),
        attrs: RefCell::new(tag.attrs),
        template_contents: RefCell::new(None),
        mathml_annotation_xml_integration_point: false,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The tree as `name(children)`, and text in quotes.
    fn shape(node: &Node) -> String {
        let children: Vec<String> = node.children.borrow().iter().map(|child| shape(child)).collect();
        match &node.data {
            NodeData::Text { contents } => format!("'{}'", contents.borrow()),
            NodeData::Element { name, .. } => format!("{}({})", &*name.local, children.join(" ")),
            _ => children.join(" "),
        }
    }

    #[track_caller]
    fn check(html: &str, depth: usize, expected: &str) {
        let tree = tree(html, depth, Instant::now() + Duration::from_secs(60));
        assert_eq!((shape(&tree.root).as_str(), tree.is_cut), (expected, false), "{html}");
    }

    #[test]
    fn elements_end_where_people_let_them_end() {
        check("<html><body><p>a<p>b<div>c</div>", 9, "p('a') p('b') div('c')");
        check("<ul><li>a<li>b<ul><li>c</ul></ul>d", 9, "ul(li('a') li('b' ul(li('c')))) 'd'");
        check("<dl><dt>a<dd>b<dt>c</dl>", 9, "dl(dt('a') dd('b') dt('c'))");
        check("<table><tr><td>a<td>b<tr><th>c</table>d", 9, "table(tr(td('a') td('b')) tr(th('c'))) 'd'");
        check(
            "<table><thead><tr><th>a<tbody><tr><td>b</table>",
            9,
            "table(thead(tr(th('a'))) tbody(tr(td('b'))))",
        );
        check("<div><table><tr><td></div>a</table>b", 9, "div(table(tr(td('a'))) 'b')");
        check("<table><tr><td><table><tr><td>a</table>b</table>", 9, "table(tr(td(table(tr(td('a'))) 'b')))");
        check("<b>a<i>b</b>c</i>", 9, "b('a' i('b')) 'c'");
        check("a<br>b</br>c<img src=x>", 9, "'a' br() 'bc' img()");
        check("</p></x>a", 9, "'a'");
        check("a &amp; b&lt;<!-- c --><!doctype html>", 9, "'a & b<'");
    }

    #[test]
    fn what_is_not_read_is_not_there() {
        check("a<script>if (a < b) '<p>'</script>b", 9, "'ab'");
        check("a<style>p{}</style>b<noscript><p>c</noscript>d", 9, "'abd'");
        check("<svg><title>t</title><svg></svg><text>x</text></svg>a<svg/>b", 9, "'ab'");
        let page = "<title> A\n&lt;b&gt; </title>x<svg><title>no</title></svg>";
        let tree = tree(page, 9, Instant::now() + Duration::from_secs(60));
        assert_eq!(tree.title.as_deref(), Some(" A\n<b> "));
    }

    #[test]
    fn an_element_that_is_too_deep_hangs_above() {
        check("<div><p><b>a</b></p></div>b", 2, "div(p('a ')) 'b'");
        check("<div>a<p>b</p>c</div>", 1, "div('a b c')");
        check("<ul><li><ul><li>a</ul>b</ul>c", 2, "ul(li() li('a')) 'bc'");
        check("<div><div><div><div>a</div></div></div>b</div>c", 2, "div(div('a ') 'b') 'c'");
    }

    #[test]
    fn time_is_bounded() {
        let attributes: String = (0..200_000).map(|number| format!(" a{number}")).collect();
        let begun = Instant::now();
        let tree = tree(&format!("x<p{attributes}>y"), 9, begun + Duration::from_millis(300));
        assert!(tree.is_cut);
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    }
}
