// The entries of a timeline: one line each, and more where an entry is opened.
import { html, nothing } from "./vendor/lit-html.js";
import { badge, block, clock, counted, decisionName, facts, money, price, sourceName, span, tokenCount, words } from "./format.js";
import { decisionDetail } from "./decision.js";

const BEGINNINGS = { started: "Task", continued: "Next task", taken_up: "Taken up again", resumed: "Resumed" };

// What is said of a model call without an answer.
const UNANSWERED = { open: "is asked …", lost: "the process ended before the answer was recorded", dropped: "the run stopped waiting for the answer" };

// What the arbiter is asked. What is asked of agents has their names.
const ARBITER = { select: "arbiter: who works next?", evaluate: "arbiter: is it done?" };

function answerName({ text, tools }) {
  if (text.text) return text.text;
  if (tools.length === 1 && tools[0] === "decide") return "answers with a decision";
  return tools.length ? `calls ${tools.join(", ")}` : "(no text)";
}

// What each kind of entry is called, and to which filter it belongs.
const KINDS = {
  task: ["Task", "all"], state: ["State", "all"], decision: ["Decision", "decisions"], model_call: ["Model", "models"],
  tool_call: ["Tool", "tools"], approval: ["Approval", "decisions"], memories_told: ["Memories", "all"],
  memories_used: ["Memories", "all"], memory_kept: ["Learned", "all"], checkpoint: ["Checkpoint", "all"],
  verification: ["Verification", "verification"], plan: ["Plan", "all"], notice: ["Note", "all"], end: ["End", "all"],
};

export const FILTERS = { all: "everything", decisions: "decisions", models: "model calls", tools: "tool calls", verification: "verification", problems: "problems" };

function isProblem(entry) {
  return entry.type === "notice" ? entry.warning
    : entry.type === "tool_call" || entry.type === "model_call" ? !["done", "open"].includes(entry.state)
    : entry.type === "verification" ? entry.result && !entry.result.proves
    : entry.type === "decision" ? entry.source === "fallback" || entry.rejected > 0
    : entry.type === "end" ? !["verified", "claimed"].includes(entry.status)
    : entry.type === "checkpoint" ? Boolean(entry.problem) : false;
}

export function belongsTo(entry, filter) {
  return filter === "all" || (filter === "problems" ? isProblem(entry) : KINDS[entry.type]?.[1] === filter);
}

export function titleOf(entry) {
  switch (entry.type) {
    case "task": return html`<strong>${BEGINNINGS[entry.how]}</strong>${entry.task ? ` ${entry.task.text}` : ""}`;
    case "state": return html`${words(entry.from)} → <strong>${words(entry.to)}</strong>`;
    case "decision":
      return html`<strong>${decisionName(entry.kind, entry.agent)}</strong> ${badge("plain", sourceName(entry.source))} ${entry.reason.text}`;
    case "model_call":
      return html`<strong>${ARBITER[entry.purpose] ?? entry.purpose}</strong> ${entry.state === "done" ? nothing : badge(entry.state)}
        ${entry.answer ? answerName(entry.answer) : entry.error?.text ?? UNANSWERED[entry.state]}`;
    case "tool_call":
      return html`<strong>${entry.tool}</strong> ${entry.state === "done" ? nothing : badge(entry.state)} <code>${entry.title}</code>`;
    case "approval": return html`may ${entry.agent} call <strong>${entry.tool}</strong>, ${entry.needs}? ${entry.answer ?? badge("open", "waits")}`;
    case "memories_told": return html`${entry.agent} was given ${counted(entry.memories.length, "memory").replace("memorys", "memories")}`;
    case "memories_used": return html`${entry.agent} used ${entry.uses.filter((use) => use.cited || use.touched).length} of ${entry.uses.length} memories`;
    case "memory_kept": return html`${entry.agent}: ${entry.title}`;
    case "checkpoint": return entry.problem ? html`${badge("failed")} ${entry.problem.text}` : html`The tree was saved`;
    case "verification":
      return entry.result ? html`${badge(entry.result.passed ? "passed" : "failed")} ${entry.commands.join(" · ")}` : html`${badge("open", "runs")} ${entry.commands.join(" · ")}`;
    case "plan": return html`${entry.agent} changed the plan: ${entry.plan.steps.filter((step) => step.status === "complete").length} of ${counted(entry.plan.steps.length, "step")} done`;
    case "notice": return html`${entry.warning ? badge("warn", "warning") : nothing} ${entry.text.text}`;
    case "end": return html`${badge(entry.status)} ${entry.summary.text}`;
    default: return words(entry.type);
  }
}

function figures(entry) {
  const parts = [];
  if (entry.durationMs !== undefined) parts.push(span(entry.durationMs));
  if (entry.usage && (entry.usage.inputTokens || entry.usage.outputTokens || entry.usage.cacheReadTokens)) parts.push(tokenCount(entry.usage), ...price(entry.costUsd));
  if (entry.answer?.cached) parts.push("cached");
  return parts.join(" · ");
}

export function planList(plan) {
  return html`<ol class="plan">${plan.steps.map((step, at) => html`<li class=${at === plan.currentStepIndex && !plan.isComplete ? "current" : ""}>
    ${badge(step.status === "in_progress" ? "running" : step.status, words(step.status))} ${step.description}</li>`)}</ol>`;
}

function runList(runs, heading) {
  if (!runs?.length) return nothing;
  return html`<h5>${heading}</h5>${runs.map((run) => html`<section class="run">
    <p>${badge(run.exitCode === 0 ? "passed" : "failed", run.exitCode === undefined ? "no exit status" : `exit ${run.exitCode}`)}
      <code>${run.command}</code> ${span(run.durationMs)}
      ${run.counts ? html`<span class="faint">${Object.entries(run.counts).map(([name, count]) => `${count} ${words(name)}`).join(", ")}</span>` : nothing}</p>
    ${run.output ? block({ text: run.output }, `Output of ${run.command}`) : nothing}
  </section>`)}`;
}

export function verificationDetail(entry) {
  const result = entry.result;
  if (!result) return html`<p>${badge("open", "runs")} ${entry.commands.join(", ")}</p>`;
  const { verification } = result;
  const integrity = verification.integrity;
  return html`<div>
    <p>${badge(result.proves ? "verified" : result.passed ? "claimed" : "failed", result.proves ? "proves the work" : result.passed ? "proves nothing" : "failed")}
      ${result.doubt ? result.doubt.message : nothing}</p>
    ${runList(verification.runs, "Commands")}
    ${integrity ? html`<h5>The checks themselves</h5><p>${words(integrity.result)}</p>
      ${integrity.changed?.length ? html`<ul>${integrity.changed.map((change) => html`<li><code>${change.path}</code> ${words(change.kind ?? change.what ?? "")}</li>`)}</ul>` : nothing}` : nothing}
    ${verification.original ? html`${runList(verification.original.runs, "The original checks on the new code")}
      ${verification.original.problem ? html`<p>${verification.original.problem}</p>` : nothing}` : nothing}
    ${runList(verification.baseline?.runs, "The same commands before this task began")}
    ${runList(verification.flaky, "Another result on the same tree")}
    ${verification.tree ? html`<p class="faint">tree <code>${verification.tree}</code></p>` : nothing}
  </div>`;
}

// What an entry has to say beyond its line. `whole` is the entry with its texts in full, or the decision, once loaded.
function detail(entry, whole) {
  switch (entry.type) {
    case "task": return whole.task ? block(whole.task, "Task") : nothing;
    case "decision": return decisionDetail(whole);
    case "model_call": return html`${facts([
        ["Model", `${whole.model} (${whole.provider})`], ["State", words(whole.state)], ["Ended", words(whole.answer?.stopReason ?? "")],
        ["Time", span(whole.durationMs)], ["Input tokens", whole.usage?.inputTokens], ["Cache read", whole.usage?.cacheReadTokens],
        ["Output tokens", whole.usage?.outputTokens], ["Cost", whole.usage ? money(whole.costUsd) : undefined], ["Record", whole.record]])}
      ${whole.error ? block(whole.error, "Error") : nothing}
      ${whole.answer ? html`${block(whole.answer.text, "Answer")}
        ${whole.answer.tools.length ? html`<p>Calls ${whole.answer.tools.join(", ")}.</p>` : nothing}
        ${whole.answer.thinking ? html`<details><summary>Thinking</summary>${block(whole.answer.thinking, "Thinking")}</details>` : nothing}` : nothing}`;
    case "tool_call": return html`${facts([
        ["Agent", whole.agent], ["Allowed", whole.allowed ? "yes" : "no"], ["Rule", whole.rule], ["State", words(whole.state)],
        ["Exit status", whole.result?.exitCode], ["Time", span(whole.durationMs)], ["Files written", whole.result?.filesModified?.join(", ")],
        ["Pictures", whole.result?.pictures || undefined], ["Record", whole.record]])}
      <h4>Arguments</h4>${block(whole.input, "Arguments")}
      <h4>Result</h4>${whole.result ? block(whole.result.content, "Result") : html`<p>There is none yet.</p>`}`;
    case "approval": return facts([["Agent", whole.agent], ["Tool", whole.tool], ["Needs", whole.needs], ["Until", clock(whole.until)], ["Answer", whole.answer ?? "none yet"]]);
    case "memories_told": return html`<ul>${whole.memories.map((memory) => html`<li><code>${memory.path}</code> ${memory.title} <span class="faint">score ${memory.score.toFixed(0)}</span></li>`)}</ul>`;
    case "memories_used": return html`<ul>${whole.uses.map((use) => html`<li><code>${use.path}</code> ${use.cited ? "cited" : use.touched ? "its files were touched" : "not used"}</li>`)}</ul>`;
    case "memory_kept": return html`<p>${whole.kept.as === "refused" ? `Not kept: ${whole.kept.message}` : whole.kept.as === "written" ? `Kept as ${whole.kept.path}` : `Added to ${whole.kept.path}`}</p>`;
    case "checkpoint": return whole.problem ? block(whole.problem, "Problem") : html`<p><code>${whole.checkpoint}</code></p>`;
    case "verification": return verificationDetail(whole);
    case "plan": return planList(whole.plan);
    case "notice": return block(whole.text, "Note");
    case "end": return html`${facts([["Cost of this task", money(whole.costUsd)], ["Time", span(whole.durationMs)]])}${block(whole.summary, "Summary")}`;
    default: return nothing;
  }
}

// Whether everything that an entry has to say stands in its line.
function isPlain(entry) {
  return entry.type === "state" || (entry.type === "notice" && entry.text.text.length < 120 && !entry.text.cutBytes) || (entry.type === "task" && !entry.task);
}

export function entryLine(entry, page) {
  const offset = span(Math.max(0, entry.at - page.head.createdAt));
  const line = html`<span class="at" title=${clock(entry.at)}>${offset}</span><span class="kind">${KINDS[entry.type]?.[0] ?? words(entry.type)}</span>
    <span class="title">${titleOf(entry)}</span><span class="figures">${figures(entry)}</span>`;
  const style = `entry ${entry.type} ${isProblem(entry) ? "problem" : ""} ${entry.shared ? "shared" : ""}`;
  if (isPlain(entry)) return html`<li class=${style}><div class="line">${line}</div></li>`;
  const key = `entry ${entry.number}`;
  const loaded = page.details.get(key);
  return html`<li class=${style}>
    <details id=${`entry-${entry.number}`} ?open=${page.open.has(key)} @toggle=${(event) => page.toggle(event, key, entry)}>
      <summary class="line">${line}</summary>
      ${page.open.has(key) ? html`<div class="detail">${loaded?.error ? html`<p role="alert">${loaded.error}</p>`
        : loaded?.value ? detail(entry, loaded.value) : html`<p class="faint">Loading …</p>`}</div>` : nothing}
    </details></li>`;
}
