// Numbers as people read them; "–" where there is none.

const NONE = "–";
const is = (value) => typeof value === "number" && Number.isFinite(value);

function scaled(value, step, units) {
  let power = 0;
  let size = Math.abs(value);
  while (size >= 999.5 && power < units.length - 1) {
    size /= step;
    power += 1;
  }
  const digits = size >= 99.95 || (power === 0 && Number.isInteger(size)) ? 0 : size >= 9.995 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${size.toFixed(digits)}${units[power]}`;
}

export const count = (value) => (is(value) ? scaled(value, 1000, ["", "k", "M", "G", "T"]) : NONE);
export const bytes = (value) => (is(value) ? scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]) : NONE);
export const whole = (value) => (is(value) ? Math.round(value).toLocaleString("en") : NONE);
export const fixed = (value, digits = 4) => (is(value) ? value.toFixed(digits) : NONE);
export const times = (value) => (is(value) ? `×${value.toFixed(value < 9.995 ? 2 : 0)}` : NONE);

export function share(value, digits) {
  if (!is(value)) return NONE;
  const percent = value * 100;
  return `${percent.toFixed(digits ?? (percent >= 10 ? 0 : percent >= 0.1 ? 1 : 2))}%`;
}

export function seconds(value) {
  if (!is(value)) return NONE;
  if (value < 0.9995e-3) return `${Number((value * 1e6).toPrecision(3))} µs`;
  return value < 0.9995 ? `${Number((value * 1e3).toPrecision(3))} ms` : `${Number(value.toPrecision(3))} s`;
}

export function clock(value) {
  if (!is(value)) return NONE;
  const all = Math.max(0, Math.floor(value));
  const two = (part) => String(part).padStart(2, "0");
  const hours = Math.floor(all / 3600);
  const rest = `${two(Math.floor(all / 60) % 60)}:${two(all % 60)}`;
  return hours ? `${hours}:${rest}` : rest;
}

export function ago(value) {
  if (!is(value)) return NONE;
  if (value < 1.5) return "just now";
  if (value < 90) return `${Math.round(value)} s ago`;
  if (value < 5400) return `${Math.round(value / 60)} min ago`;
  return value < 129600 ? `${(value / 3600).toFixed(1)} h ago` : `${Math.round(value / 86400)} d ago`;
}

export const at = (time) => new Date(time * 1000).toLocaleTimeString("en-GB");
export const atMinute = (time) => at(time).slice(0, 5);

/** A metric: four digits behind the point where it is small. */
export function metric(value) {
  if (!is(value)) return NONE;
  return Math.abs(value) >= 1000 ? count(value) : Math.abs(value) >= 0.001 || value === 0 ? value.toFixed(4) : value.toExponential(2);
}
