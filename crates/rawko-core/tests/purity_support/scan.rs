//! What a pure source may use of the standard library, and how its uses are found.
//!
//! The scan works on tokens, so that code inside macro calls and paths inside attribute strings
//! (`#[serde(default = "…")]`) are seen like any other. It needs no name resolution: a `use` may only bring in what
//! is allowed as a whole, under whatever alias, so no short name can mean anything else.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// The names under which the standard library can be reached.
const ROOTS: [&str; 3] = ["std", "core", "alloc"];

/// What may be used of it; each entry with everything below. Not listed: everything that does I/O
/// (`env`, `fs`, `io`, `net`, `os`, `process`, `thread`, the clocks in `time`), that differs from run to run
/// (`HashMap` and its relatives are seeded at random) or from platform to platform (`path`, `ffi`), and that keeps
/// state outside of values (`sync::Mutex`, `sync::atomic`).
const ALLOWED: &[&str] = &[
    "array",
    "borrow",
    "boxed",
    "cell",
    "char",
    "cmp",
    "collections::BTreeMap",
    "collections::BTreeSet",
    "collections::BinaryHeap",
    "collections::VecDeque",
    "collections::btree_map",
    "collections::btree_set",
    "collections::vec_deque",
    "convert",
    "default",
    "error",
    "f64",
    "fmt",
    "hash::Hash",
    "hash::Hasher",
    "i32",
    "i64",
    "iter",
    "marker",
    "mem",
    // Values: what is done with an address is done elsewhere.
    "net::IpAddr",
    "net::Ipv4Addr",
    "net::Ipv6Addr",
    "num",
    "ops",
    "option",
    "rc",
    "result",
    "slice",
    "str",
    "string",
    "sync::Arc",
    "sync::LazyLock",
    "sync::OnceLock",
    "sync::Weak",
    "time::Duration",
    "u16",
    "u32",
    "u64",
    "u8",
    "usize",
    "vec",
    // Macros by their full names.
    "assert",
    "concat",
    "format",
    "matches",
    "stringify",
    "vec",
    "write",
    "writeln",
];

/// Macros that read the build's environment, print, keep state per thread, or bring in what is not scanned.
const MACROS: &[&str] = &[
    "asm",
    "dbg",
    "env",
    "eprint",
    "eprintln",
    "global_asm",
    "include",
    "naked_asm",
    "option_env",
    "print",
    "println",
    "thread_local",
];

/// Names that are refused at the end or in the middle of a path of any crate.
const NAMES: &[&str] = &["RandomState", "SystemTime", "Instant", "__private", "_private"];

/// Something impure in a source.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offence {
    /// Line in the file, from 1.
    pub(crate) line: usize,
    /// The text in the source.
    pub(crate) what: String,
}

/// Everything impure in `tokens`.
pub(crate) fn scan(tokens: TokenStream) -> Vec<Offence> {
    let mut offences = Vec::new();
    scan_stream(tokens, &mut offences);
    offences
}

fn scan_stream(stream: TokenStream, offences: &mut Vec<Offence>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        at = match &tokens[at] {
            TokenTree::Group(group) if is_attribute(&tokens, at) => {
                scan_attribute(group.stream(), offences);
                at + 1
            }
            TokenTree::Group(group) => {
                scan_stream(group.stream(), offences);
                at + 1
            }
            TokenTree::Ident(ident) if ident == "use" && !is_punct(tokens.get(at + 1), '<') => {
                let end = (at..tokens.len()).find(|i| is_punct(tokens.get(*i), ';')).unwrap_or(tokens.len());
                scan_use(&tokens[at + 1..end], &[], offences);
                end
            }
            TokenTree::Ident(_) => scan_path(&tokens, at, offences),
            TokenTree::Punct(_) | TokenTree::Literal(_) => at + 1,
        };
    }
}

/// Checks the path that begins at `at` and returns where it ends.
fn scan_path(tokens: &[TokenTree], at: usize, offences: &mut Vec<Offence>) -> usize {
    let mut path = vec![unraw(&tokens[at])];
    let mut end = at + 1;
    while is_separator(tokens, end)
        && let Some(TokenTree::Ident(_)) = tokens.get(end + 2)
    {
        path.push(unraw(&tokens[end + 2]));
        end += 3;
    }
    let mut offend = |what: String| offences.push(Offence { line: line(&tokens[at]), what });
    let name = path.join("::");
    let is_field = at > 0 && is_punct(tokens.get(at - 1), '.');
    let last = path.last().map_or("", String::as_str);
    if is_punct(tokens.get(end), '!') && !is_punct(tokens.get(end + 1), '=') && MACROS.contains(&last) {
        offend(format!("macro {last}!"));
    }
    if ["unsafe", "extern"].contains(&name.as_str()) {
        offend(format!("keyword {name}"));
    }
    if let Some(refused) = path.iter().find(|segment| NAMES.contains(&segment.as_str())) {
        offend(format!("name {refused}"));
    } else if !is_field && ROOTS.contains(&path[0].as_str()) && path.len() > 1 && !is_allowed(&path) {
        offend(format!("path {name}"));
    }
    end
}

/// Checks the tree of one `use`, without its end: `a::b as c`, `{a, b::{c, d}}`, `a::*`.
fn scan_use(tokens: &[TokenTree], prefix: &[String], offences: &mut Vec<Offence>) {
    let mut path = prefix.to_vec();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                for branch in inner.split(|token| is_punct(Some(token), ',')).filter(|b| !b.is_empty()) {
                    scan_use(branch, &path, offences);
                }
                return;
            }
            TokenTree::Ident(ident) if ident == "as" => break,
            TokenTree::Ident(ident) if ident == "self" => {}
            TokenTree::Ident(_) => path.push(unraw(&tokens[at])),
            TokenTree::Punct(punct) if punct.as_char() == '*' => path.push("*".to_owned()),
            TokenTree::Group(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        at += 1;
    }
    let Some(first) = path.first() else { return };
    let refused = path.iter().any(|segment| NAMES.contains(&segment.as_str()));
    if refused || (ROOTS.contains(&first.as_str()) && !is_allowed(&path)) {
        let line = tokens.first().map_or(0, line);
        offences.push(Offence { line, what: format!("use {}", path.join("::")) });
    }
}

/// Documentation may mention anything; other attributes are scanned with the paths in their strings. A module with a
/// `path` attribute would not be followed.
fn scan_attribute(stream: TokenStream, offences: &mut Vec<Offence>) {
    let tokens: Vec<TokenTree> = stream.clone().into_iter().collect();
    let Some(TokenTree::Ident(name)) = tokens.first() else { return };
    if name == "doc" {
        return;
    }
    if name == "path" {
        offences.push(Offence { line: line(&tokens[0]), what: "attribute path".to_owned() });
    }
    scan_strings(stream.clone(), offences);
    scan_stream(stream, offences);
}

fn scan_strings(stream: TokenStream, offences: &mut Vec<Offence>) {
    for token in stream {
        match token {
            TokenTree::Group(group) => scan_strings(group.stream(), offences),
            TokenTree::Literal(literal) => {
                let line = literal.span().start().line;
                let text = syn::parse_str::<syn::LitStr>(&literal.to_string()).map(|text| text.value());
                let Some(code) = text.ok().filter(|text| text.contains("::")) else { continue };
                // Text that is not code, such as a pattern, has no path either.
                let Ok(code) = code.parse::<TokenStream>() else { continue };
                offences.extend(scan(code).into_iter().map(|offence| Offence { line, ..offence }));
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

fn is_allowed(path: &[String]) -> bool {
    let below_root = path[1..].join("::");
    ALLOWED.iter().any(|allowed| {
        below_root.strip_prefix(allowed).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    })
}

/// Whether the group at `at` is the `[…]` of an attribute.
fn is_attribute(tokens: &[TokenTree], at: usize) -> bool {
    let hash = |i: usize| is_punct(tokens.get(i), '#');
    let inner = at > 1 && is_punct(tokens.get(at - 1), '!') && hash(at - 2);
    let bracket = matches!(&tokens[at], TokenTree::Group(g) if g.delimiter() == Delimiter::Bracket);
    bracket && at > 0 && (hash(at - 1) || inner)
}

fn is_separator(tokens: &[TokenTree], at: usize) -> bool {
    let joint = matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == ':' && p.spacing() == Spacing::Joint);
    joint && is_punct(tokens.get(at + 1), ':')
}

fn is_punct(token: Option<&TokenTree>, char: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == char)
}

/// The text of an identifier: `r#std` is `std`.
fn unraw(token: &TokenTree) -> String {
    token.to_string().trim_start_matches("r#").to_owned()
}

fn line(token: &TokenTree) -> usize {
    token.span().start().line
}
