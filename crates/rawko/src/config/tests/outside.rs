//! Warnings of what does not hold an agent that is another program.

use super::project::TestProject;

const OTHER: &str = "name: coder\nwhenToUse: x\nsystemPrompt: x\nacp: {command: [coder]}\n";
const OWN: &str = "name: coder\nwhenToUse: x\nsystemPrompt: x\n";

/// What is said of a project with these files, the agent and the configuration.
#[track_caller]
fn check(agent: &str, config: &str, parts: &[&str]) {
    let project = TestProject::new(&[(".rawko/agents/coder.yaml", agent), (".rawko/config.yaml", config)]);
    let mut loaded = project.loaded();
    let before = loaded.warnings.len();
    loaded.warn_of_outside_agents();
    let found: Vec<String> = loaded.warnings.iter().skip(before).map(ToString::to_string).collect();
    assert_eq!(found.len(), parts.len(), "{agent}{config}: {found:?}");
    for (warning, part) in found.iter().zip(parts) {
        assert!(warning.contains(part) && warning.contains("coder.yaml"), "{part:?} is missing in {warning}");
    }
}

#[test]
fn hooks_and_lists_of_programs_do_not_hold_another_program() {
    let hook = |event: &str| format!("hooks:\n  {event}:\n    - hooks: [{{type: command, command: x}}]\n");
    let run = format!("{OTHER}permissions: {{run: [cat]}}\n");
    check(OTHER, "", &[]);
    for event in ["PreToolUse", "PostToolUse"] {
        check(OTHER, &hook(event), &["hooks do not see what the program of `coder` does"]);
        check(OWN, &hook(event), &[]);
    }
    check(OTHER, &hook("Stop"), &[]);
    check(&run, "", &["`permissions.run` does not hold the commands of the program of `coder`"]);
    check(OTHER, "permissions: {run: [cat]}\n", &["`permissions.run`"]);
    check(&run, &hook("PreToolUse"), &["hooks do not see", "`permissions.run`"]);
    check(&format!("{OWN}permissions: {{run: [cat]}}\n"), "", &[]);
}
