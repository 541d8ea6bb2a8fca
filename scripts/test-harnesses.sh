#!/usr/bin/env bash
# rawko in the harnesses of integrations/: Inspect AI, SWE-bench and Harbor, whole runs by each harness's own code, offline and with
# models that are scripts. The packages come from PyPI into environments under target/; what cannot be had is said and not checked.
# With RAWKO_THOROUGH=1, all samples of the benchmark of injections run, not a few.
set -euo pipefail
cd "$(dirname "$0")/.."

INSPECT=(inspect-ai==0.3.285 inspect-evals==0.26.0 inspect-swe==0.2.72 anthropic==2.14.0 swebench==5.0.2 hatchling==1.27.0 pytest==9.2.0)
HARBOR=(harbor==0.26.0 agent-client-protocol==0.12.1 hatchling==1.27.0 pytest==9.2.0)

work=$(mktemp -d)
children=()
cleanup() {
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

if [ -z "${RAWKO_BINARY:-}" ]; then
  # With `rawko acp`, by the command of test-acp.sh.
  cargo build --quiet --locked -p rawko-acp -p rawko-cli --features rawko-cli/acp --bin rawko
  RAWKO_BINARY="${CARGO_TARGET_DIR:-$PWD/target}/debug/rawko"
fi
export RAWKO_BINARY PYTHONDONTWRITEBYTECODE=1

skip() {
  echo "SKIPPED, nothing was checked: $*"
  exit 0
}

# python MINOR CANDIDATE...: the first of them that is Python 3.MINOR or newer and belongs to the system. What is in a home folder
# is hidden where the tests run.
python() {
  local minor=$1 candidate
  shift
  for candidate in "$@"; do
    if command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, $minor))" 2>/dev/null; then
      "$candidate" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  return 1
}

# environment PLACE PYTHON PACKAGE... -- INTEGRATION...: makes it, unless it is there, and installs our packages as a user would.
environment() {
  local place=$1 log packages=() found=$2
  log=$work/$(basename "$place").pip
  shift 2
  while [ "$1" != -- ]; do
    packages+=("$1")
    shift
  done
  shift
  local pip=("$place/bin/pip" --quiet --disable-pip-version-check install)
  if ! { [ -x "$place/bin/python" ] || "$found" -m venv "$place"; } >"$log" 2>&1 || ! timeout 15m "${pip[@]}" "${packages[@]}" >"$log" 2>&1; then
    skip "${packages[*]} cannot be had: $(tail -1 "$log")"
  fi
  "${pip[@]}" --no-build-isolation --no-deps --force-reinstall "$@"
}

# tests TESTS FOLDER COMMAND...: the command is a Python, the folder is for temporary files.
tests() { "${@:3}" -m pytest -q -p no:cacheprovider -W ignore --basetemp="$2" "$1"; }

inspect_and_swebench() {
  local place="$PWD/target/harnesses/inspect" found
  found=$(python 11 /usr/bin/python3 /usr/local/bin/python3) || skip "Inspect needs a Python 3.11 of the system, with venv"
  environment "$place" "$found" "${INSPECT[@]}" -- ./integrations/inspect ./integrations/swebench
  if integrations/apart.sh -- true 2>"$work/apart.log"; then
    # Inspect's own home and temporary folders end with it.
    tests integrations/inspect/tests /tmp/inspect \
      integrations/apart.sh "$PWD" "$(dirname "$RAWKO_BINARY")" -- \
      env PATH="$place/bin:/usr/local/bin:/usr/bin:/bin" "$place/bin/python"
  else
    echo "SKIPPED: bubblewrap cannot be used, so Inspect was NOT checked: $(tail -1 "$work/apart.log")"
  fi
  tests integrations/swebench/tests "$work/swebench" "$place/bin/python"
}

harbor() {
  local place="$PWD/target/harnesses/harbor" found
  found=$(python 12 python3 python3.14 python3.13 python3.12 "$HOME"/.pyenv/versions/3.1[2-9]*/bin/python) ||
    skip "Harbor needs Python 3.12, with venv"
  command -v bwrap >/dev/null 2>&1 || skip "Harbor's trials need bubblewrap"
  environment "$place" "$found" "${HARBOR[@]}" -- ./integrations/harbor
  tests integrations/harbor/tests "$work/harbor" "$place/bin/python"
}

# Side by side, since most of it is waiting for packages.
failed=
for harness in inspect_and_swebench harbor; do
  "$harness" >"$work/$harness.log" 2>&1 &
  children+=($!)
done
at=0
for harness in inspect_and_swebench harbor; do
  wait "${children[$at]}" || failed="$failed $harness"
  echo "-- $harness"
  cat "$work/$harness.log"
  at=$((at + 1))
done
children=()
[ -z "$failed" ] || { echo "failed:$failed" && exit 1; }
