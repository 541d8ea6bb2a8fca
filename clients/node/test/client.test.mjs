// Whole runs of the real program, driven by the client.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, renameSync } from "node:fs";
import path from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

import { Rawko, RawkoError, RawkoNotFound, RunLost } from "../index.mjs";
import { BINARY, HANGS, WRITES, World, all, calls, complete, report, select } from "./world.mjs";

const CLIENT = fileURLToPath(new URL("../index.mjs", import.meta.url));

const PROGRAM_THAT_DIES = `
  import { Rawko } from ${JSON.stringify(CLIENT)};
  const run = await new Rawko({ project: ${JSON.stringify("PROJECT")}, binary: ${JSON.stringify(BINARY)} }).run("Think.");
  console.log((await run.started()).session);
  await run.outcome();
`;

/** What a newer rawko may print. */
const NEWER = String.raw`#!/bin/sh
echo 'no JSON'
echo '[1]'
echo '{"type":"session_started","session":"s1","task":"t","at":1,"agents":[],"journal":"j","resumed":false,"degraded":[],"new":1}'
echo '{"type":"moon_rose","phase":"full"}'
printf '%s\n' '{"type":"session_finished","session":"s1","status":"shining","summary":"a` + "\u2028" + String.raw`b"}'
`;

test("a verified run with its events", async (t) => {
  const world = new World(t);
  const run = await world.rawko(WRITES).run("Write the answer.", { verify: ["grep -q 42 answer.txt"] });
  const seen = await all(run);
  const outcome = await run.outcome();
  assert.deepEqual([outcome.status, run.exitCode, outcome.filesModified], ["verified", 0, ["answer.txt"]]);
  assert.ok(existsSync(path.join(world.project, "answer.txt")));
  assert.equal(seen[0].type, "session_started");
  assert.equal(seen.at(-1), outcome);
  const called = seen.filter((event) => event.type === "tool_called").map((event) => event.call.name);
  assert.deepEqual(called, ["Write", "Report"]);
  assert.deepEqual(await all(run), []);
});

test("a run is steered and cancelled", async (t) => {
  const run = await new World(t).rawko(HANGS).run("Think.");
  for await (const event of run) if (event.type === "agent_started") break;
  assert.equal((await run.say("--not an option")).taken, true);
  const paused = await run.pause();
  const again = await run.pause();
  assert.deepEqual([paused.taken, again.taken], [true, false]);
  assert.ok(again.reason);
  assert.equal((await run.go()).taken, true);
  assert.equal((await run.cancel()).status, "cancelled");
  assert.equal((await run.cancel()).status, "cancelled");
  const steered = (await all(run)).filter((event) => event.type === "steered" && !event.ignored);
  assert.deepEqual(
    steered.map((event) => event.command),
    [{ type: "say", text: "--not an option" }, { type: "pause" }, { type: "go" }],
  );
  await assert.rejects(run.force("nobody"), RawkoError);
});

async function asked(t, allow) {
  const world = new World(t);
  const script = [select("developer"), calls("Bash", { command: "echo made >> made" }), report(), complete()];
  const run = await world.rawko(script, { permissions: { ask: ["commands"], run: ["cat"] } }).run("Make it.");
  let answer;
  for await (const event of run) {
    if (event.type === "approval_requested") {
      await assert.rejects(run.approve("0000"), /another call/);
      await (allow ? run.approve(event) : run.deny(event));
    }
    if (event.type === "approval_answered") answer = event.answer;
  }
  await run.outcome();
  return { answer, made: path.join(world.project, "made") };
}

test("a question is answered with yes", async (t) => {
  const { answer, made } = await asked(t, true);
  assert.equal(answer, "allowed");
  assert.equal(readFileSync(made, "utf8"), "made\n");
});

test("a question is answered with no", async (t) => {
  const { answer, made } = await asked(t, false);
  assert.equal(answer, "denied");
  assert.ok(!existsSync(made));
});

test("closing cancels the run", async (t) => {
  const run = await new World(t).rawko(HANGS).run("Think.");
  await run.started();
  await run.close();
  assert.deepEqual([(await run.outcome()).status, run.exitCode], ["cancelled", 130]);
});

test("a session is continued", async (t) => {
  const world = new World(t);
  const { session } = await (await world.rawko(WRITES).run("Write the answer.")).outcome();
  const rawko = world.rawko([select("developer"), report(), complete()]);
  const second = await rawko.continueSession(session, "Say that it is done.");
  const started = await second.started();
  assert.deepEqual([started.session, started.continued], [session, true]);
  const { earlierTasks } = await second.outcome();
  assert.deepEqual(earlierTasks.map(({ task }) => task), ["Write the answer."]);
});

test("a client that dies cancels its run", async (t) => {
  const world = new World(t);
  const rawko = world.rawko(HANGS);
  const program = PROGRAM_THAT_DIES.replace("PROJECT", world.project);
  const client = spawn(process.execPath, ["--input-type=module", "-e", program], {
    env: { ...process.env, ...world.env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [words] = await once(client.stdout, "data");
  const session = String(words).trim();
  client.kill("SIGKILL");
  // `watch` follows the session to its end.
  await assert.rejects(rawko.command("watch", "--output=json", session), { exitCode: 130 });
  const { stdout } = await rawko.command("sessions", "list", "--json");
  const listed = JSON.parse(stdout).find(({ id }) => id === session);
  assert.equal(listed.outcome.status, "cancelled");
});

test("the example of the readme runs", async (t) => {
  const world = new World(t);
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const example = readme.split("```js\n")[1].split("```")[0].replace('"rawko-client"', JSON.stringify(CLIENT));
  // What it may cost is known alone where the model has a price.
  const prices = { scripted: { input: 0, output: 0 } };
  world.rawko([select("developer"), calls("Bash", { command: "true" }), report(), complete()], { prices });
  renameSync(world.program(`#!/bin/sh\nexec '${BINARY}' "$@"\n`), path.join(world.root, "rawko"));
  const client = spawn(process.execPath, ["--input-type=module", "-e", example], {
    cwd: world.project,
    env: { ...process.env, ...world.env, PATH: `${world.root}${path.delimiter}${process.env.PATH}` },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let said = "";
  client.stdout.on("data", (words) => (said += words));
  await once(client, "close");
  assert.deepEqual(said.trim().split("\n"), ["developer Bash", "developer Report", "claimed []"]);
});

test("a program that is not there is named", async (t) => {
  const { project } = new World(t);
  const missing = new Rawko({ project, binary: "/nowhere/rawko" }).run("Think.");
  await assert.rejects(missing, (error) => {
    return error instanceof RawkoNotFound && /cannot start \/nowhere\/rawko: .*binary/.test(error.message);
  });
  const nowhere = new Rawko({ project: path.join(project, "none"), binary: BINARY }).run("Think.");
  await assert.rejects(nowhere, /is no folder/);
});

test("a refused command line is no outcome", async (t) => {
  const run = await new World(t).rawko(WRITES).run("Write.", { args: ["--no-such-option"] });
  await assert.rejects(run.started(), /no-such-option/);
  await assert.rejects(run.outcome(), (error) => error instanceof RunLost && error.exitCode === 2);
  assert.deepEqual(await all(run), []);
  await assert.rejects(new World(t).rawko(WRITES).run("Write.", { speed: 9 }), /`speed` is no option/);
});

test("a run that cannot begin says why", async (t) => {
  const run = await new World(t).rawko(WRITES).run("Write.", { provider: "nobody" });
  const { status, session } = await run.outcome();
  assert.deepEqual([status, session], ["failed", ""]);
  await assert.rejects(run.started(), /did not begin/);
});

test("what a newer program adds is tolerated", async (t) => {
  const world = new World(t);
  const run = await new Rawko({ project: world.project, binary: world.program(NEWER) }).run("Rise.");
  const seen = await all(run);
  assert.deepEqual(seen.map(({ type }) => type), ["session_started", "moon_rose", "session_finished"]);
  assert.deepEqual([(await run.started()).new, seen[1].phase], [1, "full"]);
  const { status, summary } = await run.outcome();
  assert.deepEqual([status, summary], ["shining", "a\u2028b"]);
});
