//! The real binary against a model server on loopback, in real repositories with a real shell.
//!
//! Every run of these tests also has to pass what must hold for all runs: see [`trial::Ended::check`]. Nothing of the
//! machine's environment reaches the binary, and nothing outside of a temporary directory is touched.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(feature = "acp")]
mod acp_agents;
mod adopted;
mod answers;
mod approvals;
mod arbiter;
mod arbiter_down;
mod attacks;
mod beginnings;
mod busy;
mod cache;
mod checkpoints;
mod checks_first;
#[cfg(feature = "telemetry")]
mod collector;
mod context_window;
mod continuing;
#[cfg(feature = "copilot")]
mod copilot;
mod cut_off;
mod durable;
mod endings;
mod evaluation;
mod expected_by_programs;
mod forks;
mod found_checks;
mod git_repositories;
mod habits;
mod hooks;
mod hybrid;
mod injection;
mod integrity;
mod isolated;
mod isolated_layouts;
mod journal;
mod keys;
mod limits;
mod logs;
mod mcp;
mod mcp_serve;
mod mcp_serve_client;
mod mcp_serve_end;
mod mcp_serve_http;
mod mcp_serve_tasks;
mod memory;
mod models;
mod newcomer;
mod notify;
mod of_the_user;
mod outages;
mod permissions;
mod plugins;
mod prompt_cache;
mod provider_search;
mod record;
mod recovery;
mod runaway;
mod sandbox;
mod sandbox_files;
mod sandbox_git;
mod sandbox_network;
mod sandbox_sockets;
mod sandbox_tools;
mod secrets;
mod server_faults;
mod services;
mod signals;
mod skills;
mod steering;
#[path = "../support/mod.rs"]
mod support;
#[cfg(feature = "telemetry")]
mod telemetry;
mod terminal;
mod thinking;
mod tls;
mod tools;
mod trial;
mod unmask;
mod usage;
mod users;
mod verification;
mod waits;
mod web;
mod whole_run;
mod wire;
#[cfg(not(feature = "acp"))]
mod without_acp;
