// SPDX-License-Identifier: Apache-2.0
// The users of the console.

import * as api from "./api.js";
import { h, put, card, table, field, action, ask, name as plain } from "./dom.js";
import { time } from "./format.js";

export const title = "People";
export const role = "administrator";
export const isForAll = true;

export async function show(body, context) {
  const told = h("div", {});
  const place = h("div", {});
  async function draw() {
    const users = await api.get("users");
    put(place, table("Users", [{ title: "Name" }, { title: "Role" }, { title: "Project" }, { title: "Since" }, { title: "" }], users.map((user) => [
      plain(user.name), user.role, user.project ?? "all", time(user.created), action("Remove", { class: "danger small" }, told, async () => {
        if (!await ask(`Remove ${user.name}?`, "Open sessions of the user end.", "Remove")) return;
        await api.remove(api.path`users/${user.name}`);
        await draw();
      })]), "No user yet: this session came from a link."));
  }
  const name = h("input", { id: "user-name", autocomplete: "off" });
  const password = h("input", { id: "user-password", type: "password", autocomplete: "new-password" });
  const role = h("select", { id: "user-role" }, ["viewer", "sender", "administrator"].map((one) => h("option", {}, one)));
  const project = h("select", { id: "user-project" }, h("option", { value: "" }, "all projects"), context.projects.map((one) => h("option", {}, one.project)));
  put(body, told, card(null, place), card("New user", h("form", { onsubmit: (event) => event.preventDefault() }, field("Name", name), field("Password", password, "8 characters or more."),
    field("Role", role, "A viewer reads; a sender sends too; an administrator changes everything."), field("Project", project),
    action("Add", {}, told, async () => {
      await api.post("users", { name: name.value, password: password.value, role: role.value, project: project.value || undefined });
      name.value = password.value = "";
      await draw();
    }))));
  await draw();
}
