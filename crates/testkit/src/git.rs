//! Git as a person in a test has it: with a name, and with no settings of the person who runs the tests.

use std::path::Path;
use std::process::Command;

/// Git in this folder, whatever the environment of the tests says.
#[must_use]
pub fn git_command(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]);
    command.current_dir(folder);
    command
}

/// What git says in this folder.
///
/// # Panics
/// If git refuses.
#[track_caller]
pub fn git(folder: &Path, arguments: &[&str]) -> String {
    said(git_command(folder).args(arguments))
}

/// What a command of git says.
///
/// # Panics
/// If git refuses.
#[track_caller]
#[allow(clippy::unwrap_used)]
pub fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
