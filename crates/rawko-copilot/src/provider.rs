//! The provider: one CLI process, shared by all its sessions, started by the first of them.

use std::ops::Range;
use std::sync::Arc;

use rawko_core::error::{ErrorCode, ErrorInfo};
use rawko_provider::{ModelInfo, ModelList, Provider, ProviderSession, without};
use tokio::sync::Mutex;

use crate::cli::Cli;
use crate::session::CopilotSession;
use crate::settings::{CopilotSettings, DEFAULT_MODEL};

/// The models of GitHub Copilot, or of a server that the Copilot CLI asks instead.
pub struct CopilotProvider(Arc<Shared>);

impl CopilotProvider {
    /// The provider with these settings. Starts nothing before the first request.
    #[must_use]
    pub fn new(settings: CopilotSettings) -> Self {
        Self(Arc::new(Shared { settings, cli: Mutex::new(None) }))
    }
}

impl Provider for CopilotProvider {
    fn name(&self) -> &str {
        &self.0.settings.name
    }

    fn default_model(&self) -> &str {
        &self.0.settings.default_model
    }

    fn open(&self) -> Box<dyn ProviderSession> {
        Box::new(CopilotSession::new(Arc::clone(&self.0)))
    }

    fn secrets_in(&self, text: &str) -> Vec<Range<usize>> {
        self.0.settings.secrets_in(text)
    }

    fn list_models(&self) -> ModelList<'_> {
        Box::pin(async { self.0.list_models().await.map_err(|error| self.0.finished(error)) })
    }
}

/// What all sessions share.
pub(crate) struct Shared {
    pub(crate) settings: CopilotSettings,
    cli: Mutex<Option<Arc<Cli>>>,
}

impl Shared {
    /// The running CLI. Starts it if there is none, or if it has ended.
    pub(crate) async fn cli(&self) -> Result<Arc<Cli>, ErrorInfo> {
        let mut slot = self.cli.lock().await;
        if let Some(cli) = slot.as_ref().filter(|cli| cli.is_alive()) {
            return Ok(Arc::clone(cli));
        }
        let cli = Arc::new(Cli::start(&self.settings).await?);
        *slot = Some(Arc::clone(&cli));
        Ok(cli)
    }

    /// Completes an error that leaves this crate: adds the provider's name and removes secrets.
    pub(crate) fn finished(&self, mut error: ErrorInfo) -> ErrorInfo {
        error.provider = Some(self.settings.name.clone());
        error.message = without(&error.message, &self.settings.secrets_in(&error.message));
        error
    }

    async fn list_models(&self) -> Result<Vec<ModelInfo>, ErrorInfo> {
        let cli = self.cli().await?;
        if self.settings.has_own_server() {
            let named = Some(&self.settings.default_model).filter(|model| *model != DEFAULT_MODEL);
            return Ok(named
                .map(|id| ModelInfo { id: id.clone(), display_name: None })
                .into_iter()
                .collect());
        }
        let status = cli.client.get_auth_status().await.map_err(|error| cli.failed(&error))?;
        if !status.is_authenticated {
            let said = status.status_message.unwrap_or_else(|| "not logged in".to_owned());
            let mut error = crate::failure::of_words(&format!("GitHub Copilot: not authenticated ({said})"));
            error.code = ErrorCode::AuthenticationFailed;
            return Err(error);
        }
        let models = cli.client.list_models().await.map_err(|error| cli.failed(&error))?;
        Ok(models
            .into_iter()
            .map(|model| ModelInfo { id: model.id, display_name: Some(model.name) })
            .collect())
    }
}
