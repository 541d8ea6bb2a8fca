//! What this program was built without: `docs/sdk.md#features`.
//!
//! A configuration that asks for it is refused before a run. Providers say it themselves, since only those that a run uses
//! are made, and so do tools that meet a picture.

use rawko_core::policy::WEB_FETCH;

use crate::config::Loaded;
use crate::error::Error;

/// Which features of this crate are on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Features {
    pub(crate) http: bool,
    pub(crate) mcp: bool,
    /// Or the program has a tool of its own in its place.
    pub(crate) web: bool,
}

/// Those of this build.
pub(crate) const BUILT: Features =
    Features { http: cfg!(feature = "http"), mcp: cfg!(feature = "mcp"), web: cfg!(feature = "web") };

impl Features {
    /// Whether everything that the configuration asks for is there.
    ///
    /// # Errors
    /// [`Error::Setup`] names what is not, and its feature.
    pub(crate) fn check(self, loaded: &Loaded) -> Result<(), Error> {
        let config = &loaded.config;
        if !self.mcp
            && let Some((name, server)) = loaded.mcp.first_key_value()
        {
            let what = format!("the MCP server `{name}` of {}", server.path.display());
            return Err(lacks("mcp", &what, "set `disabled: true` for the server"));
        }
        if !self.http && config.notify.iter().any(|entry| entry.url.is_some()) {
            return Err(lacks("http", "`notify.url`", "notify a program: `notify.command`"));
        }
        if self.web {
            return Ok(());
        }
        if config.web.search.has_service() {
            return Err(lacks("web", "the search service of `web.search`", "remove it"));
        }
        // The built-in agents do without.
        let asks = loaded.agents.iter().find(|(_, agent)| {
            let allowed = agent.config.tools.allowed.iter().flatten();
            agent.scope.is_some() && allowed.clone().any(|name| name == WEB_FETCH)
        });
        match asks {
            Some((name, agent)) => {
                let what = format!("the tool {WEB_FETCH} of the agent `{name}` ({})", agent.source);
                Err(lacks("web", &what, "remove the tool from the agent"))
            }
            None => Ok(()),
        }
    }
}

/// The error for `what`, which needs a feature that is off. `help` says how to do without.
pub(crate) fn lacks(feature: &str, what: &str, help: &str) -> Error {
    Error::Setup {
        message: format!(
            "{what} needs the feature `{feature}` of the crate `rawko`, and this program was built without it"
        ),
        hint: format!("build the program with the feature, or {help}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Rawko;

    const ALL: Features = Features { http: true, mcp: true, web: true };
    const NONE: Features = Features { http: false, mcp: false, web: false };

    /// Without these features, the configuration is refused with the error that names the feature; with all it is not.
    #[track_caller]
    fn check(config: &str, features: Features, expected: Option<(&str, &str)>) {
        let folder = tempfile::tempdir().unwrap();
        let builder = Rawko::builder().project(folder.path()).isolated_from_user().trusted(true);
        let agent =
            json!({ "name": "reader", "systemPrompt": "You read.", "tools": { "allowed": ["WebFetch"] } });
        let builder = if config.contains("reader") { builder.agent(agent) } else { builder };
        let rawko = builder.config(config).build().unwrap();
        ALL.check(rawko.config()).unwrap();
        let found = features.check(rawko.config()).err().map(|error| error.to_string());
        let expected = expected.map(|(what, feature)| {
            format!("{what} needs the feature `{feature}` of the crate `rawko`, and this program was built without it")
        });
        assert_eq!(found, expected, "{config}");
    }

    #[test]
    fn what_a_configuration_asks_for_and_is_not_there_is_named() {
        check("constraints: {maxIterations: 5}", NONE, None);
        let server = "mcp: {servers: {docs: {url: 'https://docs.example.com/mcp'}}}";
        check(server, NONE, Some(("the MCP server `docs` of in code/config.yaml", "mcp")));
        check(server, Features { mcp: true, ..NONE }, None);
        let notify = "notify: [{url: 'https://chat.example.com/hook'}]";
        check(notify, NONE, Some(("`notify.url`", "http")));
        check("notify: [{command: [notify-send]}]", NONE, None);
        let search = "web: {search: {searxng: 'http://localhost:8888'}}";
        check(search, NONE, Some(("the search service of `web.search`", "web")));
        let agent = Some(("the tool WebFetch of the agent `reader` (in code/agent-1.yaml)", "web"));
        check("agents: {default: reader}", NONE, agent);
        check("agents: {default: reader}", Features { web: true, ..NONE }, None);
    }
}
