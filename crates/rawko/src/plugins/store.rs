//! The installed plug-ins: a copy of each in the user's data directory, and a record of what was approved in the state directory.
//!
//! A copy counts only if its digest is the recorded one. So whatever happens between writing one and the other (a kill, another
//! process) leaves a plug-in that is not used, never one that was not approved.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::aside::{self, AsideFolder};
use super::record::PluginRecord;
use super::source::{PluginSource, fetch, subfolder};
use super::tree::{self, PluginTree};
use super::{PluginError, PluginRecords};
use crate::config::{Diagnostic, Plugin, PluginPlace};
use crate::private::create_private_dir;

/// Most changed files that are named.
const MAX_NAMED: usize = 20;

/// Where plug-ins are kept.
#[derive(Debug, Clone)]
pub(crate) struct PluginFolders(PathBuf);

impl PluginFolders {
    /// Those in the user's data directory.
    pub(crate) fn of(data: &Path) -> Self {
        Self(data.to_owned())
    }

    fn all(&self) -> PathBuf {
        self.0.join("plugins")
    }

    /// The place of the plug-in of that name.
    pub(crate) fn place(&self, name: &str) -> PluginPlace {
        PluginPlace {
            name: name.to_owned(),
            root: self.all().join(name),
            data: self.0.join("plugin-data").join(name),
        }
    }
}

/// Whether an installed plug-in is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum PluginState {
    /// It is.
    Approved,
    /// Its files are not those that were approved: some of those that differ.
    Changed {
        /// Their paths in the plug-in.
        files: Vec<String>,
    },
    /// It cannot be read.
    Unusable {
        /// Why not.
        errors: Vec<Diagnostic>,
    },
}

/// The plug-in at this place as `read` reads it, if it is what the record says was approved.
pub(crate) fn approved(
    place: PluginPlace,
    record: &PluginRecord,
    read: impl FnOnce(PluginPlace, &Path) -> Result<Plugin, Vec<Diagnostic>>,
) -> Result<Plugin, PluginState> {
    let unusable = |error: Box<Diagnostic>| PluginState::Unusable { errors: vec![*error] };
    if !place.root.is_dir() {
        let help = format!("add it again, or: rawko plugins remove {}", place.name);
        let gone = Diagnostic::of_file(&place.root, "the plug-in's folder is not there", Some(help));
        return Err(unusable(Box::new(gone)));
    }
    let tree = PluginTree::read(&place.root, &place.root).map_err(unusable)?;
    if tree.digest != record.digest {
        return Err(PluginState::Changed { files: tree.changed(&record.files, MAX_NAMED) });
    }
    let shown = place.root.clone();
    let mut plugin = read(place, &shown).map_err(|errors| PluginState::Unusable { errors })?;
    plugin.may_reach(&record.net);
    Ok(plugin)
}

/// A plug-in that is installed.
#[derive(Debug, Clone)]
pub struct InstalledPlugin {
    /// Its name.
    pub name: String,
    /// Where it came from, and what was approved.
    pub record: PluginRecord,
    /// Whether it is used.
    pub state: PluginState,
    /// What is in it, where that can be read.
    pub plugin: Option<Plugin>,
    /// The digest of its files as they are now, where they can be read.
    pub digest: Option<String>,
}

/// The user's plug-ins.
#[derive(Debug, Clone)]
pub struct PluginStore {
    folders: PluginFolders,
    records: PluginRecords,
}

/// A plug-in that was fetched and is not installed. Dropping it removes what was fetched.
#[derive(Debug)]
pub struct PreparedPlugin {
    /// What is in it.
    pub plugin: Plugin,
    /// SHA-256 of its content, in hex: what is approved.
    pub digest: String,
    /// The commit that was fetched, in hex.
    pub commit: Option<String>,
    /// Whether one of this name and source is installed, which it will replace.
    pub is_update: bool,
    /// The hosts that the servers of that one may reach.
    pub granted: Vec<String>,
    source: PluginSource,
    folder: Option<PathBuf>,
    tree: PluginTree,
    copy: AsideFolder,
}

/// What [`PluginStore::prepare`] needs besides a source.
#[derive(Clone, Copy)]
pub struct PluginFetch<'a> {
    /// The program git, if there is one.
    pub git: Option<&'a Path>,
    /// Looks up the user's variables.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

impl PluginStore {
    /// The plug-ins in the user's data directory, and their records in the state directory. Nothing is read yet.
    #[must_use]
    pub fn new(data: &Path, state: &Path) -> Self {
        Self { folders: PluginFolders::of(data), records: PluginRecords::of(state) }
    }

    /// All that are installed, sorted by name.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn list(&self) -> Result<Vec<InstalledPlugin>, PluginError> {
        let installed = |(name, record)| self.installed(name, record);
        Ok(self.records.read()?.into_iter().map(installed).collect())
    }

    fn installed(&self, name: String, record: PluginRecord) -> InstalledPlugin {
        let place = self.folders.place(&name);
        let digest = PluginTree::read(&place.root, &place.root).ok().map(|tree| tree.digest);
        let (state, plugin) = match approved(place.clone(), &record, Plugin::read) {
            Ok(plugin) => (PluginState::Approved, Some(plugin)),
            Err(state @ PluginState::Changed { .. }) => {
                let shown = place.root.clone();
                match Plugin::read(place, &shown) {
                    Ok(plugin) => (state, Some(plugin)),
                    Err(errors) => (PluginState::Unusable { errors }, None),
                }
            }
            Err(state) => (state, None),
        };
        InstalledPlugin { name, record, state, plugin, digest }
    }

    /// Fetches and reads a plug-in, from a folder in the source if one is named. Nothing is installed yet.
    ///
    /// # Errors
    /// If it cannot be fetched or used, or another source's plug-in has its name.
    pub fn prepare(
        &self,
        source: PluginSource,
        folder: Option<&Path>,
        fetching: PluginFetch<'_>,
    ) -> Result<PreparedPlugin, PluginError> {
        let all = self.folders.all();
        create_private_dir(&all).map_err(|error| PluginError::io(&all, error))?;
        let (copy, fetched) = self.records.alone(|| {
            aside::clear(&all);
            let new = || AsideFolder::new(&all).map_err(|error| PluginError::io(&all, error));
            Ok((new()?, new()?))
        })?;
        let (from, shown, commit) = match &source {
            PluginSource::Folder(path) => (path.clone(), path.clone(), None),
            PluginSource::Git { url, reference } => {
                let git = fetching.git.ok_or_else(|| {
                    PluginError::refused("git was not found, which fetches a repository", "install git")
                })?;
                let commit = fetch(git, url, reference.as_deref(), fetched.path(), fetching.env)?;
                (fetched.path().to_owned(), PathBuf::new(), Some(commit))
            }
        };
        let (from, shown) = match folder {
            Some(folder) => (subfolder(&from, folder)?, shown.join(folder)),
            None => (from, shown),
        };
        let invalid = |error: Box<Diagnostic>| PluginError::Invalid(vec![*error]);
        // A manifest first: any other folder may be large.
        let name = crate::config::plugin_name(&from, &shown).map_err(PluginError::Invalid)?;
        tree::copy(&from, &shown, copy.path()).map_err(invalid)?;
        let tree = PluginTree::read(copy.path(), &shown).map_err(invalid)?;
        let place = PluginPlace { root: copy.path().to_owned(), ..self.folders.place(&name) };
        let plugin = Plugin::read(place, &shown).map_err(PluginError::Invalid)?;
        let known = self.records.read()?.remove(&plugin.place.name);
        let is_update = known.is_some();
        let mut granted = Vec::new();
        if let Some(known) = known {
            refuse_another(&plugin.place.name, &known, &source, folder)?;
            granted = known.net;
        }
        let (digest, folder) = (tree.digest.clone(), folder.map(Path::to_owned));
        Ok(PreparedPlugin { plugin, digest, commit, is_update, granted, source, folder, tree, copy })
    }

    /// Installs what was prepared: the user approved its digest. Its servers may reach these hosts.
    ///
    /// # Errors
    /// If another source's plug-in got its name meanwhile, a host is no name of one, or it cannot be written.
    pub fn install(&self, prepared: PreparedPlugin, net: Vec<String>) -> Result<String, PluginError> {
        check_hosts(&net)?;
        let PreparedPlugin { plugin, digest, commit, source, folder, tree, copy, .. } = prepared;
        let place = self.folders.place(&plugin.place.name);
        let reference = match &source {
            PluginSource::Git { reference, .. } => reference.clone(),
            PluginSource::Folder(_) => None,
        };
        let record = PluginRecord {
            source: source.place(),
            reference,
            commit,
            folder: folder.clone(),
            digest,
            net,
            files: tree.files,
        };
        self.records.update(|plugins| {
            if let Some(known) = plugins.get(&place.name) {
                refuse_another(&place.name, known, &source, folder.as_deref())?;
            }
            create_private_dir(&place.data).map_err(|error| PluginError::io(&place.data, error))?;
            self.set_aside(&place.root)?;
            copy.move_to(&place.root).map_err(|error| PluginError::io(&place.root, error))?;
            plugins.insert(place.name.clone(), record);
            Ok(())
        })?;
        Ok(place.name)
    }

    /// Approves an installed plug-in as it is now, if this is its digest. Its servers keep their hosts.
    ///
    /// # Errors
    /// If it is not installed, cannot be used, or has another digest.
    pub fn approve(&self, name: &str, digest: &str) -> Result<(), PluginError> {
        let place = self.folders.place(name);
        self.records.update(|plugins| {
            let record = plugins.get_mut(name).ok_or_else(|| not_installed(name))?;
            let invalid = |error: Box<Diagnostic>| PluginError::Invalid(vec![*error]);
            let tree = PluginTree::read(&place.root, &place.root).map_err(invalid)?;
            if tree.digest != digest {
                let message = format!("the plug-in `{name}` has not this digest, so it is not approved");
                let hint = format!("look at it again: rawko plugins check {name}");
                return Err(PluginError::Refused { message, hint });
            }
            let shown = place.root.clone();
            Plugin::read(place, &shown).map_err(PluginError::Invalid)?;
            record.digest = tree.digest;
            record.files = tree.files;
            Ok(())
        })
    }

    /// Removes a plug-in with all that it kept.
    ///
    /// # Errors
    /// If it is not installed, or cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), PluginError> {
        if !crate::config::is_plugin_name(name) {
            return Err(not_installed(name));
        }
        let place = self.folders.place(name);
        self.records.update(|plugins| {
            plugins.remove(name).ok_or_else(|| not_installed(name))?;
            self.set_aside(&place.root)?;
            remove_all(&place.data)
        })
    }

    /// Reads the plug-in in a folder, without installing it: what is in it, and its digest.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn look_at(&self, folder: &Path, shown: &Path) -> Result<(Plugin, String), PluginError> {
        let folder = folder.canonicalize().map_err(|error| PluginError::io(shown, error))?;
        let name = crate::config::plugin_name(&folder, shown).map_err(PluginError::Invalid)?;
        let tree = PluginTree::read(&folder, shown).map_err(|error| PluginError::Invalid(vec![*error]))?;
        let place = PluginPlace { root: folder, ..self.folders.place(&name) };
        let plugin = Plugin::read(place, shown).map_err(PluginError::Invalid)?;
        Ok((plugin, tree.digest))
    }

    /// Takes a plug-in's folder from its place, and removes it.
    fn set_aside(&self, root: &Path) -> Result<(), PluginError> {
        let all = self.folders.all();
        let aside = AsideFolder::new(&all).map_err(|error| PluginError::io(&all, error))?;
        match fs::rename(root, aside.path().join("old")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(PluginError::io(root, error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Checks the hosts that the servers of a plug-in are to reach: the rule of `permissions.net`.
///
/// # Errors
/// If one is no name of a host.
pub fn check_hosts(hosts: &[String]) -> Result<(), PluginError> {
    let fault = hosts.iter().find_map(|host| Some((host, crate::config::host_fault(host)?)));
    fault.map_or(Ok(()), |(host, (why, help))| {
        let message = format!("`{}` in --allow-net: {why}", rawko_core::text::harmless(host));
        Err(PluginError::refused(message, help))
    })
}

fn remove_all(folder: &Path) -> Result<(), PluginError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(PluginError::io(folder, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn not_installed(name: &str) -> PluginError {
    let message = format!("no plug-in `{}` is installed", rawko_core::text::harmless(name));
    PluginError::refused(message, "rawko plugins list names those that are")
}

/// Another plug-in must not take the name of one that is installed.
fn refuse_another(
    name: &str,
    known: &PluginRecord,
    source: &PluginSource,
    folder: Option<&Path>,
) -> Result<(), PluginError> {
    if known.source == source.place() && known.folder.as_deref() == folder {
        return Ok(());
    }
    let message =
        format!("there is already a plug-in `{name}`, from {}", rawko_core::text::harmless(&known.source));
    let hint = format!("to have this one in its place, first: rawko plugins remove {name}");
    Err(PluginError::Refused { message, hint })
}
