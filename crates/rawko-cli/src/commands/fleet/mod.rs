//! Fleets (`docs/fleets.md`): `rawko worker`, `rawko submit` and `rawko fleet`. The commands are in every build, so
//! that one without the feature `fleet` says how to get them. Only builds with the feature can carry them out and list
//! them in the help.

#![cfg_attr(
    not(feature = "fleet"),
    allow(dead_code, reason = "options of commands that this build does not have")
)]

mod arguments;

#[cfg(feature = "fleet")]
mod approve;
#[cfg(feature = "fleet")]
mod cancel;
#[cfg(feature = "fleet")]
mod connection;
#[cfg(feature = "fleet")]
mod export;
#[cfg(feature = "fleet")]
mod git;
#[cfg(feature = "fleet")]
mod list;
#[cfg(feature = "fleet")]
mod phase;
#[cfg(feature = "fleet")]
mod server;
#[cfg(feature = "fleet")]
mod show;
#[cfg(feature = "fleet")]
mod steer;
#[cfg(feature = "fleet")]
mod submit;
#[cfg(feature = "fleet")]
mod task_list;
#[cfg(feature = "fleet")]
mod watch;
#[cfg(feature = "fleet")]
mod work;

pub(crate) use arguments::{FleetCommand, SubmitArgs, WorkerArgs};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// Runs a subcommand of `rawko fleet`.
#[cfg(feature = "fleet")]
pub(crate) fn run(workspace: &Workspace, action: FleetCommand) -> Result<Exit, Failure> {
    match action {
        FleetCommand::List(arguments) => list::run(workspace, &arguments),
        FleetCommand::Show(arguments) => show::run(workspace, &arguments),
        FleetCommand::Watch(arguments) => watch::run(workspace, &arguments),
        FleetCommand::Cancel(arguments) => cancel::run(workspace, &arguments),
        FleetCommand::Approve(arguments) => approve::run(workspace, &arguments),
        FleetCommand::Steer(arguments) => steer::run(workspace, &arguments),
        FleetCommand::Export(arguments) => export::run(workspace, &arguments),
        FleetCommand::Up(arguments) => server::run(workspace, &arguments),
    }
}

/// `rawko submit`.
#[cfg(feature = "fleet")]
pub(crate) fn submit(workspace: &Workspace, arguments: SubmitArgs) -> Result<Exit, Failure> {
    submit::run(workspace, arguments)
}

/// `rawko worker`.
#[cfg(feature = "fleet")]
pub(crate) fn worker(workspace: &Workspace, arguments: WorkerArgs) -> Result<Exit, Failure> {
    work::run(workspace, arguments)
}

/// Says how to get a build with fleets.
#[cfg(not(feature = "fleet"))]
pub(crate) fn run(_: &Workspace, _: FleetCommand) -> Result<Exit, Failure> {
    Err(not_built_in("rawko fleet"))
}

/// The same for `rawko submit`.
#[cfg(not(feature = "fleet"))]
pub(crate) fn submit(_: &Workspace, _: SubmitArgs) -> Result<Exit, Failure> {
    Err(not_built_in("rawko submit"))
}

/// The same for `rawko worker`.
#[cfg(not(feature = "fleet"))]
pub(crate) fn worker(_: &Workspace, _: WorkerArgs) -> Result<Exit, Failure> {
    Err(not_built_in("rawko worker"))
}

#[cfg(not(feature = "fleet"))]
fn not_built_in(command: &str) -> Failure {
    Failure::usage(format!("this rawko was built without fleets, so it has no `{command}`"))
        .with_hint("install one that has them: cargo install --locked rawko-cli --features fleet; docs/install.md says more")
}
