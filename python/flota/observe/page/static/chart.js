// A line chart: axes with units, a cursor for pointer and arrow keys, and what it stands at.

import { h, onSize, s, say } from "./dom.js";
import * as format from "./format.js";

const LEFT = 44, RIGHT = 8, TOP = 8, BOTTOM = 20;
const DASHES = ["", "6 2", "2 2", "8 2 2 2"];

export const colour = (index) => `c${index % 8}`;
export const dashes = (index) => DASHES[Math.floor(index / 8) % DASHES.length] || null;

/** Numbers between which the grid stands: few, and round. */
export function ticks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((unit) => unit * power).find((unit) => unit >= rough * 0.999) ?? rough;
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
}

const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

function timeTicks(from, to, most) {
  const step = TIMES.find((unit) => (to - from) / unit <= most) ?? 604800;
  const shift = new Date(to * 1000).getTimezoneOffset() * 60;
  const found = [];
  for (let at = Math.ceil((from - shift) / step) * step + shift; at <= to; at += step) found.push(at);
  return { found, text: step < 60 ? format.at : format.atMinute };
}

export class Chart {
  /** `options`: id, title, unit, value(number) as text, fromZero. */
  constructor(options) {
    this.options = options;
    this.lines = [];
    this.cursor = null;
    this.now = h("b");
    this.picture = s("svg", { "aria-hidden": "true" });
    this.readout = h("div", { class: "readout", hidden: true });
    this.spoken = h("span", { class: "unseen", "aria-live": "polite" });
    this.plot = h("div", {
      class: "plot", tabindex: "0", role: "group", "aria-roledescription": "chart", onkeydown: (event) => this.key(event),
      onpointermove: (event) => this.point(event), onpointerdown: (event) => this.point(event), onpointerleave: () => this.leave(), onblur: () => this.leave(),
    }, this.picture, this.readout, this.spoken);
    const unit = options.unit ? ` (${options.unit})` : "";
    this.element = h("figure", { class: "chart", "data-chart": options.id }, h("figcaption", {}, `${options.title}${unit}`, this.now), this.plot);
    onSize(this.plot, () => this.draw());
  }

  /** `lines`: [{name, class, dashes, total, points: [[time, value], …]}], of which `from` … `to` is shown. */
  show(lines, from, to) {
    Object.assign(this, { lines, from, to });
    this.draw();
    const first = lines[0]?.points.at(-1)?.[1];
    const text = this.options.value(first);
    say(this.now, text);
    this.plot.setAttribute("aria-label", `${this.options.title}: now ${text}; arrow keys move a cursor over time`);
  }

  draw() {
    const width = this.plot.clientWidth, height = this.plot.clientHeight;
    if (!width || !height || this.from === undefined) return;
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const [low, high] = this.range();
    const x = (time) => LEFT + ((time - this.from) / (this.to - this.from)) * (width - LEFT - RIGHT);
    const y = (value) => TOP + (1 - (value - low) / (high - low)) * (height - TOP - BOTTOM);
    Object.assign(this, { x, y, width });
    this.picture.replaceChildren(...this.axes(low, high, width, height), ...this.lines.toReversed().map((line) => this.path(line)));
    this.marks = s("g");
    this.picture.append(this.marks);
    if (!this.lines.some((line) => line.points.length)) {
      this.picture.append(s("text", { class: "none", x: (LEFT + width) / 2, y: height / 2, "text-anchor": "middle" }, this.options.none ?? "nothing yet"));
    }
    if (this.cursor !== null) this.place(this.cursor, false);
  }

  range() {
    let low = Infinity, high = -Infinity;
    for (const line of this.lines) {
      for (const [, value] of line.points) {
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
    if (low > high) return [0, 1];
    if (this.options.fromZero) low = Math.min(0, low);
    const room = (high - low || Math.abs(high) * 0.1 || 1) * 0.07;
    return [this.options.fromZero && low === 0 ? 0 : low - room, high + room];
  }

  *axes(low, high, width, height) {
    for (const value of ticks(low, high, 4)) {
      const at = Math.round(this.y(value)) + 0.5;
      yield s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: at, y2: at });
      yield s("text", { x: LEFT - 6, y: at + 3.5, "text-anchor": "end" }, this.options.tick(value, high - low));
    }
    const { found, text } = timeTicks(this.from, this.to, Math.max(2, Math.floor((width - LEFT) / 84)));
    for (const time of found) {
      const at = Math.round(this.x(time)) + 0.5;
      yield s("line", { class: "axis", x1: at, x2: at, y1: height - BOTTOM, y2: height - BOTTOM + 4 });
      if (at > LEFT + 16 && at < width - 20) yield s("text", { x: at, y: height - 4, "text-anchor": "middle" }, text(time));
    }
    const bottom = height - BOTTOM + 0.5;
    yield s("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: bottom, y2: bottom });
  }

  path(line) {
    let text = "", last = null;
    for (const [time, value] of line.points) {
      // Where nothing was heard for a while there is no line.
      const broken = last === null || time - last > Math.max(15, (this.to - this.from) / 40);
      text += `${broken ? "M" : "L"}${this.x(time).toFixed(1)} ${this.y(value).toFixed(1)}`;
      last = time;
    }
    return s("path", { class: `line ${line.class}${line.total ? " total" : ""}`, d: text || null, "stroke-dasharray": line.dashes, "data-line": line.name });
  }

  // --- the cursor ---

  point(event) {
    if (!this.x) return;
    const at = event.clientX - this.plot.getBoundingClientRect().left;
    this.place(this.from + ((at - LEFT) / (this.width - LEFT - RIGHT)) * (this.to - this.from), false);
  }

  key(event) {
    const times = this.lines[0]?.points.map(([time]) => time) ?? [];
    if (!times.length) return;
    const now = this.cursor === null ? times.length : times.findIndex((time) => time >= this.cursor);
    const far = Math.max(1, Math.round(times.length / 10));
    const moves = { ArrowLeft: now - 1, ArrowRight: now + 1, PageDown: now + far, PageUp: now - far, Home: 0, End: times.length - 1 };
    if (event.key === "Escape") this.leave();
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.place(times[Math.min(times.length - 1, Math.max(0, moves[event.key]))], true);
  }

  leave() {
    this.cursor = null;
    this.readout.hidden = true;
    this.marks?.replaceChildren();
  }

  place(time, aloud) {
    const found = this.lines.map((line) => [line, nearest(line.points, time)]).filter(([, point]) => point);
    if (!found.length) return;
    const exact = found[0][1][0];
    this.cursor = exact;
    const at = this.x(exact);
    const height = this.plot.clientHeight;
    this.marks.replaceChildren(
      s("line", { class: "cursor", x1: at, x2: at, y1: TOP, y2: height - BOTTOM }),
      ...found.map(([line, [when, value]]) => s("circle", { class: `dot ${line.class}`, cx: this.x(when), cy: this.y(value), r: 3.2 })),
    );
    const rows = found.slice(0, 9).map(([line, [, value]]) => h("tr", {}, h("td", { class: `swatch ${line.class}` }, "━"), h("td", {}, line.name), h("td", {}, this.options.value(value))));
    this.readout.replaceChildren(h("div", { class: "quiet" }, format.at(exact)), h("table", {}, ...rows));
    this.readout.hidden = false;
    const left = at + 12 + this.readout.offsetWidth > this.width ? at - 12 - this.readout.offsetWidth : at + 12;
    this.readout.style.left = `${Math.max(0, left)}px`;
    if (aloud) say(this.spoken, `${format.at(exact)}: ${found.slice(0, 4).map(([line, [, value]]) => `${line.name} ${this.options.value(value)}`).join(", ")}`);
  }
}

function nearest(points, time) {
  if (!points.length) return null;
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < time) low = middle + 1;
    else high = middle;
  }
  const before = points[low - 1];
  return before && time - before[0] < points[low][0] - time ? before : points[low];
}
