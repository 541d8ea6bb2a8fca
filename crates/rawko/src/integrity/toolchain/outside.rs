//! Which files outside of the project have a say in its checks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::kinds::Conventions;
use super::super::manifest;
use super::walk::entries;
use super::{Place, Program};

/// Cargo's configuration, in its folders.
const CARGO: [&str; 2] = ["config.toml", "config"];

/// Settings of the user, plug-ins of the interpreter, and configuration in the folders above the project.
pub(super) fn paths(place: &Place<'_>, python: Option<&Program>) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    if let Some(home) = place.home {
        paths.extend(Conventions::get().home.iter().map(|name| home.join(name)));
    }
    for folder in site_packages(place.home, python) {
        let affects_checks = |name: &String| {
            let name = name.to_lowercase();
            name.ends_with(".pth")
                || ["sitecustomize", "usercustomize", "pytest", "_pytest", "unittest"]
                    .iter()
                    .any(|known| name.starts_with(known))
                || (!name.contains('-') && place.words.contains(name.trim_end_matches(".py")))
        };
        paths.extend(
            entries(&folder).iter().filter(|name| affects_checks(name)).map(|name| folder.join(name)),
        );
    }
    for above in place.project.ancestors().skip(1).take_while(|above| above.parent().is_some()) {
        let names = entries(above);
        let affects_checks = |name: &&String| place.checks.is_config(name) || manifest::is_manifest(name);
        paths.extend(names.iter().filter(affects_checks).map(|name| above.join(name)));
        paths.extend(CARGO.map(|name| above.join(".cargo").join(name)));
    }
    if let Some(cargo) = place.cargo_home {
        paths.extend(CARGO.map(|name| cargo.join(name)));
    }
    paths
}

/// Where Python finds modules of its own and of the user.
fn site_packages(home: Option<&Path>, python: Option<&Program>) -> Vec<PathBuf> {
    let prefix = python.and_then(|python| python.target.parent()?.parent().map(Path::to_owned));
    let local = home.map(|home| home.join(".local"));
    let prefixes = [prefix, local, Some(PathBuf::from("/usr/local"))].into_iter().flatten();
    let libraries: BTreeSet<PathBuf> = prefixes.map(|prefix| prefix.join("lib")).collect();
    let versions = libraries.iter().flat_map(|library| {
        let names = entries(library).into_iter().filter(|name| name.starts_with("python3"));
        names.map(|name| library.join(name)).collect::<Vec<_>>()
    });
    versions
        .flat_map(|version| [version.join("site-packages"), version.join("dist-packages"), version])
        .collect()
}
