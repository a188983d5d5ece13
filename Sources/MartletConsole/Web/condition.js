// SPDX-License-Identifier: Apache-2.0
// The editor of conditions: highlighting, the fault where it is, the exact count while one types, and names of topics to
// choose from. A plain text area lies over coloured text.

import * as api from "./api.js";
import { listen } from "./live.js";
import { h, put } from "./dom.js";
import { number, amount } from "./format.js";

const TOKEN = /'[^']*'?|"[^"]*"?|&&|\|\||!|\b(?:in|topics)\b|[()]|\s+|[^\s'"()&|!]+|./g;

/** The place in a text of an offset in UTF-8. */
function placeOf(text, byteOffset) {
  let bytes = 0, place = 0;
  for (const character of text) {
    if (bytes >= byteOffset) break;
    bytes += new TextEncoder().encode(character).length;
    place += character.length;
  }
  return place;
}

function coloured(text, wrong) {
  const parts = [];
  let at = 0;
  for (const [token] of text.matchAll(TOKEN)) {
    const kind = /^['"]/.test(token) ? "t-topic" : /^(&&|\|\||!)$/.test(token) ? "t-op" : /^(in|topics)$/.test(token) ? "t-word" : "";
    const isWrong = wrong !== undefined && wrong >= at && wrong < at + token.length;
    parts.push(h("span", { class: `${kind}${isWrong ? " t-wrong" : ""}` }, token));
    at += token.length;
  }
  if (wrong !== undefined && wrong >= text.length) parts.push(h("span", { class: "t-wrong" }, " "));
  return [parts, "\n"];
}

/**
 * An editor. `changed(audience | undefined)` is called after each count. Returns {node, text(), set(text)}.
 */
export function conditionEditor(project, text, changed) {
  const back = h("pre", { "aria-hidden": "true" });
  const told = h("div", { id: "condition-told", role: "status" });
  const input = h("textarea", { id: "condition", spellcheck: "false", autocapitalize: "none", value: text,
    "aria-describedby": "condition-hint condition-told" });
  const choices = h("div", { class: "chips", role: "group", "aria-label": "Topics to insert" });
  let topics = [], isComplete = false;
  let timer, turn = 0;

  /** The beginning of a topic's name before the caret, inside quotes. */
  const begun = () => /'([^']*)$/.exec(input.value.slice(0, input.selectionStart))?.[1];
  function offer() {
    const start = begun();
    const isInside = start !== undefined && (input.value.slice(0, input.selectionStart).split("'").length - 1) % 2 === 1;
    const found = topics.filter((one) => one.topic.startsWith(isInside ? start : "")).slice(0, 12);
    put(choices, found.map((one) => h("button", { type: "button", class: "plain", title: amount(one.subscribers, "device"), onclick: () => {
      const caret = input.selectionStart;
      const before = input.value.slice(0, isInside ? caret - start.length - 1 : caret);
      const rest = input.value.slice(caret).replace(/^'( in topics)?/, "");
      // A term after another needs an operator between them.
      const isNext = /\S/.test(before) && !/(&&|\|\||!|\()\s*$/.test(before);
      const word = `${isNext ? `${/\s$/.test(before) ? "" : " "}&& ` : ""}'${one.topic}' in topics`;
      input.value = before + word + rest;
      input.selectionStart = input.selectionEnd = before.length + word.length;
      input.focus();
      later();
    } }, one.topic)));
  }

  async function count() {
    const mine = ++turn;
    const asked = input.value.trim();
    if (!asked) {
      put(back, coloured(input.value));
      put(told);
      changed(undefined);
      return;
    }
    try {
      const audience = await api.get(api.path`projects/${project}/audience` + api.query({ condition: asked }));
      if (mine !== turn) return;
      input.removeAttribute("aria-invalid");
      put(back, coloured(input.value));
      const unknown = isComplete ? [...new Set([...asked.matchAll(/'([^']*)'|"([^"]*)"/g)].map((one) => one[1] ?? one[2]))].filter((name) => !topics.some((one) => one.topic === name)) : [];
      put(told, unknown.length ? h("span", { class: "warn" }, `No device has the topic ${unknown.map((name) => `'${name}'`).join(", ")}.`) : null);
      changed(audience);
    } catch (error) {
      if (mine !== turn) return;
      const lead = input.value.length - input.value.trimStart().length;
      const wrong = error.byteOffset === undefined ? undefined : placeOf(asked, error.byteOffset) + lead;
      input.setAttribute("aria-invalid", "true");
      put(back, coloured(input.value, wrong));
      put(told, h("span", { class: "bad" }, wrong === undefined ? error.message : `At character ${wrong + 1}: ${error.message}`));
      changed(undefined, error);
    }
  }
  function later() {
    put(back, coloured(input.value));
    offer();
    clearTimeout(timer);
    timer = setTimeout(count, 250);
  }
  input.addEventListener("input", later);
  input.addEventListener("keyup", offer);
  input.addEventListener("click", offer);
  input.addEventListener("scroll", () => { back.scrollTop = input.scrollTop; });
  api.get(api.path`projects/${project}/topics` + "?limit=1000").then((page) => { topics = page.entries; isComplete = !page.next; offer(); }).catch(() => {});
  put(back, coloured(text));
  if (text) count();
  const node = h("div", { class: "field" }, h("label", { for: "condition" }, "Condition"),
    h("div", { class: "hint", id: "condition-hint" }, "Such as 'tides' in topics && !('silent' in topics)"),
    h("div", { class: "editor" }, back, input), told, choices);
  return { node, text: () => input.value.trim(), set: (value) => { input.value = value; later(); } };
}

/** A number of devices, and how many of these are connected. */
export function reachText(total, connected) {
  return [h("div", { class: "big", "data-total": total }, number(total)),
    h("div", { class: "soft" }, total === 1 ? "device, exactly" : "devices, exactly"),
    h("p", { "data-connected": connected }, total === 0 ? "Nobody is selected. A name with a fault in it selects nobody either."
      : connected === total
      ? `${total === 1 ? "It is" : "All are"} connected now.`
      : `${number(connected)} of them ${connected === 1 ? "is" : "are"} connected now; the others get a message when they connect.`)];
}

/** An audience as numbers. */
export function audienceText(audience) {
  return [reachText(audience.total, audience.connected),
    h("p", { class: "soft" }, `Android ${number(audience.android)}, Apple ${number(audience.apple)}, Web ${number(audience.web)}`)];
}

/** Asks again every few seconds while a page is seen, because devices come and go. Returns a function that ends it. */
export function again(look) {
  let seconds = 0, isAsking = false;
  return listen((name) => {
    if (name !== "status" || document.hidden || isAsking || ++seconds % 5) return;
    isAsking = true;
    look().catch(() => {}).finally(() => { isAsking = false; });
  });
}
