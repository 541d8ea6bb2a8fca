//! Skills by the open specification (<https://agentskills.io/specification>): folders with a `SKILL.md`. Agents see
//! each skill's name and description, and get its text when they ask for it (`docs/skills.md`).
//!
//! ```text
//! find ─▶ files ─▶ header ─▶ Skill ─▶ the setup of a run ─▶ tool
//! ```
//!
//! Owns where skills are looked for, which one counts where several have a name, what the specification asks of one, and the
//! tool that returns its text. Trust is decided elsewhere: [`Skill::scope`] says whose it is. A skill grants nothing: its
//! scripts run by Bash, under the rights of the agent that runs them.

mod files;
mod find;
mod header;
mod tool;

use std::path::{Path, PathBuf};

use rawko_core::setup::SkillSetup;
use rawko_core::text::{hex, truncate};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

pub use find::{SkillPlace, find_skills};
pub use header::SkillFault;
pub(crate) use tool::SkillTool;

use crate::config::{Diagnostic, Scope};
use files::{MAX_BYTES, SkillFiles, text_of_skill};
use header::{MAX_DESCRIPTION, SkillDocument};

/// Most skills of one run: each is named in every request.
pub(crate) const MAX_SKILLS: usize = 100;
/// Most skills that are read.
const MAX_READ: usize = 300;

/// A skill that can be used.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// Its name, by which agents ask for it.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// Where it is.
    #[serde(flatten)]
    pub place: SkillPlace,
    /// Whether runs use it, or why not.
    #[serde(flatten)]
    pub state: SkillState,
    /// What its front matter says besides name and description. None of it grants anything.
    pub metadata: Map<String, Value>,
    /// Its other files, relative to its folder.
    pub files: Vec<String>,
    /// SHA-256 of its files, in hex; of the user's own skills, of `SKILL.md` alone.
    pub digest: String,
    /// Its instructions.
    #[serde(skip)]
    pub text: String,
    /// For each of its files a line with SHA-256 and path: what trust in a project's skill covers.
    #[serde(skip)]
    pub(crate) manifest: String,
    /// The whole of `SKILL.md`.
    #[serde(skip)]
    pub(crate) source: String,
}

/// Whether runs use a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum SkillState {
    /// They do.
    #[default]
    Used,
    /// It is the project's, and the folder is not trusted.
    Untrusted,
    /// Another skill has its name, and precedence.
    Replaced {
        /// The folder of that skill.
        by: PathBuf,
    },
}

impl Skill {
    /// Reads the skill in a folder.
    ///
    /// # Errors
    /// What keeps it from being used.
    pub fn read(place: SkillPlace) -> Result<Self, Vec<SkillFault>> {
        Self::read_within(place, &mut { MAX_BYTES })
    }

    fn read_within(place: SkillPlace, left: &mut u64) -> Result<Self, Vec<SkillFault>> {
        let found = SkillFiles::read(&place, left)?;
        let header = SkillDocument::read(&found.text).map_err(|fault| vec![fault])?;
        let name = header.usable_name()?;
        let description = header.usable_description()?;
        let digest = found.digest(place.scope);
        Ok(Self {
            name,
            description: truncate(&description, MAX_DESCRIPTION),
            place,
            state: SkillState::Used,
            metadata: header.rest(),
            files: found.files,
            digest,
            text: header.body.trim().to_owned(),
            manifest: found.manifest,
            source: found.text,
        })
    }

    /// Whose it is.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.place.scope
    }

    /// Whether runs use it.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.state == SkillState::Used
    }

    /// What a run records of it.
    pub(crate) fn setup(&self) -> SkillSetup {
        SkillSetup {
            name: self.name.clone(),
            description: rawko_core::text::harmless(&self.description),
            folder: self.place.as_agents_name_it(),
            digest: self.digest.clone(),
        }
    }
}

/// What the specification forbids or asks for, of the skill in this folder; empty where it is valid.
#[must_use]
pub fn check_skill(place: &SkillPlace) -> Vec<SkillFault> {
    let text = match text_of_skill(place) {
        Ok(text) => text,
        Err(fault) => return vec![fault],
    };
    let mut faults = header::check(&text, place.folder_name());
    if faults.is_empty()
        && let Err(more) = SkillFiles::read(place, &mut { MAX_BYTES })
    {
        faults.extend(more);
    }
    faults
}

/// Reads all skills, in the order of their precedence. The second part of the result says which cannot be used, and why.
pub(crate) fn read_all(
    project: &Path,
    user: Option<&Path>,
    home: Option<&Path>,
) -> (Vec<Skill>, Vec<Diagnostic>) {
    let (places, mut warnings) = find_skills(project, user, home);
    let (mut skills, mut left) = (Vec::new(), MAX_BYTES);
    let too_many = places.len().saturating_sub(MAX_READ);
    for place in places.into_iter().take(MAX_READ) {
        let shown = place.shown.clone();
        match Skill::read_within(place, &mut left) {
            Ok(skill) => skills.push(skill),
            Err(faults) => {
                let faults: Vec<String> = faults.iter().map(SkillFault::to_string).collect();
                let message = format!("this skill is not used: {}", faults.join("; "));
                let help = "rawko skills check says what the specification asks for".to_owned();
                warnings.push(Diagnostic::of_file(&shown, message, Some(help)));
            }
        }
    }
    if too_many > 0 {
        let message = format!("{too_many} skills were not read: there are more than {MAX_READ}");
        warnings.push(Diagnostic::of_file(Path::new("skills"), message, Some("remove some".to_owned())));
    }
    (skills, warnings)
}

/// Decides which skills are used: none of the project's where it is not trusted, and of several with one name the first.
/// `skills` are in the order of their precedence.
pub(crate) fn settle(skills: &mut [Skill], is_trusted: bool) {
    let mut used: Vec<(String, PathBuf)> = Vec::new();
    for skill in skills {
        let known = used.iter().find(|(name, _)| *name == skill.name);
        skill.state = match known {
            _ if skill.scope() == Scope::Project && !is_trusted => SkillState::Untrusted,
            Some((_, by)) => SkillState::Replaced { by: by.clone() },
            None => {
                used.push((skill.name.clone(), skill.place.shown.clone()));
                SkillState::Used
            }
        };
    }
}

/// The skills of a run, by name.
pub(crate) fn of_run(skills: &[Skill]) -> Vec<SkillSetup> {
    let mut used: Vec<SkillSetup> = skills.iter().filter(|skill| skill.is_used()).map(Skill::setup).collect();
    used.sort_by(|a, b| a.name.cmp(&b.name));
    used.truncate(MAX_SKILLS);
    used
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// A path as text, if it is one that can be shown in a prompt.
fn plain(path: &Path) -> Option<&str> {
    path.to_str().filter(|path| rawko_core::text::harmless(path) == *path && !path.contains(['\n', '`']))
}

#[cfg(test)]
mod tests;
