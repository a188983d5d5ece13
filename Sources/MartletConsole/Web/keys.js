// SPDX-License-Identifier: Apache-2.0
// Keys of a project: of senders, of apps, of SDKs, and of ticket servers. A new key is shown once.

import * as api from "./api.js";
import { h, put, card, table, action, ask, tell, name as plain } from "./dom.js";

export const title = "Keys";
export const role = "administrator";

const KINDS = [
  ["server", "serverKeys", "Server keys", "A sender presents one. It may send for the project."],
  ["service-account", "serviceAccounts", "Service accounts", "FCM's SDKs sign with one."],
  ["registration", "registrationKeys", "Registration keys", "Lies in the app, and lets devices register."],
  ["ticket", "ticketKeys", "Ticket keys", "Checks the tickets of the app's server. The command martlet ticket-key add adds one."],
];

export async function show(body, context) {
  const route = api.path`projects/${context.project}/keys`;
  const told = h("div", {});
  const lists = h("div", {});
  async function draw() {
    const all = await api.get(route);
    put(lists, KINDS.map(([kind, member, label, about]) => {
      const name = h("input", { "aria-label": `Name of a new one of ${label}`, placeholder: "name for people" });
      return card(label, h("p", { class: "hint" }, about), table(label, [{ title: "Key ID" }, { title: "Name" }, { title: "Created", whole: true }, { title: "State" }], all[member].map((key) => [
        h("span", { class: "code" }, key.keyID), plain(key.name || "–"), key.created, key.revoked ? h("span", { class: "soft" }, "revoked") : action("Revoke", { class: "danger small" }, told, async () => {
          if (!await ask(`Revoke ${key.keyID}?`, "Who presents it is refused from now on.", "Revoke")) return;
          await api.remove(`${route}/${kind}/${encodeURIComponent(key.keyID)}`);
          await draw();
        })])),
      kind === "ticket" ? null : h("div", { class: "row" }, h("div", {}, name), action("Create", { class: "plain" }, told, async () => {
        const made = await api.post(`${route}/${kind}`, { name: name.value });
        tell("A new key", h("p", {}, `It is shown once, and is kept nowhere. ${kind === "service-account" ? "Save it as a file for the SDK." : ""}`), h("div", { class: "secret" }, made.key ?? made.file));
        await draw();
      })));
    }));
  }
  put(body, told, lists);
  await draw();
}
