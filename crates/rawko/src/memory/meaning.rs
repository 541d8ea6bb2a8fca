//! Similarity of meaning for the memories of a project, where this build has it.
//!
//! Owns the way from `memory.semantic: true` to `RecallOptions::semantic`. The model is loaded once and asked often; it is not
//! there in a build without the feature `semantic`, and then loading says so. Whatever goes wrong is reported and memories are
//! matched by words alone.

use std::collections::BTreeMap;
#[cfg(feature = "semantic")]
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
#[cfg(feature = "semantic")]
use std::sync::{Mutex, PoisonError};

use rawko_core::Timestamp;
use rawko_core::memory::Similarity;
#[cfg(feature = "semantic")]
use rawko_core::memory::{Memory, superseded};
#[cfg(feature = "semantic")]
use rawko_semantic::{MAX_EMBEDDED, Vectors, similarities};

use super::report::Report;
use super::store::MemoryStore;

#[cfg(feature = "semantic")]
type Model = rawko_semantic::Model;
/// Without the feature there is none.
#[cfg(not(feature = "semantic"))]
type Model = std::convert::Infallible;

/// The model, loaded.
#[derive(Debug)]
pub struct Meaning {
    model: Model,
    /// Read once, and right for ever: they are found by their texts.
    #[cfg(feature = "semantic")]
    vectors: Mutex<Option<Vectors>>,
}

/// Why memories are not found by meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct MeaningError {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl MeaningError {
    /// As a report on the memories' folder.
    #[must_use]
    pub fn report(&self) -> Report {
        Report::warning("", format!("{}; memories are found by words alone", self.message), self.help.clone())
    }
}

#[cfg(not(feature = "semantic"))]
impl Meaning {
    /// Loads the model from the user's directory for rawko's data.
    ///
    /// # Errors
    /// Always: this build has none.
    pub fn load(_data_directory: &Path) -> Result<Self, MeaningError> {
        Err(MeaningError {
            message: "this build of rawko cannot find memories by meaning".to_owned(),
            help: "build it with `cargo install --path crates/rawko-cli --features semantic`".to_owned(),
        })
    }

    /// How near each memory is to a task in meaning, by path.
    #[must_use]
    pub fn near(
        &self,
        _store: &MemoryStore,
        _task: &str,
        _now: Timestamp,
    ) -> (BTreeMap<String, Similarity>, Vec<Report>) {
        match self.model {}
    }

    /// Embeds what has been written since, so that the next selection need not.
    pub fn take_in(&self, _store: &MemoryStore, _now: Timestamp) -> Vec<Report> {
        match self.model {}
    }
}

#[cfg(feature = "semantic")]
impl Meaning {
    /// Loads the model from the user's directory for rawko's data.
    ///
    /// # Errors
    /// Where the model is not there, or something else is in its place.
    pub fn load(data_directory: &Path) -> Result<Self, MeaningError> {
        let model = Model::load(&data_directory.join(rawko_semantic::MODEL_DIRECTORY))?;
        Ok(Self { model, vectors: Mutex::default() })
    }

    /// How near each memory is to a task in meaning, by path. A memory that was not embedded when it was written (it
    /// came with a clone, or was written by hand) is embedded now, and its vector kept beside it.
    #[must_use]
    pub fn near(
        &self,
        store: &MemoryStore,
        task: &str,
        now: Timestamp,
    ) -> (BTreeMap<String, Similarity>, Vec<Report>) {
        let memories = living(store, now);
        let mut embed = |texts: &[&str]| self.model.embed(texts);
        let compare = |vectors: &mut Vectors| similarities(&memories, task, vectors, &mut embed);
        let (near, mut reports) = match self.with_vectors(store, compare) {
            Ok(done) => done,
            Err(error) => return (BTreeMap::new(), vec![MeaningError::from(error).report()]),
        };
        if near.left > 0 {
            let message = format!(
                "{} texts of memories were not compared by meaning: their vectors are not computed yet",
                near.left
            );
            let help =
                format!("every selection computes {MAX_EMBEDDED} of them: `rawko memory match` is one");
            reports.push(Report::warning(rawko_semantic::FILE_NAME, message, help));
        }
        (near.found, reports)
    }

    /// Embeds what has been written since, so that the next selection need not.
    pub fn take_in(&self, store: &MemoryStore, now: Timestamp) -> Vec<Report> {
        let memories = living(store, now);
        let texts = || memories.iter().flat_map(|memory| rawko_semantic::texts(&memory.header));
        let mut embed = |texts: &[&str]| self.model.embed(texts);
        match self.with_vectors(store, |vectors| vectors.fill(texts(), MAX_EMBEDDED, &mut embed)) {
            Ok((_, reports)) => reports,
            Err(error) => vec![MeaningError::from(error).report()],
        }
    }

    /// Does something with the vectors, which are read once a process, and keeps what is new in them.
    fn with_vectors<R>(
        &self,
        store: &MemoryStore,
        work: impl FnOnce(&mut Vectors) -> Result<R, rawko_semantic::Error>,
    ) -> Result<(R, Vec<Report>), rawko_semantic::Error> {
        let path = store.folder().join(rawko_semantic::FILE_NAME);
        let mut held = self.vectors.lock().unwrap_or_else(PoisonError::into_inner);
        let vectors = held.get_or_insert_with(|| Vectors::open(&path, self.model.digest()));
        let done = work(vectors)?;
        // The folder is there, since memories are in it; it may lack the `.gitignore` that names this cache.
        let saved = match (vectors.needs_saving() && store.cache().is_some()).then(|| store.prepare()) {
            Some(Err(error)) => Err(error.to_string()),
            Some(Ok(_)) => vectors.save(&path).map_err(|error| error.to_string()),
            None => Ok(false),
        };
        let reports = saved.err().map(|message| {
            let help = "make the folder writable: else every run embeds anew";
            Report::warning(rawko_semantic::FILE_NAME, message, help)
        });
        Ok((done, reports.into_iter().collect()))
    }
}

/// The memories that may be given: what never is must not outshine what is.
#[cfg(feature = "semantic")]
fn living(store: &MemoryStore, now: Timestamp) -> Vec<Memory> {
    let mut memories = store.inventory().memories;
    let superseded: BTreeSet<String> = superseded(&memories).into_keys().map(str::to_owned).collect();
    memories.retain(|memory| {
        memory.header.expires_at.is_none_or(|at| at > now) && !superseded.contains(&memory.path)
    });
    memories
}

#[cfg(feature = "semantic")]
impl From<rawko_semantic::Error> for MeaningError {
    fn from(error: rawko_semantic::Error) -> Self {
        Self { message: error.to_string(), help: error.help().to_owned() }
    }
}

/// The model for a run: loaded when it is first asked for, and what is wrong with it reported once.
#[derive(Debug)]
pub(crate) struct LazyMeaning {
    data_directory: Option<PathBuf>,
    loaded: OnceLock<Option<Meaning>>,
}

impl LazyMeaning {
    /// To be loaded from the user's directory for rawko's data.
    pub(crate) fn new(data_directory: Option<PathBuf>) -> Self {
        Self { data_directory, loaded: OnceLock::new() }
    }

    /// [`Meaning::near`]; nothing where there is no model.
    pub(crate) fn near(
        &self,
        store: &MemoryStore,
        task: &str,
        now: Timestamp,
    ) -> (BTreeMap<String, Similarity>, Vec<Report>) {
        let mut wrong = Vec::new();
        let loaded = self.loaded.get_or_init(|| match self.load() {
            Ok(meaning) => Some(meaning),
            Err(error) => {
                wrong.push(error.report());
                None
            }
        });
        match loaded {
            Some(meaning) => meaning.near(store, task, now),
            None => (BTreeMap::new(), wrong),
        }
    }

    /// [`Meaning::take_in`], where the model has been loaded: writing one memory is not worth loading it.
    pub(crate) fn take_in(&self, store: &MemoryStore, now: Timestamp) -> Vec<Report> {
        match self.loaded.get() {
            Some(Some(meaning)) => meaning.take_in(store, now),
            Some(None) | None => Vec::new(),
        }
    }

    fn load(&self) -> Result<Meaning, MeaningError> {
        let directory = self.data_directory.as_deref().ok_or_else(|| MeaningError {
            message: "neither XDG_DATA_HOME nor HOME says where the model is".to_owned(),
            help: "set one of them".to_owned(),
        })?;
        Meaning::load(directory)
    }
}

#[cfg(test)]
#[path = "meaning_tests.rs"]
mod tests;
