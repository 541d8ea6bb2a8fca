//! Caches decisions of the arbiter, for the same question in a later run (`docs/arbiter.md#cache`).
//!
//! Owns the files `KEY.json` in the user's cache directory: one decision each, readable only by the user. They are
//! never stored in a project, because a clone must not bring decisions with it. The core decides when two questions are
//! the same, and which decisions may be cached. A file that is damaged, too old or unreadable counts as
//! absent, and a write error is ignored: the cache never makes a run fail.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rawko_core::Timestamp;
use rawko_core::arbiter::is_cacheable;
use rawko_core::machine::Decision;
use rawko_core::session::{DecisionRecord, DecisionSource};
use rawko_core::text::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::private::{create_private_dir, replace};

const VERSION: u32 = 1;
/// Largest file, in bytes.
const MAX_BYTES: u64 = 64 * 1024;
/// Most files; the oldest are removed first.
const MAX_ENTRIES: usize = 1_000;
/// How long a decision is valid, in milliseconds: seven days.
const GOOD_FOR_MS: u64 = 7 * 24 * 60 * 60 * 1_000;
/// Length of a key: SHA-256 in hexadecimal.
const KEY_LEN: usize = 64;

/// The arbiter's cache of one user.
#[derive(Debug, Clone)]
pub struct DecisionCache {
    directory: PathBuf,
    /// Whether decisions are only read.
    read_only: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CachedDecision {
    version: u32,
    key: String,
    decided_at: Timestamp,
    decision: Decision,
}

impl DecisionCache {
    /// The cache in `cache_dir` ([`user_cache_dir`](crate::config::user_cache_dir)). Nothing is read or created yet.
    #[must_use]
    pub fn new(cache_dir: &Path) -> Self {
        Self { directory: cache_dir.join("arbiter"), read_only: false }
    }

    /// Limits the cache to answers of this server. A server that one project configures must not decide for others.
    pub(crate) fn of_server(self, address: &str) -> Self {
        let digest = Sha256::digest(address.as_bytes());
        Self { directory: self.directory.join(hex(&digest[..8])), ..self }
    }

    /// Makes the cache read-only.
    pub(crate) fn read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// The decision under this key, if it is cached and still valid.
    pub(crate) fn get(&self, key: &str, now: Timestamp) -> Option<Decision> {
        let mut text = String::new();
        fs::File::open(self.path(key)?).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        let entry: CachedDecision = serde_json::from_str(&text).ok()?;
        // A decision from the future has no age: a clock was wrong.
        let is_good = entry.decided_at <= now && now.since(entry.decided_at) <= GOOD_FOR_MS;
        let is_ours = entry.version == VERSION && entry.key == key && is_cacheable(&entry.decision);
        (is_good && is_ours).then_some(entry.decision)
    }

    /// Stores the decision if a model made it at its first attempt and no rule changed it.
    pub(crate) fn remember(&self, record: &DecisionRecord, now: Timestamp) {
        let is_the_models = record.source == DecisionSource::Llm
            && record.rejected.is_empty()
            && record.instead_of.is_none()
            && is_cacheable(&record.decision);
        if let Some(key) = record.cache_key.as_deref().filter(|_| is_the_models && !self.read_only) {
            // If it cannot be stored, the next run asks again.
            let _ = self.put(key, &record.decision, now);
        }
    }

    fn put(&self, key: &str, decision: &Decision, now: Timestamp) -> io::Result<()> {
        let Some(path) = self.path(key) else { return Ok(()) };
        create_private_dir(&self.directory)?;
        let entry = CachedDecision {
            version: VERSION,
            key: key.to_owned(),
            decided_at: now,
            decision: decision.clone(),
        };
        replace(&path, &serde_json::to_vec(&entry)?)?;
        self.prune()
    }

    /// Removes the oldest files if there are too many.
    fn prune(&self) -> io::Result<()> {
        let files = fs::read_dir(&self.directory)?.filter_map(Result::ok).map(|file| file.path());
        let files: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
        let Some(too_many) = files.len().checked_sub(MAX_ENTRIES).filter(|count| *count > 0) else {
            return Ok(());
        };
        let age = |path: &PathBuf| {
            path.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let mut by_age: Vec<(SystemTime, PathBuf)> =
            files.into_iter().map(|path| (age(&path), path)).collect();
        by_age.sort();
        for (_, path) in by_age.into_iter().take(too_many) {
            // Another process may have removed it first.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// The path of a key's file. The key is checked, because it comes from a journal that another person may have written.
    fn path(&self, key: &str) -> Option<PathBuf> {
        let is_key = key.len() == KEY_LEN && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_key.then(|| self.directory.join(format!("{key}.json")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rawko_core::Usage;
    use rawko_core::session::DecisionPoint;

    const NOW: Timestamp = Timestamp(1_750_000_000_000);

    fn key(n: usize) -> String {
        format!("{n:064x}")
    }

    fn retry() -> Decision {
        Decision::Retry { reason: "again".into() }
    }

    fn record(decision: Decision) -> DecisionRecord {
        DecisionRecord {
            point: DecisionPoint::Select,
            decision,
            source: DecisionSource::Llm,
            input: None,
            calls: Vec::new(),
            rejected: Vec::new(),
            rule: None,
            instead_of: None,
            cache_key: Some(key(1)),
            latency_ms: 1,
            usage: Usage::default(),
        }
    }

    fn cache() -> (tempfile::TempDir, DecisionCache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = DecisionCache::new(&folder.path().join("rawko"));
        (folder, cache)
    }

    #[test]
    fn a_decision_is_known_for_a_week() {
        let (_folder, cache) = cache();
        assert_eq!(cache.get(&key(1), NOW), None);
        cache.remember(&record(retry()), NOW);
        assert_eq!(cache.get(&key(1), NOW), Some(retry()));
        assert_eq!(cache.get(&key(2), NOW), None);
        assert_eq!(cache.get(&key(1), Timestamp(NOW.0 + GOOD_FOR_MS)), Some(retry()));
        assert_eq!(cache.get(&key(1), Timestamp(NOW.0 + GOOD_FOR_MS + 1)), None);
        assert_eq!(cache.get(&key(1), Timestamp(NOW.0 - 1)), None, "decided in the future");
    }

    #[track_caller]
    fn check_not_remembered(record: &DecisionRecord) {
        let (folder, cache) = cache();
        cache.remember(record, NOW);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{record:?}");
    }

    #[test]
    fn only_what_a_model_decided_by_itself_is_remembered() {
        check_not_remembered(&record(Decision::Complete { summary: "done".into() }));
        check_not_remembered(&DecisionRecord { cache_key: None, ..record(retry()) });
        check_not_remembered(&DecisionRecord { cache_key: Some("../../x".into()), ..record(retry()) });
        check_not_remembered(&DecisionRecord { source: DecisionSource::Cache, ..record(retry()) });
        check_not_remembered(&DecisionRecord { source: DecisionSource::Fallback, ..record(retry()) });
        check_not_remembered(&DecisionRecord { rejected: vec!["no".into()], ..record(retry()) });
        check_not_remembered(&DecisionRecord { instead_of: Some(retry()), ..record(retry()) });
        let (folder, cache) = cache();
        cache.read_only(true).remember(&record(retry()), NOW);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[track_caller]
    fn check_damaged(change: impl FnOnce(&str) -> String) {
        let (_folder, cache) = cache();
        cache.remember(&record(retry()), NOW);
        let path = cache.path(&key(1)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let changed = change(&text);
        assert_ne!(changed, text);
        fs::write(&path, changed).unwrap();
        assert_eq!(cache.get(&key(1), NOW), None);
        cache.remember(&record(retry()), NOW);
        assert_eq!(cache.get(&key(1), NOW), Some(retry()), "a damaged file is replaced");
    }

    #[test]
    fn a_file_that_is_not_what_was_written_is_as_good_as_absent() {
        check_damaged(|_| String::new());
        check_damaged(|text| text[..text.len() / 2].to_owned());
        check_damaged(|text| text.replace("\"version\":1", "\"version\":2"));
        check_damaged(|text| text.replace(&key(1), &key(2)));
        check_damaged(|text| text.replace("RETRY", "ABORT"));
        check_damaged(|text| {
            text.replace(
                &text[text.find("\"decision\"").unwrap()..],
                "\"decision\":{\"decision\":\"COMPLETE\",\"summary\":\"done\"}}",
            )
        });
    }

    #[cfg(unix)]
    #[test]
    fn only_the_user_can_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let (_folder, cache) = cache();
        cache.remember(&record(retry()), NOW);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&cache.path(&key(1)).unwrap()), 0o600);
        assert_eq!(mode(&cache.directory), 0o700);
    }

    #[test]
    fn the_oldest_make_room() {
        let (_folder, cache) = cache();
        create_private_dir(&cache.directory).unwrap();
        for n in 0..MAX_ENTRIES + 5 {
            let file = fs::File::create(cache.path(&key(n)).unwrap()).unwrap();
            let age = std::time::Duration::from_secs(n as u64);
            file.set_modified(SystemTime::UNIX_EPOCH + age).unwrap();
        }
        let newest = DecisionRecord { cache_key: Some(key(MAX_ENTRIES + 5)), ..record(retry()) };
        cache.remember(&newest, NOW);
        assert_eq!(fs::read_dir(&cache.directory).unwrap().count(), MAX_ENTRIES);
        assert!(!cache.path(&key(5)).unwrap().exists() && cache.path(&key(6)).unwrap().exists());
        assert_eq!(cache.get(&key(MAX_ENTRIES + 5), NOW), Some(retry()));
    }
}
