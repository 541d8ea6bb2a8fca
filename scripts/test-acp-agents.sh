#!/usr/bin/env bash
# ACP agents in rawko's team: the tests with a scripted agent, and a whole run in which Claude Code, by its ACP adapter from npm,
# is the developer and asks a model server of this machine. The adapter is installed below target/, once; where it cannot be had, this
# says so, and only the tests run. Arguments go to `cargo nextest run`.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo nextest run --locked -p rawko-acp -p rawko-cli --features rawko-cli/acp --lib --test e2e \
  -E 'package(rawko-acp) or test(/^acp_agents::/)' "$@"

version=0.101.0
place="$PWD/target/acp-agents"
adapter="$place/node_modules/@agentclientprotocol/claude-agent-acp"
if ! grep -qsF "\"version\": \"$version\"" "$adapter/package.json"; then
  mkdir -p "$place"
  if ! timeout 10m npm install --no-save --no-audit --no-fund --prefix "$place" "@agentclientprotocol/claude-agent-acp@$version"; then
    echo "SKIPPED, no real peer was tried: npm cannot install @agentclientprotocol/claude-agent-acp@$version"
    exit 0
  fi
fi

work=$(mktemp -d)
server=
cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

cargo build --quiet --locked -p rawko-acp -p rawko-cli --features rawko-cli/acp --bin rawko
binary="${CARGO_TARGET_DIR:-$PWD/target}/debug/rawko"
mkdir -p "$work/project" "$work/home/.config/rawko/agents"
git -C "$work/project" init --quiet
echo "first line" >"$work/project/a.txt"

# The sandbox has a loopback of its own, so the server is at another address of this machine.
address=$(hostname -I 2>/dev/null | awk '{print $1}')
if [ -z "$address" ]; then
  echo "SKIPPED, no real peer was tried: this machine has no address but loopback"
  exit 0
fi
python3 scripts/lib/messages_server.py "$work/project/b.txt" "second line" "$address" >"$work/url" &
server=$!
for _ in $(seq 100); do [ -s "$work/url" ] && break; sleep 0.05; done
url=$(cat "$work/url")

# The rules decide, so that only the agent asks the server.
cat >"$work/home/.config/rawko/config.yaml" <<YAML
arbiter: {mode: rules}
agents: {builtin: false}
YAML
cat >"$work/home/.config/rawko/agents/coder.yaml" <<YAML
name: coder
role: implement
whenToUse: For all work
systemPrompt: You write files.
limits: {timeout: 120000}
acp:
  command: [node, "$adapter/dist/index.js"]
  key: ANTHROPIC_API_KEY
  env: {ANTHROPIC_BASE_URL: "$url"}
  net: ["$address"]
YAML

said=$work/said.json
if ! (cd "$work/project" && env -i PATH="$PATH" HOME="$work/home" TMPDIR="$work" ANTHROPIC_API_KEY=sk-of-the-user \
  "$binary" run --output json --verify 'grep -qx "second line" b.txt' -- "Write b.txt.") >"$said" 2>"$work/log"; then
  echo "the run failed:" && cat "$said" "$work/log"
  exit 1
fi
python3 - "$said" <<'PY'
import json, sys
outcome = json.loads(open(sys.argv[1]).read().splitlines()[-1])
assert outcome["status"] == "verified", outcome
assert outcome["filesModified"] == ["b.txt"], outcome
assert outcome["outside"][0]["key"] == "ANTHROPIC_API_KEY", outcome
assert outcome["usage"]["outputTokens"] > 0, outcome
PY
echo "ok: Claude Code wrote the file, and the check verified it"
