// SPDX-License-Identifier: Apache-2.0
// Topics with their subscribers. A topic's page lists tokens, and adds or removes devices.

import * as api from "./api.js";
import { h, put, card, table, field, action, ask, done, name, pages } from "./dom.js";
import { number, amount } from "./format.js";

export const title = "Topics";

export const tokensOf = (text) => text.split(/[\s,]+/).filter(Boolean);

export async function show(body, context) {
  const { project } = context;
  if (context.rest) return one(body, context);
  const all = await api.all(api.path`projects/${project}/topics`);
  const find = h("input", { id: "find", type: "search" });
  const place = h("div", {});
  const draw = () => {
    const found = all.filter((topic) => topic.topic.includes(find.value));
    put(place, table("Topics", [{ title: "Topic" }, { title: "Subscribers", number: true }, { title: "" }], found.slice(0, 200).map((topic) => [
      h("a", { href: context.at("topics", `/${encodeURIComponent(topic.topic)}`) }, name(topic.topic)), number(topic.subscribers),
      context.may("sender") ? h("a", { href: context.at("compose", "?" + new URLSearchParams({ topic: topic.topic })) }, "Send to it") : ""]), "No topic."),
    found.length > 200 ? h("p", { class: "soft" }, `${number(found.length - 200)} more; write more of the name.`) : null);
  };
  find.addEventListener("input", draw);
  put(body, card(null, field("Find", find), place));
  draw();
}

async function one(body, context) {
  const topic = context.rest;
  put(context.heading, `Topic ${topic}`);
  const route = api.path`projects/${context.project}/topics/${topic}/subscribers`;
  const place = h("div", {});
  const told = h("div", {});
  const tokens = h("textarea", { id: "tokens", class: "code" });
  const list = () => pages(place, "Subscribers", [{ title: "Token", token: true }], "No device.", async (after) => {
    const page = await api.get(route + api.query({ after, limit: 100 }));
    return { next: page.next, rows: page.tokens.map((token) => [h("a", { href: context.at("devices", `/${encodeURIComponent(token)}`) }, token)]) };
  });
  const change = (label, call, kind) => action(label, { class: kind }, told, async () => {
    const chosen = tokensOf(tokens.value);
    if (!chosen.length) throw new Error("Write a token first.");
    if (kind && !await ask(`Unsubscribe ${amount(chosen.length, "device")}?`, `${chosen.length === 1 ? "It gets" : "They get"} no more messages to the topic ${topic}.`, label)) return;
    const answer = await call(route, { tokens: chosen });
    put(told, done(`${amount(answer.successes, "device")}. `, answer.failures.map((one) => `${one.token.slice(0, 16)}… ${one.error}. `)));
    await list();
  });
  put(body, card("Subscribers", place), context.may("sender") ? card("Change", told, field("Tokens", tokens, "One on each line, at most 1000."),
    h("div", { class: "row" }, change("Subscribe", api.post), change("Unsubscribe", api.remove, "danger"))) : told);
  await list();
}
