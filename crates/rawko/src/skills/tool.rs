//! The tool `Skill`: returns the text of a skill, and names its files.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use rawko_core::ErrorCode;
use rawko_core::agent::SKILL;
use rawko_core::setup::SkillSetup;
use rawko_core::tool::{ToolAccess, ToolOutcome, ToolSpec};
use rawko_tools::{BoxFuture, Tool, ToolContext};
use serde_json::{Value, json};

use super::find::SkillPlace;
use super::{Skill, SkillFault};
use crate::config::Scope;

/// Most bytes of a skill's text that are returned. The specification recommends fewer than 5,000 tokens.
const MAX_RETURNED: usize = 48 * 1024;
/// Most files that are named.
const MAX_NAMED: usize = 100;

/// Returns the skills that a run began with, if they are still the same.
pub(crate) struct SkillTool {
    spec: ToolSpec,
    known: Arc<KnownSkills>,
}

/// The skills of a run, and the project that paths start in.
struct KnownSkills {
    project: PathBuf,
    skills: Vec<SkillSetup>,
}

impl SkillTool {
    /// The tool for these skills of the project at `project`; `None` where there are none.
    pub(crate) fn of(project: PathBuf, skills: &[SkillSetup]) -> Option<Self> {
        let spec = ToolSpec {
            name: SKILL.to_owned(),
            description: "Returns the instructions of a skill, by its name, and names its files. Call it before you begin \
                          work that a skill of the list in your instructions is for. It changes nothing and runs nothing."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "name": { "type": "string", "minLength": 1, "description": "Name of the skill, as in the list." }
                },
                "required": ["name"],
                "additionalProperties": false,
            }),
            access: ToolAccess::ReadOnly,
        };
        let known = Arc::new(KnownSkills { project, skills: skills.to_vec() });
        (!skills.is_empty()).then_some(Self { spec, known })
    }
}

impl KnownSkills {
    fn read(&self, name: &str) -> Result<String, String> {
        let Some(known) = self.skills.iter().find(|skill| skill.name == name) else {
            let names: Vec<&str> = self.skills.iter().map(|skill| skill.name.as_str()).collect();
            let shown = rawko_core::text::truncate(name, 100);
            return Err(match rawko_core::policy::nearest_name(name, &names) {
                Some(near) => format!("There is no skill `{shown}`. Did you mean `{near}`?"),
                None => format!("There is no skill `{shown}`. There are: {}.", names.join(", ")),
            });
        };
        let shown = PathBuf::from(&known.folder);
        let scope = if shown.is_absolute() { Scope::User } else { Scope::Project };
        let folder = self.project.join(&shown).canonicalize();
        let changed = || {
            format!(
                "The skill `{name}` was changed after this run began, so it is not returned: it is not approved as it \
                 is now. Continue without it, and say so in your report."
            )
        };
        let folder = folder.map_err(|_| changed())?;
        if scope == Scope::Project && !folder.starts_with(&self.project) {
            return Err(changed());
        }
        let skill = Skill::read(SkillPlace { folder, shown, scope, plugin: None }).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(SkillFault::to_string).collect();
            format!("The skill `{name}` cannot be read any more: {}. Continue without it.", faults.join("; "))
        })?;
        if skill.digest != known.digest { Err(changed()) } else { Ok(text(&skill, &known.folder)) }
    }
}

impl Tool for SkillTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, input: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let name = input.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let known = Arc::clone(&self.known);
            let read = tokio::task::spawn_blocking(move || known.read(&name)).await;
            match read.unwrap_or_else(|error| Err(format!("The skill could not be read: {error}."))) {
                Ok(text) => ToolOutcome::ok(text),
                Err(message) => ToolOutcome::error(ErrorCode::ToolFailure, message),
            }
        })
    }
}

/// What an agent gets.
fn text(skill: &Skill, folder: &str) -> String {
    let (body, name) = (rawko_core::text::harmless(&skill.text), &skill.name);
    let end = body.floor_char_boundary(MAX_RETURNED);
    let mut text = format!(
        "Skill `{name}`, in the folder `{folder}`. Paths in it are relative to that folder: put `{folder}/` before them.\n\n{}\n",
        &body[..end]
    );
    if end < body.len() {
        let _ = writeln!(
            text,
            "[... cut here: the text is {} bytes long; read the rest in `{folder}/SKILL.md` ...]",
            body.len()
        );
    }
    if !skill.files.is_empty() {
        text.push_str("\nFiles of the skill, to be read or run where its text says so:\n");
        for file in skill.files.iter().take(MAX_NAMED) {
            let _ = writeln!(text, "- `{folder}/{file}`");
        }
        let more = skill.files.len().saturating_sub(MAX_NAMED);
        if more > 0 {
            let _ = writeln!(text, "- and {more} more");
        }
    }
    text
}
