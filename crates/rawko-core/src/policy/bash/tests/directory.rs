//! `cd` into the project needs no entry of a list, however it is spelt; no `cd` leaves the project.

use super::{PROJECT, check};
use crate::agent::BashFilter;
use crate::policy::bash::{bash_permission, named_directories};

#[test]
fn a_command_that_begins_with_cd_to_the_project_is_not_refused() {
    check(
        &[
            "cd /home/me/project && ls",
            "cd /home/me/project; ls",
            "cd /home/me/project\nls",
            "cd /home/me/project/ && ls",
            "cd /home/me/project/src && git status",
            "cd '/home/me/project' && ls",
            "cd \"/home/me/project/src\" && ls",
            "cd /home/me/\"project\"/src && ls",
            "cd /home/me/project || exit 1",
            "cd /home/me/project || exit; ls",
            "cd /home/me/project 2>/dev/null && ls",
            "cd //home/me/./project//src/.. && ls",
            "cd /home/../home/me/project && ls",
            "cd -- /home/me/project && ls",
            "cd -P /home/me/project && ls",
            "cd -L /home/me/project && ls",
            "cd -Pe /home/me/project/src && ls",
            "(cd /home/me/project && ls)",
            "ls $(cd /home/me/project/src && ls)",
            "for f in a b; do cd /home/me/project && cat $f; done",
            "if cd /home/me/project; then ls; fi",
            "timeout 5 ls && cd /home/me/project && ls",
            "git -C /home/me/project log",
            "git -C /home/me/project/src -C sub log",
            "cd \\\n/home/me/project \\\n&& ls",
        ],
        true,
    );
}

#[test]
fn a_relative_directory_is_implied_too() {
    check(
        &[
            "cd . && ls",
            "cd ./src && ls",
            "cd src && ls",
            "cd src/ && ls",
            "cd \"src\" && ls",
            "cd -- src",
            "cd -P src",
            "cd src/../lib",
            "cd ./a/../b",
            "cd a/b; cd ..; ls",
            "cd src && ls && cd .. && ls",
            "cd src && { ls; cd ..; }",
            "cd a && cd b && cd ../.. && ls",
            "cd src || exit 1\ncd ..",
            "{ cd src; ls; }; cd ..",
            "cd 'with blank' && ls",
            "cd -- -odd",
            "cd ..odd",
            "cd /home/me/project/a/b && cd ../.. && ls",
            "! cd src",
        ],
        true,
    );
}

#[test]
fn no_cd_leaves_the_project() {
    check(
        &[
            "cd",
            "cd ..",
            "cd ../project",
            "cd -",
            "cd -- -",
            "cd ~",
            "cd ~/project",
            "cd ~me",
            "cd \"\"",
            "cd /",
            "cd /home/me",
            "cd /home/me/projects",
            "cd /home/me/project-evil",
            "cd /home/me/project/..",
            "cd /home/me/project/../project-evil",
            "cd /home/me/project/src/../..",
            "cd -P /home/me/project/src/..",
            "cd -P a/..",
            "cd -LP a/..",
            "cd $x",
            "cd \"$x\"",
            "cd \"$PWD\"",
            "cd /home/me/project/$x",
            "cd /home/me/project/*",
            "cd {/home/me/project,/}",
            "cd a b",
            "cd -x a",
            "cd -",
            "cd a/../..",
            "cd a; cd ../..",
            "(cd a); cd ..",
            "cd a | ls; cd ..",
            "cd a & cd ..",
            "cd a || cd ..",
            "ls || cd a; cd ..",
            "ls && cd a; cd ..",
            "[[ -d a ]] && cd a; cd ..",
            "! cd a && cd ..",
            "cd a <missing; cd ..",
            "{ cd a; } <missing; cd ..",
            "{ [[ -d a ]] && cd a; ls; } && cd ..",
            "{ ls && cd a; ls; } && cd ..",
            "ls && { cd a; }; cd ..",
            "cd a && { ls || cd b; } && cd ../..",
            "cd a && cd b || ls; cd ../..; cd ..",
            "if ls; then cd a; fi; cd ..",
            "cd a/b; for x in 1 2 3; do cd ..; done",
            "cd a; while ls; do cd ..; done",
            "cd a; $(cd b) cd ../..",
            "cd a/b; cd /home/me/project; cd ..",
            "cd a/b; ls || cd /home/me/project; cd ..",
            "cd a/b; cd -P link; cd ..",
            "cd a; ls `cd ..`",
            "command cd ..",
            "command cd /",
            "command cd a; cd ..",
            "cd a; command cd /home/me/project; cd ..",
            "cd a; env cd b; cd ../..",
            "env cd a",
            "xargs cd",
            "CDPATH=/ cd etc",
            "CDPATH=/; cd etc",
            "export CDPATH=/; cd etc",
            "read CDPATH; cd etc",
            "HOME=/ cd",
            "OLDPWD=/ cd -",
            "pushd src",
            "popd",
            "cd src && touch x",
            "cd src && ./run",
            "cd src && ../run",
            "cd /home/me/project && cat > x",
            "git -C .. status",
            "git -C /home/me status",
            "git -C /home/me/project/.. status",
            "cd src && git -C .. status",
        ],
        false,
    );
}

#[test]
fn exit_is_implied_after_a_failed_cd_alone() {
    check(&["cd src || exit", "cd src || exit 2", "cd a && cd b || exit 1"], true);
    check(
        &[
            "exit",
            "exit 1",
            "ls || exit 1",
            "cd src && exit 1",
            "cd src; exit 1",
            "cd src || exit 1 2",
            "cd src || exit $x",
            "cd src || exit 1 >x",
            "cd src || exit $(touch x)",
            "cd src || touch x",
            "cd src || exit 1 | touch x",
            "cd src && ls || exit 1",
        ],
        false,
    );
}

#[test]
fn blocked_patterns_hold_for_cd() {
    let filter =
        BashFilter { blocked_patterns: vec!["^cd /home/me/project/secret".into()], ..Default::default() };
    assert!(!bash_permission(&filter, PROJECT, "ls; cd '/home/me/project/secret'").is_allowed());
    assert!(bash_permission(&filter, PROJECT, "cd /home/me/project/src").is_allowed());
}

#[test]
fn where_the_project_is_not_known_only_relative_directories_are_implied() {
    let none = BashFilter { allowed_commands: Some(Vec::new()), ..Default::default() };
    assert!(bash_permission(&none, "", "cd src").is_allowed());
    assert!(!bash_permission(&none, "", "cd /").is_allowed());
    assert!(!bash_permission(&none, "relative", "cd /relative").is_allowed());
    assert!(bash_permission(&none, "/", "cd /anywhere").is_allowed());
}

#[track_caller]
fn check_named(command: &str, expected: &[&str]) {
    let named = named_directories(command, &|place| !place.contains("missing")).unwrap();
    assert_eq!(named.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{command}");
}

#[test]
fn the_directories_that_a_command_goes_to_can_be_looked_at() {
    check_named("ls", &[]);
    check_named(
        "cd src && cd ../lib; git -C a -C b log",
        &["src", "src/../lib", "src/../lib/a", "src/../lib/a/b"],
    );
    check_named("cd /x; cd y", &["/x", "/x/y"]);
    check_named("ls || cd a; cd b", &["a", "a/b", "b"]);
    check_named("timeout 5 git -C link log", &["link"]);
    check_named("/usr/bin/git -C link log", &["link"]);
    let many = "ls || cd a; ".repeat(300);
    assert!(named_directories(&many, &|_| true).is_err());
}

#[test]
fn a_cd_that_fails_leaves_the_shell_where_it_is() {
    check_named("cd missing; cd ..", &["..", "missing"]);
    check_named("cd src; ls; cd ..; ls", &["src", "src/.."]);
    check_named("cd src 5<&9; cd ..", &["..", "src", "src/.."]);
    check_named("cd missing; cd link; git log", &["link", "missing"]);
    check_named("(cd sub); git -C link log", &["link", "sub", "sub/link"]);
    check_named("cd missing && cd ..; git -C link log", &["..", "../link", "missing"]);
}

#[test]
fn many_packages_are_not_too_many_directories() {
    let command: String = ('a'..='h').map(|name| format!("(cd {name} && ls); ")).collect();
    let is_package = |place: &str| place.len() == 1;
    assert!(named_directories(&command, &is_package).is_ok());
}
