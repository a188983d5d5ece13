// SPDX-License-Identifier: Apache-2.0
// The stream of events. One stream is open at a time; it follows the project of the page. The browser connects again by
// itself after a broken connection, and the page says so meanwhile.

const NAMES = ["status", "accepted", "progress", "refused", "sums", "left-out"];
const listeners = new Set();
let source;
let followed;
let state = () => {};
let over = () => {};
let retry;

/** Calls back with true while the broker answers, and with false while it does not. */
export const onState = (callback) => { state = callback; };
/** Calls back when the session is over. */
export const onOver = (callback) => { over = callback; };

/** Follows a project, or the broker alone. */
export function follow(project) {
  if (source && source.readyState !== EventSource.CLOSED && followed === project) return;
  close();
  followed = project;
  source = new EventSource("/console/api/v1/events" + (project ? `?project=${encodeURIComponent(project)}` : ""));
  for (const name of NAMES) {
    source.addEventListener(name, (event) => {
      state(true);
      const value = JSON.parse(event.data);
      for (const listener of listeners) listener(name, value);
    });
  }
  source.addEventListener("end", () => { close(); over(); });
  source.addEventListener("error", () => {
    state(false);
    // A refused stream is closed for good; a fresh one asks again, and finds out whether the session is over.
    if (source?.readyState === EventSource.CLOSED) {
      clearTimeout(retry);
      retry = setTimeout(() => { const project = followed; close(); follow(project); over(true); }, 2000);
    }
  });
}

export function close() {
  clearTimeout(retry);
  source?.close();
  source = undefined;
}

/** Listens to events: listener(name, value). Returns a function that ends it. */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
