// SPDX-License-Identifier: Apache-2.0
// Whom a condition selects: the exact count, the count of each part, by platform and app, and a page of tokens.

import * as api from "./api.js";
import { h, put, card, table, action, failure, pages, focusOn } from "./dom.js";
import { number, PLATFORMS } from "./format.js";
import { conditionEditor, audienceText, again } from "./condition.js";

export const title = "Audience";

export async function show(body, context) {
  const { project } = context;
  const counted = h("div", { "aria-live": "polite" }, h("p", { class: "soft" }, "Write a condition, or choose a topic."));
  const explained = h("div", {});
  const listed = h("div", {});
  const numbers = h("div", {});
  let turn = 0, seen;

  async function explain(condition) {
    const mine = ++turn;
    try {
      const found = await api.get(api.path`projects/${project}/audience/explanation` + api.query({ condition }));
      if (mine !== turn) return;
      put(explained, card("How it is read", h("p", { class: "code" }, found.readAs),
        table("Parts of the condition", [{ title: "Part" }, { title: "Devices", number: true }],
          found.parts.map((part) => [h("span", { class: "code" }, "\u00a0\u00a0\u00a0".repeat(part.depth) + part.text.replace(/\s+/g, " ")), number(part.count)])),
        found.advice.map((advice) => h("div", { class: "note" }, advice.message))));
    } catch (error) { if (mine === turn) put(explained, failure(error)); }
  }

  async function list(condition) {
    await pages(listed, "Tokens", [{ title: "Token", token: true }], "No device.", async (after) => {
      const page = await api.get(api.path`projects/${project}/audience/tokens` + api.query({ condition, after, limit: 50 }));
      return { next: page.next, rows: page.tokens.map((token) => [h("a", { href: context.at("devices", `/${encodeURIComponent(token)}`) }, token)]) };
    });
    focusOn(listed);
  }

  const editor = conditionEditor(project, context.query.get("condition") ?? "", (audience) => {
    put(listed);
    if (!audience) {
      turn += 1;
      seen = undefined;
      put(counted, h("p", { class: "soft" }, editor.text() ? "The condition is not right yet." : "Write a condition, or choose a topic."));
      put(explained);
      return;
    }
    const condition = editor.text();
    const told = h("div", {});
    seen = audience;
    put(counted, put(numbers, audienceText(audience)), h("div", { class: "row" },
      context.may("sender") ? h("a", { class: "button", href: context.at("compose", "?" + new URLSearchParams({ condition })) }, "Send to these") : null,
      action("List tokens", { class: "plain" }, told, () => list(condition))), told,
    audience.apps.length ? table("By app", [{ title: "App" }, { title: "Platform" }, { title: "Devices", number: true }],
      audience.apps.map((one) => [one.app, PLATFORMS[one.platform], number(one.count)])) : null);
    explain(condition);
  });
  put(body, h("div", { class: "two" }, h("div", {}, card(null, editor.node), explained), h("div", {}, card("Selected now", counted, listed))));
  return again(async () => {
    const before = seen;
    if (!before) return;
    const audience = await api.quiet.get(api.path`projects/${project}/audience` + api.query({ condition: before.condition }));
    if (seen !== before || audience.total === before.total && audience.connected === before.connected) return;
    seen = audience;
    put(numbers, audienceText(audience));
  });
}
