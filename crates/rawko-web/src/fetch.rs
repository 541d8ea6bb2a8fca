//! One page: from its address through redirects to its bytes.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rawko_core::tool::Refusal;
use rawko_provider::http;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};

use crate::admission::{LookUp, NotAdmitted, admit};
use crate::body::{self, Body, BodyLimits};
use crate::target::{TargetError, WebAddress};

const ACCEPTED: &str = "text/markdown, text/html;q=0.9, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5";

/// What a fetch may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FetchLimits {
    /// For everything, redirects included.
    pub(crate) total: Duration,
    pub(crate) connect: Duration,
    /// Without a byte from the server.
    pub(crate) idle: Duration,
    pub(crate) redirects: usize,
    pub(crate) body: BodyLimits,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            total: Duration::from_secs(60),
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(20),
            redirects: 8,
            body: BodyLimits { received: 5 * 1024 * 1024, decoded: 10 * 1024 * 1024 },
        }
    }
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// Where it is, after redirects.
    pub(crate) target: WebAddress,
    pub(crate) status: u16,
    /// As the server names it; empty if it does not.
    pub(crate) content_type: String,
    pub(crate) body: Body,
}

/// Why there is no page.
#[derive(Debug)]
pub(crate) struct FetchError {
    /// The address that led to the one that failed, if it was a redirect.
    from: Option<String>,
    to: String,
    fault: FetchFault,
}

#[derive(Debug)]
enum FetchFault {
    Target(TargetError),
    NotAdmitted(NotAdmitted),
    Downgrade,
    TooManyRedirects(usize),
    NoLocation(u16),
    TimedOut(Duration),
    Failed(String),
}

impl FetchError {
    /// What a person can grant, so that the call goes further.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match &self.fault {
            FetchFault::NotAdmitted(refused) => refused.refusal(),
            _ => None,
        }
    }

    /// Whether it is a matter of rights.
    pub(crate) fn is_denial(&self) -> bool {
        self.refusal().is_some() || matches!(self.fault, FetchFault::Target(_) | FetchFault::Downgrade)
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, fault } = self;
        if let Some(from) = from {
            write!(f, "{from} redirects to {to}. ")?;
        }
        match fault {
            FetchFault::Target(error) => write!(f, "This address is not fetched: {error}."),
            FetchFault::NotAdmitted(refused @ NotAdmitted::Unknown { .. }) => write!(f, "{to} was not reached: {refused}."),
            FetchFault::NotAdmitted(refused) => write!(f, "{to} was not fetched: {refused}"),
            FetchFault::Downgrade => f.write_str(
                "That is not followed, because it leads from an encrypted connection to one that is not. Fetch that address \
                 itself if it is meant.",
            ),
            FetchFault::TooManyRedirects(most) => {
                write!(f, "After {most} redirects there is no page. Fetch the address that it should lead to.")
            }
            FetchFault::NoLocation(status) => {
                write!(f, "{to} answered with status {status}, a redirect that names no address.")
            }
            FetchFault::TimedOut(limit) => write!(f, "{to} was not fetched within {} s.", limit.as_secs_f64()),
            FetchFault::Failed(why) => write!(f, "{to} was not fetched: {why}."),
        }
    }
}

/// Fetches pages within limits.
#[derive(Clone)]
pub(crate) struct Fetcher {
    pub(crate) look_up: LookUp,
    pub(crate) limits: FetchLimits,
}

impl Fetcher {
    /// Fetches `target`, if `granted` grants it and all that it redirects to.
    pub(crate) async fn fetch(&self, target: WebAddress, granted: &[String]) -> Result<Fetched, FetchError> {
        let to = shown(&target);
        let all = self.follow(target, granted);
        tokio::time::timeout(self.limits.total, all).await.unwrap_or(Err(FetchError {
            from: None,
            to,
            fault: FetchFault::TimedOut(self.limits.total),
        }))
    }

    async fn follow(&self, mut target: WebAddress, granted: &[String]) -> Result<Fetched, FetchError> {
        let mut from = None;
        for _ in 0..=self.limits.redirects {
            let failed = |fault| FetchError { from: from.clone(), to: shown(&target), fault };
            let response = self.ask(&target, granted).await.map_err(failed)?;
            let status = response.status().as_u16();
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                let header = response.headers().get(CONTENT_TYPE);
                let content_type = header.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
                let body = body::read(response, self.limits.body)
                    .await
                    .map_err(FetchFault::Failed)
                    .map_err(failed)?;
                return Ok(Fetched { target, status, content_type: content_type.unwrap_or_default(), body });
            }
            let location = response.headers().get(LOCATION);
            let location = location.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            let location = location.ok_or(FetchFault::NoLocation(status)).map_err(failed)?;
            let here = shown(&target);
            let unfit = |fault| FetchError {
                from: Some(here.clone()),
                to: rawko_core::text::truncate(&location, SHOWN),
                fault,
            };
            let next = redirected(&target, &location).map_err(unfit)?;
            from = Some(here);
            target = next;
        }
        let fault = FetchFault::TooManyRedirects(self.limits.redirects);
        Err(FetchError { from, to: shown(&target), fault })
    }

    /// One request, to the addresses that were judged and to no others.
    async fn ask(&self, target: &WebAddress, granted: &[String]) -> Result<Response, FetchFault> {
        let (judged, granted, look_up) = (target.clone(), granted.to_vec(), Arc::clone(&self.look_up));
        let admitted = tokio::task::spawn_blocking(move || admit(&judged, &granted, &look_up));
        let admitted = admitted.await.map_err(|error| FetchFault::Failed(error.to_string()))?;
        let addresses = admitted.map_err(FetchFault::NotAdmitted)?;
        let client = self.client(target, addresses).map_err(FetchFault::Failed)?;
        let request =
            client.get(target.url.clone()).header(ACCEPT, ACCEPTED).header(ACCEPT_ENCODING, body::ACCEPTED);
        request.send().await.map_err(|error| FetchFault::Failed(http::chain(&error.without_url())))
    }

    /// A client for one request. Through a proxy it would be the proxy that looks the name up, after it was judged.
    fn client(&self, target: &WebAddress, addresses: Vec<SocketAddr>) -> Result<Client, String> {
        Client::builder()
            .tls_backend_preconfigured(http::tls(&target.url)?)
            .no_proxy()
            .redirect(Policy::none())
            .referer(false)
            .dns_resolver(Arc::new(Pinned(addresses)))
            .pool_max_idle_per_host(0)
            .connect_timeout(self.limits.connect)
            .read_timeout(self.limits.idle)
            .user_agent(http::USER_AGENT)
            .build()
            .map_err(|error| http::chain(&error))
    }
}

/// Where a redirect leads, if rawko may follow it there.
fn redirected(from: &WebAddress, location: &str) -> Result<WebAddress, FetchFault> {
    let next = from.join(location).map_err(FetchFault::Target)?;
    if from.url.scheme() == "https" && next.url.scheme() != "https" {
        return Err(FetchFault::Downgrade);
    }
    Ok(next)
}

/// Every name leads to these addresses: no name server is asked a second time.
struct Pinned(Vec<SocketAddr>);

impl Resolve for Pinned {
    fn resolve(&self, _: Name) -> Resolving {
        let addresses: Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

/// Characters of an address in a message.
const SHOWN: usize = 300;

fn shown(target: &WebAddress) -> String {
    rawko_core::text::truncate(target.url.as_str(), SHOWN)
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
