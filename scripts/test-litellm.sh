#!/usr/bin/env bash
# rawko against a server that others wrote: the LiteLLM proxy in front of the test server, over all three wires, a whole run
# each. The package comes from PyPI into an environment under target/; where it cannot be had, it says so and checks nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

LITELLM='litellm[proxy]==1.106.2'

place="$PWD/target/litellm"
. scripts/lib/servers.sh
install "$place" "$LITELLM"

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
general_settings: {master_key: sk-server}
litellm_settings: {telemetry: false}
YAML
env -u HTTP_PROXY -u HTTPS_PROXY LITELLM_LOCAL_MODEL_COST_MAP=True \
  "$place/bin/litellm" --config "$work/litellm.yaml" --host 127.0.0.1 --port "$port" --telemetry False >"$work/litellm.log" 2>&1 &
children+=($!)
wait_for "http://127.0.0.1:$port/health/liveliness" "$work/litellm.log"

cat >"$work/home/.config/rawko/config.yaml" <<YAML
arbiter: {mode: llm}
provider:
  over-claude: {type: claude, baseUrl: "http://127.0.0.1:$port", apiKeyEnv: SERVER_KEY, model: over-claude}
  over-openai: {type: openai, baseUrl: "http://127.0.0.1:$port/v1", apiKeyEnv: SERVER_KEY, model: over-openai}
  over-responses: {type: responses, baseUrl: "http://127.0.0.1:$port/v1", apiKeyEnv: SERVER_KEY, model: over-openai}
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
