//! `rawko fleet steer ID COMMAND`: gives a task one of the commands that `rawko steer` takes.

use rawko_temporal::FleetError;
use serde_json::json;

use super::arguments::{CancelTasksArgs, SteerTaskArgs};
use super::cancel;
use super::connection::{FleetAddress, of_error};
use crate::commands::steer::{SteerRequest, command};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::runtime::block_on;
use crate::workspace::Workspace;

pub(super) fn run(workspace: &Workspace, arguments: &SteerTaskArgs) -> Result<Exit, Failure> {
    let id = &arguments.task;
    let command = match command(&arguments.words)? {
        SteerRequest::Override(command) => command,
        SteerRequest::Cancel => {
            let (tasks, connection) = (vec![id.clone()], arguments.connection.clone());
            let cancel =
                CancelTasksArgs { tasks, connection, output: arguments.output, ..CancelTasksArgs::default() };
            return cancel::run(workspace, &cancel);
        }
    };
    let target = FleetAddress::of(workspace, &arguments.connection)?;
    let ignored = block_on(async {
        match target.connect().await?.steer(id, command.clone()).await {
            Ok(()) => Ok(None),
            Err(FleetError::Refused(why)) => Ok(Some(why)),
            Err(error) => Err(of_error(&error)),
        }
    })?;
    let value = json!({
        "id": id, "command": command, "taken": ignored.is_none(), "reason": ignored.as_deref(),
    });
    workspace.console.output(arguments.output.json, &value, |_| {
        let name = clean_line(id);
        match &ignored {
            Some(why) => format!("task {name} ignored `{}`: {}\n", command.word(), clean_line(why)),
            None => format!("task {name} has taken `{}`\n", command.word()),
        }
    })?;
    Ok(if ignored.is_some() { Exit::Failed } else { Exit::Success })
}
