// SPDX-License-Identifier: Apache-2.0
// Who did what in the console, when and from where.

import * as api from "./api.js";
import { h, put, card, table, action } from "./dom.js";
import { time } from "./format.js";

export const title = "Log";
export const role = "administrator";

export async function show(body) {
  const place = h("div", {});
  const told = h("div", {});
  const entries = [];
  async function more(before) {
    const page = await api.get("log" + api.query({ before, limit: 100 }));
    entries.push(...page.entries);
    put(place, table("Actions", [{ title: "When" }, { title: "Who" }, { title: "From" }, { title: "Project" }, { title: "Action" }, { title: "What" }],
      entries.map((one) => [time(one.at), one.who, one.from, one.project ?? "–", one.action, one.what])),
    page.next ? action("Earlier ones", { class: "plain small" }, told, () => more(page.next)) : null);
  }
  put(body, told, card(null, place));
  await more();
}
