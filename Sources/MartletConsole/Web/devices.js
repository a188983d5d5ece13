// SPDX-License-Identifier: Apache-2.0
// One device, by its token: where it stands, and what waits for it and why.

import * as api from "./api.js";
import { h, put, card, table, field, action, ask } from "./dom.js";
import { time, number, amount, bytes, messageNumber, PLATFORMS } from "./format.js";
import { bar } from "./plot.js";

export const title = "Devices";

const STATES = { active: "active", background: "in the background", doze: "dozing: messages of normal priority wait" };
const LIMITS = { collapsible: "Collapsible messages", messagesPerMinute: "Messages in a minute", messagesPerHour: "Messages in an hour",
  upstreamPerMinute: "Messages from the device in a minute" };

/** Why a message waits for a device. */
export function reason(one, device) {
  const later = one.collapsible ? "; a later message may replace it" : "";
  switch (one.why) {
    case "notConnected": return `not connected${later}`;
    case "dozing": return `the device dozes${later}`;
    case "throttled": return `throttled${device.throttledUntil ? ` until ${time(device.throttledUntil)}` : ""}${later}`;
    case "notAcknowledged": return "sent, not acknowledged yet";
    default: return "on its way";
  }
}

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
    device.connection ? [
      fact("Connection", h("span", { class: "good" }, `since ${time(device.connection.since)}`)),
      fact("From", `${device.connection.address}, on loop ${device.connection.loop}`),
      fact("State", STATES[device.connection.state]),
      device.connection.queuedBytes ? fact("Queued", bytes(device.connection.queuedBytes)) : null,
    ] : fact("Connection", `none; last seen ${time(device.seen)}`),
    fact("Throttled", device.throttledUntil ? `collapsible messages until ${time(device.throttledUntil)}` : "no"),
    fact("Discarded", device.discarded ? `${amount(device.discarded, "message")}, and the device does not know yet` : "none"),
    fact("Groups", device.groups.join(", ") || "none")),
  h("h3", {}, "Limits left"), device.limits.length ? device.limits.map((one) => h("div", { class: "field" },
    h("div", { class: "row apart" }, h("span", {}, LIMITS[one.limit]), h("span", { class: "soft", "data-limit": one.limit }, `${number(one.left)} of ${number(one.of)} left`)),
    bar(one.of ? one.left / one.of : 0, `${LIMITS[one.limit]}: ${one.left} of ${one.of} left`)))
    : h("p", { class: "soft" }, "No limit is in force."),
  h("h3", {}, `Topics (${device.topics.length})`), h("div", { class: "chips" }, device.topics.slice(0, 200).map((topic) =>
    h("a", { class: "code", href: context.at("topics", `/${encodeURIComponent(topic)}`) }, topic)))),
  h("div", {}, card("Waiting in its mailbox", table("Waiting messages", [{ title: "Message" }, { title: "Accepted" }, { title: "Ends" }, { title: "Priority" }, { title: "Why it waits" }],
    device.waiting.map((one) => [one.messageID ? h("a", { href: context.at("messages", `/${messageNumber(one.messageID)}`) }, messageNumber(one.messageID)) : "–",
      time(one.accepted), time(one.expires), one.priority, reason(one, device)]),
    "Nothing waits."), device.hasMore ? h("p", { class: "soft" }, "There are more.") : null),
  h("div", { class: "card row" },
    context.may("sender") ? h("a", { class: "button", href: context.at("compose", "?" + new URLSearchParams({ token: device.token })) }, "Send a message") : null,
    context.may("administrator") ? action("Unregister", { class: "danger" }, told, async () => {
      if (!await ask("Unregister this device?", "Its token, its topics and its stored messages go for good.", "Unregister")) return;
      await api.remove(route);
      put(place, h("div", { class: "note", role: "status" }, "The device is unregistered."));
    }) : null))));
}
