#!/usr/bin/env bash
# The inspector's page in a real browser: headless Chromium, driven by playwright-core, looked over by axe-core. `.ci/run`
# calls this. The packages come from npm, into a folder of the user's cache; where they or Chromium cannot be had, it says so
# and checks nothing. `RAWKO_SCREENSHOTS=DIR` keeps the screenshots.
set -euo pipefail
cd "$(dirname "$0")/.."
cache="${RAWKO_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rawko-tests}/inspector"
playwright=1.65.1
axe=4.14.1
skip() {
  echo "SKIPPED: $1, so the inspector's page was NOT checked in a browser"
  exit 0
}
browser=""
for name in chromium chromium-browser google-chrome; do
  if browser=$(command -v "$name"); then break; fi
done
[ -n "$browser" ] || skip "Chromium is not installed"
command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 || skip "node and npm are not installed"
mkdir -p "$cache"
stamp="$cache/installed-$playwright-$axe"
if [ ! -e "$stamp" ]; then
  if ! (cd "$cache" && { [ -e package.json ] || npm init -y; } && timeout 5m npm install --silent --no-fund --no-audit \
      "playwright-core@$playwright" "axe-core@$axe") >"$cache/npm.log" 2>&1; then
    skip "the packages cannot be had ($cache/npm.log)"
  fi
  touch "$stamp"
fi
cargo build --quiet --locked --bin rawko
RAWKO="${CARGO_TARGET_DIR:-$PWD/target}/debug/rawko" BROWSER="$browser" PACKAGES="$cache" node scripts/test-inspector.mjs
