//! Where things are on this machine: the user's home, toolchains, caches.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::owners_alone::{self, OwnersAlone};
use super::secrets::Secrets;

/// Folders of the home that hold toolchains: shown.
const TOOLCHAINS: [&str; 43] = [
    ".asdf",
    ".bun",
    // Settings are reduced, see `git_settings`. Files that they include may hold anything.
    ".config/git/attributes",
    ".config/git/ignore",
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
    ".phpenv",
    ".pixi",
    ".plenv",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sdkman",
    ".stack",
    ".swiftly",
    ".tfenv",
    ".volta",
    "anaconda3",
    "mambaforge",
    "miniconda3",
    "miniforge3",
    "n",
    "sdk",
];
/// Folders and files beside a folder of programs that these may need.
const BESIDE_PROGRAMS: [&str; 30] = [
    "bin",
    "boot",
    "conf",
    "hosted",
    "include",
    "installs",
    "jre",
    "legal",
    "lib",
    "lib32",
    "lib64",
    "libexec",
    "modules",
    "opt",
    "pkg",
    "pkgs",
    "pkgs2",
    "platform",
    "plugins",
    "py",
    "releases",
    "sbin",
    "self",
    "share",
    "shims",
    "store",
    "toolchains",
    "tools",
    "version",
    "versions",
];
/// What is in a folder that is a toolchain as a whole: Python's environments, conda's, Go, Java, Flutter, asdf, and managers
/// of versions like pyenv, which are clones of their repositories.
const WHOLE: [&[&str]; 7] = [
    &["pyvenv.cfg"],
    &["conda-meta"],
    &["VERSION", "bin/go"],
    &["release", "bin/java"],
    &["bin/flutter", "packages/flutter"],
    &["installs", "shims"],
    &["libexec", "versions"],
];
/// What is in a folder that is a project.
const PROJECTS: [&str; 18] = [
    ".env",
    ".git",
    ".rawko",
    "CMakeLists.txt",
    "Cargo.toml",
    "Gemfile",
    "Makefile",
    "build.gradle",
    "build.gradle.kts",
    "composer.json",
    "deno.json",
    "go.mod",
    "mix.exs",
    "package.json",
    "pom.xml",
    "pyproject.toml",
    "requirements.txt",
    "setup.py",
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
/// Variables that name a folder of the user's own files: those of other programs, and what other agents keep.
const OWN_VARIABLES: [&str; 2] = ["TMPDIR", "XDG_CACHE_HOME"];
/// Variables that name a cache.
const CACHE_VARIABLES: [&str; 5] = ["CARGO_HOME", "GEM_HOME", "GOCACHE", "GOMODCACHE", "GOPATH"];

/// What a folder of Go holds besides caches: other projects.
const SOURCES: &str = "src";

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

/// Folders of the system that hold programs of all kinds: never covered because a project is in them.
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
    /// Folders in caches that are none.
    pub(super) inside_caches: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
    of_root: OnceLock<OwnersAlone>,
    pub(super) secrets: Secrets,
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
        toolchains.extend(programs.iter().flat_map(|folder| parts_of_toolchain(folder, home.as_deref())));
        // A file of certificates is in a folder of its own kind.
        toolchains.extend(find(of_variables(&["SSL_CERT_FILE"])));
        let mut known_caches = of_home(&CACHES);
        if let Some(cache) = folder("XDG_CACHE_HOME") {
            let names = CACHES.iter().filter_map(|name| name.strip_prefix(".cache/"));
            known_caches.extend(names.map(|name| cache.join(name)));
        }
        known_caches.extend(of_variables(&CACHE_VARIABLES));
        let mut caches = find(known_caches.clone());
        let of_go = of_home(&["go"]).into_iter().chain(of_variables(&["GOPATH"]));
        let inside_caches = of_go.filter_map(|go| real(go.join(SOURCES))).collect();
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
        hidden.extend(host_keys());
        let named = [of_variables(&TOOLCHAIN_VARIABLES), of_variables(&CACHE_VARIABLES)].concat();
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
        // Others are found by variables, which may lead into a project.
        let known = of_home(&TOOLCHAINS).into_iter().chain(of_home(&CACHES)).filter_map(real);
        let known: Vec<PathBuf> = known.filter(|path| !is_whole(path)).collect();
        let secrets = Secrets::new(home.as_deref(), &named, &known);
        let mut covered = existing(&COVERED);
        let own = OWN_VARIABLES.iter().filter_map(|name| folder(name));
        covered.extend(own.filter(|path| path.is_dir() && !is_whole(path) && !is_system(path)));
        Self {
            covered,
            home,
            toolchains,
            caches,
            known_caches,
            links,
            inside_caches,
            hidden,
            of_root: OnceLock::new(),
            secrets,
        }
    }

    /// What only root may read, but for what belongs to a toolchain or a cache: hidden where nothing grants it. The first
    /// command looks for it; a run without commands does not.
    pub(super) fn of_root(&self) -> &OwnersAlone {
        let is_tool =
            |path: &PathBuf| self.toolchains.iter().chain(&self.caches).any(|shown| path.starts_with(shown));
        self.of_root.get_or_init(|| {
            let mut found = owners_alone::of_root();
            found.folders.retain(|path| !is_tool(path));
            found.files.retain(|path| !is_tool(path));
            found
        })
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

/// What is shown of the toolchain that a folder of programs belongs to: that folder, and what programs need beside it. The
/// folder around it may hold accounts as well, or be a project.
fn parts_of_toolchain(programs: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut parts = vec![programs.to_owned()];
    let is_programs =
        programs.file_name().is_some_and(|name| name == "bin" || name == "sbin" || name == "shims");
    let Some(around) = programs.parent().filter(|around| is_programs && !is_shared(around, home)) else {
        return parts;
    };
    let has = |name: &&str| around.join(name).symlink_metadata().is_ok();
    if WHOLE.iter().any(|signs| signs.iter().all(has)) {
        return vec![around.to_owned()];
    }
    if PROJECTS.iter().any(has) {
        return parts;
    }
    let beside = BESIDE_PROGRAMS.iter().map(|name| around.join(name));
    let is_folder = |path: &PathBuf| path.symlink_metadata().is_ok_and(|kind| kind.is_dir());
    let is_version = |path: &PathBuf| path.ends_with("version") && path.is_file();
    parts.extend(beside.filter(|path| is_folder(path) || is_version(path)));
    parts
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
    let is_temporary = ["/tmp", "/var/tmp"].iter().any(|temporary| parent == Path::new(temporary));
    (parent.parent().is_some() && !is_system(parent) && !is_temporary).then_some(parent)
}

fn is_system(folder: &Path) -> bool {
    SYSTEM.iter().any(|system| folder == Path::new(system)) || folder.starts_with("/usr")
}

fn real(path: PathBuf) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown of a folder with these files and folders (which end with a slash), whose `bin` holds programs.
    #[track_caller]
    fn check(name: &str, made: &[&str], shown: &[&str]) {
        let home = tempfile::tempdir().unwrap();
        let around = home.path().join(name);
        std::fs::create_dir_all(around.join("bin")).unwrap();
        for path in made {
            let path = around.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
                std::fs::create_dir_all(path).unwrap();
            } else {
                std::fs::write(path, "").unwrap();
            }
        }
        let parts = parts_of_toolchain(&around.join("bin"), Some(home.path()));
        assert_eq!(parts, shown.iter().map(|path| around.join(path)).collect::<Vec<_>>());
    }

    #[test]
    fn of_a_folder_around_programs_only_what_they_need_is_shown() {
        check(".pulumi", &["credentials.json", "plugins/", "workspaces/"], &["bin", "bin", "plugins"]);
        check(".docker", &["config.json"], &["bin", "bin"]);
        check("otherproject", &[".env", "lib/"], &["bin"]);
        check("otherproject", &["Cargo.toml", "share/"], &["bin"]);
        check(
            "node-v20",
            &["include/", "lib/node_modules/", "share/"],
            &["bin", "bin", "include", "lib", "share"],
        );
        check("venv", &["pyvenv.cfg", "lib/"], &[""]);
        check("go1.22", &["VERSION", "bin/go", "src/"], &[""]);
        check("jdk", &["release", "bin/java", "jmods/"], &[""]);
        check(".pyenv", &[".git/", "Makefile", "libexec/", "versions/", "shims/"], &[""]);
        check(".local", &["share/", "lib/"], &["bin"]);
    }
}
