// SPDX-License-Identifier: Apache-2.0
// The stream of events. One stream is open at a time; it follows the project of the page. The stream of a hidden page is
// closed, because a browser has six connections for all pages of a host. The browser connects again by itself after a broken
// connection, and the page says so meanwhile.

const NAMES = ["status", "accepted", "progress", "refused", "sums", "left-out"];
const SILENCE = "The broker does not answer. The page comes back by itself when it does.";
const listeners = new Set();
let source;
let followed;
let isWanted = false;
let state = () => {};
let over = () => {};
let explain = async () => undefined;
let retry;

/** Calls back with what is wrong, and with nothing while all is well. */
export const onState = (callback) => { state = callback; };
/** Calls back when the session is over. */
export const onOver = (callback) => { over = callback; };
/** Called when the server refuses the stream: explain(project) answers why, or nothing. */
export const onRefusal = (callback) => { explain = callback; };

const tell = (name, value) => { for (const listener of listeners) listener(name, value); };

/** Follows a project, or the broker alone. */
export function follow(project) {
  isWanted = true;
  if (source && source.readyState !== EventSource.CLOSED && followed === project) return;
  shut();
  followed = project;
  if (document.hidden) return;
  const mine = new EventSource(address(project));
  source = mine;
  for (const name of NAMES) {
    mine.addEventListener(name, (event) => {
      state();
      tell(name, JSON.parse(event.data));
    });
  }
  mine.addEventListener("end", () => { close(); over(); });
  mine.addEventListener("error", async () => {
    // The browser asks again after a broken connection, but not after a refusal.
    if (mine.readyState !== EventSource.CLOSED) { state(SILENCE); return; }
    const reason = await explain(project).catch(() => SILENCE);
    if (source !== mine) return;
    if (reason) state(reason);
    clearTimeout(retry);
    retry = setTimeout(() => { if (isWanted) follow(followed); }, 2000);
  });
}

/** The address of the stream. */
export const address = (project) => "/console/api/v1/events" + (project ? `?project=${encodeURIComponent(project)}` : "");

function shut() {
  clearTimeout(retry);
  source?.close();
  source = undefined;
}

/** Ends the stream, until the next `follow`. */
export function close() {
  isWanted = false;
  shut();
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) shut();
  else if (isWanted) {
    follow(followed);
    tell("shown");
  }
});

/** Listens to events: listener(name, value). After a time hidden, the name is "shown". Returns a function that ends it. */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
