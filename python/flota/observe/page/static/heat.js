// How unevenly a table's 1,024 virtual shards are asked for: 32 by 32 squares, the busiest the darkest.

import { by, h, keyed, s, say } from "./dom.js";
import * as format from "./format.js";

const SIDE = 32;
// From little to much, as steps that differ in lightness as well: of viridis, cut at the ends.
const RAMPS = {
  light: [[240, 244, 250], [183, 208, 238], [112, 164, 218], [52, 112, 186], [20, 58, 122], [8, 22, 60]],
  dark: [[24, 31, 43], [31, 58, 104], [38, 101, 158], [62, 155, 186], [140, 208, 190], [240, 250, 205]],
};
const HOT = 6;

function shade(ramp, part) {
  const at = Math.max(0, Math.min(1, part)) * (ramp.length - 1);
  const index = Math.min(ramp.length - 2, Math.floor(at));
  return ramp[index].map((value, i) => Math.round(value + (ramp[index + 1][i] - value) * (at - index)));
}

export class Heat {
  constructor() {
    this.found = [];
    this.chosen = "";
    this.at = null;
    this.canvas = h("canvas", { width: SIDE, height: SIDE, tabindex: "0", role: "img", id: "heat-map", onpointermove: (event) => this.point(event), onpointerleave: () => this.move(null), onkeydown: (event) => this.key(event), onblur: () => this.move(null) });
    this.ramp = h("canvas", { class: "ramp", width: 64, height: 1, "aria-hidden": "true" });
    this.least = h("span");
    this.most = h("span");
    this.says = h("p", { class: "at quiet", "aria-live": "polite" });
    this.pairs = h("dl", { class: "pairs" });
    this.hot = h("ol", { class: "hot", id: "hot-keys" });
    this.body = h("div", { class: "heat" },
      h("div", {}, this.canvas, h("div", { class: "scale quiet" }, this.least, this.ramp, this.most), this.says),
      h("div", {}, this.pairs, h("h3", {}, "hot keys, by their share of what is asked for"), this.hot));
    this.empty = h("p", { class: "empty" }, "No sample yet: one key in 256 of each pull is counted.");
    by("heat-body").append(this.empty);
    by("heat-table").addEventListener("change", (event) => this.choose(event.target.value));
  }

  choose(name) {
    this.chosen = name;
    this.draw();
  }

  show(found) {
    this.found = found;
    const select = by("heat-table");
    keyed(select, found, (one) => one.name, (one) => h("option", { value: one.name }, one.name));
    if (!found.some((one) => one.name === this.chosen)) this.chosen = [...found].sort((a, b) => b.sampled - a.sampled)[0]?.name ?? "";
    select.value = this.chosen;
    select.disabled = !found.length;
    if (found.length && !this.body.isConnected) by("heat-body").replaceChildren(this.body);
    this.draw();
  }

  get table() {
    return this.found.find((one) => one.name === this.chosen);
  }

  draw() {
    const table = this.table;
    if (!table) return;
    const ramp = RAMPS[document.documentElement.dataset.theme] ?? RAMPS.light;
    const mean = table.sampled / table.shards.length;
    const top = Math.max(...table.shards, 1);
    const picture = new ImageData(SIDE, SIDE);
    table.shards.forEach((value, index) => picture.data.set([...shade(ramp, Math.sqrt(value / top)), 255], index * 4));
    this.canvas.getContext("2d").putImageData(picture, 0, 0);
    const bar = new ImageData(64, 1);
    for (let i = 0; i < 64; i += 1) bar.data.set([...shade(ramp, Math.sqrt(i / 63)), 255], i * 4);
    this.ramp.getContext("2d").putImageData(bar, 0, 0);
    say(this.least, "0");
    say(this.most, `${format.times(top / mean)} the mean`);
    this.canvas.setAttribute("aria-label", `Load of the ${table.shards.length} virtual shards of ${table.name}; the busiest is asked for ${format.times(top / mean)} the mean. Arrow keys read single shards.`);
    const pairs = [["busiest shard", format.times(table.skew)], ["busiest server", format.times(table.server_skew)], ["keys in the sample", format.count(table.sampled)]];
    keyed(this.pairs, pairs.flatMap(([title, value]) => [["dt", title, title], ["dd", title + ":", value]]), ([, key]) => key, ([tag]) => h(tag), (element, [, , text]) => say(element, text));
    const high = table.hot[0]?.[1] || 1;
    keyed(this.hot, table.hot.slice(0, HOT), ([key]) => key, ([key]) => h("li", {}, s("svg", { preserveAspectRatio: "none", viewBox: "0 0 100 10", "aria-hidden": "true" }, s("rect", { height: 10 })), h("span", {}, key), h("span")), (row, [, part]) => {
      row.querySelector("rect").setAttribute("width", ((part / high) * 100).toFixed(1));
      say(row.lastChild, format.share(part));
    });
    this.move(this.at);
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * SIDE);
    const row = Math.floor(((event.clientY - box.top) / box.height) * SIDE);
    this.move(Math.max(0, Math.min(SIDE * SIDE - 1, row * SIDE + column)));
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -SIDE, ArrowDown: SIDE }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    this.move(this.at === null ? 0 : Math.max(0, Math.min(SIDE * SIDE - 1, this.at + step)));
  }

  move(at) {
    this.at = at;
    const table = this.table;
    if (!table) return;
    const mean = table.sampled / table.shards.length;
    say(this.says, at === null ? "32 × 32 virtual shards" : `shard ${at}: ${format.times(table.shards[at] / mean)} the mean`);
  }
}
