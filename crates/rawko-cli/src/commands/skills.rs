//! `rawko skills`: the skills of the project and the user, and whether they follow the specification.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use rawko::config::{Diagnostic, Scope};
use rawko::skills::{Skill, SkillFault, SkillPlace, SkillState, check_skill, find_skills};
use rawko_core::policy::nearest_name;
use rawko_core::text::truncate;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, Table, clean, clean_line, counted, indent};
use crate::workspace::Workspace;

/// Subcommands of `rawko skills`.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List the skills, and say which are used
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a skill with its text and files
    Show {
        /// The skill's name
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check skills against the specification
    Check {
        /// Folders of skills, each with a SKILL.md; all skills that are found if none is given
        folders: Vec<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs the subcommand.
pub(crate) fn run(workspace: &Workspace, action: &SkillsCommand) -> Result<Exit, Failure> {
    let console = &workspace.console;
    match action {
        SkillsCommand::List { json } => {
            let skills = skills(workspace)?;
            if *json {
                console.json(&skills)?;
            } else if skills.is_empty() {
                console.line("There are no skills. docs/skills.md says where they are looked for.")?;
            } else {
                console.write(&table(&skills, console.paint()))?;
            }
            Ok(Exit::Success)
        }
        SkillsCommand::Show { name, json } => {
            let skills = skills(workspace)?;
            let skill = find(&skills, name)?;
            if *json {
                let mut value = json!(skill);
                if let Value::Object(fields) = &mut value {
                    fields.insert("text".to_owned(), Value::from(skill.text.clone()));
                }
                console.json(&value)?;
            } else {
                console.write(&page(skill, console.paint()))?;
            }
            Ok(Exit::Success)
        }
        SkillsCommand::Check { folders, json } => check(workspace, folders, *json),
    }
}

/// All skills, those of the project as far as the folder is trusted.
fn skills(workspace: &Workspace) -> Result<Vec<Skill>, Failure> {
    let rawko = workspace.inspect()?;
    Ok(rawko.config().skills_if(workspace.is_trusted(&rawko)))
}

/// The skill of that name: the one that is used, if one is.
fn find<'a>(skills: &'a [Skill], name: &str) -> Result<&'a Skill, Failure> {
    let named = || skills.iter().filter(|skill| skill.name == name);
    named().find(|skill| skill.is_used()).or_else(|| named().next()).ok_or_else(|| {
        let known: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
        let hint = match nearest_name(name, &known) {
            Some(near) => format!("did you mean `{near}`? rawko skills list names them all"),
            None => {
                "rawko skills list names them all; docs/skills.md says where they are looked for".to_owned()
            }
        };
        Failure::usage(format!("there is no skill `{name}`")).with_hint(hint)
    })
}

fn table(skills: &[Skill], paint: Paint) -> String {
    let mut table = Table::new(&["NAME", "SOURCE", "USED", "FOLDER", "DESCRIPTION"]);
    for skill in skills {
        table.row(vec![
            clean_line(&skill.name),
            scope(skill.scope()).to_owned(),
            if skill.is_used() { "yes" } else { "no" }.to_owned(),
            clean_line(&skill.place.shown.to_string_lossy()),
            truncate(&clean_line(&skill.description), 60),
        ]);
    }
    let mut text = table.render(paint);
    for skill in skills {
        if let Some(why) = why_not(skill) {
            let line = format!("{} in {}: {why}", skill.name, skill.place.shown.display());
            text.push_str(&format!("{}\n", paint.faint(&clean_line(&line))));
        }
    }
    text
}

fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::User => "user",
        Scope::Project => "project",
    }
}

/// Why a skill is not used.
fn why_not(skill: &Skill) -> Option<String> {
    match &skill.state {
        SkillState::Used => None,
        SkillState::Untrusted => {
            Some("not used: this folder is not trusted. Look at it, then: rawko trust".to_owned())
        }
        SkillState::Replaced { by } => Some(format!("not used: {} goes before it", by.display())),
    }
}

fn page(skill: &Skill, paint: Paint) -> String {
    let mut rows = vec![
        ("source", scope(skill.scope()).to_owned()),
        ("folder", skill.place.shown.to_string_lossy().into_owned()),
        ("used", why_not(skill).unwrap_or_else(|| "yes".to_owned())),
        ("description", skill.description.clone()),
    ];
    for (name, value) in &skill.metadata {
        let note = if name == "allowed-tools" { " (grants nothing here)" } else { "" };
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        rows.push((name, format!("{value}{note}")));
    }
    let mut text = format!("{}\n", paint.strong(&clean_line(&skill.name)));
    for (name, value) in rows {
        let name = format!("{:<13}", clean_line(name));
        text.push_str(&format!("  {} {}\n", paint.faint(&name), clean_line(&value)));
    }
    if !skill.files.is_empty() {
        text.push_str(&format!("\n{}\n", paint.strong("Files")));
        skill.files.iter().for_each(|file| text.push_str(&format!("  {}\n", clean_line(file))));
    }
    text.push_str(&format!("\n{}\n", indent(&clean(skill.text.trim_end()), 2)));
    text
}

fn check(workspace: &Workspace, folders: &[PathBuf], as_json: bool) -> Result<Exit, Failure> {
    let console = &workspace.console;
    let (places, passed_over) =
        if folders.is_empty() { found(workspace)? } else { (named(folders)?, Vec::new()) };
    let checked: Vec<(&SkillPlace, Vec<SkillFault>)> =
        places.iter().map(|place| (place, check_skill(place))).collect();
    let bad = checked.iter().filter(|(_, faults)| !faults.is_empty()).count();
    let exit = if bad + passed_over.len() == 0 { Exit::Success } else { Exit::Failed };
    if as_json {
        let entry = |(place, faults): &(&SkillPlace, Vec<SkillFault>)| json!({ "folder": place.shown, "scope": place.scope, "valid": faults.is_empty(), "faults": faults });
        let skills: Vec<Value> = checked.iter().map(entry).collect();
        let valid = exit == Exit::Success;
        console.json(&json!({ "valid": valid, "skills": skills, "passedOver": passed_over }))?;
        return Ok(exit);
    }
    for (place, faults) in checked.iter().filter(|(_, faults)| !faults.is_empty()) {
        for fault in faults {
            let line = format!("{}: {fault}", place.shown.join("SKILL.md").display());
            console.line(&clean_line(&line))?;
        }
    }
    for diagnostic in &passed_over {
        console.line(&clean(&diagnostic.to_string()))?;
    }
    let all = counted(checked.len() as u64, "skill");
    console.line(&match bad {
        0 => format!("{all} checked: each follows the specification"),
        bad => format!(
            "{all} checked: {bad} of them {} not follow the specification",
            if bad == 1 { "does" } else { "do" }
        ),
    })?;
    Ok(exit)
}

/// The places of all skills. A configuration with errors does not matter.
fn found(workspace: &Workspace) -> Result<(Vec<SkillPlace>, Vec<Diagnostic>), Failure> {
    let environment = workspace.environment;
    let (user, home) = (environment.config_dir(), environment.home());
    Ok(find_skills(&workspace.project()?, user.as_deref(), home.as_deref()))
}

fn named(folders: &[PathBuf]) -> Result<Vec<SkillPlace>, Failure> {
    let place = |folder: &PathBuf| {
        // The file itself may be named, too.
        let is_file = folder.file_name().is_some_and(|name| name.eq_ignore_ascii_case("SKILL.md"));
        let folder = folder.parent().filter(|_| is_file && folder.is_file()).unwrap_or(folder);
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        SkillPlace::at(folder).map_err(|error| {
            Failure::usage(format!("cannot look at {}: {error}", clean_line(&folder.to_string_lossy())))
                .with_hint("name folders that have a SKILL.md")
        })
    };
    folders.iter().map(place).collect()
}
