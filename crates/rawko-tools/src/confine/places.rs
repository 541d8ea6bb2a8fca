//! Where things are on this machine: the user's home, toolchains, caches.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Folders of the home that hold toolchains: shown.
const TOOLCHAINS: [&str; 21] = [
    ".asdf",
    ".bun",
    ".deno",
    ".ghcup",
    ".jdks",
    ".local/bin",
    ".local/lib",
    ".local/share/mise",
    ".local/share/uv",
    ".local/share/virtualenvs",
    ".nix-profile",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".stack",
    ".volta",
    ".config/git",
    "miniconda3",
];
/// Files of the home that tools read and that hold no secret.
const SETTINGS: [&str; 1] = [".gitconfig"];
/// Folders of the home that hold caches: shown, and changes are kept apart.
const CACHES: [&str; 19] = [
    ".bundle",
    ".cache/deno",
    ".cache/go-build",
    ".cache/ms-playwright",
    ".cache/node",
    ".cache/pip",
    ".cache/pnpm",
    ".cache/pypoetry",
    ".cache/uv",
    ".cache/yarn",
    ".cargo",
    ".gem",
    ".gradle",
    ".ivy2",
    ".local/share/pnpm",
    ".m2",
    ".npm",
    ".yarn",
    "go",
];
/// Files in caches that hold secrets.
const SECRETS: [&str; 8] = [
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/git/credentials",
    ".gem/credentials",
    ".gradle/gradle.properties",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".bundle/config",
];
/// Variables that name a toolchain.
const TOOLCHAIN_VARIABLES: [&str; 10] = [
    "CONDA_PREFIX",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PNPM_HOME",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "SSL_CERT_DIR",
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
    pub(super) covered: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
}

impl Places {
    pub(super) fn new(variable: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let folder =
            |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute()).and_then(real);
        let home = folder("HOME").filter(|home| home.is_dir() && home.parent().is_some());
        let of_home = |names: &[&str]| -> Vec<PathBuf> {
            let paths = home.iter().flat_map(|home| names.iter().map(|name| home.join(name)));
            paths.filter(|path| path.exists()).collect()
        };
        let mut toolchains = of_home(&TOOLCHAINS);
        toolchains.extend(of_home(&SETTINGS));
        toolchains.extend(TOOLCHAIN_VARIABLES.iter().filter_map(|name| folder(name)));
        let path = variable("PATH").unwrap_or_default();
        let programs = std::env::split_paths(&path).filter(|path| path.is_absolute()).filter_map(real);
        // Whose folder holds everything is no toolchain.
        let is_whole =
            |path: &Path| path.parent().is_none() || home.as_ref().is_some_and(|home| home.starts_with(path));
        toolchains.extend(programs.map(|folder| {
            let around = toolchain_of(&folder);
            if is_whole(around) { folder } else { around.to_owned() }
        }));
        // A file of certificates lies in a folder of its own kind.
        toolchains.extend(folder("SSL_CERT_FILE"));
        let mut caches = of_home(&CACHES);
        caches.extend(CACHE_VARIABLES.iter().filter_map(|name| folder(name)));
        let existing = |names: &[&str]| -> Vec<PathBuf> {
            names
                .iter()
                .map(PathBuf::from)
                .filter(|path| path.symlink_metadata().is_ok_and(|m| !m.is_symlink()))
                .collect()
        };
        let mut hidden = existing(&HIDDEN);
        hidden.extend(of_home(&SECRETS));
        hidden.extend(host_keys());
        toolchains.retain(|path| !is_whole(path));
        caches.retain(|path| !is_whole(path));
        caches.sort();
        caches.dedup();
        toolchains.sort();
        toolchains.dedup();
        Self { covered: existing(&COVERED), home, toolchains, caches, hidden }
    }
}

/// The toolchain that a folder of programs belongs to: the folder around `bin`, unless that holds other things too.
fn toolchain_of(programs: &Path) -> &Path {
    let is_programs =
        programs.file_name().is_some_and(|name| name == "bin" || name == "sbin" || name == "shims");
    match programs.parent() {
        Some(around) if is_programs && !is_shared(around) => around,
        Some(_) | None => programs,
    }
}

/// Whether a folder is a home, or one that programs of all kinds share.
fn is_shared(folder: &Path) -> bool {
    let is_home =
        folder.parent().is_none_or(|parent| parent == Path::new("/home") || parent == Path::new("/"));
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
