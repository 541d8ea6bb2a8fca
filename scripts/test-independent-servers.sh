#!/usr/bin/env bash
# rawko against a server that others wrote: the LiteLLM proxy in front of the test server, over all three wires, a whole run
# each. The package comes from PyPI into an environment under target/; where it cannot be had, it says so and checks nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

LITELLM='litellm[proxy]==1.106.2'

place="$PWD/target/independent-servers"
work=$(mktemp -d)
children=()
cleanup() {
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

skip() {
  echo "SKIPPED, nothing was checked: $*"
  exit 0
}

# install PACKAGE: into the environment, unless it is there.
install() {
  [ -x "$place/bin/python" ] || python3 -m venv "$place" >"$work/venv.log" 2>&1 || return 1
  timeout 10m "$place/bin/pip" install --quiet --disable-pip-version-check "$1" >"$work/pip.log" 2>&1
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# wait_for URL LOG: until the server answers.
wait_for() {
  for _ in $(seq 600); do
    if python3 -c "import sys, urllib.request; urllib.request.urlopen('$1', timeout=1)" 2>/dev/null; then return; fi
    sleep 0.2
  done
  echo "no answer from $1:" && tail -50 "$2" && exit 1
}

# rawko ARGUMENTS...: in a project of its own, without the machine's environment.
rawko() {
  (cd "$work/project" && env -i PATH="$PATH" HOME="$work/home" TMPDIR="$work" LITELLM_KEY=sk-litellm "$binary" "$@")
}

cargo build --quiet --locked
binary="$PWD/target/debug/rawko"
mkdir -p "$work/project" "$work/home/.config/rawko"
git -C "$work/project" init --quiet
echo "first line" >"$work/project/a.txt"

install "$LITELLM" || skip "$LITELLM cannot be had: $(tail -1 "$work/pip.log" "$work/venv.log" 2>/dev/null | tail -1)"

python3 - >"$work/script.json" <<'PY'
import json
turn = lambda name, **input: {"for": "developer", "tools": [{"name": name, "input": input}]}
one = [
    {"for": "select", "decision": {"decision": "SELECT_MODE", "mode": "developer", "reason": "it is next"}},
    {"for": "developer", "text": "I look first.", "tools": [{"name": "Read", "input": {"file_path": "a.txt"}}, {"name": "Glob", "input": {"pattern": "*"}}]},
    turn("Write", file_path="b.txt", content="ümlaut “quotes” \\ \n"),
    turn("Report", outcome="success", summary="wrote b.txt"),
    {"for": "evaluate", "decision": {"decision": "COMPLETE", "summary": "all done", "reason": "b.txt is there"}},
]
print(json.dumps(one * 3))
PY
target/debug/testkit-server "$work/script.json" >"$work/testkit.url" 2>"$work/testkit.log" &
children+=($!)
for _ in $(seq 100); do [ -s "$work/testkit.url" ] && break; sleep 0.05; done
testkit=$(cat "$work/testkit.url")

port=$(free_port)
cat >"$work/litellm.yaml" <<YAML
model_list:
  - {model_name: over-claude, litellm_params: {model: anthropic/test-large, api_base: "$testkit", api_key: none}}
  - {model_name: over-openai, litellm_params: {model: openai/test-large, api_base: "$testkit/v1", api_key: none}}
general_settings: {master_key: sk-litellm}
litellm_settings: {telemetry: false}
YAML
env -u HTTP_PROXY -u HTTPS_PROXY LITELLM_LOCAL_MODEL_COST_MAP=True \
  "$place/bin/litellm" --config "$work/litellm.yaml" --host 127.0.0.1 --port "$port" --telemetry False >"$work/litellm.log" 2>&1 &
children+=($!)
wait_for "http://127.0.0.1:$port/health/liveliness" "$work/litellm.log"

cat >"$work/home/.config/rawko/config.yaml" <<YAML
provider:
  over-claude: {type: claude, baseUrl: "http://127.0.0.1:$port", apiKeyEnv: LITELLM_KEY, model: over-claude}
  over-openai: {type: openai, baseUrl: "http://127.0.0.1:$port/v1", apiKeyEnv: LITELLM_KEY, model: over-openai}
  over-responses: {type: responses, baseUrl: "http://127.0.0.1:$port/v1", apiKeyEnv: LITELLM_KEY, model: over-openai}
YAML
for wire in over-claude over-openai over-responses; do
  rm -f "$work/project/b.txt"
  if ! rawko run --provider "$wire" --yes --output json -- "Write b.txt." >"$work/$wire.json" 2>"$work/$wire.log"; then
    echo "$wire failed:" && cat "$work/$wire.json" "$work/$wire.log" && tail -50 "$work/litellm.log"
    exit 1
  fi
  printf 'ümlaut “quotes” \\ \n' | cmp - "$work/project/b.txt"
  echo "ok: a whole run through the LiteLLM proxy, $wire"
done
