//! Makefiles as far as it matters for what their recipes name: included files, constant variables, targets.

use std::collections::BTreeMap;

use super::joined;
use super::shell::{is_name, substituted};

/// Makefiles, in the order in which make looks for them.
const MAKEFILES: &[&str] = &["GNUmakefile", "makefile", "Makefile"];
/// Variables that make sets itself.
const CONSTANTS: &[(&str, &str)] = &[("MAKE", "make"), ("CC", "cc"), ("CXX", "g++")];
/// Files that are included.
const MAX_INCLUDED: usize = 50;

/// A makefile with what it includes.
#[derive(Debug, Default)]
pub(super) struct Makefile {
    lines: Vec<String>,
    variables: BTreeMap<String, String>,
    /// The files that it was read from.
    pub(super) files: Vec<String>,
    /// Files that it would include if they were there.
    pub(super) missing: Vec<String>,
}

impl Makefile {
    /// Reads the makefile `own`, or the one that make finds in `folder`.
    pub(super) fn read(
        own: Option<&str>,
        folder: &str,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> Option<Self> {
        let mut names = own.into_iter().chain(MAKEFILES.iter().copied()).map(|name| joined(folder, name));
        let first = names.find(|name| read(name).is_some())?;
        let constants = CONSTANTS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut makefile = Self { variables: constants.collect(), ..Self::default() };
        makefile.take(first, folder, read);
        Some(makefile)
    }

    fn take(&mut self, path: String, folder: &str, read: &dyn Fn(&str) -> Option<String>) {
        if self.files.len() >= MAX_INCLUDED || self.files.contains(&path) {
            return;
        }
        let Some(text) = read(&path) else {
            if !path.contains('$') && self.missing.len() < MAX_INCLUDED {
                self.missing.push(path);
            }
            return;
        };
        self.files.push(path);
        for line in text.replace("\\\n", " ").lines() {
            let include =
                ["include ", "-include ", "sinclude "].iter().find_map(|word| line.strip_prefix(word));
            if let Some(names) = include {
                for name in substituted(names, &self.variables).split_whitespace() {
                    self.take(joined(folder, name), folder, read);
                }
                continue;
            }
            if !line.starts_with('\t') {
                self.assign(line);
            }
            self.lines.push(line.to_owned());
        }
    }

    /// Remembers a variable that is set to a constant.
    fn assign(&mut self, line: &str) {
        let Some((name, value)) = line.split_once('=') else { return };
        let name = name.trim_end_matches([':', '?', '!']).trim().trim_start_matches("export ").trim();
        let value = substituted(value.trim(), &self.variables);
        if is_name(name) && !value.contains(['$', '`']) {
            self.variables.insert(name.to_owned(), value);
        }
    }

    /// What `target` needs, and its recipe.
    pub(super) fn rule(&self, target: &str) -> (Vec<String>, Vec<String>) {
        let (mut needs, mut recipe) = (Vec::new(), Vec::new());
        let mut inside = false;
        for line in &self.lines {
            if let Some(command) = line.strip_prefix('\t') {
                if inside {
                    recipe.push(self.command(command));
                }
                continue;
            }
            let line = substituted(line, &self.variables);
            let Some((names, rest)) = line.split_once(':') else { continue };
            inside = names.split_whitespace().any(|name| name == target) && !rest.starts_with('=');
            if inside {
                let (needed, command) = rest.split_once(';').unwrap_or((rest, ""));
                needs.extend(needed.split_whitespace().map(str::to_owned));
                recipe.extend((!command.is_empty()).then(|| self.command(command)));
            }
        }
        (needs, recipe)
    }

    fn command(&self, text: &str) -> String {
        // `$$` is a dollar of the shell.
        substituted(text.trim().trim_start_matches(['@', '-', '+']), &self.variables).replace("$$", "$")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_and_constants_are_followed() {
        let read = |path: &str| match path {
            "Makefile" => {
                Some("DIR := ci\nRUN = $(DIR)/run.sh\ninclude $(DIR)/rules.inc\nall: x ; true\n".to_owned())
            }
            "ci/rules.inc" => Some("include Makefile\ntest: lint\n\t@$(RUN) \\\n\t  --all\n".to_owned()),
            _ => None,
        };
        let makefile = Makefile::read(None, "", &read).unwrap();
        assert_eq!(makefile.files, ["Makefile", "ci/rules.inc"]);
        let (needs, recipe) = makefile.rule("test");
        assert_eq!(needs, ["lint"]);
        assert_eq!(recipe.len(), 1);
        assert!(recipe[0].starts_with("ci/run.sh "), "{recipe:?}");
        assert_eq!(makefile.rule("all"), (vec!["x".to_owned()], vec!["true".to_owned()]));
        assert!(Makefile::read(None, "sub", &read).is_none());
    }
}
