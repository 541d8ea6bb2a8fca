//! Finds the commit that is built, for `rawko --version --verbose`: of a packaged crate what cargo recorded, of a release build
//! in a checkout what git says. A debug build records none, because every commit would make it again.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RAWKO_COMMIT");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = std::env::var("RAWKO_COMMIT")
        .ok()
        .filter(|commit| !commit.is_empty())
        .or_else(of_package)
        .or_else(|| is_release.then(of_checkout).flatten());
    println!("cargo::rustc-env=RAWKO_BUILD_COMMIT={}", commit.unwrap_or_default());
    link_at_a_fixed_address();
    for (name, variable) in [("RAWKO_BUILD_TARGET", "TARGET"), ("RAWKO_BUILD_PROFILE", "PROFILE")] {
        println!("cargo::rustc-env={name}={}", std::env::var(variable).unwrap_or_default());
    }
}

/// Each command in the sandbox starts this program again. An executable that can be loaded anywhere has 57,000 addresses
/// written into it at each start (`docs/adr/0099-a-fixed-address.md`).
fn link_at_a_fixed_address() {
    let target = |part: &str| std::env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    let is_static = target("FEATURE").split(',').any(|feature| feature == "crt-static");
    if target("OS") == "linux" && target("ENV") == "gnu" && !is_static {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

/// The commit in `.cargo_vcs_info.json`, which `cargo package` puts beside the manifest.
fn of_package() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = text.split_once("\"sha1\": \"")?;
    let (commit, _) = rest.split_once('"')?;
    let is_dirty = text.contains("\"dirty\": true");
    Some(format!("{commit}{}", if is_dirty { "-dirty" } else { "" }))
}

/// The commit of the work tree that this is built in.
fn of_checkout() -> Option<String> {
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"])?;
    // Its last line changes with every commit, checkout and reset.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    Some(commit)
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
