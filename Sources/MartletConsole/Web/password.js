// SPDX-License-Identifier: Apache-2.0
// A person's own password, in a dialog.

import * as api from "./api.js";
import { h, field, action } from "./dom.js";

/** Asks for the passwords. `state.session` is the fresh session afterwards. */
export function changePassword(state) {
  const current = h("input", { id: "password-current", type: "password", autocomplete: "current-password" });
  const next = h("input", { id: "password-next", type: "password", autocomplete: "new-password" });
  const told = h("div", {});
  const dialog = h("dialog", { "aria-labelledby": "password-title" }, h("h2", { id: "password-title" }, "Change your password"), told,
    field("Password until now", current), field("New password", next, "8 characters or more. Your other sessions end."),
    h("div", { class: "row end" }, h("button", { class: "plain", onclick: () => dialog.close() }, "Close"),
      action("Change", {}, told, async () => {
        state.session = await api.post("session/password", { current: current.value, next: next.value });
        api.useSession(state.session);
        dialog.close();
      })));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
