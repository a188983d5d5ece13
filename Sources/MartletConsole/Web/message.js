// SPDX-License-Identifier: Apache-2.0
// What became of a message: a funnel, all outcomes with their sum, the course since the page was opened, who has not got it,
// and sending again to these. Without a number: messages accepted while the page is open, and those that were sent here.

import * as api from "./api.js";
import { listen } from "./live.js";
import { h, put, card, table, field, action, ask, failure } from "./dom.js";
import { number, percent, time, messageNumber, short, OUTCOMES } from "./format.js";
import { curves, bar } from "./plot.js";

export const title = "Messages";

export const show = (body, context) => (context.rest ? one(body, context) : list(body, context));

async function list(body, context) {
  const { project } = context;
  const id = h("input", { id: "message" });
  const fresh = h("div", {});
  const sent = h("div", {});
  const seen = [];
  const link = (message) => h("a", { href: context.at("messages", `/${messageNumber(message)}`) }, messageNumber(message));
  const draw = () => put(fresh, table("Messages accepted now", [{ title: "Message" }, { title: "Recipients", number: true }, { title: "" }],
    seen.map((one) => [link(one.messageID), number(one.recipients), one.scheduled ? "scheduled" : one.deferred ? "waits for room" : ""]), "None since the page was opened."));
  put(body, card(null, h("form", { onsubmit: (event) => {
    event.preventDefault();
    if (id.value.trim()) location.hash = context.at("messages", `/${messageNumber(id.value.trim())}`);
  } }, field("Message", id, "Its ID, as the sender got it, or its number."), h("button", {}, "Show"))),
  card("Accepted now", fresh), context.may("administrator") ? card("Sent by people", sent) : null);
  draw();
  if (context.may("administrator")) {
    const log = await api.get("log?limit=500");
    const mine = log.entries.filter((entry) => entry.action === "message.send" && entry.project === project).slice(0, 30);
    put(sent, table("Messages from the console and from commands", [{ title: "Message" }, { title: "When" }, { title: "Who" }, { title: "To" }],
      mine.map((entry) => {
        const [message] = entry.what.split(" ");
        return [link(message), time(entry.at), entry.who, entry.what.slice(message.length + 4)];
      })));
  }
  return listen((name, value) => {
    if (name !== "accepted") return;
    seen.unshift(value);
    seen.length = Math.min(seen.length, 20);
    draw();
  });
}

async function one(body, context) {
  const { project, rest } = context;
  put(context.heading, `Message ${rest}`);
  const route = api.path`projects/${project}/messages/${rest}`;
  const funnel = h("div", { "aria-live": "off" });
  const sums = h("div", {});
  const told = h("div", {});
  const missing = h("div", {});
  const way = h("p", { class: "soft" });
  const course = curves("Received over time", [{ name: "received", of: (p) => p.received }, { name: "still waiting", of: (p) => p.pending }], short);
  const points = [];
  let report;

  function draw() {
    const { counts } = report;
    const steps = [["Targeted", counts.targeted], ["Sent to the device", counts.sent], ["Received", counts.acknowledged], ["Displayed", counts.displayed], ["Opened", counts.opened]];
    put(funnel, h("div", { class: "funnel" }, steps.map(([name, value]) => [h("span", {}, name),
      bar(counts.targeted ? value / counts.targeted : 0, `${name}: ${value} of ${counts.targeted}`),
      h("span", {}, h("strong", { "data-count": name }, number(value)), h("span", { class: "part" }, counts.targeted ? percent(value / counts.targeted) : ""))])));
    if (counts.pending === 0) put(way, "At its end: no device is pending.");
    const rows = OUTCOMES.filter(([name]) => counts[name] > 0 || name === "acknowledged" || name === "pending");
    put(sums, table("Outcomes", [{ title: "Outcome" }, { title: "Devices", number: true }], [
      ...rows.map(([name, label]) => [label, number(counts[name])]),
      { class: "total", cells: ["Targeted, the sum", number(rows.reduce((sum, [name]) => sum + counts[name], 0))] }]));
  }
  async function look() {
    report = await api.get(route);
    points.push({ at: Date.now(), received: report.counts.acknowledged, pending: report.counts.pending });
    points.splice(0, Math.max(0, points.length - 600));
    course.draw(points);
    draw();
  }
  async function list(after) {
    const page = await api.get(`${route}/missing` + api.query({ after, limit: 100 }));
    put(missing, table("Devices without the message", [{ title: "Token", token: true }],
      page.tokens.map((token) => [h("a", { href: context.at("devices", `/${encodeURIComponent(token)}`) }, token)]), "Everyone has got it, or is unregistered."),
    h("div", { class: "row" },
      page.tokens.length && context.may("sender") ? h("a", { class: "button", href: context.at("compose", `?missing=${rest}`) }, "Send again to these") : null,
      page.next ? action("More", { class: "plain" }, told, () => list(page.next)) : null));
  }

  try { await look(); } catch (error) {
    put(body, h("p", {}, error.code === "NOT_FOUND" ? "There is no report of this message: it is scheduled, waits for room, is older than the reports, or was never sent." : error.message),
      context.may("sender") ? action("Cancel it", { class: "danger" }, told, async () => {
        await api.remove(route);
        put(told, h("div", { class: "note", role: "status" }, "The message is cancelled."));
      }) : null, told);
    return undefined;
  }
  put(body, h("div", { class: "row apart" }, h("p", { class: "soft" }, `Accepted ${time(report.accepted)}`),
    context.may("sender") ? action("Cancel the message", { class: "danger small" }, told, async () => {
      if (!await ask("Cancel this message?", "Devices that have not got it yet will not get it.", "Cancel the message")) return;
      const answer = await api.remove(route);
      put(told, h("div", { class: "note", role: "status" }, `Cancelled. ${number(answer.delivered)} devices had it already.`));
      await look();
    }) : null), told,
  h("div", { class: "two" }, h("div", {}, card("What became of it", funnel, way), card("Since this page was opened", course.node)),
    h("div", {}, card("Outcomes", sums), card("Who has not got it", missing, action("List them", { class: "plain" }, told, () => list(""))))));

  let isAsking = false;
  return listen((name, value) => {
    if (name === "progress" && report.counts.pending > 0 && messageNumber(value.messageID) === rest) {
      put(way, value.done ? "All devices were looked at; the others get it when they connect." : `On its way: queued for ${number(value.delivered)} of ${number(value.recipients)} devices.`);
    }
    if (name !== "status" || isAsking || report.counts.pending === 0 && points.length > 3 && report.counts.displayed >= report.counts.acknowledged) return;
    isAsking = true;
    look().catch((error) => put(told, failure(error))).finally(() => { isAsking = false; });
  });
}
