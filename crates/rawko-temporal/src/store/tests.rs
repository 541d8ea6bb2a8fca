//! What workers share, in folders; and in a bucket where `RAWKO_TEST_S3` names one (`scripts/test-s3.sh`).

use std::collections::BTreeSet;
use std::future::Future;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path as FilePath;

use proptest::prelude::*;

use super::*;

fn in_folder() -> (tempfile::TempDir, SharedStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SharedStore::open(folder.path().join("store").to_str().unwrap()).unwrap();
    (folder, store)
}

/// Does the same with every kind of store there is.
async fn with_each<F: Future<Output = ()>>(name: &str, test: impl Fn(SharedStore) -> F) {
    let (_folder, store) = in_folder();
    test(store).await;
    // An empty bucket of its own for each test and each run.
    if let Ok(bucket) = std::env::var("RAWKO_TEST_S3") {
        test(SharedStore::open(&format!("{bucket}/{name}-{}", std::process::id())).unwrap()).await;
    }
}

fn bytes(text: impl Into<String>) -> Bytes {
    Bytes::from(text.into())
}

fn lines(range: std::ops::Range<u64>) -> Vec<Bytes> {
    range.map(|event| bytes(format!("{{\"seq\":{event}}}"))).collect()
}

fn texts(events: Vec<(u64, Bytes)>) -> Vec<(u64, String)> {
    events.into_iter().map(|(event, line)| (event, String::from_utf8(line.to_vec()).unwrap())).collect()
}

fn object(folder: &FilePath, hash: &str) -> std::path::PathBuf {
    folder.join("store/blobs").join(&hash[..2]).join(hash)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_is_found_by_its_hash() {
    with_each("blobs", |store| async move {
        let hash = store.put_blob(bytes("hello")).await.unwrap();
        assert_eq!(hash, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
        assert_eq!(store.put_blob(bytes("hello")).await.unwrap(), hash);
        assert_eq!(store.blob(&hash).await.unwrap(), "hello");
        let empty = store.put_blob(Bytes::new()).await.unwrap();
        assert_eq!(store.blob(&empty).await.unwrap(), "");
        let error = store.blob(&"0".repeat(64)).await.unwrap_err();
        assert!(matches!(error, StoreError::NoBlob { .. }), "{error}");
        assert!(matches!(store.blob("../x").await.unwrap_err(), StoreError::Name { .. }));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_blob_may_be_put_many_times_at_once() {
    with_each("same", |store| async move {
        let content = bytes("x".repeat(300_000));
        let puts = (0..16).map(|_| {
            let (store, content) = (store.clone(), content.clone());
            tokio::spawn(async move { store.put_blob(content).await.unwrap() })
        });
        let hashes = futures_util::future::join_all(puts).await;
        let hashes: BTreeSet<String> = hashes.into_iter().map(Result::unwrap).collect();
        assert_eq!(hashes.len(), 1);
        assert_eq!(store.blob(hashes.first().unwrap()).await.unwrap(), content);
    })
    .await;
}

#[tokio::test]
async fn a_damaged_blob_is_an_error_and_mended_by_who_has_it() {
    let (folder, store) = in_folder();
    let hash = store.put_blob(bytes("hello")).await.unwrap();
    let path = object(folder.path(), &hash);
    std::fs::write(&path, "hell0").unwrap();
    let error = store.blob(&hash).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }) && error.to_string().contains(&hash), "{error}");
    std::fs::write(&path, "he").unwrap();
    store.put_blob(bytes("hello")).await.unwrap();
    assert_eq!(store.blob(&hash).await.unwrap(), "hello");
}

#[tokio::test]
async fn a_crash_leaves_no_half_of_an_object() {
    let (folder, store) = in_folder();
    let hash = store.put_blob(bytes("hello")).await.unwrap();
    // As a process leaves it that is killed while it writes: beside the object's place, not in it.
    let other = hex::encode(Sha256::digest("other"));
    let path = object(folder.path(), &other);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(format!("{}#1", path.display()), "oth").unwrap();
    assert!(matches!(store.blob(&other).await.unwrap_err(), StoreError::NoBlob { .. }));
    assert_eq!(store.list("blobs").await.unwrap(), [format!("blobs/{}/{hash}", &hash[..2])]);
    assert_eq!(store.put_blob(bytes("other")).await.unwrap(), other);
    assert_eq!(store.blob(&other).await.unwrap(), "other");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_to_create_a_key_wins() {
    with_each("first", |store| async move {
        let creates = (0..16).map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let own = bytes(format!("writer {writer}"));
                match store.create("tasks/one/result", own.clone()).await.unwrap() {
                    Creation::Created => (true, own),
                    Creation::Existing(found) => (false, found),
                }
            })
        });
        let ends = futures_util::future::join_all(creates).await;
        let ends: Vec<(bool, Bytes)> = ends.into_iter().map(Result::unwrap).collect();
        let won: Vec<&Bytes> = ends.iter().filter(|(won, _)| *won).map(|(_, content)| content).collect();
        assert_eq!(won.len(), 1, "{ends:?}");
        assert!(ends.iter().all(|(_, content)| content == won[0]), "{ends:?}");
        assert_eq!(store.get("tasks/one/result").await.unwrap().as_ref(), Some(won[0]));
        assert_eq!(store.get("tasks/one/other").await.unwrap(), None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_listed_in_order() {
    with_each("list", |store| async move {
        for key in ["b/2", "a/10", "b/1", "a/1/x", "ab"] {
            store.create(key, bytes(key)).await.unwrap();
        }
        assert_eq!(store.list("").await.unwrap(), ["a/1/x", "a/10", "ab", "b/1", "b/2"]);
        assert_eq!(store.list("a").await.unwrap(), ["a/1/x", "a/10"]);
        assert!(store.list("none").await.unwrap().is_empty());
        for key in ["../x", "a/../b", "", "a b", "/a"] {
            assert!(matches!(store.create(key, Bytes::new()).await, Err(StoreError::Name { .. })), "{key}");
            assert!(store.get(key).await.is_err());
        }
        assert!(store.list("..").await.is_err());
    })
    .await;
}

#[tokio::test]
async fn a_folder_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &FilePath| path.metadata().unwrap().permissions().mode() & 0o777;
    let set = |path: &FilePath, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let new = folder.path().join("deep/store");
    SharedStore::open(new.to_str().unwrap()).unwrap();
    let file = format!("file://{}", new.display());
    let store = SharedStore::open(&file).unwrap();
    assert_eq!((mode(&new), store.location()), (0o700, file.as_str()));
    // One that is there and empty is closed, one with content is not touched.
    set(&new, 0o755);
    SharedStore::open(&file).unwrap();
    assert_eq!(mode(&new), 0o700);
    store.create("a", Bytes::new()).await.unwrap();
    set(&new, 0o750);
    let error = SharedStore::open(&file).unwrap_err().to_string();
    assert!(error.contains("chmod 700") && mode(&new) == 0o750, "{error}");
}

#[tokio::test]
async fn locations_that_cannot_be_used_say_so() {
    let taken = tempfile::NamedTempFile::new().unwrap();
    for location in ["relative", "", "file://relative", "gs://bucket", taken.path().to_str().unwrap()] {
        let error = SharedStore::open(location).unwrap_err();
        assert!(matches!(error, StoreError::Location { .. }), "{location}: {error}");
    }
    #[cfg(not(feature = "s3"))]
    assert!(SharedStore::open("s3://bucket/a").unwrap_err().to_string().contains("feature `s3`"));
    #[cfg(feature = "s3")]
    assert!(SharedStore::open("s3://bucket/../a").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_read_from_any_number_on() {
    with_each("events", |store| async move {
        let log = store.events("one").unwrap();
        assert_eq!((log.length().await.unwrap(), log.read(0).await.unwrap()), (0, vec![]));
        let all = lines(0..1000);
        log.append(0, &all[..3]).await.unwrap();
        log.append(2, &all[2..700]).await.unwrap();
        log.append(600, &all[600..]).await.unwrap();
        log.append(600, &all[600..]).await.unwrap();
        log.append(1000, &[]).await.unwrap();
        assert_eq!(log.length().await.unwrap(), 1000);
        for from in [0, 1, 2, 3, 255, 256, 257, 511, 512, 699, 999, 1000, 5000] {
            let expected: Vec<(u64, Bytes)> = (0..).zip(all.clone()).skip(from as usize).collect();
            assert_eq!(log.read(from).await.unwrap(), expected, "{from}");
        }
        assert_eq!(store.events("two").unwrap().length().await.unwrap(), 0);
        assert!(store.events("../one").is_err());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lies_before_is_not_looked_at() {
    with_each("before", |store| async move {
        let log = store.events("one").unwrap();
        let all = lines(0..2000);
        log.append(0, &all).await.unwrap();
        let listed = |from| {
            let log = log.clone();
            async move { log.segments(from).await.unwrap().len() }
        };
        assert_eq!((listed(0).await, listed(1800).await, listed(1999).await), (8, 1, 1));
    })
    .await;
    let (folder, store) = in_folder();
    let log = store.events("one").unwrap();
    log.append(0, &lines(0..600)).await.unwrap();
    std::fs::write(folder.path().join("store/tasks/one/events/0000000000-0000000255"), "damaged").unwrap();
    assert_eq!(log.read(256).await.unwrap().len(), 344);
    assert!(matches!(log.read(255).await.unwrap_err(), StoreError::Damaged { .. }));
}

#[tokio::test]
async fn gaps_and_contradictions_are_named() {
    let (folder, store) = in_folder();
    let log = store.events("one").unwrap();
    log.append(0, &lines(0..5)).await.unwrap();
    log.append(8, &lines(8..10)).await.unwrap();
    for error in [log.read(2).await.unwrap_err(), log.length().await.unwrap_err()] {
        assert!(matches!(error, StoreError::Gap { first: 5, last: 7, .. }), "{error}");
        assert!(error.to_string().contains("no events 5 to 7 of task one"), "{error}");
    }
    assert_eq!(log.read(8).await.unwrap().len(), 2);
    assert!(matches!(log.read(7).await.unwrap_err(), StoreError::Gap { first: 7, last: 7, .. }));
    log.append(4, &lines(4..9)).await.unwrap();
    assert_eq!((log.length().await.unwrap(), log.read(0).await.unwrap().len()), (10, 10));
    // The same run with other content is refused at once, another run by its reader.
    let mut other = lines(8..10);
    other[1] = bytes("{\"other\":1}");
    let error = log.append(8, &other).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { event: 9, .. }), "{error}");
    log.append(9, &other[1..]).await.unwrap();
    assert!(matches!(log.read(0).await.unwrap_err(), StoreError::Conflict { event: 9, .. }));
    assert_eq!(log.read(0).await.unwrap_err().to_string().matches("event 9 of task one").count(), 1);
    for name in ["x", "0000000010-0000000009", "0000000255-0000000256", "10-11"] {
        let path = folder.path().join("store/tasks/one/events").join(name);
        std::fs::write(&path, "").unwrap();
        assert!(matches!(log.read(0).await.unwrap_err(), StoreError::Damaged { .. }), "{name}");
        std::fs::remove_file(path).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lines_are_blobs() {
    with_each("long", |store| async move {
        let log = store.events("one").unwrap();
        let edge = bytes("x".repeat(64 * 1024));
        let long = bytes(format!("{}y", "x".repeat(64 * 1024)));
        let reference = bytes(format!("@{}", "0".repeat(64)));
        let all = [edge, long.clone(), reference, bytes("@"), Bytes::new(), long];
        log.append(0, &all).await.unwrap();
        let expected: Vec<(u64, Bytes)> = (0..).zip(all).collect();
        assert_eq!(log.read(0).await.unwrap(), expected);
        assert_eq!(store.list("blobs").await.unwrap().len(), 3);
        let segment = store.get(&store.list("tasks").await.unwrap()[0]).await.unwrap().unwrap();
        assert!(segment.len() < 66 * 1024, "{}", segment.len());
        let error = log.append(6, &[bytes("a"), bytes("b\nc")]).await.unwrap_err();
        assert!(matches!(error, StoreError::Event { event: 7, .. }), "{error}");
        assert_eq!(log.length().await.unwrap(), 6, "nothing of it was written");
        assert!(log.append(9_999_999_999, &[bytes("a")]).await.is_err());
        assert!(log.append(u64::MAX, &[bytes("a")]).await.is_err());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_at_once_leave_one_log() {
    with_each("writers", |store| async move {
        // Each carries all from some number on, as activities carry the tail of their session.
        let writers = (0..12_u64).map(|writer| {
            let log = store.events("one").unwrap();
            tokio::spawn(async move {
                for step in 0..8_u64 {
                    let first = step * 40 + writer % 3;
                    let end = step * 40 + 45 + writer;
                    let carried = lines(first.saturating_sub(writer)..end);
                    log.append(first.saturating_sub(writer), &carried).await.unwrap();
                }
            })
        });
        for writer in futures_util::future::join_all(writers).await {
            writer.unwrap();
        }
        let log = store.events("one").unwrap();
        let expected: Vec<(u64, Bytes)> = (0..).zip(lines(0..336)).collect();
        assert_eq!(log.read(0).await.unwrap(), expected);
        assert_eq!(log.length().await.unwrap(), 336);
    })
    .await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever runs are written, in whatever order: a reader gets every event from `from` on, or the first gap.
    #[test]
    fn the_union_of_any_runs_is_read(
        runs in prop::collection::vec((0_u64..700, 1_u64..300), 1..12),
        from in 0_u64..1000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (_folder, store) = in_folder();
        let there: BTreeSet<u64> = runs.iter().flat_map(|(first, count)| *first..first + count).collect();
        let wanted: Vec<u64> = there.range(from..).copied().collect();
        let gap = |from: u64, there: &[u64]| {
            let holes = (from..).zip(there).find(|(expected, found)| expected != *found);
            holes.map(|(expected, found)| (expected, found - 1))
        };
        runtime.block_on(async {
            let log = store.events("one").unwrap();
            for (first, count) in &runs {
                log.append(*first, &lines(*first..first + count)).await.unwrap();
            }
            match (log.read(from).await, gap(from, &wanted)) {
                (Ok(events), None) => {
                    let expected: Vec<(u64, String)> =
                        wanted.iter().map(|event| (*event, format!("{{\"seq\":{event}}}"))).collect();
                    assert_eq!(texts(events), expected);
                }
                (Err(StoreError::Gap { first, last, .. }), Some(hole)) => assert_eq!((first, last), hole),
                (found, expected) => panic!("{found:?}, but {expected:?}"),
            }
            let all: Vec<u64> = there.iter().copied().collect();
            match (log.length().await, gap(0, &all)) {
                (Ok(length), None) => assert_eq!(length, all.last().unwrap() + 1),
                (Err(StoreError::Gap { first, last, .. }), Some(hole)) => assert_eq!((first, last), hole),
                (found, expected) => panic!("{found:?}, but {expected:?}"),
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_marked_once_and_distinguished_from_another_one() {
    with_each("marks", |store| async move {
        assert_eq!(store.mark().await.unwrap(), None);
        let refused = store.check_mark("0123456789abcdef").await.unwrap_err();
        assert!(refused.to_string().contains("has no mark") && refused.is_local(), "{refused}");
        let marks = futures_util::future::join_all((0..8).map(|_| store.marked())).await;
        let mark = marks[0].as_ref().unwrap().clone();
        assert!(marks.iter().all(|other| *other.as_ref().unwrap() == mark), "{marks:?}");
        assert_eq!(store.marked().await.unwrap(), mark);
        store.check_mark(&mark).await.unwrap();
        let refused = store.check_mark("0123456789abcdef").await.unwrap_err().to_string();
        assert!(refused.contains(&mark) && refused.contains("0123456789abcdef"), "{refused}");
    })
    .await;
    let ((_one, first), (_two, second)) = (in_folder(), in_folder());
    assert_ne!(first.marked().await.unwrap(), second.marked().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_gone_is_not_made_anew() {
    let (folder, store) = in_folder();
    store.put_blob(bytes("before")).await.unwrap();
    let path = folder.path().join("store");
    std::fs::rename(&path, folder.path().join("kept")).unwrap();
    let refused = store.put_blob(bytes("after")).await.unwrap_err();
    assert!(refused.to_string().contains("is gone") && refused.is_local(), "{refused}");
    assert!(store.create("tasks/one", Bytes::new()).await.is_err());
    assert!(!path.exists());
    std::fs::rename(folder.path().join("kept"), &path).unwrap();
    store.put_blob(bytes("after")).await.unwrap();
}
