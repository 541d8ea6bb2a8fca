//! The page's own files, built into the program: one style sheet, one script, one icon.
//!
//! The script is several ES modules. [`script`] joins them to one, so that the same bytes are served and embedded, and no
//! module loads another. That needs no bundler: every `import` and `export` of a module is on a line of its own, and no
//! two modules share a name.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

pub(crate) const STYLE: &str = include_str!("../assets/inspector.css");
pub(crate) const ICON: &str = include_str!("../assets/icon.svg");

/// The library that writes templates into the page (BSD-3-Clause, `assets/vendor/LICENSE-lit-html`).
const LIT: &str = include_str!("../assets/vendor/lit-html.js");

/// The modules, each after those that it imports.
const MODULES: [(&str, &str); 9] = [
    ("format.js", include_str!("../assets/format.js")),
    ("source.js", include_str!("../assets/source.js")),
    ("diagram.js", include_str!("../assets/diagram.js")),
    ("decision.js", include_str!("../assets/decision.js")),
    ("diff.js", include_str!("../assets/diff.js")),
    ("entries.js", include_str!("../assets/entries.js")),
    ("session.js", include_str!("../assets/session.js")),
    ("start.js", include_str!("../assets/start.js")),
    ("app.js", include_str!("../assets/app.js")),
];

/// The page's script.
pub(crate) fn script() -> &'static str {
    static SCRIPT: OnceLock<String> = OnceLock::new();
    SCRIPT.get_or_init(|| {
        let mut script = library(LIT);
        for (name, module) in MODULES {
            script.push_str(&format!("\n// {name}\n"));
            for line in module.lines().filter(|line| !line.starts_with("import ")) {
                script.push_str(line.strip_prefix("export ").unwrap_or(line));
                script.push('\n');
            }
        }
        script
    })
}

/// The library as a constant `lit`: its last statement, `export{a as html,…}`, becomes what a function returns.
fn library(source: &str) -> String {
    let (body, exports) = source.rsplit_once("export{").unwrap_or((source, ""));
    let names: Vec<String> = exports
        .trim_end()
        .trim_end_matches(['}', ';'])
        .split(',')
        .filter_map(|pair| pair.split_once(" as "))
        .map(|(inner, outer)| format!("{outer}:{inner}"))
        .collect();
    format!(
        "const lit=(()=>{{\n{body}return{{{}}}}})();\nconst {{html,svg,nothing,render}}=lit;\n",
        names.join(",")
    )
}

/// What allows an inline script or style sheet in a content security policy.
pub(crate) fn policy_hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_become_one_script_that_can_stand_in_a_page() {
        let script = script();
        for line in script.lines() {
            assert!(!line.starts_with("import") && !line.starts_with("export"), "{line}");
        }
        // Either would change how a page is read that holds the script.
        for end in ["</script", "<!--"] {
            assert!(!script.to_lowercase().contains(end), "{end}");
        }
        assert!(script.contains("return{_$LH:j,html:b"), "the library's exports");
    }

    #[test]
    fn no_two_modules_share_a_name_and_every_import_has_its_export() {
        let mut names = vec!["html", "svg", "nothing", "render"];
        for (file, module) in MODULES {
            let mut own = Vec::new();
            for line in module.lines() {
                let line = line.strip_prefix("export ").unwrap_or(line);
                let line = line.strip_prefix("async ").unwrap_or(line);
                let declared = ["function ", "const ", "let ", "class "];
                if let Some(rest) = declared.iter().find_map(|word| line.strip_prefix(word)) {
                    own.extend(rest.split(|c: char| !c.is_alphanumeric() && c != '_').next());
                }
                if let Some(rest) = line.strip_prefix("import ") {
                    assert!(line.ends_with(';') && rest.starts_with('{'), "{file}: {line}");
                    let (list, _) = rest.split_once('}').unwrap();
                    for name in list.trim_start_matches('{').split(',').map(str::trim) {
                        assert!(names.contains(&name), "{file} imports {name} too early");
                    }
                }
            }
            for name in &own {
                assert!(!names.contains(name), "{file}: `{name}` is declared twice");
            }
            names.extend(own);
        }
    }

    #[test]
    fn nothing_of_the_page_is_loaded_from_elsewhere() {
        for text in [STYLE, ICON, script()] {
            for address in ["https://", "//cdn", "@import", "url("] {
                assert!(!text.contains(address), "{address}");
            }
        }
    }
}
