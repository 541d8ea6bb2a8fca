//! Reads from manifests what is a test and what only looks like one: rules, recipes, scripts, lists of modules.

use serde_json::Value;

use crate::config::yaml_value;

/// Commands that test nothing: a script of these alone is a placeholder, as `npm init` writes one.
const IDLE: [&str; 7] = ["echo", "printf", "exit", "true", "false", ":", "test"];

/// Whether a line of a makefile begins the rule for `target`: not a variable of that name, nor a line of a recipe.
pub(super) fn is_rule(line: &str, target: &str) -> bool {
    let Some((names, rest)) = line.split_once(':') else { return false };
    !line.starts_with(['\t', '#'])
        && !names.contains('=')
        && !rest.trim_start_matches(':').starts_with('=')
        && names.split_whitespace().any(|name| name == target)
}

/// Whether a line of a justfile begins the recipe `target`, with or without parameters.
pub(super) fn is_recipe(line: &str, target: &str) -> bool {
    let Some(rest) = line.strip_prefix('@').unwrap_or(line).strip_prefix(target) else { return false };
    let after_name = rest.trim_start();
    let ends_there = rest.starts_with([':', ' ', '\t']);
    ends_there && !after_name.starts_with(":=") && after_name.contains(':')
}

/// Whether a script does something: a command line, a list of them, or what a task runner has for one.
pub(super) fn is_script(value: &Value) -> bool {
    match value {
        Value::String(line) => is_command(line),
        Value::Array(lines) => lines.iter().any(is_script),
        Value::Object(task) => ["command", "cmd", "cmds", "deps", "dependencies"]
            .iter()
            .any(|key| task.get(*key).is_some_and(is_script)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_command(line: &str) -> bool {
    let mut bare = String::new();
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') => {
                quote = Some(c);
                bare.push('_');
            }
            None => bare.push(c),
        }
    }
    let mut commands = bare.split(['&', '|', ';', '\n']).filter_map(|part| part.split_whitespace().next());
    commands.any(|program| !IDLE.contains(&program))
}

/// The folders of the modules that a `go.work` uses.
pub(super) fn used_modules(text: &str) -> Vec<String> {
    let mut modules = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        let mut words = line.split("//").next().unwrap_or_default().split_whitespace();
        let first = words.next();
        let folder = match first {
            Some(")") => {
                in_block = false;
                None
            }
            Some("use") => match words.next() {
                Some("(") => {
                    in_block = true;
                    None
                }
                folder => folder,
            },
            Some("use(") => {
                in_block = true;
                None
            }
            folder => folder.filter(|_| in_block),
        };
        modules.extend(folder.map(|folder| folder.trim_matches(['"', '`']).to_owned()));
    }
    modules
}

/// The value of a file of JSON, of JSON with comments, or of YAML.
pub(super) fn value(name: &str, text: &str) -> Option<Value> {
    if name.ends_with(".json") {
        return serde_json::from_str(text).ok();
    }
    if name.ends_with(".jsonc") {
        return serde_json::from_str(&without_comments(text)).ok();
    }
    yaml_value(text)
}

/// JSON without comments, and without a comma at the end of a list.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut in_string = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if in_string => {
                kept.push(c);
                kept.extend(chars.next());
            }
            '"' => {
                in_string = !in_string;
                kept.push(c);
            }
            '/' if !in_string && chars.peek() == Some(&'/') => {
                while chars.peek().is_some_and(|next| *next != '\n') {
                    chars.next();
                }
            }
            '/' if !in_string && chars.peek() == Some(&'*') => {
                chars.next();
                let mut last = ' ';
                for next in chars.by_ref() {
                    if last == '*' && next == '/' {
                        break;
                    }
                    last = next;
                }
            }
            '}' | ']' if !in_string => {
                let last = kept.trim_end().len();
                if kept[..last].ends_with(',') {
                    kept.truncate(last - 1);
                }
                kept.push(c);
            }
            _ => kept.push(c),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn makefiles_have_rules() {
        for rule in ["test:", "test: build", "all test:", "test::", "test :"] {
            assert!(is_rule(rule, "test"), "{rule}");
        }
        for none in ["test = x", "test := x", "test ::= x", "\ttest: x", "# test:", "tests:", "x: test", ""] {
            assert!(!is_rule(none, "test"), "{none}");
        }
    }

    #[test]
    fn justfiles_have_recipes() {
        for recipe in ["test:", "@test:", "test: build", "test *args='':", "test a b='x:y': build"] {
            assert!(is_recipe(recipe, "test"), "{recipe}");
        }
        for none in ["test := 'x'", "# test:", "  test:", "tests:", "test-all:", "alias t := test", "test"] {
            assert!(!is_recipe(none, "test"), "{none}");
        }
    }

    #[test]
    fn placeholders_are_no_scripts() {
        for script in [
            json!("jest"),
            json!("echo begin && vitest run"),
            json!(["@php vendor/bin/phpunit"]),
            json!({"command": "deno test -A"}),
            json!({"desc": "x", "cmds": ["go test ./..."]}),
            json!({"deps": ["unit"]}),
            json!("test -d dist || tsc; node --test"),
        ] {
            assert!(is_script(&script), "{script}");
        }
        for none in [
            json!("echo \"Error: no test specified\" && exit 1"),
            json!("echo 'none; yet'"),
            json!(" "),
            json!("exit 0"),
            json!(1),
            json!([]),
            json!({"desc": "tests"}),
            json!(null),
        ] {
            assert!(!is_script(&none), "{none}");
        }
    }

    #[test]
    fn a_workspace_of_go_uses_modules() {
        let check = |text: &str, expected: &[&str]| assert_eq!(used_modules(text), expected, "{text}");
        check("go 1.22\n\nuse ./a\nuse \"./b\"\n", &["./a", "./b"]);
        check("use (\n\t./a // the first\n\t./b\n)\nreplace x => ./c\n", &["./a", "./b"]);
        check("// use ./a\ngo 1.22\n", &[]);
    }

    #[test]
    fn comments_are_no_part_of_json() {
        let text = "{ // tasks\n \"tasks\": {/* none\n yet */ \"test\": \"deno test // x\",},\n}";
        assert_eq!(value("deno.jsonc", text).unwrap(), json!({"tasks": {"test": "deno test // x"}}));
        assert_eq!(
            value("deno.jsonc", "{\"tasks\": {\n// \"test\": \"x\"\n}}").unwrap(),
            json!({"tasks": {}})
        );
        assert_eq!(value("package.json", "{"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in "(\\PC|[\"'/*\\\\:\n\t(){}]){0,60}") {
            let _ = (is_rule(&text, "test"), is_recipe(&text, "test"), used_modules(&text), is_command(&text));
            let _ = (value("a.jsonc", &text), value("a.yml", &text));
        }

        #[test]
        fn json_without_comments_stays_as_it_is(word in "\\PC{0,20}", number in 0..9u8) {
            let text = json!({"a": {word: number}}).to_string();
            proptest::prop_assert_eq!(without_comments(&text), text);
        }
    }
}
