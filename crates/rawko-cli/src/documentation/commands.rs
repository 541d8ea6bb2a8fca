//! Generates `docs/reference/commands.md` from the definitions of the command line.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use super::check_generated;
use crate::arguments::Cli;

const HEAD: &str = "\
# Command reference

Every command with every option, generated from the program. [The command line](../cli.md) explains them.

<!-- Generated: RAWKO_UPDATE_DOCS=1 cargo test -p rawko-cli --bin rawko documentation -->
";

/// The heading under which clap lists the options of every command.
const GLOBAL: &str = "Global options";

/// Commands that the help of a build without the features `fleet` and `acp` leaves out. The page is of every build.
const OF_FEATURES: [&str; 4] = ["submit", "fleet", "worker", "acp"];

#[test]
fn the_page_shows_the_commands_as_they_are() {
    let mut cli = Cli::command().disable_help_subcommand(true);
    cli.build();
    let mut page = HEAD.to_owned();
    let run = cli.find_subcommand("run").expect("it is there");
    let of_run: BTreeMap<String, String> =
        run.get_arguments().map(|arg| (row(arg), names(arg).join(", "))).collect();
    write_command(&mut page, &mut cli, &of_run, true);
    check_generated("docs/reference/commands.md", &page);
}

/// Rows that are `of_run` are not repeated.
fn write_command(page: &mut String, command: &mut Command, of_run: &BTreeMap<String, String>, is_root: bool) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").replace("\n       ", "\n");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    write!(page, "\n## {name}\n\n{}.\n\n```text\n{usage}\n```\n", escaped(&about)).expect("text");
    let shown = |arg: &&Arg| {
        let is_global = arg.get_help_heading() == Some(GLOBAL);
        !arg.is_hide_set() && is_global == is_root && (is_root || arg.get_id() != "help")
    };
    let rows = command.get_arguments().filter(shown).map(row);
    let (known, rows): (Vec<String>, Vec<String>) =
        rows.partition(|row| command.get_name() != "run" && of_run.contains_key(row));
    if !known.is_empty() {
        let names: Vec<&str> = known.iter().filter_map(|row| of_run.get(row)).map(String::as_str).collect();
        write!(page, "\nAs [`rawko run`](#rawko-run): {}.\n", names.join(", ")).expect("text");
    }
    if !rows.is_empty() {
        page.push_str("\n| | |\n| --- | --- |\n");
        page.extend(rows);
    }
    let is_shown = |inner: &&mut Command| !inner.is_hide_set() || OF_FEATURES.contains(&inner.get_name());
    for inner in command.get_subcommands_mut().filter(is_shown) {
        write_command(page, inner, of_run, false);
    }
}

/// What it is called, with its values.
fn names(arg: &Arg) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    names.extend(arg.get_long().map(|long| format!("--{long}")));
    names.extend(arg.get_short().map(|short| format!("-{short}")));
    let values = arg.get_value_names().map(|names| names.join(" ")).unwrap_or_default();
    let takes = arg.get_action().takes_values();
    if let (true, Some(first)) = (takes && !names.is_empty(), names.first_mut()) {
        let joined = if arg.is_require_equals_set() { format!("={values}") } else { format!(" {values}") };
        let optional = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
        first.push_str(&if optional { format!("[{joined}]") } else { joined });
    }
    if names.is_empty() {
        names.push(values);
    }
    names.iter().map(|name| format!("`{}`", name.replace('|', "\\|"))).collect()
}

fn row(arg: &Arg) -> String {
    let takes = arg.get_action().takes_values();
    let mut help = arg.get_help().map(|help| escaped(&help.to_string())).unwrap_or_default();
    let possible: Vec<String> = match takes && !arg.is_hide_possible_values_set() {
        true => arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect(),
        false => Vec::new(),
    };
    if !possible.is_empty() {
        write!(help, ": {}", possible.join(", ")).expect("text");
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if takes && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        write!(help, " (default: {})", defaults.join(", ")).expect("text");
    }
    format!("| {} | {help} |\n", names(arg).join(", "))
}

/// Text that is neither a table's border nor markup.
fn escaped(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('|', "\\|").replace('<', "\\<").replace('[', "\\[").replace('*', "\\*")
}

#[test]
fn a_row_has_values_and_defaults() {
    let arg = Arg::new("how").long("how").short('w').value_name("HOW").help("How it | goes");
    let arg = arg.value_parser(["well", "badly"]).default_value("well");
    assert_eq!(row(&arg), "| `--how HOW`, `-w` | How it \\| goes: `well`, `badly` (default: `well`) |\n");
}
