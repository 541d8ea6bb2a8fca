//! `rawko init`: writes a `.rawko/` with the default settings, for the user to edit.
//!
//! Owns the files' content, and never overwrites a file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rawko_core::agent::{AgentConfig, builtin_agents};
use serde_json::Value;

use super::emit;

/// What [`init`] did. Paths are relative to the project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Initialised {
    /// The files that were created.
    pub created: Vec<PathBuf>,
    /// The files that already existed and were left unchanged.
    pub kept: Vec<PathBuf>,
}

/// A file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct InitError {
    /// The file.
    pub path: PathBuf,
    /// The operating system's error.
    pub source: io::Error,
}

/// Writes `.rawko/` into `project`: a commented `config.yaml`, the built-in agents, and `sessions/`, which git ignores. Not
/// `memories/`: with it, each execution would cost a model call that the user did not ask for.
///
/// # Errors
/// At the first file that cannot be written. Files written before it stay.
pub fn init(project: &Path) -> Result<Initialised, InitError> {
    let mut done = Initialised::default();
    let mut put = |name: &str, text: &str| {
        let name = Path::new(name);
        let path = project.join(name);
        let created = write_new(&path, text).map_err(|source| InitError { path, source })?;
        let list = if created { &mut done.created } else { &mut done.kept };
        list.push(name.to_owned());
        Ok(())
    };
    put(".rawko/config.yaml", include_str!("init/config.yaml"))?;
    for agent in builtin_agents() {
        put(&format!(".rawko/agents/{}.md", agent.name), &agent_markdown(&agent))?;
    }
    put(".rawko/sessions/.gitignore", "*\n")?;
    Ok(done)
}

/// Writes a file unless it exists. Returns whether it was written.
fn write_new(path: &Path, text: &str) -> io::Result<bool> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => match file.write_all(text.as_bytes()) {
            Ok(()) => Ok(true),
            Err(error) => {
                // The next attempt would leave an incomplete file unchanged.
                let _ = fs::remove_file(path);
                Err(error)
            }
        },
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// An agent as a Markdown file: front matter, and the prompt as its body.
#[must_use]
pub fn agent_markdown(agent: &AgentConfig) -> String {
    let mut value = serde_json::to_value(agent).unwrap_or_default();
    if let Value::Object(map) = &mut value {
        map.remove("systemPrompt");
    }
    let title = agent.display_name();
    format!("---\n{}---\n\n# {title}\n\n{}\n", emit::yaml(&value), agent.system_prompt.trim())
}
