// SPDX-License-Identifier: Apache-2.0
// The messages of a project: those accepted while the page is open, those that people have sent, and those that wait for
// their time.

import * as api from "./api.js";
import { listen } from "./live.js";
import { h, put, card, table, field, action, ask, name, pages, unlessFocused } from "./dom.js";
import { number, amount, time, zone, messageNumber } from "./format.js";
import { one } from "./message.js";

export const title = "Messages";
const SHOWN = 20;

export const show = (body, context) => (context.rest ? one(body, context) : list(body, context));

async function list(body, context) {
  const { project } = context;
  const id = h("input", { id: "message" });
  const fresh = h("div", {}), sent = h("div", {}), scheduled = h("div", {}), told = h("div", {});
  const seen = [];
  let leftOut = 0;
  const link = (message) => h("a", { href: context.at("messages", `/${messageNumber(message)}`) }, messageNumber(message));
  const draw = () => unlessFocused(fresh, () => put(fresh, table("Messages accepted now", [{ title: "Message" }, { title: "Recipients", number: true }, { title: "" }],
    seen.map((one) => [link(one.messageID), number(one.recipients), one.scheduled ? "scheduled" : one.deferred ? "waits for room" : ""]), "None since the page was opened."),
  leftOut ? h("p", { class: "soft" }, `${amount(leftOut, "event")} came too fast to be shown.`) : null));

  async function drawSent() {
    await pages(sent, "Messages that people have sent", [{ title: "Message" }, { title: "When", whole: true }, { title: "Who" }, { title: "What", wide: true }], "None yet.", async (before) => {
      const page = await api.get(api.path`projects/${project}/sent` + api.query({ before, limit: 30 }));
      return { next: page.next, rows: page.entries.map((entry) => {
        const [message] = entry.what.split(/[ ,]/);
        return [link(message), time(entry.at), name(entry.who), name(entry.what.slice(message.length).replace(/^[, ]+/, ""))];
      }) };
    });
  }
  async function drawScheduled() {
    await pages(scheduled, "Scheduled messages", [{ title: "Message" }, { title: `Sent at (${zone})`, whole: true }, { title: "" }], "None.", async (after) => {
      const page = await api.get(api.path`projects/${project}/scheduled` + api.query({ after, limit: 30 }));
      return { next: page.next, rows: page.entries.map((one) => [link(one.messageID), time(one.due), action("Cancel", { class: "danger small" }, told, async () => {
        if (!await ask("Cancel this message?", "It will not be sent.", "Cancel the message")) return;
        await api.remove(api.path`projects/${project}/messages/${messageNumber(one.messageID)}`);
        await drawScheduled();
      })]) };
    });
  }

  put(body, card(null, h("form", { onsubmit: (event) => {
    event.preventDefault();
    if (id.value.trim()) location.hash = context.at("messages", `/${messageNumber(id.value.trim())}`);
  } }, field("Message", id, "Its ID, as the sender got it, or its number."), h("button", {}, "Show"))),
  card("Accepted now", fresh), context.may("sender") ? [card("Scheduled", told, scheduled), card("Sent by people", sent)] : null);
  draw();
  if (context.may("sender")) await Promise.all([drawSent(), drawScheduled()]);
  return listen((kind, value) => {
    if (kind === "left-out") leftOut += value.count;
    else if (kind !== "accepted") return;
    else {
      seen.unshift(value);
      seen.length = Math.min(seen.length, SHOWN);
    }
    draw();
  });
}
