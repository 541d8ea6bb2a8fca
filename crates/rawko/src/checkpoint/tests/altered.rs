//! Kept objects are overwritten or removed where they are stored.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::bench::{Bench, SESSION};
use crate::checkpoint::{CheckpointError, DiffDetail, DiffRange, Fate, Version};

impl Bench {
    /// The path of an object that is in no pack.
    fn object(&self, id: &str) -> PathBuf {
        let (folder, leaf) = id.trim().split_at(2);
        self.top().join(".git/objects").join(folder).join(leaf)
    }

    /// Lets the object `id` hold what `other` holds, or nothing.
    fn overwrite(&self, id: &str, other: Option<&str>) {
        let path = self.object(id);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        match other {
            Some(other) => drop(std::fs::copy(self.object(other), path).unwrap()),
            None => std::fs::remove_file(path).unwrap(),
        }
    }

    fn id(&self, expression: &str) -> String {
        self.git(&["rev-parse", expression]).trim().to_owned()
    }

    fn stored(&self, text: &str) -> String {
        self.write("stored", text).git(&["hash-object", "-w", "stored"]);
        let id = self.git(&["hash-object", "stored"]).trim().to_owned();
        self.remove("stored");
        id
    }
}

#[test]
fn a_file_whose_object_is_another_one_is_not_read() {
    for instead in [Some("weakened\n"), None] {
        let bench = Bench::repository();
        bench.write("test", "strict\n");
        let id = bench.take(1);
        let test = bench.id(&format!("{id}:test"));
        bench.write("test", "weakened\n").write("tracked", "two\n");
        bench.overwrite(&test, instead.map(|text| bench.stored(text)).as_deref());
        let trees = bench.checkpoints.trees().unwrap().unwrap();
        assert_eq!(trees.fates().get("test"), Some(&Fate::Changed));
        assert!(trees.faults().is_empty());
        assert_eq!(trees.content("test", &Version::First), None);
        let faults: Vec<_> = trees.faults().into_iter().map(|it| (it.object, it.is_gone)).collect();
        assert_eq!(faults, [(test.clone(), instead.is_none())]);
        let to = bench.outside().join("copy");
        std::fs::create_dir(&to).unwrap();
        trees.write(&to, &|_| Version::Now, &mut |_| Ok(())).unwrap();
        assert_eq!(std::fs::read(to.join("test")).unwrap(), b"weakened\n");
        assert!(trees.write(&to, &|_| Version::First, &mut |_| Ok(())).is_err());
        let error = bench.checkpoints.changes(DiffRange::Session, DiffDetail::Lines).unwrap_err();
        let is_named = match &error {
            CheckpointError::Altered { id, .. } => instead.is_some() && *id == test,
            CheckpointError::Gone { .. } | CheckpointError::Git { .. } => instead.is_none(),
            _ => false,
        };
        assert!(is_named, "{error}");
        // The rest comes back.
        bench.end();
        let done = bench.rewind("1");
        assert_eq!(done.restored, ["tracked"]);
        let left: Vec<&str> = done.left_alone.iter().map(|left| left.path.as_str()).collect();
        assert_eq!((left, bench.read("test")), (vec!["test"], "weakened\n".to_owned()));
    }
}

#[test]
fn a_tree_that_is_another_one_is_not_read() {
    let mut bench = Bench::repository();
    bench.write("dir/test", "strict\n");
    let id = bench.take(1);
    bench.write("dir/test", "weakened\n");
    let weakened = bench.take(2);
    for what in [":dir", "^{tree}", ""] {
        let (id, instead) = (bench.id(&format!("{id}{what}")), bench.id(&format!("{weakened}{what}")));
        let kept = std::fs::read(bench.object(&id)).unwrap();
        bench.overwrite(&id, Some(&instead));
        // A process has read some already.
        bench = bench.session(SESSION);
        let error = bench.checkpoints.trees().unwrap_err();
        assert!(matches!(&error, CheckpointError::Altered { id: named, .. } if *named == id), "{error}");
        std::fs::write(bench.object(&id), kept).unwrap();
    }
    assert!(bench.checkpoints.trees().unwrap().is_some());
}

#[test]
fn the_present_tree_is_not_one_that_someone_planted() {
    let bench = Bench::repository();
    bench.write("test", "strict\n");
    let id = bench.take(1);
    bench.write("test", "weakened\n").git(&["add", "test"]);
    let now = bench.git(&["write-tree"]);
    bench.overwrite(&now, Some(&bench.id(&format!("{id}^{{tree}}"))));
    let error = bench.checkpoints.trees().unwrap_err();
    assert!(matches!(&error, CheckpointError::Altered { id, .. } if *id == now.trim()), "{error}");
}

#[test]
fn refs_that_somebody_moved_or_made_are_not_followed() {
    let bench = Bench::repository();
    bench.write("test", "strict\n");
    let id = bench.take(1);
    bench.write("test", "weakened\n");
    let other = bench.session("another");
    let weakened = other.take(1);
    let bench = other.session(SESSION);
    assert_eq!(bench.checkpoints.list().unwrap()[0].id, id);
    for name in ["1", "after-1", "resumed-1"] {
        bench.git(&["update-ref", &format!("refs/rawko/{SESSION}/{name}"), &weakened]);
    }
    let kept = bench.checkpoints.list().unwrap();
    assert_eq!(kept.iter().map(|kept| (&*kept.name, &*kept.id)).collect::<Vec<_>>(), [("1", &*id)]);
    assert_eq!(bench.checkpoints.trees().unwrap().unwrap().fates()["test"], Fate::Changed);
    // Another process finds the one that the session's folder has.
    let bench = bench.session(SESSION);
    assert_eq!(bench.checkpoints.list().unwrap()[0].id, id);
}

#[test]
fn an_index_that_somebody_wrote_is_not_used() {
    let bench = Bench::repository();
    bench.write("test", "strict\n").take(1);
    let index = bench.path(format!(".rawko/sessions/{SESSION}/checkpoints/index"));
    bench.write("test", "weakened\n");
    // Git then takes the file for unchanged, and does not look.
    let mut git = testkit::git_command(&bench.top());
    testkit::said(git.env("GIT_INDEX_FILE", &index).args(["update-index", "--assume-unchanged", "test"]));
    let trees = bench.checkpoints.trees().unwrap().unwrap();
    assert_eq!(trees.content("test", &Version::Now).unwrap(), b"weakened\n");
    assert_eq!(bench.kept_file(&bench.take(2), "test").1, b"weakened\n");
}
