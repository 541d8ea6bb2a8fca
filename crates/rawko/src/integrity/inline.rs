//! Rust keeps unit tests in the files that they test: here the two are held apart.
//!
//! Owns which items of a file are tests: those that only exist under `cfg(test)`, and functions with a `test` attribute.
//! Only items of the file itself are looked at, not those of its inner modules.

use std::ops::Range;

use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Attribute, File, Item, ItemMod, Meta, Token};

/// The tests in a file beside those that were there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InlineTests {
    /// All that were there are there; others may have been added.
    Kept,
    /// They differ; this is the new code with the original tests.
    Changed(Vec<u8>),
}

/// Whether a file of Rust holds tests.
pub(super) fn has_tests(content: &[u8]) -> bool {
    parse(content).is_some_and(|(file, _)| !tests(&file).is_empty())
}

/// Compares the tests in a file of Rust. Where the present one cannot be read as such, the original stands in for it.
pub(super) fn compare(original: &[u8], now: &[u8]) -> InlineTests {
    let Some((old, old_text)) = parse(original) else { return InlineTests::Kept };
    let old_tests = tests(&old);
    if old_tests.is_empty() {
        return InlineTests::Kept;
    }
    let Some((new, new_text)) = parse(now) else { return InlineTests::Changed(original.to_vec()) };
    let new_tests = tests(&new);
    if old_tests.iter().all(|test| is_kept(test, &new_tests)) {
        return InlineTests::Kept;
    }
    let mut merged = String::new();
    let mut end = 0;
    for range in new_tests.iter().map(|item| range(item)) {
        merged.push_str(new_text.get(end..range.start).unwrap_or_default());
        end = range.end;
    }
    merged.push_str(new_text.get(end..).unwrap_or_default());
    for range in old_tests.iter().map(|item| range(item)) {
        merged.push('\n');
        merged.push_str(old_text.get(range).unwrap_or_default());
        merged.push('\n');
    }
    InlineTests::Changed(merged.into_bytes())
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
fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            parts.is_ok_and(|parts| parts.iter().any(needs_test))
        }
        Meta::List(_) | Meta::NameValue(_) => false,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
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
        // What stands between the items stays.
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

    proptest::proptest! {
        #[test]
        fn any_text_is_compared_without_harm(original in "\\PC{0,60}", now in "\\PC{0,60}") {
            let _ = compare(original.as_bytes(), now.as_bytes());
        }
    }
}
