// What the page hears of the job, as long as somebody looks at it.

const AGAIN = 2500; // milliseconds
const HEAT_EVERY = 5000;

export class Stream {
  /** `on`: history(data), event(data), heat(data), state(name, text). */
  constructor(on) {
    this.on = on;
    this.source = null;
    this.over = false;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.rest() : this.begin()));
    setInterval(() => !document.hidden && !this.over && this.source && this.heat(), HEAT_EVERY);
    if (!document.hidden) this.begin();
  }

  async get(path) {
    const answer = await fetch(path);
    if (answer.status === 401) throw new Error("shut");
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  }

  /** The curves so far, and then what comes. */
  async begin() {
    if (this.source || this.over || this.asking) return;
    this.asking = true;
    try {
      this.on.history(await this.get("/data/history"));
      await this.heat();
      if (!document.hidden) this.listen();
    } catch (error) {
      this.lost(error);
    } finally {
      this.asking = false;
    }
  }

  async refetch() {
    try {
      this.on.history(await this.get("/data/history"));
    } catch {
      // the stream will say what is wrong
    }
  }

  async heat() {
    try {
      this.on.heat(await this.get("/data/heat"));
    } catch {
      // likewise
    }
  }

  listen() {
    const source = new EventSource("/data/stream");
    this.source = source;
    source.onmessage = (event) => {
      const found = JSON.parse(event.data);
      this.on.event(found);
      if (found.now?.over) {
        this.over = true;
        this.rest();
      }
    };
    // Begun anew, so that what came meanwhile is in the curves.
    source.onerror = () => {
      if (this.over) return;
      this.rest();
      this.lost(new Error("gone"));
    };
  }

  rest() {
    this.source?.close();
    this.source = null;
  }

  lost(error) {
    const shut = error.message === "shut";
    this.on.state(shut ? "shut" : "lost");
    if (!shut) setTimeout(() => !document.hidden && this.begin(), AGAIN);
  }
}
