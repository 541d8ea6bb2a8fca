#!/usr/bin/env bash
# The client of MCP servers against what others wrote: the public conformance suite, for both eras of the protocol, and the
# reference server, driven by the real binary. `.ci/run` calls this. The packages come from npm, into a folder of the user's
# cache; where they cannot be had, it says so and checks nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
cache="${RAWKO_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rawko-tests}/mcp"
suite=0.2.0-alpha.12
if ! command -v npm >/dev/null 2>&1; then
  echo "SKIPPED: npm is not installed, so the MCP client was NOT checked against the public suite"
  exit 0
fi
mkdir -p "$cache"
stamp="$cache/installed-$suite"
if [ ! -e "$stamp" ]; then
  # The package `node` fetches the program for this machine in a script of its own.
  if ! (cd "$cache" && { [ -e package.json ] || npm init -y; } && timeout 10m npm install --silent --no-fund --no-audit \
      "@modelcontextprotocol/conformance@$suite" @modelcontextprotocol/server-everything@2026.8.31 node@22 &&
      { [ -x node_modules/node/bin/node ] || npm rebuild node; } && node_modules/node/bin/node --version) \
      >"$cache/npm.log" 2>&1; then
    echo "SKIPPED: the packages cannot be had ($cache/npm.log), so the MCP client was NOT checked against the public suite"
    exit 0
  fi
  touch "$stamp"
fi
node="$cache/node_modules/node/bin/node"

# All members are selected, here and below, as by `./test.sh`: with `-p`, dependencies would be compiled again with other features.
cargo build --quiet --locked --examples
client="${CARGO_TARGET_DIR:-$PWD/target}/debug/examples/conformance"
# What a revision requires; extensions are listed in docs/mcp.md and run beside it without being counted.
for revision in 2025-11-25 2026-07-28; do
  log="$cache/conformance-$revision.log"
  "$node" "$cache/node_modules/@modelcontextprotocol/conformance/dist/index.js" client \
    --command "$client" --requirements "$revision" --timeout 60000 >"$log" 2>&1 || true
  counted=$(sed -n '/=== SUITE SUMMARY ===/,$p' "$log" | grep -E '^✗' | grep -vE 'client-credentials|enterprise-managed|auth/dpop|wif-jwt' || true)
  passed=$(sed -n '/=== SUITE SUMMARY ===/,$p' "$log" | grep -cE '^✓' || true)
  # The suite begins all scenarios at once, and its servers drop what they ask before a client listens. On a busy machine one may
  # fail for that alone, so what failed has a second try without the others.
  for scenario in $(sed -nE 's/^✗ ([^:]+):.*/\1/p' <<<"$counted"); do
    "$node" "$cache/node_modules/@modelcontextprotocol/conformance/dist/index.js" client --command "$client" \
      --scenario "$scenario" --spec-version "$revision" --timeout 60000 >>"$log" 2>&1 || continue
    counted=$(grep -vF "✗ $scenario:" <<<"$counted" || true)
    passed=$((passed + 1))
  done
  if [ -n "$counted" ] || [ "$passed" -lt 17 ]; then
    echo "conformance $revision: $passed passed, and these did not (see $log):"
    echo "$counted"
    exit 1
  fi
  echo "conformance $revision: $passed scenarios passed"
done

RAWKO_MCP_EVERYTHING="$cache/node_modules/@modelcontextprotocol/server-everything/dist/index.js" RAWKO_MCP_NODE="$node" \
  cargo nextest run --locked --run-ignored ignored-only -E 'package(rawko-cli) and binary(e2e) and test(the_reference_server)'
