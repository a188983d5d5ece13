// SPDX-License-Identifier: Apache-2.0
// Projects with their shares, messages on their way, quotas left, and the settings of a project.

import * as api from "./api.js";
import { listen } from "./live.js";
import { h, put, card, table, field, action, ask, tell, failure, done, unlessFocused, focusOn } from "./dom.js";
import { number, amount, short, percent, duration, messageNumber, PLATFORMS } from "./format.js";
import { bar } from "./plot.js";

export const title = "Projects";

/** `topic-changes-per-second` for people. */
const words = (text) => text[0].toUpperCase() + text.slice(1).replaceAll("-", " ");

export async function show(body, context) {
  const shares = h("div", {});
  const fanouts = h("div", {});
  const settings = h("div", {});
  const told = h("div", {});
  let list = context.projects;
  let loads = new Map();

  function drawShares() {
    put(shares, table("Projects", [{ title: "Project" }, { title: "Share of the capacity" }, { title: "Weight", number: true }, { title: "Devices", number: true },
      { title: "Connected", number: true }, { title: "Deliveries a second", number: true }, { title: "On their way", number: true }, { title: "Waiting", number: true }],
    list.map((one) => {
      const load = loads.get(one.project);
      return [h("button", { class: "plain small", onclick: () => drawSettings(one, true) }, one.project),
        h("div", {}, bar(load?.share ?? 0, `${one.project} has ${percent(load?.share ?? 0)} of the capacity`), h("span", { class: "soft" }, percent(load?.share ?? 0))),
        one.weight, number(one.instances), number(load?.connections ?? 0), short(load?.deliveriesPerSecond ?? 0), number(load?.fanoutsInProgress ?? 0), number(load?.fanoutsDeferred ?? 0)];
    }), "There is no project yet."));
  }

  async function drawFanouts(read = api.get) {
    const page = await read("fanouts?limit=100");
    put(fanouts, table("Messages on their way to many", [{ title: "Message" }, { title: "To" }, { title: "Progress" }, { title: "Recipients", number: true },
      { title: "Delivered", number: true }, { title: "A second", number: true }, { title: "Left", number: true }, { title: "" }],
    page.entries.map((one) => [
      h("a", { href: `#/project/${encodeURIComponent(one.project)}/messages/${messageNumber(one.messageID)}` }, `${one.project} ${messageNumber(one.messageID)}`),
      `${one.kind} ${one.target}`.slice(0, 80),
      one.deferredPlace ? `waits, place ${one.deferredPlace}` : h("div", {}, bar(one.progress, `${percent(one.progress)} done`), percent(one.progress)),
      number(one.recipients), number(one.delivered), short(one.deliveriesPerSecond), one.secondsLeft === undefined ? "–" : duration(one.secondsLeft),
      context.may("sender") ? action("Cancel", { class: "danger small" }, told, async () => {
        if (!await ask("Cancel this message?", "Devices that have not got it yet will not get it.", "Cancel the message")) return;
        await api.remove(api.path`projects/${one.project}/messages/${messageNumber(one.messageID)}`);
        await drawFanouts();
      }) : ""]), "No message is on its way to many."));
  }

  async function drawSettings(project, isChosen) {
    const place = h("div", {});
    const [quotas, apps] = await Promise.all([
      api.get(api.path`projects/${project.project}/quotas`), api.get(api.path`projects/${project.project}/apps`)]);
    // The share concerns the other projects too.
    const isForAll = !context.session.project;
    const inputs = {
      weight: h("input", { type: "number", min: 1, max: 1000, value: project.weight, disabled: !isForAll }),
      onOverload: h("select", { disabled: !isForAll }, ["defer", "refuse"].map((one) => h("option", { selected: one === project.onOverload }, one))),
      conditionTopicsMax: h("input", { type: "number", min: 1, max: 64, value: project.conditionTopicsMax }),
      registration: h("select", {}, ["key", "ticket", "open"].map((one) => h("option", { selected: one === project.registration }, one))),
      deviceTopics: h("input", { value: project.deviceTopics }),
    };
    const form = [
      field("Weight", inputs.weight, `Its share beside the weights of other busy projects.${isForAll ? "" : " For administrators of all projects."}`),
      field("Too many messages to many at a time", inputs.onOverload, "Further ones wait in a line, or are refused."),
      field("Topics in a condition, at most", inputs.conditionTopicsMax),
      field("A new device must present", inputs.registration, "A registration key, a ticket of the app's server, or nothing."),
      field("Topics that devices may choose", inputs.deviceTopics, "all, none, or beginnings of names with commas between them."),
      action("Save", {}, place, async () => {
        await api.patch(api.path`projects/${project.project}`, {
          weight: isForAll ? Number(inputs.weight.value) : undefined, onOverload: isForAll ? inputs.onOverload.value : undefined, conditionTopicsMax: Number(inputs.conditionTopicsMax.value),
          registration: inputs.registration.value, deviceTopics: inputs.deviceTopics.value });
        list = await context.reload();
        drawShares();
        put(place, done("Saved. It holds at once."));
      })];
    put(settings, h("div", { class: "two" },
      card(`Quotas of ${project.project}`, h("div", { class: "funnel" }, quotas.map((one) => [h("span", {}, words(one.quota)),
        bar(one.limit ? one.remaining / one.limit : 0, `${one.remaining} of ${one.limit} left`),
        h("span", { class: "soft" }, `${number(one.remaining)} of ${number(one.limit)} left`)])),
      h("h3", {}, "Apps"), table("Apps", [{ title: "App" }, { title: "Platform" }, { title: "Devices", number: true }, { title: "" }], apps.map((one) => [
        one.app, PLATFORMS[one.platform], number(one.instances),
        one.beingDeleted ? "is being deleted" : context.may("administrator") ? action("Delete", { class: "danger small" }, place, async () => {
          if (!await ask(`Delete ${one.app}?`, `${amount(one.instances, "device")} of the app will be unregistered for good.`, "Delete the app")) return;
          await api.remove(api.path`projects/${project.project}/apps/${one.platform}/${one.app}`);
          await drawSettings(project);
        }) : ""]))),
      context.may("administrator") ? card(`Settings of ${project.project}`, form, place) : place));
    settings.scrollIntoView({ block: "nearest" });
    if (isChosen) focusOn(settings);
  }

  put(body, card("Shares of the delivery capacity", shares), card("On their way", told, fanouts), settings);
  if (context.may("administrator") && !context.session.project) {
    const id = h("input", { pattern: "[a-z0-9-]{1,64}" });
    const place = h("div", {});
    body.append(card("New project", field("ID", id, "1 to 64 of a-z, 0-9 and -"), action("Create", {}, place, async () => {
      const made = await api.post("projects", { project: id.value });
      list = await context.reload();
      drawShares();
      tell(`Project ${made.project}`, h("p", {}, "The registration key lets devices register. It is shown once:"), h("div", { class: "secret" }, made.registrationKey));
    }), place));
  }
  drawShares();
  await drawFanouts();
  if (list.length === 1) await drawSettings(list[0]);
  let isAsking = false;
  return listen((name, sample) => {
    if (name !== "status") return;
    loads = new Map(sample.status.projects.map((one) => [one.project, one]));
    // A table with the focus stays as it is: a fresh one would take the focus away.
    unlessFocused(shares, drawShares);
    if (isAsking || fanouts.contains(document.activeElement)) return;
    isAsking = true;
    drawFanouts(api.quiet.get).catch((error) => put(fanouts, failure(error))).finally(() => { isAsking = false; });
  });
}
