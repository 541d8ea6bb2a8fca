//! Services over HTTP, in a program without them.

use std::sync::Arc;
use std::time::Duration;

use rawko_provider::{Provider, ProviderSettings};

use crate::error::Error;
use crate::features::lacks;

/// Says that the provider is not there.
pub(crate) fn connect(settings: ProviderSettings) -> Result<Arc<dyn Provider>, Error> {
    let what = format!("the provider `{}`", settings.name);
    Err(lacks("http", &what, "give the program a provider of its own: `RawkoBuilder::provider`"))
}

/// Says that it is not posted.
pub(crate) async fn post_json(_url: &str, _body: String, _patience: Duration) -> Result<(), String> {
    let help = "notify a program: `notify.command`";
    Err(lacks("http", "a notification to an address", help).to_string())
}
