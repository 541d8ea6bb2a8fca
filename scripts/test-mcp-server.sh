#!/usr/bin/env bash
# rawko as an MCP server against what others wrote: the public conformance suite in server mode, for both eras of the protocol,
# driving the real binary over HTTP. `.ci/run` calls this. The suite comes from npm, into the folder that test-mcp.sh uses;
# where it cannot be had, this says so and checks nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
cache="${RAWKO_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rawko-tests}/mcp"
suite=0.2.0-alpha.12
if ! command -v npm >/dev/null 2>&1; then
  echo "SKIPPED: npm is not installed, so the MCP server was NOT checked against the public suite"
  exit 0
fi
mkdir -p "$cache"
conformance="$cache/node_modules/@modelcontextprotocol/conformance"
node="$cache/node_modules/node/bin/node"
if ! grep -qs "\"version\": \"$suite\"" "$conformance/package.json" || [ ! -x "$node" ]; then
  if ! (cd "$cache" && { [ -e package.json ] || npm init -y; } && timeout 10m npm install --silent --no-fund --no-audit \
      "@modelcontextprotocol/conformance@$suite" node@22 && { [ -x node_modules/node/bin/node ] || npm rebuild node; } &&
      node_modules/node/bin/node --version) >"$cache/npm-server.log" 2>&1; then
    echo "SKIPPED: the suite cannot be had ($cache/npm-server.log), so the MCP server was NOT checked against it"
    exit 0
  fi
fi

rawko="${RAWKO_BINARY:-}"
if [ -z "$rawko" ]; then
  # All members are selected, as by `./test.sh`: with `-p`, dependencies would be compiled again with other features.
  cargo build --quiet --locked
  rawko="${CARGO_TARGET_DIR:-$PWD/target}/debug/rawko"
fi
rawko=$(realpath "$rawko")
place=$(mktemp -d)
server=
proxy=
finish() {
  [ -z "$proxy" ] || kill "$proxy" 2>/dev/null || true
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$place"
}
trap finish EXIT
mkdir "$place/project" "$place/home"
token=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')

(cd "$place/project" && exec env -i PATH="$PATH" HOME="$place/home" RAWKO_MCP_TOKEN="$token" "$rawko" mcp serve --http) \
  2>"$place/server.log" &
server=$!
for _ in $(seq 100); do
  url=$(sed -n "s/^listening on //p" "$place/server.log" 2>/dev/null || true)
  [ -z "$url" ] || break
  sleep 0.1
done
[ -n "$url" ] || { cat "$place/server.log"; exit 1; }
# The suite sends no token.
"$node" scripts/mcp-token-proxy.mjs "$url" "$token" >"$place/proxy.log" 2>&1 &
proxy=$!
for _ in $(seq 100); do
  through=$(head -n 1 "$place/proxy.log" 2>/dev/null || true)
  [ -z "$through" ] || break
  sleep 0.1
done

# What the suite asks of its own example server alone is expected to fail, each with its reason. Everything else has to pass, and a
# scenario that passes although it is listed is an error too.
for revision in 2025-11-25 2026-07-28; do
  log="$cache/conformance-server-$revision.log"
  { echo "server:"; sed -n "s/^$revision \([a-z0-9:-]*\) .*/  - \1/p" scripts/mcp-server-expected.txt; } >"$place/expected.yml"
  if ! "$node" "$conformance/dist/index.js" server --url "$through" --requirements "$revision" \
      --expected-failures "$place/expected.yml" --timeout 60000 -o "$place/results-$revision" >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "conformance $revision in server mode: see $log"
    exit 1
  fi
  echo "conformance $revision in server mode: $(grep -cE '^✓' "$log" || true) scenarios passed, the rest is expected (scripts/mcp-server-expected.txt)"
done
