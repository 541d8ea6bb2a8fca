//! A view as arguments of bubblewrap.
//!
//! Bubblewrap takes what it mounts from the machine's file system, never from what it has built already. So a folder that
//! is pinned is mounted before its contents, and each place is looked up in the mount that it is seen through.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::super::{StepResult, during};
use crate::plan::{ConfinementPlan, Network, ViewStep};

/// The most arguments that bubblewrap takes.
const MAX_ARGUMENTS: usize = 9_000;
/// Folders of `/run` that hold programs and settings, and no sockets.
const KEPT_OF_RUN: [&str; 2] = ["/run/current-system", "/run/wrappers"];

/// What is seen at a place, and below it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum MountKind {
    /// This file or folder of the machine, for reading.
    Read(PathBuf),
    /// The same for writing too.
    Write(PathBuf),
    /// An empty folder, into which later steps may put things.
    Cover,
    /// An empty folder.
    Empty,
    /// An empty file.
    Null,
    /// A link that leads there.
    Link(PathBuf),
}

#[derive(Debug)]
struct Mount {
    place: PathBuf,
    sight: MountKind,
}

/// What is mounted, in order.
struct MountList(Vec<Mount>);

/// All arguments but the command.
pub(super) fn arguments(plan: &ConfinementPlan) -> StepResult<Vec<OsString>> {
    let mut arguments: Vec<OsString> = ["--die-with-parent", "--as-pid-1", "--unshare-pid", "--unshare-ipc"]
        .into_iter()
        .chain(["--unshare-uts"])
        .chain((plan.network != Network::Shared).then_some("--unshare-net"))
        .map(Into::into)
        .collect();
    if rustix::process::geteuid().is_root() {
        // For `close_devices`; the command does not have it.
        arguments.extend(["--cap-add".into(), "CAP_SYS_ADMIN".into()]);
    }
    // A program with the rights of another user finds an environment without some variables.
    for (name, value) in std::env::vars_os() {
        arguments.extend(["--setenv".into(), name, value]);
    }
    let mut view = MountList::new(plan);
    plan.base.iter().try_for_each(|step| view.add(step, true))?;
    plan.view.iter().try_for_each(|step| view.add(step, false))?;
    view.write(&mut arguments);
    arguments.extend(["--chdir".into(), plan.directory.clone().into()]);
    if arguments.len() > MAX_ARGUMENTS {
        return Err(format!(
            "bubblewrap takes {MAX_ARGUMENTS} arguments, and this view needs {}: deny folders in place of the files in \
             them",
            arguments.len()
        ));
    }
    Ok(arguments)
}

impl MountList {
    /// What every command sees.
    fn new(plan: &ConfinementPlan) -> Self {
        let mut view = Self(Vec::new());
        view.push(Path::new("/"), MountKind::Read("/".into()));
        if Path::new("/run").is_dir() {
            view.push(Path::new("/run"), MountKind::Cover);
        }
        for kept in KEPT_OF_RUN.iter().map(Path::new).filter(|path| path.is_dir()) {
            view.push(kept, MountKind::Read(kept.to_owned()));
        }
        for place in ["/tmp", "/var/tmp"].map(Path::new).into_iter().filter(|path| path.is_dir()) {
            view.push(place, MountKind::Write(plan.temporary.clone()));
        }
        view
    }

    fn push(&mut self, place: &Path, sight: MountKind) {
        self.0.push(Mount { place: place.to_owned(), sight });
    }

    fn add(&mut self, step: &ViewStep, is_base: bool) -> StepResult<()> {
        match step {
            ViewStep::Cover(place) => self.put(place, MountKind::Cover)?,
            // No layers: bubblewrap makes none where it is installed with rights of its own.
            ViewStep::Show(place) | ViewStep::Layer { folder: place, .. } => {
                self.put(place, MountKind::Read(place.clone()))?;
            }
            ViewStep::Grant(place) => self.put(place, MountKind::Write(place.clone()))?,
            ViewStep::Private { place, content } => self.put(place, MountKind::Write(content.clone()))?,
            ViewStep::Link { place, target } => self.link(place, target)?,
            ViewStep::Pin(place) => self.pin(place, is_base)?,
            ViewStep::Protect(place) => self.protect(place),
            // Bubblewrap mounts only files of the machine that can be opened.
            ViewStep::Hide(place) | ViewStep::Placeholders { place, .. } => self.hide(place),
            ViewStep::Text { .. } => {}
        }
        Ok(())
    }

    /// The last mount around a place, by its index.
    fn around(&self, place: &Path) -> Option<(usize, &Mount)> {
        let is_around =
            |mount: &Mount| !matches!(mount.sight, MountKind::Link(_)) && place.starts_with(&mount.place);
        self.0.iter().enumerate().rev().find(|(_, mount)| is_around(mount))
    }

    /// What is seen at a place, as a path of the machine.
    fn source(&self, place: &Path) -> Option<PathBuf> {
        let (_, mount) = self.around(place)?;
        match &mount.sight {
            MountKind::Read(source) | MountKind::Write(source) => below(source, &mount.place, place),
            MountKind::Cover | MountKind::Empty | MountKind::Null | MountKind::Link(_) => None,
        }
    }

    /// Mounts something, also in a folder that commands change. A link that one of them left there would lead the mount to
    /// another place.
    fn put(&mut self, place: &Path, sight: MountKind) -> StepResult<()> {
        self.check_way(place)?;
        self.push(place, sight);
        Ok(())
    }

    fn check_way(&self, place: &Path) -> StepResult<()> {
        let Some((_, mount)) = self.around(place) else { return Ok(()) };
        let MountKind::Write(content) = &mount.sight else { return Ok(()) };
        if *content == mount.place {
            return Ok(());
        }
        let mut way = content.clone();
        for name in place.strip_prefix(&mount.place).unwrap_or(Path::new("")).components() {
            way.push(name);
            if fs::symlink_metadata(&way).is_ok_and(|kind| kind.is_symlink()) {
                return Err(format!("{} was replaced by something that is no folder", way.display()));
            }
        }
        Ok(())
    }

    fn link(&mut self, place: &Path, target: &Path) -> StepResult<()> {
        if self.0.iter().any(|mount| mount.place.starts_with(place)) {
            return Ok(());
        }
        // The link itself is there where an earlier command of this agent made it.
        self.check_way(place.parent().unwrap_or(place))?;
        match self.around(place).map(|(_, mount)| &mount.sight) {
            Some(MountKind::Cover) => self.push(place, MountKind::Link(target.to_owned())),
            Some(MountKind::Write(_)) => {
                let Some(link) = self.source(place) else { return Ok(()) };
                if fs::symlink_metadata(&link).is_err() {
                    let made = fs::create_dir_all(link.parent().unwrap_or(&link))
                        .and_then(|()| symlink(target, &link));
                    during(format!("linking {}", place.display()), made)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Makes a mount of a folder that can be written, before its contents are mounted. Elsewhere nothing can be moved.
    fn pin(&mut self, place: &Path, is_base: bool) -> StepResult<()> {
        self.check_way(place)?;
        let Some((index, mount)) = self.around(place).filter(|(_, mount)| mount.place != place) else {
            return Ok(());
        };
        let MountKind::Write(content) = &mount.sight else { return Ok(()) };
        let Some(source) = below(content, &mount.place, place) else { return Ok(()) };
        if is_base {
            match fs::symlink_metadata(&source) {
                Ok(kind) if kind.is_dir() => {}
                Ok(_) => {
                    return Err(format!("{} was replaced by something that is no folder", place.display()));
                }
                Err(_) => during(format!("making {}", place.display()), fs::create_dir(&source))?,
            }
        }
        self.0.insert(index + 1, Mount { place: place.to_owned(), sight: MountKind::Write(source) });
        Ok(())
    }

    fn protect(&mut self, place: &Path) {
        let Some(source) = self.source(place) else { return };
        let is_taken_away = |mount: &&Mount| {
            mount.place != place
                && mount.place.starts_with(place)
                && matches!(mount.sight, MountKind::Cover | MountKind::Empty | MountKind::Null)
        };
        // It would cover them.
        let again: Vec<(PathBuf, MountKind)> = self
            .0
            .iter()
            .filter(is_taken_away)
            .map(|mount| (mount.place.clone(), mount.sight.clone()))
            .collect();
        self.push(place, MountKind::Read(source));
        again.iter().for_each(|(place, sight)| self.push(place, sight.clone()));
    }

    fn hide(&mut self, place: &Path) {
        // A place that is not seen, is gone, or was never there, needs no hiding.
        let Some(kind) = self.source(place).and_then(|source| fs::symlink_metadata(source).ok()) else {
            return;
        };
        if kind.is_dir() {
            self.push(place, MountKind::Empty);
        } else if !kind.is_symlink() {
            // A link cannot be covered; what it leads to is hidden for itself.
            self.push(place, MountKind::Null);
        }
    }

    fn write(&self, arguments: &mut Vec<OsString>) {
        let mut say = |option: &str, paths: &[&Path]| {
            arguments.push(option.into());
            arguments.extend(paths.iter().map(|path| path.as_os_str().to_owned()));
        };
        for (index, Mount { place, sight }) in self.0.iter().enumerate() {
            match sight {
                MountKind::Read(source) => say("--ro-bind", &[source, place]),
                MountKind::Write(source) => say("--bind", &[source, place]),
                MountKind::Cover => say("--tmpfs", &[place]),
                MountKind::Empty => {
                    say("--tmpfs", &[place]);
                    say("--remount-ro", &[place]);
                }
                // A device works only where devices are allowed.
                MountKind::Null => say("--dev-bind", &[Path::new("/dev/null"), place]),
                MountKind::Link(target) => say("--symlink", &[target, place]),
            }
            if index == 0 {
                say("--dev", &[Path::new("/dev")]);
                say("--tmpfs", &[Path::new("/dev/shm")]);
                say("--remount-ro", &[Path::new("/dev")]);
                say("--proc", &[Path::new("/proc")]);
                say("--remount-ro", &[Path::new("/proc")]);
            }
        }
        for (index, Mount { place, .. }) in
            self.0.iter().enumerate().filter(|(_, mount)| mount.sight == MountKind::Cover)
        {
            // Something else may cover it by now.
            if !self.0.iter().skip(index + 1).any(|later| place.starts_with(&later.place)) {
                say("--remount-ro", &[place]);
            }
        }
    }
}

/// What is at `place`, where `source` is at `mounted`.
fn below(source: &Path, mounted: &Path, place: &Path) -> Option<PathBuf> {
    let rest = place.strip_prefix(mounted).ok()?;
    Some(if rest.as_os_str().is_empty() { source.to_owned() } else { source.join(rest) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::plan::Wall;

    /// What is mounted below `root`, in order, with `root` as `R`.
    #[track_caller]
    fn check(root: &Path, base: &[ViewStep], view: &[ViewStep], expected: &[&str]) {
        let plan = ConfinementPlan {
            wall: Wall::Bubblewrap { program: "/usr/bin/bwrap".into() },
            directory: "/".into(),
            base: base.to_vec(),
            view: view.to_vec(),
            temporary: "/a temporary folder".into(),
            network: Network::Own,
            input: Vec::new(),
            converses: false,
            max_processes: 1,
        };
        let mut said = Vec::new();
        for argument in arguments(&plan).unwrap() {
            let text = argument.into_string().unwrap();
            if text.starts_with("--") {
                said.push(text);
            } else {
                *said.last_mut().unwrap() += &format!(" {text}");
            }
        }
        let root = root.to_str().unwrap();
        let inside: Vec<String> = said
            .iter()
            .filter(|line| !line.starts_with("--setenv") && line.contains(root))
            .map(|line| line.replace(root, "R"))
            .collect();
        assert_eq!(inside, expected);
    }

    fn project() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for name in ["p/.git/hooks", "p/src/.claude", "home", "other"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("p/.env"), "").unwrap();
        (folder, root)
    }

    #[test]
    fn a_pin_lies_below_what_is_in_it() {
        let (_folder, root) = project();
        let at = |name: &str| root.join(name);
        let base = [ViewStep::Cover(root.clone()), ViewStep::Grant(at("p"))];
        let view = [
            ViewStep::Protect(at("p/.git/hooks")),
            ViewStep::Pin(at("p/.git")),
            ViewStep::Hide(at("p/.env")),
            ViewStep::Hide(at("p/.git/hooks")),
            ViewStep::Hide(at("other")),
            ViewStep::Hide(at("p/none")),
        ];
        let expected = [
            "--tmpfs R",
            "--bind R/p R/p",
            "--bind R/p/.git R/p/.git",
            "--ro-bind R/p/.git/hooks R/p/.git/hooks",
            "--dev-bind /dev/null R/p/.env",
            "--tmpfs R/p/.git/hooks",
            "--remount-ro R/p/.git/hooks",
            "--remount-ro R",
        ];
        check(&root, &base, &view, &expected);
    }

    #[test]
    fn a_pin_where_nothing_is_written_opens_nothing() {
        let (_folder, root) = project();
        let at = |name: &str| root.join(name);
        let base = [ViewStep::Show(at("p")), ViewStep::Grant(at("p/src"))];
        let view =
            [ViewStep::Pin(at("p")), ViewStep::Pin(at("p/src")), ViewStep::Protect(at("p/src/.claude"))];
        let expected =
            ["--ro-bind R/p R/p", "--bind R/p/src R/p/src", "--ro-bind R/p/src/.claude R/p/src/.claude"];
        check(&root, &base, &view, &expected);
    }

    #[test]
    fn a_private_folder_is_seen_through_its_place() {
        let (_folder, root) = project();
        let at = |name: &str| root.join(name);
        let base = [
            ViewStep::Private { place: at("p"), content: at("home") },
            ViewStep::Pin(at("p/work")),
            ViewStep::Grant(at("p/src")),
        ];
        let expected = ["--bind R/home R/p", "--bind R/home/work R/p/work", "--bind R/p/src R/p/src"];
        check(&root, &base, &[ViewStep::Hide(at("p/.env"))], &expected);
        assert!(at("home/work").is_dir());
    }

    #[test]
    fn a_link_that_an_earlier_command_made_is_no_obstacle() {
        let (_folder, root) = project();
        let at = |name: &str| root.join(name);
        let base = [
            ViewStep::Private { place: at("p"), content: at("home") },
            ViewStep::Link { place: at("p/.npm"), target: at("other") },
        ];
        for _ in 0..2 {
            check(&root, &base, &[], &["--bind R/home R/p"]);
            assert_eq!(fs::read_link(at("home/.npm")).unwrap(), at("other"));
        }
        let below = ViewStep::Link { place: at("p/.npm/deep"), target: at("p/src") };
        let mut view = MountList(Vec::new());
        view.add(&base[0], true).unwrap();
        assert!(view.add(&below, true).unwrap_err().contains("replaced"));
    }
}
