// SPDX-License-Identifier: Apache-2.0
// A message from its texts to its sending: target, characters left, previews, exact audience, a check, a test, and then
// the message's own page.

import * as api from "./api.js";
import { h, put, card, field, action, ask, failure } from "./dom.js";
import { number, messageNumber, zone, time } from "./format.js";
import { conditionEditor, audienceText, reachText, again } from "./condition.js";

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
  const left = h("span", { class: "soft", id: "left", "aria-live": "polite" });
  const previews = h("div", { class: "previews" });
  const audience = h("div", { "aria-live": "polite" });
  const told = h("div", {});
  const target = h("div", {});
  let kind = query.get("missing") ? "missing" : query.get("token") ? "token" : query.get("topic") ? "topic" : "condition";
  let read = () => undefined;
  let key = crypto.randomUUID();
  // The numbers that the page shows, and the number of the last question for them.
  let counted, turn = 0;

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

  function request(more) {
    const chosen = read();
    if (!chosen) throw new Error("Choose whom the message is for.");
    const made = { target: { kind: chosen.kind, text: chosen.text }, message: message(), priority: inputs.priority.value, ...more };
    if (chosen.notReceived) made.notReceived = chosen.notReceived;
    if (inputs.ttl.value) made.timeToLiveSeconds = Number(inputs.ttl.value);
    if (inputs.collapse.value) made.collapseKey = inputs.collapse.value;
    if (inputs.at.value) made.sendAt = new Date(inputs.at.value).getTime();
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
    put(left, `${used} of ${CHARACTERS} characters`);
    left.className = used > CHARACTERS ? "bad" : "soft";
    put(previews, preview("android", "Android"), preview("ios", "iOS"), preview("web", "The web"));
  }

  function choose(next) {
    kind = next;
    turn += 1;
    counted = undefined;
    put(audience, h("p", { class: "soft" }, "Choose whom the message is for; the exact number stands here."));
    const one = (id, label, hint, start, made) => {
      const input = h("input", { id, value: start ?? "" });
      read = () => (input.value.trim() ? made(input.value.trim()) : undefined);
      input.addEventListener("input", () => later());
      put(target, field(label, input, hint));
      if (start) later();
      return input;
    };
    switch (kind) {
      case "condition": {
        const editor = conditionEditor(project, query.get("condition") ?? "", (found) => {
          turn += 1;
          counted = found && `${found.total} ${found.connected}`;
          if (found) put(audience, audienceText(found)); else put(audience, h("p", { class: "soft" }, "Write a condition; the exact number stands here."));
        });
        read = () => (editor.text() ? { kind: "condition", text: editor.text() } : undefined);
        put(target, editor.node);
        break;
      }
      case "topic": {
        const input = one("topic", "Topic", null, query.get("topic"), (text) => ({ kind: "topic", text }));
        const names = h("datalist", { id: "topics" });
        input.setAttribute("list", "topics");
        target.append(names);
        api.get(api.path`projects/${project}/topics` + "?limit=1000").then((page) => put(names, page.entries.map((topic) => h("option", { value: topic.topic })))).catch(() => {});
        break;
      }
      case "token": one("token", "Token", "The registration token of the device.", query.get("token"), (text) => ({ kind: "token", text })); break;
      case "group": one("group", "Key of the group", null, query.get("group"), (text) => ({ kind: "group", text })); break;
      case "app": one("app-name", "App", "The package name or bundle ID.", null, (text) => ({ kind: "app", text })); break;
      case "everyone":
        read = () => ({ kind: "everyone", text: "" });
        put(target);
        later();
        break;
      case "missing":
        one("missing", "Earlier message", "Only devices that it was for and that have not got it.", query.get("missing"),
          (text) => ({ kind: "everyone", text: "", notReceived: messageNumber(text) }));
        break;
    }
  }

  // The numbers for a target without a condition come from a check of the message.
  let timer;
  async function reach() {
    const mine = ++turn;
    try {
      const chosen = read();
      if (!chosen) return;
      const isCondition = chosen.kind === "condition";
      const found = isCondition ? await api.get(api.path`projects/${project}/audience` + api.query({ condition: chosen.text }))
        : await api.post(api.path`projects/${project}/messages`, {
          target: { kind: chosen.kind, text: chosen.text }, notReceived: chosen.notReceived, message: { notification: { title: "?" } }, validateOnly: true });
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
    return [answer.inactive ? ` ${number(answer.inactive)} of them were away for too long.` : "", answer.rateLimited ? ` ${number(answer.rateLimited)} are left out by their quota.` : ""].join("");
  }
  const check = () => api.post(api.path`projects/${project}/messages`, request({ validateOnly: true }));

  async function send() {
    if (count() > CHARACTERS) throw new Error(`The message has ${count()} characters; ${CHARACTERS} are allowed.`);
    const answer = await check();
    const when = inputs.at.value ? ` at ${time(new Date(inputs.at.value).getTime())} (${zone})` : " now";
    if (answer.recipients >= MANY || kind === "everyone") {
      const sure = await ask(`Send to ${number(answer.recipients)} devices?`, `“${inputs.title.value || inputs.body.value || "Data"}” goes out${when}.${remarks(answer)}`, "Send");
      if (!sure) return;
    }
    const sent = await api.post(api.path`projects/${project}/messages`, request({ idempotencyKey: key }));
    key = crypto.randomUUID();
    location.hash = context.at("messages", `/${messageNumber(sent.messageID)}`);
  }

  const later2 = h("fieldset", {}, h("legend", {}, "When"), field(`Send at, in your time zone ${zone}`, inputs.at, "Empty: now."));
  put(body, h("div", { class: "two" }, h("div", {},
    card("For whom",
      field("Target", h("select", { id: "kind", onchange: (event) => choose(event.target.value) }, KINDS.map(([name, label]) => h("option", { value: name, selected: name === kind }, label)))), target),
    card("What", h("div", { class: "row apart" }, h("span", {}), left),
      field("Title", inputs.title), field("Body", inputs.body), field("Address of an image", inputs.image),
      h("div", { class: "label" }, "Data for the app"), data, h("button", { type: "button", class: "plain small", onclick: () => pair() }, "Add data"), h("p", {}),
      h("details", {}, h("summary", {}, "Platforms"), field("Android: icon", inputs.icon), field("Android: channel", inputs.channel),
        field("Apple: sound", inputs.sound), field("Apple: badge", inputs.badge), field("Web: address to open", inputs.link)),
      h("details", {}, h("summary", {}, "Delivery"), field("Priority", inputs.priority, "High wakes a sleeping device."), field("Lifespan in seconds", inputs.ttl, "Empty: 28 days. 0: now or never."),
        field("Collapse key", inputs.collapse, "A later message with an equal key replaces this one."), later2)),
    card("Test on one device", field("Token", inputs.test), action("Send a test", { class: "plain" }, told, async () => {
      const answer = await api.post(api.path`projects/${project}/messages`, { ...request({}), sendAt: undefined, notReceived: undefined, target: { kind: "token", text: inputs.test.value.trim() } });
      put(told, h("div", { class: "note", role: "status" }, "The test is on its way: ", h("a", { href: context.at("messages", `/${messageNumber(answer.messageID)}`) }, answer.messageID)));
    }))),
  h("div", {}, card("Reaches", audience), card("Preview", previews),
    h("div", { class: "card" }, told, h("div", { class: "row" },
      action("Check", { class: "plain" }, told, async () => {
        const answer = await check();
        put(told, h("div", { class: "note", role: "status" }, `Valid. It would be accepted for ${number(answer.recipients)} devices.${remarks(answer)}`));
      }),
      action("Send", { id: "send" }, told, send))))));
  body.addEventListener("input", changed);
  choose(kind);
  changed();
  return again(async () => { if (counted !== undefined) await reach(); });
}
