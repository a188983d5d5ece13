// SPDX-License-Identifier: Apache-2.0
// The page to sign in. Resolves when a session is open.

import * as api from "./api.js";
import { h, put, field, failure } from "./dom.js";

/** The session that has begun. A browser drops a cookie that is for https alone if the page came without it. */
export async function kept(session) {
  if ((await api.get("session")).user) return session;
  throw new Error("The browser did not keep the session's cookie. Open the console over https.");
}

export function signIn(root, message) {
  return new Promise((resolve) => {
    const name = h("input", { id: "name", autocomplete: "username", required: true, autocapitalize: "none" });
    const password = h("input", { id: "password", type: "password", autocomplete: "current-password", required: true });
    const told = h("div", {}, message ? h("div", { class: "note", role: "status" }, message) : null);
    const button = h("button", {}, "Sign in");
    const form = h("form", { class: "card", onsubmit: async (event) => {
      event.preventDefault();
      if (button.getAttribute("aria-disabled")) return;
      button.setAttribute("aria-disabled", "true");
      put(told);
      try {
        resolve(await kept(await api.post("session", { name: name.value, password: password.value })));
      } catch (error) {
        put(told, failure(error));
        password.value = "";
        password.focus();
      }
      button.removeAttribute("aria-disabled");
    } }, h("h1", {}, "Martlet"), told, field("Name", name), field("Password", password), button,
    h("p", { class: "hint" }, "No user yet? On the broker's machine, ", h("code", {}, "martlet console link"), " opens the console once, and ", h("code", {}, "martlet console user add"), " adds a user."));
    document.title = "Sign in · Martlet";
    put(root, h("main", { id: "main", class: "signin" }, form));
    name.focus();
  });
}
