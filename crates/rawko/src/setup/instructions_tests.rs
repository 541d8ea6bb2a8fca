use super::*;

/// Files of a project below a repository, by path, and the instructions for an agent that works in `folder`.
#[track_caller]
fn check(files: &[(&str, &str)], folder: &str, text: Option<&str>, from: Option<&str>, others: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let project = dir.path().join("repository/project");
    let folder = dir.path().join(folder);
    std::fs::create_dir_all(&project).unwrap();
    std::fs::create_dir_all(&folder).unwrap();
    let found = standing(&project, &folder);
    assert_eq!((found.text.as_deref(), found.from.as_deref()), (text, from));
    assert_eq!(found.others, others);
    assert!(found.problems.is_empty(), "{:?}", found.problems);
}

const OUTSIDE: (&str, &str) = ("AGENTS.md", "outside");
const GIT: (&str, &str) = ("repository/.git/HEAD", "");
const OF_REPOSITORY: (&str, &str) = ("repository/AGENTS.md", "\u{feff}of the repository\r\nall of it\r\n");
const OF_PROJECT: (&str, &str) = ("repository/project/AGENTS.md", "of the project");
const OF_SUB: (&str, &str) = ("repository/project/sub/AGENTS.md", "of sub");
const OF_DEEP: (&str, &str) = ("repository/project/a/deep/AGENTS.md", "of deep");
const PROJECT: &str = "repository/project";
const SUB: &str = "repository/project/sub";

#[test]
fn the_nearest_one_counts_and_none_outside_the_repository() {
    let whole = Some("of the repository\nall of it");
    check(&[OUTSIDE, OF_REPOSITORY], PROJECT, None, None, &[]);
    check(&[OUTSIDE, GIT], PROJECT, None, None, &[]);
    check(&[GIT, OF_REPOSITORY], PROJECT, whole, Some("../AGENTS.md"), &[]);
    let empty = ("repository/project/AGENTS.md", " \n");
    check(&[GIT, OF_REPOSITORY, empty], PROJECT, whole, Some("../AGENTS.md"), &[]);
    check(&[GIT, OF_REPOSITORY, OF_PROJECT], PROJECT, Some("of the project"), None, &[]);
}

#[test]
fn it_is_looked_for_from_the_folder_that_is_worked_in() {
    let all = [GIT, OF_REPOSITORY, OF_PROJECT, OF_SUB];
    check(&all, SUB, Some("of sub"), Some("sub/AGENTS.md"), &["AGENTS.md"]);
    check(&all, "repository/project/sub/below", Some("of sub"), Some("sub/AGENTS.md"), &["AGENTS.md"]);
    check(&[GIT, OF_REPOSITORY, OF_PROJECT], SUB, Some("of the project"), None, &[]);
    // Another folder than one of the project's says nothing about it.
    check(&all, "elsewhere", Some("of the project"), None, &["sub/AGENTS.md"]);
}

#[test]
fn the_others_are_named_the_upper_ones_first_and_those_of_packages_are_not() {
    let passed_over = [
        ("repository/project/node_modules/x/AGENTS.md", "of a package"),
        ("repository/project/.hidden/AGENTS.md", "hidden"),
        ("repository/project/built/AGENTS.md", "ignored"),
        ("repository/project/blank/AGENTS.md", "\n"),
        ("repository/.gitignore", "built\n"),
    ];
    let files: Vec<_> = passed_over.into_iter().chain([GIT, OF_PROJECT, OF_DEEP, OF_SUB]).collect();
    check(&files, PROJECT, Some("of the project"), None, &["sub/AGENTS.md", "a/deep/AGENTS.md"]);
    check(&[OF_DEEP], PROJECT, None, None, &["a/deep/AGENTS.md"]);
}

#[test]
fn of_very_many_some_are_named_and_the_rest_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..MAX_OTHERS + 3 {
        let folder = dir.path().join(format!("f{number:03}"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(AGENTS), "x").unwrap();
    }
    std::fs::create_dir(dir.path().join("a\nb")).unwrap();
    std::fs::write(dir.path().join("a\nb").join(AGENTS), "x").unwrap();
    let found = standing(dir.path(), dir.path());
    assert_eq!((found.others.len(), found.others[0].as_str()), (MAX_OTHERS, "f000/AGENTS.md"));
    assert!(found.problems.iter().any(|problem| problem.starts_with("3 more")), "{:?}", found.problems);
    assert!(found.problems.iter().any(|problem| problem.contains("strange")), "{:?}", found.problems);
}

/// What agents get of these bytes, and the problem that is reported.
#[track_caller]
fn check_bytes(bytes: &[u8], size: u64, text: &str, problem: &str) {
    let found = prompt_text(bytes, size).unwrap();
    assert!(found.text.starts_with(text) && found.text.len() < MAX_BYTES + 100, "{:?}", found.text);
    assert_eq!(found.problems.len(), usize::from(!problem.is_empty()), "{:?}", found.problems);
    assert!(found.problems.iter().all(|one| one.contains(problem)), "{:?}", found.problems);
}

#[test]
fn what_is_cut_replaced_or_left_out_is_said() {
    check_bytes(b"plain\r\n\ttext\r\n", 14, "plain\n\ttext", "");
    check_bytes(b"caf\xe9 au lait", 12, "caf\u{fffd} au lait", "not UTF-8");
    check_bytes(b"\xff\xffab", 4, "\u{fffd}\u{fffd}ab", "not UTF-8");
    check_bytes("a\u{1b}[2Jb\u{202e}c".as_bytes(), 9, "a[2Jbc", "control characters");
    check_bytes("⚠\u{fe0f} careful".as_bytes(), 14, "⚠ careful", "");
    let long = "é".repeat(MAX_BYTES);
    check_bytes(long.as_bytes(), long.len() as u64, "éé", "65536 bytes long");
    // Read up to the middle of a character: that is no fault of the file.
    let odd = format!("a{long}");
    check_bytes(&odd.as_bytes()[..MAX_BYTES + 4], odd.len() as u64, "aéé", "65537 bytes long");
    check_bytes(&b"x".repeat(MAX_BYTES), MAX_BYTES as u64, "xx", "");
    // Each byte that is no text becomes three.
    let wild = prompt_text(&b"\xff".repeat(MAX_BYTES), MAX_BYTES as u64).unwrap();
    assert!(wild.text.len() < MAX_BYTES + 100 && wild.problems.len() == 2, "{:?}", wild.problems);
    assert!(prompt_text(b" \n\t\x1b", 4).is_none());
}

#[cfg(unix)]
#[test]
fn what_leads_out_is_not_read_and_what_stays_inside_is() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("p");
    std::fs::create_dir_all(project.join("sub")).unwrap();
    std::fs::write(dir.path().join("secret"), "secret").unwrap();
    for folder in [project.clone(), project.join("sub")] {
        std::os::unix::fs::symlink(dir.path().join("secret"), folder.join(AGENTS)).unwrap();
    }
    let found = standing(&project, &project);
    assert_eq!((found.text, found.others), (None, Vec::new()));
    assert_eq!(found.problems.len(), 1);
    assert!(found.problems[0].contains("leads elsewhere"), "{:?}", found.problems);
    std::fs::write(project.join("CLAUDE.md"), "one file, two names").unwrap();
    std::fs::remove_file(project.join(AGENTS)).unwrap();
    std::os::unix::fs::symlink("CLAUDE.md", project.join(AGENTS)).unwrap();
    assert_eq!(standing(&project, &project).text.as_deref(), Some("one file, two names"));
    std::fs::remove_file(project.join(AGENTS)).unwrap();
    std::fs::create_dir(project.join(AGENTS)).unwrap();
    assert_eq!(standing(&project, &project).problems, ["AGENTS.md is passed over: it is not a file"]);
}

#[test]
fn claude_md_stands_for_agents_md_in_a_folder_without_one() {
    let claude = ("repository/project/CLAUDE.md", "for claude");
    check(&[GIT, claude, OF_REPOSITORY], PROJECT, Some("for claude"), Some("CLAUDE.md"), &[]);
    check(&[GIT, claude, OF_PROJECT], PROJECT, Some("of the project"), None, &[]);
    let below = ("repository/project/sub/CLAUDE.md", "of sub");
    check(&[OF_PROJECT, below], PROJECT, Some("of the project"), None, &["sub/CLAUDE.md"]);
    check(&[claude, OF_SUB, below], PROJECT, Some("for claude"), Some("CLAUDE.md"), &["sub/AGENTS.md"]);
    check(&[claude, below], SUB, Some("of sub"), Some("sub/CLAUDE.md"), &["CLAUDE.md"]);
}

#[test]
fn imports_of_a_claude_md_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let found_in = |text: &str| {
        std::fs::write(dir.path().join("CLAUDE.md"), text).unwrap();
        std::fs::write(dir.path().join("style.md"), "secret words").unwrap();
        standing(dir.path(), dir.path())
    };
    let importing = found_in("Ask @tom, use @types/node, and read (see @style.md).");
    assert_eq!(
        importing.problems,
        ["CLAUDE.md imports `@style.md`: imports are not followed; agents can read the file"]
    );
    assert!(!importing.text.unwrap().contains("secret words"));
    assert_eq!(found_in("Ask @tom, use @types/node.").problems, [""; 0]);
}

#[test]
fn a_file_that_only_names_another_is_that_file() {
    let rules = ("repository/project/CLAUDE.md", "the rules");
    for pointer in
        ["@CLAUDE.md", "CLAUDE.md", "./CLAUDE.md\n", "[CLAUDE.md](CLAUDE.md)", "[the rules](./CLAUDE.md)"]
    {
        let agents = ("repository/project/AGENTS.md", pointer);
        check(&[GIT, agents, rules], PROJECT, Some("the rules"), Some("CLAUDE.md"), &[]);
    }
    let deep = ("repository/project/docs/rules.md", "deep rules");
    check(
        &[GIT, ("repository/project/AGENTS.md", "@docs/rules.md"), deep],
        PROJECT,
        Some("deep rules"),
        Some("docs/rules.md"),
        &[],
    );
    // What says more is a text of its own, and so is what names nothing.
    for text in ["Read CLAUDE.md first.", "CLAUDE.md\nBe kind.", "missing.md", "@../../AGENTS.md"] {
        check(&[OUTSIDE, GIT, ("repository/project/AGENTS.md", text), rules], PROJECT, Some(text), None, &[]);
    }
    // A circle ends.
    let circle =
        [GIT, ("repository/project/AGENTS.md", "CLAUDE.md"), ("repository/project/CLAUDE.md", "AGENTS.md")];
    let dir = tempfile::tempdir().unwrap();
    for (path, content) in circle {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let project = dir.path().join(PROJECT);
    assert!(standing(&project, &project).text.is_some());
}

#[test]
fn claude_code_may_keep_its_file_in_its_folder() {
    let hidden = ("repository/project/.claude/CLAUDE.md", "hidden");
    check(&[GIT, hidden], PROJECT, Some("hidden"), Some(".claude/CLAUDE.md"), &[]);
    check(&[GIT, hidden, OF_PROJECT], PROJECT, Some("of the project"), None, &[]);
}

#[test]
fn what_others_wrote_says_nothing_of_the_project() {
    let theirs = [
        ("repository/project/vendor/lib/AGENTS.md", "theirs"),
        ("repository/project/node_modules/lib/AGENTS.md", "theirs"),
        ("repository/project/sub/third_party/AGENTS.md", "theirs"),
    ];
    let files = [&[GIT, OF_PROJECT, OF_SUB][..], &theirs].concat();
    check(&files, PROJECT, Some("of the project"), None, &["sub/AGENTS.md"]);
    for folder in ["repository/project/vendor/lib", "repository/project/node_modules/lib"] {
        check(&files, folder, Some("of the project"), None, &["sub/AGENTS.md"]);
    }
}
