//! Whatever a session and someone beside it do, a rewind takes back what the session did and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

use super::bench::Bench;

/// What someone does to the project.
#[derive(Debug, Clone)]
pub(super) enum Edit {
    Write(&'static str, u8),
    Delete(&'static str),
    Rename(&'static str, &'static str),
    Mode(&'static str, u32),
    Link(&'static str, &'static str),
    Folder(&'static str),
    /// Ignores files that end so, or none.
    Ignore(bool),
}

/// Few names, so that both come upon the same ones; one is ignored at times, and some are folders as well as files.
const NAMES: [&str; 8] = ["a", "b", "d/x", "d/y", "d/e/z", "d", "x.log", "f"];

pub(super) fn edit() -> impl Strategy<Value = Edit> {
    let name = || prop::sample::select(NAMES.to_vec());
    prop_oneof![
        4 => (name(), 0..4_u8).prop_map(|(name, text)| Edit::Write(name, text)),
        2 => name().prop_map(Edit::Delete),
        1 => (name(), name()).prop_map(|(from, to)| Edit::Rename(from, to)),
        1 => (name(), prop::sample::select(vec![0o644, 0o600, 0o755, 0o750]))
            .prop_map(|(name, mode)| Edit::Mode(name, mode)),
        1 => (name(), name()).prop_map(|(name, to)| Edit::Link(name, to)),
        1 => name().prop_map(Edit::Folder),
        1 => any::<bool>().prop_map(Edit::Ignore),
    ]
}

/// An edit that does not fit what is there fails, as it does for a person.
pub(super) fn carry_out(project: &Path, edit: &Edit) {
    let path = |name: &str| project.join(name);
    let folder = |name: &str| path(name).parent().is_some_and(|above| std::fs::create_dir_all(above).is_ok());
    let _ = match edit {
        Edit::Write(name, text) if folder(name) && !path(name).is_symlink() => {
            std::fs::write(path(name), format!("{text}\n"))
        }
        Edit::Delete(name) => {
            std::fs::remove_file(path(name)).or_else(|_| std::fs::remove_dir_all(path(name)))
        }
        Edit::Rename(from, to) if folder(to) => std::fs::rename(path(from), path(to)),
        Edit::Mode(name, mode) if path(name).symlink_metadata().is_ok_and(|found| found.is_file()) => {
            std::fs::set_permissions(path(name), PermissionsExt::from_mode(*mode))
        }
        Edit::Link(name, to) if folder(name) => std::os::unix::fs::symlink(to, path(name)),
        Edit::Folder(name) => std::fs::create_dir_all(path(name)),
        Edit::Ignore(true) => std::fs::write(path(".gitignore"), "*.log\n"),
        Edit::Ignore(false) => std::fs::write(path(".gitignore"), "# nothing\n"),
        Edit::Write(..) | Edit::Rename(..) | Edit::Mode(..) | Edit::Link(..) => Ok(()),
    };
}

pub(super) type World = BTreeMap<String, String>;

/// Everything below the project: kind, permissions and content; folders only where they are empty.
pub(super) fn world(project: &Path) -> World {
    let mut world = World::new();
    gather(project, project, &mut world);
    world
}

fn gather(root: &Path, folder: &Path, world: &mut World) -> bool {
    let mut is_empty = true;
    for entry in std::fs::read_dir(folder).unwrap() {
        is_empty = false;
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if name == ".git" || name == ".rawko" {
            continue;
        }
        let found = path.symlink_metadata().unwrap();
        let is = if found.is_symlink() {
            format!("-> {}", path.read_link().unwrap().display())
        } else if !found.is_dir() {
            format!("{:o} {}", found.permissions().mode() & 0o777, std::fs::read_to_string(&path).unwrap())
        } else if gather(root, &path, world) {
            "folder".to_owned()
        } else {
            continue;
        };
        world.insert(name, is);
    }
    is_empty
}

fn ignores(world: &World) -> bool {
    world.get(".gitignore").is_some_and(|rules| rules.contains("*.log"))
}

/// Paths at which two worlds differ. Whether a folder is empty is no difference of its own: what is in it is.
fn differences<'a>(a: &'a World, b: &'a World) -> BTreeSet<&'a str> {
    let paths = a.keys().chain(b.keys()).filter(|path| a.get(*path) != b.get(*path));
    paths.map(String::as_str).collect()
}

fn below<'a>(world: &'a World, path: &str) -> impl Iterator<Item = &'a String> {
    let begin = format!("{path}/");
    world.keys().filter(move |other| other.starts_with(&begin))
}

/// `rounds`: what an execution does, and what someone else does after it.
fn check(bench: &Bench, rounds: &[(Vec<Edit>, Vec<Edit>)], to: usize) -> Result<(), TestCaseError> {
    let project = bench.project();
    for name in ["a", "d/x", "x.log"] {
        carry_out(&project, &Edit::Write(name, 0));
    }
    carry_out(&project, &Edit::Folder("empty"));
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (at, (execution, others)) in rounds.iter().enumerate() {
        let number = u32::try_from(at).unwrap() + 1;
        before.push(world(&project));
        bench.take(number);
        execution.iter().for_each(|edit| carry_out(&project, edit));
        bench.checkpoints.take_after(number).unwrap();
        after.push(world(&project));
        others.iter().for_each(|edit| carry_out(&project, edit));
    }
    bench.end();
    let to = to % rounds.len();
    let found = world(&project);
    let wanted = &before[to];
    let (mut by_session, mut by_others) = (BTreeSet::new(), BTreeSet::new());
    for at in to..rounds.len() {
        by_session.extend(differences(&before[at], &after[at]));
        by_others.extend(differences(&after[at], before.get(at + 1).unwrap_or(&found)));
    }
    let was_ignored = before[to..].iter().chain(&after[to..]).chain([&found]).any(ignores);
    let done = bench.rewind(&(to + 1).to_string());
    let got = world(&project);
    let named: BTreeSet<&str> = done
        .by_others
        .iter()
        .map(String::as_str)
        .chain(done.left_alone.iter().map(|left| left.path.as_str()))
        .collect();
    let paths: BTreeSet<&String> = wanted.keys().chain(found.keys()).chain(got.keys()).collect();
    for path in paths {
        let (was, is, should) = (found.get(path), got.get(path), wanted.get(path));
        let story = || format!("{path}: wanted {should:?}, found {was:?}, got {is:?}; {done:?}");
        // A file in the way of a folder, or a folder that is no longer empty, is recognised by what is in it.
        let entangled = was.or(is).or(should).is_some_and(|it| it == "folder")
            || below(&found, path).chain(below(wanted, path)).next().is_some()
            || path.match_indices('/').any(|(end, _)| {
                let above = &path[..end];
                found.contains_key(above) || wanted.contains_key(above) || by_others.contains(above)
            });
        prop_assert!(entangled || is == was || is == should, "neither nor: {}", story());
        if path.ends_with(".log") && was_ignored {
            prop_assert!(is == was || is == should, "{}", story());
        } else if by_others.contains(path.as_str()) && !by_session.contains(path.as_str()) {
            prop_assert!(entangled || is == was, "somebody else's: {}", story());
            prop_assert!(
                entangled || was == should || named.contains(path.as_str()),
                "not named: {}",
                story()
            );
        } else if by_session.contains(path.as_str()) && !by_others.contains(path.as_str()) {
            prop_assert!(entangled || is == should, "the session's: {}", story());
        } else if is != was {
            prop_assert!(entangled || by_session.contains(path.as_str()), "of no one: {}", story());
        }
        prop_assert!(
            entangled || is == should || named.contains(path.as_str()) || path.ends_with(".log"),
            "{}",
            story()
        );
    }
    // Whatever it was, it can be undone.
    bench.rewind(&done.before.unwrap().name);
    prop_assert_eq!(world(&project), found);
    Ok(())
}

fn rounds() -> impl Strategy<Value = Vec<(Vec<Edit>, Vec<Edit>)>> {
    vec((vec(edit(), 0..5), vec(edit(), 0..4)), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn in_a_repository(rounds in rounds(), to in 0..4_usize) {
        check(&Bench::repository(), &rounds, to)?;
    }

    #[test]
    fn in_a_folder(rounds in rounds(), to in 0..4_usize) {
        check(&Bench::plain(), &rounds, to)?;
    }
}
