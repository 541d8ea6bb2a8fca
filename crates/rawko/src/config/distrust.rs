//! Leaves out of a configuration what an untrusted folder does not get.

use std::path::{Path, PathBuf};

use rawko_core::agent::SkillChoice;

use super::diagnostic::{Diagnostic, printable};
use super::load::{Loaded, OwnTemplates};
use super::plugins;
use super::source::Scope;
use super::team::own_skills;
use super::trust::holds_something;
use crate::memory::FOLDER;
use crate::skills::{self, Skill, SkillState};

impl Loaded {
    /// Leaves out what the files of an untrusted folder would otherwise say to models: templates, and memories that are
    /// not the user's own. A warning names what was left out.
    pub(crate) fn distrust(&mut self, project: &Path, user: Option<&Path>, has_own_memories: bool) {
        self.is_trusted = false;
        let mut off = Vec::new();
        let servers = self.mcp.len();
        self.mcp.retain(|_, server| !server.is_of_mcp_json());
        if self.mcp.len() < servers {
            off.push("servers of .mcp.json");
            // They no longer take the place of a plug-in's.
            plugins::add_servers(&self.plugins, &mut self.mcp);
        }
        let hooks = self.hooks.len();
        self.hooks.retain(|hook| hook.scope != Scope::Project);
        if self.hooks.len() < hooks {
            off.push("hooks");
        }
        if self.skills.iter().any(|skill| skill.scope() == Scope::Project) {
            off.push("skills");
        }
        if self.templates != OwnTemplates::default() {
            self.templates = OwnTemplates::default();
            off.push("prompt templates");
        }
        if self.config.memory.enabled && !has_own_memories && holds_something(&project.join(FOLDER)) {
            self.uses_project_memories = false;
            self.config.memory.extract = Some(false);
            // The user's own need no trust.
            self.config.memory.enabled = user.is_some_and(has_memories);
            off.push("memories");
        }
        if off.is_empty() {
            return;
        }
        let message = format!("this folder is not trusted, so its {} are not used", off.join(" and "));
        let help = "look at them, then: rawko trust".to_owned();
        self.warnings.push(Diagnostic::of_file(Path::new(".rawko"), message, Some(help)));
    }

    /// The skills as runs would have them, whether or not the folder is trusted.
    #[must_use]
    pub fn skills_if(&self, is_trusted: bool) -> Vec<Skill> {
        let mut skills = self.skills.clone();
        skills::settle(&mut skills, is_trusted);
        skills
    }

    /// Decides which skills runs use and which of them each agent has, once it is known whether the folder is trusted.
    pub(crate) fn settle_skills(&mut self) {
        skills::settle(&mut self.skills, self.is_trusted);
        for skill in &self.skills {
            if let SkillState::Replaced { by } = &skill.state {
                let message =
                    format!("the skill `{}` here is not used: {} goes before it", skill.name, by.display());
                let help = "rename or remove one of the two".to_owned();
                self.warnings.push(Diagnostic::of_file(&skill.place.shown, message, Some(help)));
            }
        }
        let used = self.skills.iter().filter(|skill| skill.is_used()).count();
        if used > skills::MAX_SKILLS {
            let message =
                format!("{used} skills are too many: only the first {} are used", skills::MAX_SKILLS);
            self.warnings.push(Diagnostic::of_file(
                Path::new("skills"),
                message,
                Some("remove some".to_owned()),
            ));
        }
        let of_run = skills::of_run(&self.skills);
        let names: Vec<&str> = of_run.iter().map(|skill| skill.name.as_str()).collect();
        for agent in self.agents.values_mut() {
            let named = match &agent.config.skills {
                Some(SkillChoice::Named(named)) => named.as_slice(),
                Some(SkillChoice::All(_)) | None => &[],
            };
            for missing in named.iter().filter(|name| !names.contains(&name.as_str())) {
                let message = format!(
                    "the agent `{}` names the skill `{}`, which is not there or not trusted",
                    agent.config.name,
                    printable(missing)
                );
                let place = PathBuf::from(agent.source.to_string());
                let help = "rawko skills list shows what there is".to_owned();
                self.warnings.push(Diagnostic::of_file(&place, message, Some(help)));
            }
            agent.config.skills = own_skills(&agent.config, names.iter().copied());
        }
    }
}

/// Whether the folder of the user's configuration has memories.
pub(crate) fn has_memories(user: &Path) -> bool {
    holds_something(&user.join("memories"))
}
