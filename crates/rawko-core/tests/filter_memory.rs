//! What it may cost to judge the worst commands: memory that grows with their length, not with what they would become.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use rawko_core::agent::{AgentConfig, Permissions};
use rawko_core::message::ToolCall;
use rawko_core::policy::{BASH, CallContext, call_permission};
use serde_json::json;

/// What judging all of them may take at its peak, in kB.
const MOST: u64 = 16 * 1024;
const LENGTH: usize = 20_000;

/// The most memory that this process ever had, in kB; nothing where the system does not say.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn filled(part: &str) -> String {
    part.repeat(LENGTH / part.len())
}

fn around(open: &str, inner: &str, close: &str) -> String {
    let times = LENGTH / (open.len() + close.len());
    format!("{}{inner}{}", open.repeat(times), close.repeat(times))
}

fn worst() -> Vec<String> {
    let mut commands: Vec<String> = [
        "xargs ",
        "env xargs -I{} nice ",
        "find . -exec find . -exec ",
        "ls a ",
        "a ",
        "* ",
        "{a,b}",
        "{a,{b,",
        "{1..9}",
        "$((i+1)) ",
        "${x%a} ",
        "[[ i -eq 1 ]]; ",
        "((i++)); ",
        "i=1; ",
        "a=(x y); ",
        "a+=(x) ",
        "\"${a[@]}\" ",
        "[ $i -lt 3 ]; ",
        "for i in 1; do ls; done; ",
        "for ((i=0;i<1;i++)); do ls; done; ",
        "cat <<E\n$(ls)\nE\n",
        "cat <<E <<E ",
        "cd a; ",
        "cd a && ",
        "ls | ",
        "ls >x ",
        "x=",
        "\\\n",
        "$'\\x41'",
        "#",
        "'",
        "\"",
        "`",
        "$(",
        "((",
        "[[ ",
        "sed -i s/a/b/ x; ",
        "git log; ",
        "sort -o x y; ",
        "rm -rf a ",
        "awk '{print}' x; ",
    ]
    .map(filled)
    .to_vec();
    commands.extend(
        [
            ("( ", " )"),
            ("{ ", "; }"),
            ("$(", ")"),
            ("\"$(", ")\""),
            ("<(", ")"),
            ("((", "))"),
            ("${x:-", "}"),
            ("{", ",}"),
        ]
        .map(|(open, close)| around(open, "ls", close)),
    );
    commands.push(format!("i=0; echo $(({}1))", "i+".repeat(LENGTH / 2 - 20)));
    commands.push(format!("i=0; [[ $(({}1)) -eq 1 ]]", "i++,".repeat(LENGTH / 4 - 20)));
    commands.push(format!("cat <<E\n{}\nE\n", "$(ls a) $((i)) ${x%y}\n".repeat(LENGTH / 30)));
    commands.push(format!("cat <<E\n{}\nE\n", around("$(ls ", "a", ")")));
    commands.push(format!("a=({})", "x ".repeat(LENGTH / 2 - 10)));
    commands.push(format!("echo ${{x//{}/b}}", "a".repeat(LENGTH - 50)));
    commands.push(format!("xargs -I{{}} find . -exec ls {} ;", "{} ".repeat(LENGTH / 3 - 50)));
    commands
}

#[test]
fn the_worst_commands_take_little_memory() {
    let listed =
        ["ls", "cat", "xargs", "env", "nice", "find", "sed", "sort", "git", "rm", "awk", "echo", "["];
    let agent = json!({"name": "a", "systemPrompt": "-", "tools": {"bashFilter": {"allowedCommands": listed, "blockedPatterns": ["sudo "]}}});
    let agent: AgentConfig = serde_json::from_value(agent).unwrap();
    let permissions: Permissions = serde_json::from_value(json!({"read": ["."], "write": ["."]})).unwrap();
    let judge = |command: String, is_confined: bool| {
        let input = json!({ "command": command });
        let call = ToolCall { id: "1".into(), name: BASH.into(), input, invalid_input: None, withheld: None };
        let context = CallContext { project: "/project", is_confined };
        call_permission(&agent, &permissions, context, &call, &[BASH])
    };
    // The tables and patterns are made once.
    judge("ls".to_owned(), true);
    let Some(before) = peak() else {
        eprintln!("skipped: the system does not say how much memory a process takes");
        return;
    };
    for command in worst() {
        let head: String = command.chars().take(30).collect();
        for is_confined in [false, true] {
            let verdict = judge(command.clone(), is_confined);
            let taken = peak().unwrap().saturating_sub(before);
            assert!(taken < MOST, "{head:?} takes {taken} kB: {}", verdict.rule());
            assert!(verdict.denial().is_none_or(|denial| denial.content.len() < 3_000), "{head:?}");
        }
    }
    println!("{} kB", peak().unwrap() - before);
}
