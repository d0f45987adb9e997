// What is kept of the job, and how old it is.

import { by, h, keyed, say } from "./dom.js";
import * as format from "./format.js";

const NONE = "Nothing is kept yet. Servers write snapshots where the launch keeps a durable folder; scripts save with flota.save_persistables.";

export function showSaves(saves, now) {
  const body = by("saves-body");
  if (!saves.length) {
    if (!body.querySelector(".empty")) body.replaceChildren(h("p", { class: "empty" }, NONE));
    return;
  }
  if (!body.querySelector("table")) {
    const titles = ["what", "age", "size"].map((title, index) => h("th", { class: index ? null : "left", scope: "col" }, title));
    body.replaceChildren(h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Checkpoints" }, h("table", { id: "save-list" }, h("thead", {}, h("tr", {}, titles)), h("tbody"))));
  }
  keyed(body.querySelector("tbody"), saves, (one) => `${one.kind} ${one.name}`, (one) => h("tr", { "data-save": one.kind },
    h("td", { class: "left" }, h("b"), h("br"), h("span", { class: "quiet" })), h("td"), h("td")), (row, one) => {
    const [what, , note] = row.cells[0].childNodes;
    say(what, one.name);
    const kept = one.kind === "checkpoint" ? `checkpoint of step ${format.whole(one.step)}` : "kept by the server";
    say(note, `${kept}${one.note ? `: ${one.note}` : ""}`);
    say(row.cells[1], one.time ? format.ago(now - one.time) : "–");
    row.cells[1].title = one.time ? new Date(one.time * 1000).toLocaleString() : "";
    say(row.cells[2], format.bytes(one.bytes));
  });
}
