//! The operating system enforces the permissions of commands.
#![cfg(target_os = "linux")]

use serde_json::json;
use testkit::ModelServer;

use crate::answers::{bash, complete, developer, report, select};
use crate::trial::{Ended, Trial};

/// Whether the kernel lets this user make namespaces; else says that the test is skipped.
pub(crate) fn is_possible() -> bool {
    let made = std::process::Command::new("unshare").args(["--user", "--map-current-user", "true"]).output();
    let is_possible = made.is_ok_and(|made| made.status.success());
    if !is_possible {
        testkit::skip("no user namespaces here");
    }
    is_possible
}

pub(crate) fn enforced(server: ModelServer) -> Trial {
    Trial::new(server).user_config("/permissions/require", json!("enforced"))
}

fn off(server: ModelServer) -> Trial {
    Trial::new(server).user_config("/permissions/sandbox", json!("off"))
}

/// The output of `cat ../theirs`, and the first event.
#[track_caller]
fn looks_beside(trial: impl FnOnce(ModelServer) -> Trial) -> (String, serde_json::Value) {
    let trial = trial(developer([bash("cat ../theirs; echo here"), report("tried")]));
    std::fs::write(trial.outside().join("theirs"), "CANARY").unwrap();
    let ended = trial.run("Try it.");
    ended.exits(0);
    let (output, _) = ended.results("Bash").remove(0);
    assert!(output.contains("here"), "{output}");
    (output, ended.events_of("session_started")[0].clone())
}

#[test]
fn commands_are_confined_unless_the_user_turns_it_off() {
    if !is_possible() {
        return;
    }
    let (output, started) = looks_beside(Trial::new);
    assert!(!output.contains("CANARY"), "{output}");
    assert!(started["confined"].as_str().unwrap().starts_with("namespaces"), "{started}");
    assert_eq!(started["degraded"], json!([]));
    for without in [off, |server| Trial::new(server).args(&["--no-sandbox"])] {
        let (output, started) = looks_beside(without);
        assert!(output.contains("CANARY"), "{output}");
        assert!(started["confined"].is_null(), "{started}");
        assert!(started["degraded"][0].as_str().unwrap().contains("the sandbox is off"), "{started}");
    }
    // A required sandbox cannot be turned off.
    let (output, _) =
        looks_beside(|server| off(server).user_config("/permissions/require", json!("enforced")));
    assert!(!output.contains("CANARY"), "{output}");
}

#[test]
fn a_project_that_turns_it_off_needs_trust() {
    let config = json!({"permissions": {"sandbox": "off"}});
    let refused = Trial::new(developer([])).config(&config).run("Try it.");
    refused.exits(5).says(&["commands would run without a sandbox", "rawko trust"]);
    // Not if the user has turned it off too.
    off(developer([])).config(&config).run("Try it.").exits(0);
}

#[test]
fn a_session_that_began_without_a_sandbox_goes_on_in_one() {
    if !is_possible() {
        return;
    }
    let server = ModelServer::sequence([
        select("developer"),
        bash("touch ../free"),
        report("begun"),
        select("developer"),
        select("developer"),
        bash("touch ../escaped; cat ../theirs; echo here > made"),
        report("tried"),
        complete("well"),
    ]);
    let ended = off(server).args(&["--max-iterations", "1"]).run("Try it.");
    assert!(ended.trial.outside().join("free").exists());
    std::fs::write(ended.trial.outside().join("theirs"), "CANARY").unwrap();
    let trial = ended.trial.user_config("/permissions/sandbox", json!("auto"));
    let (_, stdout, stderr) = trial.ask(&["resume", "--max-iterations", "5", "--output", "stream-json"]);
    assert!(trial.project().join("made").exists(), "{stdout}{stderr}");
    assert!(!stdout.contains("CANARY") && !trial.outside().join("escaped").exists(), "{stdout}{stderr}");
    assert!(stdout.lines().next().unwrap().contains("\"confined\""), "{stdout}");
    assert_eq!(trial.rawko(&["replay", "last"]).0, Some(0));
}

/// What a container offers: no namespaces, but Landlock.
#[test]
fn without_namespaces_landlock_confines() {
    if !is_possible() {
        return;
    }
    let command = "echo mine > made; cat made ../theirs; echo x > ../theirs; touch ../x /etc/x; cat ~/.ssh/id; echo $HOME; \
                   (exec 3<>/dev/tcp/127.0.0.1/1) 2>&1; (setsid sleep 300 &); echo here";
    let trial = |server| {
        let trial =
            Trial::new(server).without_namespaces().user_config("/verify", json!(["grep -q mine made"]));
        std::fs::create_dir_all(trial.outside().join("home/.ssh")).unwrap();
        std::fs::write(trial.outside().join("home/.ssh/id"), "CANARY").unwrap();
        trial
    };
    let (ended, output) = tries(trial, command);
    let started = &ended.events_of("session_started")[0];
    if started["confined"].is_null() {
        testkit::skip("no Landlock here");
        return;
    }
    assert!(started["confined"].as_str().unwrap().starts_with("Landlock"), "{started}");
    assert!(started["degraded"][0].as_str().unwrap().contains("namespaces cannot be made"), "{started}");
    assert!(output.contains("mine") && output.contains("here"), "{output}");
    assert!(output.contains("Operation not permitted"), "no socket: {output}");
    assert!(crate::signals::nothing_is_left(&ended.trial));
    assert!(!ended.trial.outside().join("x").exists() && !std::path::Path::new("/etc/x").exists());
    assert_eq!(ended.finish()["status"], "verified", "{}", ended.stdout);
    let refused = enforced(developer([])).without_namespaces().run("Try it.");
    refused.says(&["cannot be confined in full", "permissions.require"]);
    assert!(refused.trial.server.asked().is_empty());
}

/// The developer runs the command; its output.
#[track_caller]
pub(crate) fn tries(trial: impl FnOnce(ModelServer) -> Trial, command: &str) -> (Ended, String) {
    let trial = trial(developer([bash(command), report("tried")]));
    std::fs::write(trial.outside().join("theirs"), "CANARY").unwrap();
    let ended = trial.run("Try it.");
    ended.exits(0);
    let (output, _) = ended.results("Bash").remove(0);
    assert!(!output.contains("CANARY"), "{output}");
    assert_eq!(std::fs::read_to_string(ended.trial.outside().join("theirs")).unwrap(), "CANARY");
    (ended, output)
}

#[test]
fn a_command_stays_in_the_project() {
    if !is_possible() {
        return;
    }
    let (ended, output) = tries(
        enforced,
        "echo mine > made; cat ../theirs; echo x > ../theirs; touch ../x /etc/x; ls -A ..; cat /etc/shadow; \
         ls ~/.ssh; echo here",
    );
    assert!(output.contains("here"), "{output}");
    assert_eq!(ended.finish()["filesModified"], json!(["made"]));
    assert_eq!(ended.events_of("session_started")[0]["degraded"], json!([]));
    assert!(!ended.trial.outside().join("x").exists());
}

#[test]
fn what_is_denied_cannot_be_read() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        enforced(server)
            .file(".env", "KEY=CANARY")
            .file("deep/down/server.pem", "CANARY")
            .user_config("/permissions/deny", json!([".env", "**/*.pem"]))
    };
    let command = "cat .env deep/down/server.pem; cat $(find . -name .rawko -prune -o -type f -print); cp -r deep /tmp; \
                   cat /tmp/deep/down/*; \
                   python3 -c 'print(open(\".env\").read())'; git add -A; git show :.env; echo here";
    let (_, output) = tries(trial, command);
    assert!(output.contains("here"), "{output}");
}

#[test]
fn what_decides_what_runs_is_not_written() {
    if !is_possible() {
        return;
    }
    let command = "echo x > .rawko/config.yaml; mkdir -p .rawko/agents; touch .rawko/agents/a.md; mv .rawko gone; \
                   echo x > .git/hooks/pre-commit; git config core.pager evil; mv .git gone; \
                   echo work > made && git add made && git -c user.name=a -c user.email=a@b commit -qm made && \
                   git log --oneline | head -1";
    let (ended, output) = tries(enforced, command);
    assert!(output.contains("made"), "a commit is possible: {output}");
    let project = ended.trial.project();
    for absent in [".rawko/config.yaml", ".rawko/agents", ".git/hooks/pre-commit", "gone"] {
        assert!(!project.join(absent).exists(), "{absent}: {output}");
    }
    assert!(!std::fs::read_to_string(project.join(".git/config")).unwrap().contains("evil"));
}

#[test]
fn who_has_no_tool_for_writing_writes_nothing() {
    if !is_possible() {
        return;
    }
    let agent = json!({"name": "looker", "whenToUse": "To look.", "systemPrompt": "Look.",
                       "tools": {"allowed": ["Read", "Bash"]}});
    let server = ModelServer::sequence([
        select("looker"),
        bash("touch made; echo x >> kept; rm -f kept; git stash; echo x > /tmp/a && cat /tmp/a; cat kept"),
        report("looked"),
        complete("well"),
    ]);
    let ended = enforced(server).file("kept", "KEPT\n").agent(&agent).args(&["--yes"]).run("Look.");
    ended.exits(0);
    let (output, _) = ended.results("Bash").remove(0);
    assert!(output.contains("KEPT") && output.contains("x\n"), "{output}");
    assert_eq!(ended.finish()["filesModified"], json!([]));
}

#[test]
fn the_network_is_what_is_granted() {
    if !is_possible() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1000]);
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nGRANTED")
            .unwrap();
    });
    let fetch = "python3 -c 'import sys, urllib.request\ntry:\n  print(urllib.request.urlopen(sys.argv[1]).read())\n\
                 except Exception as e:\n  print(e, e.read() if hasattr(e, \"read\") else \"\")' ";
    // Around the proxy there is nothing.
    let (_, output) = tries(enforced, &format!("{fetch} http://127.0.0.1:{port}/"));
    assert!(!output.contains("GRANTED"), "{output}");
    let (_, output) = tries(enforced, &format!("no_proxy= {fetch} http://crates.io/"));
    assert!(
        output.contains("403") && output.contains("permissions.net") && output.contains("cargo"),
        "{output}"
    );
    let granted = |server| enforced(server).user_config("/permissions/net", json!(["127.0.0.1"]));
    let (_, output) = tries(granted, &format!("no_proxy= {fetch} http://127.0.0.1:{port}/"));
    assert!(output.contains("GRANTED"), "{output}");
    server.join().unwrap();
}

#[test]
fn the_next_command_reaches_what_runs_in_the_background() {
    if !is_possible() {
        return;
    }
    let serve = "python3 -c 'import http.server; http.server.HTTPServer((\"127.0.0.1\", 8099), \
                 http.server.SimpleHTTPRequestHandler).serve_forever()'";
    let job = crate::answers::call("Bash", &json!({"command": serve, "run_in_background": true}));
    let fetch = "for i in {1..200}; do (echo > /dev/tcp/127.0.0.1/8099) 2>/dev/null && echo REACHED && exit; sleep 0.02; done";
    let ended = enforced(developer([job, bash(fetch), report("served")])).run("Serve it.");
    ended.exits(0);
    let (output, _) = ended.results("Bash").remove(1);
    assert!(output.contains("REACHED"), "{output}");
}

#[test]
fn verification_is_confined_too() {
    if !is_possible() {
        return;
    }
    let verify = json!(["cat ../theirs; touch ../x; grep -q mine made"]);
    let trial = |server| enforced(server).user_config("/verify", verify);
    let (ended, _) = tries(trial, "echo mine > made");
    let finish = ended.finish();
    assert_eq!(finish["status"], "verified", "{finish}");
    assert!(!finish["verification"].to_string().contains("CANARY"), "{finish}");
    assert!(!ended.trial.outside().join("x").exists());
}

#[test]
fn caches_of_one_agent_do_not_reach_the_user() {
    if !is_possible() {
        return;
    }
    for grants_around in [false, true] {
        let trial = |server| {
            let trial = enforced(server);
            let around = trial.outside().join("around");
            std::fs::create_dir_all(around.join("cargo/registry")).unwrap();
            let (around, cargo) = (around.display().to_string(), around.join("cargo").display().to_string());
            let trial = trial.env("CARGO_HOME", &cargo);
            if grants_around { trial.user_config("/permissions/read", json!([".", around])) } else { trial }
        };
        let command = "echo evil > $CARGO_HOME/config.toml; cat $CARGO_HOME/config.toml; echo x > ~/.bashrc";
        let (ended, output) = tries(trial, command);
        assert!(output.contains("evil"), "{grants_around}: {output}");
        assert!(!ended.trial.outside().join("around/cargo/config.toml").exists());
    }
}

#[test]
fn a_repository_that_a_command_makes_grants_nothing() {
    if !is_possible() {
        return;
    }
    for link in ["echo \"gitdir: $PWD/../private\" > .git", "ln -s ../private .git"] {
        let server =
            developer([bash(link), bash("cat ../private/key; echo x > ../private/made"), report("tried")]);
        let trial = Trial::without_git(server).user_config("/permissions/require", json!("enforced"));
        std::fs::create_dir(trial.outside().join("private")).unwrap();
        std::fs::write(trial.outside().join("private/key"), "CANARY").unwrap();
        let ended = trial.run("Try it.");
        let (output, _) = ended.results("Bash").remove(1);
        assert!(!output.contains("CANARY"), "{link}: {output}");
        assert!(!ended.trial.outside().join("private/made").exists(), "{link}: {output}");
    }
}

#[test]
fn what_holds_something_denied_cannot_be_moved_away() {
    if !is_possible() {
        return;
    }
    let trial = |server| {
        enforced(server)
            .file("config/secret.json", "CANARY")
            .file("build/deep/server.pem", "CANARY")
            .user_config("/permissions/deny", json!(["config/secret.json", "**/*.pem"]))
    };
    let command = "mv config c; mv build b; cat c/* b/deep/* build/deep/*; echo here";
    let (ended, output) = tries(trial, command);
    assert!(output.contains("here"), "{output}");
    assert!(ended.trial.project().join("config/secret.json").exists(), "{output}");
}

#[test]
fn a_resume_is_confined_as_the_run_was() {
    if !is_possible() {
        return;
    }
    let server = ModelServer::sequence([
        select("developer"),
        report("begun"),
        // The evaluation, after which the limit ends the run; then the selection of the resumed one.
        select("developer"),
        select("developer"),
        bash("touch ../escaped; cat ../theirs; echo here > made"),
        report("tried"),
        complete("well"),
    ]);
    let ended = enforced(server).args(&["--max-iterations", "1"]).run("Try it.");
    std::fs::write(ended.trial.outside().join("theirs"), "CANARY").unwrap();
    // Today's configuration no longer asks for it; the session does.
    let trial = ended.trial.user_config("/permissions/require", serde_json::Value::Null);
    let (_, stdout, stderr) = trial.ask(&["resume", "--max-iterations", "5", "--output", "stream-json"]);
    assert!(trial.project().join("made").exists(), "{stdout}{stderr}");
    assert!(!stdout.contains("CANARY") && !trial.outside().join("escaped").exists(), "{stdout}{stderr}");
}

/// The kernel refuses namespaces to users, and the system has a bubblewrap that may make them.
#[test]
fn where_only_bubblewrap_makes_namespaces_it_confines() {
    if !is_possible() {
        return;
    }
    let command = "echo mine > made; cat made ../theirs; echo x > ../theirs; touch ../x /etc/x; cat ~/.ssh/id; cat .env; \
                   echo x > .git/hooks/pre-commit; git config core.fsmonitor x; touch .rawko/x; mv .git g; \
                   python3 -c 'import urllib.request as u; u.urlopen(\"http://192.0.2.1/\")' 2>&1 | tail -1; \
                   curl -s http://192.0.2.1/; echo .; (setsid sleep 300 &); echo here";
    let trial = |server| {
        let trial = enforced(server)
            .with_bubblewrap_alone()
            .user_config("/permissions/deny", json!([".env"]))
            .user_config("/verify", json!(["grep -q mine made"]));
        std::fs::create_dir_all(trial.outside().join("home/.ssh")).unwrap();
        std::fs::write(trial.outside().join("home/.ssh/id"), "CANARY").unwrap();
        std::fs::write(trial.project().join(".env"), "CANARY").unwrap();
        trial
    };
    let refused = std::process::Command::new("/usr/bin/bwrap").arg("--version").output().is_err();
    let can_see_root =
        std::fs::metadata("/usr/bin/bwrap").is_ok_and(|_| rustix::process::geteuid().is_root());
    if refused || !can_see_root {
        testkit::skip("bubblewrap is not installed, or this is not root, whose programs alone are taken");
        return;
    }
    let (ended, output) = tries(trial, command);
    let started = &ended.events_of("session_started")[0];
    assert!(started["confined"].as_str().unwrap().starts_with("bubblewrap"), "{started}");
    assert!(started["degraded"][0].as_str().unwrap().contains("/usr/bin/bwrap makes them"), "{started}");
    assert!(output.contains("mine") && output.contains("here"), "{output}");
    assert!(output.contains("403"), "the proxy refuses the host: {output}");
    assert!(crate::signals::nothing_is_left(&ended.trial));
    let project = ended.trial.project();
    for absent in ["../x", ".git/hooks/pre-commit", ".rawko/x", "g"] {
        assert!(!project.join(absent).exists(), "{absent}");
    }
    assert!(!std::fs::read_to_string(project.join(".git/config")).unwrap().contains("fsmonitor"));
    assert_eq!(ended.finish()["status"], "verified", "{}", ended.stdout);
}
