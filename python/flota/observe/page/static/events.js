// What has happened: the newest first, with the end of a log where there is one. New ones are read aloud.

import { by, h, keyed, say } from "./dom.js";
import * as format from "./format.js";

const SIGNS = { error: "✕", log: "✕", warning: "!", good: "●" };

/** Of a log, the end is what one looks for. */
function toEnd(event) {
  const lines = event.target.lastChild;
  lines.scrollTop = lines.scrollHeight;
}

export class Events {
  constructor() {
    this.told = null; // the last event that was read aloud
  }

  show(events, hasLaunch) {
    const list = by("event-list");
    const found = events.length ? [...events].reverse() : [{ id: "none" }];
    keyed(list, found, (one) => one.id, (one) => (one.id === "none" ? this.none(hasLaunch) : this.row(one)));
    const last = events.at(-1)?.id ?? 0;
    if (this.told !== null) {
      const news = events.filter((one) => one.id > this.told && one.kind !== "log");
      if (news.length) say(by("announce"), news.map((one) => `${one.name}: ${one.text}`).join(". "));
    }
    this.told = last;
  }

  none(hasLaunch) {
    return h("li", { class: "empty" }, hasLaunch ? "Nothing has gone wrong." : "Nothing has gone wrong, as far as servers tell; logs are with the launch.");
  }

  row(one) {
    const parts = [
      h("time", { class: "quiet", datetime: new Date(one.time * 1000).toISOString() }, format.at(one.time)),
      h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[one.kind] ?? "·"), h("b", {}, one.name), h("span", { class: "what" }, one.text),
    ];
    const inner = one.lines.length ? h("details", { ontoggle: toEnd }, h("summary", {}, parts), h("pre", { tabindex: "0" }, one.lines.join("\n"))) : h("div", { class: "flat" }, parts);
    return h("li", { "data-kind": one.kind, "data-name": one.name }, inner);
  }
}
