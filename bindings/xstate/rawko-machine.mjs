// What the named guards and actions of rawko's state machine do, for XState v5.
//
// The config (states, transitions, their order) is exported by `rawko machine export --format xstate`; this file owns
// only the meaning of its names. Both are held to the machine in `rawko-core` by its test `machine_xstate`.

import { assign, setup } from "xstate";

const MAX_ITERATIONS_SUMMARY = "Max iterations reached";

const RECOVERABLE = new Set([
  "rate_limited",
  "overloaded",
  "network_error",
  "tool_failure",
  "timeout",
  "validation_error",
]);

const FACTS = [
  "ended",
  "turns",
  "filesModified",
  "filesAccessed",
  "commands",
  "mayHaveWritten",
  "deniedTools",
  "diff",
  "verdict",
  "findings",
];

// The machine of `config` with the limits given; those not given stay as the config has them.
// `perform` is called with each effect, in order: { type: "selectAgent", afterMs: 0 } and so on.
export function createRawkoMachine(config, options = {}) {
  const { perform = () => {}, ...limits } = options;
  const given = Object.entries(limits).filter(([, value]) => value !== undefined);
  return setup({
    guards: implementations.guards,
    actions: { ...implementations.actions, ...effects(perform) },
  }).createMachine({ ...config, context: { ...config.context, ...Object.fromEntries(given) } });
}

const guards = {
  isComplete: ({ event }) => event.decision?.type === "COMPLETE",
  isBlocked: ({ event }) => event.decision?.type === "BLOCKED",
  isContinue: ({ event }) => event.decision?.type === "CONTINUE",
  shouldRetry: ({ event }) => event.decision?.type === "RETRY",
  isSelectMode: ({ event }) => event.decision?.type === "SELECT_MODE",
  selectsKnownAgent: ({ context, event }) => context.agents.includes(namedAgent(event)),
  resumesLastAgent: ({ context, event }) =>
    context.currentMode !== "" && ["CONTINUE", "RETRY"].includes(event.decision?.type),
  hasAgent: ({ context, event }) => context.agents.includes(namedAgent(event)),
  hasRunAgent: ({ context }) => context.currentMode !== "",
  hasPlan: ({ context }) => context.plan !== null,
  succeeded: ({ event }) => event.result?.success === true,
  mayFailAgain: ({ context }) => context.consecutiveFailures + 1 < context.maxConsecutiveFailures,
  maxFailuresReached: ({ context }) => context.consecutiveFailures >= context.maxConsecutiveFailures,
  maxIterationsReached: ({ context }) => context.iterationCount >= context.maxIterations,
  isRecoverableError: ({ context }) => RECOVERABLE.has(context.lastError?.error.code),
};

const changes = {
  startTask: assign(({ context, event }) => ({ ...fresh(context), task: event.task, startedAt: at(event) })),
  resetContext: assign(({ context }) => fresh(context)),
  recordDecision: assign({ lastDecision: ({ event }) => event.decision }),
  recordBlocked: assign({
    lastError: ({ context, event }) => ({
      error: { code: "blocked", message: event.decision.reason },
      agent: context.currentMode,
      at: at(event),
    }),
  }),
  recordMaxIterations: assign({ lastDecision: { type: "COMPLETE", summary: MAX_ITERATIONS_SUMMARY } }),
  markLimited: assign({ limited: true }),
  setAgent: assign({ currentMode: ({ event }) => namedAgent(event) }),
  beginIteration: assign({
    iterationCount: ({ context }) => context.iterationCount + 1,
    executingSince: ({ event }) => at(event),
  }),
  recordExecution: assign(({ context, event }) => {
    const { success, output = "", usage, ...rest } = event.result;
    const result = success ? "success" : "failure";
    const error = success ? undefined : event.result.error;
    const done = { result, output, error, usage, facts: facts(rest) };
    return { history: [...context.history, entry(context, event, done)] };
  }),
  recordFailure: assign(({ context, event }) => {
    const { error, usage, ...rest } = event;
    const result = error.code === "timeout" ? "timeout" : "failure";
    return { history: [...context.history, entry(context, event, { result, error, usage, facts: facts(rest) })] };
  }),
  recordCancelled: assign(({ context, event }) => ({
    history: [...context.history, entry(context, event, { result: "cancelled", facts: {} })],
  })),
  clearFailures: assign({ consecutiveFailures: 0, lastError: null }),
  countFailure: assign(({ context, event }) => failure(context, event, event.error)),
  countUnsuccess: assign(({ context, event }) =>
    event.result.error ? failure(context, event, event.result.error) : count(context),
  ),
  rejectSelection: assign(({ context, event }) =>
    failure(context, event, { code: "validation_error", message: rejection(context, event) }),
  ),
  mergePlan: assign({ plan: ({ context, event }) => merged(context.plan, event.result.planUpdates) }),
  skipStep: assign({ plan: ({ context }) => skipped(context.plan) }),
};

// The actions that ask the world for something: each tells `perform` what.
function effects(perform) {
  const execute = (conversation) => ({ context }) =>
    perform({ type: "executeAgent", agent: context.currentMode, conversation });
  return {
    selectAgent: () => perform({ type: "selectAgent", afterMs: 0 }),
    selectAgentAfterBackoff: ({ context }) => perform({ type: "selectAgent", afterMs: backoff(context) }),
    selectDecidedAgent: ({ event }) => perform({ type: "selectAgent", afterMs: 0, decided: event.decision }),
    executeAgent: execute("new"),
    continueAgent: execute("same"),
    evaluateProgress: () => perform({ type: "evaluateProgress" }),
    abandon: (_, { state }) => perform({ type: "abandon", state }),
    finish: (_, { state }) => perform({ type: "finish", state }),
  };
}

export const implementations = { guards, actions: { ...changes, ...effects(() => {}) } };

function at(event) {
  return event.at ?? 0;
}

function namedAgent(event) {
  return event.type === "FORCE_AGENT" ? event.agentName : event.decision?.mode;
}

function fresh({ agents, maxIterations, maxConsecutiveFailures }) {
  return {
    agents,
    maxIterations,
    maxConsecutiveFailures,
    task: "",
    startedAt: null,
    currentMode: "",
    plan: null,
    history: [],
    consecutiveFailures: 0,
    totalFailures: 0,
    lastError: null,
    lastDecision: null,
    iterationCount: 0,
    executingSince: null,
    limited: false,
  };
}

function count(context) {
  return {
    consecutiveFailures: context.consecutiveFailures + 1,
    totalFailures: context.totalFailures + 1,
  };
}

function failure(context, event, error) {
  return { ...count(context), lastError: { error, agent: context.currentMode, at: at(event) } };
}

function rejection({ agents }, event) {
  const agent = namedAgent(event);
  return agent === undefined
    ? `the arbiter answered ${event.decision.type} before any agent has run; only SELECT_MODE, COMPLETE or BLOCKED make sense then`
    : `the arbiter selected "${agent}", which is no agent of this run (there are: ${agents.join(", ")})`;
}

function entry(context, event, { result, output, error, usage, facts }) {
  return {
    agent: context.currentMode,
    iteration: context.iterationCount,
    startedAt: context.executingSince ?? at(event),
    completedAt: at(event),
    result,
    output,
    error,
    planStep: context.plan?.currentStepIndex,
    usage,
    facts,
  };
}

function facts(source) {
  return Object.fromEntries(FACTS.filter((name) => source[name] !== undefined).map((name) => [name, source[name]]));
}

function merged(plan, updates) {
  const given = Object.entries(updates ?? {}).filter(([, value]) => value !== undefined && value !== null);
  if (given.length === 0) return plan;
  return { steps: [], currentStepIndex: 0, isComplete: false, ...plan, ...Object.fromEntries(given) };
}

function skipped(plan) {
  const steps = plan.steps.map((step, index) =>
    index === plan.currentStepIndex ? { ...step, status: "skipped" } : step,
  );
  const next = steps.findIndex((step, index) => index > plan.currentStepIndex && step.status === "pending");
  return {
    steps,
    currentStepIndex: next === -1 ? plan.currentStepIndex : next,
    isComplete: steps.every((step) => step.status === "complete" || step.status === "skipped"),
  };
}

// 1 s, 2 s, 4 s, ... up to 30 s; what a server asks for is taken as it is; a malformed answer needs no wait.
function backoff({ consecutiveFailures, lastError }) {
  if (lastError.error.code === "validation_error") return 0;
  return lastError.error.retryAfterMs ?? Math.min(30_000, 1_000 * 2 ** Math.max(0, consecutiveFailures - 1));
}
