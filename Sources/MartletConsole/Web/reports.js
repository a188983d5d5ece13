// SPDX-License-Identifier: Apache-2.0
// A project's messages by day: stacked bars, a table by day, app or platform, and files for other programs.

import * as api from "./api.js";
import { h, put, card, table, field } from "./dom.js";
import { number, short, sumOf, OUTCOMES, PARTS, PLATFORMS } from "./format.js";
import { stackedBars } from "./plot.js";

export const title = "Reports";

/** The counts of the report by name: columns of the CSV file. */
const COUNTS = ["targeted", "sent", "displayed", "opened", ...OUTCOMES.map(([name]) => name)];

/** Columns of the table. *Targeted* is the sum of the four columns behind it. */
const COLUMNS = [
  ["Targeted", (counts) => counts.targeted],
  ["Received or handed over", (counts) => sumOf(counts, "received")],
  ["Waiting", (counts) => sumOf(counts, "waiting")],
  ["Now or never", (counts) => sumOf(counts, "nowOrNever")],
  ["Lost", (counts) => sumOf(counts, "replaced", "discarded", "ended")],
  ["Sent", (counts) => counts.sent],
  ["Displayed", (counts) => counts.displayed],
  ["Opened", (counts) => counts.opened],
];

function sums(entries, key) {
  const found = new Map();
  for (const entry of entries) {
    const name = key(entry);
    const counts = found.get(name) ?? Object.fromEntries(COUNTS.map((count) => [count, 0]));
    for (const count of COUNTS) counts[count] += entry.counts[count];
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
    const none = Object.fromEntries(COUNTS.map((count) => [count, 0]));
    const rows = days(report.firstDay, report.lastDay).map((day) => {
      const counts = perDay.get(day) ?? none;
      return { name: day, values: PARTS.map(([part]) => sumOf(counts, part)) };
    });
    const key = { day: (entry) => entry.day, app: (entry) => `${entry.app} (${PLATFORMS[entry.platform]})`, platform: (entry) => PLATFORMS[entry.platform] }[by.value];
    const line = (name, counts) => [name, ...COLUMNS.map(([, of]) => number(of(counts)))];
    const name = `martlet-${context.project}-${report.firstDay}-${report.lastDay}`;
    put(place, card("Messages for devices, by what became of them", stackedBars("Messages by day", PARTS.map(([, label]) => label), rows, short)),
      card(null, h("div", { class: "row end" },
        h("button", { class: "plain small", onclick: () => save(`${name}.csv`, "text/csv", [["day", "app", "platform", ...COUNTS], ...report.days.map((entry) => [entry.day, entry.app, entry.platform, ...COUNTS.map((count) => entry.counts[count])])].map((row) => row.map(cell).join(",")).join("\r\n")) }, "CSV"),
        h("button", { class: "plain small", onclick: () => save(`${name}.json`, "application/json", JSON.stringify(report, null, 2)) }, "JSON")),
      table(`Counts by ${by.value}`, [{ title: by.value, whole: by.value === "day" }, ...COLUMNS.map(([title]) => ({ title, number: true }))],
        [...[...sums(report.days, key)].map(([name, counts]) => line(name, counts)), { class: "total", cells: line("all", report.total) }], "No message in these days."),
      h("p", { class: "hint" }, "Targeted is the sum of the next four columns. A message with time to live 0 goes to connected devices alone, now or never: no device acknowledges it, so only Sent tells how often it went out. ",
        "Outcomes count for the day on which the message was accepted; sent, displayed and opened for the day on which that happened.")));
  }
  await draw();
}
