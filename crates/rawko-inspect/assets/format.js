// Words for numbers, and small pieces that every part of the page uses.
import { html, nothing } from "./vendor/lit-html.js";

export function money(usd, what = "cost ") {
  if (usd === undefined || usd === null) return `${what}unknown`;
  return usd === 0 ? "$0" : usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

// For lines of figures: an unknown cost is said once, at the top.
export function price(usd) {
  return usd === undefined || usd === null ? [] : [money(usd)];
}

// What a decision says, as at the terminal.
export function decisionName(kind, agent) {
  return { SELECT_MODE: `next: ${agent}`, CONTINUE: "the same agent continues", RETRY: "try again", COMPLETE: "done", BLOCKED: "blocked, a person is needed" }[kind] ?? words(kind);
}

// Who or what made a decision.
export function sourceName(source) {
  return { llm: "model", cache: "cached", fallback: "fallback rule", human: "user" }[source] ?? words(source);
}

export function span(ms) {
  if (ms === undefined || ms === null) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function tokenCount(usage) {
  if (!usage) return "";
  const all = usage.inputTokens + usage.outputTokens + usage.cacheReadTokens + usage.cacheWriteTokens;
  return `${compact(all)} tokens`;
}

export function compact(count) {
  if (count < 1000) return `${count}`;
  if (count < 1_000_000) return `${(count / 1000).toFixed(1)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

export function bytes(count) {
  return count < 1024 ? `${count} bytes` : count < 1048576 ? `${(count / 1024).toFixed(0)} KiB` : `${(count / 1048576).toFixed(1)} MiB`;
}

export function clock(at) {
  return new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

export function counted(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

export function words(name) {
  return String(name).replaceAll("_", " ");
}

// What a color says is always said by the word too.
const TONES = {
  verified: "good", complete: "good", done: "good", success: "good", passed: "good", running: "live",
  claimed: "warn", limited: "warn", unfinished: "warn", not_begun: "warn", dropped: "warn", lost: "warn", open: "live", cancelled: "warn", warn: "warn",
  bad: "bad", failed: "bad", denied: "bad", unreadable: "bad", error_handling: "bad",
};

export function badge(name, label = words(name)) {
  return html`<span class="badge ${TONES[name] ?? "plain"}">${label}</span>`;
}

export function block(text, label) {
  if (!text || (!text.text && !text.cutBytes)) return html`<p class="faint">(empty)</p>`;
  return html`<pre tabindex="0" aria-label=${label}>${text.text}</pre>
    ${text.cutBytes ? html`<p class="faint">${bytes(text.cutBytes)} more are left out here.</p>` : nothing}`;
}

export function jsonBlock(value, label) {
  return html`<pre tabindex="0" aria-label=${label}>${JSON.stringify(value, null, 2)}</pre>`;
}

export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== nothing);
  return html`<dl class="facts">${shown.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}
