//! The login at a server over HTTP (OAuth 2.1, as the protocol's authorization page has it).
//!
//! `rmcp` does the protocol: it finds the authorization server, registers this client where that is possible, and checks
//! issuer, state and PKCE. Here is what a person and a file have to do with it.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationRequest, CredentialStore, OAuthClientConfig, OAuthState,
    StoredCredentials,
};

use crate::error::{McpError, chain};
use crate::http::{Client, HttpServer};

/// What a login gave, as text. Holds tokens.
pub type Credentials = String;

/// Keeps what a login gave. The text holds tokens: keep it where only the user reads it.
pub trait StoreCredentials: Send + Sync {
    /// What is kept; `None` where there is nothing.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn load(&self) -> Result<Option<Credentials>, String>;

    /// Keeps this, or nothing any more.
    ///
    /// # Errors
    /// Why it cannot be written.
    fn save(&self, credentials: Option<&Credentials>) -> Result<(), String>;
}

/// The library's view of the store.
struct CredentialAdapter(Arc<dyn StoreCredentials>);

#[async_trait]
impl CredentialStore for CredentialAdapter {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let text = self.0.load().map_err(AuthError::CredentialStoreError)?;
        let parsed = text.map(|text| serde_json::from_str(&text)).transpose();
        parsed.map_err(|error| AuthError::CredentialStoreError(error.to_string()))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let text = serde_json::to_string(&credentials)
            .map_err(|error| AuthError::CredentialStoreError(error.to_string()))?;
        self.0.save(Some(&text)).map_err(AuthError::CredentialStoreError)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.0.save(None).map_err(AuthError::CredentialStoreError)
    }
}

/// A login that is wanted.
#[derive(Debug, Clone)]
pub struct Login {
    /// The server's address.
    pub url: String,
    /// What the server said: [`McpError::LoginNeeded`].
    pub challenge: Option<String>,
    /// Where the authorization server sends the person back to: an address of this machine's loopback.
    pub redirect: String,
    /// The client, where it was registered by hand.
    pub client: Option<Client>,
    /// The address of a document about this client, for servers that know clients by such documents.
    pub document: Option<String>,
}

/// Logs in: `visit` gets the address that the person is to open, and gives the address that the person was sent back to.
/// The result is in `store`.
///
/// # Errors
/// Why it did not work.
pub async fn login<F, V>(login: Login, store: Arc<dyn StoreCredentials>, visit: F) -> Result<(), McpError>
where
    F: FnOnce(String) -> V,
    V: Future<Output = Result<String, String>>,
{
    let failed = |error: AuthError| match &error {
        AuthError::RegistrationFailed(why) => McpError::NotRegistered(why.clone()),
        error => McpError::Login(chain(error)),
    };
    let scopes = more_scopes(&*store, login.challenge.as_deref());
    let mut manager = manager(&login.url).await.map_err(failed)?;
    manager.set_credential_store(CredentialAdapter(store));
    let mut state = OAuthState::Unauthorized(manager);
    let mut request = AuthorizationRequest::new(login.redirect).with_client_name("rawko");
    if let Some(Client { id, secret }) = login.client {
        request = request.with_preregistered_client(id);
        if let Some(secret) = secret {
            request = request.with_client_secret(secret);
        }
    }
    if let Some(document) = login.document {
        request = request.with_client_metadata_url(document);
    }
    if let Some(challenge) = login.challenge {
        request = request.with_challenge(challenge);
    }
    if !scopes.is_empty() {
        request = request.with_scopes(scopes);
    }
    state.start_authorization(request).await.map_err(failed)?;
    let address = state.get_authorization_url().await.map_err(failed)?;
    let back = visit(address).await.map_err(McpError::Login)?;
    state.handle_callback_url(&back).await.map_err(failed)
}

/// The scopes of an earlier login together with those that the server wants now: without the earlier ones, what worked before
/// would be refused. Empty where either is not known; then the library chooses.
fn more_scopes(store: &dyn StoreCredentials, challenge: Option<&str>) -> Vec<String> {
    let kept = store.load().ok().flatten();
    let earlier: Option<StoredCredentials> = kept.and_then(|text| serde_json::from_str(&text).ok());
    let wanted = challenge.and_then(|challenge| challenge.split_once("scope=\"")?.1.split('"').next());
    let (Some(earlier), Some(wanted)) = (earlier, wanted) else { return Vec::new() };
    let mut scopes = earlier.granted_scopes;
    for scope in wanted.split_ascii_whitespace() {
        if !scopes.iter().any(|known| known == scope) {
            scopes.push(scope.to_owned());
        }
    }
    scopes
}

/// What adds the tokens of `store` to requests; `None` where there are none.
pub(crate) async fn authorized(
    server: &HttpServer,
    store: Arc<dyn StoreCredentials>,
) -> Result<Option<AuthorizationManager>, McpError> {
    if store.load().map_err(McpError::Login)?.is_none() {
        return Ok(None);
    }
    let failed = |error: AuthError| McpError::Login(chain(&error));
    let mut manager = manager(&server.url).await.map_err(failed)?;
    manager.set_credential_store(CredentialAdapter(store));
    if !manager.initialize_from_store().await.map_err(failed)? {
        return Ok(None);
    }
    // The store has no secret, and a token is not refreshed without it. No redirect belongs to that.
    if let Some(Client { id, secret: Some(secret) }) = &server.client {
        let config = OAuthClientConfig::new(id, &server.url).with_client_secret(secret);
        manager.configure_client(config).map_err(failed)?;
    }
    Ok(Some(manager))
}

/// The library makes clients of its own here, which refuse addresses of private networks that a server names. They take
/// their cryptography from the process.
async fn manager(url: &str) -> Result<AuthorizationManager, AuthError> {
    // Another one may be there already: it does as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    AuthorizationManager::new(url).await
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Kept(Option<&'static str>);

    impl StoreCredentials for Kept {
        fn load(&self) -> Result<Option<Credentials>, String> {
            Ok(self.0.map(str::to_owned))
        }

        fn save(&self, _: Option<&Credentials>) -> Result<(), String> {
            Ok(())
        }
    }

    #[track_caller]
    fn check(kept: Option<&'static str>, challenge: Option<&str>, expected: &[&str]) {
        assert_eq!(more_scopes(&Kept(kept), challenge), expected);
    }

    #[test]
    fn a_second_login_asks_for_what_the_first_gave_too() {
        let kept = Some(r#"{"client_id": "c", "token_response": null, "granted_scopes": ["read", "list"]}"#);
        let challenge =
            Some(r#"Bearer error="insufficient_scope", scope="write read", resource_metadata="x""#);
        check(kept, challenge, &["read", "list", "write"]);
        check(None, challenge, &[]);
        check(kept, Some("Bearer"), &[]);
        check(kept, None, &[]);
        check(Some("{"), challenge, &[]);
    }
}
