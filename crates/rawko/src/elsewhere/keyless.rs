//! A provider whose key is missing, in a process that may never need it.

use futures_util::stream;
use rawko_core::request::ModelRequest;
use rawko_core::{ErrorCode, ErrorInfo};
use rawko_provider::{EventStream, Provider, ProviderEvent, ProviderSession};

use crate::error::Error;

/// Fails every call, with the variable that should hold the key.
pub(crate) struct Keyless {
    pub(crate) provider: String,
    pub(crate) variable: String,
}

impl Provider for Keyless {
    fn name(&self) -> &str {
        &self.provider
    }

    fn default_model(&self) -> &str {
        ""
    }

    fn open(&self) -> Box<dyn ProviderSession> {
        let Self { provider, variable } = self;
        let missing = Error::NoKey { provider: provider.clone(), variable: variable.clone() };
        let mut error = ErrorInfo::new(ErrorCode::AuthenticationFailed, missing.to_string());
        error.provider = Some(provider.clone());
        Box::new(Refusing { error })
    }
}

struct Refusing {
    error: ErrorInfo,
}

impl ProviderSession for Refusing {
    fn send(&mut self, _: ModelRequest) -> EventStream<'_> {
        Box::pin(stream::iter([ProviderEvent::Error { error: self.error.clone(), usage: None }]))
    }
}
