// SPDX-License-Identifier: Apache-2.0
// The frame of the console: who is signed in, the list of pages, the project, and which page is shown. An address is
// #/PAGE or #/project/ID/PAGE/REST?QUERY.

import * as api from "./api.js";
import * as live from "./live.js";
import { h, put, failure, focusOn } from "./dom.js";
import { changePassword } from "./password.js";
import { signIn, kept } from "./signin.js";
import * as overview from "./overview.js";
import * as projects from "./projects.js";
import * as audience from "./audience.js";
import * as composer from "./composer.js";
import * as messages from "./messages.js";
import * as reports from "./reports.js";
import * as devices from "./devices.js";
import * as topics from "./topics.js";
import * as groups from "./groups.js";
import * as keys from "./keys.js";
import * as people from "./people.js";
import * as log from "./log.js";

const RANKS = { viewer: 0, sender: 1, administrator: 2 };
const BROKER = { overview, projects, people, log };
const PROJECT = { compose: composer, audience, messages, reports, devices, topics, groups, keys };

const root = document.getElementById("app");
const state = { session: undefined, projects: [], leave: undefined, turn: 0 };
const may = (role) => RANKS[state.session.role] >= RANKS[role];

/** Whether a page is for this person. */
const isFor = (page) => may(page.role ?? "viewer") && !(page.isForAll && state.session.project);

/** A part of an address; as it is written if it has a broken escape. */
function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

function place() {
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").map(decoded);
  const query = new URLSearchParams(search);
  if (parts[0] === "project" && parts[1]) {
    return { project: parts[1], page: parts[2] || "audience", rest: parts.slice(3).join("/"), query };
  }
  return { page: parts[0], rest: parts.slice(1).join("/"), query };
}

/** The first page of a project that is for this person. */
const first = () => (may("sender") ? "compose" : "audience");
const home = () => (state.session.project ? `#/project/${encodeURIComponent(state.session.project)}/${first()}` : "#/overview");

function current() {
  const found = place();
  const pages = found.project ? PROJECT : BROKER;
  const page = Object.hasOwn(pages, found.page) ? pages[found.page] : undefined;
  return page && isFor(page) ? { ...found, module: page } : undefined;
}

// The frame

const main = h("main", { id: "main", tabindex: "-1" });
const banner = h("div", { class: "banner hidden", role: "status" });
const side = h("div", { class: "side" });
let choice;

function drawSide() {
  const found = place();
  const isKnown = state.projects.some((one) => one.project === found.project);
  const project = isKnown ? found.project : choice ?? state.projects[0]?.project;
  choice = project;
  const link = (address, page, name) => h("li", {}, h("a", {
    href: address, "aria-current": found.page === name && (found.project ? PROJECT : BROKER)[name] === page ? "page" : null,
  }, page.title));
  const broker = Object.entries(BROKER).filter(([, page]) => isFor(page));
  const own = Object.entries(PROJECT).filter(([, page]) => isFor(page));
  const open = (isOpen) => menu.setAttribute("aria-expanded", String(side.classList.toggle("open", isOpen)));
  const menu = h("button", { class: "menu plain small", "aria-expanded": "false", onclick: () => open() }, "Menu");
  side.onkeydown = (event) => {
    if (event.key !== "Escape" || !side.classList.contains("open")) return;
    open(false);
    menu.focus();
  };
  side.classList.remove("open");
  put(side, h("div", { class: "row" }, h("div", { class: "brand" }, h("img", { src: "/console/icon.svg", alt: "" }), "Martlet"), menu),
    h("div", { class: "fold" }, h("nav", { "aria-label": "Pages" },
      h("ul", {}, broker.map(([name, page]) => link(`#/${name}`, page, name))),
      project ? [h("label", { class: "group", for: "project" }, "Project"),
        h("select", { id: "project", onchange: (event) => {
          choice = event.target.value;
          const page = place().project ? place().page : first();
          location.hash = `#/project/${encodeURIComponent(choice)}/${page}`;
        } }, state.projects.map((one) => h("option", { value: one.project, selected: one.project === project }, one.project))),
        h("ul", {}, own.map(([name, page]) => link(`#/project/${encodeURIComponent(project)}/${name}`, page, name)))]
        : h("p", { class: "soft" }, "There is no project yet.")),
    h("div", { class: "who" }, h("div", {}, h("bdi", {}, state.session.user)), h("div", { class: "soft" }, state.session.role, state.session.project ? ` of ${state.session.project}` : ""),
      h("div", { class: "row" }, h("button", { class: "plain small", onclick: leave }, "Sign out"),
        state.session.user === "link" ? null : h("button", { class: "plain small", onclick: () => changePassword(state) }, "Password")))));
}

async function leave() {
  live.close();
  for (const key of Object.keys(sessionStorage)) if (key.startsWith("martlet-draft ")) sessionStorage.removeItem(key);
  await api.remove("session").catch(() => {});
  begin("You are signed out.");
}

async function show() {
  const found = current();
  if (!found) { location.replace(home()); return; }
  const turn = ++state.turn;
  state.leave?.();
  state.leave = undefined;
  drawSide();
  live.follow(found.project);
  document.title = `${found.module.title} · Martlet`;
  const heading = h("h1", { tabindex: "-1" }, found.module.title);
  const body = h("div", {});
  put(main, heading, body);
  heading.focus({ preventScroll: true });
  window.scrollTo(0, 0);
  try {
    const end = await found.module.show(body, {
      ...found, session: state.session, may, heading, projects: state.projects, reload: loadProjects,
      at: (page, rest = "") => `#/project/${encodeURIComponent(found.project)}/${page}${rest}`,
    });
    if (turn === state.turn) state.leave = end; else end?.();
  } catch (error) {
    if (turn === state.turn) put(body, failure(error));
  }
}

async function loadProjects() {
  state.projects = await api.all("projects");
  return state.projects;
}

// Beginning and end

async function begin(message) {
  live.close();
  state.leave?.();
  state.leave = undefined;
  const link = /^#link=([\w-]+)/.exec(location.hash)?.[1];
  if (link) history.replaceState(null, "", "/console/");
  let session;
  try {
    session = link ? await kept(await api.post("session", { link })) : message ? {} : await api.get("session");
  } catch (error) {
    if (link) message = error.message;
  }
  if (!session?.user) session = await signIn(root, message);
  api.useSession(session);
  state.session = session;
  await loadProjects();
  // Nothing of the person before stays.
  put(main);
  put(side);
  choice = undefined;
  put(root, banner, h("div", { class: "frame" }, side, main));
  if (current()) show(); else location.replace(home());
}

function over() {
  if (state.session) begin("Your session is over. Sign in again.");
}

/** Why the server has refused the stream of events. */
async function explain(project) {
  const session = await api.quiet.get("session");
  if (!session.user) { over(); return undefined; }
  api.useSession(session);
  const known = await api.all("projects", 5000, api.quiet.get);
  if (project && !known.some((one) => one.project === project)) return `There is no project ${project}, or it is not for you.`;
  // A second question has the refusal's words, which an EventSource does not tell.
  const control = new AbortController();
  const response = await fetch(live.address(project), { signal: control.signal });
  const refusal = response.ok ? undefined : (await response.json()).error.message;
  control.abort();
  return refusal;
}

api.onEnd(over);
live.onOver(async () => {
  // A person who has changed the password has another session, and the stream was the former one's.
  const session = await api.quiet.get("session").catch(() => ({}));
  if (!session.user) { over(); return; }
  api.useSession(session);
  state.session = session;
  live.follow(place().project);
});
live.onRefusal(explain);
live.onState((reason) => {
  banner.classList.toggle("hidden", !reason);
  if (banner.textContent !== (reason ?? "")) put(banner, reason);
});
document.querySelector(".skip").addEventListener("click", (event) => {
  // The address after # names the page, and stays.
  event.preventDefault();
  const target = document.getElementById("main");
  if (target) focusOn(target.querySelector("h1") ?? target);
});
window.addEventListener("hashchange", () => {
  if (/^#link=/.test(location.hash)) begin();
  else if (state.session) show();
});
begin();
