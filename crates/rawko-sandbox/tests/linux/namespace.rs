//! Threads that see something else than the rest of their process.

use std::fs;
use std::path::Path;
use std::process::Command;

use libtest_mimic::{Arguments, Trial as Test};
use rawko_sandbox::{MountNamespace, NamespaceStep, can_hold_layers, gain_mounts, may_mount};

/// Set where this program is to run these tests: they change the process that they run in.
const VARIABLE: &str = "RAWKO_TEST_NAMESPACES";

pub(super) fn is_asked() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Runs the tests below in a process of their own.
pub(super) fn in_a_process_of_their_own() {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).env(VARIABLE, "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

pub(super) fn main() {
    assert!(gain_mounts().unwrap() && may_mount());
    let tests: [(&str, fn()); 4] = [
        ("threads_see_what_is_bound_and_others_do_not", threads_see_what_is_bound_and_others_do_not),
        ("a_layer_keeps_changes_and_spares_the_folder", a_layer_keeps_changes_and_spares_the_folder),
        ("what_cannot_be_mounted_is_named", what_cannot_be_mounted_is_named),
        ("a_command_in_the_sandbox_sees_the_same", a_command_in_the_sandbox_sees_the_same),
    ];
    let tests = tests.map(|(name, test)| {
        Test::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::default(), tests.into()).exit();
}

fn bind(place: &Path, content: &Path, read_only: bool) -> NamespaceStep {
    NamespaceStep::Bind { place: place.to_owned(), content: content.to_owned(), read_only }
}

fn threads_see_what_is_bound_and_others_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["project/kept", "one/kept", "two/kept"] {
        fs::create_dir_all(at(name)).unwrap();
        fs::write(at(name).parent().unwrap().join("a"), name).unwrap();
    }
    let (project, file) = (at("project"), at("project").join("a"));
    let kept = project.join("kept");
    fs::write(kept.join("mine"), "").unwrap();
    let trees: Vec<MountNamespace> = ["one", "two"]
        .iter()
        .map(|name| {
            // The second step shows what the first covers.
            MountNamespace::new(&[bind(&project, &at(name), false), bind(&kept, &kept, true)]).unwrap()
        })
        .collect();
    for (tree, name) in trees.iter().zip(["one/kept", "two/kept"]) {
        let seen = tree.run(|| {
            // Threads and processes that a thread starts are where it is.
            let in_thread = std::thread::spawn({
                let file = file.clone();
                move || fs::read_to_string(file).unwrap()
            });
            let in_thread = in_thread.join().unwrap();
            let by_command = Command::new("cat").arg(&file).output().unwrap().stdout;
            fs::write(project.join("new"), name).unwrap();
            fs::rename(&file, project.join("b")).unwrap();
            assert!(fs::write(kept.join("mine"), "x").is_err());
            (in_thread, String::from_utf8(by_command).unwrap())
        });
        assert_eq!(seen.unwrap(), (name.to_owned(), name.to_owned()));
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "project/kept");
    assert!(!project.join("new").exists() && at("one/new").exists() && at("two/b").exists());
    // Back to where it was.
    let before = MountNamespace::current().unwrap();
    trees[0].enter().unwrap();
    assert_eq!(fs::read_to_string(project.join("new")).unwrap(), "one/kept");
    before.enter().unwrap();
    assert!(!project.join("new").exists());
}

fn a_layer_keeps_changes_and_spares_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    if can_hold_layers(folder.path()).is_err() {
        return;
    }
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("packages/one")).unwrap();
    fs::create_dir_all(at("changes")).unwrap();
    fs::write(at("packages/one/a"), "before").unwrap();
    let step =
        || NamespaceStep::Layer { place: at("packages"), lower: at("packages"), changes: at("changes") };
    let namespace = MountNamespace::new(&[step()]).unwrap();
    namespace.run(|| fs::write(at("packages/one/a"), "after").unwrap()).unwrap();
    drop(namespace);
    assert_eq!(fs::read_to_string(at("packages/one/a")).unwrap(), "before");
    let again = MountNamespace::new(&[step()]).unwrap();
    assert_eq!(again.run(|| fs::read_to_string(at("packages/one/a")).unwrap()).unwrap(), "after");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing of the trial is left");
}

fn what_cannot_be_mounted_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let error = MountNamespace::new(&[bind(folder.path(), &missing, false)]).unwrap_err();
    assert!(error.contains(missing.to_str().unwrap()), "{error}");
    let error = MountNamespace::new(&[bind(&missing, folder.path(), false)]).unwrap_err();
    assert!(error.starts_with("mounting ") && error.contains("missing"), "{error}");
}

fn a_command_in_the_sandbox_sees_the_same() {
    let trial = super::trial::Trial::new();
    let (project, tree) = (trial.project(), trial.folder("tree"));
    fs::write(tree.join("a"), "of the tree").unwrap();
    let namespace = MountNamespace::new(&[bind(&project, &tree, false)]).unwrap();
    namespace.run(|| trial.run("cat a; echo new > b").exits(0).says("of the tree")).unwrap();
    assert!(tree.join("b").exists() && !project.join("b").exists());
}
