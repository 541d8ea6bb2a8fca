#!/usr/bin/env bash
# Installs rawko as a user would, in each way that this machine has the tools for, and runs the demonstration with what was
# installed. Everything comes from loopback and goes into a temporary folder.
#
#   RAWKO_BINARY=target/debug/rawko scripts/test-install.sh
#   scripts/test-install.sh --release
#
# The binary takes the place of a release: archives, installers and packages are made of it, and nothing is compiled but the
# wheel. With `--release` the archive is the real one: `dist` builds it (with cargo-auditable and cargo-cyclonedx, and on Linux for
# musl, with musl-gcc), and what it is made of is looked at. A way whose tool is missing (dist, npm, cargo-deb, maturin) is skipped,
# and the last line says so.
set -euo pipefail
cd "$(dirname "$0")/.."
case "$*" in
  "") is_release= ;;
  --release) is_release=1 ;;
  *) echo "usage: $0 [--release]" >&2; exit 2 ;;
esac
case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) target=x86_64-unknown-linux-musl ;;
  Linux-aarch64) target=aarch64-unknown-linux-musl ;;
  Darwin-x86_64) target=x86_64-apple-darwin ;;
  Darwin-arm64) target=aarch64-apple-darwin ;;
  *) echo "there are no releases for this system" >&2; exit 1 ;;
esac
archive=rawko-cli-$target.tar.xz
work=$(mktemp -d)
server=
skipped=
cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
trap "exit 130" INT TERM

step() { printf '\n==> %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
skip() { echo "skipped: $*"; skipped=1; }
has() { command -v "$1" >/dev/null 2>&1; }

# No user's settings have a part in it.
clean() { env -i PATH="$PATH" HOME="$work/home" TMPDIR="$work/tmp" "$@"; }
works() {
  [ "$(clean "$1" --version)" = "rawko $version" ] || fail "$1 is not rawko $version"
  clean "$1" demo --quiet >/dev/null || fail "the demonstration with $1"
  echo "the demonstration ends as verified with $1"
}
mkdir -p "$work/home" "$work/tmp"

stage=$work/rawko-cli-$target
mkdir "$work/served"
if [ "$is_release" ]; then
  step "the archive, by dist"
  rm -rf target/distrib
  dist build --artifacts=local --target "$target" --output-format=json >"$work/manifest.json"
  cp "target/distrib/$archive" "target/distrib/$archive.sha256" "$work/served"
else
  step "the archive"
  binary=$(realpath "${RAWKO_BINARY:-target/debug/rawko}")
  mkdir "$stage"
  # Without what a debugger needs, as a release: a debug build has ten times more of it than of anything else.
  strip -o "$stage/rawko" "$binary"
  cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$stage"
  XZ_OPT=-1 tar -C "$work" -cJf "$work/served/$archive" "rawko-cli-$target"
  rm -r "$stage"
  (cd "$work/served" && sha256sum "$archive" >"$archive.sha256")
fi
(cd "$work/served" && sha256sum --check --quiet "$archive.sha256")
tar -C "$work" -xJf "$work/served/$archive"
binary=$stage/rawko
version=$("$binary" --version | cut -d ' ' -f 2)
works "$binary"

if [ "$is_release" ]; then
  step "what the program is made of"
  "$binary" --version --verbose
  case $target in
    *-musl)
      # Nothing else is in this root: no library, no loader.
      mkdir "$work/root"
      cp "$binary" "$work/root"
      if unshare --map-root-user true 2>/dev/null; then
        unshare --map-root-user chroot "$work/root" /rawko --version
      else
        chroot "$work/root" /rawko --version
      fi
      rm -r "$work/root"
      # The list of crates that `cargo auditable` leaves in the program.
      objcopy --dump-section ".dep-v0=$work/crates" "$binary" "$work/copy"
      python3 - "$work/crates" <<'PYTHON'
import json, sys, zlib
crates = {crate["name"] for crate in json.loads(zlib.decompress(open(sys.argv[1], "rb").read()))["packages"]}
missing = {"rawko-core", "rawko-copilot", "tokio", "github-copilot-sdk"} - crates
if missing:
    sys.exit(f"not in the program's own list: {missing}")
print(f"the program lists the {len(crates)} crates that it is made of")
PYTHON
      ;;
  esac
fi

if has dist; then
  step "the plan of a release"
  dist plan >"$work/plan"
  grep -q "$archive" "$work/plan" || fail "the plan has no $archive"
  step "the installers"
  rm -rf target/distrib
  mkdir -p target/distrib
  # What the job that builds the archive would hand to the one that makes the installers: its checksum.
  [ "$is_release" ] || dist manifest --artifacts=local --target "$target" --output-format=json >"$work/manifest.json" 2>/dev/null
  python3 - "$work/manifest.json" "$archive" "$(cut -d ' ' -f 1 "$work/served/$archive.sha256")" <<'PYTHON' >"target/distrib/$target-dist-manifest.json"
import json, sys
manifest = json.load(open(sys.argv[1]))
manifest["artifacts"][sys.argv[2]]["checksums"] = {"sha256": sys.argv[3]}
json.dump(manifest, sys.stdout)
PYTHON
  dist build --artifacts=global >"$work/global" 2>&1 || { cat "$work/global"; fail "dist build"; }
  cp target/distrib/rawko-cli-installer.sh target/distrib/rawko-cli-npm-package.tar.gz target/distrib/rawko.rb "$work/served"
  grep -q "$(cut -d ' ' -f 1 "$work/served/$archive.sha256")" "$work/served/rawko.rb" || fail "the formula has no checksum"
  if has ruby; then ruby -c "$work/served/rawko.rb"; else skip "ruby is not installed: the formula was not parsed"; fi
  rm -rf target/distrib

  python3 -u - "$work/served" >"$work/port" <<'PYTHON' 2>/dev/null &
import functools, http.server, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print(server.server_address[1])
server.serve_forever()
PYTHON
  server=$!
  until [ -s "$work/port" ]; do kill -0 "$server" || fail "no server"; sleep 0.1; done
  address=http://127.0.0.1:$(cat "$work/port")
  installer() { clean RAWKO_CLI_DOWNLOAD_URL="$address" CARGO_HOME="$work/home/.cargo" RAWKO_CLI_NO_MODIFY_PATH=1 sh "$work/served/rawko-cli-installer.sh"; }

  step "the shell installer"
  installer
  works "$work/home/.cargo/bin/rawko"

  step "the shell installer with an archive that was tampered with"
  rm -rf "$work/home/.cargo"
  cp "$work/served/$archive" "$work/kept"
  printf 'x' >>"$work/served/$archive"
  if installer >"$work/refused" 2>&1; then fail "the installer took it"; fi
  grep -q "checksum mismatch" "$work/refused" || { cat "$work/refused"; fail "the installer does not say why"; }
  [ ! -e "$work/home/.cargo/bin/rawko" ] || fail "the installer refused it and installed it"
  if (cd "$work/served" && sha256sum --check --status "$archive.sha256"); then fail "sha256sum took it"; fi
  mv "$work/kept" "$work/served/$archive"
  echo "refused, and nothing was installed"

  if has npm; then
    step "npm"
    tar -C "$work" -xzf "$work/served/rawko-cli-npm-package.tar.gz"
    sed -i.bak "s|\"https://[^\"]*/releases/download/[^\"]*\"|\"$address\"|" "$work"/package/package.json
    rm "$work/package/package.json.bak"
    grep -q "$address" "$work/package/package.json" || fail "the package names no address"
    # Its own dependencies come from the registry that this machine is set up for.
    export npm_config_cache=$work/npm-cache NO_PROXY=127.0.0.1
    (cd "$work/package" && npm pack --silent >/dev/null) || fail "npm pack"
    npm install --silent --global --prefix "$work/npm" "$work/package/rawko-$version.tgz" || fail "npm install"
    works "$work/npm/bin/rawko"
  else
    skip "npm is not installed"
  fi
else
  skip "dist is not installed: no installers"
fi

if has cargo-cyclonedx; then
  step "the list of components"
  scripts/package-sbom.sh "$work/rawko-cli.cdx.xml" "$target"
  python3 - "$work/rawko-cli.cdx.xml" <<'PYTHON'
import pathlib, sys, xml.etree.ElementTree
text = pathlib.Path(sys.argv[1]).read_text()
names = {name.text for name in xml.etree.ElementTree.fromstring(text).iterfind(".//{*}components/{*}component/{*}name")}
missing = {"rawko-core", "rawko-copilot", "tokio", "github-copilot-sdk"} - names
if missing:
    sys.exit(f"not in the list of components: {missing}")
print(f"CycloneDX lists {len(names)} components")
PYTHON
else
  skip "cargo-cyclonedx is not installed: no list of components"
fi

if has cargo-deb && has dpkg-deb; then
  step "the Debian package"
  RAWKO_DEB_FAST=1 RAWKO_BINARY=$binary scripts/package-deb.sh "$work/debian" >"$work/deb.log" 2>&1 || { cat "$work/deb.log"; fail "cargo deb"; }
  package=$(echo "$work"/debian/*.deb)
  dpkg-deb --field "$package" Package Version Depends
  mkdir "$work/root"
  dpkg-deb --extract "$package" "$work/root"
  [ -f "$work/root/usr/share/man/man1/rawko-run.1.gz" ] || fail "there is no manual page in the package"
  [ -f "$work/root/usr/share/bash-completion/completions/rawko" ] || fail "there are no completions in the package"
  works "$work/root/usr/bin/rawko"
else
  skip "cargo-deb or dpkg-deb is not installed: no Debian package"
fi

if has maturin && python3 -c 'import venv, ensurepip' 2>/dev/null; then
  step "the wheel"
  # It is compiled like the binary of the tests, which is quick where they were built.
  maturin build --profile dev --out "$work/wheels" >"$work/wheel.log" 2>&1 || { cat "$work/wheel.log"; fail "maturin"; }
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --no-index "$work"/wheels/rawko-*.whl
  works "$work/venv/bin/rawko"
else
  skip "maturin or venv is not installed: no wheel"
fi

step "${skipped:+all but what was skipped: }installed and run"
