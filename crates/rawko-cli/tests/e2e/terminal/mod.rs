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
    for part in
        ["why: developer is next (by the model)", "✓ Glob *.txt", "▸ Bash", "iteration 1", "Ctrl-C stop"]
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
                && screen.contains("Ctrl-C stop")
                && widest(screen) <= columns
        });
        assert_eq!(settled.matches("● developer · running").count(), 1, "{settled}");
    }
    go(&pane);
    let all = pane.ends(0);
    // The lines that had scrolled above the view are there once, and nothing of the view is left among it.
    for part in ["Do what is to be done.", "starts (iteration 1)", "▸ Glob *.txt", "Claimed done"] {
        assert_eq!(all.matches(part).count(), 1, "{part} in:\n{all}");
    }
    assert!(!all.contains("Ctrl-C stop"), "{all}");
}

#[test]
fn a_resumed_run_shows_who_was_at_work_the_plan_and_the_limits() {
    let plan = json!({"steps": [{"description": "Look first", "status": "in_progress"}, {"description": "Then act"}]});
    let answers = [select("developer"), calls(&[("UpdatePlan", plan)]), Answer::Silence, Answer::Silence];
    let running = Trial::new(ModelServer::sequence(answers)).args(&["--max-iterations", "7"]).start("Do it.");
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

/// Chooses an action in the menu.
fn acts(pane: &Pane, action: &str) {
    pane.types(&["Escape"]);
    pane.wait_for("arrows and Enter choose");
    let chosen = format!("> {action}");
    for _ in 0..20 {
        if words(&pane.screen()).contains(&chosen) {
            break;
        }
        let before = pane.screen();
        pane.types(&["Down"]);
        pane.wait_until("the next action", |screen| words(screen).contains(&chosen) || screen != before);
    }
    assert!(words(&pane.screen()).contains(&chosen), "{}", pane.screen());
    pane.types(&["Enter"]);
}

/// Types a message and sends it.
fn says(pane: &Pane, text: &str) {
    pane.writes(text);
    pane.wait_for(&format!("Say to the agent: {text}"));
    pane.types(&["Enter"]);
    pane.wait_for(&format!("you: say: {text}"));
}

/// What was asked of the run at the terminal.
fn asked_of_the_run(all: &str) -> Vec<&str> {
    all.lines().filter_map(|line| Some(line.split_once("you: ")?.1.trim())).collect()
}

#[test]
fn cancel_in_the_menu_is_ctrl_c() {
    let Some(pane) = at_work(80, 30, &[]) else { return };
    pane.wait_for("● developer · running Bash");
    acts(&pane, "cancel");
    let all = pane.ends(130);
    assert!(all.contains("stopping; press Ctrl-C again") && all.contains("Cancelled"), "{all}");
}

#[test]
fn text_that_is_typed_into_the_view_is_said_and_does_nothing() {
    let Some(pane) = at_work(80, 40, &[]) else { return };
    pane.wait_for("● developer · running Bash");
    // All at once, as fast as a terminal can send it, and key by key.
    pane.types(&["run the linter too", "Enter"]);
    pane.wait_for("you: say: run the linter too");
    for key in "quickly please".chars() {
        pane.writes(&key.to_string());
    }
    pane.wait_for("Say to the agent: quickly please");
    pane.types(&["Enter"]);
    pane.wait_for("you: say: quickly please");
    go(&pane);
    let all = pane.ends(0);
    assert_eq!(asked_of_the_run(&all), ["say: run the linter too", "say: quickly please"], "{all}");
    let asked = pane.trial.server.asked();
    // The call was made once, and its result was read together with both messages.
    assert_eq!(asked.len(), 4, "{all}");
    let request = asked[2].json.to_string();
    assert!(request.contains("run the linter too") && request.contains("quickly please"), "{request}");
}

#[test]
fn what_is_pasted_is_a_message() {
    let Some(pane) = at_work(80, 40, &[]) else { return };
    pane.wait_for("● developer · running Bash");
    pane.pastes("quickly\nretry\nplease", true);
    pane.wait_for("Say to the agent: quickly retry please");
    pane.types(&["Enter"]);
    pane.wait_for("you: say: quickly retry please");
    pane.pastes("quit\n\trun it\n", false);
    pane.wait_for("you: say: quit");
    pane.wait_for("you: say: run it");
    go(&pane);
    let all = pane.ends(0);
    assert_eq!(asked_of_the_run(&all), ["say: quickly retry please", "say: quit", "say: run it"], "{all}");
}

#[test]
fn a_wait_for_a_provider_is_steered_and_spoken_into() {
    let trial = Trial::new(ModelServer::start(|_| Answer::rate_limited("600")))
        .retry(json!({"maxAttempts": 2, "baseMs": 1, "capMs": 3_600_000, "deadlineMs": 3_600_000}))
        .user_config("/provider/claude/timeouts", json!({"total": "2h"}));
    let Some(pane) = Pane::start(trial, 100, 30, &["run", "Wait."]) else { return };
    pane.wait_for("◷ waiting for claude until");
    says(&pane, "quickly please");
    acts(&pane, "retry");
    pane.wait_for("you: retry (ignored: ");
    acts(&pane, "pause");
    pane.wait_for("○ paused");
    acts(&pane, "go");
    pane.wait_for("you: go");
    acts(&pane, "cancel");
    let all = pane.ends(130);
    assert!(all.contains("Cancelled"), "{all}");
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

/// A developer whose command is not allowed yet.
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

/// Answers the question on the screen.
fn answers(pane: &Pane, text: &str) {
    pane.writes(text);
    pane.wait_for(&format!("[y/N] {text}"));
    pane.types(&["Enter"]);
}

#[test]
fn a_message_at_an_approval_does_not_answer_it() {
    let Some(pane) = asking() else { return };
    answers(&pane, "yes please");
    pane.wait_for("that is neither yes nor no");
    pane.wait_for("Say to the agent: yes please");
    pane.types(&["Enter"]);
    pane.wait_for("you: say: yes please");
    // Neither do actions.
    acts(&pane, "skip");
    pane.wait_for("you: skip (ignored: ");
    assert!(!pane.trial.project().join("made").exists());
    pane.wait_for("Allow this call? [y/N]");
    answers(&pane, "y");
    let all = pane.ends(0);
    assert!(all.contains("approval: allowed (terminal)"), "{all}");
    assert_eq!(std::fs::read_to_string(pane.trial.project().join("made")).unwrap(), "made\n");
}

#[test]
fn an_approval_that_comes_while_a_message_is_typed_is_not_answered_by_it() {
    let delivery = Delivery { delay: Duration::from_secs(3), ..Delivery::default() };
    let trial = Trial::new(developer([bash("echo made >> made").delivered(delivery)]))
        .user_config("/permissions/ask", json!(["commands", "paths"]))
        .user_config("/permissions/run", json!(["cat"]));
    let Some(pane) = Pane::start(trial, 80, 40, &["run", "Make it."]) else { return };
    pane.wait_for("● developer · asking the model");
    pane.writes("y");
    pane.wait_for("Say to the agent: y");
    pane.wait_for("developer waits for your answer until");
    // Longer than the question has to be shown before it can be answered.
    pane.wait_for("9 m 58 s left");
    pane.types(&["es", "Enter"]);
    pane.wait_for("you: say: yes");
    pane.wait_for("Allow this call? [y/N]");
    assert!(!pane.trial.project().join("made").exists());
    answers(&pane, "n");
    let all = pane.ends(0);
    assert!(all.contains("approval: denied (terminal)"), "{all}");
    assert!(!pane.trial.project().join("made").exists());
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
    let request = pane.trial.server.asked()[2].json.to_string();
    assert!(request.contains("accept") && request.contains("blue"), "{request}");

    let Some(pane) = Pane::start(asking(), 80, 40, &["run", "--plain", "Ask."]) else { return };
    pane.wait_for("color [1 red, 2 blue]:");
    pane.types(&["red", "Enter"]);
    pane.ends(0);
    let request = pane.trial.server.asked()[2].json.to_string();
    assert!(request.contains("accept") && request.contains("red"), "{request}");

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
    acts(&pane, "skip");
    pane.wait_for("you: skip (ignored: ");
    acts(&pane, "pause");
    pane.wait_for("○ paused");
    says(&pane, "the file is a.txt");
    go(&pane);
    // The call ends, and nothing begins.
    pane.wait_for_file("done");
    pane.wait_for("Esc go");
    assert_eq!(pane.trial.server.asked().len(), 2);
    acts(&pane, "go");
    let all = pane.ends(0);
    assert!(all.contains("the pause is over"), "{all}");
    let asked = pane.trial.server.asked();
    assert!(asked[2].json.to_string().contains("the file is a.txt"), "the agent did not get it");
}

#[test]
fn the_menu_lets_an_agent_begin_again_and_forces_another() {
    let server = crate::answers::always(select("developer"), complete("all done"), bash(HOLD));
    let trial = Trial::new(server).file("a.txt", "text\n");
    let Some(pane) = Pane::start(trial, 100, 40, &["run", "Do it."]) else { return };
    pane.wait_for("● developer · running Bash");
    acts(&pane, "retry");
    pane.wait_for("you: retry");
    pane.wait_for("● developer · running Bash");
    acts(&pane, "force reviewer");
    pane.wait_for("you: force reviewer");
    // It may run nothing here, and is stopped soon.
    let all = pane.ends(0);
    assert!(words(&all).contains("● reviewer: reviewer was asked for by the user (by you)"), "{all}");
    assert!(!all.contains("ignored"), "{all}");
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
    assert!(!stopped.contains("Ctrl-C stop") && pane.has_cursor(), "{stopped}");
    pane.types(&["clear; stty -a", "Enter"]);
    let modes = pane.wait_for("-extproc");
    assert!(modes.contains(" icanon") && modes.contains(" echo "), "{modes}");
    pane.types(&["clear; fg", "Enter"]);
    pane.wait_for("● developer · running Bash");
    // Keys come one by one again.
    pane.types(&["x"]);
    pane.wait_for("Say to the agent: x");
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
