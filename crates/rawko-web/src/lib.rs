//! The web for agents: `WebFetch` reads a page of a host that `permissions.net` grants, `WebSearch` asks a configured
//! search service (`docs/tools.md`).
//!
//! ```text
//! WebFetch ─▶ fetch (redirects) ─▶ target (one address, one spelling) ─▶ admission (grant, look-up, pinned addresses)
//!                              └─▶ body (bounded, decompressed) ─▶ page (text, Markdown, picture)
//! WebSearch ─▶ search (SearXNG, Brave)
//! ```
//!
//! Owns which address a request of an agent may reach: it is judged after each redirect, and what was judged is what is
//! connected to. Sends no cookie, no referrer and, but for the search service's own, no key. Refuses to run scripts.

mod admission;
mod body;
mod charset;
mod fetch;
mod html;
mod page;
mod search;
mod target;
mod tree;
mod web_fetch;
mod web_search;

pub use admission::{LookUp, system_look_up};
pub use search::SearchService;
pub use web_fetch::WebFetch;
pub use web_search::WebSearch;

/// Text from the web as it goes to a model: fenced, so that it cannot pass for words of rawko or the user.
fn fenced(from: &str, text: &str) -> String {
    format!("<data from=\"{from}\">\n{}\n</data>", rawko_core::arbiter::defuse(text.trim_end()))
}
