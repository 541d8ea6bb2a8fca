//! The built-in agents that only read: what reads runs, what writes or starts something else does not.

use super::PROJECT;
use crate::agent::{AgentConfig, Permissions, builtin_agents};
use crate::message::ToolCall;
use crate::policy::{BASH, CallContext, call_permission};
use serde_json::json;

fn readers() -> Vec<AgentConfig> {
    builtin_agents().into_iter().filter(|agent| agent.tools.bash_filter.is_some()).collect()
}

/// Checks commands of the planner and the reviewer, in the sandbox or without it.
#[track_caller]
fn check(confined: bool, commands: &[&str], allowed: bool) {
    let readers = readers();
    assert_eq!(readers.len(), 2);
    let granted = Permissions { write: Some(vec![".".to_owned()]), ..Permissions::default() };
    let context = CallContext { project: PROJECT, is_confined: confined };
    let mut wrong = Vec::new();
    for (agent, command) in readers.iter().flat_map(|agent| commands.iter().map(move |one| (agent, one))) {
        let input = json!({ "command": command });
        let call = ToolCall { id: "1".into(), name: BASH.into(), input, invalid_input: None, withheld: None };
        let permission = call_permission(agent, &granted, context, &call, &[BASH]);
        if permission.is_allowed() != allowed {
            wrong.push(format!("{}: {command:?}: {permission:?}", agent.name));
        }
    }
    assert!(wrong.is_empty(), "confined {confined}:\n{}", wrong.join("\n"));
}

const READ: [&str; 35] = [
    "sed -n '10,20p' src/a.py",
    "sed -n '/^def x/,/^def /p' a | head -40",
    "sed -e 's/a/b/' -e '$!d' a",
    "cat -n a.py | sed -n '189,233p'",
    "cd src && sed -n 1,5p a && sed -n 9p b",
    "cd /home/me/project && awk 'NR >= 5 && NR <= 9' a",
    "diff -u a b",
    "diff <(git show HEAD:a) a",
    "cmp a b || echo differs",
    "sort -u a | uniq -c | sort -rn | head",
    "uniq a",
    "cut -d: -f1 a | tr a-z A-Z",
    "nl -ba a",
    "stat -c '%s %n' a; file a; du -sh src",
    "basename src/a.py .py && dirname src/a.py && realpath src/a.py",
    "find . -name '*.py' | xargs grep -ln 'def x' | head -10",
    "find . -name '*.py' -print0 | xargs -0 wc -l",
    "xargs -n1 basename <list",
    "echo '--- a ---' && cat a; echo; printf '%s\\n' done",
    "printf '%5d%%\\n' 3 && printf 'plain'",
    "printf 'none: %%n\\n' x",
    "pwd && ls -la",
    "test -f a && cat a || true",
    "[ -d src ] && tree src || false",
    "if [ -f a ]; then sed -n 1p a; fi",
    "for f in a b; do echo \"== $f\"; grep -n x \"$f\"; done",
    "grep -rn x . 2>/dev/null | head",
    "grep -c x a >/dev/null 2>&1; echo $?",
    "git diff HEAD~1 -- src | sed -n '1,80p'",
    "git log --oneline | wc -l",
    "rg -n 'fn main' src",
    "jq .scripts package.json",
    "comm -12 a b; paste a b; tac a",
    "readlink -f a; which python3",
    "od -c a | head; xxd a | head",
];

const STARTED_BY_FIND: [&str; 4] = [
    "find . -name '*.py' -exec grep -l x {} +",
    "find src -type f -exec grep -n x {} \\; | head -20",
    "find . -name a -exec sed -n '1,5p' {} \\; -print",
    "find . -name '*.rs' -exec wc -l {} + | sort -n | tail -1",
];

const MORE_THAN_READ: [&str; 52] = [
    "sed -i s/a/b/ a",
    "sed -ni p a",
    "sed -n -i.bak p a",
    "sed --in-place s/a/b/ a",
    "sed -n 'w b' a",
    "sed -n 'W b' a",
    "sed '1e touch b' a",
    "sed e a",
    "sed 's/a/touch b/e' a",
    "sed 's/a/b/w b' a",
    "sed 's/a/b/gw b' a",
    "sed '/x/{w b\n}' a",
    "sed -e p -e 'w b' a",
    "sed -f script a",
    "sort -o b a",
    "sort -ob a",
    "sort --output=b a",
    "sort --compress-program=./x a",
    "uniq a b",
    "cat a | uniq - b",
    "diff -l a b",
    "xxd -r a b",
    "tree -o b",
    "file -C -m a",
    "awk '{print > \"b\"}' a",
    "awk 'BEGIN{system(\"touch b\")}'",
    "awk '{print | \"sh\"}' a",
    "awk -f script a",
    "rg --pre ./x y",
    "find . -delete",
    "find . -fprint b",
    "find . -exec rm {} +",
    "find . -exec sh -c 'touch b' \\;",
    "find . -exec sed -i s/a/b/ {} \\;",
    "find . -exec sort -o {} a \\;",
    "find . -exec uniq {} {} \\;",
    "find . -ok grep x {} \\;",
    "find . -exec env grep x {} \\;",
    "find . -exec git commit -am {} \\;",
    "find . -name a | xargs rm",
    "find . -name a | xargs sed -i s/a/b/",
    "echo a b | xargs uniq",
    "echo x | xargs -I{} sort -o {} a",
    "xargs sh -c 'touch b'",
    "echo x > a",
    "printf x >> a",
    "printf -v PATH x",
    "printf %n PATH; ls",
    "echo x | tee a",
    "git commit -m x",
    "grep x a && touch b",
    "echo $(touch b)",
];

#[test]
fn the_planner_and_the_reviewer_run_what_only_reads() {
    check(true, &READ, true);
    check(false, &READ, true);
    check(true, &STARTED_BY_FIND, true);
}

#[test]
fn the_planner_and_the_reviewer_run_nothing_that_writes_or_starts_something_else() {
    check(true, &MORE_THAN_READ, false);
    check(false, &MORE_THAN_READ, false);
}

/// Without the sandbox the filter is the only wall.
#[test]
fn find_starts_programs_only_where_the_sandbox_holds_them() {
    check(false, &STARTED_BY_FIND, false);
}
