//! No command may overflow the stack or take all the memory of the process that asks: what is too deep or too long is
//! refused.

use super::{PROJECT, listed};
use crate::agent::BashFilter;
use crate::policy::{Permission, bash_permission};
use proptest::prelude::*;

/// A quarter of what a thread of the standard library gets.
const STACK: usize = 512 * 1024;

/// Whether an allowlist allows `commands`, found on a small stack. Patterns are matched there, too.
fn permissions(commands: Vec<String>) -> Vec<(String, Permission)> {
    let judge = move || {
        let patterns = BashFilter { blocked_patterns: vec!["rm -rf /".to_owned()], ..BashFilter::default() };
        let mut filter = listed();
        filter.allowed_commands.iter_mut().for_each(|listed| listed.push("stdbuf".to_owned()));
        let one = |command: String| {
            let _ = bash_permission(&patterns, PROJECT, &command);
            let permission = bash_permission(&filter, PROJECT, &command);
            (command, permission)
        };
        commands.into_iter().map(one).collect()
    };
    std::thread::Builder::new().stack_size(STACK).spawn(judge).unwrap().join().unwrap()
}

#[track_caller]
fn check(commands: Vec<String>, allowed: bool) {
    for (command, permission) in permissions(commands) {
        let head: String = command.chars().take(60).collect();
        assert_eq!(permission.is_allowed(), allowed, "{head:?}: {permission:?}");
        if let Permission::Denied { message, .. } = permission {
            assert!(message.len() < 1_500, "{head:?}: {message}");
        }
    }
}

#[test]
fn thousands_of_wrappers_overflow_no_stack() {
    let wrappers = [
        "env ",
        "env -i ",
        "env A=1 ",
        "xargs ",
        "xargs -I{} ",
        "timeout 1 ",
        "nice ",
        "nice -n 1 ",
        "nice -5 ",
        "nohup ",
        "command ",
        "command -- ",
        "time -p ",
        "setsid ",
        "stdbuf -oL ",
        "taskset 1 ",
        "env xargs ",
        "time xargs nice ",
        "\\time ",
    ];
    let chains =
        wrappers.iter().flat_map(|wrapper| [11, 2_000].map(|times| format!("{}ls", wrapper.repeat(times))));
    check(chains.collect(), false);
    check(vec![format!("{}ls", "env ".repeat(12_000)), format!("{}ls", "xargs ".repeat(12_000))], false);
    check(vec![format!("{}ls", "env ".repeat(10)), "env nice timeout 5 xargs ls".into()], true);
}

#[test]
fn thousands_of_nested_commands_overflow_no_stack() {
    let pairs = [
        ("( ", " )"),
        ("{ ", "; }"),
        ("$( ", " )"),
        ("ls $(", ")"),
        ("ls \"$(", ")\""),
        ("ls <(", ")"),
        ("if ls; then ", "; fi"),
        ("if ", "; then ls; fi"),
        ("while ", "; do ls; done"),
        ("for f in a; do ", "; done"),
        ("case a in a) ", ";; esac"),
        ("f() ", ""),
        ("function f ", ""),
        ("ls `", "`"),
        ("a=$(", ")"),
        ("[[ -f $(", ") ]]"),
        ("ls <<<$(", ")"),
        ("ls >$(", ")"),
        ("a=(", ")"),
        ("! ( ", " )"),
        ("coproc ", ""),
        ("ls ${x:-$(", ")}"),
        ("ls \"${x:-\"$(", ")\"}\""),
        ("((", "))"),
        ("$((", "))"),
        ("ls $[", "]"),
        ("${", "}"),
        ("<(", ")"),
        ("bash -c \"", "\""),
    ];
    let mut nested: Vec<String> = Vec::new();
    for (open, close) in pairs {
        for times in [25, 3_000, 99_000] {
            let times = times.min(99_000 / (open.len() + close.len()));
            nested.push(format!("{}ls{}", open.repeat(times), close.repeat(times)));
            nested.push(format!("{}ls", open.repeat(times)));
        }
    }
    // Quotes do not nest: what looks like it is one word after the other.
    nested.retain(|command| !command.starts_with("bash") && !command.starts_with("ls `"));
    check(nested, false);
    check(vec![format!("{}ls{}", "( ".repeat(20), " )".repeat(20)), "[[ ( ( ( a ) ) ) ]]".into()], true);
}

/// Pieces that open, close or separate something.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "( ",
        "{ ",
        "$(",
        "\"$(",
        "<(",
        "`",
        "\\`",
        "\"",
        "'",
        "$'",
        "((",
        "$((",
        "${x:-",
        "[[ ",
        "[[ ( ",
        "if ",
        "then ",
        "while ",
        "do ",
        "for f in ",
        "case a in ",
        "a) ",
        "f() ",
        "function f ",
        "a=(",
        "env ",
        "xargs ",
        "timeout 1 ",
        "command ",
        "time ",
        "! ",
        "ls ",
        "cd a ",
        "; ",
        "&& ",
        "|| ",
        "| ",
        "& ",
        "\n",
        "\\\n",
        "<<E ",
        "\nE\n",
        ") ",
        "} ",
        "]] ",
        "))",
        "fi ",
        "done ",
        ";; ",
        "esac ",
        "# ",
        "\\",
        "$",
        "{a,b}",
        "<<<",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_nesting_whatsoever_overflows_a_small_stack(
        parts in prop::collection::vec((prop::collection::vec(piece(), 1..5), 1_usize..3_000), 1..5),
        closing in prop::collection::vec((piece(), 1_usize..100), 0..4),
    ) {
        let mut command: String = parts.iter().map(|(pieces, times)| pieces.concat().repeat(*times)).collect();
        command.push_str("ls ");
        command.extend(closing.iter().map(|(piece, times)| piece.repeat(*times)));
        let command: String = command.chars().take(100_000).collect();
        prop_assert_eq!(permissions(vec![command]).len(), 1);
    }
}
