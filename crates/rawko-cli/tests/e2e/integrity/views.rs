//! The original checks run in a view of the project, at its own path.

use super::Project;

/// A test of `calc.py` that is changed in form only, beside what `run` says.
fn project(run: &'static str) -> Project {
    project_of("def add(a, b):\n    return a - b\n", run)
}

fn project_of(calc: &'static str, run: &'static str) -> Project {
    let files = vec![
        ("calc.py", calc),
        ("tests/__init__.py", ""),
        (
            "tests/test_add.py",
            "import unittest\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(add(2, 3), 5)\n",
        ),
        ("run.sh", run),
        (".gitignore", "build/\n__pycache__/\ncache/\n"),
    ];
    Project { files: files.leak(), verify: &["sh run.sh"] }
}

const WHOLE: &str = "def add(a, b):\n    return a + b\n";
const FIX: &str = "sed -i 's/a - b/a + b/' calc.py; echo '# more' >> tests/test_add.py";
const WEAK: &str = "sed -i 's/, 5)/, -1)/' tests/test_add.py; echo '# more' >> calc.py";

#[test]
fn a_project_that_knows_its_own_path_is_checked() {
    // What it was installed as names the folder, as an editable install does.
    let run = "mkdir -p build && pwd > build/where\ncd \"$(cat build/where)\" && python3 -B -m unittest discover -t . -s tests\n";
    project(run).claimed(&[WEAK], "tests/test_add.py");
    project(run).verified(&[FIX], "originals_pass");
}

#[test]
fn what_commands_write_stays_in_the_view() {
    // It fails in a folder in which it ran before.
    let run = "[ ! -e ran ] && echo > ran && python3 -B -m unittest discover -t . -s tests; code=$?; rm -f ran; exit $code\n";
    let ended = project(run).verified(&[FIX, "mkdir -p cache && echo 1 > cache/kept"], "originals_pass");
    assert!(!ended.trial.project().join("ran").exists());
    assert!(ended.trial.project().join("cache/kept").exists());
}

#[test]
fn a_file_in_place_of_a_folder_and_a_deleted_one_come_back() {
    let run = "[ -f tests/test_add.py ] && python3 -B -m unittest discover -t . -s tests\n";
    let moved = "rm -r tests; echo > tests; printf 'true\\n' > run.sh; echo '# more' >> calc.py";
    project(run).claimed(&[moved], "run.sh");
}

#[test]
fn new_files_are_not_there() {
    // The check of the beginning allows no other test.
    let run = "[ \"$(ls tests | grep -c test_)\" = 1 ] && python3 -B -m unittest discover -t . -s tests\n";
    let more = "cp tests/test_add.py tests/test_more.py; printf 'python3 -B -m unittest discover -t . -s tests\\n' > run.sh";
    project(run).verified(&["sed -i 's/a - b/a + b/' calc.py", more], "originals_pass");
}

/// The run ends as claimed, and the original checks are not said to fail.
#[track_caller]
fn unknown(ended: &crate::trial::Ended) {
    let finish = ended.finish();
    assert_eq!(finish["status"], "claimed", "{finish:#}");
    assert_eq!(finish["doubt"]["reason"], "checks_changed", "{finish:#}");
    assert_eq!(finish["verification"]["integrity"]["result"], "originals_unknown", "{finish:#}");
    let message = finish["doubt"]["message"].as_str().unwrap();
    assert!(!message.contains("do not pass") && !message.contains("the original checks fail"), "{message}");
}

/// Does not pass in a copy: that borrows its objects.
const NO_COPY: &str =
    "[ ! -e .git/objects/info/alternates ] && python3 -B -m unittest discover -t . -s tests\n";
const UNITTEST: &str = "python3 -B -m unittest discover -t . -s tests\n";

#[test]
fn it_is_a_view_and_no_copy() {
    project(NO_COPY).claimed(&[WEAK], "tests/test_add.py");
    project(NO_COPY).verified(&[FIX], "originals_pass");
    // What builds wrote is hidden with what is protected in it.
    project(NO_COPY)
        .verified(&["mkdir -p build/x/.claude && echo 1 > build/x/.claude/y", FIX], "originals_pass");
}

#[test]
fn what_failed_in_a_copy_alone_is_no_proof() {
    let proof = |ended: &crate::trial::Ended| ended.finish()["proof"].clone();
    assert_eq!(proof(&project(NO_COPY).verified(&[FIX], "originals_pass")), "task");
    let whole = project_of(WHOLE, NO_COPY);
    let in_form = "echo '# more' | tee -a calc.py >> tests/test_add.py";
    assert_eq!(proof(&whole.verified(&[in_form], "originals_pass")), "regression");
}

#[test]
fn where_a_folder_is_renamed_a_copy_is_taken() {
    const RENAMES: &str = "python3 -c \"import os; os.rename('tests', 'moved'); os.rename('moved', 'tests')\" && python3 -B -m unittest discover -t . -s tests\n";
    project(RENAMES).claimed(&[WEAK], "tests/test_add.py");
    project(RENAMES).verified(&[FIX], "originals_pass");
    let git = "git mv tests moved && git mv moved tests && python3 -B -m unittest discover -t . -s tests\n";
    project(git).verified(&[FIX], "originals_pass");
}

#[test]
fn what_passes_neither_in_a_view_nor_in_a_copy_is_unknown() {
    // What builds wrote is in neither.
    let run = "[ -e build/made ] && python3 -B -m unittest discover -t . -s tests\n";
    unknown(&project(run).run(&["mkdir -p build && echo 1 > build/made", FIX]));
}

/// A run after `script`, with the environment's temporary folder at `temporary`.
#[cfg(target_os = "linux")]
fn after(script: &'static str, temporary: &str, run: &'static str, commands: &[&str]) -> crate::trial::Ended {
    in_project_after(&project(run), script, temporary, commands)
}

#[cfg(target_os = "linux")]
fn in_project_after(
    project: &Project,
    script: &'static str,
    temporary: &str,
    commands: &[&str],
) -> crate::trial::Ended {
    let turns = commands.iter().map(|command| crate::answers::bash(command)).collect::<Vec<_>>();
    let trial = project.trial(crate::answers::developer(turns));
    for folder in ["lower", "upper", "work", "mounted"] {
        std::fs::create_dir(trial.outside().join(folder)).unwrap();
    }
    let temporary = trial.outside().join(temporary).display().to_string();
    trial.env("TMPDIR", temporary).args(&["--require-verified"]).after(script).run("Fix the fault.")
}

#[cfg(target_os = "linux")]
#[track_caller]
fn is_verified(ended: &crate::trial::Ended) {
    let finish = ended.finish();
    assert_eq!(finish["status"], "verified", "{finish:#}");
    assert_eq!(finish["verification"]["integrity"]["result"], "originals_pass", "{finish:#}");
    ended.exits(0);
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_mounted_in_the_project_is_there() {
    if !crate::sandbox::is_possible() {
        return;
    }
    // An overlay would show the empty folder below.
    let mount = "mkdir cache && mount -t tmpfs none cache && echo 5 > cache/want";
    let run = "[ -e cache/want ] && python3 -B -m unittest discover -t . -s tests\n";
    is_verified(&after(mount, "", run, &[FIX]));
    unknown(&after(mount, "", NO_COPY, &[FIX]));
}

#[cfg(target_os = "linux")]
#[test]
fn temporary_files_on_an_overlay_make_a_copy_and_in_memory_a_view() {
    if !crate::sandbox::is_possible() {
        return;
    }
    let overlay =
        "mount -t overlay -o lowerdir=../lower,upperdir=../upper,workdir=../work,userxattr none ../mounted";
    is_verified(&after(overlay, "mounted", UNITTEST, &[FIX]));
    unknown(&after(overlay, "mounted", NO_COPY, &[FIX]));
    is_verified(&after("mount -t tmpfs none ../mounted", "mounted", NO_COPY, &[FIX]));
    // That a new test is new is seen in a copy.
    let whole = project_of(WHOLE, UNITTEST);
    let more = "echo 'def sub(a, b): return a - b' >> calc.py; \
                sed 's/add/sub/g; s/, 5)/, -1)/' tests/test_add.py > tests/test_sub.py";
    let finish = in_project_after(&whole, overlay, "mounted", &[more]).finish();
    assert_eq!((&finish["status"], &finish["proof"]), (&"verified".into(), &"task".into()), "{finish:#}");
}

/// Layers of layers of layers cannot be mounted, which is found when a view is tried.
#[cfg(target_os = "linux")]
#[test]
fn a_project_on_layers_of_layers_is_copied() {
    if !crate::sandbox::is_possible() {
        return;
    }
    let layers = "mkdir ../empty && mount -t overlay -o lowerdir=../lower,upperdir=../upper,workdir=../empty,userxattr none ../mounted && \
                  mount -t overlay -o lowerdir=../mounted,upperdir=.,workdir=../work,userxattr none ../project && cd ../project";
    is_verified(&after(layers, "", UNITTEST, &[FIX]));
    unknown(&after(layers, "", NO_COPY, &[FIX]));
    // So is what an agent's own check says.
    let finish = after(layers, "", "true\n", &["echo >> calc.py", UNITTEST.trim()]).finish();
    let other = &finish["verification"]["others"][0];
    assert_eq!(other["now"]["failures"], serde_json::json!(["test (tests.test_add.T.test)"]), "{finish:#}");
}

#[cfg(target_os = "linux")]
#[test]
fn files_of_a_group_that_the_sandbox_does_not_know_can_be_written() {
    if !crate::sandbox::is_possible() {
        return;
    }
    let writes = ": >> data/log && python3 -B -m unittest discover -t . -s tests\n";
    for (folders, run) in [("data", writes), (".", writes)] {
        let turns = vec![crate::answers::bash(FIX)];
        let trial = project(run).trial(crate::answers::developer(turns));
        std::fs::create_dir(trial.project().join("data")).unwrap();
        trial.write("data/log", "");
        trial.git(&["add", "--all"]);
        trial.git(&["commit", "--quiet", "-m", "data"]);
        // No user in the user namespace has this group.
        let given = trial.program("chgrp").args(["-R", "61234", folders]).status().unwrap();
        if !given.success() {
            testkit::skip("this user cannot give files to another group");
            return;
        }
        is_verified(&trial.args(&["--require-verified"]).after("true").run("Fix the fault."));
    }
}
