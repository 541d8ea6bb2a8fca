//! `rawko-core` is pure. Two things are checked here, and the checker itself: the sources use nothing of the standard
//! library that does I/O or differs between runs, and neither does any dependency. A third check is `clippy.toml`, which
//! reports it in the editor.

#![allow(clippy::expect_used, clippy::panic)]

mod purity_support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use purity_support::modules::{self, parse};
use purity_support::scan::scan;

/// Every crate that `rawko-core` is linked with, and why it is allowed.
const DEPENDENCIES: &[(&str, &str)] = &[
    ("aho-corasick", "regex: searches in memory"),
    ("block-buffer", "sha2: a buffer"),
    ("cfg-if", "a macro"),
    ("const-oid", "sha2: constants"),
    ("cpufeatures", "sha2: asks the processor which instructions it has; results do not depend on it"),
    ("crypto-common", "sha2: traits, without the feature that draws random keys"),
    ("digest", "sha2: traits"),
    ("dyn-clone", "schemars: clones boxes"),
    ("hybrid-array", "sha2: arrays"),
    ("itoa", "serde_json: prints integers"),
    ("memchr", "regex, serde_json: searches in memory"),
    ("rawko-core", "this crate"),
    ("ref-cast", "schemars: casts references"),
    ("regex", "patterns of permissions and memories; linear time"),
    ("regex-automata", "regex: searches in memory"),
    ("regex-syntax", "parses patterns: regex, and what a memory's pattern needs to find"),
    ("rust-stemmers", "stems of words: tables and string functions"),
    ("schemars", "JSON Schema of what is configured and exchanged"),
    ("serde", "the form of everything that is stored"),
    ("serde_core", "serde: traits"),
    ("serde_json", "JSON in memory"),
    ("sha2", "digests of content and configuration"),
    ("strsim", "the name that was probably meant"),
    ("thiserror", "errors"),
    ("typenum", "sha2: numbers as types"),
    ("zmij", "serde_json: prints floating-point numbers"),
];

/// Crates that do I/O; named so that they are not added to the list above by mistake.
const NEVER: &[&str] = &[
    "chrono",
    "fastrand",
    "getrandom",
    "hashbrown",
    "jiff",
    "js-sys",
    "libc",
    "mio",
    "rand",
    "rand_core",
    "reqwest",
    "rustix",
    "socket2",
    "time",
    "tokio",
    "uuid",
    "wasm-bindgen",
    "web-time",
    "windows-sys",
];

#[test]
fn sources_name_nothing_impure() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = modules::sources(&manifest.join("src/lib.rs"));
    assert!(sources.len() > 10, "only {} files were found", sources.len());
    let mut report = Vec::new();
    for source in sources {
        let path = source.path.strip_prefix(manifest).unwrap_or(&source.path).display().to_string();
        for offence in scan(source.tokens) {
            report.push(format!("{path}:{}: {}", offence.line, offence.what));
        }
    }
    assert!(
        report.is_empty(),
        "rawko-core must stay pure: whatever it needs of the world arrives inside an event.\n{}",
        report.join("\n")
    );
}

/// `wasm32-unknown-unknown` has no I/O at all; the other target is one on which rawko is used. (On ARM, `cpufeatures`
/// asks the system through `libc`.)
#[test]
fn dependencies_are_pure() {
    let allowed: BTreeSet<&str> = DEPENDENCIES.iter().map(|(name, _)| *name).collect();
    let mut used = BTreeSet::new();
    for target in ["wasm32-unknown-unknown", "x86_64-unknown-linux-gnu"] {
        used.extend(linked_crates(target));
    }
    let used: BTreeSet<&str> = used.iter().map(String::as_str).collect();
    let unknown: Vec<_> = used.difference(&allowed).collect();
    assert!(
        unknown.is_empty(),
        "{unknown:?}: new in what rawko-core is linked with. If it touches no clock, file, network, environment or \
         random source, give it a line with the reason in DEPENDENCIES; else find another way."
    );
    let unused: Vec<_> = allowed.difference(&used).collect();
    assert!(unused.is_empty(), "{unused:?}: no longer linked, take them off DEPENDENCIES");
    let never: Vec<_> = NEVER.iter().filter(|name| allowed.contains(*name)).collect();
    assert!(never.is_empty(), "{never:?} can never be pure");
}

/// Names of the crates that are linked, without what only runs at build time.
fn linked_crates(target: &str) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--package", "rawko-core", "--edges", "normal,no-proc-macro", "--target", target])
        .args(["--prefix", "none", "--format", "{p}", "--locked", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree failed:\n{errors}");
    let lines = String::from_utf8_lossy(&output.stdout);
    lines.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The checker's findings in a source, one per line as `line: what`.
#[track_caller]
fn check(source: &str, expected: &[&str]) {
    let (tokens, _) = parse(source).expect("Rust");
    let found: Vec<String> =
        scan(tokens).into_iter().map(|offence| format!("{}: {}", offence.line, offence.what)).collect();
    assert_eq!(found, expected, "{source}");
}

#[test]
fn the_checker_lets_pure_code_pass() {
    check(
        "use std::fmt; use std::fmt::{self as f, Write as _}; use std::collections::{BTreeMap, BTreeSet};",
        &[],
    );
    check("use std::{mem, sync::{Arc, OnceLock}}; use core::time::Duration; use ::std::ops::*;", &[]);
    check("fn f(x: &str) -> std::fmt::Result { std::mem::take(&mut x.std); x.core.fs.env(); Ok(()) }", &[]);
    check("fn f() -> impl Sized + use<> { assert!(a != b); if env != 1 { format!(\"{}\", println) } }", &[]);
    check("/// Unlike [`std::fs::read`] this reads nothing; no `std::env::var` either.\nstruct S;", &[]);
    check("#[serde(default = \"std::vec::Vec::new\", rename = \"std\")] struct S;", &[]);
    check("#[schemars(regex(pattern = r\"^a::[b$\"))] struct S;", &[]);
    check("#[cfg(test)] mod tests { use std::fs; fn t() { println!(); } } #[cfg(test)] use std::env;", &[]);
    check("mod inner { #[cfg(test)] mod tests { use std::net; } }", &[]);
    check("const TEXT: &str = include_str!(\"text.md\"); const S: &str = \"std::fs::read\";", &[]);
}

#[test]
fn the_checker_finds_imports() {
    for module in ["fs", "net", "env", "process", "os", "io", "thread", "path", "ffi", "panic", "backtrace"] {
        check(&format!("use std::{module};"), &[&format!("1: use std::{module}")]);
        check(&format!("use std::{module} as m;"), &[&format!("1: use std::{module}")]);
        check(&format!("use ::std::{module}::x;"), &[&format!("1: use std::{module}::x")]);
    }
    check("use std::io::Write;", &["1: use std::io::Write"]);
    check(
        "use std::time::{Duration, SystemTime, Instant as I};",
        &["1: use std::time::SystemTime", "1: use std::time::Instant"],
    );
    check("use std as s;\nuse std::{self as t};\nuse ::core;", &["1: use std", "2: use std", "3: use core"]);
    check("use std::*;\nuse std::prelude::v1::*;", &["1: use std::*", "2: use std::prelude::v1::*"]);
    check(
        "use std::{fmt, fs as f, collections::{BTreeMap, HashMap, hash_map::RandomState}};",
        &[
            "1: use std::fs",
            "1: use std::collections::HashMap",
            "1: use std::collections::hash_map::RandomState",
        ],
    );
    check(
        "use std::collections;\nuse std::collections::*;\nuse {std::sync::Mutex, std::sync::atomic};",
        &[
            "1: use std::collections",
            "2: use std::collections::*",
            "3: use std::sync::Mutex",
            "3: use std::sync::atomic",
        ],
    );
    check("use r#std::r#fs;", &["1: use std::fs"]);
    check(
        "pub use std::time as clock; mod m { pub(crate) use std::thread; }",
        &["1: use std::time", "1: use std::thread"],
    );
    check("fn f() {\n    use std::env::var;\n}", &["2: use std::env::var"]);
}

#[test]
fn the_checker_finds_paths() {
    check("fn f() { let t = std::time::SystemTime::now(); }", &["1: name SystemTime"]);
    check("fn f() { ::std::process::exit(1) }", &["1: path std::process::exit"]);
    check("fn f(m: std::collections::HashMap<u8, u8>) {}", &["1: path std::collections::HashMap"]);
    check("type S = std::collections::HashSet<u8>;", &["1: path std::collections::HashSet"]);
    check(
        "fn f() { <std::fs::File as std::io::Read>::read }",
        &["1: path std::fs::File", "1: path std::io::Read"],
    );
    check("fn f() { format!(\"{}\", std::env::var(\"A\")) }", &["1: path std::env::var"]);
    check("macro_rules! m { () => { std::thread::sleep(d) }; }", &["1: path std::thread::sleep"]);
    check("#[serde(default = \"std::env::vars\")] struct S;", &["1: path std::env::vars"]);
    check("struct S { #[serde(with = \"::std::fs::x\")] a: u8 }", &["1: path std::fs::x"]);
    check("impl T { fn f(x: impl core::net::X) {} }", &["1: path core::net::X"]);
    check("fn f() { serde::__private::x() }", &["1: name __private"]);
    check("fn f() { RandomState::new() }", &["1: name RandomState"]);
    check("#[cfg(not(test))] mod m { fn f() { std::fs::x() } }", &["1: path std::fs::x"]);
    check("#[cfg(any(test, unix))] fn f() { std::fs::x() }", &["1: path std::fs::x"]);
}

#[test]
fn the_checker_finds_macros_and_keywords() {
    for name in
        ["println", "print", "eprintln", "eprint", "dbg", "env", "option_env", "include", "thread_local"]
    {
        check(&format!("fn f() {{ {name}!(\"x\") }}"), &[&format!("1: macro {name}!")]);
    }
    check("fn f() { std::println!() }", &["1: macro println!", "1: path std::println"]);
    check("fn f() { vec![dbg!(1)] }", &["1: macro dbg!"]);
    check("fn f() { unsafe { g() } }", &["1: keyword unsafe"]);
    check("extern crate std as s;", &["1: keyword extern"]);
    check("extern \"C\" { fn time(t: *mut u8); }", &["1: keyword extern"]);
    check("fn f() { core::arch::asm!(\"rdtsc\") }", &["1: macro asm!", "1: path core::arch::asm"]);
    check("#[path = \"../elsewhere.rs\"] mod m { }", &["1: attribute path"]);
}
