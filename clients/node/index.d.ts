// The types of the client. Those of the events are generated: events.d.ts.

import type { ApprovalRequested, RunEvent, SessionFinished, SessionStarted } from "./events.js";

export * from "./events.js";

/** A project, and the program that works in it. */
export interface RawkoOptions {
  /** The project's folder. The current one by default. */
  project?: string;
  /** The program, by its path or its name in `PATH`. `rawko` by default. */
  binary?: string;
  /** Variables of its environment, in addition to those of this process. */
  env?: Record<string, string>;
}

/** Options of a run. `rawko run --help` explains them. */
export interface RunOptions {
  agent?: string;
  provider?: string;
  model?: string;
  maxIterations?: number;
  maxTokens?: number;
  maxCost?: number;
  timeout?: string | number;
  /** Commands that verify the result. */
  verify?: string[];
  /** Files that agents are given with the task. */
  files?: string[];
  requireVerified?: boolean;
  /** Works in a tree of its own, which lands at the end. */
  isolated?: boolean;
  dryRun?: boolean;
  /** Lets the folder's configuration take effect for this run. */
  trust?: boolean;
  /** Further options of the command. */
  args?: string[];
}

/** What became of a command to a run. */
export interface SteerResult {
  /** Whether it was carried out. Else it had no meaning at the moment. */
  taken: boolean;
  /** Why it was ignored. */
  reason: string | null;
}

/** Runs in one project. */
export class Rawko {
  constructor(options?: RawkoOptions);
  readonly project: string;
  readonly binary: string;
  /** Starts a run of a task. Throws `RawkoNotFound` if the program cannot be started. */
  run(task: string, options?: RunOptions): Promise<Run>;
  /** Gives a session that has ended its next task. */
  continueSession(session: string, task: string, options?: { args?: string[] }): Promise<Run>;
  /** Goes on with an interrupted session. */
  resume(session: string, options?: { args?: string[] }): Promise<Run>;
  /** Runs another command in the project. Throws `RawkoError` for an exit status beside 0 and 1. */
  command(...words: string[]): Promise<{ exitCode: number; stdout: string }>;
}

/**
 * A run. Iterate over it for its events; all are kept until they are read. A newer rawko may send types of events that
 * are not in `RunEvent`: have a `default` where you switch over them.
 */
export class Run implements AsyncIterable<RunEvent> {
  private constructor();
  /** The exit status, once the process has ended by itself. */
  readonly exitCode: number | null;
  /** What the program said on standard error, the end of it. */
  readonly stderr: string;
  [Symbol.asyncIterator](): AsyncIterator<RunEvent>;
  /** Waits for the beginning, which names the session. Rejects with `RunLost` if the run cannot begin. */
  started(): Promise<SessionStarted>;
  /** Waits for the end. Rejects with `RunLost` if there is no outcome. Events can still be read after it. */
  outcome(): Promise<SessionFinished>;
  /** Tells the agent that works, or the next one, and the arbiter. */
  say(text: string): Promise<SteerResult>;
  /** Lets what is under way end, and begins nothing new. */
  pause(): Promise<SteerResult>;
  /** Ends the pause. */
  go(): Promise<SteerResult>;
  /** Makes this agent work now. */
  force(agent: string): Promise<SteerResult>;
  /** Cancels the run, and waits for its end. */
  cancel(): Promise<SessionFinished>;
  /** Answers a question of this run. Rejects with `RawkoError` if it waits no longer. */
  approve(question: ApprovalRequested | string, options?: { allow?: boolean }): Promise<void>;
  /** Says no to a question of this run. */
  deny(question: ApprovalRequested | string): Promise<void>;
  /** Ends the run if it goes on: it is cancelled, and its process is waited for. */
  close(): Promise<void>;
}

/** A command of rawko failed. Its words are those of the program. */
export class RawkoError extends Error {
  /** The exit status, where the program ended by itself. */
  readonly exitCode: number | null;
  /** The command line. */
  readonly command: string[];
}

/** The program cannot be started. */
export class RawkoNotFound extends RawkoError {}

/** A run ended without an outcome: its command line was refused, or its process was killed. */
export class RunLost extends RawkoError {}
