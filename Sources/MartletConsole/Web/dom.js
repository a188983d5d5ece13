// SPDX-License-Identifier: Apache-2.0
// Makes elements. A text is always a text node, so nothing that a device or a sender wrote becomes markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (name === "checked") element.checked = value;
    else if (name === "width%") element.style.width = `${Math.max(0, Math.min(100, value))}%`;
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** An element of HTML: h("p", {class: "soft"}, "text", child). */
export function h(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An element of SVG. */
export function s(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** Replaces the children of an element. */
export function put(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

let fields = 0;

/** A labelled input. `input` is an element; `hint` stands below the label. */
export function field(label, input, hint) {
  const id = input.id || `field-${++fields}`;
  input.id = id;
  const about = hint ? h("div", { class: "hint", id: `${id}-hint` }, hint) : null;
  if (about) input.setAttribute("aria-describedby", about.id);
  return h("div", { class: "field" }, h("label", { for: id }, label), about, input);
}

/** A table with a caption for screen readers. Columns: {title, number, token, whole, wide}; a whole cell has one line. Cells are texts or nodes. */
export function table(caption, columns, rows, empty = "Nothing yet.") {
  if (rows.length === 0) return h("p", { class: "soft" }, empty);
  const kind = (column) => (column.number ? "number" : column.token ? "token" : column.whole ? "whole" : column.wide ? "wide" : undefined);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {},
      h("caption", { class: "sr" }, caption),
      h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: kind(c) }, c.title)))),
      h("tbody", {}, rows.map((row) => h("tr", { class: row.class },
        (row.cells ?? row).map((cell, i) => h("td", { class: kind(columns[i]) }, cell)))))));
}

/** A part of a page with a title. */
export function card(title, ...children) {
  return h("section", { class: "card" }, title ? h("h2", {}, title) : null, children);
}

export function tile(name, value, more) {
  return h("div", { class: "tile" }, h("div", { class: "name" }, name),
    h("div", { class: "value" }, value), more ? h("div", { class: "more" }, more) : null);
}

/** The sentence of a refusal. */
export function failure(error) {
  return h("div", { class: "alert", role: "alert" }, error.message);
}

/** What an action has done. */
export function done(...children) {
  return h("div", { class: "note", role: "status" }, children);
}

/** A name that a person or a device has given: its direction does not turn the text around. */
export const name = (text) => h("bdi", {}, text);

/** Draws with `draw`, but not while the focus is inside: a fresh element would take the focus away. */
export function unlessFocused(element, draw) {
  if (!element.contains(document.activeElement)) draw();
}

/** Moves the focus to an element, or to the first control inside. */
export function focusOn(element) {
  const found = element.matches("a, button, input, select, textarea") ? element : element.querySelector("a, button, input, select, textarea") ?? element;
  if (found === element && !element.hasAttribute("tabindex")) element.setAttribute("tabindex", "-1");
  found.focus();
}

/** Asks a question in a dialog. Resolves to true for yes. */
export function ask(title, text, yes) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" },
      h("h2", { id: "dialog-title" }, title), h("p", {}, text),
      h("div", { class: "row end" },
        h("button", { class: "plain", onclick: () => dialog.close("no") }, "No"),
        h("button", { onclick: () => dialog.close("yes") }, yes)));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Shows something once, such as a new key. */
export function tell(title, ...children) {
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" },
    h("h2", { id: "dialog-title" }, title), children,
    h("div", { class: "row end" }, h("button", { onclick: () => dialog.close() }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/**
 * A button that does nothing more while its action runs, and shows the action's failure in `place`. The button keeps the focus;
 * if the action has replaced the button, the focus goes to the place around it.
 */
export function action(label, attributes, place, run) {
  const button = h("button", { type: "button", ...attributes, onclick: async () => {
    if (button.getAttribute("aria-disabled")) return;
    const around = button.closest("section, .card, dialog, main");
    button.setAttribute("aria-disabled", "true");
    put(place);
    try { await run(); } catch (error) {
      put(place, failure(error));
      place.scrollIntoView?.({ block: "nearest" });
    }
    button.removeAttribute("aria-disabled");
    if (!button.isConnected && document.activeElement === document.body) focusOn(around?.isConnected ? around : document.querySelector("h1"));
  } }, label);
  return button;
}

/** A list that grows by pages: `load(after)` answers {rows, next}. The focus goes to the first new row. */
export function pages(place, caption, columns, empty, load) {
  const rows = [];
  const told = h("div", {});
  async function more(after) {
    const page = await load(after);
    const before = rows.length;
    rows.push(...page.rows);
    put(place, table(caption, columns, rows, empty), told, page.next ? action("More", { class: "plain small" }, told, () => more(page.next)) : null);
    if (before > 0 && page.rows.length) focusOn(place.querySelectorAll("tbody tr")[before]);
  }
  return more("");
}
