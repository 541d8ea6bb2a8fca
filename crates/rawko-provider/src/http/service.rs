//! A model service over HTTP, in any wire format.
//!
//! Owns the provider type and what all its sessions share: settings, the HTTP client, and what was learnt about models.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rawko_core::error::{ErrorCode, ErrorInfo};
use reqwest::header::HeaderMap;
use reqwest::{Client, Url};
use serde_json::Value;

use crate::http;
use crate::http::call::read_bounded;
use crate::http::concession::LearntConcessions;
use crate::http::failure::AttemptFailure;
use crate::http::pictures::LearntPictureLimits;
use crate::http::session::HttpSession;
use crate::http::wire::WireFormat;
use crate::provider::{ModelInfo, ModelList, Provider, ProviderSession};
use crate::secret::{REDACTED, Secret, without};
use crate::settings::ProviderSettings;

/// The provider of models over the wire format `W`.
pub(crate) struct HttpProvider<W>(Arc<ModelService<W>>);

impl<W: WireFormat> HttpProvider<W> {
    /// The provider with these settings. Connects and loads nothing before the first request.
    pub(crate) fn new(settings: ProviderSettings) -> Self {
        Self(ModelService::new(settings))
    }
}

impl<W: WireFormat> Provider for HttpProvider<W> {
    fn name(&self) -> &str {
        &self.0.settings.name
    }

    fn default_model(&self) -> &str {
        &self.0.settings.default_model
    }

    fn open(&self) -> Box<dyn ProviderSession> {
        Box::new(HttpSession::new(Arc::clone(&self.0)))
    }

    fn secrets_in(&self, text: &str) -> Vec<Range<usize>> {
        self.0.secrets_in(text)
    }

    fn list_models(&self) -> ModelList<'_> {
        Box::pin(self.0.list_models())
    }
}

/// The most bytes of a list of models.
const MAX_LIST: usize = 8 * 1024 * 1024;

/// What all sessions of a provider share.
pub(crate) struct ModelService<W> {
    pub(crate) settings: ProviderSettings,
    pub(crate) wire: W,
    pub(crate) learnt: LearntConcessions,
    /// What was learnt about the pictures that models accept.
    pub(crate) picture_limits: LearntPictureLimits,
    /// Created by the first request: a provider that is configured but not used costs nothing.
    target: OnceLock<Result<HttpTarget, ErrorInfo>>,
}

/// Where requests go, and through which client.
pub(crate) struct HttpTarget {
    pub(crate) client: Client,
    pub(crate) messages: Url,
    pub(crate) headers: HeaderMap,
    /// The password in the base URL, which messages must not show, like the key.
    password: Option<Secret>,
}

impl<W: WireFormat> ModelService<W> {
    pub(crate) fn new(mut settings: ProviderSettings) -> Arc<Self> {
        settings.base_url = W::base_url(&settings.base_url).to_owned();
        let wire = W::new(&settings);
        let (learnt, picture_limits) = (LearntConcessions::default(), LearntPictureLimits::default());
        Arc::new(Self { settings, wire, learnt, picture_limits, target: OnceLock::new() })
    }

    pub(crate) fn target(&self) -> Result<&HttpTarget, ErrorInfo> {
        self.target.get_or_init(|| self.make_target()).as_ref().map_err(Clone::clone)
    }

    fn make_target(&self) -> Result<HttpTarget, ErrorInfo> {
        let messages = self.settings.endpoint(self.wire.messages_path())?;
        let config_error = |message: String| {
            self.finished(ErrorInfo::new(
                ErrorCode::ConfigError,
                format!("provider {}: {message}", self.settings.name),
            ))
        };
        let headers = self.wire.headers(self.settings.api_key.as_ref()).map_err(|_| {
            config_error(
                "the API key has characters that no HTTP header can carry; was it copied whole?".into(),
            )
        })?;
        let connect = Duration::from_millis(self.settings.timeouts.connect_ms);
        let client = http::client(&messages, connect)
            .map_err(|e| config_error(format!("no HTTP client could be made: {e}")))?;
        let password = messages.password().map(Secret::new);
        Ok(HttpTarget { client, messages, headers, password })
    }

    /// Completes an error that leaves this crate: adds the provider's name and removes the key.
    pub(crate) fn finished(&self, mut error: ErrorInfo) -> ErrorInfo {
        error.provider = Some(self.settings.name.clone());
        error.message = self.without_secrets(&error.message);
        if error.code == ErrorCode::AuthenticationFailed && self.settings.api_key.is_none() {
            error.message.push_str(&format!(
                "; no key was sent: name the variable that holds it in provider.{}.apiKeyEnv",
                self.settings.name
            ));
        }
        // An id that contains a secret is dropped, because a changed id is useless.
        error.request_id = error.request_id.filter(|id| self.without_secrets(id) == **id);
        error
    }

    /// Where key and password are in `text`.
    fn secrets_in(&self, text: &str) -> Vec<Range<usize>> {
        let mut places: Vec<Range<usize>> =
            self.settings.api_key.iter().flat_map(|key| key.found_in(text)).collect();
        let password = self.target.get().and_then(|t| t.as_ref().ok()).and_then(|t| t.password.as_ref());
        let keys = places.clone();
        let is_free =
            |place: &Range<usize>| !keys.iter().any(|key| key.start < place.end && place.start < key.end);
        places.extend(password.iter().flat_map(|word| word.found_always(text)).filter(is_free));
        places.sort_by_key(|place| place.start);
        places
    }

    /// `text` without key and password.
    pub(crate) fn without_secrets(&self, text: &str) -> String {
        without(text, &self.secrets_in(text))
    }

    /// The host of the requests, for people.
    pub(crate) fn host(&self) -> String {
        let target = self.target.get().and_then(|t| t.as_ref().ok());
        let Some(url) = target.map(|t| &t.messages) else { return REDACTED.to_owned() };
        match (url.host_str(), url.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (Some(host), None) => host.to_owned(),
            (None, _) => "the server".to_owned(),
        }
    }

    /// Asks for the list of models, without retries: a person is waiting for it.
    pub(crate) async fn list_models(&self) -> Result<Vec<ModelInfo>, ErrorInfo> {
        let target = self.target()?;
        let url = self.settings.endpoint(self.wire.models_path())?;
        let limit = Duration::from_millis(self.settings.timeouts.idle_ms.min(60_000));
        let ask = async {
            let request = target.client.get(url).headers(target.headers.clone());
            let response = request.send().await.map_err(|e| self.unreachable(e))?;
            let (status, headers) = (response.status(), response.headers().clone());
            let body = read_bounded(response, MAX_LIST).await.map_err(|e| self.unreachable(e))?;
            if !status.is_success() {
                return Err(AttemptFailure::from_response(status.as_u16(), &headers, &body));
            }
            serde_json::from_slice::<Value>(&body).map_err(|e| {
                AttemptFailure::permanent(
                    ErrorCode::InvalidRequest,
                    format!("the list of models is not JSON: {e}"),
                )
            })
        };
        let late = || {
            AttemptFailure::transient(
                ErrorCode::Timeout,
                "the server did not send its list of models in time",
            )
        };
        let answer = tokio::time::timeout(limit, ask).await.unwrap_or_else(|_| Err(late()));
        match answer {
            Ok(body) => Ok(self.wire.models(&body)),
            Err(failure) => Err(self.finished(*failure.info)),
        }
    }

    /// The failure for a connection that could not be opened or broke.
    pub(crate) fn unreachable(&self, error: reqwest::Error) -> AttemptFailure {
        let (connect, builder, timeout) = (error.is_connect(), error.is_builder(), error.is_timeout());
        // The address may contain credentials, so only the host is named.
        let cause = http::chain(&error.without_url());
        let host = self.host();
        if builder {
            return AttemptFailure::permanent(
                ErrorCode::ConfigError,
                format!("the request to {host} could not be made: {cause}"),
            );
        }
        let code = if timeout { ErrorCode::Timeout } else { ErrorCode::NetworkError };
        let hint = if connect {
            "; is the server running, and does the network or proxy let it through?"
        } else {
            ""
        };
        let what = if connect { "no connection to" } else { "the connection to" };
        let broke = if connect { "" } else { " broke" };
        AttemptFailure::transient(code, format!("{what} {host}{broke}: {cause}{hint}"))
    }
}
