//! `rawko init`: writes a `.rawko/` that changes nothing, to be edited.
//!
//! Owns what is written and that nothing is ever overwritten.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rawko_core::agent::{AgentConfig, builtin_agents};
use serde_json::Value;

use super::emit;

/// What [`init`] did. Paths are relative to the project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Initialised {
    /// Written anew.
    pub created: Vec<PathBuf>,
    /// There already, and left as they were.
    pub kept: Vec<PathBuf>,
}

/// Something could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct InitError {
    /// What.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Writes `.rawko/` into `project`: a commented `config.yaml`, the built-in agents, `memories/` and `sessions/`, which git
/// is told to leave alone.
///
/// # Errors
/// At the first file that cannot be written; what was written before it stays.
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
    put(".rawko/memories/.gitkeep", "")?;
    put(".rawko/sessions/.gitignore", "*\n")?;
    Ok(done)
}

/// Writes a file that is not there yet; says whether it was.
fn write_new(path: &Path, text: &str) -> io::Result<bool> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => match file.write_all(text.as_bytes()) {
            Ok(()) => Ok(true),
            Err(error) => {
                // Half a file would be kept by the next attempt.
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
