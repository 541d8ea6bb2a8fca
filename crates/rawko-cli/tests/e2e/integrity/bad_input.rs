//! Verification that cannot be relied on: each run says what is wrong with it.

use serde_json::json;

use super::Project;
use crate::answers::{always, bash, complete, developer, report, select};
use crate::trial::Trial;

/// The same tree, another exit status: the second run decides, and both are reported.
#[test]
fn flaky_checks_are_run_again() {
    let flaky =
        "n=$(cat ../marks/count 2>/dev/null || echo 0); echo $((n + 1)) > ../marks/count; test $n -ge 1";
    let server = always(select("developer"), complete("done"), report("did it"));
    let trial = Trial::new(server).with_marks().file("a", "1\n").user_config("/verify", json!([flaky]));
    let finish = trial.args(&["--max-iterations", "4"]).run("Do it.").finish();
    assert_eq!(finish["verification"]["flaky"][0]["exitCode"], 0, "{finish:#}");
}

/// It fails and passes in turn: no pass counts that follows a failure on the same tree.
#[test]
fn checks_that_pass_every_second_time_are_never_verified() {
    let flaky = "n=$(cat ../marks/count 2>/dev/null || echo 0); echo $((n + 1)) > ../marks/count; test $((n % 2)) -eq 1";
    let server = always(select("developer"), complete("done"), report("did it"));
    let trial = Trial::new(server).with_marks().file("a", "1\n").user_config("/verify", json!([flaky]));
    let finish = trial.args(&["--max-iterations", "4"]).run("Do it.").finish();
    assert_eq!(finish["status"], "limited", "{finish:#}");
}

/// The agent saw the very command fail after its last change, and rawko sees it pass.
#[test]
fn a_check_that_the_agent_saw_fail_is_run_once_more() {
    let flaky =
        "n=$(cat ../marks/count 2>/dev/null || echo 0); echo $((n + 1)) > ../marks/count; test $n -ge 1";
    let test = format!("test:\n\t@{}\n", flaky.replace('$', "$$"));
    let server = developer([bash("echo 2 > a"), bash("make test")]);
    let trial = Trial::new(server).with_marks().file("a", "1\n").file("Makefile", &test);
    let trial = trial.user_config("/verify", json!(["make test"]));
    let finish = trial.args(&["--max-iterations", "1"]).run("Do it.").finish();
    assert_eq!(finish["verification"]["flaky"][0]["exitCode"], 0, "{finish:#}");
}

#[track_caller]
fn check(verify: &str, timeout: &str, status: &str, words: &str) {
    let trial = Trial::new(developer([bash("echo 2 > a")])).file("a", "1\n");
    let verify = json!({"commands": [verify], "timeout": timeout});
    let ended = trial.user_config("/verify", verify).args(&["--max-iterations", "1"]).run("Do it.");
    let finish = ended.finish();
    assert_eq!(finish["status"], status, "{finish:#}");
    let text = finish.to_string();
    assert!(text.contains(words), "{words} is missing in {finish:#}");
}

#[test]
fn commands_that_cannot_pass_say_why() {
    check("no-such-checker --all", "1m", "failed", "no-such-checker: command not found");
    check("sleep 300", "1s", "limited", "timed out");
    // Nothing listens there: as good as no network.
    let refused = "exec 3<>/dev/tcp/127.0.0.1/1";
    check(&format!("grep -q 1 a || {refused}"), "1m", "limited", "Connection refused");
    // The run did not break what failed before it.
    check(refused, "1m", "claimed", "exited with 1, as it did before the run");
    check("date +%N >> a", "1m", "claimed", "they change the tree on each run");
}

#[test]
fn without_checks_or_git_it_is_a_claim() {
    let ended = Trial::new(developer([bash("echo 2 > a")])).file("a", "1\n").run("Do it.");
    let finish = ended.finish();
    assert_eq!(
        (&finish["status"], &finish["doubt"]["reason"]),
        (&json!("claimed"), &json!("nothing_to_run"))
    );
    // A runner that finds no tests proves nothing, whatever it exits with.
    let none = Project {
        files: &[("app.py", "\n"), ("tests/__init__.py", "")],
        verify: &["python3 -m unittest discover"],
    };
    let finish = none.run(&["echo 'a = 1' > app.py"]).finish();
    assert_eq!(
        (&finish["status"], &finish["doubt"]["reason"]),
        (&json!("claimed"), &json!("nothing_to_run")),
        "{finish:#}"
    );
    let server = developer([bash("echo 2 > a")]);
    let trial = Trial::without_git(server).file("a", "1\n").user_config("/verify", json!(["true"]));
    let finish = trial.run("Do it.").finish();
    assert_eq!(finish["status"], "verified", "{finish:#}");
}

/// Something writes after the commands have passed, while the original checks run.
#[test]
fn a_tree_that_changes_while_it_is_judged_is_a_claim() {
    let trial = Trial::new(developer([bash("echo 2 > work; touch tests/test_more.sh")]))
        .with_marks()
        .file("tests/test_a.sh", "");
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "-m", "first"]);
    let marks = trial.marks();
    let wait = format!(
        "touch '{0}/judging'; until [ -e '{0}/go' ]; do sleep 0.01; done; rm '{0}/judging' '{0}/go'",
        marks.display()
    );
    let verify = format!("case $PWD in */rawko-verify-*) [ ! -e work ] || {{ {wait}; }};; esac");
    // In the sandbox a copy writes nothing outside itself.
    let trial =
        trial.user_config("/verify", json!([verify])).user_config("/permissions/sandbox", json!("off"));
    let running = trial.start("Do it.");
    // They run when the execution ends, and again for the COMPLETE, because nothing was proven.
    for late in ["late", "later"] {
        running.wait_until("the original checks", || {
            marks.join("judging").exists() && !marks.join("go").exists()
        });
        std::fs::write(running.trial.project().join(late), "").unwrap();
        std::fs::write(marks.join("go"), "").unwrap();
    }
    let finish = running.end().finish();
    assert_eq!(
        (&finish["status"], &finish["doubt"]["reason"]),
        (&json!("claimed"), &json!("stale")),
        "{finish:#}"
    );
}

/// The kept state is lost, which is no proof that nothing was changed.
#[test]
fn a_repository_that_is_removed_leaves_nothing_to_compare_with() {
    let trial = Trial::new(developer([bash("echo 2 > a"), bash("rm -rf .git")])).file("a", "1\n");
    let trial =
        trial.user_config("/verify", json!(["true"])).user_config("/permissions/sandbox", json!("off"));
    let finish = trial.run("Do it.").finish();
    assert_eq!(
        (&finish["status"], &finish["doubt"]["reason"]),
        (&json!("claimed"), &json!("checks_changed")),
        "{finish:#}"
    );
}
