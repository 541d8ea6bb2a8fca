//! Comparing the checks at the end of a run with those at its beginning.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rawko_core::integrity::{CheckChange, CheckChangeKind};

use super::VerifyPlan;
use super::adopted::Adopted;
use super::inline::{self, InlineTests};
use super::kinds::{self, CheckFiles};
use super::manifest::{self, Manifest};
use super::named::{self, Checker, Named};
use super::patches;
use super::suppressions;
use super::toolchain::{Differences, Toolchain};
use super::{task_crates, used_by_checks};
use crate::checkpoint::{Fate, Trees, Version};

/// Files within files that checks mention.
const DEPTH: usize = 16;
/// Checks whose text is read for what they mention.
const FOLLOWED: usize = 10_000;
/// Checks whose texts are in memory at a time.
const AT_ONCE: usize = 500;
/// What is said where one of these is reached.
const CUT: &str = "the checks name, or the packages have, more files than rawko looks at";

/// What differs between the beginning of a run and now.
pub(super) struct Comparison {
    pub(super) trees: Trees,
    /// Which version of a file the original checks are run with, where it is not the present one.
    pub(super) versions: BTreeMap<String, Version>,
    pub(super) changed: Vec<CheckChange>,
    /// New tests that may change how the original ones run.
    pub(super) added: Vec<CheckChange>,
    /// Whether the commands name the project's folder: they would not run in a copy.
    pub(super) is_bound: bool,
    /// Whether there were any checks at the beginning.
    pub(super) had_checks: bool,
    /// Whether there were any tests at the beginning, or something that the commands run.
    pub(super) had_tests: bool,
    /// Why some checks may not be known.
    pub(super) limit: Option<&'static str>,
    pub(super) differences: Differences,
    /// What git ignores.
    pub(super) entries: BTreeSet<String>,
}

impl Comparison {
    /// Compares the checks of the first tree, and its toolchain, with what is there `now`.
    pub(super) fn new(
        trees: Trees,
        plan: &VerifyPlan,
        project: &Path,
        (before, now): (&Toolchain, &Toolchain),
        commands_began: Option<i128>,
        adopted: Adopted,
    ) -> Self {
        let fates = trees.fates();
        let files = CheckFiles::new(&plan.tests);
        let read = |path: &str| String::from_utf8(trees.content(path, &Version::First)?).ok();
        let packages: Vec<String> =
            trees.first_paths().filter(|path| path.ends_with("package.json")).collect();
        let Named { files: mut named, targets, missing, globs, words, mut is_cut, .. } =
            named::named(&plan.commands, &packages, &read);
        let patterns = kinds::matching(&globs);
        named.extend(trees.first_paths().filter(|path| patterns.is_match(path)));
        let had_tests = trees.first_paths().any(|path| files.is_test(&path) || named.contains(&path))
            || has_inline_tests(&trees);
        let (own, ignored): (Vec<_>, Vec<_>) =
            adopted.files.into_iter().partition(|file| fates.contains_key(file));
        named.extend(own);
        // In a copy these folders are others.
        let own_paths = [project, trees.toplevel()].map(|path| path.display().to_string());
        let mut texts = named.iter().filter_map(|path| read(path)).chain(plan.commands.iter().cloned());
        let is_bound = texts.any(|text| own_paths.iter().any(|own| text.contains(own)));
        let files = files.with_tools(&words);
        let is_check = |path: &str| files.is_test(path) || files.is_config(path);
        is_cut |= !follow(&trees, &fates, &is_check, &mut named);
        task_crates::find(&trees, &fates, &mut named);
        let data: BTreeSet<String> = before.changed_data(now, commands_began);
        is_cut |= !used_by_checks::find(&trees, &fates, &data, &is_check, &mut named);
        let lost = fates.iter().filter(|(_, fate)| matches!(fate, Fate::Changed | Fate::Deleted));
        let in_modules =
            lost.filter(|(path, _)| is_test_module(&trees, path, 0) || is_documentation(&trees, path));
        named.extend(in_modules.map(|(path, _)| path.clone()));
        let is_first_check =
            |path: String| files.is_test(&path) || files.is_config(&path) || named.contains(&path);
        let had_checks = trees.first_paths().any(is_first_check);
        let dependencies_changed =
            fates.iter().any(|(path, fate)| *fate != Fate::Same && files.is_lock(path));
        let newcomers = Newcomers::new(&fates, &named, &words, &|path| is_first_check(path.to_owned()));
        let hides_a_package = |path: &str| newcomers.hides(path, &fates, before);
        let missing = kinds::matching(&missing);
        let mut versions = BTreeMap::new();
        let (mut changed, mut added, mut undermining) = (Vec::new(), Vec::new(), Vec::new());
        for (path, fate) in &fates {
            let is_config = files.is_config(path) || named.contains(path);
            let is_check = is_config || files.is_test(path);
            let how = match fate {
                Fate::Same => continue,
                // It need not have been made from the source beside it, and is made anew.
                Fate::Added | Fate::Changed if kinds::is_bytecode(path) => {
                    versions.insert(path.clone(), Version::Neither);
                    added.push(CheckChange { path: path.clone(), how: CheckChangeKind::Added });
                    continue;
                }
                Fate::Deleted if is_check => CheckChangeKind::Deleted,
                Fate::Changed if is_check => CheckChangeKind::Changed,
                Fate::Added if is_target(&targets, path) || missing.is_match(path) => CheckChangeKind::Added,
                Fate::Added
                    if is_config
                        || files.shadows(path)
                        || newcomers.come_before(path)
                        || hides_a_package(path)
                        || configures_a_runner(&trees, path) =>
                {
                    CheckChangeKind::Added
                }
                // A new test is no changed check.
                Fate::Added if is_check => {
                    versions.insert(path.clone(), Version::Neither);
                    if files.shares_a_process(path) {
                        added.push(CheckChange { path: path.clone(), how: CheckChangeKind::Added });
                    }
                    continue;
                }
                Fate::Added | Fate::Changed if undermines(&trees, &fates, path, *fate) => {
                    // The work and what weakens the checks are one.
                    undermining.push(CheckChange { path: path.clone(), how: CheckChangeKind::Undermines });
                    continue;
                }
                Fate::Changed => {
                    if let Some(content) = with_original_checks(&trees, &fates, path) {
                        versions.insert(path.clone(), Version::Content(content));
                        changed.push(CheckChange { path: path.clone(), how: CheckChangeKind::Changed });
                    }
                    continue;
                }
                Fate::Added => {
                    if let Some(content) = without_shadows(&trees, path) {
                        versions.insert(path.clone(), Version::Content(content));
                        changed.push(CheckChange { path: path.clone(), how: CheckChangeKind::Undermines });
                    }
                    continue;
                }
                Fate::Deleted if loses_checks(&trees, &fates, path) => CheckChangeKind::Deleted,
                Fate::Deleted => continue,
            };
            versions.insert(path.clone(), Version::First);
            changed.push(CheckChange { path: path.clone(), how });
        }
        let mut differences = before.differences(now, dependencies_changed, commands_began);
        differences.lasting.extend(undermining);
        let of_checks = data.into_iter().filter(|path| named.contains(path) && !fates.contains_key(path));
        differences.lasting.extend(of_checks.map(|path| CheckChange { path, how: CheckChangeKind::Changed }));
        differences.lasting.extend(ignored.iter().filter_map(|file| before.newer_file(file, project)));
        differences.lasting.extend(adopted.programs);
        Self {
            trees,
            versions,
            changed,
            added,
            is_bound,
            had_checks,
            had_tests,
            limit: (is_cut || before.truncated || now.truncated).then_some(CUT),
            differences,
            entries: now.entries.clone(),
        }
    }

    /// Takes comments that silence a checker about old code out of the changed files. `output` is what the checks said
    /// at the beginning, where they failed.
    pub(super) fn without_suppressions(mut self, output: &str) -> Self {
        let changed = self.trees.fates().into_iter();
        let changed =
            changed.filter(|(path, fate)| *fate == Fate::Changed && !self.versions.contains_key(path));
        let paths: Vec<String> = changed.map(|(path, _)| path).collect();
        for path in paths {
            let first = self.trees.content(&path, &Version::First);
            let now = self.trees.content(&path, &Version::Now);
            let complained = output.contains(path.as_str());
            let removed =
                |(first, now): (Vec<u8>, Vec<u8>)| suppressions::removed(&path, &first, &now, complained);
            if let Some(content) = first.zip(now).and_then(removed) {
                self.versions.insert(path.clone(), Version::Content(content));
                self.changed.push(CheckChange { path, how: CheckChangeKind::Undermines });
            }
        }
        self
    }

    /// Whether the toolchain is as it was: else a copy of the first tree does not behave as that did.
    pub(super) fn is_sound(&self) -> bool {
        self.differences.lasting.is_empty()
    }

    /// All changed checks.
    pub(super) fn changed(&self) -> Vec<CheckChange> {
        let Differences { avoidable, lasting, .. } = &self.differences;
        self.changed.iter().chain(avoidable).chain(lasting).cloned().collect()
    }
}

/// Adds to `named` what the checks mention. Nothing is read where only checks changed. Returns whether all was read.
fn follow(
    trees: &Trees,
    fates: &BTreeMap<String, Fate>,
    is_check: &dyn Fn(&str) -> bool,
    named: &mut BTreeSet<String>,
) -> bool {
    let was_there = |path: &str| fates.get(path).is_some_and(|fate| *fate != Fate::Added);
    let may_be_meant =
        |(path, fate): (&String, &Fate)| *fate != Fate::Same && !is_check(path) && !named.contains(path);
    if !fates.iter().any(may_be_meant) {
        return true;
    }
    let may_name = |path: &str| is_check(path) || manifest::is_manifest(path);
    let tests = fates.keys().filter(|path| was_there(path) && may_name(path) && !named.contains(*path));
    let mut tests: Vec<String> = tests.cloned().collect();
    let mut open: Vec<String> = named.iter().cloned().collect();
    let mut is_whole = tests.len() <= FOLLOWED;
    tests.truncate(FOLLOWED);
    for depth in 0..DEPTH {
        is_whole &= open.len() <= FOLLOWED;
        open.truncate(FOLLOWED);
        let mut next = Vec::new();
        let mut look = |paths: &[String], of: Checker| {
            for (path, content) in paths.chunks(AT_ONCE).flat_map(|some| trees.first_contents(some)) {
                let Ok(text) = String::from_utf8(content) else { continue };
                let found = named::mentioned(&path, of, &text, &was_there);
                next.extend(
                    found.into_iter().filter(|found| !is_check(found) && named.insert(found.clone())),
                );
            }
        };
        look(&open, Checker::Script);
        if depth == 0 {
            look(&tests, Checker::Test);
        }
        open = next;
    }
    is_whole && open.is_empty()
}

/// Which new files would be found before a check, or before a module that a check imports.
struct Newcomers<'a> {
    /// The checks of the beginning, by the names that they are found by.
    modules: BTreeSet<&'a str>,
    /// Where Python looks for modules first.
    folders: BTreeSet<String>,
}

impl<'a> Newcomers<'a> {
    fn new(
        fates: &'a BTreeMap<String, Fate>,
        named: &BTreeSet<String>,
        words: &BTreeSet<String>,
        is_first_check: &dyn Fn(&str) -> bool,
    ) -> Self {
        let first = fates.iter().filter(|(path, fate)| **fate != Fate::Added && is_first_check(path));
        let folder = |path: &String| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let scripts = named.iter().filter(|path| path.ends_with(".py")).map(folder);
        let searched = words.iter().filter_map(|word| word.strip_prefix("PYTHONPATH="));
        let searched = searched
            .flat_map(|folders| folders.split(':'))
            .map(|folder| folder.trim_matches(['.', '/', '"', '\'']));
        Self {
            modules: first.filter_map(|(path, _)| kinds::module(path)).collect(),
            folders: scripts.chain(searched.map(str::to_owned)).collect(),
        }
    }

    /// Whether a new module would be found instead of an installed package: none of that name was in its folder.
    fn hides(&self, path: &str, fates: &BTreeMap<String, Fate>, before: &Toolchain) -> bool {
        let Some(module) = kinds::module(path).filter(|_| path.ends_with(".py")) else { return false };
        let folders = std::iter::once("").chain(self.folders.iter().map(String::as_str));
        let folders = folders.chain(self.modules.iter().filter_map(|check| Some(check.rsplit_once('/')?.0)));
        let folders: BTreeSet<&str> = folders.collect();
        folders.into_iter().any(|folder| {
            let rest =
                if folder.is_empty() { Some(module) } else { module.strip_prefix(&format!("{folder}/")) };
            let Some(package) = rest.and_then(|rest| rest.split('/').next()) else { return false };
            let place = if folder.is_empty() { package.to_owned() } else { format!("{folder}/{package}") };
            let was_there = |(path, fate): (&String, &Fate)| {
                let rest = path.strip_prefix(place.as_str());
                *fate != Fate::Added && rest.is_some_and(|rest| rest.starts_with('/') || rest == ".py")
            };
            before.has_installed(package) && !fates.iter().any(was_there)
        })
    }

    fn come_before(&self, path: &str) -> bool {
        let Some(module) = kinds::module(path) else { return false };
        let folder = module.rsplit_once('/').map_or("", |(folder, _)| folder);
        self.modules.contains(module) || (self.folders.contains(folder) && kinds::is_standard_module(path))
    }
}

/// Whether a new file makes a target of make be up to date.
fn is_target(targets: &BTreeSet<String>, path: &str) -> bool {
    let rest = |target: &String| path.strip_prefix(target.as_str());
    targets.iter().filter_map(rest).any(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// rawko's own files are no work.
pub(super) fn is_own(path: &str) -> bool {
    path.starts_with(".rawko/")
}

/// Whether a new manifest affects how tests run.
fn configures_a_runner(trees: &Trees, path: &str) -> bool {
    let now = || trees.content(path, &Version::Now);
    if let Some(folder) = path.strip_suffix("go.mod").filter(|folder| folder.ends_with('/')) {
        // A module of its own: `./...` of the one around it does not reach its tests any more.
        return trees.first_paths().any(|path| path.starts_with(folder) && path.ends_with("_test.go"));
    }
    manifest::is_manifest(path) && now().is_some_and(|content| manifest::configures_a_runner(path, &content))
}

/// Whether a file that is gone was a manifest, or held tests that did not move as they were to another one.
fn loses_checks(trees: &Trees, fates: &BTreeMap<String, Fate>, path: &str) -> bool {
    if manifest::is_manifest(path) {
        return true;
    }
    let Some(first) = trees.content(path, &Version::First).filter(|_| path.ends_with(".rs")) else {
        return false;
    };
    let moved = |(other, fate): (&String, &Fate)| {
        *fate == Fate::Added
            && other.ends_with(".rs")
            && trees
                .content(other, &Version::Now)
                .is_some_and(|now| inline::compare(&first, &now) == InlineTests::Kept)
    };
    inline::has_tests(&first) && !fates.iter().any(moved)
}

/// A file that is work and checks in one, with the original checks; `None` if those are as they were.
fn with_original_checks(trees: &Trees, fates: &BTreeMap<String, Fate>, path: &str) -> Option<Vec<u8>> {
    let is_rust = path.ends_with(".rs");
    if !is_rust && !manifest::is_manifest(path) {
        return None;
    }
    let first = trees.content(path, &Version::First)?;
    let now = trees.content(path, &Version::Now)?;
    if is_rust {
        let has_tests = |module: &String| is_tested_module(trees, fates, path, module);
        let lost: Vec<String> = inline::lost_modules(&first, &now).into_iter().filter(has_tests).collect();
        let own = match inline::compare(&first, &now) {
            InlineTests::Kept => None,
            InlineTests::Changed(content) => Some(content),
        };
        return if lost.is_empty() {
            own
        } else {
            Some(inline::with_modules(&first, &own.unwrap_or(now), &lost))
        };
    }
    match manifest::compare(path, &first, &now) {
        Manifest::SameChecks | Manifest::Other => None,
        Manifest::Changed(content) => Some(content),
    }
}

/// Whether there were tests in files of Rust at the beginning.
fn has_inline_tests(trees: &Trees) -> bool {
    let files: Vec<String> =
        trees.first_paths().filter(|path| path.ends_with(".rs")).take(FOLLOWED).collect();
    trees.first_contents(&files).iter().any(|(_, content)| inline::has_tests(content))
}

/// Whether a module that `parent` declared had tests, and is still there.
fn is_tested_module(trees: &Trees, fates: &BTreeMap<String, Fate>, parent: &str, module: &str) -> bool {
    let (folder, name) = parent.rsplit_once('/').map_or(("", parent), |(folder, name)| (folder, name));
    let own = name.trim_end_matches(".rs");
    let stems = [format!("{folder}/{module}"), format!("{folder}/{own}/{module}")];
    let is_its = |path: &str| {
        let rests = stems.iter().filter_map(|stem| path.strip_prefix(stem.trim_start_matches('/')));
        path.ends_with(".rs") && rests.into_iter().any(|rest| rest == ".rs" || rest.starts_with('/'))
    };
    let is_there = |fate: &Fate| matches!(fate, Fate::Same | Fate::Changed);
    let files =
        fates.iter().filter(|(path, fate)| is_there(fate) && is_its(path)).map(|(path, _)| path.clone());
    let files: Vec<String> = files.take(FOLLOWED).collect();
    trees.first_contents(&files).iter().any(|(_, content)| inline::has_tests(content))
}

/// A new file of Rust without what takes the place of assertions; `None` if there is nothing of that.
fn without_shadows(trees: &Trees, path: &str) -> Option<Vec<u8>> {
    let now = trees.content(path, &Version::Now).filter(|_| path.ends_with(".rs"))?;
    inline::without_shadows(&now)
}

/// Whether new code undermines the checks. A file that moved has nothing new.
fn undermines(trees: &Trees, fates: &BTreeMap<String, Fate>, path: &str, fate: Fate) -> bool {
    if !patches::is_code(path) {
        return false;
    }
    let Some(now) = trees.content(path, &Version::Now) else { return false };
    let undermines = |before: Option<&[u8]>| patches::undermines(path, before, &now);
    if fate == Fate::Changed {
        return undermines(trees.content(path, &Version::First).as_deref());
    }
    let is_source = |(other, fate): &(&String, &Fate)| **fate == Fate::Deleted && patches::is_code(other);
    undermines(None)
        && !fates
            .iter()
            .filter(is_source)
            .any(|(other, _)| !undermines(trees.content(other, &Version::First).as_deref()))
}

/// Whether it is a module of Rust that exists for tests alone, as `#[cfg(test)] mod …;` in the file above says.
fn is_test_module(trees: &Trees, path: &str, depth: usize) -> bool {
    let Some(stem) = path.strip_suffix(".rs").filter(|_| depth < DEPTH) else { return false };
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    let (folder, module) = stem.rsplit_once('/').unwrap_or(("", stem));
    let beside = ["lib.rs", "main.rs", "mod.rs"].map(|name| format!("{folder}/{name}"));
    let above = std::iter::once(format!("{folder}.rs"));
    beside.into_iter().chain(above).any(|parent| {
        let parent = parent.trim_start_matches('/');
        let content = trees.content(parent, &Version::First);
        let declared =
            content.filter(|_| parent != path).and_then(|content| inline::declares(&content, module));
        declared.is_some_and(|for_tests| for_tests || is_test_module(trees, parent, depth + 1))
    })
}

/// Whether the examples of a text are run with those of a crate's documentation.
fn is_documentation(trees: &Trees, path: &str) -> bool {
    if !path.ends_with(".md") {
        return false;
    }
    let is_root = |path: &String| ["lib.rs", "main.rs"].contains(&path.rsplit('/').next().unwrap_or(path));
    let roots: Vec<String> = trees.first_paths().filter(is_root).take(FOLLOWED).collect();
    trees.first_contents(&roots).iter().any(|(root, content)| named::documents(root, content).contains(path))
}
