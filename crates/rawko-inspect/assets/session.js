// The page of one session.
import { html, nothing } from "./vendor/lit-html.js";
import { badge, clock, counted, facts, money, price, span, tokenCount, words } from "./format.js";
import { diagram } from "./diagram.js";
import { diffDetail } from "./diff.js";
import { FILTERS, belongsTo, entryLine, planList, titleOf, verificationDetail } from "./entries.js";

// Sessions with more entries than this open with their last execution alone.
const OPEN_ENTRIES = 250;
const COMPARED = 200;
// Entries of one open execution that are drawn at a time.
const DRAWN = 500;

export function statusOf(standing, head) {
  if (standing.approvalUntil && !head.outcome) return ["open", "needs approval"];
  if (head.outcome) return [head.outcome.status, head.outcome.status];
  return standing.status === "running" || standing.status === "not_begun" ? [standing.status, words(standing.status)] : ["unfinished", "unfinished"];
}

// What is known of the session that is shown, and what of it is open.
export function sessionPage(source, id, machine, session, redraw) {
  const page = {
    source, id, machine, redraw, head: session.head, standing: session.standing, entries: session.entries,
    open: new Set(), details: new Map(), filter: "all", drawn: new Map(), parent: undefined, isConnected: true, stop: () => {},
  };
  const executions = page.head.executions;
  if (page.entries.length <= OPEN_ENTRIES) for (const number of [0, ...executions.map((one) => one.number)]) page.open.add(`execution ${number}`);
  else page.open.add(`execution ${executions.at(-1)?.number ?? 0}`);

  page.load = async (key, get) => {
    try {
      page.details.set(key, { value: await get() });
    } catch (error) {
      page.details.set(key, { error: error.message });
    }
    page.redraw();
  };
  page.set = (event, key) => {
    const isOpen = event.currentTarget.open;
    if (isOpen === page.open.has(key)) return false;
    if (isOpen) page.open.add(key);
    else page.open.delete(key);
    page.redraw();
    return isOpen;
  };
  page.toggle = (event, key, entry) => {
    if (page.set(event, key) && !page.details.get(key)?.value) page.loadEntry(key, entry);
  };
  page.loadEntry = (key, entry) =>
    page.load(key, () => (entry.type === "decision" ? source.decision(id, entry.decision) : source.entry(id, entry.number)));
  page.toggleDiff = (event, key, number) => {
    if (page.set(event, key)) page.load(key, () => source.diff(id, number));
  };
  // The diff of the whole session is open: loaded at the start, and again where more was saved or the session ended.
  const standOf = (head) => `${head.executions.filter((one) => one.hasCheckpoint).length} ${Boolean(head.outcome)}`;
  page.loadDiff = () => {
    if (page.head.executions.some((one) => one.hasCheckpoint) && page.open.has("diff 0")) page.load("diff 0", () => source.diff(id, 0));
  };
  page.change = (news) => {
    const before = standOf(page.head);
    const begun = page.head.executions.length;
    page.head = news.head;
    page.standing = { ...news.standing, forks: page.standing.forks };
    page.isConnected = true;
    for (const entry of news.entries) {
      page.entries[entry.number] = entry;
      const key = `entry ${entry.number}`;
      if (page.open.has(key)) page.loadEntry(key, entry);
    }
    for (const execution of news.head.executions.slice(begun)) page.open.add(`execution ${execution.number}`);
    if (standOf(page.head) !== before) page.loadDiff();
    page.redraw();
  };
  page.follow = () => {
    page.stop();
    page.stop = source.follow(id, page.head.records, page.change, () => {
      page.isConnected = false;
      page.redraw();
    });
  };
  page.open.add("diff 0");
  page.loadDiff();
  const from = page.head.forkedFrom;
  if (from) source.session(from.session).then((parent) => { page.parent = parent; page.redraw(); }, () => {});
  return page;
}

function overview(page) {
  const { head, standing } = page;
  const outcome = head.outcome;
  const [status, label] = statusOf(standing, head);
  const several = head.tasks.length > 1;
  const worked = head.agents.filter((agent) => head.executions.some((execution) => execution.agent === agent.name));
  const last = outcome ? head.createdAt + outcome.durationMs : head.updatedAt;
  return html`<section class="overview" aria-labelledby="overview">
    <h2 id="overview" class="hidden">Overview</h2>
    <p role="status">${badge(status, label)} ${page.isConnected ? nothing : badge("bad", "connection lost")}
      ${!outcome && standing.status === "running" ? html`<span class="faint">in the state ${words(head.state)}${head.executions.length ? `, ${head.executions.at(-1).agent} works` : ""}</span>` : nothing}</p>
    ${outcome ? html`<p class="summary">${outcome.summary}</p>` : nothing}
    ${head.damage ? html`<p role="alert">${badge("failed", "damaged")} ${head.damage}</p>` : nothing}
    ${facts([
      [several ? "Cost of all tasks" : "Cost", money(head.costUsd, "")], [outcome && several ? "Time of the last task" : "Time", span(outcome ? outcome.durationMs : last - head.createdAt)], ["Tokens", tokenCount(head.usage)],
      ["Executions", head.executions.length], ["Begun", clock(head.createdAt)], ["Records", head.records],
      ["Doubt", outcome?.doubt?.message], ["Limit", outcome?.limit], ["Error", outcome?.error ? `${outcome.error.code}: ${outcome.error.message}` : undefined],
      ["Files changed", outcome?.filesModified?.length ? outcome.filesModified.join(", ") : undefined],
      ["Shared with its parent", outcome?.shared ? `${counted(outcome.shared.iterations, "execution")}, ${money(outcome.shared.costUsd)}, not counted here` : undefined],
      ["Forks", standing.forks?.length ? standing.forks.map((fork) => html`<a href=${`#/${encodeURIComponent(fork)}`}>${fork}</a> `) : undefined],
      ["Agents that worked", worked.map((agent) => `${agent.name} (${agent.model})`).join(", ")],
    ])}
    ${head.plan ? html`<h3>Plan</h3>${planList(head.plan)}` : nothing}
  </section>`;
}

function path(page) {
  const jump = (number) => {
    page.open.add(`execution ${number}`);
    page.redraw();
    const group = document.getElementById(`execution-${number}`);
    group?.scrollIntoView();
    group?.querySelector("summary")?.focus();
  };
  return html`<section aria-labelledby="path"><h2 id="path" tabindex="-1">State and path</h2>
    ${diagram(page.machine, page.head)}
    ${page.head.executions.length ? html`<h3>Executions</h3><ol class="path">${page.head.executions.map((execution) => html`<li>
      <button type="button" @click=${() => jump(execution.number)}>${execution.number} ${execution.agent}</button></li>`)}</ol>` : nothing}
  </section>`;
}

function group(page, number, execution, entries) {
  const key = `execution ${number}`;
  const shown = entries.filter((entry) => belongsTo(entry, page.filter));
  const isOpen = page.open.has(key);
  const from = Math.max(0, shown.length - (page.drawn.get(number) ?? DRAWN));
  const label = execution ? html`<strong>${number}</strong> ${execution.agent}` : html`Before the first execution`;
  const counts = execution
    ? [span((execution.endedAt ?? page.head.updatedAt) - execution.startedAt), counted(execution.modelCalls, "turn"), counted(execution.toolCalls, "call"), ...price(execution.costUsd)]
    : [];
  return html`<details class="execution" id=${`execution-${number}`} ?open=${isOpen} @toggle=${(event) => event.target === event.currentTarget && page.set(event, key)}>
    <summary><h3>${label} ${execution && !execution.endedAt ? badge("running", "works") : nothing} ${execution?.shared ? badge("plain", "shared") : nothing}</h3>
      <span class="figures">${counts.join(" · ")}</span></summary>
    ${isOpen ? html`${from ? html`<button type="button" @click=${() => { page.drawn.set(number, shown.length); page.redraw(); }}>Show ${from} earlier entries</button>` : nothing}
      <ol class="entries">${shown.slice(from).map((entry) => entryLine(entry, page))}</ol>` : nothing}
  </details>`;
}

function timeline(page) {
  const executions = new Map(page.head.executions.map((one) => [one.number, one]));
  const groups = new Map();
  for (const entry of page.entries) {
    if (!entry) continue;
    if (!groups.has(entry.execution)) groups.set(entry.execution, []);
    groups.get(entry.execution).push(entry);
  }
  const choose = (name) => {
    page.filter = name;
    page.redraw();
  };
  return html`<section aria-labelledby="timeline"><h2 id="timeline" tabindex="-1">Timeline</h2>
    <div class="filters" role="group" aria-label="Show in the timeline">${Object.entries(FILTERS).map(([name, label]) => html`<button type="button"
      aria-pressed=${page.filter === name ? "true" : "false"} @click=${() => choose(name)}>${label}</button>`)}</div>
    ${[...groups].map(([number, entries]) => group(page, number, executions.get(number), entries))}
  </section>`;
}

function changes(page) {
  const changed = page.head.executions.filter((execution) => execution.hasCheckpoint);
  const one = (number, label) => {
    const key = `diff ${number}`;
    const loaded = page.details.get(key);
    return html`<details ?open=${page.open.has(key)} @toggle=${(event) => page.toggleDiff(event, key, number)}><summary>${label}</summary>
      ${page.open.has(key) ? html`<div class="detail">${loaded?.error ? html`<p role="alert">${loaded.error}</p>` : loaded ? diffDetail(loaded.value) : html`<p class="faint">Loading …</p>`}</div>` : nothing}
    </details>`;
  };
  return html`<section aria-labelledby="changes"><h2 id="changes" tabindex="-1">Changes</h2>
    ${changed.length ? html`${one(0, html`<strong>The whole session</strong>`)}
      ${changed.map((execution) => one(execution.number, html`<strong>Execution ${execution.number}</strong> ${execution.agent}`))}`
      : html`<p>Nothing was about to change a file, so no files were saved.</p>`}
  </section>`;
}

function verifications(page) {
  const found = page.entries.filter((entry) => entry?.type === "verification");
  return html`<section aria-labelledby="verification"><h2 id="verification" tabindex="-1">Verification</h2>
    ${found.length ? found.map((entry, at) => html`<details ?open=${at === found.length - 1}><summary>${titleOf(entry)} <span class="faint">after execution ${entry.execution}</span></summary>
      <div class="detail">${verificationDetail(entry)}</div></details>`) : html`<p>No verification command was run.</p>`}
  </section>`;
}

function memories(page) {
  const uses = new Map();
  for (const entry of page.entries) {
    if (entry?.type === "memories_used") for (const use of entry.uses) uses.set(`${entry.iteration} ${use.path}`, use);
  }
  const given = page.entries.filter((entry) => entry?.type === "memories_told").flatMap((entry) => entry.memories.map((memory) => ({ entry, memory })));
  const kept = page.entries.filter((entry) => entry?.type === "memory_kept");
  const used = ({ entry, memory }) => {
    const use = uses.get(`${entry.iteration} ${memory.path}`);
    return !use ? "not known" : use.cited ? "cited" : use.touched ? "its files were touched" : "not used";
  };
  return html`<section aria-labelledby="memories"><h2 id="memories" tabindex="-1">Memories</h2>
    ${given.length ? html`<div class="scroll" tabindex="0" role="region" aria-label="Memories that agents were given"><table>
      <thead><tr><th scope="col">Execution</th><th scope="col">Agent</th><th scope="col">Memory</th><th scope="col">Score</th><th scope="col">Used</th></tr></thead>
      <tbody>${given.map((one) => html`<tr><td>${one.entry.iteration}</td><td>${one.entry.agent}</td><td>${one.memory.title} <code>${one.memory.path}</code></td>
        <td>${one.memory.score.toFixed(0)}</td><td>${used(one)}</td></tr>`)}</tbody></table></div>` : html`<p>No agent was given memories.</p>`}
    ${kept.length ? html`<h3>Learned</h3><ul>${kept.map((entry) => html`<li>${entry.agent}: ${entry.title} <span class="faint">${words(entry.kept.as)} ${entry.kept.path ?? entry.kept.message}</span></li>`)}</ul>` : nothing}
  </section>`;
}

function branch(name, view, standing, entries, isOwn) {
  const [status, label] = statusOf(standing, view);
  const kinds = ["decision", "tool_call", "verification", "task", "end"];
  const shown = entries.filter((entry) => kinds.includes(entry?.type));
  return html`<div class="branch"><h3>${name} ${isOwn ? html`<code>${view.id}</code>` : html`<a href=${`#/${encodeURIComponent(view.id)}`}><code>${view.id}</code></a>`}</h3>
    <p>${badge(status, label)} ${money(view.costUsd)} · ${span(view.outcome?.durationMs ?? view.updatedAt - view.createdAt)} · ${counted(view.executions.length, "execution")}</p>
    <ol class="entries">${shown.slice(0, COMPARED).map((entry) => html`<li class=${`entry ${entry.type}`}><div class="line"><span class="kind">${words(entry.type)}</span><span class="title">${titleOf(entry)}</span></div></li>`)}</ol>
    ${shown.length > COMPARED ? html`<p class="faint">${shown.length - COMPARED} more</p>` : nothing}
    ${shown.length ? nothing : html`<p class="faint">Nothing follows.</p>`}</div>`;
}

function fork(page) {
  const from = page.head.forkedFrom;
  if (!from) return nothing;
  const shared = page.entries.filter((entry) => entry?.shared);
  return html`<section aria-labelledby="fork"><h2 id="fork" tabindex="-1">Beside its parent</h2>
    <p class="branching">${shared.length ? `They share the first ${from.record} records of the parent. Here they part.` : "They share the setup alone: this session has a task of its own."}</p>
    ${page.parent ? html`<div class="branches">
        ${branch("Parent", page.parent.head, page.parent.standing, page.parent.entries.filter((entry) => entry.record > (shared.length ? from.record : 0)), false)}
        ${branch("This fork", page.head, page.standing, page.entries.filter((entry) => entry && !entry.shared), true)}</div>`
      : html`<p>The parent, <code>${from.session}</code>, cannot be shown.</p>`}
  </section>`;
}

export function sessionView(page) {
  const sections = [["changes", "Changes"], ["path", "Path"], ["timeline", "Timeline"], ["verification", "Verification"], ["memories", "Memories"], ...(page.head.forkedFrom ? [["fork", "Parent"]] : [])];
  const go = (id) => {
    const heading = document.getElementById(id);
    heading?.scrollIntoView();
    heading?.focus();
  };
  return html`<header class="top">
      ${page.source.isLive ? html`<a href="#/">All sessions</a>` : nothing}
      <h1>${page.head.task.text.length > 160 ? `${page.head.task.text.slice(0, 160)} …` : page.head.task.text || "A session without a task"}</h1>
      <p class="faint">${page.head.project ? html`${page.head.project} · ` : nothing}<code>${page.head.id}</code></p>
      <nav aria-label="Parts of this page">${sections.map(([id, label]) => html`<button type="button" @click=${() => go(id)}>${label}</button>`)}</nav>
    </header>
    <main>
      ${page.head.task.text.length > 160 ? html`<details class="whole-task"><summary>The whole task</summary><pre tabindex="0" aria-label="Task">${page.head.task.text}</pre></details>` : nothing}
      <div class="columns"><div>${overview(page)}${changes(page)}</div>${path(page)}</div>
      ${timeline(page)}${verifications(page)}${memories(page)}${fork(page)}
    </main>`;
}
