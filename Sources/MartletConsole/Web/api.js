// SPDX-License-Identifier: Apache-2.0
// Calls of the console's API. A refusal is an Error with the server's sentence, `code`, `field` and `byteOffset`.

const ROOT = "/console/api/v1/";
let csrf = "";
let ended = () => {};

export const useSession = (session) => { csrf = session?.csrf ?? ""; };
/** Called when a call finds that the session is over. */
export const onEnd = (callback) => { ended = callback; };

async function call(method, path, body, isQuiet) {
  const headers = {};
  if (isQuiet) headers["x-martlet-background"] = "1";
  if (method !== "GET") headers["x-martlet-csrf"] = csrf;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(ROOT + path, {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin",
    });
  } catch {
    throw Object.assign(new Error("The broker does not answer. The page tries again."), { code: "OFFLINE" });
  }
  const value = await response.json().catch(() => ({}));
  if (response.ok) return value;
  const error = value.error ?? { code: "FAILED", message: `The server answered ${response.status}.` };
  if (response.status === 401 && path !== "session") ended();
  throw Object.assign(new Error(error.message), error);
}

/** Escapes the parts of a path: path`projects/${id}/topics`. */
export const path = (texts, ...values) =>
  texts.reduce((all, text, i) => all + encodeURIComponent(values[i - 1]) + text);

export const query = (values) => {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== "");
  return given.length ? "?" + new URLSearchParams(given) : "";
};

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);
export const patch = (path, body) => call("PATCH", path, body);
export const remove = (path, body) => call("DELETE", path, body);

/** Calls that the page makes by itself: they do not prolong the session. */
export const quiet = { get: (path) => call("GET", path, undefined, true), post: (path, body) => call("POST", path, body, true) };

/** All pages of a list, at most `most` entries. */
export async function all(path, most = 5000, read = get) {
  const entries = [];
  let after = "";
  do {
    const page = await read(path + query({ after }));
    entries.push(...page.entries);
    after = page.next;
  } while (after && entries.length < most);
  return entries;
}
