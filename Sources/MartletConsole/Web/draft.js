// SPDX-License-Identifier: Apache-2.0
// What a person has written in the composer, kept in this tab until it is sent or the person signs out: a session may end
// meanwhile, and a look at another page must lose nothing.

/** The draft of a person in a project. */
export function draft(user, project) {
  const key = `martlet-draft ${user} ${project}`;
  return {
    read() { try { return JSON.parse(sessionStorage.getItem(key)) ?? {}; } catch { return {}; } },
    // A tab without room, or whose person keeps nothing, goes on without drafts.
    write(value) { try { sessionStorage.setItem(key, JSON.stringify(value)); } catch { /* not kept */ } },
    clear() { sessionStorage.removeItem(key); },
  };
}
