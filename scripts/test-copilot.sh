#!/usr/bin/env bash
# The tests of the crate rawko-copilot, and those of the provider `copilot` with the real Copilot CLI, offline: installs the CLI
# from npm below target/, once. Where that cannot be had, it says so, and only the crate is tested. Arguments go to
# `cargo nextest run`.
set -euo pipefail
cd "$(dirname "$0")/.."
version=1.0.102
place=target/copilot-cli
cli=$place/node_modules/.bin/copilot
tests='package(rawko-copilot) or test(/^copilot::/)'
if ! XDG_CACHE_HOME=$PWD/$place/cache "$cli" --version 2>/dev/null | grep -qF "$version"; then
  mkdir -p "$place"
  if ! timeout 10m npm install --no-save --no-audit --no-fund --prefix "$place" "@github/copilot@$version"; then
    echo "SKIPPED, only the crate is tested: npm cannot install @github/copilot@$version"
    tests='package(rawko-copilot)'
  else
    # Unpacks itself.
    XDG_CACHE_HOME=$PWD/$place/cache "$cli" --version
  fi
fi
# What is selected is what `test-fleet.sh` selects, so that all of it is compiled once for both.
cargo nextest run --locked -p rawko-copilot -p rawko-temporal -p rawko-cli --features rawko-cli/fleet,rawko-cli/copilot \
  --lib --test e2e -E "$tests" "$@"
