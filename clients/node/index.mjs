// Starts, follows and steers runs of rawko, the program, from Node. The types are in index.d.ts and events.d.ts.

import { spawn } from "node:child_process";
import { statSync } from "node:fs";
import path from "node:path";

/** How much of what the program says on standard error is kept, in characters. */
const KEPT_WORDS = 64 * 1024;

/** The options of `rawko run` that have a name here. */
const VALUES = {
  agent: "--agent",
  provider: "--provider",
  model: "--model",
  maxIterations: "--max-iterations",
  maxTokens: "--max-tokens",
  maxCost: "--max-cost",
  timeout: "--timeout",
};
const FLAGS = { requireVerified: "--require-verified", dryRun: "--dry-run", trust: "--yes" };

/** A command of rawko failed. Its words are those of the program. */
export class RawkoError extends Error {
  constructor(message, { exitCode, command } = {}) {
    super(message);
    this.name = new.target.name;
    this.exitCode = exitCode ?? null;
    this.command = command ?? [];
  }
}

/** The program cannot be started. */
export class RawkoNotFound extends RawkoError {}

/** A run ended without an outcome: its command line was refused, or its process was killed. */
export class RunLost extends RawkoError {}

/** Runs in one project. */
export class Rawko {
  constructor({ project = ".", binary = "rawko", env = {} } = {}) {
    this.project = path.resolve(project);
    this.binary = binary;
    this.env = { ...process.env, ...env };
  }

  /** Starts a run of a task. */
  async run(task, options = {}) {
    const { verify = [], files = [], isolated = false, args = [], ...rest } = options;
    const given = [];
    for (const [name, value] of Object.entries(rest)) {
      if (name in VALUES) {
        if (value !== undefined && value !== null) given.push(`${VALUES[name]}=${value}`);
      } else if (name in FLAGS) {
        if (value) given.push(FLAGS[name]);
      } else {
        throw new TypeError(`\`${name}\` is no option of a run; \`args\` takes further options of \`rawko run\``);
      }
    }
    given.push(...verify.map((command) => `--verify=${command}`), ...files.map((file) => `--file=${file}`));
    if (isolated) given.push("--isolated");
    return this.#stream("run", [...given, ...args, "--", task]);
  }

  /** Gives a session that has ended its next task. */
  async continueSession(session, task, { args = [] } = {}) {
    return this.#stream("continue", [...args, "--", session, task]);
  }

  /** Goes on with an interrupted session. */
  async resume(session, { args = [] } = {}) {
    return this.#stream("resume", [...args, "--", session]);
  }

  /** Runs another command in the project: its exit status, 0 or 1, and what it printed. */
  async command(...words) {
    const child = await this.#start(words);
    const [out, err, code] = await Promise.all([text(child.stdout), text(child.stderr), ended(child)]);
    if ((code !== 0 && code !== 1) || (code === 1 && out === "")) {
      const command = [this.binary, ...words];
      throw new RawkoError(err.trim() || `exit status ${code}`, { exitCode: code, command });
    }
    return { exitCode: code, stdout: out };
  }

  async #stream(name, words) {
    return new Run(this, await this.#start([name, "--output=stream-json", ...words]));
  }

  #start(words) {
    const command = [this.binary, ...words];
    if (!statSync(this.project, { throwIfNoEntry: false })?.isDirectory()) {
      throw new RawkoNotFound(`the project ${this.project} is no folder`, { command });
    }
    const child = spawn(this.binary, words, {
      cwd: this.project,
      env: this.env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    return new Promise((resolve, reject) => {
      child.once("spawn", () => resolve(child));
      child.once("error", (error) => {
        const why = `${error.code ?? error.message}; install rawko, or name it with new Rawko({ binary })`;
        reject(new RawkoNotFound(`cannot start ${this.binary}: ${why}`, { command }));
      });
    });
  }
}

/** A run. Iterate over it for its events; all are kept until they are read. */
export class Run {
  #rawko;
  #child;
  #events = [];
  #waiting = [];
  #isOver = false;
  #words = "";
  #finished = null;
  #started;
  #end;

  constructor(rawko, child) {
    this.#rawko = rawko;
    this.#child = child;
    let begin, fail;
    this.#started = new Promise((resolve, reject) => ([begin, fail] = [resolve, reject]));
    // Nobody may wait for it.
    this.#started.catch(() => {});
    child.stderr.setEncoding("utf8");
    child.stderr.on("data", (words) => (this.#words = (this.#words + words).slice(-KEPT_WORDS)));
    this.#end = this.#read(begin).finally(() => {
      fail(this.#lost());
      this.#isOver = true;
      this.#wake();
    });
    this.#end.catch(() => {});
  }

  /** The exit status, once the process has ended by itself. */
  get exitCode() {
    return this.#child.exitCode;
  }

  /** What the program said on standard error, the end of it. */
  get stderr() {
    return this.#words;
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      if (this.#events.length > 0) yield this.#events.shift();
      else if (this.#isOver) return;
      else await new Promise((resolve) => this.#waiting.push(resolve));
    }
  }

  /** Waits for the beginning, which names the session. */
  started() {
    return this.#started;
  }

  /** Waits for the end. Events can still be read after it. */
  async outcome() {
    await this.#end;
    if (this.#finished === null) throw this.#lost();
    return this.#finished;
  }

  /** Tells the agent that works, or the next one, and the arbiter. */
  say(text) {
    return this.#steer("say", text);
  }

  /** Lets what is under way end, and begins nothing new. */
  pause() {
    return this.#steer("pause");
  }

  /** Ends the pause. */
  go() {
    return this.#steer("go");
  }

  /** Makes this agent work now. */
  force(agent) {
    return this.#steer("force", agent);
  }

  /** Cancels the run, and waits for its end. */
  async cancel() {
    if (this.#isGoingOn()) {
      const { session } = await this.started();
      try {
        await this.#rawko.command("cancel", "--json", "--", session);
      } catch (error) {
        // It may have ended by itself in the meantime.
        if (!(error instanceof RawkoError) || this.#isGoingOn()) throw error;
      }
    }
    return this.outcome();
  }

  /** Answers a question of this run: that of an event, or the one with this digest. */
  async approve(question, { allow = true } = {}) {
    const digest = typeof question === "string" ? question : question.digest;
    const { session } = await this.started();
    const deny = allow ? [] : ["--deny"];
    await this.#rawko.command("approve", "--json", `--call=${digest}`, ...deny, "--", session);
  }

  /** Says no to a question of this run. */
  deny(question) {
    return this.approve(question, { allow: false });
  }

  /** Ends the run if it goes on: it is cancelled, and its process is waited for. */
  async close() {
    if (this.#child.exitCode === null && this.#child.signalCode === null) this.#child.kill("SIGTERM");
    await this.#end;
  }

  async [Symbol.asyncDispose ?? Symbol.for("nodejs.asyncDispose")]() {
    await this.close();
  }

  #isGoingOn() {
    return this.#finished === null && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async #steer(...words) {
    const { session } = await this.started();
    const { stdout } = await this.#rawko.command("steer", "--json", "--", session, ...words);
    const { taken, reason } = JSON.parse(stdout);
    return { taken: Boolean(taken), reason: reason ?? null };
  }

  async #read(begin) {
    const done = ended(this.#child);
    for await (const line of lines(this.#child.stdout)) {
      const event = parse(line);
      if (event === null) continue;
      if (event.type === "session_started") begin(event);
      if (event.type === "session_finished") this.#finished = event;
      this.#events.push(event);
      this.#wake();
    }
    await done;
  }

  #wake() {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  #lost() {
    const status = this.#child.exitCode ?? this.#child.signalCode;
    const message = this.#finished
      ? `the run did not begin: ${this.#finished.summary}`
      : this.#words.trim() || `the run ended without an outcome (exit status ${status})`;
    return new RunLost(message, { exitCode: this.#child.exitCode });
  }
}

function parse(line) {
  try {
    const value = JSON.parse(line);
    return typeof value?.type === "string" ? value : null;
  } catch {
    return null;
  }
}

/** The lines of a stream. `node:readline` ends lines within JSON, at U+2028. */
async function* lines(stream) {
  stream.setEncoding("utf8");
  let parts = [];
  for await (const piece of stream) {
    const [first, ...more] = piece.split("\n");
    parts.push(first);
    for (const next of more) {
      yield parts.join("");
      parts = [next];
    }
  }
  yield parts.join("");
}

async function text(stream) {
  stream.setEncoding("utf8");
  let all = "";
  for await (const piece of stream) all += piece;
  return all;
}

/** Waits until a process has ended and its output was read. */
function ended(child) {
  return new Promise((resolve) => child.once("close", (code, signal) => resolve(code ?? signal)));
}
