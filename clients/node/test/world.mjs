// A project, a user whose provider is a script, and the real program.

import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

import { Rawko } from "../index.mjs";

export const BINARY = process.env.RAWKO_BINARY;

export const select = (mode) => ({
  for: "select",
  decision: { decision: "SELECT_MODE", mode, reason: "it is to be done" },
});
export const calls = (name, input) => ({ for: "developer", tools: [{ name, input }] });
export const report = () => calls("Report", { outcome: "success", summary: "It is written." });
export const complete = () => ({
  for: "evaluate",
  decision: { decision: "COMPLETE", summary: "done", reason: "the record shows it" },
  repeat: true,
});

/** A developer who writes the answer. */
export const WRITES = [
  select("developer"),
  calls("Write", { file_path: "answer.txt", content: "42\n" }),
  report(),
  complete(),
];
/** A developer who thinks for ten minutes. */
export const HANGS = [select("developer"), { for: "developer", text: "I think.", delayMs: 600_000 }];

export class World {
  constructor(t) {
    this.root = realpathSync(mkdtempSync(path.join(tmpdir(), "rawko-client-")));
    t.after(() => rmSync(this.root, { recursive: true, force: true }));
    this.project = path.join(this.root, "project");
    mkdirSync(this.project);
    this.env = {
      HOME: this.root,
      XDG_CONFIG_HOME: path.join(this.root, "config"),
      XDG_STATE_HOME: path.join(this.root, "state"),
    };
    execFileSync("git", ["init", "--quiet"], { cwd: this.project, env: { ...process.env, ...this.env } });
  }

  /** The program, with these answers of the model and settings of the user. */
  rawko(script, settings = {}) {
    const file = path.join(this.root, "script.json");
    writeFileSync(file, JSON.stringify(script));
    const provider = { default: "script", script: { type: "scripted", script: file } };
    mkdirSync(path.join(this.root, "config/rawko"), { recursive: true });
    const config = { provider, arbiter: { mode: "llm" }, ...settings };
    writeFileSync(path.join(this.root, "config/rawko/config.yaml"), JSON.stringify(config));
    return new Rawko({ project: this.project, binary: BINARY, env: this.env });
  }

  /** Another program, in place of rawko. */
  program(text) {
    const file = path.join(this.root, "program");
    writeFileSync(file, text);
    chmodSync(file, 0o755);
    return file;
  }
}

export async function all(run) {
  const events = [];
  for await (const event of run) events.push(event);
  return events;
}
