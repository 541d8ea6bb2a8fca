#!/usr/bin/env python3
"""A preprocessor of mdBook. Pages of the book link to files of the repository that the book does not have (examples, sources, the
changelog). In the book such a link leads to the file in the repository, at the address in Cargo.toml."""

import json
import posixpath
import re
import sys
import tomllib

LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def rewritten(text, page, repository):
    """The text with links out of `docs` replaced. Code is left alone."""

    def one(found):
        label, path, fragment = found.groups()
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), path))
        if target == "docs" or target.startswith("docs/"):
            # Folders have no page in the book.
            return label if "." not in posixpath.basename(target) else found.group(0)
        return f"[{label}]({repository}/blob/main/{target}{fragment or ''})"

    lines, is_code = [], False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        lines.append(line if is_code else LINK.sub(one, line))
    return "\n".join(lines)


def walk(items, repository):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            if chapter.get("path"):
                chapter["content"] = rewritten(chapter["content"], chapter["path"], repository)
            walk(chapter["sub_items"], repository)


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    with open(posixpath.join(context["root"], "..", "Cargo.toml"), "rb") as manifest:
        repository = tomllib.load(manifest)["workspace"]["package"]["repository"]
    walk(book.get("items", book.get("sections", [])), repository)
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
