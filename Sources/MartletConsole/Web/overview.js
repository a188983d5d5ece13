// SPDX-License-Identifier: Apache-2.0
// The broker as a whole: figures of this second, ten minutes as plots, and what an operator must act on.

import * as api from "./api.js";
import { listen } from "./live.js";
import { h, put, card, tile, unlessFocused } from "./dom.js";
import { bytes, duration, number, short } from "./format.js";
import { curves } from "./plot.js";

export const title = "Overview";
export const isForAll = true;
const SECONDS = 600;

/** Whose requests were refused most, and why. */
const refusedTo = (now) => (now.projectRefusals.length ? now.projectRefusals.map((one) => `${one.project}: ${one.cause}`) : now.refusals.map((one) => one.cause))
  .slice(0, 2).join(", ");

export async function show(body, context) {
  const alerts = h("div", { "aria-live": "polite" });
  const tiles = h("div", { class: "tiles" });
  const busy = h("div", {});
  const plots = [
    ["Deliveries a second", [{ name: "deliveries", of: (p) => p.deliveriesPerSecond }], short],
    ["Messages accepted a second", [{ name: "messages", of: (p) => p.acceptedPerSecond }], short],
    ["Connections", [{ name: "connections", of: (p) => p.connections }], short],
    ["Transaction, with its write to disk", [{ name: "half within", of: (p) => p.commit50 }, { name: "99 % within", of: (p) => p.commit99 }], duration],
    ["First delivery of messages to many", [{ name: "99 % within", of: (p) => p.firstDelivery99 }], duration],
    ["Memory and store", [{ name: "memory", of: (p) => p.memoryBytes }, { name: "store", of: (p) => p.storeBytes }], bytes],
  ].map(([name, series, format]) => ({ name, ...curves(name, series, format) }));
  put(body, alerts, tiles, h("div", { class: "grid" }, plots.map((plot) => card(plot.name, plot.node))), busy);

  let points = [];
  let shown = "";
  function draw(sample) {
    const now = sample.status;
    const told = JSON.stringify(sample.alerts.map((alert) => alert.name));
    if (told !== shown) {
      shown = told;
      put(alerts, sample.alerts.map((alert) => h("div", { class: "alert" }, h("strong", {}, alert.message), " ", alert.remedy)));
    }
    const refused = now.refusals.reduce((sum, one) => sum + one.count, 0);
    put(tiles,
      tile("Connections", short(now.connections)),
      tile("Deliveries a second", short(now.deliveriesPerSecond), `${short(now.delivered)} in all`),
      tile("Accepted a second", short(sample.acceptedPerSecond), `${short(sample.accepted)} messages in all`),
      tile("Transaction", duration(now.commit.p50), `99 % within ${duration(now.commit.p99)}`),
      tile("Memory", bytes(now.allocatedBytes)),
      tile("Store", bytes(now.storeBytes), `${bytes(now.diskFreeBytes)} of the disk are free`),
      tile("Waiting", number(now.commandsWaiting), "commands"),
      tile("Refused", number(refused), refused ? refusedTo(now) : "in the last second"));
    unlessFocused(busy, () => put(busy, card("Busiest projects", now.projects.length === 0 ? h("p", { class: "soft" }, "No device is connected, and no message is on its way.")
      : h("div", { class: "funnel" }, now.projects.slice(0, 8).map((one) => [
        h("a", { href: `#/project/${encodeURIComponent(one.project)}/compose` }, one.project),
        h("span", { class: "soft" }, `${short(one.connections)} connected, ${short(one.deliveriesPerSecond)} deliveries a second`),
        h("span", {}, one.fanoutsInProgress ? `${one.fanoutsInProgress} on their way` : "idle")])))));
  }

  const end = listen((name, sample) => {
    if (name === "shown") fill().catch(() => {});
    if (name !== "status" || !sample.alerts) return;
    const now = sample.status;
    points.push({ at: now.now, connections: now.connections, deliveriesPerSecond: now.deliveriesPerSecond,
      acceptedPerSecond: sample.acceptedPerSecond, commit50: now.commit.p50, commit99: now.commit.p99,
      firstDelivery99: now.firstDelivery.p99, memoryBytes: now.allocatedBytes, storeBytes: now.storeBytes });
    points = points.slice(-SECONDS);
    draw(sample);
    for (const plot of plots) plot.draw(points);
  });
  /** Takes over the seconds before, also those for which the page was hidden. */
  async function fill() {
    const kept = await api.get("history");
    points = [...kept, ...points.filter((point) => point.at > (kept.at(-1)?.at ?? 0))];
    for (const plot of plots) plot.draw(points);
  }
  await fill();
  draw(await api.get("status"));
  return end;
}
