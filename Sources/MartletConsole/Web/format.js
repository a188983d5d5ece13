// SPDX-License-Identifier: Apache-2.0
// Numbers, times and amounts for people.

const whole = new Intl.NumberFormat("en");

export const number = (value) => (value === undefined || value === null ? "–" : whole.format(Math.round(value)));

/** 1,234 as it is, 56.7 k, 8.9 M. */
export function short(value) {
  if (value === undefined || value === null) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(1)} G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  return size > 0 && size < 10 && !Number.isInteger(value) ? value.toFixed(1) : whole.format(Math.round(value));
}

/** 1 device, 2 devices. */
export const amount = (value, one, many = one + "s") => `${number(value)} ${value === 1 ? one : many}`;

export function bytes(value) {
  if (value === undefined || value === null) return "–";
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (value >= size) return `${(value / size).toFixed(1)} ${unit}`;
  }
  return `${value} B`;
}

/** A duration in seconds. */
export function duration(seconds) {
  if (seconds === undefined || seconds === null) return "–";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.1 ? 2 : 0)} ms`;
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

export const percent = (part) => `${(100 * part).toFixed(part > 0 && part < 0.1 ? 1 : 0)} %`;

const clock = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
export const time = (milliseconds) => clock.format(new Date(milliseconds));
export const hour = (milliseconds) => new Date(milliseconds).toLocaleTimeString("en-GB");
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const PLATFORMS = { android: "Android", apple: "Apple", web: "Web" };

/** The number of a message ID. */
export const messageNumber = (id) => String(id).split("/").pop();

/** What may have become of the targeted devices: groups of outcomes, in the order of bars and columns. */
export const PARTS = [
  ["received", "Received or handed over"], ["waiting", "Still waiting"], ["nowOrNever", "Now or never"], ["replaced", "Replaced or expired"],
  ["discarded", "Discarded or left out"], ["ended", "Cancelled, unregistered or refused"],
];

/** Outcomes of a message with the part that each belongs to, in the order of the report. Their sum is `targeted`. */
export const OUTCOMES = [
  ["acknowledged", "Received", "received"],
  ["handedOver", "Handed over to a push service", "received"],
  ["pending", "Still waiting", "waiting"],
  ["collapsed", "Replaced by a later message", "replaced"],
  ["expired", "Expired", "replaced"],
  ["rateLimited", "Left out by the device's quota", "discarded"],
  ["discardedTooMany", "Discarded: too many waited", "discarded"],
  ["discardedInactive", "Discarded: device was away too long", "discarded"],
  ["unregistered", "Device unregistered", "ended"],
  ["cancelled", "Cancelled", "ended"],
  ["nowOrNever", "Now or never: no device acknowledges it", "nowOrNever"],
  ["refused", "Refused by a push service", "ended"],
];

/** The devices of a part, or of several. */
export const sumOf = (counts, ...parts) => OUTCOMES.reduce((sum, [name, , part]) => sum + (parts.includes(part) ? counts[name] : 0), 0);
