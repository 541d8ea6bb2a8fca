//! `docs/cli.md` mentions everything there is.

use crate::place::Place;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");

/// The events of the stream, where they are declared.
const EVENTS: &str = include_str!("../../../rawko/src/run_event.rs");

/// Names of all events as they are printed.
fn events() -> Vec<String> {
    let declared = EVENTS
        .lines()
        .skip_while(|line| !line.starts_with("pub enum RunEvent"))
        .take_while(|line| *line != "}");
    let variants = declared.filter_map(|line| line.strip_prefix("    ")?.strip_suffix(" {"));
    variants.filter(|name| name.chars().all(char::is_alphanumeric)).map(snake_case).collect()
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

/// Commands under `arguments`, from their help.
fn commands(place: &Place, arguments: &[&str]) -> Vec<String> {
    let help = place.rawko(&[arguments, &["--help"]].concat()).ends(0).out;
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Deeper lines go on with a description.
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty() && *name != "help");
    names.map(str::to_owned).collect()
}

/// Options of a command, from its help.
fn options(place: &Place, arguments: &[&str]) -> Vec<String> {
    let help = place.rawko(&[arguments, &["--help"]].concat()).ends(0).out;
    let words =
        help.lines().filter(|line| line.trim_start().starts_with('-')).flat_map(str::split_whitespace);
    let flags = words.filter(|word| word.starts_with("--") && word.len() > 2);
    flags.map(|flag| flag.split(['=', '[', ',']).next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_command_option_event_and_status_is_mentioned() {
    let docs = std::fs::read_to_string(DOCS).expect("docs/cli.md");
    let place = Place::new();
    let events = events();
    assert!(events.len() >= 12 && events.contains(&"session_finished".to_owned()), "{events:?}");
    let mut wanted: Vec<String> = events.iter().map(|event| format!("| `{event}` |")).collect();
    wanted.extend([0, 1, 2, 3, 4, 5, 130].map(|code| format!("| {code} |")));
    let top = commands(&place, &[]);
    assert!(top.len() >= 12, "{top:?}");
    for command in &top {
        wanted.push(format!("rawko {command}"));
        let actions = commands(&place, &[command]);
        for action in &actions {
            wanted.push(format!("rawko {command} {action}"));
            wanted.extend(options(&place, &[command, action]));
        }
        wanted.extend(options(&place, &[command]));
    }
    let missing: Vec<String> = wanted.into_iter().filter(|part| !docs.contains(part.as_str())).collect();
    assert_eq!(missing, Vec::<String>::new());
}
