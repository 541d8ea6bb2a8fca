#!/usr/bin/env bash
# Builds the book into target/book. Needs mdbook and python3; with npm its diagrams are drawn.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf target/book
mdbook build docs
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
if (cd "$temporary" && npm pack --silent mermaid@11 >/dev/null 2>&1 && tar -xzf mermaid-*.tgz package/dist/mermaid.min.js); then
  cp "$temporary/package/dist/mermaid.min.js" target/book/
else
  echo "mermaid could not be had: the book shows the text of its diagrams"
fi
# Every page and file that a page of the book links to is in it.
python3 - <<'PYTHON'
import html.parser, pathlib, sys, urllib.parse

root = pathlib.Path("target/book")
missing, checked = [], 0


class Links(html.parser.HTMLParser):
    def handle_starttag(self, tag, attributes):
        self.found += [value for name, value in attributes if name in ("href", "src") and value]


for page in sorted(root.rglob("*.html")):
    if page.name in ("404.html", "toc.html"):
        continue
    links = Links()
    links.found = []
    links.feed(page.read_text(encoding="utf-8"))
    for link in links.found:
        parts = urllib.parse.urlsplit(link)
        if parts.scheme or not parts.path:
            continue
        checked += 1
        if not (page.parent / urllib.parse.unquote(parts.path)).exists():
            missing.append(f"{page}: {link}")
if missing:
    sys.exit("links that lead nowhere:\n" + "\n".join(missing))
print(f"{checked} links inside the book lead somewhere")
PYTHON
