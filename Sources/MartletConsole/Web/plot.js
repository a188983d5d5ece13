// SPDX-License-Identifier: Apache-2.0
// Plots in SVG: curves over time, and stacked bars. A plot has a sentence for screen readers, and tells the values under
// the pointer.

import { h, s, put } from "./dom.js";
import { hour } from "./format.js";

const H = 170, LEFT = 58, BOTTOM = 20, TOP = 8;

/** Width of a plot in pixels, so that its texts have the size of the page's. */
const widthOf = (picture) => picture.clientWidth || 600;

/** The next round number: 1, 2 or 5 times a power of ten. */
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= value);
}

function grid(top, format, W) {
  return [0, 0.5, 1].map((part) => {
    const y = TOP + (1 - part) * (H - BOTTOM - TOP);
    return s("g", {}, s("line", { class: "axis", x1: LEFT, x2: W, y1: y, y2: y }),
      s("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, format(top * part)));
  });
}

const legend = (names) => h("div", { class: "legend", "aria-hidden": "true" },
  names.map((name, i) => h("span", {}, h("i", { class: `f${i}` }), name)));

/**
 * Curves over time. `series`: [{name, of: (point) => value}]. Returns {node, draw(points)}; points have `at`.
 */
export function curves(title, series, format) {
  const picture = s("svg", { class: "plot", role: "img" });
  const told = h("figcaption", {});
  let points = [];
  let scale = { x: () => 0 };
  const last = (i) => { for (let k = points.length - 1; k >= 0; k--) { const v = series[i].of(points[k]); if (v !== undefined && v !== null) return v; } };
  const tell = (values, when) => put(told, `${when}: ` + series.map((one, i) => `${one.name} ${format(values[i])}`).join(", "));

  function draw(given) {
    points = given;
    const W = widthOf(picture);
    picture.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const all = points.flatMap((point) => series.map((one) => one.of(point) ?? 0));
    const top = roundUp(Math.max(...all, 0));
    const first = points[0]?.at ?? 0, end = points.at(-1)?.at ?? 1;
    const x = (at) => LEFT + (W - LEFT - 4) * (end > first ? (at - first) / (end - first) : 1);
    const y = (value) => TOP + (1 - value / top) * (H - BOTTOM - TOP);
    scale = { x, first, end, W };
    const paths = series.map((one, i) => {
      let line = "", pen = "M";
      for (const point of points) {
        const value = one.of(point);
        if (value === undefined || value === null) continue;
        line += `${pen}${x(point.at).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = "L";
      }
      return s("path", { class: `curve k${i}`, d: line || "M0 0" });
    });
    const now = series.map((_, i) => last(i));
    picture.setAttribute("aria-label", `${title}. ` + (points.length
      ? series.map((one, i) => `${one.name}: now ${format(now[i])}`).join(", ") + `, scale up to ${format(top)}.` : "No data yet."));
    put(picture, grid(top, format, W), paths, points.length > 1 ? [
      s("text", { x: LEFT, y: H - 5 }, hour(first)),
      s("text", { x: W - 4, y: H - 5, "text-anchor": "end" }, hour(end))] : null);
    if (points.length) tell(now, "Now"); else put(told, "No data yet.");
  }

  picture.addEventListener("pointermove", (event) => {
    if (points.length < 2) return;
    const box = picture.getBoundingClientRect();
    const place = event.clientX - box.left;
    const at = scale.first + ((place - LEFT) / (scale.W - LEFT - 4)) * (scale.end - scale.first);
    const near = points.reduce((best, point) => (Math.abs(point.at - at) < Math.abs(best.at - at) ? point : best));
    picture.querySelector(".cross")?.remove();
    const x = scale.x(near.at);
    picture.append(s("line", { class: "cross", x1: x, x2: x, y1: TOP, y2: H - BOTTOM }));
    tell(series.map((one) => one.of(near)), hour(near.at));
  });
  draw([]);
  new ResizeObserver(() => { if (scale.W !== widthOf(picture)) draw(points); }).observe(picture);
  return { node: h("figure", {}, series.length > 1 ? legend(series.map((one) => one.name)) : null, picture, told), draw };
}

/** Stacked bars. `rows`: [{name, values: [...]}], a value for each of `names`. */
export function stackedBars(title, names, rows, format) {
  const sums = rows.map((row) => row.values.reduce((a, b) => a + b, 0));
  const top = roundUp(Math.max(...sums, 0));
  const told = h("figcaption", {}, `${rows.length} days; point at a bar for its values.`);
  const picture = s("svg", { class: "plot", role: "img",
    "aria-label": `${title}: ${rows.length} days, up to ${format(Math.max(...sums, 0))} a day. The table below has the numbers.` });
  let drawn;
  function draw() {
    const W = drawn = widthOf(picture);
    picture.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const width = (W - LEFT - 4) / Math.max(rows.length, 1);
    put(picture, grid(top, format, W), rows.map((row, i) => {
      let base = H - BOTTOM;
      const bars = row.values.map((value, k) => {
        const height = (value / top) * (H - BOTTOM - TOP);
        base -= height;
        return s("rect", { class: `f${k}`, x: LEFT + i * width + width * 0.1, y: base, width: width * 0.8, height });
      });
      return s("g", { onpointerenter: () => put(told, `${row.name}: ` + names.map((name, k) => `${name} ${format(row.values[k])}`).join(", ")) },
        s("rect", { x: LEFT + i * width, y: TOP, width, height: H - BOTTOM - TOP, fill: "transparent" }), bars);
    }), rows.length ? [s("text", { x: LEFT, y: H - 5 }, rows[0].name), s("text", { x: W - 4, y: H - 5, "text-anchor": "end" }, rows.at(-1).name)] : null);
  }
  draw();
  new ResizeObserver(() => { if (drawn !== widthOf(picture)) draw(); }).observe(picture);
  return h("figure", {}, legend(names), picture, told);
}

/** A share as a bar, with its number for screen readers. */
export function bar(part, label) {
  const inner = h("span", { "width%": part * 100 });
  return h("div", { class: "bar", role: "img", "aria-label": label }, inner);
}
