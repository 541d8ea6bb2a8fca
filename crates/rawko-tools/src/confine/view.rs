//! Computes what one command sees.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rawko_sandbox::ViewStep;

use super::git_settings::NAME as GIT_SETTINGS;
use super::new_repositories::NewRepositories;
use super::places::{Places, neighbourhood};
use super::private::OwnFolders;
use super::sockets::Relative;
use super::survey::Survey;
use super::{git, placeholders, sockets};
use crate::access::{FileAccess, PRIVATE};
use crate::file_stamp::{FileId, file_id};

/// Folders that commands have for themselves.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// Makes the steps of a view. These are what it depends on.
pub(super) struct PlanBuilder<'a> {
    pub(super) access: &'a FileAccess,
    pub(super) places: &'a Places,
    pub(super) own: &'a OwnFolders,
    pub(super) survey: &'a Survey,
    /// Where commands may use Unix sockets: what is known of those of others.
    pub(super) sockets: Option<&'a Mutex<Relative>>,
    pub(super) new_repositories: &'a NewRepositories,
    /// Folders of the project that are there to be protected, and not the user's.
    pub(super) held: &'a [PathBuf],
    pub(super) repository: Option<&'a git::ProjectRepository>,
    /// Besides what is granted.
    pub(super) also: &'a [PathBuf],
    /// Folders that it may change for itself.
    pub(super) layered: &'a [PathBuf],
    /// Where changes to the project go instead.
    pub(super) changes: Option<&'a Path>,
    /// Caches of the user that the command changes.
    pub(super) shared: &'a [PathBuf],
    /// Whether this machine has file systems in layers.
    pub(super) can_layer: bool,
    /// Whether something can be mounted over a file.
    pub(super) can_cover: bool,
}

impl PlanBuilder<'_> {
    /// The steps in order: those of the base, and those of one command.
    ///
    /// # Errors
    /// If git cannot be kept from recording that what is hidden changed.
    pub(super) fn steps(&self) -> io::Result<(Vec<ViewStep>, Vec<ViewStep>)> {
        let mut base = self.surroundings();
        let mut shown = Vec::new();
        self.project(&mut shown);
        let mut kept = Vec::new();
        if let Some(repository) = self.repository {
            self.repository(repository, &mut shown, &mut kept);
        }
        base.extend(shown);
        if let Some((place, content)) = self.settings_in_granted_home() {
            base.push(ViewStep::Private { place, content });
        }
        self.hold_home(&mut base);
        self.protected(&mut kept);
        let repository = self.repository.filter(|_| self.can_cover);
        kept.extend(placeholders::hide(self.hidden(), repository, self.held, self.may_commit())?);
        // Git knows no sockets, and no devices either.
        kept.extend(self.sockets_of_others(&base)?.into_iter().map(ViewStep::Hide));
        if self.can_cover {
            let is_hidden = |place: &Path| {
                kept.iter().any(|step| matches!(step, ViewStep::Hide(hidden) if place.starts_with(hidden)))
            };
            let reduced = self.places.secrets.reduced().into_iter();
            let reduced: Vec<ViewStep> = reduced
                .filter(|step| matches!(step, ViewStep::Text { place, .. } if !is_hidden(place)))
                .collect();
            kept.extend(reduced);
        }
        let mut view: Vec<ViewStep> = self.pins(&kept).into_iter().map(ViewStep::Pin).collect();
        view.extend(kept);
        if self.changes.is_some() {
            // Changes to the project are thrown away, and what is protected in it need not be there: other files cover
            // it.
            let root = self.access.root();
            view.retain(
                |step| !matches!(step, ViewStep::Protect(path) | ViewStep::Pin(path) if path.starts_with(root)),
            );
        }
        Ok((base, view))
    }

    /// Pins the folders of the private home that lead to what is shown in it. A command could put a link in the place of
    /// one, and have the next command's project protected somewhere else.
    fn hold_home(&self, base: &mut Vec<ViewStep>) {
        let Some(home) = self.places.home.as_deref() else { return };
        let Some(at) =
            base.iter().position(|step| matches!(step, ViewStep::Private { place, .. } if place == home))
        else {
            return;
        };
        let mut above = BTreeSet::new();
        for step in base.iter().skip(at + 1) {
            if let ViewStep::Show(place)
            | ViewStep::Grant(place)
            | ViewStep::Layer { folder: place, .. }
            | ViewStep::Link { place, .. } = step
            {
                let inside =
                    place.ancestors().skip(1).take_while(|above| above.starts_with(home) && *above != home);
                above.extend(inside.map(Path::to_owned));
            }
        }
        // A shown folder is not one of the private home.
        let is_shown = |path: &Path| {
            base.iter().skip(at + 1).any(|step| {
                matches!(step, ViewStep::Show(place) | ViewStep::Grant(place) | ViewStep::Layer { folder: place, .. }
                    if path.starts_with(place))
            })
        };
        let pins: Vec<ViewStep> =
            above.into_iter().filter(|path| !is_shown(path)).map(ViewStep::Pin).collect();
        base.splice(at + 1..at + 1, pins);
    }

    /// The folders of the project, and of what is granted outside of it, that hold something protected or hidden: they cannot be moved away with it.
    fn pins(&self, kept: &[ViewStep]) -> BTreeSet<PathBuf> {
        let root = self.access.root();
        let outside = self.access.writable().iter().filter(|path| !root.starts_with(path));
        let repositories = self.repository.filter(|_| self.may_commit());
        let repositories = repositories.iter().flat_map(|repository| &repository.folders);
        let granted: Vec<&Path> =
            std::iter::once(root).chain(outside.chain(repositories).map(PathBuf::as_path)).collect();
        let mut pins = BTreeSet::new();
        for step in kept {
            if let ViewStep::Protect(path)
            | ViewStep::Hide(path)
            | ViewStep::Pin(path)
            | ViewStep::Placeholders { place: path, .. }
            | ViewStep::Text { place: path, .. } = step
            {
                for granted in &granted {
                    let above = path
                        .ancestors()
                        .skip(1)
                        .take_while(|above| above.starts_with(granted) && above != granted);
                    pins.extend(above.map(Path::to_owned));
                }
            }
        }
        pins
    }

    /// The folder of the whole repository that the project is in, or is.
    fn top(&self) -> &Path {
        self.repository.map_or(self.access.root(), |repository| &repository.top)
    }

    /// All but the project.
    fn surroundings(&self) -> Vec<ViewStep> {
        let places = self.places;
        let of_root = places.of_root();
        let mut covered = [&places.covered[..], &of_root.folders].concat();
        covered.extend(neighbourhood(self.top()).map(Path::to_owned));
        covered.sort();
        covered.dedup();
        let home = places.home.as_deref();
        // The home is a folder of the command's own, which has nothing in it that is to be covered.
        covered.retain(|path| !home.is_some_and(|home| path.starts_with(home)));
        // A folder in a covered one needs no cover of its own.
        let outermost: Vec<&PathBuf> = covered
            .iter()
            .filter(|path| !covered.iter().any(|other| *path != other && path.starts_with(other)))
            .collect();
        let mut steps: Vec<ViewStep> =
            outermost.iter().map(|path| ViewStep::Cover((*path).clone())).collect();
        // Granted folders are shown over it.
        steps.extend(of_root.files.iter().cloned().map(ViewStep::Hide));
        if let Some(home) = home {
            steps.push(ViewStep::Private { place: home.to_owned(), content: self.own.home.clone() });
        }
        // Folders in plain sight are not put back.
        let is_away = |path: &Path| {
            home.is_some_and(|home| path.starts_with(home))
                || outermost.iter().any(|cover| path.starts_with(cover))
                || TEMPORARY.iter().any(|folder| path.starts_with(folder))
        };
        let is_cached = |path: &Path| places.caches.iter().any(|cache| path.starts_with(cache));
        let shown = places.toolchains.iter().filter(|path| is_away(path) && !is_cached(path));
        steps.extend(shown.map(|path| ViewStep::Show(path.clone())));
        let links = places.links.iter().filter(|(place, _)| {
            let is_inside = |shown: &PathBuf| place.starts_with(shown);
            is_away(place) && !places.toolchains.iter().any(is_inside) && !places.caches.iter().any(is_inside)
        });
        steps.extend(
            links.map(|(place, target)| ViewStep::Link { place: place.clone(), target: target.clone() }),
        );
        steps.extend(self.caches(false));
        steps.extend(places.inside_caches.iter().cloned().map(ViewStep::Cover));
        steps
    }

    /// The caches in a folder that is granted for reading, or the others. Granted folders are shown over what was
    /// there.
    fn caches(&self, in_granted: bool) -> Vec<ViewStep> {
        let caches = &self.places.caches;
        let granted: Vec<&PathBuf> = self.granted_outside().collect();
        let is_meant =
            |cache: &&PathBuf| granted.iter().any(|granted| cache.starts_with(granted)) == in_granted;
        let is_outermost =
            |cache: &&PathBuf| !caches.iter().any(|other| other != *cache && cache.starts_with(other));
        let own = caches.iter().filter(|cache| !self.shared.contains(cache));
        let own = own.filter(is_outermost).filter(is_meant);
        let shared = self.shared.iter().filter(is_meant).map(|cache| ViewStep::Grant(cache.clone()));
        own.filter_map(|cache| self.layer(&self.own.caches, cache)).chain(shared).collect()
    }

    /// What is granted to be read, but for what is shown with the repository.
    fn granted_outside(&self) -> impl Iterator<Item = &PathBuf> {
        let (top, sees_all) = (self.top(), self.sees_all());
        let is_outside = move |path: &&PathBuf| {
            !(sees_all && path.starts_with(top)) && path.parent().is_some() && path.exists()
        };
        self.access.readable().iter().filter(is_outside)
    }

    /// A folder that the command may change for itself, or can only read where there are no layers.
    fn layer(&self, among: &Path, folder: &Path) -> Option<ViewStep> {
        // These characters separate folders in the options of a layered file system.
        let can_layer = self.can_layer
            && !folder.as_os_str().as_encoded_bytes().iter().any(|byte| b":,\\".contains(byte));
        // Gone since the survey.
        let is_folder = folder.symlink_metadata().ok()?.is_dir();
        Some(match OwnFolders::changes(among, folder).filter(|_| can_layer && is_folder) {
            Some(changes) => ViewStep::Layer { folder: folder.to_owned(), changes },
            None => ViewStep::Show(folder.to_owned()),
        })
    }

    /// The project, and what is granted outside of it.
    fn project(&self, steps: &mut Vec<ViewStep>) {
        let (root, readable, writable) = (self.access.root(), self.access.readable(), self.access.writable());
        let sees_all = self.sees_all();
        steps.push(ViewStep::Show(self.top().to_owned()));
        if !sees_all {
            steps.push(ViewStep::Cover(root.to_owned()));
        }
        steps.extend(self.also.iter().filter(|path| path.exists()).map(|path| ViewStep::Show(path.clone())));
        steps.extend(self.layered.iter().filter_map(|folder| self.layer(&self.own.builds, folder)));
        steps.extend(self.granted_outside().cloned().map(ViewStep::Show));
        steps.extend(self.caches(true));
        if self.may_commit() {
            steps.push(match self.changes {
                Some(changes) => ViewStep::Layer { folder: root.to_owned(), changes: changes.to_owned() },
                None => ViewStep::Grant(root.to_owned()),
            });
        } else {
            // A grant to write all of it does not show all of it.
            let writes_all = writable.iter().any(|path| root.starts_with(path));
            let inside = readable.iter().filter(|path| writes_all && path.starts_with(root) && path.exists());
            steps.extend(inside.cloned().map(ViewStep::Grant));
            let builds = self.survey.builds.iter().filter(|_| sees_all && self.can_layer);
            steps.extend(builds.filter_map(|folder| self.layer(&self.own.builds, folder)));
        }
        // No grant opens what is protected, not even one that names it.
        let is_open = |path: &&PathBuf| !root.starts_with(path) && !self.access.is_protected(path);
        let others = writable.iter().filter(is_open).filter(|path| path.exists());
        steps.extend(others.map(|path| ViewStep::Grant(path.clone())));
    }

    /// Whether the command sees the whole project.
    fn sees_all(&self) -> bool {
        self.access.readable().iter().any(|path| self.access.root().starts_with(path))
    }

    /// Whether a path is there for the command: of a project that is not shown as a whole, only parts are.
    fn is_shown(&self, path: &Path) -> bool {
        let root = self.access.root();
        let parts = self.access.readable().iter().chain(self.access.writable());
        let mut parts = parts.filter(|part| !root.starts_with(part));
        self.sees_all() || !path.starts_with(root) || parts.any(|part| path.starts_with(part))
    }

    /// Whether the command sees and may write what git writes.
    fn may_commit(&self) -> bool {
        self.sees_all() && self.access.writable().iter().any(|path| self.access.root().starts_with(path))
    }

    fn repository(
        &self,
        repository: &git::ProjectRepository,
        shown: &mut Vec<ViewStep>,
        kept: &mut Vec<ViewStep>,
    ) {
        let root = self.access.root();
        if self.may_commit() {
            let inside = repository.obeyed.iter().filter(|path| path.starts_with(root) && path.exists());
            kept.extend(inside.cloned().map(ViewStep::Protect));
        }
        for folder in &repository.folders {
            if !self.may_commit() {
                if !folder.starts_with(&repository.top) {
                    shown.push(ViewStep::Show(folder.clone()));
                }
                continue;
            }
            if folder.starts_with(root) {
                kept.push(ViewStep::Pin(folder.clone()));
            } else {
                shown.push(ViewStep::Grant(folder.clone()));
            }
            kept.extend(git::deciding(folder).into_iter().map(ViewStep::Protect));
        }
        if self.may_commit() {
            kept.extend(git::of_other_trees(repository).into_iter().map(ViewStep::Protect));
        }
    }

    /// The home, if it is seen whole.
    fn granted_home(&self) -> Option<&Path> {
        let home = self.places.home.as_deref()?;
        self.access.readable().iter().any(|granted| home.starts_with(granted)).then_some(home)
    }

    /// Where a home that is seen whole has settings of git, and what is seen there. What a link leads to is hidden instead.
    fn settings_in_granted_home(&self) -> Option<(PathBuf, PathBuf)> {
        let (place, content) = (self.granted_home()?.join(GIT_SETTINGS), self.own.home.join(GIT_SETTINGS));
        let is_file = |path: &Path| path.symlink_metadata().is_ok_and(|kind| kind.is_file());
        (is_file(&place) && is_file(&content)).then_some((place, content))
    }

    /// Names that no permission grants, in what is granted.
    fn protected(&self, steps: &mut Vec<ViewStep>) {
        let root = self.access.root();
        let writable = self.access.writable();
        let is_granted =
            |path: &Path| writable.iter().any(|granted| path.starts_with(granted)) && self.is_shown(path);
        let of_git = |path: &Path| path.file_name().is_some_and(|name| name == ".git");
        // What commands made is looked at when they end, and theirs to remove.
        let is_new = |path: &Path| root == self.new_repositories.root() && self.new_repositories.is_new(path);
        let protected = self.survey.protected.iter().filter(|path| is_granted(path));
        for path in protected.filter(|path| !(of_git(path) && is_new(path))) {
            // Gone since the survey.
            let Ok(kind) = path.symlink_metadata() else { continue };
            if kind.is_symlink() {
                // Nothing can be mounted over a link: its target is kept, and the link is put back. A repository is
                // kept by parts.
                let target = std::fs::canonicalize(path).ok().filter(|target| is_granted(target));
                let target = target.filter(|target| !of_git(path) && !root.starts_with(target));
                steps.extend(target.map(ViewStep::Protect));
                continue;
            }
            let is_own = path.parent() == Some(root) && (!path.is_dir() || git::looks_bare(path));
            if of_git(path) && is_own {
                // The project's repository is kept by parts.
                if path.is_file() {
                    steps.push(ViewStep::Protect(path.clone()));
                }
            } else if of_git(path) && path.is_dir() {
                steps.push(ViewStep::Pin(path.clone()));
                steps.extend(git::deciding(path).into_iter().map(ViewStep::Protect));
            } else {
                steps.push(ViewStep::Protect(path.clone()));
            }
        }
        if git::looks_bare(root) && is_granted(root) && !is_new(root) {
            steps.extend(git::deciding(root).into_iter().map(ViewStep::Protect));
        }
        let bare = self.survey.bare.iter().filter(|path| is_granted(path) && path.is_dir() && !is_new(path));
        steps.extend(bare.map(|path| ViewStep::Protect(path.clone())));
    }

    /// The Unix sockets of programs outside.
    fn sockets_of_others(&self, base: &[ViewStep]) -> io::Result<Vec<PathBuf>> {
        let Some(relative) = self.sockets else { return Ok(Vec::new()) };
        let mut relative = relative.lock().unwrap_or_else(PoisonError::into_inner);
        let others = sockets::of_others(base, &self.survey.sockets, &mut relative);
        let mut others = others.map_err(|error| {
            io::Error::other(format!("the Unix sockets of this machine cannot be listed: {error}"))
        })?;
        others.retain(|path| self.is_shown(path));
        Ok(others)
    }

    /// What is denied, the secrets in what is shown, and what rawko keeps of sessions: checkpoints hold copies of files.
    fn hidden(&self) -> Vec<PathBuf> {
        let root = self.access.root();
        let projects = std::iter::once(root).chain(self.also.iter().map(PathBuf::as_path));
        let granted = self.access.readable().iter().chain(self.access.writable());
        let projects = projects.chain(granted.map(PathBuf::as_path));
        let inner = self.survey.protected.iter().filter(|path| path.ends_with(".rawko"));
        let sessions = projects.map(|project| project.join(".rawko/sessions"));
        let sessions = sessions.chain(inner.map(|rawko| rawko.join("sessions")));
        // Comparisons with the beginning of a run are tried in a folder there.
        let sessions = sessions.filter(|folder| !root.starts_with(folder) && folder.is_dir());
        let (mut denied, has_patterns) = self.access.denied_places();
        if has_patterns {
            denied.extend(self.survey.files.iter().filter(|path| self.access.is_denied(path)).cloned());
        }
        let linked: BTreeSet<(u64, u64)> = denied.iter().filter_map(|path| file_with_links(path)).collect();
        if !linked.is_empty() {
            let is_linked =
                |path: &&PathBuf| file_with_links(path).is_some_and(|file| linked.contains(&file));
            denied.extend(self.survey.files.iter().filter(is_linked).cloned());
        }
        denied.extend(self.places.hidden.iter().cloned());
        denied.extend(self.places.secrets.hidden(self.can_cover));
        if let Some(home) = self.granted_home() {
            denied.extend(PRIVATE.iter().map(|name| home.join(name)));
            if self.settings_in_granted_home().is_none() {
                denied.extend(std::fs::canonicalize(home.join(GIT_SETTINGS)));
            }
        }
        denied.extend(sessions);
        denied.retain(|path| self.is_shown(path));
        denied
    }
}

/// The device and number of a file that has more than one name.
pub(super) fn file_with_links(path: &Path) -> Option<FileId> {
    let file = path.symlink_metadata().ok().filter(|kind| kind.is_file() && kind.nlink() > 1)?;
    Some(file_id(&file))
}
