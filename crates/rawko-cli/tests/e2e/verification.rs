//! A COMPLETE is checked by commands: real ones, in real trees.

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{ModelServer, Who};

use crate::answers::{always, bash, call, complete, developer, report, select};
use crate::trial::{Ended, Trial};

/// A run in which the developer runs `command` and the arbiter is content, with these commands to verify it.
fn trial(command: &str, verify: Value) -> Trial {
    Trial::new(developer([bash(command)])).with_marks().user_config("/verify", verify)
}

/// The status, and how often the commands were run: each writes a line outside of the project.
#[track_caller]
fn check(ended: &Ended, status: &str, times: usize) {
    assert_eq!(ended.finish()["status"], status, "{}", ended.stdout);
    let log = std::fs::read_to_string(ended.trial.marks().join("log")).unwrap_or_default();
    assert_eq!(log.lines().count(), times, "{}", ended.stdout);
}

#[test]
fn a_run_whose_commands_pass_is_verified() {
    let verify = json!(["echo one >> ../marks/log; test -f made && echo fine", "echo two >> ../marks/log"]);
    let ended = trial("touch made", verify).args(&["--require-verified"]).run("Make it.");
    ended.exits(0);
    check(&ended, "verified", 2);
    let finish = ended.finish();
    let runs = finish["verification"]["runs"].as_array().unwrap();
    assert_eq!((&runs[0]["output"], &runs[0]["exitCode"], runs.len()), (&json!("fine\n"), &json!(0), 2));
    // The tree that was proven is the one that is there.
    ended.trial.git(&["add", "--all", "--", ":!.rawko"]);
    assert_eq!(finish["verification"]["tree"], ended.trial.git(&["write-tree"]).trim());
    assert_eq!(ended.events_of("verification_started").len(), 1);
    assert_eq!(ended.events_of("verification_finished")[0]["verification"]["runs"][0]["exitCode"], 0);
    let (code, out, err) = ended.trial.rawko(&["replay"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(ended.trial.rawko(&["sessions", "list"]).1.contains("verified"));
    let (_, shown, _) = ended.trial.rawko(&["sessions", "show", "last"]);
    assert!(shown.contains("Verified: `echo one") && shown.contains("Checked tree:"), "{shown}");
}

#[test]
fn nothing_that_was_found_runs_for_a_run_that_only_read() {
    let makefile = "test:\n\techo run >> ../marks/log\n";
    for (command, status, times) in [("cat Makefile", "claimed", 0), ("touch made", "verified", 1)] {
        let ended =
            Trial::new(developer([bash(command)])).with_marks().file("Makefile", makefile).run("Look.");
        ended.exits(0);
        // The second one runs on the first tree too, in a copy that has no such folder beside it.
        check(&ended, status, times);
        let (code, out, err) = ended.trial.rawko(&["replay"]);
        assert_eq!(code, Some(0), "{out}{err}");
    }
    let ended = Trial::new(developer([bash("ls")])).file("Makefile", makefile).run("Look.");
    let finish = ended.finish();
    assert_eq!(finish["doubt"]["reason"], "unchanged", "{finish:#}");
    assert_eq!(finish["verification"]["runs"], json!([]), "{finish:#}");
}

#[test]
fn a_failure_is_reported_and_mended() {
    let server = ModelServer::sequence([
        select("developer"),
        bash("echo broken > out"),
        report("it works"),
        complete("all done"),
        select("developer"),
        bash("echo fixed > out"),
        report("now it does"),
        complete("really done"),
    ]);
    let command = "echo run >> ../marks/log; grep -q fixed out || { echo no-FIX-seen; exit 7; }";
    let ended = Trial::new(server).with_marks().user_config("/verify", json!([command])).run("Fix it.");
    ended.exits(0);
    // When each execution ended, and for the COMPLETE after the failure.
    check(&ended, "verified", 3);
    let asked = ended.trial.server.asked();
    let selection = asked.iter().filter(|asked| asked.who() == Who::Select).nth(1).unwrap();
    let text = selection.last_text();
    assert!(text.contains("no-FIX-seen") && text.contains("exited with 7"), "{text}");
}

const NEVER: &str = "echo run >> ../marks/log; echo still wrong; exit 1";

#[test]
fn what_never_passes_is_never_verified() {
    let server = always(select("developer"), complete("all done"), report("it works"));
    let ended = Trial::new(server).with_marks().user_config("/verify", json!([NEVER])).run("Fix it.");
    let finish = ended.finish();
    // It is asked anew each time, and the fifth time on the same tree is the last.
    check(&ended, "limited", 5);
    assert_eq!(finish["limit"], "stalled");
    assert_eq!(finish["verification"]["runs"][0]["exitCode"], 1);
}

#[test]
fn work_that_never_passes_is_tried_again_and_given_up() {
    let server = ModelServer::start(|asked| match asked.who() {
        Who::Select => select("developer"),
        Who::Evaluate => complete("all done"),
        Who::Agent if asked.messages().len() == 1 => bash("echo try >> out"),
        Who::Agent => report("it works"),
    });
    let ended = Trial::new(server).with_marks().user_config("/verify", json!([NEVER])).run("Fix it.");
    let finish = ended.finish();
    ended.exits(1);
    assert_eq!(finish["iterations"], 6);
    // When each execution ended, also the last, which was stopped because it changed nothing, and for each COMPLETE.
    check(&ended, "failed", 12);
    assert!(finish["error"]["message"].as_str().unwrap().contains("still wrong"), "{finish}");
}

#[test]
fn every_complete_is_proven_anew() {
    let server = ModelServer::sequence([
        select("developer"),
        bash("echo wrong > out"),
        report("did it"),
        complete("all done"),
        select("planner"),
        report("looked at it"),
        complete("still done"),
        select("developer"),
        bash("echo right > out"),
        report("did it"),
        complete("done now"),
    ]);
    let command = "echo run >> ../marks/log; grep -q right out";
    let ended = Trial::new(server).with_marks().user_config("/verify", json!([command])).run("Fix it.");
    ended.exits(0);
    // A failure is seen anew each time; what passed after the last execution is known to have passed.
    check(&ended, "verified", 4);
}

/// A job that an agent left running cannot write while the commands run.
#[test]
fn jobs_in_the_background_end_before_the_tree_is_proven() {
    let job = "while [ ! -e ../marks/proven ]; do sleep 0.005; done; echo BAD > out";
    let server = ModelServer::sequence([
        select("developer"),
        bash("echo good > out"),
        call("Bash", &json!({"command": job, "run_in_background": true})),
        report("did it"),
        complete("done"),
    ]);
    let command = "grep -q good out && touch ../marks/proven && sleep 0.1";
    let ended = Trial::new(server).with_marks().user_config("/verify", json!([command])).run("Do it.");
    ended.exits(0);
    assert_eq!(ended.finish()["status"], "verified");
    assert_eq!(std::fs::read_to_string(ended.trial.project().join("out")).unwrap(), "good\n");
}

/// A user may have mended the tree while no process carried the run.
#[test]
fn a_fork_asks_the_commands_anew() {
    let server = always(select("developer"), complete("all done"), report("it works"));
    let ended = Trial::new(server)
        .file("out", "wrong\n")
        .user_config("/verify", json!(["grep -q right out"]))
        .args(&["--max-iterations", "3"])
        .run("Fix it.");
    assert_eq!(ended.finish()["status"], "limited");
    std::fs::write(ended.trial.project().join("out"), "right\n").unwrap();
    let records = ended.journal().records.len();
    let at = (records / 2).to_string();
    let (code, out, err) =
        ended.trial.ask(&["fork", "last", "--at", &at, "--yes", "--output", "json", "--max-iterations", "6"]);
    assert_eq!(code, Some(0), "{out}{err}");
    // It passes now, but nothing that the fork did is proven by that.
    assert!(out.contains("claimed") && out.contains("unchanged"), "{out}");
}

#[test]
fn without_a_command_it_is_a_claim() {
    let ended = Trial::new(developer([])).run("Do it.");
    ended.exits(0);
    check(&ended, "claimed", 0);
    let ended = Trial::new(developer([])).args(&["--require-verified"]).run("Do it.");
    ended.exits(1).says(&["ended as claimed", "no check was found", "--verify"]);
    check(&ended, "claimed", 0);
    let ended = trial("true", json!(["exit 1"])).args(&["--no-verify"]).run("Do it.");
    ended.exits(0);
    check(&ended, "claimed", 0);
    let ended =
        trial("touch a", json!(["exit 1"])).args(&["--verify", "echo run >> ../marks/log"]).run("Do it.");
    ended.exits(0);
    check(&ended, "verified", 1);
    let ended =
        Trial::new(developer([bash("touch a")])).output("text").args(&["--verify", "true"]).run("Do it.");
    ended.exits(0);
    assert!(ended.stdout.starts_with("Verified: `true` passes; as before the run"), "{}", ended.stdout);
    ended.says(&["verifying: true", "verify< true: exit 0"]);
}

#[test]
fn the_projects_files_decide_the_command() {
    let trial = Trial::new(developer([bash("touch made")]))
        .file("Makefile", "all:\ntest:\n\ttrue\n")
        .file("bin/make", "#!/bin/sh\necho made \"$1\"\n");
    let bin = trial.project().join("bin");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bin.join("make"), mode).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let ended = trial.env("PATH", path).run("Do it.");
    ended.exits(0);
    let run = &ended.finish()["verification"]["runs"][0];
    assert_eq!((&run["command"], &run["output"]), (&json!("make test"), &json!("made test\n")));
}

#[test]
fn a_projects_own_commands_need_trust() {
    let config = json!({"verify": {"commands": ["echo run >> ../marks/log"], "timeout": "1m"}});
    let refused = Trial::new(developer([])).config(&config).run("Do it.");
    refused.exits(5).says(&["echo run >> ../marks/log", "would be run to verify", "rawko trust"]);
    let ended =
        Trial::new(developer([bash("touch a")])).with_marks().config(&config).args(&["--yes"]).run("Do it.");
    ended.exits(0);
    check(&ended, "verified", 1);
}

#[test]
fn commands_that_change_the_tree_prove_nothing_about_it() {
    let ended = trial("true", json!(["echo run >> ../marks/log; cat ../marks/log > stamp"]))
        .args(&["--require-verified"])
        .run("Do it.");
    ended.exits(1).says(&["git ignore"]);
    check(&ended, "claimed", 2);
    assert_eq!(ended.finish()["verification"]["treeChanged"], true);
    // A file that is not there yet, as a lock file may be: run again on the tree with it, and proven.
    let ended = trial("true", json!(["echo run >> ../marks/log; echo locked > lock"])).run("Do it.");
    ended.exits(0);
    check(&ended, "verified", 2);
    // Ignored files do not count.
    let ended =
        trial("echo stamp > .gitignore", json!(["echo run >> ../marks/log; cat ../marks/log > stamp"]))
            .run("Do it.");
    check(&ended, "verified", 1);
}

/// A command whose child has left session and process group, and ignores what can be ignored.
const FAMILY: &str = "case $PWD in */rawko-verify-*) exit 0;; esac; setsid bash -c 'trap \"\" INT TERM HUP; echo here > ../marks/grandchild; sleep 300' & \
                      echo here > ../marks/child; [ -f ../marks/go ] || sleep 300";

fn mark(trial: &Trial, name: &str) -> String {
    std::fs::read_to_string(trial.marks().join(name)).unwrap_or_default()
}

fn family_is_gone(trial: &Trial) -> bool {
    testkit::processes_in(&trial.project()).is_empty()
}

#[test]
fn a_command_that_takes_too_long_is_ended_with_all_it_started() {
    let verify = json!({"commands": [FAMILY], "timeout": "1s"});
    let ended = trial("true", verify).args(&["--max-iterations", "1"]).run("Do it.");
    ended.exits(3);
    assert!(!mark(&ended.trial, "grandchild").is_empty() && family_is_gone(&ended.trial));
    let run = &ended.events_of("verification_finished")[0]["verification"]["runs"][0];
    assert!(run["output"].as_str().unwrap().contains("timed out") && run["exitCode"].is_null(), "{run}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_that_is_killed_while_it_verifies_verifies_on_resume() {
    let running = trial("touch made", json!([FAMILY])).start("Do it.");
    running.wait_until("the family", || {
        !mark(&running.trial, "grandchild").is_empty() && !mark(&running.trial, "child").is_empty()
    });
    running.signal(Signal::KILL);
    let killed = running.end_unchecked().trial;
    let begun = std::time::Instant::now();
    while !family_is_gone(&killed) {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "it outlived rawko");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    std::fs::write(killed.marks().join("go"), "").unwrap();
    // Only commands that today's configuration has, or that are given now, are run.
    let config = killed.outside().join("home/config/rawko/config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, "{}").unwrap();
    let (code, _, stderr) = killed.resume();
    assert_eq!(code, Some(5), "{stderr}");
    assert!(
        stderr.contains("recorded as a verification command") && stderr.contains("--no-verify"),
        "{stderr}"
    );
    std::fs::write(&config, text).unwrap();
    let (code, stdout, stderr) = killed.resume();
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("\"status\":\"verified\""), "{stdout}");
    assert_eq!(killed.rawko(&["replay"]).0, Some(0));
}

#[test]
fn a_resume_can_name_what_verifies() {
    for (arguments, code, status) in [
        (&["--no-verify"][..], 0, "claimed"),
        (&["--no-verify", "--require-verified"], 1, "claimed"),
        (&["--verify", "test -f made"], 0, "verified"),
    ] {
        let running = trial("touch made", json!(["echo on > ../marks/child; sleep 300"])).start("Do it.");
        running.wait_until("the command", || !mark(&running.trial, "child").is_empty());
        running.signal(Signal::KILL);
        let killed = running.end_unchecked().trial;
        let (ended, stdout, stderr) = killed.resume_with(arguments);
        assert_eq!(ended, Some(code), "{stdout}{stderr}");
        assert!(stdout.contains(&format!("\"status\":\"{status}\"")), "{stdout}");
        assert_eq!(killed.rawko(&["replay"]).0, Some(0));
    }
}

#[test]
fn the_arbiter_sees_what_a_command_of_an_agent_changed() {
    let ended =
        Trial::new(developer([bash("mkdir made && printf 'a\\nb\\n' > made/new.txt && echo two > old.txt")]))
            .file("old.txt", "one\n")
            .run("Change it.");
    ended.exits(0);
    let (code, out, err) = ended.trial.rawko(&["explain", "last", "2", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    let explained: Value = serde_json::from_str(&out).unwrap();
    let input = explained["decision"]["input"].to_string() + &explained["input"].to_string();
    assert!(input.contains("made/new.txt +2 -0 (new)") && input.contains("old.txt +1 -1"), "{out}");
    let asked = ended.trial.server.asked();
    let evaluated = asked.iter().find(|asked| asked.who() == Who::Evaluate).unwrap();
    assert!(evaluated.last_text().contains("made/new.txt +2 -0"), "{}", evaluated.last_text());
}

#[test]
fn a_red_check_stands_against_complete_although_nothing_verifies() {
    let server = ModelServer::sequence([
        select("developer"),
        bash("printf 'test:\\n\\texit 3\\n' > Makefile; make test"),
        report("it works"),
        complete("all done"),
        select("developer"),
        bash("printf 'test:\\n\\ttrue\\n' > Makefile; make test"),
        report("now it does"),
        complete("really done"),
    ]);
    let ended = Trial::new(server).args(&["--no-verify"]).run("Fix it.");
    ended.exits(0);
    check(&ended, "claimed", 0);
    let asked = ended.trial.server.asked();
    let selection = asked.iter().filter(|asked| asked.who() == Who::Select).nth(1).unwrap();
    assert!(selection.last_text().contains("the last check was red"), "{}", selection.last_text());
}

#[test]
fn a_rejection_goes_to_the_developer_although_the_commands_pass() {
    let reject = json!({"verdict": "rejected", "summary": "no", "findings": [{"file": "out:1", "text": "it loses DATA-X"}]});
    let approve = json!({"verdict": "approved", "summary": "now it is right"});
    let server = ModelServer::sequence([
        select("developer"),
        bash("echo wrong > out"),
        report("it works"),
        select("reviewer"),
        call("Report", &reject),
        complete("all done"),
        select("developer"),
        bash("echo right > out"),
        report("now it does"),
        select("reviewer"),
        call("Report", &approve),
        complete("really done"),
    ]);
    let ended = Trial::new(server)
        .with_marks()
        .user_config("/verify", json!(["echo run >> ../marks/log"]))
        .run("Fix it.");
    ended.exits(0);
    check(&ended, "verified", 2);
    let asked = ended.trial.server.asked();
    let selection = asked.iter().filter(|asked| asked.who() == Who::Select).nth(1).unwrap();
    let text = selection.last_text();
    assert!(text.contains("reviewer rejected the work") && text.contains("DATA-X"), "{text}");
}
