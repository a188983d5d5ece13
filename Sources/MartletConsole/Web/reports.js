// SPDX-License-Identifier: Apache-2.0
// A project's messages by day: stacked bars, a table by day, app or platform, and files for other programs.

import * as api from "./api.js";
import { h, put, card, table, field } from "./dom.js";
import { number, short, OUTCOMES, PLATFORMS } from "./format.js";
import { stackedBars } from "./plot.js";

export const title = "Reports";

/** Outcomes that the bars join. */
const BARS = [["Received or handed over", ["acknowledged", "handedOver"]], ["Still waiting", ["pending"]], ["Replaced or expired", ["collapsed", "expired"]],
  ["Discarded", ["discardedTooMany", "discardedInactive", "rateLimited"]], ["Cancelled or unregistered", ["cancelled", "unregistered", "nowOrNever", "refused"]]];
const COLUMNS = ["targeted", "sent", "displayed", "opened", ...OUTCOMES.map(([name]) => name)];

function sums(entries, key) {
  const found = new Map();
  for (const entry of entries) {
    const name = key(entry);
    const counts = found.get(name) ?? Object.fromEntries(COLUMNS.map((column) => [column, 0]));
    for (const column of COLUMNS) counts[column] += entry.counts[column];
    found.set(name, counts);
  }
  return found;
}

function days(first, last) {
  const all = [];
  for (let day = new Date(`${first}T00:00:00Z`); day.toISOString().slice(0, 10) <= last; day.setUTCDate(day.getUTCDate() + 1)) all.push(day.toISOString().slice(0, 10));
  return all;
}

function save(name, type, text) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

/** A cell of a CSV file. A text that a spreadsheet would take for a formula gets a quote in front. */
const cell = (value) => (typeof value === "number" ? value : `"${String(value).replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`);

export async function show(body, context) {
  const place = h("div", {});
  const span = h("select", { id: "days", onchange: () => draw() }, [7, 30, 90, 366].map((one) => h("option", { value: one, selected: one === 30 }, `${one} days`)));
  const by = h("select", { id: "by", onchange: () => draw() }, ["day", "app", "platform"].map((one) => h("option", {}, one)));
  put(body, h("div", { class: "card row" }, field("Days, in UTC", span), field("A row for each", by)), place);

  async function draw() {
    const report = await api.get(api.path`projects/${context.project}/reports` + `?days=${span.value}`);
    const perDay = sums(report.days, (entry) => entry.day);
    const none = Object.fromEntries(COLUMNS.map((column) => [column, 0]));
    const rows = days(report.firstDay, report.lastDay).map((day) => {
      const counts = perDay.get(day) ?? none;
      return { name: day, values: BARS.map(([, names]) => names.reduce((sum, name) => sum + counts[name], 0)) };
    });
    const key = { day: (entry) => entry.day, app: (entry) => `${entry.app} (${PLATFORMS[entry.platform]})`, platform: (entry) => PLATFORMS[entry.platform] }[by.value];
    const shown = ["targeted", "sent", "acknowledged", "displayed", "opened", "pending"];
    const line = (name, counts) => [name, ...shown.map((column) => number(counts[column])), number(COLUMNS.slice(6).reduce((sum, column) => sum + counts[column], 0))];
    const name = `martlet-${context.project}-${report.firstDay}-${report.lastDay}`;
    put(place, card("Messages for devices, by what became of them", stackedBars("Messages by day", BARS.map(([name]) => name), rows, short)),
      card(null, h("div", { class: "row end" },
        h("button", { class: "plain small", onclick: () => save(`${name}.csv`, "text/csv", [["day", "app", "platform", ...COLUMNS], ...report.days.map((entry) => [entry.day, entry.app, entry.platform, ...COLUMNS.map((column) => entry.counts[column])])].map((row) => row.map(cell).join(",")).join("\r\n")) }, "CSV"),
        h("button", { class: "plain small", onclick: () => save(`${name}.json`, "application/json", JSON.stringify(report, null, 2)) }, "JSON")),
      table(`Counts by ${by.value}`, [{ title: by.value, whole: by.value === "day" }, ...["Targeted", "Sent", "Received", "Displayed", "Opened", "Waiting", "Lost"].map((title) => ({ title, number: true }))],
        [...[...sums(report.days, key)].map(([name, counts]) => line(name, counts)), { class: "total", cells: line("all", report.total) }], "No message in these days."),
      h("p", { class: "hint" }, "Outcomes count for the day on which the message was accepted; sent, displayed and opened for the day on which that happened.")));
  }
  await draw();
}
