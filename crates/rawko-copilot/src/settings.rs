//! The settings of the provider: the CLI, an account or a key of the user's own, and the part of the environment that
//! the CLI sees.
//!
//! Owns the names of variables. The environment itself is an argument.

use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rawko_core::error::{ErrorCode, ErrorInfo};
use rawko_provider::{Secret, Timeouts};
use serde_json::{Map, Value, json};

/// The variables that hold a GitHub token, in the CLI's own order.
pub const TOKEN_VARIABLES: &[&str] = &["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"];

/// The model where nothing names one: the CLI chooses.
pub const DEFAULT_MODEL: &str = "auto";

/// The variable with the path of the CLI.
pub const CLI_VARIABLE: &str = "COPILOT_CLI_PATH";

/// Bring-your-own-key mode: this variable turns it on.
const BASE_URL: &str = "COPILOT_PROVIDER_BASE_URL";

/// Bring-your-own-key mode: variables, and the fields of the SDK's `ProviderConfig` that they are.
const OWN_SERVER: &[(&str, &str)] = &[
    (BASE_URL, "baseUrl"),
    ("COPILOT_PROVIDER_TYPE", "type"),
    ("COPILOT_PROVIDER_API_KEY", "apiKey"),
    ("COPILOT_PROVIDER_API_KEY_COMMAND", "apiKeyCommand"),
    ("COPILOT_PROVIDER_BEARER_TOKEN", "bearerToken"),
    ("COPILOT_PROVIDER_WIRE_API", "wireApi"),
    ("COPILOT_PROVIDER_TRANSPORT", "transport"),
    ("COPILOT_PROVIDER_MODEL_ID", "modelId"),
    ("COPILOT_PROVIDER_WIRE_MODEL", "wireModel"),
];

/// What else the CLI sees of the environment: where to find programs, the network, certificates and the user's login.
/// Nothing that changes what it does.
const PASSED_ON: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "GH_HOST",
    "COPILOT_GH_HOST",
    "GH_CONFIG_DIR",
    "COPILOT_OFFLINE",
];

/// A server of the user's own, which the CLI asks instead of GitHub's.
#[derive(Clone)]
pub(crate) struct OwnServer {
    /// The SDK's `ProviderConfig`, without its secrets.
    fields: Map<String, Value>,
    secrets: Vec<(&'static str, Secret)>,
}

impl OwnServer {
    fn of(env: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        env(BASE_URL).filter(|url| !url.trim().is_empty())?;
        let (mut fields, mut secrets) = (Map::new(), Vec::new());
        for (variable, field) in OWN_SERVER {
            let Some(value) = env(variable).filter(|value| !value.trim().is_empty()) else { continue };
            if matches!(*field, "apiKey" | "bearerToken") {
                secrets.push((*field, Secret::new(value)));
            } else {
                fields.insert((*field).to_owned(), value.trim().into());
            }
        }
        if let Some(version) = env("COPILOT_PROVIDER_AZURE_API_VERSION") {
            fields.insert("azure".to_owned(), json!({"apiVersion": version}));
        }
        Some(Self { fields, secrets })
    }

    /// The variables without which the CLI does not start offline, though each session names its server and its model.
    #[cfg_attr(not(feature = "sdk"), allow(dead_code, reason = "only the provider starts the CLI"))]
    pub(crate) fn variables<'a>(&'a self, model: &'a str) -> [(&'static str, &'a str); 2] {
        let address = self.fields.get("baseUrl").and_then(Value::as_str).unwrap_or_default();
        [(BASE_URL, address), ("COPILOT_MODEL", model)]
    }

    /// The SDK's `ProviderConfig` as JSON, with its secrets: for the CLI alone.
    #[cfg_attr(not(feature = "sdk"), allow(dead_code, reason = "only the provider opens sessions"))]
    pub(crate) fn exposed(&self, max_output: u32) -> Value {
        let mut fields = self.fields.clone();
        for (field, secret) in &self.secrets {
            fields.insert((*field).to_owned(), secret.expose().into());
        }
        fields.insert("maxOutputTokens".to_owned(), max_output.into());
        Value::Object(fields)
    }
}

/// Settings of the provider.
#[derive(Clone)]
pub struct CopilotSettings {
    /// The name under which it is configured.
    pub name: String,
    /// The model to use if none is named.
    pub default_model: String,
    /// The CLI's path or name, if the configuration has one.
    pub cli: Option<PathBuf>,
    /// A GitHub token. Without one, the CLI uses its own login.
    pub token: Option<Secret>,
    /// How long a call may take.
    pub timeouts: Timeouts,
    pub(crate) own_server: Option<OwnServer>,
    #[cfg_attr(not(feature = "sdk"), allow(dead_code, reason = "only what needs the SDK reads it"))]
    pub(crate) environment: Vec<(OsString, OsString)>,
    search: Option<OsString>,
    user_home: Option<PathBuf>,
}

impl CopilotSettings {
    /// The settings that the environment gives: a token, a server of the user's own, the CLI.
    #[must_use]
    pub fn new(name: impl Into<String>, env: &dyn Fn(&str) -> Option<String>) -> Self {
        let given = |variable: &str| env(variable).filter(|value| !value.trim().is_empty());
        let passed = PASSED_ON.iter().filter_map(|name| Some(((*name).into(), given(name)?.into())));
        let home = given("COPILOT_HOME").map(PathBuf::from);
        Self {
            name: name.into(),
            default_model: given("COPILOT_MODEL").unwrap_or_else(|| DEFAULT_MODEL.to_owned()),
            cli: given(CLI_VARIABLE).map(PathBuf::from),
            token: TOKEN_VARIABLES.iter().find_map(|variable| given(variable)).map(Secret::new),
            timeouts: Timeouts { idle_ms: 300_000, ..Timeouts::default() },
            own_server: OwnServer::of(env),
            environment: passed.collect(),
            search: given("PATH").map(OsString::from),
            user_home: home.or_else(|| Some(Path::new(&given("HOME")?).join(".copilot"))),
        }
    }

    /// Whether the models are those of a server of the user's own.
    #[must_use]
    pub fn has_own_server(&self) -> bool {
        self.own_server.is_some()
    }

    /// The CLI that is started.
    ///
    /// # Errors
    /// `config_error` if there is none; says how to install it.
    pub fn program(&self) -> Result<PathBuf, ErrorInfo> {
        let wanted = self.cli.clone().unwrap_or_else(|| PathBuf::from("copilot"));
        if wanted.components().count() > 1 {
            return if wanted.is_file() { Ok(wanted) } else { Err(self.missing(&wanted)) };
        }
        let folders = self.search.iter().flat_map(std::env::split_paths);
        // A relative folder would be searched in the project.
        let mut found = folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(&wanted));
        found.find(|path| path.is_file()).ok_or_else(|| self.missing(&wanted))
    }

    fn missing(&self, wanted: &Path) -> ErrorInfo {
        let mut error = ErrorInfo::new(
            ErrorCode::ConfigError,
            format!(
                "provider {}: the Copilot CLI `{}` was not found; install it with `npm install -g @github/copilot`, or \
                 name it in {CLI_VARIABLE} or provider.{}.cli",
                self.name,
                wanted.display(),
                self.name
            ),
        );
        error.provider = Some(self.name.clone());
        error
    }

    /// The parts of the user's own `config.json` of the CLI that say who is logged in; `None` if there are none.
    #[cfg_attr(not(feature = "sdk"), allow(dead_code, reason = "only the provider starts the CLI"))]
    pub(crate) fn login(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.user_home.as_ref()?.join("config.json")).ok()?;
        login_of(&text)
    }

    /// Where secrets of this provider are in `text`, in order.
    #[cfg_attr(not(feature = "sdk"), allow(dead_code, reason = "only what needs the SDK reads it"))]
    pub(crate) fn secrets_in(&self, text: &str) -> Vec<Range<usize>> {
        let own = self.own_server.iter().flat_map(|own| &own.secrets).map(|(_, secret)| secret);
        let mut places: Vec<_> = self.token.iter().chain(own).flat_map(|key| key.found_in(text)).collect();
        places.sort_by_key(|place| place.start);
        places.dedup_by(|next, kept| next.start < kept.end);
        places
    }
}

/// Who is logged in, from the text of the CLI's `config.json`: JSON with lines of comments.
fn login_of(text: &str) -> Option<String> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let config: Map<String, Value> = serde_json::from_str(&lines.collect::<Vec<_>>().join("\n")).ok()?;
    let of_login = |key: &String| {
        matches!(
            key.as_str(),
            "loggedInUsers"
                | "lastLoggedInUser"
                | "copilotTokens"
                | "authTokens"
                | "logged_in_users"
                | "last_logged_in_user"
                | "copilot_tokens"
        )
    };
    let login: Map<String, Value> = config.into_iter().filter(|(key, _)| of_login(key)).collect();
    (!login.is_empty()).then(|| Value::Object(login).to_string())
}

impl fmt::Debug for CopilotSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopilotSettings")
            .field("name", &self.name)
            .field("default_model", &self.default_model)
            .field("cli", &self.cli)
            .field("token", &self.token)
            .field("has_own_server", &self.has_own_server())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &'static [(&'static str, &'static str)]) -> CopilotSettings {
        CopilotSettings::new("copilot", &move |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_gives_token_server_and_model() {
        let found = settings(&[
            ("GITHUB_TOKEN", "ghp_canary_third_0123456789"),
            ("GH_TOKEN", "gho_canary_second_0123456789"),
            ("COPILOT_GITHUB_TOKEN", " "),
            ("COPILOT_PROVIDER_BASE_URL", "http://127.0.0.1:1/v1"),
            ("COPILOT_PROVIDER_API_KEY", "sk-canary-0123456789"),
            ("COPILOT_MODEL", "m1"),
            ("COPILOT_ALLOW_ALL", "true"),
            ("PATH", "/nowhere"),
        ]);
        assert_eq!(
            found.token.as_ref().map(|token| token.expose().to_owned()).as_deref(),
            Some("gho_canary_second_0123456789")
        );
        assert_eq!(found.default_model, "m1");
        let own = found.own_server.as_ref().unwrap().exposed(7);
        assert_eq!(
            own,
            json!({"baseUrl": "http://127.0.0.1:1/v1", "apiKey": "sk-canary-0123456789", "maxOutputTokens": 7})
        );
        let shown = format!("{found:?}");
        assert!(!shown.contains("canary"), "{shown}");
        let text = "keys gho_canary_second_0123456789 and sk-canary-0123456789";
        assert_eq!(found.secrets_in(text), [5..33, 38..58]);
        let passed: Vec<_> = found.environment.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(passed, ["PATH"], "no secret, and nothing that widens what the CLI does");
        assert_eq!(settings(&[]).default_model, "auto");
    }

    #[test]
    fn a_missing_cli_says_how_to_get_it() {
        let missing = settings(&[("PATH", "/nowhere:bin")]).program().unwrap_err();
        assert!(missing.message.contains("`npm install -g @github/copilot`"), "{}", missing.message);
        let named = CopilotSettings { cli: Some("/nowhere/copilot".into()), ..settings(&[]) };
        assert!(named.program().unwrap_err().message.contains("`/nowhere/copilot`"));
    }

    #[test]
    fn of_the_users_configuration_only_the_login_is_taken() {
        let text = "// Managed automatically.\n{\"loggedInUsers\": [{\"login\": \"me\"}], \"mcpServers\": {}, \"theme\": 1}";
        assert_eq!(login_of(text).as_deref(), Some("{\"loggedInUsers\":[{\"login\":\"me\"}]}"));
        assert_eq!(login_of("{\"theme\": 1}"), None);
        assert_eq!(login_of("nonsense"), None);
    }
}
