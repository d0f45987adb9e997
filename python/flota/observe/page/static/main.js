// Puts what is heard of the job where it is shown.

import { Curves } from "./curves.js";
import { by, h, keyed, mark, say } from "./dom.js";
import { Events } from "./events.js";
import * as format from "./format.js";
import { Graph } from "./graph.js";
import { Heat } from "./heat.js";
import { isDown } from "./marks.js";
import { Processes } from "./processes.js";
import { showSaves } from "./saves.js";
import { Stream } from "./stream.js";
import { showTables } from "./tables.js";
import { theme } from "./theme.js";

const heat = new Heat();
const graph = new Graph();
const processes = new Processes();
const events = new Events();
const curves = new Curves(() => stream.refetch());
let seen = null; // when the last look came, by this browser's clock
let last = null;

const BANNERS = {
  lost: ["bad", "The page does not answer: the job's launch may have ended, or the connection is gone. Trying again; what is below is as it was."],
  shut: ["bad", "This browser is no longer let in: the page was started anew. Open the link that the launch has printed."],
  away: ["bad", "No server of the job answers. What is below is as it was seen last."],
};

function state(name, text, banner) {
  mark(by("state"), "state", name);
  say(by("state-text"), text);
  const [kind, line] = banner ?? BANNERS[name] ?? ["", ""];
  by("banner").hidden = !line;
  if (line) {
    by("banner").dataset.kind = kind;
    say(by("banner"), line);
  }
}

function tiles(now) {
  const of = (role) => now.processes.filter((one) => one.role === role);
  const running = (role) => of(role).filter((one) => one.mark === "ok" || one.mark === "warn").length;
  const up = (role) => ({ id: role, title: `${role}s`, value: String(running(role)), unit: `of ${of(role).length} run`, kind: of(role).some((one) => isDown(one.mark)) ? "bad" : "" });
  const found = [
    { id: "samples", title: "throughput", value: format.count(now.over ? null : now.sps), unit: "samples/s" },
    { id: "loss", title: "loss", value: format.metric(now.loss) },
    { id: "auc", title: "AUC", value: format.metric(now.metrics.auc) },
    { id: "rows", title: "rows", value: format.count(now.rows) },
    { id: "memory", title: "servers' memory", value: format.bytes(now.memory) },
    up("worker"), up("server"),
  ];
  keyed(by("tiles"), found, (one) => one.id, (one) => h("div", { "data-tile": one.id }, h("dt", {}, one.title), h("dd", {}, h("span"), h("small", {}))), (tile, one) => {
    mark(tile, "kind", one.kind ?? "");
    say(tile.querySelector("span"), one.value);
    say(tile.querySelector("small"), one.unit ?? "");
  });
}

function show({ now, point, trouble }) {
  seen = performance.now();
  if (trouble) return state("lost", "cannot read it", ["bad", trouble]);
  last = now;
  if (point) curves.add(point);
  document.title = `${now.over ? "ended" : format.count(now.sps)} · ${now.title}`;
  say(by("title"), now.title);
  say(by("mode"), now.mode ? `${now.mode} training` : "");
  say(by("elapsed"), format.clock(now.elapsed));
  if (now.over) state("over", "ended", ["", `The job is over: ${now.over}. What it came to stays here as long as this page is open.`]);
  else if (!now.heard) state("away", "no answer");
  else state("live", "live");
  tiles(now);
  graph.show(now.processes);
  processes.show(now.processes);
  showTables(now.tables, curves);
  events.show(now.events, now.has_launch);
  showSaves(now.saves, now.time);
}

theme(by("theme"), () => heat.draw());
const stream = new Stream({
  history: (data) => curves.begin(data),
  event: show,
  heat: (data) => heat.show(data),
  state: (name) => state(name, name === "shut" ? "shut out" : "connection lost"),
});
setInterval(() => {
  if (seen !== null) say(by("seen"), format.ago((performance.now() - seen) / 1000));
  if (last && !last.over) showSaves(last.saves, last.time + (performance.now() - seen) / 1000);
}, 1000);
