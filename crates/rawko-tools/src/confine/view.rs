//! Computes what one command sees.

use std::path::{Path, PathBuf};

use rawko_sandbox::Step;

use super::git;
use super::places::{Places, neighbourhood};
use super::private::OwnFolders;
use super::survey::Survey;
use crate::access::FileAccess;

/// What the view depends on.
pub(super) struct Builder<'a> {
    pub(super) access: &'a FileAccess,
    pub(super) places: &'a Places,
    pub(super) own: &'a OwnFolders,
    pub(super) survey: &'a Survey,
    /// Besides what is granted.
    pub(super) also: &'a [PathBuf],
    /// Whether this machine has file systems in layers.
    pub(super) can_layer: bool,
}

impl Builder<'_> {
    /// The steps, in order.
    pub(super) fn steps(&self) -> Vec<Step> {
        let root = self.access.root();
        let repository = git::repository_of(root);
        let top = repository.as_ref().map_or(root, |repository| repository.top.as_path());
        let mut steps = self.surroundings(top);
        self.project(top, &mut steps);
        if let Some(repository) = &repository {
            self.repository(repository, &mut steps);
        }
        self.protected(&mut steps);
        self.hidden(&mut steps);
        steps
    }

    /// All but the project.
    fn surroundings(&self, top: &Path) -> Vec<Step> {
        let places = self.places;
        let mut covered = places.covered.clone();
        covered.extend(neighbourhood(top).map(Path::to_owned));
        // A folder in a covered one needs no cover of its own, but the home is a folder of its own kind.
        covered.sort();
        covered.dedup();
        let home = places.home.as_deref();
        covered.retain(|path| Some(path.as_path()) != home);
        let outermost: Vec<&PathBuf> = covered
            .iter()
            .filter(|path| !covered.iter().any(|other| *path != other && path.starts_with(other)))
            .collect();
        let mut steps: Vec<Step> = outermost.iter().map(|path| Step::Cover((*path).clone())).collect();
        if let Some(home) = home {
            steps.push(Step::Private { place: home.to_owned(), content: self.own.home.clone() });
        }
        // What is in plain sight is not put back.
        let is_away = |path: &Path| {
            home.is_some_and(|home| path.starts_with(home))
                || outermost.iter().any(|cover| path.starts_with(cover))
        };
        let is_cached = |path: &Path| places.caches.iter().any(|cache| path.starts_with(cache));
        let shown = places.toolchains.iter().filter(|path| is_away(path) && !is_cached(path));
        steps.extend(shown.map(|path| Step::Show(path.clone())));
        for cache in &places.caches {
            let is_inner = places.caches.iter().any(|other| other != cache && cache.starts_with(other));
            if !is_inner {
                steps.push(self.layer(&self.own.caches, cache));
            }
        }
        steps
    }

    /// A folder that the command may change for itself, or can only read where there are no layers.
    fn layer(&self, among: &Path, folder: &Path) -> Step {
        let changes = OwnFolders::changes(among, folder).filter(|_| self.can_layer && folder.is_dir());
        match changes {
            Some(changes) => Step::Layer { folder: folder.to_owned(), changes },
            None => Step::Show(folder.to_owned()),
        }
    }

    /// The project, and what is granted outside of it.
    fn project(&self, top: &Path, steps: &mut Vec<Step>) {
        let (root, readable, writable) = (self.access.root(), self.access.readable(), self.access.writable());
        let sees_all = readable.iter().any(|path| root.starts_with(path));
        if sees_all {
            steps.push(Step::Show(top.to_owned()));
        } else {
            steps.push(Step::Show(top.to_owned()));
            steps.push(Step::Cover(root.to_owned()));
        }
        let outside = |path: &&PathBuf| !(sees_all && path.starts_with(top)) && path.parent().is_some();
        steps.extend(self.also.iter().filter(|path| path.exists()).map(|path| Step::Show(path.clone())));
        steps.extend(
            readable.iter().filter(outside).filter(|path| path.exists()).map(|path| Step::Show(path.clone())),
        );
        let writes_all = writable.iter().any(|path| root.starts_with(path));
        if writes_all && sees_all {
            steps.push(Step::Grant(root.to_owned()));
        } else {
            let builds = self.survey.builds.iter().filter(|_| sees_all && self.can_layer);
            steps.extend(builds.map(|folder| self.layer(&self.own.builds, folder)));
        }
        let others = writable.iter().filter(|path| !root.starts_with(path) && path.exists());
        steps.extend(others.map(|path| Step::Grant(path.clone())));
    }

    fn repository(&self, repository: &git::Repository, steps: &mut Vec<Step>) {
        let root = self.access.root();
        let may_commit = self.access.writable().iter().any(|path| root.starts_with(path));
        for folder in &repository.folders {
            if !may_commit {
                if !folder.starts_with(&repository.top) {
                    steps.push(Step::Show(folder.clone()));
                }
                continue;
            }
            steps.push(if folder.starts_with(root) {
                Step::Pin(folder.clone())
            } else {
                Step::Grant(folder.clone())
            });
            steps.extend(git::deciding(folder).into_iter().map(Step::Protect));
        }
    }

    /// Names that no permission grants, in what is granted.
    fn protected(&self, steps: &mut Vec<Step>) {
        let root = self.access.root();
        let is_granted = |path: &Path| self.access.writable().iter().any(|granted| path.starts_with(granted));
        let of_git = |path: &Path| path.file_name().is_some_and(|name| name == ".git");
        for path in self.survey.protected.iter().filter(|path| is_granted(path)) {
            if path.symlink_metadata().is_ok_and(|kind| kind.is_symlink()) {
                continue;
            }
            if of_git(path) && path.parent() == Some(root) {
                if path.is_file() {
                    steps.push(Step::Protect(path.clone()));
                }
            } else if of_git(path) && path.is_dir() {
                steps.push(Step::Pin(path.clone()));
                steps.extend(git::deciding(path).into_iter().map(Step::Protect));
            } else {
                steps.push(Step::Protect(path.clone()));
            }
        }
        let bare = self.survey.bare.iter().filter(|path| is_granted(path));
        steps.extend(bare.map(|path| Step::Protect(path.clone())));
    }

    /// What is denied, and the secrets in what is shown.
    fn hidden(&self, steps: &mut Vec<Step>) {
        let (mut denied, has_patterns) = self.access.denied_places();
        if has_patterns {
            denied.extend(self.survey.files.iter().filter(|path| self.access.is_denied(path)).cloned());
        }
        denied.extend(self.places.hidden.iter().cloned());
        denied.sort();
        denied.dedup();
        steps.extend(denied.into_iter().filter(|path| path.symlink_metadata().is_ok()).map(Step::Hide));
    }
}
