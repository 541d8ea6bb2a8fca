//! Where skills are, and in which order they count.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::plain;
use crate::config::{Diagnostic, Scope};

/// The folders of skills in a project, those with precedence first.
const OF_PROJECT: [&str; 3] = [".rawko/skills", ".agents/skills", ".claude/skills"];
/// The same in the home; rawko's own is in the user's configuration folder, and goes before them.
const OF_HOME: [&str; 2] = [".agents/skills", ".claude/skills"];
/// Most entries of one folder of skills that are looked at.
const MAX_ENTRIES: usize = 1_000;

/// The folder of one skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkillPlace {
    /// The real folder.
    #[serde(skip)]
    pub folder: PathBuf,
    /// The folder for people: relative to the project if it is inside.
    #[serde(rename = "folder")]
    pub shown: PathBuf,
    /// Whose it is.
    pub scope: Scope,
    /// The plug-in that it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
}

impl SkillPlace {
    /// The folder at `path`, as one of the user's own.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn at(path: &Path) -> std::io::Result<Self> {
        Ok(Self { folder: path.canonicalize()?, shown: path.to_owned(), scope: Scope::User, plugin: None })
    }

    /// The folder's own name; a link's, where one leads to it.
    pub(super) fn folder_name(&self) -> &OsStr {
        let name = self.shown.file_name().or_else(|| self.folder.file_name());
        name.unwrap_or_default()
    }

    /// The folder for agents: inside the project they work with paths relative to it.
    pub(super) fn as_agents_name_it(&self) -> String {
        let path = match self.scope {
            Scope::Project => &self.shown,
            Scope::User => &self.folder,
        };
        path.to_string_lossy().into_owned()
    }
}

/// The folders of all skills, in the order of their precedence: those of the project, then the user's. In a folder they are in
/// the order of their names. `user` is the folder of the user's configuration and `home` the user's home, where they are to be
/// looked at. The second part of the result says what was passed over.
#[must_use]
pub fn find_skills(
    project: &Path,
    user: Option<&Path>,
    home: Option<&Path>,
) -> (Vec<SkillPlace>, Vec<Diagnostic>) {
    let mut finder = Finder { looked: Vec::new(), found: Vec::new(), passed_over: Vec::new() };
    if let Ok(project) = project.canonicalize() {
        for name in OF_PROJECT {
            finder.folder(&project.join(name), Path::new(name), Some(&project));
        }
    }
    let own = user.map(|user| user.join("skills"));
    let of_home = home.iter().flat_map(|home| OF_HOME.map(|name| home.join(name)));
    for folder in own.into_iter().chain(of_home) {
        finder.folder(&folder, &folder, None);
    }
    (finder.found, finder.passed_over)
}

struct Finder {
    /// The real folders of skills that were looked at.
    looked: Vec<PathBuf>,
    found: Vec<SkillPlace>,
    passed_over: Vec<Diagnostic>,
}

impl Finder {
    /// Adds the skills right in `folder`, shown as `shown`. One that is within a project stays in it.
    fn folder(&mut self, folder: &Path, shown: &Path, project: Option<&Path>) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        if project.is_some_and(|project| leads_out(folder, project)) {
            return self.pass_over(shown, "this is a link that leads out of the project");
        }
        // One folder of skills is often a link to another one.
        let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        if self.looked.contains(&real) {
            return;
        }
        self.looked.push(real);
        let mut names: Vec<_> =
            entries.flatten().map(|entry| entry.file_name()).take(MAX_ENTRIES + 1).collect();
        if names.len() > MAX_ENTRIES {
            self.pass_over(shown, "not all of it was looked at: it has more than 1000 entries");
            names.truncate(MAX_ENTRIES);
        }
        names.sort_unstable();
        for name in names {
            let path = folder.join(&name);
            if name.as_encoded_bytes().starts_with(b".") || !path.is_dir() {
                continue;
            }
            let shown = shown.join(&name);
            if project.is_some_and(|project| leads_out(&path, project)) {
                self.pass_over(&shown, "this is a link that leads out of the project");
                continue;
            }
            let Ok(real) = path.canonicalize() else { continue };
            if plain(&shown).is_none() || plain(&real).is_none() {
                self.pass_over(&shown, "its path holds strange characters");
                continue;
            }
            // So may a single one be.
            if self.found.iter().any(|known| known.folder == real) {
                continue;
            }
            let scope = if project.is_some() { Scope::Project } else { Scope::User };
            self.found.push(SkillPlace { folder: real, shown, scope, plugin: None });
        }
    }

    fn pass_over(&mut self, shown: &Path, why: &str) {
        let help = "put the skill's own folder there, under a plain name".to_owned();
        self.passed_over.push(Diagnostic::of_file(
            shown,
            format!("no skill is read here: {why}"),
            Some(help),
        ));
    }
}

fn leads_out(path: &Path, project: &Path) -> bool {
    path.canonicalize().map_or(true, |real| !real.starts_with(project))
}
