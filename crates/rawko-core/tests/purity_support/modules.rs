//! The files of a crate as the compiler finds them: from `lib.rs` along `mod`, leaving out what is for tests only.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Attribute, Item, ItemMod, Meta};

/// One source file without its test items.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) tokens: TokenStream,
}

/// All files that `root` (a `lib.rs`) is made of.
pub(crate) fn sources(root: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    let directory = root.parent().expect("a file has a directory");
    visit_file(root, directory, &mut found);
    found
}

/// The tokens of `text` that are compiled outside of tests, and the modules it has in files of their own.
pub(crate) fn parse(text: &str) -> syn::Result<(TokenStream, Vec<ItemMod>)> {
    let file = syn::parse_file(text)?;
    let mut tokens = TokenStream::new();
    for attribute in &file.attrs {
        attribute.to_tokens(&mut tokens);
    }
    let mut children = Vec::new();
    for item in file.items {
        if let Some(item) = without_tests(item) {
            item.to_tokens(&mut tokens);
            collect_children(&item, &mut children);
        }
    }
    Ok((tokens, children))
}

/// `directory` is where the file's own modules are: beside `lib.rs` and `mod.rs`, in a folder for the others.
fn visit_file(path: &Path, directory: &Path, found: &mut Vec<Source>) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (tokens, children) = parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    found.push(Source { path: path.to_owned(), tokens });
    for child in children {
        let name = child.ident.to_string();
        let folder = directory.join(&name);
        let flat = directory.join(format!("{name}.rs"));
        let file = if flat.exists() { flat } else { folder.join("mod.rs") };
        visit_file(&file, &folder, found);
    }
}

/// Only modules at the top of a file are followed: a `mod x;` within an inline module would be searched in the wrong
/// place, and is refused so that no file is missed.
fn collect_children(item: &Item, children: &mut Vec<ItemMod>) {
    let Item::Mod(module) = item else { return };
    match &module.content {
        None => children.push(module.clone()),
        Some((_, items)) => {
            for item in items {
                let nested_file = matches!(item, Item::Mod(inner) if inner.content.is_none());
                assert!(
                    !nested_file,
                    "a module file within the inline module {} is not followed",
                    module.ident
                );
                collect_children(item, children);
            }
        }
    }
}

fn without_tests(item: Item) -> Option<Item> {
    if attributes(&item).iter().any(is_for_tests) {
        return None;
    }
    let Item::Mod(mut module) = item else { return Some(item) };
    if let Some((brace, items)) = module.content.take() {
        module.content = Some((brace, items.into_iter().filter_map(without_tests).collect()));
    }
    Some(Item::Mod(module))
}

/// Only plain `#[cfg(test)]`: what is skipped here must be missing from every other build.
fn is_for_tests(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        Meta::Path(_) | Meta::NameValue(_) => false,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
