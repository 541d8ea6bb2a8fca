// Drives the inspector in a browser. `test-inspector.sh` calls this.
//
// Makes a project with sessions of a scripted model: one that ended and holds hostile texts, a fork of it, and one that runs
// while its page is open. Then it uses the page as a person does, with keys where a person would, and takes screenshots.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { RAWKO, BROWSER, PACKAGES, RAWKO_SCREENSHOTS } = process.env;
const load = createRequire(join(PACKAGES, "package.json"));
const { chromium } = load("playwright-core");
const axe = readFileSync(load.resolve("axe-core/axe.min.js"), "utf8");

const HOSTILE = `</script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 2"><b>`;
const folder = mkdtempSync(join(tmpdir(), "rawko-inspector-test-"));
const project = join(folder, "project");
const shots = RAWKO_SCREENSHOTS ?? join(folder, "shots");
const env = { ...process.env, HOME: join(folder, "home"), XDG_STATE_HOME: join(folder, "state"), XDG_CONFIG_HOME: join(folder, "config"), XDG_CACHE_HOME: join(folder, "cache"), NO_COLOR: "1" };
for (const made of [project, env.HOME, shots, join(project, ".rawko", "memories")]) mkdirSync(made, { recursive: true });

const running = [];
function begin(...args) {
  const child = spawn(RAWKO, args, { cwd: project, env, stdio: ["ignore", "pipe", "pipe"] });
  child.text = "";
  child.stdout.on("data", (data) => (child.text += data));
  child.stderr.on("data", (data) => (child.text += data));
  child.ended = new Promise((resolve) => child.on("close", resolve));
  running.push(child);
  return child;
}

function rawko(...args) {
  return execFileSync(RAWKO, args, { cwd: project, env, encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "pipe"] });
}

async function until(what, check) {
  const end = Date.now() + 60_000;
  for (;;) {
    const found = await check();
    if (found) return found;
    assert(Date.now() < end, `not within a minute: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// The model's answers, each after `delayMs`. They write files that are not there yet: agents read a file before they change it.
function script(delayMs, note = "") {
  const replies = [
    { for: "select", decision: { decision: "SELECT_MODE", mode: "developer", reason: `It has to be written. ${HOSTILE}` } },
    { for: "developer", text: `I write it. ${HOSTILE}`, tools: [{ name: "Write", input: { file_path: `page${note}.html`, content: `${HOSTILE}\nsecond line\n` } }] },
    { for: "developer", text: "Once more.", tools: [{ name: "Write", input: { file_path: `done${note}.txt`, content: "done\n" } }] },
    { for: "developer", text: "", tools: [{ name: "Report", input: { outcome: "success", summary: `Written. ${HOSTILE}`, files: ["page.html"] } }] },
    { for: "evaluate", decision: { decision: "SELECT_MODE", mode: "reviewer", reason: "It has to be read." } },
    { for: "reviewer", text: "I read it.", tools: [{ name: "Read", input: { file_path: `page${note}.html` } }] },
    { for: "reviewer", text: "", tools: [{ name: "Report", input: { verdict: "approved", summary: "Good.", files: [] } }] },
    { for: "evaluate", decision: { decision: "COMPLETE", summary: `All is done. ${HOSTILE}`, reason: "Reviewed." } },
  ];
  for (const reply of replies) reply.delayMs = delayMs;
  writeFileSync(join(project, "script.json"), JSON.stringify(replies));
}

function makeProject() {
  const git = (...args) => execFileSync("git", args, { cwd: project, env, stdio: "ignore" });
  writeFileSync(join(project, "README.md"), "A project.\n");
  writeFileSync(join(project, ".rawko", "config.yaml"), "provider:\n  default: rehearsal\n  rehearsal: { type: scripted, script: script.json }\n");
  writeFileSync(join(project, ".rawko", "memories", "pages.md"), `---\ntitle: Pages are written in HTML ${HOSTILE}\nwhenToUse: [write, page]\nimportance: high\ndiscoveredAt: 2026-01-23\ndiscoveredBy: developer\npaths: ["*.html"]\n---\nA page ends with a line break.\n`);
  script(0);
  git("init", "-q");
  git("-c", "user.name=t", "-c", "user.email=t@example.org", "add", ".");
  git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "first");
  const run = ["run", "--yes", "--quiet", "--verify", "test -f done.txt", "--allow-write"];
  rawko(...run, `Write a page. ${HOSTILE}`);
  const parent = JSON.parse(rawko("sessions", "list", "--json"))[0].id;
  const decisions = JSON.parse(rawko("explain", parent, "--json"));
  const second = (decisions.decisions ?? decisions)[1];
  rawko("fork", parent, "--at", String(second.record - 1), "--yes", "--quiet");
  const fork = JSON.parse(rawko("sessions", "list", "--json")).find((session) => session.forkedFrom).id;
  return { parent, fork, run };
}

// What no page may do: complain, or ask anybody but its server.
function watch(page, problems, allowed) {
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => problems.push(`error: ${error}`));
  page.on("request", (request) => !allowed.some((start) => request.url().startsWith(start)) && problems.push(`request: ${request.url()}`));
}

async function accessible(page, name) {
  // The page's policy forbids other scripts: this one comes through the debugger, not through the page.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter((found) => ["serious", "critical"].includes(found.impact));
  const shown = serious.map((found) => `${found.id}: ${found.help}\n${found.nodes.slice(0, 3).map((node) => `  ${node.html.slice(0, 200)} ${node.failureSummary ?? ""}`).join("\n")}`);
  assert.equal(serious.length, 0, `${name}:\n${shown.join("\n")}`);
}

async function noHack(page) {
  assert.equal(await page.evaluate(() => window.hacked), undefined, "a text of the model became markup");
  assert.equal(await page.locator("#app img, #app script, #app b").count(), 0);
}

// Nothing is wider than the page.
async function fits(page, name) {
  const { wide, inner } = await page.evaluate(() => ({ wide: document.documentElement.scrollWidth, inner: window.innerWidth }));
  assert(wide <= inner, `${name} is ${wide} wide in a window of ${inner}`);
}

async function focusByKeys(page, selector) {
  for (let presses = 0; presses < 400; presses += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate((wanted) => document.activeElement?.matches(wanted), selector)) return;
  }
  assert.fail(`the Tab key does not lead to ${selector}`);
}

async function main() {
  const { parent, fork, run } = makeProject();
  const inspect = begin("inspect", "--json");
  const first = await until("the address", () => inspect.text.split("\n").find((line) => line.startsWith("{")));
  const { url, port } = JSON.parse(first);
  const home = `http://127.0.0.1:${port}/`;
  const browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox"] });
  const problems = [];
  const steps = [];
  const step = async (name, work) => {
    await work();
    steps.push(name);
    console.log(`ok  ${name}`);
  };

  for (const scheme of ["light", "dark"]) {
    for (const [size, viewport] of [["wide", { width: 1280, height: 900 }], ["phone", { width: 390, height: 844 }]]) {
      const context = await browser.newContext({ colorScheme: scheme, viewport });
      const page = await context.newPage();
      watch(page, problems, [home]);
      const shot = (name) => page.screenshot({ path: join(shots, `${name}-${size}-${scheme}.png`), fullPage: true });
      await step(`the list, ${size}, ${scheme}`, async () => {
        await page.goto(url);
        await page.locator(".sessions li").nth(1).waitFor();
        assert.equal(await page.evaluate(() => location.hash), "#/", "the token stays in the address");
        await noHack(page);
        await fits(page, "the list");
        await accessible(page, "the list");
        await shot("list");
        assert.match(await page.locator("h1").textContent(), /^project: sessions$/);
        const search = page.getByLabel("Search sessions");
        await search.fill("no such word");
        await until("nothing is found", async () => (await page.locator(".sessions li").count()) === 0);
        await search.fill(`WRITE ${parent}`);
        await until("the one that is looked for", async () => (await page.locator(".sessions li").count()) === 1);
        await search.fill("");
        await page.locator(".sessions li").nth(1).waitFor();
      });
      await step(`a session, ${size}, ${scheme}`, async () => {
        await page.locator(`.sessions a[href="#/${parent}"]`).focus();
        await page.keyboard.press("Enter");
        await page.locator(".diagram .state.current").waitFor();
        assert.match(await page.locator(".diagram .state.current text").textContent(), /complete/);
        assert.match(await page.locator("[role=status] .badge").first().textContent(), /verified/);
        assert((await page.locator(".arrow.taken").count()) >= 4);
        await page.locator(".entry.end").waitFor();
        // The diff is open; who did not work is not named; figures are those of the terminal.
        await page.locator(".patch .added", { hasText: "second line" }).first().waitFor();
        const facts = await page.locator(".overview .facts").textContent();
        assert(facts.includes("developer (") && !facts.includes("tester ("), facts);
        assert.match(await page.locator(".execution > summary .figures").nth(1).textContent(), /3 turns · 2 calls/);
        const timeline = await page.locator("section[aria-labelledby=timeline]").textContent();
        for (const part of ["who works next?", "next: developer", "answers with a decision"]) assert(timeline.includes(part), part);
        await shot("session");
      });
      await step(`a decision by keyboard, ${size}, ${scheme}`, async () => {
        await focusByKeys(page, ".entry.decision summary");
        await page.keyboard.press("Enter");
        await page.locator(".decision h4", { hasText: "Input" }).waitFor();
        const text = await page.locator(".decision").first().textContent();
        for (const part of ["Alternatives", "Answers", "which agent works next", "tester", "window.hacked = 1"]) assert(text.includes(part), part);
        await page.locator(".decision details summary", { hasText: "question" }).first().press("Enter");
        await page.locator(".decision pre", { hasText: "Write a page" }).first().waitFor();
        await noHack(page);
      });
      await step(`a tool call, a diff, the verification, ${size}, ${scheme}`, async () => {
        await page.locator(".entry.tool_call summary").first().press("Enter");
        await page.locator(".entry.tool_call pre", { hasText: "second line" }).first().waitFor();
        await page.locator(".patch .added", { hasText: "second line" }).first().waitFor();
        await page.locator("section[aria-labelledby=verification]", { hasText: "test -f done.txt" }).waitFor();
        await page.locator("section[aria-labelledby=memories] td", { hasText: "Pages are written in HTML" }).first().waitFor();
        await noHack(page);
        await fits(page, "the session");
        await accessible(page, "the session");
        await shot("opened");
      });
      await step(`the filter, ${size}, ${scheme}`, async () => {
        await page.getByRole("button", { name: "decisions" }).press("Enter");
        await until("only decisions", async () => (await page.locator(".entry:not(.decision):not(.approval)").count()) === 0);
        assert.equal(await page.locator(".entry.decision").count(), 3);
      });
      await step(`a fork beside its parent, ${size}, ${scheme}`, async () => {
        await page.goto(`${home}#/${fork}`);
        await page.locator(".branches .branch").nth(1).waitFor();
        assert.match(await page.locator(".branching").textContent(), /share the first \d+ records/);
        assert((await page.locator(".entry.shared").count()) > 3);
        await fits(page, "the fork");
        await accessible(page, "the fork");
        await shot("fork");
      });
      await context.close();
    }
  }

  await step("a session that runs changes before one's eyes", async () => {
    script(600, "-slowly");
    const live = begin(...run, "Do it slowly");
    const id = await until("the session", () => JSON.parse(rawko("sessions", "list", "--json")).find((session) => session.status === "running")?.id);
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    watch(page, problems, [home]);
    await page.goto(url);
    await page.locator(`.sessions a[href="#/${id}"]`).click();
    await page.locator("[role=status] .badge.live", { hasText: "running" }).waitFor();
    const before = await page.locator(".entry").count();
    await page.screenshot({ path: join(shots, "running.png"), fullPage: true });
    await page.locator("[role=status] .badge", { hasText: "verified" }).waitFor({ timeout: 60_000 });
    assert((await page.locator(".entry").count()) > before, "entries were added");
    assert.equal(await live.ended, 0, live.text);
    const held = await page.evaluate(() => performance.getEntriesByType("navigation").length);
    assert.equal(held, 1, "without loading the page again");
    await context.close();
  });

  await step("without the token there is nothing", async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(home);
    await page.locator("[role=alert]", { hasText: "address that rawko inspect printed" }).waitFor();
    await context.close();
  });

  await step("the exported page, from a file", async () => {
    for (const id of [parent, fork]) {
      const file = join(folder, `${id}.html`);
      writeFileSync(file, rawko("sessions", "export", id, "--format", "html"));
      const context = await browser.newContext({ viewport: { width: 390, height: 844 }, colorScheme: "dark", offline: true });
      const page = await context.newPage();
      const address = pathToFileURL(file).href;
      watch(page, problems, [address, "data:"]);
      await page.goto(address);
      await page.locator(".diagram .state.current").waitFor();
      await page.locator(".entry.decision summary").first().press("Enter");
      await page.locator(".decision h4", { hasText: "Input" }).waitFor();
      await page.locator(".patch .added", { hasText: "second line" }).first().waitFor();
      if (id === fork) await page.locator(".branches .branch").nth(1).waitFor();
      await noHack(page);
      await fits(page, "the exported page");
      await accessible(page, "the exported page");
      await page.screenshot({ path: join(shots, `export-${id === fork ? "fork" : "session"}.png`), fullPage: true });
      await context.close();
    }
  });

  await browser.close();
  assert.deepEqual(problems, []);
  inspect.kill("SIGINT");
  assert.equal(await inspect.ended, 0, inspect.text);
  console.log(`${steps.length} checks of the inspector's page passed`);
}

try {
  await main();
} finally {
  for (const child of running) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
}
