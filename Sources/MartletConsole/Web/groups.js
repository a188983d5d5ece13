// SPDX-License-Identifier: Apache-2.0
// Groups of at most 20 devices, each addressed by a key.

import * as api from "./api.js";
import { h, put, card, table, field, action, ask, name as plain, focusOn } from "./dom.js";
import { number } from "./format.js";
import { tokensOf } from "./topics.js";

export const title = "Groups";

export async function show(body, context) {
  const route = api.path`projects/${context.project}/groups`;
  const place = h("div", {});
  const members = h("div", {});
  const told = h("div", {});
  async function list() {
    const page = await api.get(`${route}?limit=200`);
    put(place, table("Groups", [{ title: "Group" }, { title: "Key", token: true }, { title: "Members", number: true }, { title: "" }], page.entries.map((group) => [
      h("button", { class: "plain small", onclick: () => open(group.name).then(() => focusOn(members)) }, plain(group.name)), group.key, number(group.members),
      context.may("sender") ? h("a", { href: context.at("compose", "?" + new URLSearchParams({ group: group.key })) }, "Send to it") : ""])),
    page.next ? h("p", { class: "soft" }, "There are more; the command martlet group list has all.") : null);
  }
  async function open(name) {
    const group = await api.get(`${route}/${encodeURIComponent(name)}`);
    put(members, card(`Members of ${name}`, table("Members", [{ title: "Token", token: true }, { title: "" }], group.tokens.map((token) => [token,
      context.may("sender") ? action("Remove", { class: "danger small" }, told, async () => {
        const isLast = group.tokens.length === 1;
        if (!await ask(isLast ? `End the group ${name}?` : "Remove this member?", isLast ? "It is the last member: the group and its key end with it." : "The device gets no more messages to the group.", "Remove")) return;
        await api.remove(`${route}/${encodeURIComponent(name)}`, { key: group.key, tokens: [token] });
        await list();
        if (group.tokens.length > 1) await open(name); else put(members);
      }) : ""]))));
  }
  const name = h("input", { id: "group-name" });
  const tokens = h("textarea", { id: "group-tokens", class: "code" });
  put(body, told, card(null, place), members, context.may("sender") ? card("New group", field("Name", name), field("Tokens", tokens, "1 to 20, one on each line."),
    action("Create", {}, told, async () => {
      await api.post(route, { name: name.value, tokens: tokensOf(tokens.value) });
      await list();
      await open(name.value);
    })) : null);
  await list();
}
