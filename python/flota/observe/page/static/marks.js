// How a process does: a sign, a word and a colour for each mark.

export const MARKS = {
  ok: ["●", "runs"], warn: ["!", "something is wrong"], again: ["↻", "starts again"], dead: ["✕", "has died"],
  away: ["?", "does not answer"], done: ["■", "done"],
};
export const sign = (mark) => MARKS[mark]?.[0] ?? "·";
export const word = (mark) => MARKS[mark]?.[1] ?? mark;
export const isDown = (mark) => mark === "dead" || mark === "again" || mark === "away";
