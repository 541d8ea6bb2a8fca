//! Where things are on this machine: the user's home, toolchains, caches.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Folders of the home that hold toolchains: shown.
const TOOLCHAINS: [&str; 39] = [
    ".asdf",
    ".bun",
    ".config/git",
    ".deno",
    ".dotnet",
    ".elan",
    ".fnm",
    ".ghcup",
    ".goenv",
    ".jdks",
    ".jenv",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/uv",
    ".local/share/virtualenvs",
    ".nix-profile",
    ".nodenv",
    ".nvm",
    ".opam",
    ".pixi",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sdkman",
    ".stack",
    ".swiftly",
    ".volta",
    "anaconda3",
    "mambaforge",
    "miniconda3",
    "miniforge3",
    "n",
    "sdk",
];
/// Folders of the home that hold caches: shown, and changes are kept apart.
const CACHES: [&str; 28] = [
    ".bundle",
    ".cache/Cypress",
    ".cache/ccache",
    ".cache/coursier",
    ".cache/deno",
    ".cache/go-build",
    ".cache/golangci-lint",
    ".cache/ms-playwright",
    ".cache/node",
    ".cache/pip",
    ".cache/pnpm",
    ".cache/pre-commit",
    ".cache/pypoetry",
    ".cache/sccache",
    ".cache/uv",
    ".cache/yarn",
    ".cache/zig",
    ".cargo",
    ".ccache",
    ".gem",
    ".gradle",
    ".ivy2",
    ".julia",
    ".local/share/pnpm",
    ".m2",
    ".npm",
    ".yarn",
    "go",
];
/// Files in caches that hold secrets.
const SECRETS: [&str; 11] = [
    ".cargo/credentials",
    ".cargo/credentials.toml",
    // Commands have their own, see `git_settings`.
    ".config/git/config",
    ".config/git/credentials",
    ".gem/credentials",
    ".gradle/gradle.properties",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".bundle/config",
    ".ivy2/.credentials",
    ".local/share/uv/credentials",
];
/// The same in a folder that a variable names.
const SECRETS_OF_VARIABLES: [&str; 3] = [".credentials", "credentials", "credentials.toml"];
/// Variables that name a toolchain.
const TOOLCHAIN_VARIABLES: [&str; 11] = [
    "CONDA_PREFIX",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PNPM_HOME",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "VIRTUAL_ENV",
];
/// Variables that name a cache.
const CACHE_VARIABLES: [&str; 5] = ["CARGO_HOME", "GEM_HOME", "GOCACHE", "GOMODCACHE", "GOPATH"];

/// What no command has to see: other homes, keys, mail, logs, what other programs keep.
const COVERED: [&str; 16] = [
    "/boot",
    "/home",
    "/lost+found",
    "/media",
    "/mnt",
    "/root",
    "/srv",
    "/var/backups",
    "/var/cache/private",
    "/var/lib/docker",
    "/var/lib/private",
    "/var/log",
    "/var/mail",
    "/var/spool",
    "/etc/ssl/private",
    "/etc/sudoers.d",
];
const HIDDEN: [&str; 6] =
    ["/etc/gshadow", "/etc/gshadow-", "/etc/krb5.keytab", "/etc/shadow", "/etc/shadow-", "/etc/sudoers"];

/// Folders of the system that hold programs of all kinds: never covered because a project lies in them.
const SYSTEM: [&str; 9] = ["/bin", "/etc", "/lib", "/lib64", "/nix", "/opt", "/sbin", "/usr", "/var"];

/// Where things are. Only what exists is listed.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) home: Option<PathBuf>,
    pub(super) toolchains: Vec<PathBuf>,
    pub(super) caches: Vec<PathBuf>,
    /// Caches that this machine may have, as they are spelt.
    known_caches: Vec<PathBuf>,
    /// Links that lead to toolchains and caches, and where they lead.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    pub(super) covered: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
}

impl Places {
    pub(super) fn new(variable: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let folder =
            |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute()).and_then(real);
        let home = folder("HOME").filter(|home| home.is_dir() && home.parent().is_some());
        let of_home = |names: &[&str]| -> Vec<PathBuf> {
            home.iter().flat_map(|home| names.iter().map(|name| home.join(name))).collect()
        };
        let of_variables = |names: &[&str]| -> Vec<PathBuf> {
            let values = names.iter().filter_map(|name| variable(name)).map(PathBuf::from);
            values.filter(|path| path.is_absolute()).collect()
        };
        // What people keep elsewhere and link to is shown where it is, and the link is made again.
        let mut links = Vec::new();
        let mut find = |paths: Vec<PathBuf>| -> Vec<PathBuf> {
            let found = paths.into_iter().filter_map(|path| Some((real(path.clone())?, path)));
            let found = found.inspect(|(real, path)| {
                if real != path {
                    links.push((path.clone(), real.clone()));
                }
            });
            found.map(|(real, _)| real).collect()
        };
        let mut toolchains = find(of_home(&TOOLCHAINS));
        toolchains.extend(find(of_variables(&TOOLCHAIN_VARIABLES)));
        let path = variable("PATH").unwrap_or_default();
        let programs = find(std::env::split_paths(&path).filter(|path| path.is_absolute()).collect());
        toolchains.extend(programs.iter().map(|folder| toolchain_of(folder, home.as_deref()).to_owned()));
        // A file of certificates lies in a folder of its own kind.
        toolchains.extend(find(of_variables(&["SSL_CERT_FILE"])));
        let mut known_caches = of_home(&CACHES);
        known_caches.extend(of_variables(&CACHE_VARIABLES));
        let mut caches = find(known_caches.clone());
        links.sort();
        links.dedup();
        let existing = |names: &[&str]| -> Vec<PathBuf> {
            names
                .iter()
                .map(PathBuf::from)
                .filter(|path| path.symlink_metadata().is_ok_and(|m| !m.is_symlink()))
                .collect()
        };
        let mut hidden = existing(&HIDDEN);
        hidden.extend(of_home(&SECRETS).into_iter().filter_map(real));
        let named = of_variables(&TOOLCHAIN_VARIABLES).into_iter().chain(of_variables(&CACHE_VARIABLES));
        let in_named = named.flat_map(|folder| SECRETS_OF_VARIABLES.map(|name| folder.join(name)));
        hidden.extend(in_named.filter_map(real));
        hidden.extend(host_keys());
        // Whose folder holds everything is no toolchain.
        let is_whole = |path: &PathBuf| {
            path.parent().is_none() || home.as_ref().is_some_and(|home| home.starts_with(path))
        };
        toolchains.retain(|path| !is_whole(path));
        caches.retain(|path| !is_whole(path));
        caches.sort();
        caches.dedup();
        toolchains.sort();
        toolchains.dedup();
        Self { covered: existing(&COVERED), home, toolchains, caches, known_caches, links, hidden }
    }

    /// The folders that `permissions.caches` shares, as far as they are there.
    ///
    /// # Errors
    /// If an entry is no cache.
    pub(super) fn shared(&self, entries: &[String]) -> Result<Vec<PathBuf>, String> {
        let mut shared = Vec::new();
        for entry in entries {
            let spelt = match (entry.strip_prefix("~/"), &self.home) {
                (Some(rest), Some(home)) => home.join(rest),
                (Some(_) | None, _) => PathBuf::from(entry),
            };
            let is_in = |caches: &[PathBuf], path: &Path| caches.iter().any(|cache| path.starts_with(cache));
            match real(spelt.clone()) {
                Some(path) if is_in(&self.caches, &path) && path.is_dir() => shared.push(path),
                None if is_in(&self.known_caches, &spelt) => {}
                Some(_) | None => {
                    return Err(format!(
                        "permissions.caches names `{entry}`, which is no cache that rawko knows: grant the folder with \
                         permissions.write instead"
                    ));
                }
            }
        }
        Ok(shared)
    }
}

/// The toolchain that a folder of programs belongs to: the folder around `bin`, unless that holds other things too.
fn toolchain_of<'a>(programs: &'a Path, home: Option<&Path>) -> &'a Path {
    let is_programs =
        programs.file_name().is_some_and(|name| name == "bin" || name == "sbin" || name == "shims");
    match programs.parent() {
        Some(around) if is_programs && !is_shared(around, home) => around,
        Some(_) | None => programs,
    }
}

/// Whether a folder is a home or holds one, or is one that programs of all kinds share.
fn is_shared(folder: &Path, home: Option<&Path>) -> bool {
    let is_home = home.is_some_and(|home| home.starts_with(folder))
        || folder.parent().is_none_or(|parent| parent == Path::new("/home") || parent == Path::new("/"));
    is_home || folder.ends_with(".local")
}

fn host_keys() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir("/etc/ssh") else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.to_string_lossy().ends_with("_key")).collect()
}

/// The folder around a project that is covered, so that the projects beside it are not seen.
pub(super) fn neighbourhood(project: &Path) -> Option<&Path> {
    let parent = project.parent()?;
    let is_system = SYSTEM.iter().any(|system| parent == Path::new(system)) || parent.starts_with("/usr");
    let is_temporary = ["/tmp", "/var/tmp"].iter().any(|temporary| parent == Path::new(temporary));
    (parent.parent().is_some() && !is_system && !is_temporary).then_some(parent)
}

fn real(path: PathBuf) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}
