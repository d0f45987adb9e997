// Loss, AUC and speed over time: of the whole job, and of each worker.

import { Chart, colour, dashes } from "./chart.js";
import { by, h, keyed, s, say } from "./dom.js";
import * as format from "./format.js";

const WHOLE = "all workers";
const RECENT = 600; // seconds
const RANGES = [["recent", "10 min"], ["whole", "whole job"]];
const MOST_POINTS = 3000; // beyond which the page asks for the thinned ones again

const tick = (value, span) => (span < 0.02 ? value.toFixed(4) : span < 0.2 ? value.toFixed(3) : value.toFixed(2));
const LOSS = { id: "loss", title: "Loss", value: format.metric, tick, whole: (point) => point.loss, worker: (values) => values[0], none: "no worker tells a loss yet" };
const SPEED = {
  id: "samples", title: "Throughput", unit: "samples/s", value: format.count, tick: format.count, fromZero: true,
  whole: (point) => point.sps, worker: (values) => values[2], none: "no worker trains yet",
};
const metric = (name) => ({
  id: name, title: name === "auc" ? "AUC" : name, value: format.metric, tick, whole: (point) => point.m[name],
  worker: name === "auc" ? (values) => values[1] : null, none: name === "auc" ? "the script tells no AUC" : undefined,
});

export class Curves {
  constructor(refetch) {
    this.refetch = refetch;
    this.data = { whole: [], recent: [] };
    this.range = "recent";
    this.hidden = new Set();
    this.charts = new Map();
    for (const [name, text] of RANGES) {
      by("range").append(h("button", { type: "button", "data-range": name, "aria-pressed": String(name === this.range), onclick: () => this.choose(name) }, text));
    }
  }

  choose(name) {
    this.range = name;
    for (const button of by("range").children) button.setAttribute("aria-pressed", String(button.dataset.range === name));
    this.draw();
  }

  begin(history) {
    this.data = history;
    this.draw();
  }

  add(point) {
    const last = this.data.recent.at(-1);
    if (last && point.t <= last.t) return;
    this.data.recent.push(point);
    this.data.whole.push(point);
    while (this.data.recent.length && this.data.recent[0].t < point.t - RECENT) this.data.recent.shift();
    if (this.data.whole.length > MOST_POINTS) this.refetch();
    this.draw();
  }

  /** Points of one thing over the whole job: for sparklines. */
  table(name) {
    return this.data.whole.filter((point) => point.tb[name]).map((point) => [point.t, point.tb[name][0]]);
  }

  points() {
    const { whole, recent } = this.data;
    if (this.range === "whole") return whole;
    const end = recent.at(-1)?.t ?? 0;
    return recent.filter((point) => point.t > end - RECENT);
  }

  draw() {
    const points = this.points();
    const end = points.at(-1)?.t ?? Date.now() / 1000;
    const begin = Math.min(points[0]?.t ?? end - 60, end - 30);
    const workers = [...new Set(points.flatMap((point) => Object.keys(point.w)))].sort((a, b) => a - b);
    this.legend(workers);
    const metrics = new Set(["auc", ...points.flatMap((point) => Object.keys(point.m))]);
    const kinds = [LOSS, ...[...metrics].map(metric), SPEED];
    keyed(by("charts"), kinds, (kind) => kind.id, (kind) => {
      const chart = new Chart(kind);
      this.charts.set(kind.id, chart);
      return chart.element;
    });
    for (const kind of kinds) this.charts.get(kind.id).show(this.lines(kind, points, workers), begin, end);
  }

  lines(kind, points, workers) {
    const line = (name, look, value) => ({ name, ...look, points: points.map((point) => [point.t, value(point)]).filter(([, found]) => typeof found === "number") });
    const found = [];
    if (!this.hidden.has(WHOLE)) found.push(line(kind.fromZero ? "all workers" : "mean", { class: "ct", total: true }, kind.whole));
    if (!kind.worker || workers.length < 2) return found;
    workers.forEach((worker, index) => {
      const name = `worker ${worker}`;
      if (!this.hidden.has(name)) found.push(line(name, { class: colour(index), dashes: dashes(index) }, (point) => point.w[worker] && kind.worker(point.w[worker])));
    });
    return found;
  }

  legend(workers) {
    const names = workers.length < 2 ? [] : [[WHOLE, "ct", null], ...workers.map((worker, index) => [`worker ${worker}`, colour(index), dashes(index)])];
    keyed(by("legend"), names, ([name]) => name, ([name, look, dash]) => {
      const line = s("line", { class: `line ${look}`, x1: 0, x2: 18, y1: 4, y2: 4, "stroke-width": look === "ct" ? 3 : 2, "stroke-dasharray": dash });
      return h("button", { type: "button", "aria-pressed": "true", onclick: () => this.toggle(name) }, s("svg", { viewBox: "0 0 18 8", "aria-hidden": "true" }, line), h("span", {}, name));
    }, (button, [name]) => {
      say(button.lastChild, name);
      button.setAttribute("aria-pressed", String(!this.hidden.has(name)));
    });
  }

  toggle(name) {
    if (!this.hidden.delete(name)) this.hidden.add(name);
    this.draw();
  }
}
