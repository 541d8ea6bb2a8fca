// A decision: what the arbiter saw, what it answered, which rules there are, what else was possible.
import { html, nothing } from "./vendor/lit-html.js";
import { badge, block, decisionName, facts, jsonBlock, money, sourceName, span, tokenCount, words } from "./format.js";

function inWords(decision) {
  if (!decision) return nothing;
  const reason = decision.reason ?? decision.summary;
  return html`<strong>${decisionName(decision.type, decision.mode)}</strong>${reason ? `: ${reason}` : ""}`;
}

function messageText(message) {
  return message.content
    .map((part) => {
      switch (part.type) {
        case "text": return part.text;
        case "thinking": return `[thinking]\n${part.thinking}`;
        case "tool_use": return `[calls ${part.name}]\n${JSON.stringify(part.input, null, 2)}`;
        case "tool_result": return `[result]\n${part.content}`;
        default: return `[${part.type}]`;
      }
    })
    .join("\n\n");
}

function answerOf(call) {
  const answer = call.answer;
  switch (answer.type) {
    case "replied":
      return html`<p>Answered after ${span(answer.durationMs)}, ${tokenCount(answer.usage)}.</p>
        ${block({ text: messageText(answer.message) }, "Answer")}`;
    case "failed":
      return html`<p>${badge("failed")} ${answer.error.message}</p>`;
    case "lost":
      return html`<p>${badge("lost")} The process ended before the answer was recorded.</p>`;
    default:
      return html`<p>${badge("dropped")} The run stopped waiting for the answer.</p>`;
  }
}

function askedCall(call, at) {
  return html`<section>
    <h5>Model call ${at + 1}: ${call.model} (${call.provider})</h5>
    <details><summary>System prompt</summary>${block({ text: call.system }, "System prompt")}</details>
    <details><summary>The question, ${call.messages.length === 1 ? "one message" : `${call.messages.length} messages`}</summary>
      ${call.messages.map((message) => html`<h6>${message.role}</h6>${block({ text: messageText(message) }, `Message of ${message.role}`)}`)}
    </details>
    ${answerOf(call)}
    ${call.rejected ? html`<p>${badge("failed", "not usable")} ${call.rejected}</p>` : nothing}
  </section>`;
}

export function decisionDetail(decision) {
  if (decision.problem) return html`<p>${decision.problem}</p>`;
  const { alternatives } = decision;
  return html`<div class="decision">
    <p class="lead">${inWords(decision.decision)}</p>
    ${facts([
      ["Question", decision.point === "select" ? "which agent works next" : "how to go on"],
      ["Decided by", sourceName(decision.source)],
      ["Rule", decision.rule],
      ["Instead of", decision.insteadOf ? inWords(decision.insteadOf) : undefined],
      ["State", words(decision.state)],
      ["Time", span(decision.latencyMs)],
      ["Tokens", tokenCount(decision.usage)],
      ["Cost", money(decision.costUsd)],
      ["Record", decision.record],
    ])}
    <h4>Alternatives</h4>
    ${alternatives.rules ? html`<p>The rules would have decided: ${inWords(alternatives.rules)}</p>` : html`<p>No rule had an opinion.</p>`}
    ${alternatives.kinds.length ? html`<p>Also possible: ${alternatives.kinds.join(", ")}</p>` : nothing}
    ${alternatives.agents.length
      ? html`<ul>${alternatives.agents.map((agent) => html`<li><strong>${agent.name}</strong>: ${agent.whenToUse}</li>`)}</ul>`
      : nothing}
    ${decision.rejected.length
      ? html`<h4>Answers that could not be used</h4><ul>${decision.rejected.map((why) => html`<li>${why}</li>`)}</ul>`
      : nothing}
    <h4>Answers</h4>
    ${decision.calls.length ? decision.calls.map(askedCall) : html`<p>No model was asked.</p>`}
    <h4>Input</h4>
    ${decision.input ? jsonBlock(decision.input, "Input of the decision") : html`<p>A person decided: there was no input.</p>`}
  </div>`;
}
