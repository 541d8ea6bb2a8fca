// Drives `rawko acp` with the protocol's library in TypeScript. `scripts/test-acp.sh` starts this.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const packages = createRequire(`${process.env.PACKAGES}/package.json`);
const acp = await import(pathToFileURL(packages.resolve("@agentclientprotocol/sdk")));
const project = realpathSync(process.env.PROJECT);

/** A client that allows everything, and keeps what it is shown. */
function editor(work) {
  const child = spawn(process.env.RAWKO, ["acp"], { cwd: project, stdio: ["pipe", "pipe", "inherit"] });
  const shown = { updates: [], asked: [] };
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const client = acp
    .client({ name: "test" })
    .onRequest(acp.methods.client.session.requestPermission, (context) => {
      shown.asked.push(context.params.toolCall.title);
      const option = context.params.options.find((option) => option.kind === "allow_once");
      return { outcome: { outcome: "selected", optionId: option.optionId } };
    })
    .onNotification(acp.methods.client.session.update, (context) => {
      shown.updates.push(context.params.update);
    });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const said = (kind) =>
    shown.updates.filter((it) => it.sessionUpdate === kind).map((it) => it.content.text).join("");
  return client
    .connectWith(stream, async (agent) => {
      await agent.request(acp.methods.agent.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
      return work(agent, shown, said);
    })
    .then(async (result) => {
      child.stdin.end();
      assert.equal(await ended, 0);
      return result;
    });
}

const prompt = (sessionId, text) => ({ sessionId, prompt: [{ type: "text", text }] });
const methods = acp.methods.agent;

const session = await editor(async (agent, shown, said) => {
  const { sessionId, modes } = await agent.request(methods.session.new, { cwd: project, mcpServers: [] });
  assert.equal(modes.currentModeId, "team");
  const refused = agent.request(methods.session.new, { cwd: "relative", mcpServers: [] });
  await assert.rejects(refused, /absolute path/);
  const end = await agent.request(methods.session.prompt, prompt(sessionId, "Write one."));
  assert.equal(end.stopReason, "end_turn");
  assert.deepEqual(shown.asked, ["echo more >> one.txt"]);
  assert.match(said("agent_message_chunk"), /I begin\.[^]*wrote one/);
  assert.equal(shown.updates.find((it) => it.sessionUpdate === "plan").entries[0].content, "write it");
  assert.equal(shown.updates.find((it) => it.sessionUpdate === "tool_call").content[0].type, "diff");
  return sessionId;
});
assert.equal(readFileSync(`${project}/one.txt`, "utf8"), "text\nmore\n");

await editor(async (agent, shown, said) => {
  const { sessions } = await agent.request(methods.session.list, { cwd: project });
  assert.deepEqual(sessions.map((it) => it.sessionId), [session]);
  await agent.request(methods.session.resume, { sessionId: session, cwd: project, mcpServers: [] });
  assert.equal(shown.updates.length, 0);
  const end = await agent.request(methods.session.prompt, prompt(session, "Do more."));
  assert.equal(end.stopReason, "end_turn");
  assert.match(said("agent_message_chunk"), /did more/);
});
console.log("the library in TypeScript: two prompts, a permission, an error, a list, a resume");
