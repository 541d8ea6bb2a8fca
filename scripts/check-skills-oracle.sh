#!/usr/bin/env bash
# Compares `rawko skills check` with the reference library of the Agent Skills specification (npm `skills-ref`) on a generated
# set of skills. Usage: scripts/check-skills-oracle.sh [PATH-OF-RAWKO]
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.1.5
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if ! timeout 10m npm install --silent --no-audit --no-fund --prefix "$folder" "skills-ref@$version" >"$folder/npm.log" 2>&1; then
  echo "skills-ref $version could not be installed from npm: skills were NOT compared with the reference library"
  tail -n 3 "$folder/npm.log"
  exit 0
fi
rawko=${1:-}
if [ -z "$rawko" ]; then
  cargo build --quiet --locked --bin rawko
  rawko=$(cargo metadata --format-version 1 --no-deps | node -p 'JSON.parse(require("fs").readFileSync(0)).target_directory')/debug/rawko
fi
cp scripts/skills-oracle.mjs "$folder/"
mkdir "$folder/home" "$folder/project"
HOME="$folder/home" XDG_CONFIG_HOME="$folder/home/config" node "$folder/skills-oracle.mjs" "$(realpath "$rawko")" "$folder/project"
