#!/usr/bin/env bash
# What a registry would have: packs all crates and builds each from its package, then installs rawko from the packages as
# `cargo install rawko-cli` would, and runs the demonstration. All of it is compiled, twice: some minutes.
#
#   scripts/test-packages.sh [OPTIONS OF cargo install]
#
# `--debug` compiles quicker. Packages have no profiles, so that without it the settings are those of cargo's own `release`.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap "exit 130" INT TERM
step() { printf '\n==> %s\n' "$*"; }

step "packages, each built from what is in it"
packages=$PWD/target/packages
rm -rf "$packages/package"
# One folder for what they compile, or each of them compiles its dependencies again.
CARGO_TARGET_DIR=$packages cargo package --workspace --exclude testkit --locked --quiet

step "a registry of them, and of what they depend on"
# A folder that stands in for the registry. What others wrote comes from cargo's own cache.
cargo vendor --locked --quiet --versioned-dirs "$work/registry" >/dev/null
for package in "$packages"/package/*.crate; do
  tar -C "$work/registry" -xzf "$package"
  printf '{"files":{},"package":"%s"}' "$(sha256sum "$package" | cut -d ' ' -f 1)" >"$work/registry/$(basename "$package" .crate)/.cargo-checksum.json"
done
mkdir "$work/cargo"
cat >"$work/cargo/config.toml" <<TOML
[source.crates-io]
replace-with = "packages"
[source.packages]
directory = "$work/registry"
[net]
offline = true
TOML

step "cargo install from it"
seconds=$SECONDS
(cd "$work" && CARGO_HOME=$work/cargo cargo install rawko-cli --locked --quiet --root "$work/installed" --target-dir "$packages" "$@")
echo "installed in $((SECONDS - seconds)) s"
mkdir "$work/home"
for call in "--version --verbose" "demo --quiet"; do
  # shellcheck disable=SC2086
  env -i PATH="$PATH" HOME="$work/home" "$work/installed/bin/rawko" $call
done
