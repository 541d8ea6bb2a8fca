//! The text of agents, which is Markdown, as styled lines. Half a document is normal: text is shown while it streams.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::super::line::{StyledLine, Tone};
use crate::output::clean;

/// The document as lines, not yet wrapped. `text` has no control codes.
pub(super) fn lines(text: &str) -> Vec<StyledLine> {
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS | Options::ENABLE_TABLES;
    let mut writer = MarkdownRenderer::default();
    for event in Parser::new_ext(text, options) {
        writer.event(event);
    }
    writer.end_line();
    while writer.lines.last().is_some_and(StyledLine::is_blank) {
        writer.lines.pop();
    }
    writer.lines
}

#[derive(Default)]
struct MarkdownRenderer {
    lines: Vec<StyledLine>,
    line: Option<StyledLine>,
    /// The tones of the elements that are open, the innermost last.
    tones: Vec<Tone>,
    /// The next number of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    /// What the next line begins with: the mark of an item.
    mark: Option<String>,
    quotes: usize,
    in_code: bool,
    /// Where links lead that are open.
    links: Vec<String>,
    cells: usize,
}

impl MarkdownRenderer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.in_code => {
                for line in text.lines() {
                    self.add(Tone::Name, line);
                    self.end_line();
                }
            }
            Event::Text(text) => self.add(self.tone(), &text),
            Event::Code(text) => self.add(Tone::Name, &text),
            // Shown as it is written: nothing here renders HTML.
            Event::Html(text) | Event::InlineHtml(text) => {
                for line in text.lines() {
                    self.add(Tone::Faint, line);
                    if text.ends_with('\n') {
                        self.end_line();
                    }
                }
            }
            Event::SoftBreak => self.add(self.tone(), " "),
            Event::HardBreak => self.end_line(),
            Event::Rule => {
                self.paragraph();
                self.add(Tone::Faint, "───");
                self.end_line();
            }
            Event::TaskListMarker(done) => self.add(Tone::Normal, if done { "[x] " } else { "[ ] " }),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.add(self.tone(), &text);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.paragraph(),
            Tag::Heading { level, .. } => {
                self.paragraph();
                self.tones.push(if level <= HeadingLevel::H2 { Tone::Strong } else { Tone::Name });
            }
            Tag::BlockQuote(_) => {
                self.paragraph();
                self.quotes += 1;
            }
            Tag::CodeBlock(kind) => {
                self.paragraph();
                if let CodeBlockKind::Fenced(language) = kind
                    && !language.is_empty()
                {
                    self.add(Tone::Faint, &language);
                    self.end_line();
                }
                self.in_code = true;
            }
            Tag::List(first) => {
                if self.lists.is_empty() {
                    self.paragraph();
                }
                self.end_line();
                self.lists.push(first);
            }
            Tag::Item => {
                self.end_line();
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "- ".to_owned(),
                };
                self.mark = Some(mark);
            }
            Tag::Emphasis => self.tones.push(Tone::Emphasis),
            Tag::Strong => self.tones.push(Tone::Strong),
            Tag::Strikethrough => self.tones.push(Tone::Faint),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.links.push(dest_url.to_string()),
            Tag::Table(_) => self.paragraph(),
            Tag::TableHead | Tag::TableRow => self.cells = 0,
            Tag::TableCell => {
                if self.cells > 0 {
                    self.add(Tone::Faint, " | ");
                }
                self.cells += 1;
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.tones.pop();
                self.end_line();
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.tones.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.end_line();
                self.quotes = self.quotes.saturating_sub(1);
            }
            TagEnd::CodeBlock => {
                self.end_line();
                self.in_code = false;
            }
            TagEnd::List(_) => {
                self.end_line();
                self.lists.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                // The address is said, because a terminal has nothing to click on, and a link may hide where it leads.
                if let Some(address) = self.links.pop() {
                    let is_shown = self.line.as_ref().is_some_and(|line| line.ends_with(&address));
                    if !is_shown && !address.is_empty() {
                        self.add(Tone::Faint, &format!(" ({address})"));
                    }
                }
            }
            TagEnd::Paragraph | TagEnd::Item | TagEnd::TableHead | TagEnd::TableRow => self.end_line(),
            _ => {}
        }
    }

    fn tone(&self) -> Tone {
        self.tones.last().copied().unwrap_or_default()
    }

    /// A new block: a blank line before it, except inside of lists, which stay compact.
    fn paragraph(&mut self) {
        self.end_line();
        let needs_gap = self.lists.is_empty() && self.lines.last().is_some_and(|line| !line.is_blank());
        if needs_gap {
            self.lines.push(StyledLine::default());
        }
    }

    fn add(&mut self, tone: Tone, text: &str) {
        // Again: an entity may have been a control code.
        let text = clean(text).replace('\n', " ");
        let line = match self.line.take() {
            Some(line) => line,
            None => self.begin(),
        };
        self.line = Some(line.and(tone, text));
    }

    fn begin(&mut self) -> StyledLine {
        let mut margin = "│ ".repeat(self.quotes);
        let depth = self.lists.len().saturating_sub(1);
        margin.push_str(&"  ".repeat(depth));
        let mark = self.mark.take();
        match &mark {
            Some(mark) => margin.push_str(mark),
            None if !self.lists.is_empty() => margin.push_str("  "),
            None => {}
        }
        if self.in_code {
            margin.push_str("  ");
        }
        let hanging = margin.chars().count();
        StyledLine::of(Tone::Faint, margin).hanging(hanging)
    }

    fn end_line(&mut self) {
        // An item without text still has its mark.
        if self.line.is_none() && self.mark.is_some() {
            self.line = Some(self.begin());
        }
        self.lines.extend(self.line.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let shown: Vec<String> = lines(text).iter().map(StyledLine::text).collect();
        assert_eq!(shown, expected, "{text:?}");
    }

    #[test]
    fn blocks_are_distinguished() {
        check(
            "# Why\nIt *is* **so**:\n\n- one\n- two\n  1. deep\n",
            &["Why", "", "It is so:", "", "- one", "- two", "  1. deep"],
        );
        check(
            "Run\n```sh\ncargo test\n  --all\n```\nthen `git diff`.",
            &["Run", "", "sh", "  cargo test", "    --all", "", "then git diff."],
        );
        check("> quoted\n> text", &["│ quoted text"]);
        check("| a | b |\n|---|---|\n| 1 | 2 |", &["a | b", "1 | 2"]);
        check("- [x] done\n- [ ] open", &["- [x] done", "- [ ] open"]);
    }

    #[test]
    fn a_link_says_where_it_leads() {
        check("[the docs](https://example.com)", &["the docs (https://example.com)"]);
        check("<https://example.com>", &["https://example.com"]);
    }

    #[test]
    fn half_a_document_is_shown() {
        check("```rust\nfn main() {", &["rust", "  fn main() {"]);
        check("It is **very", &["It is **very"]);
        check("- ", &["- "]);
        check("", &[]);
        check("<b>bold</b>", &["<b>bold</b>"]);
    }

    #[test]
    fn entities_bring_no_control_codes() {
        check("a&#27;[2Jb&#x9b;31mc&#x202e;d&#10;e", &["a[2Jb31mcd e"]);
    }
}
