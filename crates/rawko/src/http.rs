//! Services over HTTP: models, and addresses that are notified. In its place is `without_http.rs` without the feature `http`.

use std::sync::Arc;

pub(crate) use rawko_provider::http::post_json;
use rawko_provider::{Provider, ProviderSettings};

use crate::error::Error;

/// The provider that `settings` describe.
pub(crate) fn connect(settings: ProviderSettings) -> Result<Arc<dyn Provider>, Error> {
    Ok(rawko_provider::connect(settings))
}
