#!/usr/bin/env bash
# The core of the SDK for a program of its own: a crate outside this workspace that depends on `rawko` without default features is
# compiled and carries a task to a verified end, with few dependencies. Then each feature alone, without a warning.
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD

# Crates that such a program may compile of rawko and its dependencies.
MOST=149

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap "exit 130" INT TERM

mkdir -p "$work/program/src" "$work/project"
cp scripts/sdk-core.rs "$work/program/src/main.rs"
# The versions of this repository. Cargo leaves out what is not needed.
cp Cargo.lock "$work/program/"
cat >"$work/program/Cargo.toml" <<TOML
[package]
name = "sdk-core"
version = "0.0.0"
edition = "2024"
publish = false

[dependencies]
futures-util = { version = "0.3", default-features = false }
rawko = { path = "$repository/crates/rawko", default-features = false }
serde_json = "1"
tokio = { version = "1", features = ["macros", "rt"] }

[workspace]

# As in the workspace: nobody debugs it.
[profile.dev]
debug = false
TOML

cd "$work/program"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$repository/target}"
# What is compiled the same for the workspace is not compiled again.
cargo build --quiet
"$CARGO_TARGET_DIR/debug/sdk-core" "$work/project"
[ "$(cat "$work/project/greeting.txt")" = hello ]
count=$(cargo tree --package rawko --edges normal --prefix none | sed 's/ (\*)//' | sort -u | wc -l)
echo "$count crates, rawko's own among them"
if [ "$count" -gt "$MOST" ]; then
  echo "more than $MOST: cargo tree -p rawko --no-default-features -e normal --prefix none" >&2
  exit 1
fi

cd "$repository"
for features in "" http mcp pictures web telemetry; do
  echo "without default features, with: ${features:-none}"
  cargo check --quiet --locked --package rawko --no-default-features --features "$features" 2>"$work/said" || {
    cat "$work/said" >&2
    exit 1
  }
  # Cargo says a warning again that it has said before.
  if grep -q '^warning' "$work/said"; then
    cat "$work/said" >&2
    exit 1
  fi
done
echo "the SDK's core is small, and each feature stands alone"
