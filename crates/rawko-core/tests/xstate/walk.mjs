// Walks recorded and generated event sequences through the exported config in XState, and compares what it finds
// after each event with what the file given as the first argument says is to be found.

import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { createActor } from "xstate";
import { createRawkoMachine } from "./rawko-machine.mjs";

const { config, cases } = JSON.parse(readFileSync(process.argv[2], "utf8"));

function step(machine, actor, performed, event) {
  const before = actor.getSnapshot();
  const ignored = before.status !== "active" || machine.getTransitionData(before, event).length === 0;
  performed.length = 0;
  actor.send(event);
  const snapshot = actor.getSnapshot();
  const { agents, maxIterations, maxConsecutiveFailures, ...context } = snapshot.context;
  const { plan, history, lastDecision } = context;
  return {
    status: snapshot.status,
    state: snapshot.value,
    ignored,
    currentMode: context.currentMode,
    iterationCount: context.iterationCount,
    consecutiveFailures: context.consecutiveFailures,
    totalFailures: context.totalFailures,
    historyLength: history.length,
    planStep: plan?.currentStepIndex ?? null,
    lastDecision: lastDecision?.type ?? null,
    effects: [...performed],
    context,
  };
}

let events = 0;
const problems = [];
for (const { name, limits, steps } of cases) {
  const performed = [];
  const machine = createRawkoMachine(config, { ...limits, perform: (effect) => performed.push(effect) });
  const actor = createActor(machine).start();
  for (const [index, { event, expected }] of steps.entries()) {
    // Through JSON, which knows no undefined: a field without a value is a field that is not there.
    const found = JSON.parse(JSON.stringify(step(machine, actor, performed, event)));
    events += 1;
    for (const [field, value] of Object.entries(expected)) {
      if (!isDeepStrictEqual(found[field], value)) {
        problems.push(
          `${name}, event ${index} ${JSON.stringify(event)}: ${field} is ${JSON.stringify(found[field])}, ` +
            `should be ${JSON.stringify(value)}`,
        );
      }
    }
  }
}

if (problems.length > 0) {
  console.error(problems.slice(0, 20).join("\n"));
  console.error(`${problems.length} differences`);
  process.exit(1);
}
console.log(JSON.stringify({ cases: cases.length, events }));
