//! Rust keeps unit tests in the files that they test: this module separates the two.
//!
//! Owns which items of a file are tests: those that only exist under `cfg(test)`, functions with a `test` attribute, and
//! examples in documentation. Only items of the file itself are looked at for tests, not those of its inner modules.

use std::ops::Range;

use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Attribute, File, Ident, Item, ItemMacro, ItemMod, ItemUse, Meta, Token, UseTree};

/// The tests in a file beside those that were there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InlineTests {
    /// All that were there are there; others may have been added.
    Kept,
    /// They differ; this is the new code with the original tests.
    Changed(Vec<u8>),
}

/// Macros that tests judge by: code that defines one anew decides what the tests see.
const ASSERTIONS: &[&str] =
    &["assert", "assert_eq", "assert_ne", "debug_assert", "debug_assert_eq", "debug_assert_ne"];

/// Whether a file of Rust holds tests.
pub(super) fn has_tests(content: &[u8]) -> bool {
    parse(content).is_some_and(|(file, text)| !tests(&file).is_empty() || !examples(text).is_empty())
}

/// A new file of Rust without the macros that would take the place of assertions; `None` if it has none.
pub(super) fn without_shadows(now: &[u8]) -> Option<Vec<u8>> {
    let (file, text) = parse(now)?;
    let shadows: Vec<Range<usize>> = shadows(&file.items).into_iter().map(range).collect();
    (!shadows.is_empty()).then(|| without(text, shadows).into_bytes())
}

/// Whether a file of Rust declares the module that is in its own file under this name: for tests alone, or for all.
pub(super) fn declares(content: &[u8], module: &str) -> Option<bool> {
    let (file, _) = parse(content)?;
    let found = file.items.iter().find_map(|item| match item {
        Item::Mod(item) if item.content.is_none() && item.ident == module => Some(&item.attrs),
        _ => None,
    });
    found.map(|attributes| attributes.iter().any(is_test))
}

/// Compares the tests in a file of Rust. If the present file cannot be read as Rust, the original replaces it.
pub(super) fn compare(original: &[u8], now: &[u8]) -> InlineTests {
    let Some((old, old_text)) = parse(original) else { return InlineTests::Kept };
    let old_tests = tests(&old);
    let old_examples = examples(old_text);
    let Some((new, new_text)) = parse(now) else {
        let has_tests = !old_tests.is_empty() || !old_examples.is_empty();
        return if has_tests { InlineTests::Changed(original.to_vec()) } else { InlineTests::Kept };
    };
    let new_tests = tests(&new);
    let is_weakened = !old_tests.iter().all(|test| is_kept(test, &new_tests));
    let new_examples = examples(new_text);
    let lost: Vec<&Example> = old_examples.iter().filter(|example| !new_examples.contains(example)).collect();
    let known = shadows(&old.items);
    let shadows = shadows(&new.items).into_iter().filter(|item| !known.contains(item)).map(range);
    let mut removed: Vec<Range<usize>> = shadows.collect();
    if !old_tests.is_empty() || !old_examples.is_empty() {
        // A condition on the whole file takes its tests out.
        let conditions = conditions(&new.attrs).into_iter().filter(|new| !old.attrs.contains(new));
        removed.extend(conditions.map(|attribute| attribute.span().byte_range()));
    }
    if !is_weakened && lost.is_empty() && removed.is_empty() {
        return InlineTests::Kept;
    }
    let mut added = String::new();
    if is_weakened {
        removed.extend(new_tests.iter().map(|item| range(item)));
        for range in old_tests.iter().map(|item| range(item)) {
            added.push('\n');
            added.push_str(old_text.get(range).unwrap_or_default());
            added.push('\n');
        }
    }
    for (at, example) in lost.iter().enumerate() {
        added.push_str(&example.on_an_item_of_its_own(at));
    }
    InlineTests::Changed((without(new_text, removed) + &added).into_bytes())
}

/// Modules in files of their own that a file declared, and does not declare any more, or elsewhere, or under another
/// condition.
pub(super) fn lost_modules(original: &[u8], now: &[u8]) -> Vec<String> {
    let (Some((old, _)), Some((new, _))) = (parse(original), parse(now)) else { return Vec::new() };
    let declarations = |file: &File| -> Vec<(String, Vec<Attribute>)> {
        let modules = file.items.iter().filter_map(|item| match item {
            Item::Mod(item) if item.content.is_none() => Some(item),
            _ => None,
        });
        modules
            .map(|item| (item.ident.to_string(), conditions(&item.attrs).into_iter().cloned().collect()))
            .collect()
    };
    let present = declarations(&new);
    let lost = declarations(&old).into_iter().filter(|declared| !present.contains(declared));
    lost.map(|(name, _)| name).collect()
}

/// The code with the original declarations of these modules.
pub(super) fn with_modules(original: &[u8], now: &[u8], names: &[String]) -> Vec<u8> {
    let (Some((old, old_text)), Some((new, new_text))) = (parse(original), parse(now)) else {
        return now.to_vec();
    };
    let declarations = |file: &File| -> Vec<Range<usize>> {
        let is_meant = |item: &&Item| matches!(item, Item::Mod(item) if item.content.is_none() && names.iter().any(|name| item.ident == name));
        file.items.iter().filter(is_meant).map(range).collect()
    };
    let mut text = without(new_text, declarations(&new));
    for range in declarations(&old) {
        text.push('\n');
        text.push_str(old_text.get(range).unwrap_or_default());
        text.push('\n');
    }
    text.into_bytes()
}

/// The attributes that decide whether something is compiled, and where it is found.
fn conditions(attributes: &[Attribute]) -> Vec<&Attribute> {
    let decides = |attribute: &&Attribute| {
        ["cfg", "cfg_attr", "path"].iter().any(|known| attribute.path().is_ident(known))
    };
    attributes.iter().filter(decides).collect()
}

/// The text without these parts.
fn without(text: &str, mut parts: Vec<Range<usize>>) -> String {
    parts.sort_by_key(|part| part.start);
    let mut left = String::new();
    let mut end = 0;
    for part in parts {
        left.push_str(text.get(end..part.start).unwrap_or_default());
        end = end.max(part.end);
    }
    left.push_str(text.get(end..).unwrap_or_default());
    left
}

/// A piece of code in a documentation comment, which is a test as well.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    /// What follows the opening fence.
    kind: String,
    lines: Vec<String>,
}

impl Example {
    /// It needs nothing of its item: an example sees the crate from outside.
    fn on_an_item_of_its_own(&self, number: usize) -> String {
        let Self { kind, lines } = self;
        let body: String = lines.iter().map(|line| format!("/// {line}\n")).collect();
        format!("\n/// ```{kind}\n{body}/// ```\n#[cfg(doctest)]\npub struct RawkoExample{number};\n")
    }
}

/// The examples of a file that cargo runs.
fn examples(text: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut open: Option<Example> = None;
    for line in text.lines().map(str::trim_start) {
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(comment) = comment else {
            open = None;
            continue;
        };
        let comment = comment.strip_prefix(' ').unwrap_or(comment);
        match (comment.trim_start().strip_prefix("```"), open.as_mut()) {
            (Some(kind), None) => {
                open = Some(Example { kind: kind.trim().to_owned(), lines: Vec::new() });
            }
            (Some(_), Some(_)) => examples.extend(open.take().filter(|example| is_run(&example.kind))),
            (None, Some(example)) => example.lines.push(comment.to_owned()),
            (None, None) => {}
        }
    }
    examples
}

/// Whether cargo takes code of this kind for Rust that is to be compiled.
fn is_run(kind: &str) -> bool {
    let known = |word: &str| {
        matches!(word, "" | "rust" | "should_panic" | "no_run" | "compile_fail")
            || word.starts_with("edition")
    };
    kind.split(',').map(str::trim).all(known)
}

/// Items that give the name of an assertion to something else, outside of tests.
fn shadows(items: &[Item]) -> Vec<&Item> {
    let mut found = Vec::new();
    for item in items.iter().filter(|item| !attributes(item).iter().any(is_test)) {
        match item {
            Item::Macro(ItemMacro { ident: Some(ident), .. }) if is_assertion(ident) => found.push(item),
            Item::Use(ItemUse { tree, .. }) if binds_an_assertion(tree) => found.push(item),
            Item::Mod(ItemMod { content: Some((_, items)), .. }) => found.extend(shadows(items)),
            _ => {}
        }
    }
    found
}

fn is_assertion(ident: &Ident) -> bool {
    ASSERTIONS.iter().any(|known| ident == known)
}

fn binds_an_assertion(tree: &UseTree) -> bool {
    match tree {
        UseTree::Path(path) => binds_an_assertion(&path.tree),
        UseTree::Name(name) => is_assertion(&name.ident),
        UseTree::Rename(rename) => is_assertion(&rename.rename),
        UseTree::Group(group) => group.items.iter().any(binds_an_assertion),
        UseTree::Glob(_) => false,
    }
}

fn parse(bytes: &[u8]) -> Option<(File, &str)> {
    let text = std::str::from_utf8(bytes).ok()?;
    Some((syn::parse_file(text).ok()?, text))
}

fn range(item: &Item) -> Range<usize> {
    item.span().byte_range()
}

fn tests(file: &File) -> Vec<&Item> {
    file.items.iter().filter(|item| attributes(item).iter().any(is_test)).collect()
}

/// Whether an original test is among the present ones. To a module of tests others may have been added, but no macro:
/// it could take the place of an assertion.
fn is_kept(test: &Item, now: &[&Item]) -> bool {
    if let Item::Mod(ItemMod { ident, content: Some((_, old)), attrs, .. }) = test {
        let same_name = now.iter().find_map(|item| match item {
            Item::Mod(module) if module.ident == *ident && module.attrs == *attrs => module.content.as_ref(),
            _ => None,
        });
        let Some((_, new)) = same_name else { return false };
        let macros = |items: &[Item]| items.iter().filter(|item| matches!(item, Item::Macro(_))).count();
        return macros(new) <= macros(old) && old.iter().all(|item| new.contains(item));
    }
    now.contains(&test)
}

fn is_test(attribute: &Attribute) -> bool {
    let path = attribute.path();
    if path.is_ident("cfg") {
        return attribute.parse_args::<Meta>().is_ok_and(|condition| needs_test(&condition));
    }
    path.segments.last().is_some_and(|segment| segment.ident == "test")
}

/// Whether a condition only holds for tests.
pub(super) fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            parts.is_ok_and(|parts| parts.iter().any(needs_test))
        }
        Meta::List(_) | Meta::NameValue(_) => false,
    }
}

pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        // An open enumeration.
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "pub fn add(a: i32, b: i32) -> i32 {\n    a - b\n}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    #[test]\n    fn adds() {\n        assert_eq!(add(1, 2), 3);\n    }\n}\n";

    #[track_caller]
    fn check(now: &str, expected: Option<&str>) {
        let expected =
            expected.map_or(InlineTests::Kept, |text| InlineTests::Changed(text.as_bytes().to_vec()));
        assert_eq!(compare(FIRST.as_bytes(), now.as_bytes()), expected);
    }

    #[test]
    fn new_tests_leave_the_old_ones() {
        let fixed = FIRST.replace("a - b", "a + b");
        check(&fixed, None);
        check(&fixed.replace("    #[test]", "    #[test]\n    fn more() {}\n\n    #[test]"), None);
        check(&format!("{fixed}\n#[test]\nfn other() {{}}\n"), None);
        check("not rust {", Some(FIRST));
    }

    #[test]
    fn only_what_exists_for_tests_alone_is_a_test() {
        for (text, expected) in [
            ("#[cfg(all(unix, test))] mod a {}", true),
            ("#[tokio::test] async fn a() {}", true),
            ("#[cfg(not(test))] fn a() {}", false),
            ("#[cfg(any(test, unix))] fn a() {}", false),
            ("#[cfg(feature = \"test-utils\")] fn a() {}", false),
        ] {
            assert_eq!(has_tests(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn weakened_tests_are_put_back() {
        // The text between the items stays.
        let restored = FIRST.replace("#[cfg(test)]", "\n\n#[cfg(test)]");
        check(&FIRST.replace(", 3", ", -1"), Some(&restored));
        check(&FIRST.replace("    #[test]", "    #[test]\n    #[ignore]"), Some(&restored));
        check(&FIRST.replace("cfg(test)", "cfg(all(test, never))"), Some(&restored));
        let body = FIRST.split("#[cfg").next().unwrap();
        check(body, Some(&FIRST.replace("#[cfg(test)]", "\n#[cfg(test)]")));
        let lenient =
            FIRST.replace("    use super", "    macro_rules! assert_eq { ($($x:tt)*) => {} }\n    use super");
        check(&lenient, Some(&restored));
    }

    const DOCUMENTED: &str = "/// Adds.\n///\n/// ```\n/// assert_eq!(a::add(1, 2), 3);\n/// ```\n/// ```text\n/// none\n/// ```\npub fn add(a: i32, b: i32) -> i32 {\n    a - b\n}\n";

    #[test]
    fn examples_are_tests() {
        let compare = |now: &str| compare(DOCUMENTED.as_bytes(), now.as_bytes());
        assert!(has_tests(DOCUMENTED.as_bytes()));
        assert_eq!(compare(&DOCUMENTED.replace("a - b", "a + b").replace("none", "some")), InlineTests::Kept);
        for weakened in [
            DOCUMENTED.replace(", 3", ", -1"),
            DOCUMENTED.replace("```\n/// assert", "```ignore\n/// assert"),
        ] {
            let restored = format!(
                "{weakened}\n/// ```\n/// assert_eq!(a::add(1, 2), 3);\n/// ```\n#[cfg(doctest)]\npub struct RawkoExample0;\n"
            );
            assert_eq!(compare(&weakened), InlineTests::Changed(restored.into_bytes()));
        }
    }

    #[test]
    fn code_that_takes_the_place_of_assertions_is_taken_out() {
        let lenient = "macro_rules! assert_eq { ($($x:tt)*) => {} }\n";
        check(&format!("{lenient}{FIRST}"), Some(&format!("\n{FIRST}")));
        check(
            &format!("{FIRST}mod m {{ pub(crate) use crate::never as assert; }}"),
            Some(&format!("{FIRST}mod m {{  }}")),
        );
        assert_eq!(without_shadows(lenient.as_bytes()), Some(b"\n".to_vec()));
        assert_eq!(without_shadows(b"macro_rules! own { () => {} }\nuse std::panic;"), None);
        // It was there before.
        let own = format!("{lenient}{FIRST}");
        assert_eq!(compare(own.as_bytes(), own.replace("a - b", "a + b").as_bytes()), InlineTests::Kept);
    }

    #[test]
    fn conditions_on_a_whole_file_are_taken_out() {
        check(&format!("#![cfg(any())]\n{FIRST}"), Some(&format!("\n{FIRST}")));
        check(&format!("#![allow(dead_code)]\n{FIRST}"), None);
    }

    #[test]
    fn modules_that_are_not_compiled_any_more_are_lost() {
        let first = b"#[cfg(unix)]\nmod a;\nmod math;\npub use math::add;\n";
        for (now, lost) in [
            ("mod math; #[cfg(unix)] mod a;", &[][..]),
            ("#[cfg(unix)] mod a; #[allow(unused)] pub mod math;", &[]),
            ("#[cfg(unix)] mod a; mod arith;", &["math"]),
            ("#[cfg(unix)] mod a; #[path = \"arith.rs\"] mod math;", &["math"]),
            ("#[cfg(any())] mod a; mod math;", &["a"]),
        ] {
            assert_eq!(lost_modules(first, now.as_bytes()), lost, "{now}");
        }
        let now = b"mod arith;\n#[path = \"arith.rs\"]\nmod math;\n";
        assert_eq!(with_modules(first, now, &["math".to_owned()]), b"mod arith;\n\n\nmod math;\n");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_compared_without_harm(original in "\\PC{0,60}", now in "\\PC{0,60}") {
            let _ = with_modules(original.as_bytes(), now.as_bytes(), &lost_modules(original.as_bytes(), now.as_bytes()));
            let _ = compare(original.as_bytes(), now.as_bytes());
        }
    }
}
