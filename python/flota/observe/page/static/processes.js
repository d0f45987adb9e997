// Workers and servers in two tables, and the end of a process's log.

import { by, h, keyed, mark, s, say } from "./dom.js";
import * as format from "./format.js";
import { sign, word } from "./marks.js";

const PARTS = ["read", "pull", "forward", "backward", "push", "wait"];
const name = { title: "", kind: "name", text: (one) => one.name };
const state = { title: "state", kind: "state left", text: (one) => one.state };
const pid = { title: "pid", kind: "mid", text: (one) => (one.pid ? String(one.pid) : "–") };
const log = { title: "log", kind: "log", text: () => "" };

const COLUMNS = {
  workers: [
    name, state,
    { title: "step", kind: "low", text: (one) => format.whole(one.step) },
    { title: "samples/s", text: (one) => format.count(one.sps) },
    { title: "loss", text: (one) => format.metric(one.loss) },
    { title: "AUC", kind: "low", text: (one) => format.metric(one.auc), any: (one) => one.auc !== null },
    { title: "time", kind: "shares low" },
    { title: "waits", text: (one) => format.share(one.waits) },
    { title: "pass", kind: "low", text: (one) => format.share(one.done), any: (one) => one.done !== null },
    { title: "memory", kind: "mid", text: (one) => format.bytes(one.memory) },
    { title: "restarts", kind: "mid", text: (one) => String(one.restarts), any: (one) => one.restarts > 0 },
    pid, log,
  ],
  servers: [
    name, state,
    { title: "rows", text: (one) => format.count(one.rows) },
    { title: "memory", text: (one) => format.bytes(one.memory) },
    { title: "cpu", text: (one) => format.share(one.cpu) },
    { title: "pulls/s", kind: "low", text: (one) => format.count(one.pulls) },
    { title: "pushes/s", kind: "low", text: (one) => format.count(one.pushes) },
    { title: "pull p99", kind: "low", text: (one) => format.seconds(one.p99) },
    { title: "clients", kind: "low", text: (one) => format.whole(one.clients) },
    { title: "restarts", kind: "mid", text: (one) => String(one.restarts), any: (one) => one.restarts > 0 },
    pid, log,
  ],
};

export class Processes {
  constructor(trouble) {
    this.trouble = trouble;
    by("shares-key").append(...PARTS.map((part) => h("li", { class: part }, h("i", { "aria-hidden": "true" }), part)));
  }

  show(processes) {
    for (const role of ["workers", "servers"]) this.fill(by(role), COLUMNS[role], processes.filter((one) => `${one.role}s` === role), role);
  }

  fill(table, columns, rows, role) {
    const logs = rows.some((one) => one.log);
    const shown = columns.filter((column) => (!column.any || rows.some(column.any)) && (column !== log || logs));
    const key = shown.map((column) => column.title).join();
    if (table.dataset.columns !== key) {
      table.dataset.columns = key;
      const titles = shown.map((column) => h("th", { class: column.kind ?? null, scope: "col" }, column === name ? role : column.title));
      table.replaceChildren(h("thead", {}, h("tr", {}, titles)), h("tbody"));
    }
    keyed(table.tBodies[0], rows, (one) => one.name, (one) => this.row(one, shown), (row, one) => this.update(row, one, shown));
  }

  row(one, columns) {
    const cells = columns.map((column) => {
      if (column === name) return h("td", { class: "name" }, h("span", { class: "sign", "aria-hidden": "true" }), h("span", {}, one.name));
      if (column === log) return h("td", { class: "log" }, h("button", { type: "button", class: "plain", "aria-label": `log of ${one.name}`, onclick: () => this.open(one.name) }, "log"));
      return h("td", { class: column.kind ?? null });
    });
    return h("tr", { "data-name": one.name, id: `p-${one.name.replace(" ", "-")}` }, cells);
  }

  update(row, one, columns) {
    mark(row, "mark", one.mark);
    mark(row, "pid", String(one.pid ?? ""));
    columns.forEach((column, index) => {
      const cell = row.cells[index];
      if (column === name) {
        say(cell.firstChild, sign(one.mark));
        cell.title = `${word(one.mark)}${one.where ? `, on ${one.where}` : ""}${one.pid ? `, pid ${one.pid}` : ""}`;
      } else if (column === log) {
        cell.firstChild.hidden = !one.log;
      } else if (column.kind === "shares low") {
        this.shares(cell, one.shares);
      } else {
        say(cell, column.text(one));
        if (column === state) cell.title = one.state;
      }
    });
  }

  /** What a worker's time goes to, as one bar; what no part has is left empty. */
  shares(cell, found) {
    if (!found) return say(cell, "–");
    const parts = PARTS.filter((part) => found[part] > 0.004);
    let at = 0;
    const rects = parts.map((part) => {
      const width = found[part] * 76;
      const rect = s("rect", { class: part, x: at.toFixed(1), y: 0, width: Math.max(0, Math.min(width, 76 - at)).toFixed(1), height: 11 });
      at += width;
      return rect;
    });
    const text = parts.map((part) => `${part} ${format.share(found[part])}`).join(", ");
    cell.replaceChildren(s("svg", { class: "bar", viewBox: "0 0 76 11", role: "img", "aria-label": text }, s("title", {}, text), s("rect", { width: 76, height: 11 }), rects));
  }

  async open(name) {
    say(by("log-h"), `Log of ${name}`);
    say(by("log-lines"), "…");
    by("log").showModal();
    try {
      const answer = await fetch(`/data/log?name=${encodeURIComponent(name)}`);
      const lines = answer.ok ? (await answer.json()).lines : [await answer.text()];
      by("log-lines").textContent = lines.join("\n") || "(nothing)";
      by("log-lines").scrollTop = by("log-lines").scrollHeight;
    } catch {
      say(by("log-lines"), "The page does not answer.");
    }
  }
}
