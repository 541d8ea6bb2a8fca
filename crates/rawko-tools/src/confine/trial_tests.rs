use std::os::unix::fs::PermissionsExt as _;

use rawko_sandbox::{Network, Wall};

use super::*;

/// Tries a program that is the shell script `text`. `$folder` is a folder of its own.
fn tried(text: &str, limit: Duration) -> (tempfile::TempDir, Result<(), TrialError>) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    std::fs::write(&program, format!("#!/bin/sh\nfolder='{}'\n{text}\n", folder.path().display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let plan = ConfinementPlan {
        wall: Wall::Landlock,
        directory: "/".into(),
        base: Vec::new(),
        view: Vec::new(),
        temporary: folder.path().to_owned(),
        network: Network::Own,
        input: Vec::new(),
        converses: false,
        max_processes: 64,
    };
    let result = run(&program, plan, limit);
    (folder, result)
}

#[track_caller]
fn check_no_helper(text: &str, limit: Duration, expected: &str) {
    let begun = Instant::now();
    let (_folder, result) = tried(text, limit);
    let Err(TrialError::Helper(why)) = result else { panic!("{result:?}") };
    assert!(why.contains(expected), "{expected} is not in {why}");
    assert!(why.contains("run_helper_if_asked"), "{why}");
    assert!(begun.elapsed() < limit.max(LONG / 2), "it took {:?}", begun.elapsed());
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_program_that_never_answers_is_ended_with_what_it_started() {
    let text =
        "sleep 1000 & echo $! > $folder/pid; echo $$ >> $folder/pid; mv $folder/pid $folder/pids; wait";
    let (folder, result) = tried(text, Duration::from_secs(2));
    assert!(
        matches!(&result, Err(TrialError::Helper(why)) if why.contains("did not answer within 2 seconds")),
        "{result:?}"
    );
    let pids = std::fs::read_to_string(folder.path().join("pids")).unwrap();
    assert_eq!(pids.lines().count(), 2, "{pids}");
    for pid in pids.lines() {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        assert!(matches!(state, None | Some('Z' | 'X')), "{pid} lives: {stat}");
    }
}

#[test]
fn a_program_that_is_no_helper_is_recognized_at_once() {
    check_no_helper("echo hello >&0; sleep 1000", LONG, "said what no helper says");
    check_no_helper("exit 3", LONG, "exit status: 3 and said nothing");
    check_no_helper("echo hello; exit 0", LONG, "exit status: 0 and said nothing");
    check_no_helper("exec <&-; exit 0", LONG, "exit status: 0 and said nothing");
    // Without an end of line.
    check_no_helper("exec 3>&0; tr '\\0' x </dev/zero >&3", LONG, "said what no helper says");
}

#[test]
fn one_that_closes_the_line_and_stays_is_ended_too() {
    check_no_helper("exec <&-; exec sleep 1000", Duration::from_secs(1), "did not answer within 1 seconds");
}

#[test]
fn a_program_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (_kept, result) = tried("exit 0", LONG);
    assert!(result.is_err());
    let private = super::super::private::PrivateFolders::new(None, folder.path()).unwrap();
    let missing = folder.path().join("missing");
    let result = super::super::machine::try_out(&missing, &private, None, LONG);
    let Err(crate::confinement::Shortage::Helper(why)) = result else { panic!("{result:?}") };
    assert!(why.contains(&format!("{} could not be started: No such file", missing.display())), "{why}");
}

#[test]
fn a_helper_that_says_what_failed_is_one() {
    let (_folder, result) = tried(r#"echo '{"failed":{"what":"no walls here"}}' >&0"#, LONG);
    assert_eq!(result, Err(TrialError::Wall("no walls here".to_owned())));
    let (_folder, result) =
        tried(r#"printf '"ready"\n{"ended":{"code":0,"signal":null,"leftovers":0}}\n' >&0"#, LONG);
    assert_eq!(result, Ok(()));
}
