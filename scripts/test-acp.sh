#!/usr/bin/env bash
# `rawko acp` with the clients of others: the libraries of the protocol in Python and TypeScript, and acpx, each with a scripted
# model. Before that, the tests of the crate and of the command. `.ci/run` calls this. The packages come from PyPI and npm, into
# a folder of the user's cache; where some cannot be had, it says so and does not test with them. Arguments go to
# `cargo nextest run`.
set -euo pipefail
cd "$(dirname "$0")/.."
cache="${RAWKO_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rawko-tests}/acp"
python_library=0.12.1 typescript_library=2.4.0 acpx=0.19.1
mkdir -p "$cache"

cargo nextest run --locked -p rawko-acp -p rawko-cli --features rawko-cli/acp --lib --test acp "$@"
# The tests have built it.
cargo build --quiet --locked -p rawko-acp -p rawko-cli --features rawko-cli/acp --bin rawko
rawko="${CARGO_TARGET_DIR:-$PWD/target}/debug/rawko"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A project and a user whose model is a script: two tasks, in the first of which the user is asked for a command.
world() {
  rm -rf "$work/project" "$work/home"
  mkdir -p "$work/project" "$work/home/config/rawko"
  git -C "$work/project" init --quiet
  cat >"$work/home/script.json" <<'JSON'
[
  {"for": "select", "decision": {"decision": "SELECT_MODE", "mode": "developer", "reason": "it is next"}},
  {"for": "developer", "text": "I begin.", "tools": [
    {"name": "UpdatePlan", "input": {"steps": [{"description": "write it", "status": "in_progress"}]}},
    {"name": "Write", "input": {"file_path": "one.txt", "content": "text\n"}}]},
  {"for": "developer", "tools": [{"name": "Bash", "input": {"command": "echo more >> one.txt"}}]},
  {"for": "developer", "tools": [{"name": "Report", "input": {"outcome": "success", "summary": "wrote one"}}]},
  {"for": "evaluate", "decision": {"decision": "COMPLETE", "summary": "one is there", "reason": "nothing is left"}},
  {"for": "select", "decision": {"decision": "SELECT_MODE", "mode": "developer", "reason": "it is next"}},
  {"for": "developer", "tools": [{"name": "Report", "input": {"outcome": "success", "summary": "did more"}}]},
  {"for": "evaluate", "decision": {"decision": "COMPLETE", "summary": "all is done", "reason": "nothing is left"}}
]
JSON
  cat >"$work/home/config/rawko/config.yaml" <<YAML
provider: {default: script, script: {type: scripted, script: $work/home/script.json}}
arbiter: {mode: llm}
permissions: {ask: [commands], run: [cat]}
YAML
}
# Runs a client with that user's folders.
as_user() {
  env HOME="$work/home" XDG_CONFIG_HOME="$work/home/config" XDG_STATE_HOME="$work/home/state" \
    XDG_CACHE_HOME="$work/home/cache" RAWKO="$rawko" PROJECT="$work/project" "$@"
}

skipped() { echo "SKIPPED: $1, so rawko acp was NOT tested with $2"; }

python="$cache/py-$python_library"
if [ ! -e "$python/installed" ]; then
  { python3 -m venv "$python" && "$python/bin/pip" install --quiet --disable-pip-version-check \
    "agent-client-protocol==$python_library" && touch "$python/installed"; } >"$cache/pip.log" 2>&1 || true
fi
if [ -e "$python/installed" ]; then
  world
  as_user timeout 120 "$python/bin/python" scripts/acp-client.py
else
  skipped "the package cannot be had ($cache/pip.log)" "the library in Python"
fi

stamp="$cache/installed-$typescript_library-$acpx"
if [ ! -e "$stamp" ] && command -v npm >/dev/null 2>&1; then
  # The package `node` fetches the program for this machine in a script of its own.
  if (cd "$cache" && { [ -e package.json ] || npm init -y; } && timeout 10m npm install --silent --no-fund --no-audit \
      "@agentclientprotocol/sdk@$typescript_library" "acpx@$acpx" node@22 &&
      { [ -x node_modules/node/bin/node ] || npm rebuild node; } && node_modules/node/bin/node --version) \
      >"$cache/npm.log" 2>&1; then
    touch "$stamp"
  fi
fi
if [ ! -e "$stamp" ]; then
  skipped "the packages cannot be had ($cache/npm.log)" "the library in TypeScript and with acpx"
  exit 0
fi
node="$cache/node_modules/node/bin/node"
world
as_user PACKAGES="$cache" timeout 120 "$node" scripts/acp-client.mjs

world
# Two prompts in one session, which acpx keeps: the second in a process of its own.
acpx() {
  as_user timeout 120 "$node" "$cache/node_modules/acpx/dist/cli.js" --agent "$rawko acp" --cwd "$work/project" \
    --approve-all --ttl 1 "$@"
}
# What acpx says to a prompt. The process that it keeps for a second may just be ending: then it says so, and the next try gets
# another.
ask() {
  local said
  for _ in 1 2 3 4 5; do
    said=$(acpx "$1") && break
    [[ $said == *"Queue owner is shutting down"* ]] || break
  done
  printf '%s' "$said"
}
acpx sessions new >/dev/null
first=$(ask "Write one.")
second=$(ask "Do more.")
sessions=$(as_user "$rawko" sessions list --json --cwd "$work/project")
acpx sessions close >/dev/null
if [[ $first != *"wrote one"* || $second != *"did more"* || $(cat "$work/project/one.txt") != $'text\nmore' ]] ||
  [ "$(python3 -c 'import json, sys; print(len(json.load(sys.stdin)))' <<<"$sessions")" != 1 ]; then
  printf 'acpx:\n%s\n%s\n%s\n' "$first" "$second" "$sessions"
  exit 1
fi
echo "acpx: two prompts in one session"
