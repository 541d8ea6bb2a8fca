//! Where a fleet is: options, then Temporal's own variables, then the configuration, then the defaults.

use std::ffi::OsString;
use std::sync::Arc;

use rawko::EventRedactor;
use rawko::config::{FleetConfig, TimeSpan};
use rawko_temporal::store::SharedStore;
use rawko_temporal::{DEFAULT_QUEUE, EngineAddress, Fleet, FleetError};

use super::arguments::ConnectionArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// Temporal's own variables, and the settings that they go before.
const VARIABLES: [(&str, &str); 3] =
    [("address", "TEMPORAL_ADDRESS"), ("namespace", "TEMPORAL_NAMESPACE"), ("profile", "TEMPORAL_PROFILE")];

/// A fleet that is not connected yet.
#[derive(Debug)]
pub(super) struct FleetAddress {
    /// Where the engine is.
    pub(super) engine: EngineAddress,
    /// The first word of the names of its queues.
    pub(super) queue: String,
    /// What its workers share.
    pub(super) store: SharedStore,
    /// Where the engine is, for people.
    pub(super) address: String,
    /// Whether no store was named: then it is this user's, on this machine.
    pub(super) has_default_store: bool,
    /// How long a worker may be silent before its step is another one's, if the configuration says so.
    pub(super) takeover: Option<TimeSpan>,
    /// All messages to the fleet pass through it.
    pub(super) redactor: Arc<EventRedactor>,
}

impl FleetAddress {
    /// The fleet that the options and the configuration name.
    ///
    /// # Errors
    /// If a value of the project's configuration counts and the folder is not trusted, or the store cannot be used.
    pub(super) fn of(workspace: &Workspace, arguments: &ConnectionArgs) -> Result<Self, Failure> {
        let environment = workspace.environment;
        let is_set = |name: &str| environment.var(name).is_some();
        let (config, redactor) = configured(workspace, arguments)?;
        let named = NamedTarget::of(arguments, &config, is_set);
        let default = || environment.data_dir().map(|data| data.join("fleet").join("store"));
        let (location, has_default_store) = match named.store {
            Some(store) => (store, false),
            None => match default() {
                Some(folder) => (folder.display().to_string(), true),
                None => {
                    return Err(Failure::usage("there is no folder for the store: HOME is not set")
                        .with_hint("name it: --store LOCATION, or set HOME"));
                }
            },
        };
        let text = |(name, value): &(OsString, OsString)| {
            Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
        };
        let secrets: Vec<(String, String)> = environment.secrets().iter().filter_map(text).collect();
        let store = SharedStore::open_with(&location, &secrets)
            .map_err(|error| of_error(&FleetError::from(error)).with_hint(STORES))?;
        let NamedTarget { address, namespace, profile, queue, .. } = named;
        let shown = address.clone().or_else(|| environment.var("TEMPORAL_ADDRESS"));
        let shown = shown.unwrap_or_else(|| "the usual address".to_owned());
        let engine = EngineAddress { address, namespace, profile, secrets };
        let queue = queue.unwrap_or_else(|| DEFAULT_QUEUE.to_owned());
        let takeover = config.takeover;
        Ok(Self {
            engine,
            queue,
            store,
            address: shown,
            has_default_store,
            takeover,
            redactor: Arc::new(redactor),
        })
    }

    /// Connects.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub(super) async fn connect(&self) -> Result<Fleet, Failure> {
        let connected =
            Fleet::connect(&self.engine, self.store.clone(), &self.queue, Arc::clone(&self.redactor));
        connected.await.map_err(|error| of_error(&error))
    }

    /// Where the store is, for people.
    pub(super) fn store_in_words(&self) -> String {
        let here = if self.has_default_store { " (for this machine alone)" } else { "" };
        format!("{}{here}", self.store.location())
    }
}

const STORES: &str = "--store takes an absolute path that all workers share, or s3://bucket/prefix";

/// What the user named.
#[derive(Debug, Default, PartialEq, Eq)]
struct NamedTarget {
    address: Option<String>,
    namespace: Option<String>,
    profile: Option<String>,
    queue: Option<String>,
    store: Option<String>,
}

impl NamedTarget {
    /// `is_set` says whether there is such a variable.
    fn of(arguments: &ConnectionArgs, configured: &FleetConfig, is_set: impl Fn(&str) -> bool) -> Self {
        // The SDK reads the variables itself.
        let or = |key: &str, given: &Option<String>, value: &Option<String>| {
            let variable = VARIABLES.iter().find(|(known, _)| *known == key).map(|(_, variable)| *variable);
            let counts = variable.is_none_or(|variable| !is_set(variable));
            given.clone().or_else(|| value.clone().filter(|_| counts))
        };
        Self {
            address: or("address", &arguments.address, &configured.address),
            namespace: or("namespace", &arguments.namespace, &configured.namespace),
            profile: or("profile", &arguments.profile, &configured.profile),
            queue: or("queue", &arguments.queue, &configured.queue),
            store: or("store", &arguments.store, &configured.store),
        }
    }
}

/// The settings of the configuration, and what takes secrets out. Settings of the project count if its folder is trusted.
fn configured(
    workspace: &Workspace,
    arguments: &ConnectionArgs,
) -> Result<(FleetConfig, EventRedactor), Failure> {
    let rawko = workspace.builder().trusted(true).build()?;
    let ConnectionArgs { address, namespace, profile, queue, store } = arguments;
    let all = [
        ("address", address),
        ("namespace", namespace),
        ("profile", profile),
        ("queue", queue),
        ("store", store),
    ];
    let provenance = &rawko.config().provenance;
    let counts = |key: &str| provenance.is_projects(&format!("/fleet/{key}"));
    if all.into_iter().any(|(key, given)| given.is_none() && counts(key)) {
        // Reports what the project claims, if it is not trusted.
        workspace.open_quietly()?;
    }
    Ok((rawko.config().config.fleet.clone(), rawko.event_redactor()))
}

/// An error of a fleet, with what to try.
pub(super) fn of_error(error: &FleetError) -> Failure {
    let exit = match error {
        FleetError::Settings(_) | FleetError::NoTask(_) | FleetError::OtherTask(_) | FleetError::Tree(_) => {
            Exit::Usage
        }
        _ => Exit::Failed,
    };
    let failure = Failure::new(exit, error.to_string());
    match error.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// Waits for the fleet, and gives its answer or what to try.
pub(super) trait OrFailure<T> {
    /// The same with the CLI's error.
    fn or_failure(self) -> Result<T, Failure>;
}

impl<T> OrFailure<T> for Result<T, FleetError> {
    fn or_failure(self) -> Result<T, Failure> {
        self.map_err(|error| of_error(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_go_before_variables_and_variables_before_the_configuration() {
        let text = |text: &str| Some(text.to_owned());
        let configured = FleetConfig {
            address: text("configured:1"),
            namespace: text("configured"),
            profile: None,
            queue: text("configured"),
            store: text("/configured"),
            takeover: None,
        };
        let arguments = ConnectionArgs { namespace: text("given"), ..ConnectionArgs::default() };
        let named =
            |variables: &[&str]| NamedTarget::of(&arguments, &configured, |name| variables.contains(&name));
        let without = named(&[]);
        assert_eq!((without.address, without.namespace), (text("configured:1"), text("given")));
        assert_eq!(
            (without.profile, without.queue, without.store),
            (None, text("configured"), text("/configured"))
        );
        // What the variables say is read by the SDK.
        let with = named(&["TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE"]);
        assert_eq!((with.address, with.namespace, with.queue), (None, text("given"), text("configured")));
    }

    #[test]
    fn an_error_says_what_to_try() {
        let report = |error| format!("{:?}", of_error(&error));
        assert!(report(FleetError::NoTask("one".to_owned())).contains("rawko fleet list"));
        let unreachable = FleetError::Unreachable {
            address: "http://localhost:1".to_owned(),
            message: "refused".to_owned(),
        };
        assert!(report(unreachable).contains("rawko fleet up"));
    }
}
