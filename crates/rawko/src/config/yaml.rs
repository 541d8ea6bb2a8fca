//! Parses YAML into a JSON value, with the position of every part.
//!
//! Owns YAML: scalars of the 1.2 core schema, anchors, duplicate keys, limits. It refuses what configuration does not
//! need (several documents, custom tags, keys that are not strings, merge keys) and what could do harm: deep nesting,
//! and aliases that expand to too many values. A project's files are read before they are trusted, and the parser below has
//! no limits. It does not know what the keys mean.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::{Map, Value};

use super::position::Position;

/// Deepest nesting of mappings and lists.
const MAX_DEPTH: usize = 32;
/// Most values in one document, including those that aliases repeat.
const MAX_NODES: usize = 20_000;

/// A parsed file: its value, and the position of each part by JSON pointer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Document {
    pub(super) value: Value,
    places: HashMap<String, Position>,
    keys: HashMap<String, Position>,
}

/// An error in a YAML text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct YamlError {
    pub(super) place: Position,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl YamlError {
    fn new(place: Position, message: impl Into<String>, help: Option<&str>) -> Self {
        Self { place, message: message.into(), help: help.map(str::to_owned) }
    }
}

/// The value of a YAML text that is not rawko's own; `None` where it cannot be read.
pub(crate) fn yaml_value(text: &str) -> Option<Value> {
    Document::parse(text, 0).ok().map(|document| document.value)
}

impl Document {
    /// Parses `text`, whose first line is line `first_line` (from 0) of its file. An empty text is an empty mapping.
    pub(super) fn parse(text: &str, first_line: usize) -> Result<Self, Vec<YamlError>> {
        let mut builder = NodeBuilder { first_line, ..NodeBuilder::default() };
        let outcome = builder.run(text);
        let mut errors = builder.errors;
        errors.extend(outcome.err());
        if !errors.is_empty() {
            return Err(errors);
        }
        let root =
            builder.root.unwrap_or(Node { place: Position::START, size: 1, kind: NodeKind::Map(Vec::new()) });
        let mut document = Self::default();
        document.value = document.adopt(root, &mut String::new());
        if document.value.is_null() {
            document.value = Value::Object(Map::new());
        }
        Ok(document)
    }

    /// The position of the value at `pointer`, or of the nearest part around it that has one.
    pub(super) fn place(&self, pointer: &str) -> Position {
        nearest(&self.places, pointer).unwrap_or(Position::START)
    }

    /// The position of the key of the value at `pointer`, or else of the value.
    pub(super) fn key_place(&self, pointer: &str) -> Position {
        self.keys.get(pointer).copied().unwrap_or_else(|| self.place(pointer))
    }

    /// Adds a key to the top-level mapping; its value is at `place`, outside the YAML.
    pub(super) fn insert(&mut self, key: &str, value: Value, place: Position) {
        if self.value.is_null() {
            self.value = Value::Object(Map::new());
        }
        if let Value::Object(map) = &mut self.value {
            map.insert(key.to_owned(), value);
            let pointer = format!("/{}", escape(key));
            self.places.insert(pointer.clone(), place);
            self.keys.insert(pointer, place);
        }
    }

    fn adopt(&mut self, node: Node, pointer: &mut String) -> Value {
        self.places.insert(pointer.clone(), node.place);
        let parent = pointer.len();
        match node.kind {
            NodeKind::Scalar(value) => value,
            NodeKind::Seq(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (index, item) in items.into_iter().enumerate() {
                    pointer.push('/');
                    pointer.push_str(&index.to_string());
                    list.push(self.adopt(item, pointer));
                    pointer.truncate(parent);
                }
                Value::Array(list)
            }
            NodeKind::Map(entries) => {
                let mut map = Map::new();
                for (key, place, item) in entries {
                    pointer.push('/');
                    pointer.push_str(&escape(&key));
                    self.keys.insert(pointer.clone(), place);
                    map.insert(key, self.adopt(item, pointer));
                    pointer.truncate(parent);
                }
                Value::Object(map)
            }
        }
    }
}

/// Escapes `key` for a JSON pointer.
pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn nearest(places: &HashMap<String, Position>, pointer: &str) -> Option<Position> {
    let mut pointer = pointer;
    loop {
        if let Some(place) = places.get(pointer) {
            return Some(*place);
        }
        pointer = &pointer[..pointer.rfind('/')?];
    }
}

#[derive(Debug, Clone)]
struct Node {
    place: Position,
    /// Number of values in it, including itself.
    size: usize,
    kind: NodeKind,
}

#[derive(Debug, Clone)]
enum NodeKind {
    Scalar(Value),
    Seq(Vec<Node>),
    Map(Vec<(String, Position, Node)>),
}

/// A mapping or list that is not closed yet.
struct OpenCollection {
    anchor: usize,
    node: Node,
    key: Option<(String, Position)>,
    /// The keys read so far, with their lines.
    keys: HashMap<String, usize>,
}

#[derive(Default)]
struct NodeBuilder {
    /// Lines before the text in its file.
    first_line: usize,
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    documents: usize,
    root: Option<Node>,
    errors: Vec<YamlError>,
}

impl NodeBuilder {
    fn run(&mut self, text: &str) -> Result<(), YamlError> {
        for event in Parser::new_from_str(text) {
            match event {
                Ok((event, span)) => self.take(event, place_of(span).down(self.first_line))?,
                Err(error) => {
                    let error = explain(&error, text);
                    return Err(YamlError { place: error.place.down(self.first_line), ..error });
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Event<'_>, place: Position) -> Result<(), YamlError> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    let help = "remove the `---` line and what follows it";
                    return Err(YamlError::new(
                        place,
                        "there is more than one YAML document in this file",
                        Some(help),
                    ));
                }
                Ok(())
            }
            Event::Alias(_) if self.wants_key() => {
                Err(YamlError::new(place, "an alias cannot be a key", Some("write the key out")))
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(node) => {
                    let node = Node { place, ..node.clone() };
                    let size = node.size;
                    self.put(node, 0, size)
                }
                None => Err(YamlError::new(place, "this alias refers to a value that contains it", None)),
            },
            Event::Scalar(text, style, anchor, tag) => {
                refuse_unknown_tag(tag.as_deref(), place)?;
                if self.wants_key() {
                    return self.key(text.into_owned(), place);
                }
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix == "str");
                let value = if is_text { Value::String(text.into_owned()) } else { plain(&text, place)? };
                self.put(Node { place, size: 1, kind: NodeKind::Scalar(value) }, anchor, 1)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(NodeKind::Seq(Vec::new()), anchor, tag.as_deref(), place)
            }
            Event::MappingStart(anchor, tag) => {
                self.begin(NodeKind::Map(Vec::new()), anchor, tag.as_deref(), place)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(closed) => self.put(closed.node, closed.anchor, 1),
                None => Ok(()),
            },
        }
    }

    /// Whether the next thing in the text is the key of a mapping.
    fn wants_key(&self) -> bool {
        self.open.last().is_some_and(|open| matches!(open.node.kind, NodeKind::Map(_)) && open.key.is_none())
    }

    fn begin(
        &mut self,
        kind: NodeKind,
        anchor: usize,
        tag: Option<&Tag>,
        place: Position,
    ) -> Result<(), YamlError> {
        refuse_unknown_tag(tag, place)?;
        if self.open.len() >= MAX_DEPTH {
            return Err(YamlError::new(place, format!("nested deeper than {MAX_DEPTH} levels"), None));
        }
        if self.wants_key() {
            let help = "put quotes around it if it should be a string";
            return Err(YamlError::new(place, "a key must be a string, not a list or a mapping", Some(help)));
        }
        self.open.push(OpenCollection {
            anchor,
            node: Node { place, size: 1, kind },
            key: None,
            keys: HashMap::new(),
        });
        Ok(())
    }

    fn key(&mut self, key: String, place: Position) -> Result<(), YamlError> {
        if key == "<<" {
            let help = "write the keys out, or use an alias (`*name`) for a whole value";
            return Err(YamlError::new(place, "merge keys (`<<`) are not supported", Some(help)));
        }
        let Some(open) = self.open.last_mut() else { return Ok(()) };
        if let Some(first) = open.keys.get(&key) {
            let message = format!("duplicate key `{}`, first used in line {first}", shown(&key));
            self.errors.push(YamlError::new(place, message, Some("remove one of the two")));
        } else {
            open.keys.insert(key.clone(), place.line);
        }
        open.key = Some((key, place));
        Ok(())
    }

    /// Adds a finished node to its parent. `added` of its values have not been counted yet.
    fn put(&mut self, node: Node, anchor: usize, added: usize) -> Result<(), YamlError> {
        self.nodes += added;
        if self.nodes > MAX_NODES {
            return Err(too_much(node.place));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.node.size += node.size;
        match &mut open.node.kind {
            NodeKind::Seq(items) => items.push(node),
            NodeKind::Map(entries) => {
                if let Some((key, place)) = open.key.take() {
                    entries.push((key, place, node));
                }
            }
            NodeKind::Scalar(_) => {}
        }
        Ok(())
    }
}

fn too_much(place: Position) -> YamlError {
    let message = format!("more than {MAX_NODES} values, counting what aliases repeat");
    YamlError::new(place, message, Some("shorten the file, or use fewer aliases"))
}

fn place_of(span: Span) -> Position {
    let width = if span.start.line() == span.end.line() { span.end.col() - span.start.col() } else { 1 };
    Position { line: span.start.line().max(1), column: span.start.col() + 1, width: width.max(1) }
}

/// Parses a plain scalar by YAML 1.2's core schema.
fn plain(text: &str, place: Position) -> Result<Value, YamlError> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let radix =
        |prefix: &str, radix| text.strip_prefix(prefix).and_then(|n| u64::from_str_radix(n, radix).ok());
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ if matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") => {
            let help = "put quotes around it if it should be a string";
            return Err(YamlError::new(place, "infinite numbers and NaN are not supported", Some(help)));
        }
        _ => {
            let integer = text.strip_prefix('+').unwrap_or(text);
            if let Some(number) = radix("0x", 16).or_else(|| radix("0o", 8)) {
                Value::from(number)
            } else if let Ok(number) = integer.parse::<u64>() {
                Value::from(number)
            } else if let Ok(number) = integer.parse::<i64>() {
                Value::from(number)
            } else if looks_like_float(unsigned) {
                let number = integer.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
                number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
            } else {
                Value::String(text.to_owned())
            }
        }
    })
}

/// Parses digits with a point or an exponent. Rust's own parser would also accept `inf`, `infinity` and `nan`.
fn looks_like_float(unsigned: &str) -> bool {
    unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.contains(|c: char| c.is_ascii_digit())
        && unsigned.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'))
}

fn refuse_unknown_tag(tag: Option<&Tag>, place: Position) -> Result<(), YamlError> {
    let Some(tag) = tag.filter(|tag| !tag.is_yaml_core_schema()) else { return Ok(()) };
    let message = format!("the tag `{}` is not supported", shown(&format!("{}{}", tag.handle, tag.suffix)));
    let help = "remove the tag, or put quotes around the string if it should begin with `!`";
    Err(YamlError::new(place, message, Some(help)))
}

fn shown(text: &str) -> String {
    rawko_core::text::truncate(text, 60)
}

/// Turns a scanner's error into a message for people who write configuration.
fn explain(error: &ScanError, text: &str) -> YamlError {
    let marker = error.marker();
    let mut place = Position { line: marker.line().max(1), column: marker.col() + 1, width: 1 };
    let end = text.trim_end().lines().count();
    if place.line > end {
        // There is nothing to show after the end. The missing part belongs after the last character.
        let last = text.trim_end().lines().last().unwrap_or_default();
        place = Position { line: end.max(1), column: last.chars().count().max(1), width: 1 };
    }
    // The scanner often notices a tab only lines later. The nearest indentation with one is the likely cause.
    let tab = text.lines().enumerate().take(place.line).filter_map(|(index, line)| {
        let indent = &line[..line.len() - line.trim_start().len()];
        let column = indent.chars().position(|c| c == '\t')?;
        (!line.trim().is_empty()).then_some(Position { line: index + 1, column: column + 1, width: 1 })
    });
    if let Some(place) = tab.last() {
        let message = "there is a tab in the indentation; YAML allows only spaces there";
        return YamlError::new(place, message, Some("replace the tab with two spaces"));
    }
    let info = error.info();
    let help = if info.contains("mapping values are not allowed") {
        Some("put quotes around a string with `: ` in it, or check the indentation of this line")
    } else if info.contains("did not find expected key") || info.contains("simple key") {
        Some("check the indentation, and for a missing `:` after a key")
    } else if info.contains("quoted scalar") {
        Some("close the quotes")
    } else if ["flow", "node content", "':' indicator"].iter().any(|part| info.contains(part)) {
        Some(
            "close the bracket or brace before this position, or put quotes around a string that begins with `[` or `{`",
        )
    } else if info.contains("unknown anchor") {
        Some("define it first with `&name`, or put quotes around a string that begins with `*`")
    } else if info.contains("cannot start any token") {
        Some("put quotes around the string: it begins with a character that has a meaning in YAML")
    } else {
        Some("check this line and the one before it")
    };
    YamlError::new(place, format!("not valid YAML: {info}"), help)
}

#[cfg(test)]
#[path = "yaml_tests.rs"]
mod tests;
