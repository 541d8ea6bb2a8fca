//! The plan for one command: what it may see, change and reach, from its permissions and from how the project looks now.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use rawko_core::agent::{Enforcement, Permissions};
use rawko_sandbox::{ConfinementPlan, ViewStep, Wall};

use super::network::WayOut;
use super::survey::{Survey, SurveyTarget};
use super::{git, git_settings, placeholders, view};
use crate::access::FileAccess;
use crate::confinement::Confined;

/// The most processes that one command may have at the same time.
pub(super) const MAX_PROCESSES: u64 = 8_192;

impl Confined {
    /// The plan for one command.
    pub(crate) fn plan(&self, directory: &Path, input: &[u8], way: &WayOut) -> io::Result<ConfinementPlan> {
        let run = &self.sandbox.0;
        let access = FileAccess::new(&self.root, &self.permissions).map_err(io::Error::other)?;
        let wall = self.sandbox.wall();
        // Without namespaces a home holds links, where nothing could be mounted.
        let who =
            if wall == Wall::Landlock { format!("{} without mounts", self.who) } else { self.who.clone() };
        let own = if self.lasts { run.private.of(&who)? } else { run.private.once()? };
        // A command that puts a folder in their place has none.
        let _ = git_settings::put(run.git_settings.as_deref(), &own.home, &own.git_settings);
        let (denied, has_patterns) = access.denied_places();
        // Their other names have to be looked for.
        let has_links = denied.iter().any(|path| view::file_with_links(path).is_some());
        // What an agent leaves in a cache does not decide about its work.
        let caches = self.permissions.caches.as_deref().filter(|_| self.lasts).unwrap_or_default();
        let shared = run.places.shared(caches).map_err(io::Error::other)?;
        let is_whole = |granted: &[PathBuf]| granted.iter().any(|path| access.root().starts_with(path));
        let writes = is_whole(access.readable()) && is_whole(access.writable());
        let held = if writes && wall == Wall::Namespaces { run.held.hold(access.root()) } else { Vec::new() };
        run.new_repositories.begin(access.root(), access.writable());
        let survey = {
            let mut last = run.survey.lock().unwrap_or_else(PoisonError::into_inner);
            Survey::renewed(&mut last, &to_survey(&access, has_patterns || has_links))
        };
        if survey.is_cut {
            return Err(io::Error::other(
                "the project, or a folder that is granted, has too many files to find those that match the patterns of \
                 permissions.deny: list the paths instead",
            ));
        }
        let grants = |folder: &Path| {
            access.writable().iter().any(|path| path.starts_with(folder) || folder.starts_with(path))
        };
        if survey.is_blind(grants) {
            if self.permissions.require == Some(Enforcement::Enforced) {
                return Err(io::Error::other(
                    "permissions.write grants a folder with too many files to find every .git, .rawko and .claude in it, \
                     which no command may write: grant smaller folders",
                ));
            }
            way.client.refusals.note_blind();
        }
        let builder = view::PlanBuilder {
            access: &access,
            places: &run.places,
            own: &own,
            survey: &survey,
            sockets: (wall != Wall::Landlock).then_some(&run.sockets),
            new_repositories: &run.new_repositories,
            held: &held,
            repository: run
                .repository
                .as_ref()
                .filter(|repository| access.root().starts_with(&repository.top)),
            also: &self.also,
            layered: &self.layered,
            changes: self.changes.as_deref(),
            shared: &shared,
            can_layer: run.offer.layers,
            can_cover: wall == Wall::Namespaces,
        };
        let (mut base, mut view) = builder.steps()?;
        // The contents of a private home are not where this machine's links lead.
        let covers = base.iter_mut().filter(|step| matches!(step, ViewStep::Cover(_)));
        covers.chain(&mut view).for_each(resolve);
        Ok(ConfinementPlan {
            wall,
            directory: std::fs::canonicalize(directory)?,
            base,
            view,
            temporary: own.temporary.clone(),
            network: way.network,
            input: input.to_owned(),
            converses: false,
            max_processes: MAX_PROCESSES,
        })
    }
}

/// Has a step name a real path. The helper follows no link, because another command could put one there meanwhile. The last
/// part stays: what a link leads to is a place of its own.
fn resolve(step: &mut ViewStep) {
    let place = step.place_mut();
    if let (Some(above), Some(name)) = (place.parent(), place.file_name())
        && let Ok(real) = std::fs::canonicalize(above)
        && real != above
    {
        *place = real.join(name);
    }
}

/// The folders that the view depends on: the project, and what is granted outside of it for writing, or for reading where
/// a pattern denies some of it.
fn to_survey(access: &FileAccess, is_thorough: bool) -> Vec<SurveyTarget> {
    let root = access.root();
    let patterns: Vec<PathBuf> =
        access.pattern_folders().into_iter().filter(|folder| !folder.starts_with(root)).collect();
    let mut others: Vec<SurveyTarget> = Vec::new();
    let writable = access.writable().iter().filter(|path| !root.starts_with(path));
    let wanted = |folder: PathBuf, is_thorough| SurveyTarget {
        folder,
        is_thorough,
        protect: access.protect().to_vec(),
    };
    others.extend(writable.map(|path| wanted(path.clone(), is_thorough)));
    for granted in access.readable() {
        // Of a folder of many things, such as a home, the part that the pattern is about.
        let parts = patterns.iter().filter_map(|pattern| {
            let is_inside = pattern.starts_with(granted);
            (is_inside || granted.starts_with(pattern))
                .then(|| if is_inside { pattern.clone() } else { granted.clone() })
        });
        others.extend(parts.map(|folder| wanted(folder, true)));
    }
    others.retain(|wanted| !wanted.folder.starts_with(root) && wanted.folder.is_dir());
    // The outermost first, and of the same folder the thorough one.
    others.sort_by(|a, b| a.folder.cmp(&b.folder).then(b.is_thorough.cmp(&a.is_thorough)));
    let mut wanted = vec![wanted(root.to_owned(), is_thorough)];
    for other in others {
        let covers = |one: &SurveyTarget| {
            other.folder.starts_with(&one.folder) && one.is_thorough >= other.is_thorough
        };
        if !wanted.iter().any(covers) {
            wanted.push(other);
        }
    }
    wanted
}

/// The files that `permissions.deny` covers and git tracks, by their paths in the repository: its history shows them to
/// every command.
#[must_use]
pub fn denied_and_tracked(root: &Path, permissions: &Permissions) -> Vec<PathBuf> {
    let Ok(access) = FileAccess::new(root, permissions) else { return Vec::new() };
    let (mut denied, has_patterns) = access.denied_places();
    if denied.is_empty() {
        return Vec::new();
    }
    if has_patterns {
        let project =
            SurveyTarget { folder: access.root().to_owned(), is_thorough: true, protect: Vec::new() };
        let survey = Survey::renewed(&mut None, &[project]);
        denied.extend(survey.files.iter().filter(|path| access.is_denied(path)).cloned());
    }
    let Some(repository) = git::repository_of(access.root()) else { return Vec::new() };
    let tracked = placeholders::tracked(&denied, &repository, false).unwrap_or_default();
    tracked.into_iter().map(|file| file.name).collect()
}
