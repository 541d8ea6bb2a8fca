//! The definition of a plug-in's server, with its variables filled in.

use crate::config::{PluginForm, PluginPlace, expand};

impl PluginPlace {
    /// `text` with its variables filled in: those of the plug-in, and in Claude Code's form also the user's.
    pub(crate) fn filled(
        &self,
        form: PluginForm,
        text: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<String, String> {
        let own = self.variables();
        let own = |name: &str| own.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        match form {
            PluginForm::ClaudeCode => expand(text, &|name| own(name).or_else(|| env(name))),
            // The specification knows two, and leaves everything else as it is.
            PluginForm::AgentPlugins => {
                let is_known = |name: &str| matches!(name, "PLUGIN_ROOT" | "PLUGIN_DATA");
                let literal = |name: &str| Some(format!("${{{name}}}"));
                let lookup = |name: &str| if is_known(name) { own(name) } else { literal(name) };
                expand_exactly(text, &lookup)
            }
        }
    }
}

/// Replaces each `${NAME}` by what `lookup` says of everything between the braces.
fn expand_exactly(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${") {
        let Some(length) = rest[at..].find('}') else { break };
        let name = &rest[at + 2..at + length];
        filled.push_str(&rest[..at]);
        // `${a ${PLUGIN_ROOT}`: only the inner one is a placeholder.
        match name.rfind("${") {
            Some(inner) => {
                filled.push_str(&rest[at..at + 2 + inner]);
                rest = &rest[at + 2 + inner..];
            }
            None => {
                filled.push_str(&lookup(name).ok_or_else(|| name.to_owned())?);
                rest = &rest[at + length + 1..];
            }
        }
    }
    filled.push_str(rest);
    Ok(filled)
}
