#!/usr/bin/env bash
# The demo's spans and metrics, taken by a collector made of OpenTelemetry's own Python library over gRPC and HTTP, and its session
# as a trajectory, validated by the format's Python models. The packages come from PyPI into an environment under target/; where
# they cannot be had, it says so and checks nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

PACKAGES=(opentelemetry-proto==1.45.2 grpcio==1.85.1 atif==1.8.0)

place="$PWD/target/telemetry"
work=$(mktemp -d)
cleanup() {
  # Its standard input ends, and with it the collector.
  exec 3>&- || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

skip() {
  echo "SKIPPED, nothing was checked: $*"
  exit 0
}

[ -x "$place/bin/python" ] || python3 -m venv "$place" >"$work/venv.log" 2>&1 || skip "no Python environment: $(tail -1 "$work/venv.log")"
timeout 10m "$place/bin/pip" install --quiet --disable-pip-version-check "${PACKAGES[@]}" >"$work/pip.log" 2>&1 ||
  skip "${PACKAGES[*]} cannot be had: $(tail -1 "$work/pip.log")"

cargo build --quiet --locked --bin rawko
binary="$PWD/target/debug/rawko"

mkfifo "$work/stdin"
"$place/bin/python" scripts/otlp_receiver.py "$work/taken" <"$work/stdin" >"$work/ports" 2>"$work/receiver.log" &
exec 3>"$work/stdin"
for _ in $(seq 300); do
  [ -s "$work/ports" ] && break
  sleep 0.1
done
read -r grpc http <"$work/ports" || { cat "$work/receiver.log" && exit 1; }

# demo TEAM PROTOCOL PORT [VARIABLE=VALUE]: a run that is sent; its project is kept.
demo() {
  local team="$1" && shift
  env -i PATH="$PATH" HOME="$work" TMPDIR="$work" OTEL_SERVICE_NAME=rawko-demo OTEL_EXPORTER_OTLP_HEADERS="x-team=$team" "${@:3}" \
    OTEL_EXPORTER_OTLP_PROTOCOL="$1" OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:$2" \
    "$binary" demo --json --keep >"$work/demo.json" 2>"$work/demo.err" || { cat "$work/demo.err" && exit 1; }
  if grep -q telemetry: "$work/demo.err"; then cat "$work/demo.err" && exit 1; fi
}

demo older http/json "$http" OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai/1.42.0
demo a http/protobuf "$http"
demo a http/json "$http"
demo a grpc "$grpc"
"$place/bin/python" scripts/check_telemetry.py "$work/taken" http/json=older http/protobuf=a http/json=a grpc=a

project=$("$place/bin/python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["folder"])' "$work/demo.json")
env -i PATH="$PATH" HOME="$work" "$binary" --cwd "$project" sessions export --format atif >"$work/session.json"
"$place/bin/python" - "$work/session.json" <<'PY'
import json, sys
from atif import Trajectory

with open(sys.argv[1], encoding="utf-8") as file:
    trajectory = Trajectory.model_validate(json.load(file))
calls = [call for step in trajectory.steps for call in step.tool_calls or []]
results = [result for step in trajectory.steps if step.observation for result in step.observation.results]
assert trajectory.steps[0].source == "user" and trajectory.extra["status"] == "verified"
assert {call.tool_call_id for call in calls} == {result.source_call_id for result in results if result.source_call_id}
assert trajectory.final_metrics.total_prompt_tokens == sum(
    step.metrics.prompt_tokens for step in trajectory.steps if step.metrics
)
print(f"the trajectory is valid: {len(trajectory.steps)} steps, {len(calls)} tool calls")
PY
