// The list of all sessions.
import { html, nothing } from "./vendor/lit-html.js";
import { badge, clock, counted, money, span } from "./format.js";

function statusBadge(session) {
  if (session.outcome) return badge(session.outcome.status);
  if (session.approvalUntil) return badge("open", "needs approval");
  return badge(session.status);
}

// Whether a session has each of the words that are looked for.
function matches(session, words) {
  const text = `${session.task} ${session.id} ${session.outcome?.status ?? session.status}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

export function startView(project, sessions, search, look) {
  const found = sessions.filter((session) => matches(session, search.toLowerCase().split(/\s+/)));
  const costs = sessions.map((session) => session.costUsd).filter((cost) => cost !== undefined && cost !== null);
  return html`<header class="top"><h1>${project.name}: sessions</h1>
      <p class="faint"><code>${project.folder}</code></p>
      <p class="faint">${counted(sessions.length, "session")}${costs.length ? `, ${money(costs.reduce((sum, cost) => sum + cost, 0))} in all` : nothing}</p>
      ${sessions.length ? html`<p><input type="search" placeholder="Search tasks, ids, statuses" aria-label="Search sessions" .value=${search} @input=${(event) => look(event.target.value)}></p>` : nothing}</header>
    <main>${sessions.length && !found.length ? html`<p role="status">No session has these words.</p>` : nothing}
      ${sessions.length ? html`<ul class="sessions">${found.map((session) => html`<li>
      <a href=${`#/${encodeURIComponent(session.id)}`}>${session.task || session.id}</a>
      <p class="faint">${statusBadge(session)}
        ${session.status === "unreadable" ? session.problem : html`<span>${session.outcome ? `${money(session.costUsd)} · ${span(session.outcome.durationMs)}` : nothing}
          ${session.iterations === undefined ? nothing : ` · ${counted(session.iterations, "execution")}`}${session.createdAt ? html` · <time datetime=${new Date(session.createdAt).toISOString()}>${clock(session.createdAt)}</time>` : nothing}
          ${session.forkedFrom ? html` · forked from <code>${session.forkedFrom.session}</code>` : nothing}</span>`}
      </p>
      <code class="faint">${session.id}</code></li>`)}</ul>` : html`<p>There are no sessions yet. To start one: <code>rawko "a task"</code></p>`}</main>`;
}
