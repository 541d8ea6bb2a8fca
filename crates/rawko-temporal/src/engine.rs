//! The connection to the engine: its address and namespace, certificates and keys.

use std::collections::HashMap;
use std::time::Duration;

use temporalio_client::envconfig::LoadClientConfigProfileOptions;
use temporalio_client::{Client, ClientOptions, Connection, ConnectionOptions};
use temporalio_common::envconfig::load_client_config_profile;

use crate::codec::converter;
use crate::error::FleetError;
use crate::store::SharedStore;

/// How long the engine is waited for where it need not be there yet.
const BOOT: Duration = Duration::from_secs(300);
/// The namespace that is used unless another one is named.
const DEFAULT_NAMESPACE: &str = "default";
/// Between two attempts to reach it.
const BETWEEN: Duration = Duration::from_millis(500);

/// Where the engine is. Missing settings come from Temporal's own environment variables (`TEMPORAL_ADDRESS`,
/// `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`, `TEMPORAL_TLS_…`) and its `temporal.toml`; without them from its defaults.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EngineAddress {
    /// Host and port, or a URL.
    pub address: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The profile of `temporal.toml`.
    pub profile: Option<String>,
    /// Variables that are no longer in the process's environment, but count as if they were: keys.
    pub secrets: Vec<(String, String)>,
}

impl std::fmt::Debug for EngineAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineAddress")
            .field("address", &self.address)
            .field("namespace", &self.namespace)
            .field("profile", &self.profile)
            .finish_non_exhaustive()
    }
}

impl EngineAddress {
    /// Connects, with what all clients and workers of a fleet share.
    ///
    /// # Errors
    /// [`FleetError::Settings`], [`FleetError::Unreachable`].
    pub(crate) async fn connect(&self, store: &SharedStore) -> Result<Client, FleetError> {
        let mut load = LoadClientConfigProfileOptions::default();
        load.config_file_profile.clone_from(&self.profile);
        let wrong = |error: &dyn std::fmt::Display| FleetError::Settings(error.to_string());
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let variables: HashMap<String, String> =
            std::env::vars_os().filter_map(text).chain(self.secrets.iter().cloned()).collect();
        let profile = load_client_config_profile(load, Some(&variables)).map_err(|error| wrong(&error))?;
        let namespace = profile.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        let mut connection = ConnectionOptions::try_from(profile).map_err(|error| wrong(&error))?;
        let mut client = ClientOptions::new(namespace).build();
        if let Some(address) = &self.address {
            let scheme = if connection.tls_options.is_some() { "https" } else { "http" };
            let url = if address.contains("://") { address.clone() } else { format!("{scheme}://{address}") };
            connection.target = url.parse().map_err(|error| wrong(&format!("`{address}`: {error}")))?;
        }
        if let Some(namespace) = &self.namespace {
            namespace.clone_into(&mut client.namespace);
        }
        client.data_converter = converter(store);
        connection.connect_timeout = Some(Duration::from_secs(5));
        let address = connection.target.to_string();
        let connection = Connection::connect(connection)
            .await
            .map_err(|error| FleetError::Unreachable { address, message: chain(&error) })?;
        Client::new(connection, client).map_err(|error| FleetError::engine("be used", &error))
    }

    /// The same, where the engine may start later.
    ///
    /// # Errors
    /// As [`EngineAddress::connect`], after five minutes.
    pub(crate) async fn connect_in_time(&self, store: &SharedStore) -> Result<Client, FleetError> {
        let until = tokio::time::Instant::now() + BOOT;
        let mut is_first = true;
        loop {
            match self.connect(store).await {
                Err(error @ FleetError::Unreachable { .. }) if tokio::time::Instant::now() < until => {
                    if std::mem::take(&mut is_first) {
                        tracing::warn!(%error, "waiting for the engine");
                    }
                    tokio::time::sleep(BETWEEN).await;
                }
                result => return result,
            }
        }
    }
}

/// An error with all its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = cause.source();
    }
    text
}
