// The state machine, with the path that the session took.
import { html, nothing, svg } from "./vendor/lit-html.js";
import { words } from "./format.js";

const HALF_WIDTH = 56;
const HALF_HEIGHT = 17;

// Where the line from the middle of a box toward a point leaves the box.
function border(box, toward) {
  const dx = toward.x - box.x;
  const dy = toward.y - box.y;
  const scale = Math.min(dx ? HALF_WIDTH / Math.abs(dx) : Infinity, dy ? HALF_HEIGHT / Math.abs(dy) : Infinity);
  return { x: box.x + dx * scale, y: box.y + dy * scale };
}

function arrow(transition, places, count, isLast) {
  const a = places.get(transition.from);
  const b = places.get(transition.to);
  const name = `${words(transition.from)} to ${words(transition.to)}: ${transition.events.join(", ")}`;
  const style = `arrow ${count ? "taken" : ""} ${isLast ? "last" : ""}`;
  if (a === b) {
    const loop = `M ${a.x - 20} ${a.y + HALF_HEIGHT} c -8 22 48 22 40 2`;
    return svg`<g class=${style}><title>${name}</title><path d=${loop}></path></g>`;
  }
  const dx = b.x - a.x;
  const dy = b.y - a.y;
  const length = Math.hypot(dx, dy);
  const control = {
    x: (a.x + b.x) / 2 - (dy / length) * transition.bend * 2,
    y: (a.y + b.y) / 2 + (dx / length) * transition.bend * 2,
  };
  const from = border(a, control);
  const to = border(b, control);
  const angle = Math.atan2(to.y - control.y, to.x - control.x);
  const tip = (turn) => `${to.x - 8 * Math.cos(angle + turn)},${to.y - 8 * Math.sin(angle + turn)}`;
  const middle = { x: from.x / 4 + control.x / 2 + to.x / 4, y: from.y / 4 + control.y / 2 + to.y / 4 };
  return svg`<g class=${style}>
    <title>${name}</title>
    <path d=${`M ${from.x} ${from.y} Q ${control.x} ${control.y} ${to.x} ${to.y}`}></path>
    <polygon points=${`${to.x},${to.y} ${tip(0.45)} ${tip(-0.45)}`}></polygon>
    ${count ? svg`<text class="count" x=${middle.x + 5} y=${middle.y + 4}>${count}×</text>` : nothing}
  </g>`;
}

export function diagram(machine, head) {
  const places = new Map(machine.states.map((state) => [state.name, state]));
  const counts = new Map();
  for (const step of head.path) {
    const key = `${step.from} ${step.to}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const entered = new Set(head.path.flatMap((step) => [step.from, step.to]));
  const last = head.path.at(-1);
  const count = (transition) => counts.get(`${transition.from} ${transition.to}`) ?? 0;
  const isLast = (transition) => last && last.from === transition.from && last.to === transition.to;
  const drawn = [...machine.transitions].sort((a, b) => count(a) - count(b));
  const names = [head.path[0]?.from, ...head.path.map((step) => step.to)].filter(Boolean).map(words);
  return html`<figure class="diagram">
    <svg viewBox="0 0 ${machine.width} ${machine.height}" role="img" aria-label=${`The state machine. It is in the state ${words(head.state)}, after ${head.path.length} transitions.`}>
      ${drawn.map((transition) => arrow(transition, places, count(transition), isLast(transition)))}
      ${machine.states.map((state) => svg`<g class=${`state ${entered.has(state.name) ? "entered" : ""} ${state.name === head.state ? "current" : ""}`}>
        <title>${state.description}</title>
        <rect x=${state.x - HALF_WIDTH} y=${state.y - HALF_HEIGHT} width=${2 * HALF_WIDTH} height=${2 * HALF_HEIGHT} rx=${state.isFinal ? 17 : 6}></rect>
        <text x=${state.x} y=${state.y + 4.5}>${words(state.name)}</text>
      </g>`)}
    </svg>
    <figcaption>
      <details><summary>The path in words (${head.path.length} transitions)</summary>
        <p>${names.length ? names.slice(-400).join(" → ") : "Nothing has happened yet."}</p></details>
    </figcaption>
  </figure>`;
}
