// The tables of the job: how large they are, how they have grown, how they are asked.

import { by, h, keyed, s, say } from "./dom.js";
import * as format from "./format.js";

const WIDE = 92, HIGH = 20;
const COLUMNS = [
  ["table", (one) => one.name, "left name"], ["rows", (one) => (one.sparse ? format.count(one.rows) : format.count(one.rows)), ""],
  ["growth", null, "growth"], ["memory", (one) => format.bytes(one.bytes), ""], ["pulled/s", (one) => format.count(one.pulled), ""],
  ["pushed/s", (one) => format.count(one.pushed), ""], ["stale", (one) => format.fixed(one.staleness, 1), "low"],
  ["servers", (one) => format.times(one.server_skew), "low"], ["shards", (one) => format.times(one.shard_skew), "low"],
  ["waiting", (one) => (one.waiting ? format.count(one.waiting) : "–"), "low"],
];
const HINTS = {
  rows: "of a dense table: numbers", growth: "rows since the job began", stale: "pushes of others between a worker's pull and its push, in the mean",
  servers: "how much more than the mean the busiest server is asked for", shards: "the same of the virtual shards", waiting: "keys that are counted and have no row yet",
};

export function showTables(found, curves) {
  const table = by("table-list");
  if (!table.tHead) table.append(h("thead", {}, h("tr", {}, COLUMNS.map(([title, , kind]) => h("th", { class: kind, scope: "col", title: HINTS[title] }, title)))), h("tbody"));
  const rows = found.length ? found : [];
  keyed(table.tBodies[0], rows, (one) => one.name, (one) => h("tr", { "data-table": one.name }, COLUMNS.map(([, , kind]) => h("td", { class: kind }))), (row, one) => {
    COLUMNS.forEach(([, text, kind], index) => {
      const cell = row.cells[index];
      if (text) say(cell, text(one));
      else grow(cell, one, curves.table(one.name));
      if (kind.includes("name")) cell.title = one.name;
    });
  });
}

function grow(cell, one, points) {
  if (points.length < 2 || !one.sparse) return say(cell, "–");
  const [begin, end] = [points[0][0], points.at(-1)[0]];
  const high = Math.max(...points.map(([, value]) => value), 1);
  const step = Math.max(1, Math.floor(points.length / 120));
  const thin = points.filter((_, index) => index % step === 0 || index === points.length - 1);
  const line = thin.map(([time, value]) => `${(((time - begin) / (end - begin || 1)) * WIDE).toFixed(1)} ${(HIGH - 1 - (value / high) * (HIGH - 3)).toFixed(1)}`).join("L");
  const text = `from ${format.count(points[0][1])} to ${format.count(points.at(-1)[1])} rows`;
  cell.replaceChildren(s("svg", { class: "spark", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": text }, s("title", {}, text),
    s("path", { class: "fill", d: `M0 ${HIGH}L${line}L${WIDE} ${HIGH}Z` }), s("path", { d: `M${line}` })));
}
