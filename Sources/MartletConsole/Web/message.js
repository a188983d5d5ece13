// SPDX-License-Identifier: Apache-2.0
// What became of a message: a funnel, all outcomes with their sum, the course since the page was opened, who has not got it
// and why, and sending again to these.

import * as api from "./api.js";
import { listen } from "./live.js";
import { h, put, card, table, action, ask, failure, done, pages, unlessFocused, focusOn } from "./dom.js";
import { number, amount, percent, time, zone, messageNumber, short, OUTCOMES } from "./format.js";
import { curves, bar } from "./plot.js";
import { reason } from "./devices.js";

/** Outcomes for which a device without the message has nothing in its mailbox. */
const ENDS = ["collapsed", "expired", "rateLimited", "discardedTooMany", "discardedInactive", "cancelled", "nowOrNever"];
/** Devices that are looked up at a time. */
const LOOKED_UP = 25;

/** A device shows a message before its acknowledgement comes, which clients gather for a second. */
const received = (counts) => Math.max(counts.acknowledged, counts.displayed);

/** The page of one message. */
export async function one(body, context) {
  const { project, rest } = context;
  put(context.heading, `Message ${rest}`);
  const route = api.path`projects/${project}/messages/${rest}`;
  const funnel = h("div", { "aria-live": "off" });
  const sums = h("div", {}), told = h("div", {}), missing = h("div", {}), stop = h("div", {});
  const way = h("p", { class: "soft" });
  const course = curves("Received over time", [{ name: "received", of: (p) => p.received }, { name: "still waiting", of: (p) => p.pending }], short);
  const points = [];
  let report, drawn;

  function draw() {
    const { counts } = report;
    if (drawn === JSON.stringify(counts)) return;
    const steps = [["Targeted", counts.targeted], ["Sent to the device", Math.max(counts.sent, received(counts))], ["Received", received(counts)], ["Displayed", counts.displayed], ["Opened", counts.opened]];
    put(funnel, h("div", { class: "funnel" }, steps.map(([name, value]) => [h("span", {}, name),
      bar(counts.targeted ? value / counts.targeted : 0, `${name}: ${value} of ${counts.targeted}`),
      h("span", {}, h("strong", { "data-count": name }, number(value)), h("span", { class: "part" }, counts.targeted ? percent(value / counts.targeted) : ""))])));
    const replaced = counts.collapsed ? `${amount(counts.collapsed, "device")} got a later message instead. ` : "";
    put(way, replaced, counts.pending === 0 ? "At its end: no device is pending." : `${amount(counts.pending, "device")} ${counts.pending === 1 ? "waits" : "wait"}.`);
    if (counts.pending === 0 && !stop.contains(document.activeElement)) put(stop);
    const rows = OUTCOMES.filter(([name]) => counts[name] > 0 || name === "acknowledged" || name === "pending");
    unlessFocused(sums, () => {
      drawn = JSON.stringify(counts);
      put(sums, table("Outcomes", [{ title: "Outcome" }, { title: "Devices", number: true }], [
        ...rows.map(([name, label]) => [label, number(counts[name])]),
        { class: "total", cells: ["Targeted, the sum", number(rows.reduce((sum, [name]) => sum + counts[name], 0))] }]));
    });
  }
  async function look(read = api.get) {
    report = await read(route);
    points.push({ at: Date.now(), received: received(report.counts), pending: report.counts.pending });
    points.splice(0, Math.max(0, points.length - 600));
    course.draw(points);
    draw();
  }

  /** Why a device has not got the message. */
  async function why(token) {
    let device;
    try { device = await api.get(api.path`projects/${project}/devices/${token}`); } catch (error) {
      return error.code === "NOT_FOUND" || error.code === "UNREGISTERED" ? "not registered any more" : error.message;
    }
    const found = device.waiting.find((one) => one.messageID && messageNumber(one.messageID) === rest);
    if (found) return reason(found, device);
    if (device.hasMore) return "it may wait behind older messages";
    const ends = OUTCOMES.filter(([name]) => ENDS.includes(name) && report.counts[name] > 0).map(([, label]) => label.toLowerCase());
    return ends.join(", or ") || "received meanwhile";
  }
  async function list() {
    await pages(missing, "Devices without the message", [{ title: "Token", token: true }, { title: "Why" }], "Everyone has got it, or is unregistered.", async (after) => {
      const page = await api.get(`${route}/missing` + api.query({ after, limit: LOOKED_UP }));
      const reasons = await Promise.all(page.tokens.map(why));
      return { next: page.next, rows: page.tokens.map((token, i) => [h("a", { href: context.at("devices", `/${encodeURIComponent(token)}`) }, token), reasons[i]]) };
    });
    if (missing.querySelector("tbody") && context.may("sender")) {
      missing.prepend(h("div", { class: "row" }, h("a", { class: "button", href: context.at("compose", `?missing=${rest}`) }, "Send again to these")));
    }
    focusOn(missing);
  }
  async function cancel() {
    if (!await ask("Cancel this message?", "Devices that have not got it yet will not get it.", "Cancel the message")) return;
    const answer = await api.remove(route);
    if (!report) { put(told, done("The message is cancelled.")); put(stop); return; }
    await look();
    const had = Math.max(answer.delivered, report.counts.sent, received(report.counts));
    if (report.counts.pending === 0) put(stop);
    put(told, done(`Cancelled. It had gone out to ${amount(had, "device")} already; ${had === 1 ? "that one keeps" : "these keep"} it.`));
  }
  const button = (label) => (context.may("sender") ? action(label, { class: "danger small" }, told, cancel) : null);

  try { await look(); } catch (error) {
    if (error.code !== "NOT_FOUND") { put(body, failure(error)); return undefined; }
    const due = await scheduledAt(context);
    put(stop, button("Cancel it"));
    put(body, h("p", {}, due ? `Scheduled for ${time(due)} (${zone}). Its report begins then.`
      : "There is no report of this message: it waits for room, was sent now or never, is older than the reports, or was never sent."), stop, told);
    return undefined;
  }
  put(stop, report.counts.pending > 0 ? button("Cancel the message") : null);
  put(body, h("div", { class: "row apart" }, h("p", { class: "soft" }, `Accepted ${time(report.accepted)}`), stop), told,
    h("div", { class: "two" }, h("div", {}, card("What became of it", funnel, way), card("Since this page was opened", course.node)),
      h("div", {}, card("Outcomes", sums), card("Who has not got it", put(missing, action("List them", { class: "plain" }, told, list))))));

  let isAsking = false;
  return listen((name, value) => {
    if (name === "progress" && report.counts.pending > 0 && messageNumber(value.messageID) === rest) {
      put(way, value.done ? "All devices were looked at; the others get it when they connect." : `On its way: queued for ${number(value.delivered)} of ${amount(value.recipients, "device")}.`);
    }
    if (name !== "status" || isAsking || report.counts.pending === 0 && points.length > 3 && report.counts.displayed >= report.counts.acknowledged) return;
    isAsking = true;
    look(api.quiet.get).catch((error) => put(told, failure(error))).finally(() => { isAsking = false; });
  });
}

/** The time of a scheduled message; nothing for another message. */
async function scheduledAt({ project, rest, may }) {
  if (!may("sender") || !/^[1-9]\d*$/.test(rest)) return undefined;
  const page = await api.get(api.path`projects/${project}/scheduled` + api.query({ after: rest > 1 ? String(BigInt(rest) - 1n) : "", limit: 1 }));
  const [found] = page.entries;
  return found && messageNumber(found.messageID) === rest ? found.due : undefined;
}
