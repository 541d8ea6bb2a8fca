//! What new Rust code does to the tests that judge it: comparisons that are always true, and code that only tests see.
//!
//! Both have honest uses, so the line is drawn where code replaces what was there. A type that was compared by its parts,
//! and is equal to every other of its kind now, undermines its tests; a new type without a say in equality (the place of a
//! token in its source) does not. So does an item that was one, and is two now: one for tests and one for everything
//! else.

use std::collections::BTreeSet;

use syn::punctuated::Punctuated;
use syn::{
    Attribute, Block, Expr, ExprLit, ExprReturn, GenericArgument, ImplItem, Item, ItemImpl, ItemMod, Lit,
    Meta, Path, PathArguments, Stmt, Token, Type,
};

use super::inline::{attributes, needs_test};

/// Whether code undermines checks that did not do so before. Code that cannot be read as Rust does not.
pub(super) fn undermines(before: Option<&[u8]>, now: &[u8]) -> bool {
    let parse = |bytes| syn::parse_file(std::str::from_utf8(bytes).ok()?).ok();
    let Some(now) = parse(now) else { return false };
    let (mut known, mut new) = (Found::default(), Found::default());
    if let Some(before) = before.and_then(parse) {
        known.take(&before.items, "");
    }
    new.take(&now.items, "");
    let is_new = |pair: &(String, String)| !known.equal_to_others.contains(pair);
    let is_split = |name: &String| new.for_others.contains(name) && known.for_all.contains(name);
    new.equal_to_others.iter().any(is_new)
        || new.always_equal.iter().any(|name| known.compared.contains(name))
        || new.for_tests.iter().any(is_split)
}

/// What a file has of interest here, by names with the modules that they are in.
#[derive(Default)]
struct Found {
    /// Types that are compared by their parts.
    compared: BTreeSet<String>,
    /// Types whose values are all equal.
    always_equal: BTreeSet<String>,
    /// Types that are equal to whatever they are compared with, each with that other type.
    equal_to_others: BTreeSet<(String, String)>,
    /// Items that are there in every build.
    for_all: BTreeSet<String>,
    /// Items that only exist in builds of tests.
    for_tests: BTreeSet<String>,
    /// Items that only exist in other builds.
    for_others: BTreeSet<String>,
}

impl Found {
    fn take(&mut self, items: &[Item], module: &str) {
        for item in items {
            let conditions: Vec<Meta> = attributes(item).iter().filter_map(condition).collect();
            let is_for_tests = conditions.iter().any(needs_test);
            if let Some(name) = name(item) {
                let set = match (is_for_tests, conditions.iter().any(excludes_test)) {
                    (true, _) => &mut self.for_tests,
                    (false, true) => &mut self.for_others,
                    (false, false) => &mut self.for_all,
                };
                set.insert(format!("{module}{name}"));
            }
            match item {
                // What tests compare among themselves is theirs.
                _ if is_for_tests => {}
                Item::Mod(ItemMod { ident, content: Some((_, items)), .. }) => {
                    self.take(items, &format!("{module}{ident}::"));
                }
                Item::Impl(implementation) => self.implementation(implementation, module),
                Item::Struct(item) if derives_equality(&item.attrs) => {
                    self.compared.insert(format!("{module}{}", item.ident));
                }
                Item::Enum(item) if derives_equality(&item.attrs) => {
                    self.compared.insert(format!("{module}{}", item.ident));
                }
                _ => {}
            }
        }
    }

    fn implementation(&mut self, item: &ItemImpl, module: &str) {
        let Some((path, _)) = &item.trait_ else { return };
        let Some(last) = path.segments.last().filter(|last| last.ident == "PartialEq") else { return };
        let Some(own) = type_name(&item.self_ty) else { return };
        let other = match &last.arguments {
            PathArguments::AngleBracketed(arguments) => {
                arguments.args.iter().find_map(|argument| match argument {
                    GenericArgument::Type(other) => Some(type_name(other).unwrap_or_default()),
                    _ => None,
                })
            }
            PathArguments::None | PathArguments::Parenthesized(_) => None,
        };
        let other = other.filter(|other| *other != own && other != "Self");
        let equality = item.items.iter().find_map(|item| match item {
            ImplItem::Fn(function) if function.sig.ident == "eq" => Some(&function.block),
            _ => None,
        });
        let is_constant = equality.is_some_and(is_true);
        let own = format!("{module}{own}");
        match (is_constant, other) {
            (true, Some(other)) => drop(self.equal_to_others.insert((own, other))),
            (true, None) => drop(self.always_equal.insert(own)),
            (false, None) => drop(self.compared.insert(own)),
            (false, Some(_)) => {}
        }
    }
}

/// Whether a body is the constant `true`.
fn is_true(body: &Block) -> bool {
    let is_literal = |expression: &Expr| matches!(expression, Expr::Lit(ExprLit { lit: Lit::Bool(value), .. }) if value.value);
    match body.stmts.as_slice() {
        [Stmt::Expr(Expr::Return(ExprReturn { expr: Some(value), .. }), _)] => is_literal(value),
        [Stmt::Expr(value, None)] => is_literal(value),
        _ => false,
    }
}

fn derives_equality(attributes: &[Attribute]) -> bool {
    let derives = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
    derives
        .filter_map(|derive| derive.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated).ok())
        .any(|paths| {
            paths.iter().any(|path| path.segments.last().is_some_and(|last| last.ident == "PartialEq"))
        })
}

fn type_name(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        Type::Reference(to) => type_name(&to.elem),
        _ => None,
    }
}

/// The condition of a `cfg`.
fn condition(attribute: &Attribute) -> Option<Meta> {
    attribute.path().is_ident("cfg").then(|| attribute.parse_args().ok()).flatten()
}

/// Whether a condition never holds for tests.
fn excludes_test(condition: &Meta) -> bool {
    let Meta::List(list) = condition else { return false };
    let parts = || list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).unwrap_or_default();
    if list.path.is_ident("not") {
        return parts().iter().any(|part| matches!(part, Meta::Path(path) if path.is_ident("test")));
    }
    list.path.is_ident("all") && parts().iter().any(excludes_test)
}

/// The name of an item that other code calls or has.
fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Mod(item) => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, now: &str, expected: bool) {
        assert_eq!(undermines(Some(before.as_bytes()), now.as_bytes()), expected, "{before} => {now}");
        assert!(!undermines(Some(now.as_bytes()), now.as_bytes()), "it was there before: {now}");
    }

    const ALWAYS: &str = "impl PartialEq for Sum { fn eq(&self, _: &Self) -> bool { true } }";

    #[test]
    fn a_comparison_that_becomes_constant_undermines() {
        let now = format!("struct Sum(i32); {ALWAYS}");
        check("#[derive(Debug, PartialEq)] struct Sum(i32);", &now, true);
        check("impl PartialEq for Sum { fn eq(&self, o: &Self) -> bool { self.0 == o.0 } }", &now, true);
        check("struct Other;", &now, false);
        check("mod a { #[derive(PartialEq)] struct Sum(i32); }", &format!("mod a {{ {now} }}"), true);
        check("mod a { #[derive(PartialEq)] struct Sum(i32); }", &format!("mod b {{ {now} }}"), false);
        let returned = now.replace("{ true }", "{ return true; }");
        check("#[derive(PartialEq)] struct Sum(i32);", &returned, true);
        let honest = now.replace("{ true }", "{ self.0 % 2 == 0 }");
        check("#[derive(PartialEq)] struct Sum(i32);", &honest, false);
    }

    #[test]
    fn what_is_equal_to_another_type_whatever_it_is_undermines() {
        let any = "struct Any; impl PartialEq<i32> for Any { fn eq(&self, _: &i32) -> bool { true } }";
        check("", any, true);
        check("", &any.replace("true", "false"), false);
        assert!(undermines(None, any.as_bytes()));
        assert!(!undermines(None, format!("struct Span; {}", ALWAYS.replace("Sum", "Span")).as_bytes()));
    }

    #[test]
    fn code_that_only_tests_see_undermines() {
        let two = "#[cfg(not(test))] fn add() {} #[cfg(test)] fn add() {}";
        check("fn add() {}", two, true);
        check("fn add() {}", &two.replace("not(test)", "all(unix, not(test))"), true);
        check("mod math;", "#[cfg(not(test))] mod math; #[cfg(test)] #[path = \"other.rs\"] mod math;", true);
        // A stand-in for something new, and helpers of tests.
        check("", two, false);
        check("fn add() {}", "fn add() {} #[cfg(test)] fn helper() {}", false);
        check("fn add() {}", "#[cfg(unix)] fn add() {} #[cfg(not(unix))] fn add() {}", false);
    }
}
