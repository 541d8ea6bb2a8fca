//! `rawko skills`: the skills of the project and the user, and whether they follow the specification.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use rawko::config::{Diagnostic, Scope};
use rawko::skills::{Skill, SkillFault, SkillPlace, SkillState, check_skill, find_skills};
use rawko_core::policy::nearest_name;
use serde_json::{Value, json};

use crate::console::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, Rows, clean, clean_line, counted, indent, shortened};
use crate::workspace::Workspace;

/// Subcommands of `rawko skills`.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List the skills, and say which are used
    List(OutputArgs),
    /// Show a skill with its text and files
    Show {
        /// The skill's name
        name: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Check skills against the specification
    Check {
        /// Folders of skills, each with a SKILL.md; all skills that are found if none is given
        folders: Vec<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// Runs the subcommand.
pub(crate) fn run(workspace: &Workspace, action: &SkillsCommand) -> Result<Exit, Failure> {
    let console = &workspace.console;
    match action {
        SkillsCommand::List(output) => {
            let skills = skills(workspace)?;
            console.output(output.json, &skills, |paint| list(&skills, paint))?;
            Ok(Exit::Success)
        }
        SkillsCommand::Show { name, output } => {
            let skills = skills(workspace)?;
            let skill = find(&skills, name)?;
            let mut value = json!(skill);
            value["text"] = json!(skill.text);
            console.output(output.json, &value, |paint| page(skill, paint))?;
            Ok(Exit::Success)
        }
        SkillsCommand::Check { folders, output } => check(workspace, folders, output.json),
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

fn list(skills: &[Skill], paint: Paint) -> String {
    if skills.is_empty() {
        return "There are no skills. docs/skills.md says where they are looked for.\n".to_owned();
    }
    let mut text = Rows::new(paint, skills).table(&[
        ("NAME", &|skill| skill.name.clone()),
        ("SOURCE", &|skill| origin(skill)),
        ("USED", &|skill| if skill.is_used() { "yes" } else { "no" }.to_owned()),
        ("FOLDER", &|skill| skill.place.shown.to_string_lossy().into_owned()),
        ("DESCRIPTION", &|skill| shortened(&skill.description, 60)),
    ]);
    for skill in skills {
        if let Some(why) = why_not(skill) {
            let line = format!("{} in {}: {why}", skill.name, skill.place.shown.display());
            text.push_str(&format!("{}\n", paint.faint(&clean_line(&line))));
        }
    }
    text
}

/// Whose a skill is.
fn origin(skill: &Skill) -> String {
    match (&skill.place.plugin, skill.scope()) {
        (Some(plugin), _) => format!("plug-in {plugin}"),
        (None, Scope::User) => "user".to_owned(),
        (None, Scope::Project) => "project".to_owned(),
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
        ("source", origin(skill)),
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
    let (places, passed_over) =
        if folders.is_empty() { found(workspace)? } else { (named(folders)?, Vec::new()) };
    let checked: Vec<(&SkillPlace, Vec<SkillFault>)> =
        places.iter().map(|place| (place, check_skill(place))).collect();
    let bad = checked.iter().filter(|(_, faults)| !faults.is_empty()).count();
    let exit = if bad + passed_over.len() == 0 { Exit::Success } else { Exit::Failed };
    let entry = |(place, faults): &(&SkillPlace, Vec<SkillFault>)| json!({ "folder": place.shown, "scope": place.scope, "valid": faults.is_empty(), "faults": faults });
    let skills: Vec<Value> = checked.iter().map(entry).collect();
    let value = json!({ "valid": exit == Exit::Success, "skills": skills, "passedOver": passed_over });
    workspace.console.output(as_json, &value, |_| {
        let mut text = String::new();
        for (place, faults) in &checked {
            for fault in faults {
                let line = format!("{}: {fault}", place.shown.join("SKILL.md").display());
                text.push_str(&format!("{}\n", clean_line(&line)));
            }
        }
        for diagnostic in &passed_over {
            text.push_str(&format!("{}\n", clean(&diagnostic.to_string())));
        }
        let all = counted(checked.len() as u64, "skill");
        text + &match bad {
            0 => format!("{all} checked: each follows the specification\n"),
            bad => format!(
                "{all} checked: {bad} of them {} not follow the specification\n",
                if bad == 1 { "does" } else { "do" }
            ),
        }
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
