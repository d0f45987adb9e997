// The processes as a graph: every worker asks every server; server 0 coordinates.

import { by, h, onSize, s, say } from "./dom.js";
import { isDown, MARKS, sign, word } from "./marks.js";

const WIDE = 78, HIGH = 46, GAP = 12, BETWEEN = 64;
const MOST = { server: 16, worker: 32 };

export class Graph {
  constructor() {
    this.processes = [];
    onSize(by("graph-picture"), () => this.draw());
    by("graph-key").append(...Object.entries(MARKS).map(([mark, [shown, text]]) => h("li", { "data-mark": mark }, h("b", { "aria-hidden": "true" }, shown), text)));
  }

  show(processes) {
    const text = JSON.stringify(processes.map(({ name, mark, state }) => [name, mark, state]));
    this.processes = processes;
    if (text !== this.shown) this.draw();
    this.shown = text;
    const down = processes.filter((one) => isDown(one.mark)).length;
    say(by("graph-sum"), `${processes.length} processes${down ? `, ${down} down` : ""}`);
  }

  draw() {
    const width = by("graph-picture").clientWidth;
    if (!width) return;
    const kinds = ["server", "worker"].map((role) => this.row(role, width));
    let top = 6;
    for (const kind of kinds) {
      kind.forEach((place) => (place.y += top));
      top += (kind.length ? kind.at(-1).line + 1 : 0) * (HIGH + 10) - 10 + BETWEEN;
    }
    const height = Math.max(60, top - BETWEEN + 8);
    const [servers, workers] = kinds;
    const edges = workers.flatMap((worker) => servers.map((server) => this.edge(server, worker)));
    const nodes = kinds.flat().map((place) => this.node(place));
    const label = this.processes.map((one) => `${one.name}: ${word(one.mark)}`).slice(0, 40).join("; ");
    by("graph-picture").replaceChildren(s("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `Processes. ${label}` }, edges, nodes));
  }

  /** Where the processes of a role stand; those that are down come first where there is no room for all. */
  row(role, width) {
    let found = this.processes.filter((one) => one.role === role);
    const most = MOST[role];
    const more = found.length - most;
    if (more > 0) {
      const chosen = new Set([...found].sort((a, b) => isDown(b.mark) - isDown(a.mark)).slice(0, most - 1));
      found = [...found.filter((one) => chosen.has(one)), { name: `${more + 1} more`, role, mark: "done", state: "", index: -1, others: true }];
    }
    const columns = Math.max(1, Math.floor((width + GAP) / (WIDE + GAP)));
    const lines = Math.ceil(found.length / columns);
    const per = Math.ceil(found.length / Math.max(1, lines));
    return found.map((process, index) => {
      const line = Math.floor(index / per);
      const here = Math.min(per, found.length - line * per);
      const gap = Math.min(40, (width - here * WIDE) / (here + 1));
      const begin = (width - here * WIDE - (here - 1) * gap) / 2;
      return { process, line, x: begin + (index % per) * (WIDE + gap), y: line * (HIGH + 10) };
    });
  }

  edge(server, worker) {
    const mark = isDown(server.process.mark) ? server.process.mark : worker.process.mark;
    const [x1, y1, x2, y2] = [server.x + WIDE / 2, server.y + HIGH, worker.x + WIDE / 2, worker.y];
    const half = (y1 + y2) / 2;
    return s("path", { class: "edge", "data-mark": mark, fill: "none", d: `M${x1} ${y1}C${x1} ${half} ${x2} ${half} ${x2} ${y2}` });
  }

  node({ process, x, y }) {
    const server = process.role === "server";
    const rounded = server ? 6 : HIGH / 2;
    const says = process.others ? "" : process.role === "server" && process.index === 0 && process.mark === "ok" ? "coordinator" : process.mark === "ok" ? process.role : word(process.mark);
    const core = server && process.index === 0 ? [s("rect", { class: "core", x: x + 3.5, y: y + 3.5, width: WIDE - 7, height: HIGH - 7, rx: 4 })] : [];
    return s("g", { class: "node", "data-name": process.name, "data-mark": process.mark },
      s("title", {}, `${process.name}: ${process.state}`),
      s("rect", { class: "body", x, y, width: WIDE, height: HIGH, rx: rounded }), core,
      s("text", { x: x + WIDE / 2, y: y + 20 }, s("tspan", { class: "sign" }, process.others ? "" : `${sign(process.mark)} `), process.others ? process.name : process.name.replace("server", "S").replace("worker", "W")),
      s("text", { class: "says", x: x + WIDE / 2, y: y + 35 }, says));
  }
}
