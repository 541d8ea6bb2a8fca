#!/usr/bin/env bash
# The clients for Python and Node against the real binary: their types are those of the events, their suites pass, their packages
# can be made and installed, and what they declare holds for the type checkers. What comes from PyPI or npm is left out, and said to
# be, where it cannot be had.
#
# usage: test-clients.sh    RAWKO_BINARY names a program other than that of this build
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -z "${RAWKO_BINARY:-}" ]; then
  cargo build --quiet --locked --bin rawko
  RAWKO_BINARY="${CARGO_TARGET_DIR:-$PWD/target}/debug/rawko"
fi
export RAWKO_BINARY
"$RAWKO_BINARY" config schema events | diff - clients/events.schema.json ||
  { echo "clients/events.schema.json is stale: RAWKO_UPDATE_DOCS=1 cargo test -p rawko-cli --bin rawko documentation" && exit 1; }
python3 scripts/generate-clients.py --check

echo "Python: $(python3 --version)"
PYTHONPATH="$PWD/clients/python/src" PYTHONDONTWRITEBYTECODE=1 python3 -W error::RuntimeWarning -m unittest discover -s clients/python/tests
echo "Node: $(node --version)"
(cd clients/node && node --test test/client.test.mjs)

# Packages are made of copies: what the tools leave behind is no part of the repository.
cp -r clients "$work/clients"
venv="$PWD/target/clients"
if { [ -x "$venv/bin/python" ] || python3 -m venv "$venv"; } >"$work/pip.log" 2>&1 &&
  timeout 10m "$venv/bin/pip" install --quiet --disable-pip-version-check build==1.6.1 mypy==2.4.1 >"$work/pip.log" 2>&1 &&
  timeout 10m "$venv/bin/python" -m build --outdir "$work/dist" "$work/clients/python" >"$work/pip.log" 2>&1; then
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-index --force-reinstall "$work"/dist/*.whl
  "$venv/bin/python" -c 'import rawko_client; assert rawko_client.events.parse_event({"type": "run_paused"}).type == "run_paused"'
  "$venv/bin/mypy" --strict --python-version 3.10 --cache-dir "$work/mypy" -p rawko_client
else
  echo "SKIPPED, the Python package was not made: $(tail -1 "$work/pip.log")"
fi

package=$(cd "$work/clients/node" && npm pack --silent --pack-destination "$work")
mkdir "$work/user" && cd "$work/user"
echo '{ "type": "module" }' >package.json
npm install --silent --no-fund --no-audit --offline "$work/$package"
cat >use.mts <<'TS'
import { Rawko, RunLost, type RunEvent } from "rawko-client";
const run = await new Rawko({ project: "." }).run("Fix it.", { maxCost: 1 });
for await (const event of run) {
  if (event.type === "approval_requested") await run.approve(event);
  if (event.type === "tool_called" && event.call.name === "Bash") console.log(event.rule.length);
  // @ts-expect-error: this event has no such field
  if (event.type === "warned") console.log(event.nothing);
}
const files: string[] = (await run.outcome()).filesModified;
const last: RunEvent | undefined = undefined;
export { files, last, RunLost };
TS
node --input-type=module -e 'import { Rawko } from "rawko-client"; new Rawko();'
if timeout 10m npm install --silent --no-fund --no-audit typescript@5 >"$work/npm.log" 2>&1; then
  npx tsc --noEmit --strict --target es2022 --module nodenext use.mts
else
  echo "SKIPPED, the types were not compiled: $(tail -1 "$work/npm.log")"
fi
echo "the clients are right"
