// The list of all sessions.
import { html, nothing } from "./vendor/lit-html.js";
import { badge, clock, counted, money, span } from "./format.js";

function statusBadge(session) {
  if (session.outcome) return badge(session.outcome.status);
  if (session.approvalUntil) return badge("open", "needs approval");
  return badge(session.status);
}

export function startView(sessions) {
  const costs = sessions.map((session) => session.costUsd).filter((cost) => cost !== undefined && cost !== null);
  return html`<header class="top"><h1>Sessions</h1>
      <p class="faint">${counted(sessions.length, "session")}${costs.length ? `, ${money(costs.reduce((sum, cost) => sum + cost, 0))} in all` : nothing}</p></header>
    <main>${sessions.length ? html`<ul class="sessions">${sessions.map((session) => html`<li>
      <a href=${`#/${encodeURIComponent(session.id)}`}>${session.task || session.id}</a>
      <p class="faint">${statusBadge(session)}
        ${session.status === "unreadable" ? session.problem : html`<span>${session.outcome ? `${money(session.costUsd)} · ${span(session.outcome.durationMs)}` : nothing}
          ${session.iterations === undefined ? nothing : ` · ${session.iterations} executions`} · <time datetime=${new Date(session.createdAt).toISOString()}>${clock(session.createdAt)}</time>
          ${session.forkedFrom ? html` · forked from <code>${session.forkedFrom.session}</code>` : nothing}</span>`}
      </p>
      <code class="faint">${session.id}</code></li>`)}</ul>` : html`<p>There are no sessions yet. To start one: <code>rawko "a task"</code></p>`}</main>`;
}
