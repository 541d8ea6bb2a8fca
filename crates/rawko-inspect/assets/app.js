// Finds the data, follows the address, draws the page.
import { html, render } from "./vendor/lit-html.js";
import { embeddedSource, serverSource } from "./source.js";
import { sessionPage, sessionView } from "./session.js";
import { startView } from "./start.js";

const TOKEN = "rawko-inspect-token";
const REFRESH_MS = 3000;

const root = document.getElementById("app");
const embedded = document.getElementById("data");
const state = { view: null, page: null, title: "rawko sessions", timer: 0 };
let drawing = 0;

function draw() {
  cancelAnimationFrame(drawing);
  drawing = requestAnimationFrame(() => {
    render(state.page ? sessionView(state.page) : state.view, root);
    document.title = state.page ? `${state.page.head.task.text.slice(0, 60) || state.page.id} – rawko` : state.title;
  });
}

// The address that rawko prints ends with the token. It is taken out of the address at once and kept for this server alone:
// what a browser keeps by origin is kept by port too.
function openSource() {
  if (embedded) return embeddedSource(JSON.parse(embedded.textContent));
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.has("token")) {
    localStorage.setItem(TOKEN, given.get("token"));
    const session = given.get("session");
    history.replaceState(null, "", session ? `#/${encodeURIComponent(session)}` : "#/");
  }
  return serverSource(localStorage.getItem(TOKEN) ?? "");
}

function fail(error) {
  state.page = null;
  state.view = html`<main><h1>This cannot be shown</h1><p role="alert">${error.message}</p></main>`;
  draw();
}

async function showList(source) {
  const project = await source.project();
  let sessions = [];
  let search = "";
  const view = () => {
    state.view = startView(project, sessions, search, (words) => {
      search = words;
      view();
    });
    draw();
  };
  const list = async () => {
    sessions = await source.sessions();
    if (!state.page) view();
  };
  await list();
  state.timer = setInterval(() => document.hidden || list().catch(fail), REFRESH_MS);
}

async function showSession(source, machine, id) {
  const page = sessionPage(source, id, machine, await source.session(id), draw);
  state.page = page;
  draw();
  if (!document.hidden) page.follow();
}

async function show(source, machine) {
  clearInterval(state.timer);
  state.page?.stop();
  state.page = null;
  const id = source.id ?? decodeURIComponent(location.hash.replace(/^#\/?/, ""));
  try {
    await (id ? showSession(source, machine, id) : showList(source));
    window.scrollTo(0, 0);
  } catch (error) {
    fail(error);
  }
}

async function start() {
  const source = openSource();
  state.view = html`<main><p>Loading …</p></main>`;
  draw();
  let machine;
  try {
    machine = await source.machine();
  } catch (error) {
    fail(error);
    return;
  }
  // A hidden page holds no connection: a browser has six for each server.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) state.page?.stop();
    else state.page?.follow();
  });
  if (!embedded) addEventListener("hashchange", () => show(source, machine));
  await show(source, machine);
}

start();
