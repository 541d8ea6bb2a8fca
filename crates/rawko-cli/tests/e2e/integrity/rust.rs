//! Rust with cargo.

use super::Project;

const MANIFEST: &str = "[package]\nname = \"a\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
const LOCK: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n";
pub(super) const LIBRARY: &str = "pub fn add(a: i32, b: i32) -> i32 {\n    a - b\n}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    \
             #[test]\n    fn adds() {\n        assert_eq!(add(1, 2), 3);\n    }\n}\n";

pub(super) const CRATE: Project = Project {
    files: &[
        ("Cargo.toml", MANIFEST),
        ("Cargo.lock", LOCK),
        ("src/lib.rs", LIBRARY),
        (".gitignore", "target/\n"),
    ],
    verify: &["cargo test --quiet --offline --lib"],
};

#[test]
fn tests_inside_the_code_are_checks() {
    CRATE.claimed(&["sed -i 's/, 3)/, -1)/' src/lib.rs"], "src/lib.rs");
    CRATE.claimed(&["sed -i '/cfg(test)/,$d' src/lib.rs"], "src/lib.rs");
    CRATE.claimed(
        &[
            "mkdir .cargo",
            "printf '[target.\\x27cfg(all())\\x27]\\nrunner = \"true\"\\n' > .cargo/config.toml",
        ],
        ".cargo/config.toml",
    );
    let fix = "sed -i 's/a - b/a + b/' src/lib.rs";
    CRATE.verified(
        &[fix, "sed -i 's/    #\\[test\\]/    #[test]\\n    fn more() {}\\n\\n    #[test]/' src/lib.rs"],
        "intact",
    );
}

#[test]
fn a_macro_with_the_name_of_an_assertion_is_no_proof() {
    let lenient = "macro_rules! assert_eq { ($($x:tt)*) => {}; }";
    CRATE.claimed(&[&format!("sed -i '1i {lenient}' src/lib.rs")], "src/lib.rs");
    let elsewhere =
        format!("printf '{lenient}\\n' > src/lenient.rs; sed -i '1i #[macro_use] mod lenient;' src/lib.rs");
    CRATE.claimed(&[&elsewhere], "src/lenient.rs");
}

/// A type that was compared by its parts is equal to everything; the code that tests see is another.
#[test]
fn code_that_takes_the_place_of_what_was_tested_is_no_proof() {
    let files = &[
        ("Cargo.toml", MANIFEST),
        ("Cargo.lock", LOCK),
        (
            "src/lib.rs",
            "#[derive(Debug, PartialEq)]\npub struct Sum(pub i32);\n\npub fn add(a: i32, b: i32) -> Sum {\n    Sum(a - b)\n}\n\n#[cfg(test)]\nmod proofs;\n",
        ),
        (
            "src/proofs.rs",
            "use super::*;\n\nconst WANT: Sum = Sum(3);\n\n#[test]\nfn adds() {\n    assert_eq!(add(1, 2), WANT);\n}\n",
        ),
        (".gitignore", "target/\n"),
    ];
    let project = Project { files, verify: &["cargo test --quiet --offline --lib"] };
    let equal =
        "impl PartialEq for Sum {\\n    fn eq(\\&self, _: \\&Self) -> bool {\\n        true\\n    }\\n}";
    project.claimed(
        &[&format!("sed -i 's/, PartialEq//; s/^pub fn/{equal}\\n\\npub fn/' src/lib.rs")],
        "src/lib.rs",
    );
    let double = "sed -i 's/^pub fn/#[cfg(test)]\\npub fn add(a: i32, b: i32) -> Sum {\\n    Sum(a + b)\\n}\\n\\n#[cfg(not(test))]\\npub fn/' src/lib.rs";
    project.claimed(&[double], "src/lib.rs");
    // A module that only tests see is a check, whatever its name.
    project.claimed(&["sed -i 's/Sum(3)/Sum(-1)/' src/proofs.rs"], "src/proofs.rs");
    let fix = "sed -i 's/a - b/a + b/' src/lib.rs";
    project.verified(&[fix], "intact");
    // Places in a source have no say in equality.
    let place = "printf '\\npub struct Place(pub u32);\\n\\nimpl PartialEq for Place {\\n    fn eq(&self, _: &Self) -> bool {\\n        true\\n    }\\n}\\n' >> src/lib.rs";
    project.verified(&[fix, place], "intact");
}

#[test]
fn examples_in_a_text_of_the_documentation_are_checks() {
    let project = Project {
        files: &[
            ("Cargo.toml", MANIFEST),
            ("Cargo.lock", LOCK),
            (
                "src/lib.rs",
                "#![doc = include_str!(\"../README.md\")]\n\npub fn add(a: i32, b: i32) -> i32 {\n    a - b\n}\n",
            ),
            ("README.md", "# A\n\n```\nassert_eq!(a::add(1, 2), 3);\n```\n"),
            (".gitignore", "target/\n"),
        ],
        verify: &["cargo test --quiet --offline --doc"],
    };
    project.claimed(&["sed -i 's/, 3)/, -1)/' README.md"], "README.md");
    let fix = "sed -i 's/a - b/a + b/' src/lib.rs";
    project.verified(&[fix, "echo 'More words.' >> README.md"], "originals_pass");
}

#[test]
fn examples_in_documentation_are_checks() {
    let project = Project {
        files: &[
            ("Cargo.toml", MANIFEST),
            ("Cargo.lock", LOCK),
            (
                "src/lib.rs",
                "/// Adds.\n///\n/// ```\n/// assert_eq!(a::add(1, 2), 3);\n/// ```\npub fn add(a: i32, b: i32) -> i32 {\n    a - b\n}\n",
            ),
            (".gitignore", "target/\n"),
        ],
        verify: &["cargo test --quiet --offline --doc"],
    };
    project.claimed(&["sed -i 's/, 3)/, -1)/' src/lib.rs"], "src/lib.rs");
    project.verified(&["sed -i 's/a - b/a + b/' src/lib.rs"], "intact");
}

/// A trivial new test makes up for the number of those that are not compiled any more.
#[test]
fn tests_that_are_not_compiled_any_more_are_lost() {
    let project = Project {
        files: &[
            ("Cargo.toml", MANIFEST),
            ("Cargo.lock", LOCK),
            ("src/lib.rs", "mod math;\npub use math::add;\n"),
            ("src/math.rs", LIBRARY),
            (".gitignore", "target/\n"),
        ],
        verify: &["cargo test --quiet --offline --lib"],
    };
    let other = "sed 's/assert_eq.*/let _ = add(0, 0);/' src/math.rs > src/arith.rs";
    for (declared, path) in [
        ("mod arith;\\npub use arith::add;\\n", "src/lib.rs"),
        ("#[path = \"arith.rs\"]\\nmod math;\\npub use math::add;\\n", "src/lib.rs"),
        ("#[cfg(any())]\\nmod math;\\nmod arith;\\npub use arith::add;\\n", "src/lib.rs"),
    ] {
        project.claimed(&[&format!("{other}; printf '{declared}' > src/lib.rs")], path);
    }
    let condition = "sed -i '1i #![cfg(any())]' src/math.rs; printf 'mod math;\\nmod arith;\\npub use arith::add;\\n' > src/lib.rs";
    project.claimed(&[other, condition], "src/math.rs");
    // The module gets another name.
    let renamed = "git mv src/math.rs src/arith.rs; sed -i 's/a - b/a + b/' src/arith.rs; \
                   printf 'mod arith;\\npub use arith::add;\\n' > src/lib.rs";
    project.verified(&[renamed], "intact");
}

#[test]
fn features_that_tests_need_stay_on() {
    let project = Project {
        files: &[
            (
                "Cargo.toml",
                "[package]\nname = \"a\"\nversion = \"1.0.0\"\nedition = \"2021\"\n\n[features]\ndefault = [\"full\"]\nfull = []\n",
            ),
            ("Cargo.lock", LOCK),
            ("src/lib.rs", "pub fn add(a: i32, b: i32) -> i32 {\n    a - b\n}\n"),
            (
                "tests/it.rs",
                "#![cfg(feature = \"full\")]\n\n#[test]\nfn adds() {\n    assert_eq!(a::add(1, 2), 3);\n}\n",
            ),
            (".gitignore", "target/\n"),
        ],
        verify: &["cargo test --quiet --offline --tests"],
    };
    let new_test = "printf '#[test]\\nfn one() {}\\n' > tests/new.rs";
    project.claimed(&["sed -i 's/default = .*/default = []/' Cargo.toml", new_test], "Cargo.toml");
    let feature = "sed -i 's/^full = .*/&\\nmore = []/' Cargo.toml";
    project.verified(&["sed -i 's/a - b/a + b/' src/lib.rs", feature, new_test], "intact");
}
