#!/usr/bin/env python3
"""Runs a command and writes what it prints, as fast as it printed it, into an SVG that plays like a terminal.

    terminal-svg.py OUT.svg SHOWN_COMMAND PROGRAM ARGUMENT...

The text stays text: it can be searched, copied and read aloud. Lines and the colours of SGR are all that it understands. Pauses of
more than a second are shortened."""

import re
import subprocess
import sys
import time
from html import escape

COLUMNS, ROWS = 100, 32
WIDTH, HEIGHT = 8.4, 18  # of a character, in pixels
MARGIN, HOLD = 14, 6.0  # pixels; seconds after the last line
COLORS = {31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea", 37: "#f0f6fc", 90: "#8b949e"}
SGR = re.compile(r"\x1b\[([0-9;]*)m")


def record(command):
    """The lines of a command with the time of each, in seconds from the beginning."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines, now, last = [], 0.4, time.monotonic()
    for line in process.stdout:
        moment = time.monotonic()
        now, last = now + min(moment - last, 1.0), moment
        lines.append((now, line.decode().rstrip("\n")))
    if process.wait() != 0:
        sys.exit(f"{command[0]} ended with {process.returncode}")
    return lines


def styled(line):
    """The characters of a line, each with its class."""
    cells, style, end = [], set(), 0
    for found in SGR.finditer(line):
        cells += [(char, tuple(sorted(style))) for char in line[end : found.start()]]
        end = found.end()
        for code in (int(code or 0) for code in found.group(1).split(";")):
            if code == 0:
                style = set()
            elif code in (1, 2):
                style.add("bd"[code - 1])
            elif code == 22:
                style -= {"b", "d"}
            elif code == 39:
                style = {part for part in style if part[0] != "c"}
            elif code in COLORS:
                style = {part for part in style if part[0] != "c"} | {f"c{code}"}
    return cells + [(char, tuple(sorted(style))) for char in line[end:]]


def wrapped(cells):
    """Rows of at most COLUMNS cells, broken at blanks where there are some."""
    while len(cells) > COLUMNS:
        blanks = [place for place in range(COLUMNS // 2, COLUMNS + 1) if cells[place][0] == " "]
        cut = blanks[-1] if blanks else COLUMNS
        yield cells[:cut]
        cells = cells[cut:]
        while cells and cells[0][0] == " ":
            cells = cells[1:]
    yield cells


def row(cells, place, moment):
    parts, current = [], None
    for char, style in cells:
        if style != current:
            parts.append(("</tspan>" if current else "") + (f'<tspan class="{" ".join(style)}">' if style else ""))
            current = style
        parts.append(escape(char, quote=False))
    text = "".join(parts) + ("</tspan>" if current else "")
    # Rows further down are outside of the window until they are scrolled in.
    hidden = f' class="r" style="animation-delay:{moment:.2f}s"' if place < ROWS else ""
    return f'<text y="{(place + 1) * HEIGHT}"{hidden}>{text}</text>'


def main():
    out, shown, *command = sys.argv[1:]
    rows = [(0.0, styled(f"\x1b[90m$\x1b[0m \x1b[1m{shown}\x1b[0m"))]
    for moment, line in record(command):
        rows += [(moment, cells) for cells in wrapped(styled(line))]
    end = rows[-1][0] + HOLD
    frames = {}
    for place, (moment, _) in enumerate(rows):
        shift = max(0, place + 1 - ROWS) * HEIGHT
        if place == 0 or shift > max(frames.values()):
            frames[moment] = shift
    steps = "".join(f"{100 * moment / end:.2f}%{{transform:translateY(-{shift}px)}}" for moment, shift in frames.items())
    final = max(frames.values())
    colors = "".join(f".c{code}{{fill:{color}}}" for code, color in COLORS.items())
    width, height = round(COLUMNS * WIDTH + 2 * MARGIN), ROWS * HEIGHT + 2 * MARGIN
    body = "\n".join(row(cells, place, moment) for place, (moment, cells) in enumerate(rows))
    with open(out, "w", encoding="utf-8") as file:
        file.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
            f"<title>{escape(shown)}</title>\n<style>text{{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre}}"
            f".b{{font-weight:bold}}.d{{opacity:.7}}{colors}"
            f"@media (prefers-reduced-motion:no-preference){{"
            f".r{{opacity:0;animation:show 1ms linear forwards}}@keyframes show{{to{{opacity:1}}}}"
            f".s{{animation:scroll {end:.2f}s step-end forwards}}@keyframes scroll{{{steps}100%{{transform:translateY(-{final}px)}}}}}}"
            f".s{{transform:translateY(-{final}px)}}</style>\n"
            f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n'
            f'<svg x="{MARGIN}" y="{MARGIN - 4}" width="{width - 2 * MARGIN}" height="{ROWS * HEIGHT + 8}"><g class="s">\n'
            f"{body}\n</g></svg>\n</svg>\n"
        )


if __name__ == "__main__":
    main()
