//! How permissions add up: the command line speaks over the project's configuration, an agent narrows what
//! is left, and every `deny` and `protect` counts.
//!
//! Paths are compared as text, relative ones against relative ones: the core does not know where the project is. A pair
//! that cannot be compared (one absolute, one relative) has nothing in common, which is the narrow answer.

use super::tools::tool_permission;
use crate::agent::{AgentConfig, Ask, Permissions};

/// What an agent may touch in the end.
///
/// For each list of grants: the command line's where it gives one, else the configuration's; then only what
/// the agent's own list grants too. An absent list of an agent narrows nothing. `deny` lists are united.
#[must_use]
pub fn effective_permissions(
    global: &Permissions,
    agent: Option<&Permissions>,
    cli: Option<&Permissions>,
) -> Permissions {
    let none = Permissions::default();
    let agent = agent.unwrap_or(&none);
    let cli = cli.unwrap_or(&none);
    let project = || Some(vec![".".to_owned()]);
    let nothing = || Some(Vec::new());
    Permissions {
        read: narrow(over(&cli.read, &global.read).or_else(project), &agent.read, path_covers),
        write: narrow(over(&cli.write, &global.write).or_else(project), &agent.write, path_covers),
        deny: unite([&global.deny, &agent.deny, &cli.deny]),
        protect: unite([&global.protect, &agent.protect, &cli.protect]),
        net: narrow(over(&cli.net, &global.net).or_else(nothing), &agent.net, host_covers),
        env: narrow(over(&cli.env, &global.env).or_else(nothing), &agent.env, |a, b| a == b),
        run: narrow(over(&cli.run, &global.run), &agent.run, |a, b| a == b),
        caches: global.caches.clone(),
        memory: global.memory,
        require: global.require,
        sandbox: cli.sandbox.or(global.sandbox),
        ask: asked(global, agent),
        ask_timeout: global.ask_timeout,
    }
}

/// What is asked for: what the configuration names, unless the agent's own list leaves it out. An agent that comes with a
/// folder cannot make a person be asked. `None` where that is nothing.
fn asked(global: &Permissions, agent: &Permissions) -> Option<Vec<Ask>> {
    let mut asked = global.ask.clone().unwrap_or_default();
    if let Some(own) = &agent.ask {
        asked.retain(|what| own.contains(what));
    }
    asked.sort_unstable();
    asked.dedup();
    (!asked.is_empty()).then_some(asked)
}

/// The tools that change files.
const EDITING: [&str; 2] = ["Edit", "Write"];

/// What the calls of `agent` may touch, given its effective permissions: only the programs that its `bashFilter` lists
/// too, and nothing for writing if it has no tool that changes files. Such an agent does not write by a command either.
#[must_use]
pub fn permissions_of_calls(agent: &AgentConfig, granted: &Permissions) -> Permissions {
    let writes = EDITING.iter().any(|tool| tool_permission(agent, tool, &EDITING).is_allowed());
    Permissions {
        run: listed_programs(agent, granted),
        write: if writes { granted.write.clone() } else { Some(Vec::new()) },
        ..granted.clone()
    }
}

/// The programs that Bash may run for `agent`: those that its `bashFilter` and `granted` both name. `None` where neither
/// names any, and so every program may run.
fn listed_programs(agent: &AgentConfig, granted: &Permissions) -> Option<Vec<String>> {
    let filter = agent.tools.bash_filter.as_ref();
    let listed = filter.and_then(|filter| filter.allowed_commands.clone());
    narrow(granted.run.clone(), &listed, |a, b| a == b)
}

fn over(first: &Option<Vec<String>>, second: &Option<Vec<String>>) -> Option<Vec<String>> {
    first.as_ref().or(second.as_ref()).cloned()
}

/// What both lists grant. An absent base grants everything: only `run` has no default of its own.
fn narrow(
    base: Option<Vec<String>>,
    agent: &Option<Vec<String>>,
    covers: impl Fn(&str, &str) -> bool,
) -> Option<Vec<String>> {
    let Some(wanted) = agent else { return base };
    let Some(base) = base else { return Some(wanted.clone()) };
    let mut both: Vec<String> = Vec::new();
    let inner = wanted.iter().filter(|w| base.iter().any(|b| covers(b, w)));
    let outer = base.iter().filter(|b| wanted.iter().any(|w| covers(w, b)));
    for item in inner.chain(outer) {
        if !both.contains(item) {
            both.push(item.clone());
        }
    }
    Some(both)
}

fn unite(lists: [&Option<Vec<String>>; 3]) -> Option<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    for item in lists.into_iter().flatten().flatten() {
        if !all.contains(item) {
            all.push(item.clone());
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Names for the hosts that package managers need, for `permissions.net`.
const NET_PRESETS: [(&str, &[&str]); 4] = [
    ("cargo", &["crates.io", "index.crates.io", "static.crates.io"]),
    ("go", &["proxy.golang.org", "sum.golang.org"]),
    ("npm", &["registry.npmjs.org", "registry.yarnpkg.com"]),
    ("pypi", &["pypi.org", "files.pythonhosted.org"]),
];

/// Whether a list of `permissions.net` grants `host`: by its name, by a pattern like `*.example.com`, or by a preset.
#[must_use]
pub fn host_is_granted(granted: &[String], host: &str) -> bool {
    granted.iter().any(|entry| host_covers(entry, host.trim_end_matches('.')))
}

/// The preset of `permissions.net` that grants `host`, if there is one.
#[must_use]
pub fn net_preset_of(host: &str) -> Option<&'static str> {
    NET_PRESETS.iter().find(|(_, hosts)| hosts.contains(&host)).map(|(name, _)| *name)
}

fn host_covers(outer: &str, inner: &str) -> bool {
    if let Some((_, hosts)) = NET_PRESETS.iter().find(|(name, _)| *name == outer) {
        return inner == outer || hosts.iter().any(|host| host.eq_ignore_ascii_case(inner));
    }
    let (outer, inner) = (outer.to_ascii_lowercase(), inner.to_ascii_lowercase());
    match outer.strip_prefix('*') {
        Some("") => true,
        Some(suffix) => suffix.starts_with('.') && (inner.ends_with(suffix) || inner == outer),
        None => outer == inner,
    }
}

/// Whether `outer` holds `inner`, as text. Paths of different kinds have nothing in common.
pub(super) fn path_covers(outer: &str, inner: &str) -> bool {
    let (outer, inner) = (PathText::parse(outer), PathText::parse(inner));
    if outer.absolute != inner.absolute || inner.ups > outer.ups {
        return false;
    }
    if inner.ups < outer.ups {
        // `../..` covers `../x` and `x`, but `../../y` covers neither.
        return outer.names.is_empty();
    }
    inner.names.starts_with(&outer.names)
}

/// A path as text: how far up, then which names down.
struct PathText<'a> {
    absolute: bool,
    ups: usize,
    names: Vec<&'a str>,
}

impl<'a> PathText<'a> {
    fn parse(path: &'a str) -> Self {
        let absolute = path.starts_with('/');
        let mut parsed = Self { absolute, ups: 0, names: Vec::new() };
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." if parsed.names.pop().is_some() || absolute => {}
                ".." => parsed.ups += 1,
                name => parsed.names.push(name),
            }
        }
        parsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn permissions(value: Value) -> Permissions {
        serde_json::from_value(value).unwrap()
    }

    #[track_caller]
    fn check(global: Value, agent: Value, cli: Value, list: &str, expected: Value) {
        let effective =
            effective_permissions(&permissions(global), Some(&permissions(agent)), Some(&permissions(cli)));
        let value = serde_json::to_value(&effective).unwrap();
        assert_eq!(value.get(list).cloned().unwrap_or(Value::Null), expected);
    }

    #[test]
    fn an_agent_narrows_and_never_widens() {
        check(json!({}), json!({}), json!({}), "read", json!(["."]));
        check(json!({}), json!({"write": ["src"]}), json!({}), "write", json!(["src"]));
        check(json!({"write": ["src"]}), json!({"write": ["."]}), json!({}), "write", json!(["src"]));
        check(json!({"write": []}), json!({"write": ["src"]}), json!({}), "write", json!([]));
        check(json!({}), json!({"read": ["/etc"]}), json!({}), "read", json!([]));
        check(json!({}), json!({"read": ["src/../.."]}), json!({}), "read", json!(["."]));
        check(json!({}), json!({"read": ["../other"]}), json!({}), "read", json!([]));
        check(json!({"read": ["../x"]}), json!({"read": ["../xy"]}), json!({}), "read", json!([]));
        check(json!({}), json!({"net": ["evil.example"]}), json!({}), "net", json!([]));
        check(json!({}), json!({"env": ["HTTP_PROXY"]}), json!({}), "env", json!([]));
        check(
            json!({"net": ["*.example.com"]}),
            json!({"net": ["a.example.com", "example.org"]}),
            json!({}),
            "net",
            json!(["a.example.com"]),
        );
        check(json!({"run": ["git", "ls"]}), json!({"run": ["ls", "rm"]}), json!({}), "run", json!(["ls"]));
        check(json!({}), json!({"run": ["ls"]}), json!({}), "run", json!(["ls"]));
    }

    #[test]
    fn only_the_configuration_has_a_person_asked() {
        let hosts = json!(["hosts"]);
        check(json!({}), json!({"ask": ["hosts"]}), json!({"ask": ["hosts"]}), "ask", json!(null));
        check(json!({"ask": ["paths", "hosts"]}), json!({}), json!({}), "ask", json!(["hosts", "paths"]));
        check(json!({"ask": ["hosts"]}), json!({"ask": ["hosts", "commands"]}), json!({}), "ask", hosts);
        check(json!({"ask": ["hosts"]}), json!({"ask": []}), json!({}), "ask", json!(null));
        check(json!({"ask": []}), json!({}), json!({}), "ask", json!(null));
        check(json!({}), json!({"askTimeout": "1h"}), json!({}), "askTimeout", json!(null));
    }

    #[test]
    fn only_the_configuration_limits_memory() {
        check(json!({"memory": "1GiB"}), json!({"memory": "off"}), json!({}), "memory", json!("1GiB"));
        check(json!({}), json!({"memory": "off"}), json!({}), "memory", json!(null));
    }

    #[test]
    fn a_preset_grants_the_hosts_of_a_package_manager() {
        check(
            json!({"net": ["cargo"]}),
            json!({"net": ["crates.io", "x.io"]}),
            json!({}),
            "net",
            json!(["crates.io"]),
        );
        check(
            json!({"net": ["crates.io"]}),
            json!({"net": ["cargo"]}),
            json!({}),
            "net",
            json!(["crates.io"]),
        );
        let granted = ["cargo".to_owned(), "*.example.com".to_owned()];
        for (host, expected) in [
            ("static.crates.io", true),
            ("Static.Crates.IO.", true),
            ("a.example.com", true),
            ("example.com", false),
            ("evilexample.com", false),
            ("crates.io.evil.com", false),
            ("cargo", true),
        ] {
            assert_eq!(host_is_granted(&granted, host), expected, "{host}");
        }
        assert_eq!(net_preset_of("pypi.org"), Some("pypi"));
    }

    #[test]
    fn the_command_line_speaks_over_the_configuration_but_not_over_a_deny() {
        check(json!({"write": []}), json!({}), json!({"write": ["src"]}), "write", json!(["src"]));
        check(
            json!({"deny": [".env"]}),
            json!({"deny": ["secrets"]}),
            json!({"read": [".env"], "deny": [".env", "k"]}),
            "deny",
            json!([".env", "secrets", "k"]),
        );
    }

    #[test]
    fn an_agent_that_cannot_edit_cannot_write() {
        for (tools, expected) in [
            (json!({}), json!(["src"])),
            (json!({"allowed": ["Read", "Bash"]}), json!([])),
            (json!({"allowed": ["Bash", "Edit"]}), json!(["src"])),
            (json!({"blocked": ["Write", "Edit"]}), json!([])),
        ] {
            let agent = json!({"name": "a", "systemPrompt": "x", "tools": tools});
            let agent: AgentConfig = serde_json::from_value(agent).unwrap();
            let got = permissions_of_calls(&agent, &permissions(json!({"write": ["src"]})));
            assert_eq!(json!(got.write), expected, "{tools}");
        }
    }

    #[track_caller]
    fn check_programs(filter: &Value, run: &Value, expected: Option<&[&str]>) {
        let tools = json!({"bashFilter": {"allowedCommands": filter}});
        let agent = json!({"name": "a", "systemPrompt": "x", "tools": tools});
        let agent: AgentConfig = serde_json::from_value(agent).unwrap();
        let listed = listed_programs(&agent, &permissions(json!({"run": run})));
        assert_eq!(
            listed.as_deref(),
            expected.map(|names| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()).as_deref()
        );
    }

    #[test]
    fn programs_are_those_that_every_list_names() {
        check_programs(&json!(null), &json!(null), None);
        check_programs(&json!(["ls"]), &json!(null), Some(&["ls"]));
        check_programs(&json!(null), &json!(["ls"]), Some(&["ls"]));
        check_programs(&json!(["ls", "git"]), &json!(["git", "rm"]), Some(&["git"]));
        check_programs(&json!([]), &json!(["ls"]), Some(&[]));
    }

    proptest! {
        #[test]
        fn whatever_is_effective_was_granted_by_both(
            base in proptest::collection::vec("[./ab]{0,8}", 0..4),
            wanted in proptest::collection::vec("[./ab]{0,8}", 0..4),
        ) {
            let global = Permissions { read: Some(base.clone()), ..Permissions::default() };
            let agent = Permissions { read: Some(wanted.clone()), ..Permissions::default() };
            let got = effective_permissions(&global, Some(&agent), None).read.unwrap_or_default();
            for path in got {
                prop_assert!(base.iter().any(|b| path_covers(b, &path)));
                prop_assert!(wanted.iter().any(|w| path_covers(w, &path)));
            }
        }
    }
}
