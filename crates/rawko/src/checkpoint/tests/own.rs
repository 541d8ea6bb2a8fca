//! A project that brings a session's directory along, with links to where something is to be broken.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::bench::{Bench, SESSION};
use crate::checkpoint::{Checkpoints, DiffDetail, DiffRange, Execute, Extent};

fn in_session(bench: &Bench, name: &str) -> PathBuf {
    bench.path(format!(".rawko/sessions/{SESSION}")).join(name)
}

fn link(bench: &Bench, name: &str, to: PathBuf) {
    std::os::unix::fs::symlink(to, in_session(bench, name)).unwrap();
}

/// Nothing is read or written, and the reason is said.
#[track_caller]
fn is_refused(bench: &Bench) {
    let checkpoints = &bench.checkpoints;
    let errors = [
        checkpoints.take(1).map(drop),
        checkpoints.rewind("1", Execute::Really, Extent::Session).map(drop),
        checkpoints.rewind("1", Execute::DryRun, Extent::Session).map(drop),
        checkpoints.changes(DiffRange::Session, DiffDetail::Lines).map(drop),
        checkpoints.list().map(drop),
        checkpoints.forget(),
    ];
    for error in errors {
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("refusing to use /") && error.contains("it is a symbolic link"), "{error}");
    }
}

#[test]
fn checkpoints_that_lead_to_the_repository() {
    let bench = Bench::repository();
    link(&bench, "checkpoints", bench.top().join(".git"));
    bench.write(".git/index.lock", "held");
    let own = bench.users_own();
    is_refused(&bench);
    assert!(bench.checkpoints.take_end().is_err());
    assert_eq!((bench.users_own(), bench.read(".git/index.lock").as_str()), (own, "held"));
}

#[test]
fn a_session_that_leads_elsewhere() {
    let bench = Bench::repository();
    let elsewhere = bench.outside().join("elsewhere");
    let session = format!(".rawko/sessions/{SESSION}");
    std::fs::rename(bench.path(&session), &elsewhere).unwrap();
    bench.link(&session, &elsewhere);
    is_refused(&bench);
    let slash = Checkpoints { directory: in_session(&bench, ""), ..bench.checkpoints.clone() };
    assert!(slash.take(1).is_err());
    assert_eq!(std::fs::read_dir(elsewhere).unwrap().count(), 1, "the journal");
}

#[test]
fn folders_that_lead_elsewhere() {
    for (bench, folder) in [(Bench::plain(), "names"), (Bench::plain(), "objects")] {
        let elsewhere = bench.outside().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::create_dir(in_session(&bench, "checkpoints")).unwrap();
        link(&bench, &format!("checkpoints/{folder}"), elsewhere.clone());
        bench.write("file", "1");
        is_refused(&bench);
        assert_eq!(std::fs::read_dir(elsewhere).unwrap().count(), 0, "{folder}");
    }
}

#[test]
fn nothing_is_written_through_a_name() {
    let bench = Bench::plain();
    let victim = bench.outside().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    bench.write("file", "chosen by somebody else");
    std::fs::create_dir_all(in_session(&bench, "checkpoints/names")).unwrap();
    for name in ["new", "names/1", "names/end", "names/rewind-1"] {
        link(&bench, &format!("checkpoints/{name}"), victim.clone());
    }
    bench.take(1);
    bench.write("file", "2").end();
    bench.rewind("1");
    assert_eq!(bench.read("file"), "chosen by somebody else");
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    for name in ["1", "end", "rewind-1"] {
        let name = in_session(&bench, &format!("checkpoints/names/{name}"));
        let found = name.symlink_metadata().unwrap();
        assert!(found.is_file() && found.permissions().mode() & 0o777 == 0o600, "{}", name.display());
    }
}

#[test]
fn the_index_is_for_its_owner_alone() {
    let bench = Bench::repository();
    for iteration in [1, 2] {
        bench.write("file", iteration.to_string()).take(iteration);
        let index = in_session(&bench, "checkpoints/index").metadata().unwrap();
        assert_eq!(index.permissions().mode() & 0o777, 0o600);
    }
}
