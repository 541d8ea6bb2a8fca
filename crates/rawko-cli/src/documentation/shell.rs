//! Runs every command line of README and book in bash, with stubs for the programs it names, and parses the arguments
//! of `rawko` with the real parser.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Parser as _;
use clap::error::ErrorKind;

use super::{Block, ROOT, blocks, pages};
use crate::arguments::{Cli, asks_for_build, with_command};

/// Programs that the documentation may name. Check that a new one is the right one before you add it here.
const PROGRAMS: &[&str] = &[
    "acpx",
    "cargo",
    "copilot",
    "gh",
    "git",
    "harbor",
    "head",
    "inspect",
    "jq",
    "just",
    "maturin",
    "mdbook",
    "npm",
    "pip",
    "python",
    "rawko-swebench",
    "sh",
    "sha256sum",
    "sudo",
];

/// What bash is given first: nothing is found but the programs of the test and mkdir, and the folder stays the test's.
const PRELUDE: &str =
    "real=$(type -P mkdir); PATH=$STUBS; cd() { :; }; mkdir() { \"$real\" \"$@\"; }; set -u\n";

/// Runs a script of the documentation without its effects: the arguments of each `rawko` in it, or why it is none.
fn calls(script: &str, paths: &BTreeSet<String>) -> Result<Vec<Vec<OsString>>, String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (bin, log) = (folder.path().join("bin"), folder.path().join("calls"));
    let install = |path: &Path, text: &str| {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a program");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a program");
    };
    install(&bin.join("rawko"), "#!/bin/sh\n{ printf '%s\\0' \"$@\"; printf '\\036'; } >>\"$RAWKO_CALLS\"\n");
    for program in PROGRAMS {
        install(&bin.join(program), "#!/bin/sh\n:\n");
    }
    for path in paths {
        install(&folder.path().join(path), "#!/bin/sh\n:\n");
    }
    // Input of redirections.
    for name in ["task.md", "calls.jsonl"] {
        fs::write(folder.path().join(name), "").expect("a file");
    }
    let output = Command::new("bash")
        .args(["--norc", "-c", &format!("{PRELUDE}{script}")])
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("STUBS", &bin)
        .env("HOME", folder.path())
        .env("RAWKO_CALLS", &log)
        .env("RUNNER_TEMP", folder.path())
        .env("GITHUB_RUN_ID", "1")
        .stdin(Stdio::null())
        .output()
        .expect("bash");
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    if !complaints.is_empty() {
        return Err(complaints);
    }
    let log = fs::read(&log).unwrap_or_default();
    let lines = log.split(|byte| *byte == 0x1e).filter(|line| !line.is_empty());
    let words = |line: &[u8]| {
        let text = String::from_utf8(line.to_vec()).expect("text");
        let words: Vec<OsString> = text.split_terminator('\0').map(OsString::from).collect();
        std::iter::once(OsString::from("rawko")).chain(words).collect()
    };
    Ok(lines.map(words).collect())
}

/// Why rawko refuses the command lines of a script. An error if the script calls what is not known.
pub(crate) fn refusals(script: &str) -> Result<Vec<String>, String> {
    calls(script, &BTreeSet::new()).map(|calls| calls.into_iter().filter_map(refusal).collect())
}

/// Why rawko would not take these arguments.
fn refusal(arguments: Vec<OsString>) -> Option<String> {
    if asks_for_build(&arguments) {
        return None;
    }
    let arguments = match with_command(arguments) {
        Ok(arguments) => arguments,
        Err(failure) => return Some(format!("{failure:?}")),
    };
    let error = Cli::try_parse_from(arguments).err()?;
    let is_fine = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    (!is_fine).then(|| error.to_string())
}

/// The script of a block; `None` if it is no commands. In a `console` only the lines with a prompt are.
fn script(block: &Block) -> Option<String> {
    let is_file = block.title().is_some();
    match block.language() {
        "sh" | "bash" | "shell" if !is_file => Some(block.text.clone()),
        "console" => {
            let typed = block.text.lines().filter_map(|line| line.strip_prefix("$ "));
            Some(typed.map(|line| format!("{line}\n")).collect())
        }
        _ => None,
    }
}

/// The scripts in the steps of a workflow of GitHub Actions.
fn steps(block: &Block) -> Vec<String> {
    let is_workflow = block.title().is_some_and(|title| title.starts_with(".github/workflows/"));
    if !is_workflow {
        return Vec::new();
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), &block.text).expect("a file");
    let workflow =
        rawko::config::read_data_file(file.path()).unwrap_or_else(|error| panic!("{}: {error}", block.place));
    assert!(workflow["on"].is_object() && workflow["permissions"].is_object(), "{}", block.place);
    let jobs = workflow["jobs"].as_object().unwrap_or_else(|| panic!("{}: no jobs", block.place));
    let mut scripts = Vec::new();
    for step in jobs.values().flat_map(|job| job["steps"].as_array().into_iter().flatten()) {
        assert!(step["uses"].is_string() != step["run"].is_string(), "{}: {step}", block.place);
        let variables = step["env"].as_object().into_iter().flat_map(|env| env.keys());
        let variables: String = variables.map(|name| format!("export {name}=VALUE\n")).collect();
        let run = step["run"].as_str().map(without_expressions);
        scripts.extend(run.map(|run| format!("{variables}{run}")));
    }
    assert!(
        jobs.values().all(|job| job["runs-on"].is_string() && job["steps"].is_array()),
        "{}",
        block.place
    );
    scripts
}

/// What GitHub puts in for `${{ … }}` is not known here.
fn without_expressions(run: &str) -> String {
    let mut text = String::new();
    let mut rest = run;
    while let Some((before, after)) = rest.split_once("${{") {
        text.push_str(before);
        text.push_str("VALUE");
        rest = after.split_once("}}").map_or("", |(_, rest)| rest);
    }
    text + rest
}

/// Scripts of the repository that a text names, to be played too. Whether they are there is checked.
fn named_scripts(script: &str) -> BTreeSet<String> {
    let words =
        script.split(|c: char| c.is_whitespace() || c == ';').map(|word| word.trim_start_matches("./"));
    let named = words.filter(|word| word.starts_with("scripts/") || *word == "test.sh" || *word == ".ci/run");
    named.filter(|word| Path::new(ROOT).join(word).is_file()).map(str::to_owned).collect()
}

#[test]
fn every_command_line_is_one_that_rawko_takes() {
    let mut wrong = Vec::new();
    let (mut checked, mut seen) = (0, BTreeSet::new());
    for block in pages().iter().filter(|page| !page.name.starts_with("docs/adr/")).flat_map(blocks) {
        if block.info.is_empty() && block.text.lines().any(|line| line.starts_with("rawko ")) {
            wrong.push(format!("{}: commands in a block without a language; make it `sh`", block.place));
        }
        for script in script(&block).into_iter().chain(steps(&block)) {
            match calls(&script, &named_scripts(&script)) {
                Err(complaint) => wrong.push(format!("{}: {complaint}", block.place)),
                Ok(calls) => {
                    checked += calls.len();
                    for call in calls {
                        seen.extend(call.get(1).map(|word| word.to_string_lossy().into_owned()));
                        let shown = format!("{}: {call:?}", block.place);
                        wrong.extend(refusal(call).map(|why| format!("{shown}: {why}")));
                    }
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(checked >= 60 && seen.contains("resume") && seen.contains("doctor"), "{checked} {seen:?}");
}

#[test]
fn a_wrong_command_line_would_be_noticed() {
    assert_eq!(refusals("rawko doctor | jq . && rawko -c 'now the docs' # as above"), Ok(vec![]));
    assert_eq!(
        refusals("rawko --output json - < task.md; case $? in 0) ;; *) rawko resume ;; esac"),
        Ok(vec![])
    );
    assert!(refusals("rawko doctor --quickly").unwrap()[0].contains("--quickly"));
    assert!(refusals("if true; then rawko docter; fi").unwrap()[0].contains("rawko doctor"));
    assert!(refusals("unheard-of rawko").unwrap_err().contains("unheard-of"));
    assert!(refusals("scripts/nothing.sh").unwrap_err().contains("scripts/nothing.sh"));
    let step = "rawko \"${{ inputs.task }}\" --quiet";
    assert_eq!(without_expressions(step), "rawko \"VALUE\" --quiet");
}
