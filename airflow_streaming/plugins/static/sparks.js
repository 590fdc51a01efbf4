// Small lines in a row of a table: input as an area, processing as a line over it.

import { svg } from "./dom.js";

const WIDTH = 132;
const HEIGHT = 26;

/** Points of a line in a box; none when there is nothing to draw. */
export function points(values, top, width = WIDTH, height = HEIGHT) {
  if (values.length < 2 || !(top > 0)) return [];
  const step = width / (values.length - 1);
  return values.map((value, index) => [
    round(index * step),
    round(height - 2 - (Math.min(Math.max(value, 0), top) / top) * (height - 4)),
  ]);
}

function round(value) {
  return Math.round(value * 10) / 10;
}

export function sparkline(input, output) {
  // Scaled to the input with some room above: what counts is whether processing stays over it.
  const top = Math.max(...input, 0) * 1.9 || Math.max(...output, 0);
  const area = points(input, top);
  const line = points(output, top);
  const picture = svg("svg", {
    class: "spark",
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    width: WIDTH,
    height: HEIGHT,
    "aria-hidden": "true",
    preserveAspectRatio: "none",
  });
  if (area.length) {
    picture.append(
      svg("path", { class: "in", d: `M0 ${HEIGHT}L${area.join("L")}L${WIDTH} ${HEIGHT}Z` }),
      svg("path", { class: "in-line", d: `M${area.join("L")}` }),
    );
  }
  if (line.length) picture.append(svg("path", { class: "out", d: `M${line.join("L")}` }));
  return picture;
}
