// SPDX-License-Identifier: Apache-2.0
// Who did what in the console, when and from where.

import * as api from "./api.js";
import { h, put, card, pages, name } from "./dom.js";
import { time } from "./format.js";

export const title = "Log";
export const role = "administrator";

export async function show(body) {
  const place = h("div", {});
  put(body, card(null, place));
  const columns = [{ title: "When", whole: true }, { title: "Who" }, { title: "From" }, { title: "Project" }, { title: "Action" }, { title: "What", wide: true }];
  await pages(place, "Actions", columns, "Nothing yet.", async (before) => {
    const page = await api.get("log" + api.query({ before, limit: 100 }));
    return { next: page.next, rows: page.entries.map((one) => [time(one.at), name(one.who), one.from, one.project ?? "–", one.action, name(one.what)]) };
  });
}
