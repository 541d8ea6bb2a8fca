use std::fs;
use std::os::unix::fs::symlink;

use super::*;

struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("project")).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn skill(&self, folder: &str, description: &str) {
        let name = folder.rsplit('/').next().unwrap();
        self.put(&format!("{folder}/SKILL.md"), &document(name, description));
    }

    fn places(&self) -> (Vec<SkillPlace>, Vec<String>) {
        let (config, home) = (self.path("config"), self.path("home"));
        let (places, passed_over) = find_skills(&self.path("project"), Some(&config), Some(&home));
        (places, passed_over.iter().map(ToString::to_string).collect())
    }

    fn read(&self, folder: &str) -> Result<Skill, Vec<SkillFault>> {
        let (folder, shown) = (self.path(folder).canonicalize().unwrap(), PathBuf::from(folder));
        Skill::read(SkillPlace { folder, shown, scope: Scope::Project, plugin: None })
    }
}

fn document(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\n# Work\nDo it.\n")
}

#[test]
fn skills_are_found_where_they_are_looked_for_in_order_of_precedence() {
    let home = Home::new();
    for folder in [
        "home/.claude/skills/b",
        "home/.agents/skills/a",
        "config/skills/c",
        "project/.claude/skills/b",
        "project/.agents/skills/z",
        "project/.agents/skills/a",
        "project/.rawko/skills/a",
        "project/.rawko/skills/.hidden",
    ] {
        home.skill(folder, "x");
    }
    home.put("project/.rawko/skills/README.md", "no folder");
    let (places, passed_over) = home.places();
    assert!(passed_over.is_empty(), "{passed_over:?}");
    let shown: Vec<_> = places.iter().map(|place| place.shown.to_string_lossy().into_owned()).collect();
    let own = |name: &str| home.path(name).to_string_lossy().into_owned();
    let expected = [
        ".rawko/skills/a".to_owned(),
        ".agents/skills/a".to_owned(),
        ".agents/skills/z".to_owned(),
        ".claude/skills/b".to_owned(),
        own("config/skills/c"),
        own("home/.agents/skills/a"),
        own("home/.claude/skills/b"),
    ];
    assert_eq!(shown, expected);

    let mut skills: Vec<Skill> = places.into_iter().map(|place| Skill::read(place).unwrap()).collect();
    settle(&mut skills, true);
    let states = |skills: &[Skill]| -> Vec<String> {
        skills
            .iter()
            .map(|skill| match &skill.state {
                SkillState::Used => format!("{} used", skill.name),
                SkillState::Untrusted => format!("{} untrusted", skill.name),
                SkillState::Replaced { by } => format!("{} replaced by {}", skill.name, by.display()),
            })
            .collect()
    };
    assert_eq!(
        states(&skills),
        [
            "a used",
            "a replaced by .rawko/skills/a",
            "z used",
            "b used",
            "c used",
            "a replaced by .rawko/skills/a",
            "b replaced by .claude/skills/b",
        ]
    );
    // An untrusted skill replaces nothing of the user's.
    settle(&mut skills, false);
    let user = ["a untrusted", "a untrusted", "z untrusted", "b untrusted", "c used", "a used", "b used"];
    assert_eq!(states(&skills), user);
    let names: Vec<_> = of_run(&skills).into_iter().map(|skill| skill.name).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn links_lead_to_no_skill_outside_of_the_project() {
    let home = Home::new();
    home.skill("elsewhere/evil", "x");
    home.skill("project/.agents/skills/a", "x");
    symlink(home.path("elsewhere/evil"), home.path("project/.agents/skills/evil")).unwrap();
    symlink(home.path("elsewhere"), home.path("project/.rawko")).unwrap();
    fs::create_dir_all(home.path("project/.claude")).unwrap();
    symlink("../.agents/skills", home.path("project/.claude/skills")).unwrap();
    fs::create_dir_all(home.path("home/.claude/skills")).unwrap();
    symlink(home.path("elsewhere/evil"), home.path("home/.claude/skills/mine")).unwrap();
    let (places, passed_over) = home.places();
    let shown: Vec<_> = places.iter().map(|place| place.shown.clone()).collect();
    // The user's own links are followed, and a folder that is a link to another one is the same folder.
    assert_eq!(shown, [PathBuf::from(".agents/skills/a"), home.path("home/.claude/skills/mine")]);
    assert_eq!(passed_over.len(), 1, "{passed_over:?}");
    assert!(passed_over[0].contains(".agents/skills/evil") && passed_over[0].contains("out of the project"));

    home.put("secret", &document("a", "x"));
    fs::remove_file(home.path("project/.agents/skills/a/SKILL.md")).unwrap();
    symlink(home.path("secret"), home.path("project/.agents/skills/a/SKILL.md")).unwrap();
    assert!(home.read("project/.agents/skills/a").is_err(), "the text of a project's skill is no link");
}

#[test]
fn a_projects_skill_has_no_link_out_of_it() {
    let home = Home::new();
    let folder = "project/.agents/skills/a";
    home.skill(folder, "x");
    home.put(&format!("{folder}/run.sh"), "echo 1\n");
    symlink("run.sh", home.path(&format!("{folder}/again.sh"))).unwrap();
    home.read(folder).expect("a link within the skill");
    home.put("project/shared.sh", "echo 2\n");
    for target in ["../../../shared.sh", "../../..", "nowhere"] {
        let link = home.path(&format!("{folder}/more"));
        symlink(target, &link).unwrap();
        let faults = home.read(folder).unwrap_err();
        let said = format!("{faults:?}");
        assert!(said.contains("`more` is a link that leads out of the skill"), "{target}: {said}");
        fs::remove_file(link).unwrap();
    }
}

#[test]
fn every_file_of_a_projects_skill_is_part_of_its_digest() {
    let home = Home::new();
    let folder = "project/.agents/skills/a";
    home.skill(folder, "x");
    home.put(&format!("{folder}/scripts/run.sh"), "echo 1\n");
    let first = home.read(folder).unwrap();
    assert_eq!(first.files, ["scripts/run.sh"]);
    assert_eq!(first.text, "# Work\nDo it.");
    assert_eq!(home.read(folder).unwrap().digest, first.digest);
    let mut seen = vec![first.digest];
    let mut differs = |what: &str| {
        let digest = home.read(folder).unwrap().digest;
        assert!(!seen.contains(&digest), "{what}");
        seen.push(digest);
    };
    home.put(&format!("{folder}/scripts/run.sh"), "echo 2\n");
    differs("a changed script");
    home.put(&format!("{folder}/SKILL.md"), &document("a", "y"));
    differs("a changed description");
    home.put(&format!("{folder}/.hidden"), "");
    differs("a new file");
    symlink("run.sh", home.path(&format!("{folder}/scripts/link"))).unwrap();
    differs("a new link");
    fs::rename(home.path(&format!("{folder}/scripts")), home.path(&format!("{folder}/other"))).unwrap();
    differs("a new path");
    home.put(&format!("{folder}/.git/HEAD"), "x");
    let last = home.read(folder).unwrap();
    assert_eq!(Some(&last.digest), seen.last(), "what git keeps is no part of it");
}

#[test]
fn what_is_too_much_is_no_skill() {
    let home = Home::new();
    let folder = "project/.agents/skills/a";
    home.skill(folder, "x");
    home.put(&format!("{folder}/SKILL.md"), &format!("{}{}", document("a", "x"), "x".repeat(300 * 1024)));
    assert!(home.read(folder).unwrap_err()[0].message.contains("larger than 256 KiB"));
    home.skill(folder, "x");
    home.put(&format!("{folder}/1/2/3/4/5/6/7/8/9/deep"), "");
    assert!(home.read(folder).unwrap_err()[0].message.contains("more than 8 levels"));
    // The user's own is used anyway.
    let mut place = SkillPlace::at(&home.path(folder)).unwrap();
    assert!(Skill::read(place.clone()).is_ok());
    place.scope = Scope::Project;
    assert!(!check_skill(&place).is_empty());
}

#[test]
fn skills_of_other_programs_are_used() {
    let home = Home::new();
    let read = |text: &str| {
        home.put("project/s/SKILL.md", text);
        home.read("project/s")
    };
    let skill = read("---\nname: other\ndescription: Use when: always\nmodel: opus\n---\nText.\n").unwrap();
    assert_eq!((skill.name.as_str(), skill.description.as_str()), ("other", "Use when: always"));
    let skill =
        read("---\r\nname: other\r\ndescription: >\r\n  Two\r\n  lines.\r\nuser-invocable: true\r\n---\r\n")
            .unwrap();
    assert_eq!((skill.description.as_str(), skill.text.as_str()), ("Two lines.", ""));
    let long = read(&document("other", &"x".repeat(2_000))).unwrap();
    assert!(long.description.chars().count() < MAX_DESCRIPTION + 10);
    for broken in [
        "",
        "no front matter",
        "---\nname: a\n---\n",
        "---\nname: A B\ndescription: x\n---\n",
        "---\nname: a",
    ] {
        assert!(read(broken).is_err(), "{broken:?}");
    }
}

#[track_caller]
fn check(folder: &str, front: &str, expected: &[&str]) {
    let text = format!("---\n{front}---\nText.\n");
    let found: Vec<_> =
        header::check(&text, folder.as_ref()).iter().map(|fault| fault.message.clone()).collect();
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (message, part) in found.iter().zip(expected) {
        assert!(message.contains(part), "{part:?} is missing in {message}");
    }
}

#[test]
fn the_specification_is_checked() {
    check("pdf", "name: pdf\ndescription: Fills forms.\n", &[]);
    let all = "name: pdf\ndescription: x\nlicense: MIT\ncompatibility: Needs git\nmetadata:\n  a: b\nallowed-tools: Read\n";
    check("pdf", all, &[]);
    check("pdf", "name: pdf\ndescription: x\nallowed-tools: [Read, \"Bash(git:*)\"]\n", &[]);
    check("pdf", "description: x\n", &["`name` is missing"]);
    check("pdf", "name: pdf\n", &["`description` is missing"]);
    check("pdf", "name: pdf\ndescription: ''\n", &["`description` is empty"]);
    check("pdf", "name: pdf\ndescription: x\nversion: 1\n", &["`version` is no field"]);
    check("other", "name: pdf\ndescription: x\n", &["the folder is `other`"]);
    check("PDF", "name: PDF\ndescription: x\n", &["not lowercase"]);
    for name in ["-a", "a-", "a--b"] {
        check(name, &format!("name: {name}\ndescription: x\n"), &["hyphen"]);
    }
    check("a_b", "name: a_b\ndescription: x\n", &["besides letters"]);
    check("größe", "name: größe\ndescription: x\n", &[]);
    let long = "a".repeat(65);
    check(&long, &format!("name: {long}\ndescription: x\n"), &["65 characters, more than 64"]);
    check("a", &format!("name: a\ndescription: {}\n", "x".repeat(1_025)), &["1025 characters"]);
    check("a", &format!("name: a\ndescription: {}\n", "ü".repeat(1_024)), &[]);
    check(
        "a",
        &format!("name: a\ndescription: x\ncompatibility: {}\n", "x".repeat(501)),
        &["501 characters"],
    );
    check("a", "name: a\ndescription: x\nallowed-tools: {a: b}\n", &["`allowed-tools`"]);
    check("a", "name: a\ndescription: Use when: always\n", &["not valid YAML"]);
    assert_eq!(header::check("text", "a".as_ref())[0].message, "the front matter is missing");
}
