// SPDX-License-Identifier: Apache-2.0
// One device, by its token: where it stands, and what waits for it and why.

import * as api from "./api.js";
import { h, put, card, table, field, action, ask } from "./dom.js";
import { time, number, PLATFORMS } from "./format.js";

export const title = "Devices";

export async function show(body, context) {
  const { project } = context;
  const token = h("input", { id: "device", value: context.rest, spellcheck: "false" });
  const place = h("div", {});
  put(body, card(null, h("form", { onsubmit: (event) => {
    event.preventDefault();
    if (token.value.trim()) location.hash = context.at("devices", `/${encodeURIComponent(token.value.trim())}`);
  } }, field("Token", token, "The registration token, as senders know it."), h("button", {}, "Look up"))), place);
  if (!context.rest) return;
  const route = api.path`projects/${project}/devices/${context.rest}`;
  const device = await api.get(route);
  const told = h("div", {});
  const fact = (name, value) => [h("span", { class: "soft" }, name), h("span", {}, value), h("span", {})];
  put(place, told, h("div", { class: "two" }, card("Device", h("div", { class: "funnel" },
    fact("App", `${device.app}, ${PLATFORMS[device.platform]}`), fact("Registered", time(device.registered)),
    fact("Connection", device.connected ? h("span", { class: "good" }, "connected now") : `none; last seen ${time(device.seen)}`),
    fact("Throttled", device.throttledUntil ? `collapsible messages until ${time(device.throttledUntil)}` : "no"),
    fact("Discarded", device.discarded ? `${number(device.discarded)} messages, and the device does not know yet` : "none"),
    fact("Groups", device.groups.join(", ") || "none")),
  h("h3", {}, `Topics (${device.topics.length})`), h("div", { class: "chips" }, device.topics.slice(0, 200).map((topic) =>
    h("a", { class: "code", href: context.at("topics", `/${encodeURIComponent(topic)}`) }, topic)))),
  h("div", {}, card("Waiting in its mailbox", table("Waiting messages", [{ title: "Accepted" }, { title: "Ends" }, { title: "Priority" }, { title: "Why it waits" }],
    device.waiting.map((one) => [time(one.accepted), time(one.expires), one.priority,
      one.collapsible && device.throttledUntil ? "throttled; a later message may replace it" : device.connected ? "sent, not acknowledged yet" : one.collapsible ? "not connected; a later message may replace it" : "not connected"]),
    "Nothing waits."), device.hasMore ? h("p", { class: "soft" }, "There are more.") : null),
  h("div", { class: "card row" },
    context.may("sender") ? h("a", { class: "button", href: context.at("compose", "?" + new URLSearchParams({ token: device.token })) }, "Send a test") : null,
    context.may("administrator") ? action("Unregister", { class: "danger" }, told, async () => {
      if (!await ask("Unregister this device?", "Its token, its topics and its stored messages go for good.", "Unregister")) return;
      await api.remove(route);
      put(place, h("div", { class: "note", role: "status" }, "The device is unregistered."));
    }) : null))));
}
