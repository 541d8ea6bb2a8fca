// The lines that changed.
import { html, nothing } from "./vendor/lit-html.js";
import { badge, bytes } from "./format.js";

const SHOWN_LINES = 4000;

function lineClass(line) {
  if (line.startsWith("diff ") || line.startsWith("+++") || line.startsWith("---")) return "file";
  if (line.startsWith("@@")) return "hunk";
  if (line.startsWith("+")) return "added";
  if (line.startsWith("-")) return "removed";
  return "same";
}

// One element for each run of lines of a kind: a patch of thousands of lines stays small.
function runsOf(lines) {
  const runs = [];
  for (const line of lines) {
    const kind = lineClass(line);
    const last = runs.at(-1);
    if (last && last.kind === kind) last.lines.push(line);
    else runs.push({ kind, lines: [line] });
  }
  return runs;
}

export function diffDetail(diff) {
  if (diff.problem) return html`<p>${diff.problem}</p>`;
  const lines = diff.patch.text.replace(/\n$/, "").split("\n");
  const cut = lines.length - SHOWN_LINES;
  return html`<div class="diff">
    ${diff.files.length
      ? html`<ul class="files">${diff.files.map((file) => html`<li>${badge(file.kind)} <code>${file.from ? `${file.from} → ` : ""}${file.path}</code>
          ${file.added === undefined || file.added === null ? nothing : html`<span class="added">+${file.added}</span> <span class="removed">−${file.removed}</span>`}</li>`)}</ul>`
      : html`<p>No file differs.</p>`}
    ${diff.untilNow ? html`<p class="faint">Compared with the folder as it is now.</p>` : nothing}
    ${(diff.others ?? []).map((other) => html`<p>${badge("warn", "not this session alone")} <code>${other.path}</code>, changed by ${other.by}</p>`)}
    ${(diff.notKept ?? []).map((path) => html`<p class="faint">not compared: ${path}</p>`)}
    ${diff.patch.text
      ? html`<pre class="patch" tabindex="0" aria-label="Changed lines">${runsOf(lines.slice(0, SHOWN_LINES)).map((run) => html`<span class=${run.kind}>${run.lines.join("\n")}\n</span>`)}</pre>`
      : nothing}
    ${cut > 0 ? html`<p class="faint">${cut} more lines are not shown: <code>rawko diff</code> has them.</p>` : nothing}
    ${diff.patch.cutBytes ? html`<p class="faint">${bytes(diff.patch.cutBytes)} more are left out here.</p>` : nothing}
  </div>`;
}
