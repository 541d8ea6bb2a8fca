#!/usr/bin/env bash
# Writes what the program of a release is made of, as CycloneDX, into the file that the first argument names. The second names the
# target. Needs cargo-cyclonedx. `dist` plans for this file, but only a workflow of its own would write it.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-target/distrib/rawko-cli.cdx.xml}
target=${2:-x86_64-unknown-linux-musl}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# It writes beside the manifest of each member: in a copy of what is committed.
git archive HEAD | tar -x -C "$work"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) cargo cyclonedx --quiet --manifest-path "$work/crates/rawko-cli/Cargo.toml" \
  --features copilot,acp --target "$target" --format xml --spec-version 1.5
mkdir -p "$(dirname "$out")"
# It names no folder of a user.
sed "s|path+file://$work/|path+file:///|g" "$work/crates/rawko-cli/rawko-cli.cdx.xml" >"$out"
