//! The view at a real terminal: what it shows, its keys, and that the terminal is given back in every case. Without tmux
//! these tests say that they were skipped.

mod pane;

use std::time::Duration;

use rustix::process::Signal;

use serde_json::json;
use testkit::{Answer, Delivery, ModelServer};

use crate::answers::{bash, call, calls, complete, developer, report, select};
use crate::trial::Trial;
use pane::Pane;

/// Waits for the test.
const HOLD: &str = "touch held; until [ -e go ]; do sleep 0.02; done; touch done";

fn go(pane: &Pane) {
    std::fs::write(pane.trial.project().join("go"), "").unwrap();
}

/// A developer who makes two calls at once, of which the second waits for the test.
fn at_work(columns: usize, rows: usize, arguments: &[&str]) -> Option<Pane> {
    let two = calls(&[("Glob", json!({"pattern": "*.txt"})), ("Bash", json!({"command": HOLD}))]);
    let trial = Trial::new(developer([two])).file("a.txt", "text\n");
    let pane =
        Pane::start(trial, columns, rows, &[&["run"], arguments, &["Do what is to be done."]].concat())?;
    pane.wait_for_file("held");
    Some(pane)
}

fn widest(screen: &str) -> usize {
    screen.lines().map(|line| line.chars().count()).max().unwrap_or_default()
}

/// The same, wherever its lines were broken.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shown_at(columns: usize) {
    let Some(pane) = at_work(columns, 40, &[]) else { return };
    let screen = pane.wait_for("● developer · running Bash");
    for part in ["why: developer is next (by the model)", "✓ Glob *.txt", "▸ Bash", "iteration 1", "? help"]
    {
        assert!(words(&screen).contains(part), "{part} is missing in:\n{screen}");
    }
    assert!(widest(&screen) <= columns, "{screen}");
    go(&pane);
    let all = pane.ends(0);
    for part in
        ["✓ developer: developer is next (by the model)", "did it", "2 turns · 2 calls", "Claimed done"]
    {
        assert_eq!(words(&all).matches(part).count(), 1, "{part} in:\n{all}");
    }
    assert!(!all.contains("running Bash"), "the view is gone:\n{all}");
}

#[test]
fn a_run_at_40_columns() {
    shown_at(40);
}

#[test]
fn a_run_at_80_columns() {
    shown_at(80);
}

#[test]
fn a_run_at_120_columns() {
    shown_at(120);
}

#[test]
fn a_window_may_be_resized_in_the_run() {
    let Some(pane) = at_work(120, 40, &["--verbose"]) else { return };
    pane.wait_for("● developer · running Bash");
    for (columns, rows) in [(60, 40), (41, 24), (100, 12), (200, 50), (50, 50)] {
        pane.resize(columns, rows);
        let settled = pane.wait_until("the view in the new size", |screen| {
            screen.contains("● developer · running Bash")
                && screen.contains("? help")
                && widest(screen) <= columns
        });
        assert_eq!(settled.matches("● developer · running").count(), 1, "{settled}");
    }
    go(&pane);
    let all = pane.ends(0);
    // What had scrolled above the view is there once, and nothing of the view is left among it.
    for part in ["Do what is to be done.", "starts, iteration 1", "▸ Glob *.txt", "Claimed done"] {
        assert_eq!(all.matches(part).count(), 1, "{part} in:\n{all}");
    }
    assert!(!all.contains("q stop"), "{all}");
}

#[test]
fn a_resumed_run_shows_who_was_at_work_the_plan_and_the_limits() {
    let plan = json!({"steps": [{"description": "Look first", "status": "in_progress"}, {"description": "Then act"}]});
    let answers = [select("developer"), calls(&[("UpdatePlan", plan)]), Answer::Silence, Answer::Silence];
    let mut running =
        Trial::new(ModelServer::sequence(answers)).args(&["--max-iterations", "7"]).start("Do it.");
    running.wait_for_event("plan_updated");
    running.wait_for_request(3);
    let trial = running.end_after(Signal::KILL).trial;
    let Some(pane) = Pane::start(trial, 80, 40, &["resume"]) else { return };
    let screen = pane.wait_for("● developer · asking the model");
    for part in ["why: developer is next (by the model)", "1. Look first", "2. Then act", "iteration 1 of 7"]
    {
        assert!(words(&screen).contains(part), "{part} is missing in:\n{screen}");
    }
    pane.types(&["C-c"]);
    let all = pane.ends(130);
    assert_eq!(all.matches("Cancelled").count(), 1, "{all}");
}

#[test]
fn a_watcher_shows_times_as_they_were() {
    let delivery = Delivery { delay: Duration::from_millis(2_300), ..Delivery::default() };
    let slow = report("did it").delivered(delivery);
    let trial = Trial::new(ModelServer::sequence([select("developer"), slow, complete("all done")]))
        .run("Do it.")
        .trial;
    let Some(pane) = Pane::start(trial, 80, 40, &["watch"]) else { return };
    let all = pane.ends(0);
    let line = all.lines().find(|line| line.contains("1 turn")).unwrap_or_else(|| panic!("{all}"));
    assert!(line.contains(" 2.") || line.contains(" 3."), "the execution took more than two seconds: {all}");
}

#[test]
fn ctrl_c_in_a_model_call() {
    let delivery = Delivery { endless: true, ..Delivery::default() };
    let server = ModelServer::sequence([select("developer"), Answer::text("And then ").delivered(delivery)]);
    let Some(pane) = Pane::start(Trial::new(server), 80, 30, &["run", "Speak."]) else { return };
    pane.wait_for("● developer · writing");
    pane.wait_for("and so on and so on");
    pane.types(&["C-c"]);
    assert!(pane.ends(130).contains("Cancelled"));
}

#[test]
fn ctrl_c_in_a_tool_call() {
    let Some(pane) = at_work(80, 30, &[]) else { return };
    pane.wait_for("● developer · running Bash");
    pane.types(&["C-c"]);
    assert!(pane.ends(130).contains("Cancelled"));
}

#[test]
fn q_is_ctrl_c() {
    let Some(pane) = at_work(80, 30, &[]) else { return };
    pane.wait_for("● developer · running Bash");
    pane.types(&["q"]);
    let all = pane.ends(130);
    assert!(all.contains("stopping; press Ctrl-C again") && all.contains("Cancelled"), "{all}");
}

#[test]
fn ctrl_c_in_a_wait() {
    let trial = Trial::new(ModelServer::start(|_| Answer::rate_limited("600")))
        .retry(json!({"maxAttempts": 2, "baseMs": 1, "capMs": 3_600_000, "deadlineMs": 3_600_000}))
        .user_config("/provider/claude/timeouts", json!({"total": "2h"}));
    let Some(pane) = Pane::start(trial, 80, 30, &["run", "Wait."]) else { return };
    let screen = pane.wait_for("◷ waiting for claude until");
    assert!(screen.contains("left") && screen.contains("rate_limited"), "{screen}");
    pane.types(&["C-c"]);
    assert!(pane.ends(130).contains("Cancelled"));
}

/// A developer whose command nobody has allowed yet.
fn asking() -> Option<Pane> {
    let trial = Trial::new(developer([bash("echo made >> made")]))
        .user_config("/permissions/ask", json!(["commands", "paths"]))
        .user_config("/permissions/run", json!(["cat"]));
    let pane = Pane::start(trial, 80, 40, &["run", "Make it."])?;
    let screen = pane.wait_for("Allow this call? [y/N]");
    assert!(screen.contains("| echo made >> made"), "{screen}");
    assert!(screen.contains("developer waits for your answer until"), "{screen}");
    Some(pane)
}

/// Types until it is on the screen: an answer counts only once the question has been there for a moment.
fn answers(pane: &Pane, text: &str) {
    let typed = format!("[y/N] {text}");
    pane.wait_until(&typed, |screen| {
        if screen.contains(&typed) {
            return true;
        }
        pane.types(&["Escape"]);
        std::thread::sleep(Duration::from_millis(150));
        pane.types(&[text]);
        std::thread::sleep(Duration::from_millis(250));
        false
    });
    pane.types(&["Enter"]);
}

#[test]
fn ctrl_c_at_an_approval() {
    let Some(pane) = asking() else { return };
    pane.types(&["C-c"]);
    assert!(pane.ends(130).contains("Cancelled"));
    assert!(!pane.trial.project().join("made").exists());
}

#[test]
fn a_yes_at_the_terminal_allows_a_call() {
    let Some(pane) = asking() else { return };
    answers(&pane, "y");
    let all = pane.ends(0);
    assert!(all.contains("approval: allowed (terminal)"), "{all}");
    assert_eq!(std::fs::read_to_string(pane.trial.project().join("made")).unwrap(), "made\n");
}

#[test]
fn a_no_at_the_terminal_denies_it() {
    let Some(pane) = asking() else { return };
    answers(&pane, "no");
    let all = pane.ends(0);
    assert!(all.contains("approval: denied (terminal)"), "{all}");
    assert!(!pane.trial.project().join("made").exists());
}

#[test]
fn a_server_asks_at_the_terminal() {
    let asking = || crate::mcp::approved(developer([call("mcp__s__ask", &json!({}))]), "asks");
    let Some(pane) = Pane::start(asking(), 80, 40, &["run", "Ask."]) else { return };
    let screen = pane.wait_for("color [1 red, 2 blue]:");
    assert!(
        screen.contains("the MCP server `s` asks you:") && screen.contains("  | Which color?"),
        "{screen}"
    );
    pane.types(&["-l", "green"]);
    pane.wait_for("2 blue]: green");
    pane.types(&["Enter"]);
    pane.wait_for("that is none of them; type a number from 1 to 2");
    pane.types(&["2"]);
    pane.wait_for("2 blue]: 2");
    pane.types(&["Enter"]);
    pane.ends(0);
    let told = pane.trial.server.asked()[2].json.to_string();
    assert!(told.contains("accept") && told.contains("blue"), "{told}");

    let Some(pane) = Pane::start(asking(), 80, 40, &["run", "--plain", "Ask."]) else { return };
    pane.wait_for("color [1 red, 2 blue]:");
    pane.types(&["red", "Enter"]);
    pane.ends(0);
    let told = pane.trial.server.asked()[2].json.to_string();
    assert!(told.contains("accept") && told.contains("red"), "{told}");

    let Some(pane) = Pane::start(asking(), 80, 40, &["run", "Ask."]) else { return };
    pane.wait_for("color [1 red, 2 blue]:");
    pane.types(&["Escape"]);
    pane.ends(0);
    assert!(pane.trial.server.asked()[2].json.to_string().contains("decline"));
}

#[test]
fn a_second_ctrl_c_gives_the_terminal_back_at_once() {
    // The command ignores TERM, so that a clean end has to wait for the grace to pass.
    let stubborn = "trap '' TERM INT; touch held; while true; do sleep 300; done";
    let trial = Trial::new(developer([bash(stubborn)]));
    let Some(pane) = Pane::start(trial, 80, 30, &["run", "Sleep."]) else { return };
    pane.wait_for_file("held");
    pane.wait_for("● developer · running Bash");
    pane.types(&["C-c", "C-c"]);
    pane.ends(130);
}

#[test]
fn keys_steer_the_run() {
    let Some(pane) = at_work(80, 40, &[]) else { return };
    pane.wait_for("● developer · running Bash");
    pane.types(&["s"]);
    pane.wait_for("you: skip (ignored: ");
    pane.types(&["p"]);
    pane.wait_for("○ paused");
    pane.types(&["m"]);
    pane.wait_for("Say to the agent:");
    pane.types(&["-l", "the file is a.txt"]);
    pane.wait_for("Say to the agent: the file is a.txt");
    pane.types(&["Enter"]);
    pane.wait_for("you: say: the file is a.txt");
    go(&pane);
    // The call ends, and nothing begins.
    pane.wait_for_file("done");
    pane.wait_for("p go");
    assert_eq!(pane.trial.server.asked().len(), 2);
    pane.types(&["p"]);
    let all = pane.ends(0);
    assert!(all.contains("the pause is over"), "{all}");
    let asked = pane.trial.server.asked();
    assert!(asked[2].json.to_string().contains("the file is a.txt"), "the agent was not told");
}

#[test]
fn a_stopped_run_leaves_the_terminal_and_takes_it_again() {
    let trial = Trial::new(developer([bash(HOLD)]));
    let Some(pane) = Pane::shell(trial, &["run", "Wait."]) else { return };
    pane.types(&["sh ../rawko.sh", "Enter"]);
    pane.wait_for_file("held");
    pane.wait_for("● developer · running Bash");
    pane.types(&["C-z"]);
    let stopped = pane.wait_for("Stopped");
    assert!(!stopped.contains("? help") && pane.has_cursor(), "{stopped}");
    pane.types(&["clear; stty -a", "Enter"]);
    let modes = pane.wait_for("-extproc");
    assert!(modes.contains(" icanon") && modes.contains(" echo "), "{modes}");
    pane.types(&["clear; fg", "Enter"]);
    pane.wait_for("● developer · running Bash");
    // Keys come one by one again.
    pane.types(&["?"]);
    pane.wait_for("like Ctrl-C; a second time");
    go(&pane);
    pane.wait_for("Claimed done");
    pane.types(&["clear; stty -a", "Enter"]);
    let modes = pane.wait_for("-extproc");
    assert!(modes.contains(" icanon") && modes.contains(" echo "), "{modes}");
}

#[test]
fn plain_lines_where_they_are_asked_for() {
    let Some(pane) = at_work(80, 40, &["--plain"]) else { return };
    pane.wait_for("developer> Bash touch held");
    go(&pane);
    let all = pane.ends(0);
    for line in
        ["state: idle -> selecting (iteration 0)", "developer< Glob: 1 line", "session ended: claimed"]
    {
        assert!(all.contains(line), "{line} is missing in:\n{all}");
    }
    assert!(!all.contains('●'), "{all}");
}
