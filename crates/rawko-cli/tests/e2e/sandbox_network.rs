//! What the sandbox refuses of the network, it says: to the program, to the model and to the user. And what the user's files
//! hold of accounts does not reach a command.
#![cfg(target_os = "linux")]

use serde_json::{Value, json};

use testkit::{ModelServer, Who};

use crate::answers::{bash, call, complete, developer, report, select};
use crate::sandbox::{enforced, is_possible, tries};

/// The hosts that the call's outcome names as refused.
fn refused(outcome: &Value) -> Vec<&str> {
    let refused = outcome["refused"].as_array().into_iter().flatten();
    refused
        .filter(|refused| refused["type"] == "host")
        .filter_map(|refused| refused["host"].as_str())
        .collect()
}

/// The developer runs the command, which is refused these hosts.
#[track_caller]
fn check(command: &str, hosts: &[(&str, &str)]) {
    let (ended, output) = tries(enforced, command);
    let (_, note) = output.rsplit_once("[exit code").expect("a command that ended");
    for (host, entries) in hosts {
        let grant = entries.split('`').nth(1).expect("what grants it");
        let line = format!(
            "[The sandbox refused {host}: permissions.net does not grant it. Do without it, or name it in your report: \
             the user can add {entries}, or for one run: --allow-net={grant}.]"
        );
        assert_eq!(note.matches(&line).count(), 1, "{output}");
        let change = format!("add `- {host}` under permissions.net");
        let changes = ended.finish()["wouldAllow"].to_string();
        assert_eq!(changes.matches(&change).count(), 1, "{changes}");
    }
    let outcome = &ended.events_of("tool_finished").remove(0)["outcome"];
    assert_eq!(refused(outcome), hosts.iter().map(|(host, _)| *host).collect::<Vec<_>>(), "{outcome}");
}

fn has(program: &str) -> bool {
    let has =
        std::process::Command::new(program).arg("--version").output().is_ok_and(|made| made.status.success());
    if !has {
        testkit::skip(&format!("no {program} here"));
    }
    has && is_possible()
}

const PYPI: &str = "`pypi` (all hosts of that package manager) or `pypi.org`";

#[test]
fn a_refused_host_is_named_in_the_result() {
    if !has("curl") {
        return;
    }
    check(
        "curl -sS https://PyPI.org/simple/; curl -s http://pypi.org; curl -s https://evil.example.com:8443/; true",
        &[("pypi.org", PYPI), ("evil.example.com", "`evil.example.com`")],
    );
    check("curl -s https://127.0.0.1:9/ --noproxy ''; true", &[("127.0.0.1", "`127.0.0.1`")]);
    check("true", &[]);
    let fetch = "python3 -S -c 'import urllib.request as r; r.urlopen(\"https://proxy.golang.org/x\")' 2>&1 | tail -1";
    check(fetch, &[("proxy.golang.org", "`go` (all hosts of that package manager) or `proxy.golang.org`")]);
}

#[test]
fn a_refused_package_manager_says_what_to_ask_for() {
    if has("pip") {
        let command = "pip download --retries 0 --no-input -q rawko-there-is-none 2>&1 | tail -3; true";
        check(command, &[("pypi.org", PYPI)]);
    }
    if has("npm") {
        let entries = "`npm` (all hosts of that package manager) or `registry.npmjs.org`";
        check("npm view --fetch-retries=0 left-pad 2>&1 | tail -3; true", &[("registry.npmjs.org", entries)]);
    }
}

#[test]
fn commands_at_once_are_refused_each_its_own() {
    if !has("curl") {
        return;
    }
    let job = json!({"command": "curl -s https://of-the-job.example.com; sleep 0.2; touch done; sleep 60",
                     "run_in_background": true});
    let wait = "until [ -e done ]; do sleep 0.01; done; curl -s https://of-the-command.example.com; true";
    let ended = enforced(developer([call("Bash", &job), bash(wait), report("tried")])).run("Try it.");
    ended.exits(0);
    let outcome = &ended.events_of("tool_finished").remove(1)["outcome"];
    let content = outcome["content"].as_str().unwrap();
    let (command, job) = content.split_once("[background job 1").unwrap();
    assert!(
        command.contains("refused of-the-command.example.com") && !command.contains("of-the-job"),
        "{content}"
    );
    assert!(job.contains("refused of-the-job.example.com") && !job.contains("of-the-command"), "{content}");
    assert_eq!(refused(outcome), ["of-the-command.example.com", "of-the-job.example.com"]);
}

#[test]
fn verification_says_what_it_was_refused() {
    if !has("curl") {
        return;
    }
    let server = ModelServer::sequence([
        select("developer"),
        bash("echo once > made"),
        report("made"),
        complete("done"),
        select("developer"),
        bash("echo twice > made"),
        report("made again"),
        complete("done"),
    ]);
    let verify = json!(["grep twice made || curl -sf https://static.crates.io/x"]);
    let ended = enforced(server).user_config("/verify", verify).run("Try it.");
    ended.exits(0);
    let asked = ended.trial.server.asked();
    let failure = asked.iter().filter(|asked| asked.who() == Who::Select).nth(1).unwrap().last_text();
    assert!(
        failure.contains("The sandbox refused static.crates.io") && failure.contains("`cargo`"),
        "{failure}"
    );
}

#[test]
fn accounts_in_the_users_files_do_not_reach_a_command() {
    if !is_possible() {
        return;
    }
    let files = [
        (".gitconfig", "[user]\n\tname = Ann\n\temail = ann@example.com\n[http]\n\textraHeader = CANARY\n"),
        (".config/git/config", "[credential]\n\thelper = CANARY\n[core]\n\tautocrlf = input\n"),
        (".config/pip/pip.conf", "[global]\nindex-url = https://u:CANARY@example.com\n"),
        (".pip/pip.conf", "[global]\nindex-url = https://u:CANARY@example.com\n"),
        (".npmrc", "//registry.npmjs.org/:_authToken=CANARY\n"),
        (".pypirc", "[pypi]\npassword = CANARY\n"),
        (".cargo/credentials.toml", "[registry]\ntoken = \"CANARY\"\n"),
        (".cargo/credentials", "[registry]\ntoken = \"CANARY\"\n"),
        (".cargo/kept", "KEPT\n"),
        (".netrc", "machine a login b password CANARY\n"),
    ];
    let command = "git config user.name; git config core.autocrlf; cat ~/.cargo/kept; git config --list --show-origin; \
                   for file in ~/.gitconfig ~/.config/git/config ~/.config/pip/pip.conf ~/.pip/pip.conf ~/.npmrc \
                   ~/.pypirc ~/.cargo/credentials ~/.cargo/credentials.toml ~/.netrc; do cat $file; done 2>/dev/null; \
                   echo x >> made; git add made; git commit -qm made && git log --format=%an%ae";
    for grants_home in [false, true] {
        let trial = |server| {
            let trial = enforced(server);
            let home = trial.outside().join("home");
            for (name, content) in files {
                let file = home.join(name);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, content).unwrap();
            }
            let home = home.display().to_string();
            if grants_home { trial.user_config("/permissions/read", json!([".", home])) } else { trial }
        };
        // It looks for the canary.
        let (_, output) = tries(trial, command);
        assert!(output.contains("Ann\ninput\nKEPT\n") && output.contains("Annann@example.com"), "{output}");
    }
}
