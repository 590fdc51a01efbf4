// Numbers and times as people read them. Pure: no document, no clock.

export const NOTHING = "–";

/** A count or rate in at most four characters and a unit: 12, 1.2 k, 3.45 M. */
export function count(value) {
  if (!isNumber(value)) return NOTHING;
  const size = Math.abs(Number(value.toPrecision(3)));
  for (const [limit, unit] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (size >= limit) return `${digits(value / limit)} ${unit}`;
  }
  return size >= 100 || Number.isInteger(value) ? String(Math.round(value)) : digits(value);
}

export function files(value) {
  return `${count(value)} ${value === 1 ? "file" : "files"}`;
}

export function rate(value) {
  return isNumber(value) ? `${count(value)}/s` : NOTHING;
}

export function bytes(value) {
  if (!isNumber(value)) return NOTHING;
  for (const [limit, unit] of [
    [2 ** 40, "TiB"],
    [2 ** 30, "GiB"],
    [2 ** 20, "MiB"],
    [2 ** 10, "KiB"],
  ]) {
    if (Math.abs(value) >= limit) return `${digits(value / limit)} ${unit}`;
  }
  return `${Math.round(value)} B`;
}

export function share(value) {
  return isNumber(value) ? `${digits(value * 100)} %` : NOTHING;
}

/** A share of an objective, whose last digits matter: 99.871 %. */
export function exactShare(value) {
  return isNumber(value) ? `${Number((value * 100).toFixed(3))} %` : NOTHING;
}

/** Seconds as the two largest units: 850 ms, 4.2 s, 3 min 20 s, 5 h 2 min, 12 d. */
export function seconds(value) {
  if (!isNumber(value)) return NOTHING;
  const sign = value < 0 ? "-" : "";
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size < 1) return `${sign}${Math.round(size * 1000)} ms`;
  if (size < 60) return `${sign}${digits(size)} s`;
  if (size < 3600) return `${sign}${two(size, 60, "min", 1, "s")}`;
  if (size < 172800) return `${sign}${two(size, 3600, "h", 60, "min")}`;
  return `${sign}${Math.round(size / 86400)} d`;
}

export function milliseconds(value) {
  return isNumber(value) ? seconds(value / 1000) : NOTHING;
}

function two(value, large, name, small, rest) {
  const whole = Math.floor(value / large);
  const left = Math.floor((value - whole * large) / small);
  return left ? `${whole} ${name} ${left} ${rest}` : `${whole} ${name}`;
}

/** How long ago a moment was; a moment of the future says so. */
export function ago(moment, now) {
  const at = time(moment);
  if (at === null) return NOTHING;
  const gone = (now - at) / 1000;
  if (gone < -5) return `in ${seconds(-gone)}`;
  return gone < 2 ? "now" : `${coarse(gone)} ago`;
}

/** Since when, without "ago". */
export function lasted(moment, now) {
  const at = time(moment);
  return at === null ? NOTHING : coarse(Math.max(0, (now - at) / 1000));
}

function coarse(gone) {
  if (gone < 60) return `${Math.round(gone)} s`;
  if (gone < 3600) return `${Math.round(gone / 60)} min`;
  if (gone < 172800) return `${Math.round(gone / 360) / 10} h`;
  return `${Math.round(gone / 86400)} d`;
}

export function time(moment) {
  if (typeof moment !== "string") return null;
  const at = Date.parse(moment);
  return Number.isFinite(at) ? at : null;
}

export function stamp(moment) {
  const at = time(moment);
  return at === null ? NOTHING : `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

export function clock(moment) {
  const at = time(moment);
  return at === null ? NOTHING : new Date(at).toISOString().slice(5, 16).replace("T", " ");
}

/** A word of a record for people: `gave_up` is "gave up". */
export function words(name) {
  return String(name ?? "").replace(/[_-]/g, " ");
}

/** A kind of event for people: `desired` is the desired state, `alert_gave_up` an alert. */
export function kindName(kind) {
  return { desired: "desired state", owner: "handed over", sized: "size changed" }[kind] ?? words(kind.replace(/^alert_/, "alert: "));
}

export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

function digits(value) {
  const size = Math.abs(value);
  const fixed = size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2);
  return fixed.includes(".") ? fixed.replace(/\.?0+$/, "") : fixed;
}
