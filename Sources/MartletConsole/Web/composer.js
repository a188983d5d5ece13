// SPDX-License-Identifier: Apache-2.0
// A message from its texts to its sending: target, characters left, previews, exact audience, a check, a test, and then
// the message's own page.

import * as api from "./api.js";
import { h, put, card, field, action, ask, failure, done } from "./dom.js";
import { number, amount, messageNumber, zone, time } from "./format.js";
import { conditionEditor, audienceText, reachText, again } from "./condition.js";
import { draft } from "./draft.js";

export const title = "Compose";
export const role = "sender";
const CHARACTERS = 1024;
/** Recipients above which the page asks again. */
const MANY = 1000;
const KINDS = [["condition", "Condition"], ["topic", "Topic"], ["token", "One device (token)"], ["group", "Group (key)"], ["app", "All devices of an app"],
  ["everyone", "All devices"], ["missing", "Those who have not got an earlier message"]];

export async function show(body, context) {
  const { project, query } = context;
  const text = (attributes) => h("input", attributes);
  const inputs = {
    title: text({ id: "title" }), body: h("textarea", { id: "body" }), image: text({ id: "image", inputmode: "url", placeholder: "https://…" }),
    link: text({}), sound: text({}), badge: text({ type: "number", min: 0 }), icon: text({}), channel: text({}),
    ttl: text({ type: "number", min: 0, max: 2419200 }), collapse: text({}), at: text({ id: "at", type: "datetime-local" }),
    priority: h("select", {}, ["normal", "high"].map((one) => h("option", {}, one))), test: text({ id: "test" }),
  };
  const data = h("div", {});
  const left = h("span", { class: "soft", id: "left" });
  // Screen readers hear of the bound when it is passed, and not at each key.
  const passed = h("span", { class: "sr", role: "status" });
  const previews = h("div", { class: "previews" });
  const audience = h("div", { "aria-live": "polite" });
  const told = h("div", {});
  const target = h("div", {});
  const kept = draft(context.session.user, project);
  const before = kept.read();
  const named = ["missing", "token", "topic", "group", "condition"].find((one) => query.get(one));
  let kind = named ?? (KINDS.some(([name]) => name === before.kind) ? before.kind : "condition");
  /** The text of the target at the beginning: of the address, or of the draft. */
  const start = { [kind]: named ? query.get(named) : before.target ?? "" };
  let read = () => undefined, chosenText = () => "";
  let key = crypto.randomUUID();
  // The numbers that the page shows, and the number of the last question for them.
  let counted, turn = 0, isSent = false;

  function pair(name = "", value = "") {
    const row = h("div", { class: "row" },
      h("input", { "aria-label": "Name of data", value: name, placeholder: "name" }), h("input", { "aria-label": "Value of data", value, placeholder: "value" }),
      h("button", { type: "button", class: "plain small", onclick: () => { row.remove(); changed(); } }, "Remove"));
    row.style.flexWrap = "nowrap";
    row.style.marginBottom = "6px";
    data.append(row);
  }
  const pairs = () => [...data.children].map((row) => [...row.querySelectorAll("input")].map((one) => one.value)).filter(([name]) => name);

  const count = () => [inputs.title.value, inputs.body.value, inputs.image.value, ...pairs().flat()].reduce((sum, one) => sum + [...one].length, 0);

  function message() {
    const notification = {};
    for (const name of ["title", "body", "image"]) if (inputs[name].value) notification[name] = inputs[name].value;
    const made = {};
    if (Object.keys(notification).length) made.notification = notification;
    if (pairs().length) made.data = Object.fromEntries(pairs());
    const android = {};
    if (inputs.icon.value) android.icon = inputs.icon.value;
    if (inputs.channel.value) android.channel_id = inputs.channel.value;
    if (Object.keys(android).length) made.android = { notification: android };
    const aps = {};
    if (inputs.sound.value) aps.sound = inputs.sound.value;
    if (inputs.badge.value) aps.badge = Number(inputs.badge.value);
    if (Object.keys(aps).length) made.apns = { payload: { aps } };
    if (inputs.link.value) made.webpush = { fcm_options: { link: inputs.link.value } };
    return made;
  }

  function request(more, test) {
    const isTest = test !== undefined;
    const chosen = isTest ? { kind: "token", text: test } : read();
    if (!chosen) throw new Error("Choose whom the message is for.");
    const made = { target: { kind: chosen.kind, text: chosen.text }, message: message(), priority: inputs.priority.value, ...more };
    if (chosen.notReceived) made.notReceived = chosen.notReceived;
    if (inputs.ttl.value) made.timeToLiveSeconds = Number(inputs.ttl.value);
    if (inputs.collapse.value) made.collapseKey = inputs.collapse.value;
    if (inputs.at.value && !isTest) {
      made.sendAt = new Date(inputs.at.value).getTime();
      if (!(made.sendAt > Date.now())) throw new Error("The time to send at is past. Choose a later one, or none to send now.");
    }
    return made;
  }

  function preview(name, label) {
    const title = inputs.title.value || "Title", text = inputs.body.value || "Body";
    return h("div", { class: `shown ${name}`, role: "group", "aria-label": `As ${label} shows it` }, h("div", { class: "app" }, `${label} · now`),
      h("div", { class: "title" }, title), h("div", {}, name === "android" && text.length > 120 ? text.slice(0, 117) + "…" : text),
      inputs.image.value && name !== "web" ? h("div", { class: "image" }, `Image: ${inputs.image.value}`) : null,
      name === "web" && inputs.link.value ? h("div", { class: "app" }, inputs.link.value) : null);
  }
  function changed() {
    const used = count();
    if (used > CHARACTERS !== passed.textContent.length > 0) put(passed, used > CHARACTERS ? `More than ${CHARACTERS} characters.` : "");
    put(left, `${used} of ${CHARACTERS} characters`);
    left.className = used > CHARACTERS ? "bad" : "soft";
    put(previews, preview("android", "Android"), preview("ios", "iOS"), preview("web", "The web"));
    if (!isSent) kept.write({ kind, target: chosenText(), data: pairs(), inputs: Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value])) });
  }

  function choose(next) {
    kind = next;
    turn += 1;
    counted = undefined;
    put(audience, h("p", { class: "soft" }, "Choose whom the message is for; the exact number stands here."));
    const text = start[kind] ?? "";
    chosenText = () => "";
    const one = (id, label, hint, made) => {
      const input = h("input", { id, value: text });
      chosenText = () => input.value;
      read = () => (input.value.trim() ? made(input.value.trim()) : undefined);
      input.addEventListener("input", () => later());
      put(target, field(label, input, hint));
      if (text) later();
      return input;
    };
    switch (kind) {
      case "condition": {
        const editor = conditionEditor(project, text, (found) => {
          turn += 1;
          counted = found && `${found.total} ${found.connected}`;
          if (found) put(audience, audienceText(found)); else put(audience, h("p", { class: "soft" }, "Write a condition; the exact number stands here."));
        });
        chosenText = editor.text;
        read = () => (editor.text() ? { kind: "condition", text: editor.text() } : undefined);
        put(target, editor.node);
        break;
      }
      case "topic": {
        const input = one("topic", "Topic", null, (text) => ({ kind: "topic", text }));
        const names = h("datalist", { id: "topics" });
        input.setAttribute("list", "topics");
        target.append(names);
        api.get(api.path`projects/${project}/topics` + "?limit=1000").then((page) => put(names, page.entries.map((topic) => h("option", { value: topic.topic })))).catch(() => {});
        break;
      }
      case "token": one("token", "Token", "The registration token of the device.", (text) => ({ kind: "token", text })); break;
      case "group": one("group", "Key of the group", null, (text) => ({ kind: "group", text })); break;
      case "app": one("app-name", "App", "The package name or bundle ID.", (text) => ({ kind: "app", text })); break;
      case "everyone":
        read = () => ({ kind: "everyone", text: "" });
        put(target);
        later();
        break;
      case "missing":
        one("missing", "Earlier message", "Only devices that it was for and that have not got it.",
          (text) => ({ kind: "everyone", text: "", notReceived: messageNumber(text) }));
        break;
    }
  }

  // The numbers for a target without a condition come from a check of the message.
  let timer;
  async function reach(from = api) {
    const mine = ++turn;
    try {
      const chosen = read();
      if (!chosen) return;
      const isCondition = chosen.kind === "condition";
      const found = isCondition ? await from.get(api.path`projects/${project}/audience` + api.query({ condition: chosen.text }))
        : await from.post(api.path`projects/${project}/messages`, {
          // Before a text is written, any text asks for the number.
          target: { kind: chosen.kind, text: chosen.text }, notReceived: chosen.notReceived, validateOnly: true,
          message: Object.keys(message()).length && count() <= CHARACTERS ? message() : { notification: { title: "?" } } });
      const now = `${found.total ?? found.recipients} ${found.connected}`;
      if (mine !== turn || now === counted) return;
      counted = now;
      put(audience, isCondition ? audienceText(found) : reachText(found.recipients, found.connected));
    } catch (error) {
      if (mine !== turn) return;
      counted = undefined;
      put(audience, failure(error));
    }
  }
  function later() {
    clearTimeout(timer);
    counted = undefined;
    timer = setTimeout(reach, 300);
  }

  function remarks(answer) {
    return [answer.inactive ? ` ${number(answer.inactive)} of them ${answer.inactive === 1 ? "was" : "were"} away for too long.` : "", answer.rateLimited ? ` ${amount(answer.rateLimited, "device is", "devices are")} left out by their quota.` : ""].join("");
  }
  const check = () => api.post(api.path`projects/${project}/messages`, request({ validateOnly: true }));

  async function send() {
    if (count() > CHARACTERS) throw new Error(`The message has ${count()} characters; ${CHARACTERS} are allowed.`);
    const answer = await check();
    const when = inputs.at.value ? ` at ${time(new Date(inputs.at.value).getTime())} (${zone})` : " now";
    if (answer.recipients >= MANY || kind === "everyone") {
      const sure = await ask(`Send to ${amount(answer.recipients, "device")}?`, `“${inputs.title.value || inputs.body.value || "Data"}” goes out${when}.${remarks(answer)}`, "Send");
      if (!sure) return;
    }
    const sent = await api.post(api.path`projects/${project}/messages`, request({ idempotencyKey: key }));
    key = crypto.randomUUID();
    isSent = true;
    kept.clear();
    location.hash = context.at("messages", `/${messageNumber(sent.messageID)}`);
  }

  const later2 = h("fieldset", {}, h("legend", {}, "When"), field(`Send at, in your time zone ${zone}`, inputs.at, "Empty: now."));
  put(body, h("div", { class: "two" }, h("div", {},
    card("For whom",
      field("Target", h("select", { id: "kind", onchange: (event) => choose(event.target.value) }, KINDS.map(([name, label]) => h("option", { value: name, selected: name === kind }, label)))), target),
    card("What", h("div", { class: "row apart" }, passed, left),
      field("Title", inputs.title), field("Body", inputs.body), field("Address of an image", inputs.image),
      h("div", { class: "label" }, "Data for the app"), data, h("button", { type: "button", class: "plain small", onclick: () => pair() }, "Add data"), h("p", {}),
      h("details", {}, h("summary", {}, "Platforms"), field("Android: icon", inputs.icon), field("Android: channel", inputs.channel),
        field("Apple: sound", inputs.sound), field("Apple: badge", inputs.badge), field("Web: address to open", inputs.link)),
      h("details", {}, h("summary", {}, "Delivery"), field("Priority", inputs.priority, "High wakes a sleeping device."), field("Lifespan in seconds", inputs.ttl, "Empty: 28 days. 0: now or never."),
        field("Collapse key", inputs.collapse, "A later message with an equal key replaces this one."), later2)),
    card("Test on one device", field("Token", inputs.test), action("Send a test", { class: "plain" }, told, async () => {
      if (!inputs.test.value.trim()) throw new Error("Write the token of the device for the test.");
      const answer = await api.post(api.path`projects/${project}/messages`, request({}, inputs.test.value.trim()));
      put(told, done("The test is on its way: ", h("a", { href: context.at("messages", `/${messageNumber(answer.messageID)}`) }, answer.messageID)));
    }))),
  h("div", {}, card("Reaches", audience, h("p", { class: "hint" }, "Of notifications, and of messages with a collapse key, only the newest of an app waits for a device that is away. Data alone waits in full.")), card("Preview", previews),
    h("div", { class: "card" }, told, h("div", { class: "row" },
      action("Check", { class: "plain" }, told, async () => {
        const answer = await check();
        put(told, done(`Valid. It would be accepted for ${amount(answer.recipients, "device")}.${remarks(answer)}`));
      }),
      action("Send", { id: "send" }, told, send))))));
  const now = new Date();
  inputs.at.min = new Date(now - now.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
  for (const [name, value] of Object.entries(before.inputs ?? {})) if (Object.hasOwn(inputs, name)) inputs[name].value = value;
  for (const one of before.data ?? []) pair(...one);
  body.addEventListener("input", changed);
  choose(kind);
  changed();
  return again(async () => { if (counted !== undefined) await reach(api.quiet); });
}
