//! The same attacks by other users and on other machines: as a user without rights, and where the kernel makes no
//! namespaces. The tests of this program are run again by its own copy.
#![cfg(target_os = "linux")]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::injection::BY_LANDLOCK;
use crate::sandbox::is_possible;
use crate::support::BINARY;

const NOBODY: u32 = 65_534;

/// The attempts that differ by user: who may signal, look into processes, give away files and make namespaces.
const AS_NOBODY: &[&str] = &[
    "injection::a_comment_sends_the_environment",
    "injection::a_process_lives_on",
    "injection::a_link_leads_out",
    "injection::the_runner_is_killed",
    "injection::the_walls_are_taken_down",
    "injection::python_reads_its_parents",
    "secrets::a_command_that_looks_for_the_key_everywhere",
    "secrets::a_confined_command_that_looks_for_the_key_everywhere",
    "secrets::a_crash_leaves_no_core",
    "secrets::what_is_kept_is_its_users_alone",
    "git_repositories::a_bare_repository_that_a_command_makes",
    "git_repositories::temporary_folders_are_their_users_alone_and_go",
    "isolated::the_work_is_the_projects_only_at_the_end",
    "isolated::what_is_not_verified_is_kept_aside",
    "isolated::a_killed_run_is_resumed_in_its_tree",
    "isolated::ignored_folders_are_there_and_stay_as_they_are",
    "sandbox::a_command_stays_in_the_project",
    "sandbox::without_namespaces_landlock_confines",
];

/// The attempts that differ where nothing can be laid over a folder: keys, neighbours, the network and what stays.
const BY_LANDLOCK_ALONE: &[&str] = &[
    "injection::a_readme_sends_a_key",
    "injection::the_shell_is_changed",
    "injection::make_runs_a_recipe",
    "injection::a_process_lives_on",
    "injection::a_link_leads_out",
    "injection::datagrams_leave",
    "injection::a_socket_of_the_user",
    "injection::the_walls_are_taken_down",
];

/// Runs the tests with these names in a copy of this program, and expects all of them to pass.
#[track_caller]
fn run_again(names: &[&str], prepare: impl FnOnce(&mut Command)) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let copied = |from: &std::path::Path, name: &str| {
        let copy = folder.path().join(name);
        std::fs::copy(from, &copy).unwrap();
        std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).unwrap();
        copy
    };
    let tests = copied(&std::env::current_exe().unwrap(), "e2e");
    let rawko = copied(env!("CARGO_BIN_EXE_rawko").as_ref(), "rawko");
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    std::fs::set_permissions(&temporary, PermissionsExt::from_mode(0o1777)).unwrap();
    let mut command = Command::new(tests);
    command.args(names).args(["--test-threads", "3"]);
    command.current_dir(folder.path()).env(BINARY, rawko).env("TMPDIR", &temporary).env("HOME", &temporary);
    prepare(&mut command);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let passed = said.lines().filter(|line| line.ends_with("... ok")).count();
    assert!(passed >= names.len(), "only {passed} tests were run:\n{said}");
}

#[test]
fn the_attacks_as_a_user_without_rights() {
    if !rustix::process::geteuid().is_root() {
        testkit::skip("only root can become another user; the tests are run as an ordinary one already");
        return;
    }
    run_again(AS_NOBODY, |command| {
        command.uid(NOBODY).gid(NOBODY);
    });
}

#[test]
fn the_attacks_by_landlock_alone() {
    if !is_possible() {
        return;
    }
    run_again(BY_LANDLOCK_ALONE, |command| {
        command.env(BY_LANDLOCK, "1");
    });
}
