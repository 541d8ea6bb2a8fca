//! Looks for the signs of a row of the table in a folder.

use std::path::{Path, PathBuf};

use rawko_core::text::shell_word;

use super::place::{ProjectFolder, is_file, pattern, read};
use super::python::Tests;
use super::scripts::{is_recipe, is_rule, is_script, used_modules, value};
use super::table::{CheckRow, PythonTests, Sign};

/// Most packages of a workspace that are looked at.
const MAX_MEMBERS: usize = 500;

/// Why a row fits a folder.
#[derive(Debug)]
pub(super) struct Fit {
    /// The file of its first sign, in the project.
    pub(super) because: String,
    /// What the row's command is completed with.
    pub(super) values: Vec<(&'static str, String)>,
}

/// A sign that was found: the file, and what it gives for the command.
struct Seen {
    file: PathBuf,
    value: Option<(&'static str, String)>,
}

impl CheckRow {
    /// Whether of each list of signs one is there.
    pub(super) fn fit(&self, place: &ProjectFolder<'_>, tests: &Tests<'_>) -> Option<Fit> {
        let seen: Option<Vec<Seen>> =
            self.signs.iter().map(|signs| signs.iter().find_map(|sign| sign.seen(place, tests))).collect();
        let seen = seen?;
        let because = place.in_project(&seen.first()?.file)?;
        Some(Fit { because, values: seen.into_iter().filter_map(|seen| seen.value).collect() })
    }
}

impl Sign {
    fn seen(&self, place: &ProjectFolder<'_>, tests: &Tests<'_>) -> Option<Seen> {
        let plain = |file: PathBuf| Seen { file, value: None };
        if let Some(kind) = self.tests {
            let found = tests.found()?;
            let fits = match kind {
                PythonTests::Any => found.is_for_pytest,
                PythonTests::Unittest => found.is_unittest,
            };
            return fits.then(|| plain(place.folder.join(&found.first)));
        }
        if let Some(glob) = &self.like {
            let pattern = pattern(glob)?;
            return place
                .below()
                .iter()
                .find(|path| pattern.is_match(path))
                .map(|path| plain(place.folder.join(path)));
        }
        if let Some(glob) = self.only.as_ref().or(self.first.as_ref()) {
            let pattern = pattern(glob)?;
            let names = place.names();
            let mut names = names.iter().filter(|name| pattern.is_match(name));
            let first = names.next()?;
            let is_so = self.first.is_some() || names.next().is_none();
            let value = Some(("file", shell_word(first)));
            return is_so.then(|| Seen { file: place.folder.join(first), value });
        }
        let folders = place.ancestors().take(if self.above { usize::MAX } else { 1 });
        let mut there = folders.filter_map(|folder| {
            self.file.as_slice().iter().map(|name| folder.join(name)).find(|path| is_file(path))
        });
        there.find_map(|file| self.seen_in(file))
    }

    /// Whether the file that is there says what it should.
    fn seen_in(&self, file: PathBuf) -> Option<Seen> {
        let has_line = |has: &dyn Fn(&str) -> bool| {
            read(&file).is_some_and(|text| text.trim_start_matches('\u{feff}').lines().any(has))
        };
        let parsed = || value(file.file_name()?.to_str()?, &read(&file)?);
        if let Some(section) = &self.section
            && !has_line(&|line| line.trim_start().starts_with(section.as_str()))
        {
            return None;
        }
        if let Some(word) = &self.mentions
            && !has_line(&|line| {
                !line.trim_start().starts_with('#') && line.to_lowercase().contains(word.as_str())
            })
        {
            return None;
        }
        if let Some(target) = &self.rule
            && !has_line(&|line| is_rule(line, target))
        {
            return None;
        }
        if let Some(target) = &self.recipe
            && !has_line(&|line| is_recipe(line, target))
        {
            return None;
        }
        if let Some(pointer) = &self.script
            && !parsed()?.pointer(pointer).is_some_and(is_script)
        {
            return None;
        }
        if let Some(manager) = &self.manager {
            let package = parsed()?;
            let named = package.get("packageManager")?.as_str()?;
            named.strip_prefix(manager.as_str()).filter(|rest| rest.starts_with('@'))?;
        }
        if let Some(pointer) = &self.members {
            let value = parsed()?;
            let found = value.pointer(pointer)?;
            let patterns = found.get("packages").unwrap_or(found).as_array()?;
            let mut patterns = patterns.iter().filter_map(|pattern| pattern.as_str());
            let folder = file.parent()?;
            if !patterns.any(|pattern| has_member_with_tests(folder, pattern)) {
                return None;
            }
        }
        let value = if self.uses { Some(("modules", modules(&file)?)) } else { None };
        Some(Seen { file, value })
    }
}

/// Whether a package in a folder like this has a script `test` that does something.
fn has_member_with_tests(root: &Path, pattern: &str) -> bool {
    let Some(pattern) = self::pattern(pattern.trim_start_matches("./").trim_end_matches('/')) else {
        return false;
    };
    let mut left = MAX_MEMBERS;
    let mut folders = vec![(String::new(), root.to_owned())];
    while let Some((path, folder)) = folders.pop() {
        let has_script = |package: serde_json::Value| package.pointer("/scripts/test").is_some_and(is_script);
        if pattern.is_match(&path)
            && read(&folder.join("package.json"))
                .and_then(|text| value("package.json", &text))
                .is_some_and(has_script)
        {
            return true;
        }
        if path.matches('/').count() >= 2 {
            continue;
        }
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if left == 0 || name.starts_with('.') || name == "node_modules" || !entry.path().is_dir() {
                continue;
            }
            left -= 1;
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            folders.push((path, entry.path()));
        }
    }
    false
}

/// The modules that a `go.work` uses and that are there, as `go test` takes them.
fn modules(file: &Path) -> Option<String> {
    let folder = file.parent()?;
    let modules: Vec<String> = used_modules(&read(file)?)
        .into_iter()
        .filter(|module| !module.contains("..") && is_file(&folder.join(module).join("go.mod")))
        .map(|module| {
            let module = module.trim_start_matches("./").trim_matches('/').to_owned();
            if matches!(module.as_str(), "" | ".") {
                "./...".to_owned()
            } else {
                shell_word(&format!("./{module}/..."))
            }
        })
        .collect();
    (!modules.is_empty()).then(|| modules.join(" "))
}
