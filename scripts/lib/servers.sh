# What the tests against others' servers share: a folder of their own, packages from PyPI, a server's start and end, and rawko
# without the machine's environment. It is sourced, from the repository's root.

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

# install ENVIRONMENT PACKAGE: into the environment, unless it is there, or the script ends as skipped.
install() {
  if ! { [ -x "$1/bin/python" ] || python3 -m venv "$1"; } >"$work/pip.log" 2>&1 ||
    ! timeout 20m "$1/bin/pip" install --quiet --disable-pip-version-check "${@:2}" >"$work/pip.log" 2>&1; then
    skip "${*:2} cannot be had: $(tail -1 "$work/pip.log")"
  fi
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

cargo build --quiet --locked
binary="$PWD/target/debug/rawko"
mkdir -p "$work/project" "$work/home/.config/rawko"
git -C "$work/project" init --quiet
echo "first line" >"$work/project/a.txt"

# rawko ARGUMENTS...: in a project of its own.
rawko() {
  (cd "$work/project" && env -i PATH="$PATH" HOME="$work/home" TMPDIR="$work" SERVER_KEY=sk-server "$binary" "$@")
}
