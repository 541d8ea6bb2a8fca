//! Configuration that the embedding program gives in code. It is text like that of files, and is read as they are: the same
//! schema, the same rules, the same messages. Who calls the program trusts it, so it needs no trust, and it goes before
//! files.

use std::path::{Path, PathBuf};

use rawko_core::models::Price;
use serde_json::json;

use super::agent_file::AgentFile;
use super::layers::Layers;
use super::load::Loader;
use super::source::{Scope, SourceFile};
use super::team::Agents;

/// The folder that messages name, which is none.
const IN_CODE: &str = "in code";

/// What the embedding program gives.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GivenConfig {
    /// A whole configuration, in place of the project's `config.yaml`.
    pub config: Option<String>,
    /// Agents, each as its file would be: YAML, or Markdown that begins with `---`.
    pub agents: Vec<String>,
    /// Prices by the names of models.
    pub prices: Vec<(String, Price)>,
}

impl Loader<'_> {
    /// Merges the given configuration over files, if there is one. Returns whether there is.
    pub(super) fn given_config(&mut self, layers: &mut Layers) -> bool {
        let given = self.options.given;
        if let Some(text) = &given.config {
            self.layer(layers, in_code("config.yaml", text));
        }
        given.config.is_some()
    }

    /// Merges the given prices over everything that is configured.
    pub(super) fn given_prices(&mut self, layers: &mut Layers) {
        for (model, price) in &self.options.given.prices {
            let text = json!({ "prices": { model: price } }).to_string();
            self.layer(layers, in_code("prices.yaml", &text));
        }
    }

    /// Adds the given agents.
    pub(super) fn given_agents(&mut self, agents: &mut Agents) {
        for (n, text) in self.options.given.agents.iter().enumerate() {
            let extension = if text.trim_start().starts_with("---") { "md" } else { "yaml" };
            let source = in_code(&format!("agent-{}.{extension}", n + 1), text.trim_start());
            agents.files.push(AgentFile::parse(source, &mut self.errors));
        }
    }
}

/// Whether it was given in code.
pub(super) fn is_given(source: &SourceFile) -> bool {
    source.name.starts_with(IN_CODE)
}

fn in_code(name: &str, text: &str) -> SourceFile {
    let name: PathBuf = Path::new(IN_CODE).join(name);
    SourceFile::new(&name, Scope::User, text)
}
