#!/usr/bin/env bash
# Makes the Debian package of a binary: RAWKO_BINARY, else the one that `cargo build --profile dist` left. Needs cargo-deb.
# The package is written into the folder that the first argument names, by default target/debian. RAWKO_DEB_FAST=1 compresses less.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(realpath "${RAWKO_BINARY:-target/dist/rawko}")
out=${1:-target/debian}
files=target/package-files
rm -rf "$files"
mkdir -p "$files" "$out"
"$binary" man "$files/man1"
"$binary" completions bash >"$files/rawko.bash"
"$binary" completions zsh >"$files/_rawko"
"$binary" completions fish >"$files/rawko.fish"
# cargo-deb takes the binary from a folder of a build: this one holds nothing else.
mkdir -p "$files/build/release"
cp "$binary" "$files/build/release/rawko"
CARGO_TARGET_DIR=$files/build cargo deb --package rawko-cli --no-build --no-strip --no-separate-debug-symbols ${RAWKO_DEB_FAST:+--fast} --output "$(realpath "$out")"
