// All numbers with units are formatted here, and nowhere else. The rules are those of
// `longhaul-model::units`; both are held to fixtures/units.json.

/** What stands for a reading that was not taken. Never a zero. */
export const ABSENT = "–";

type Step = readonly [size: number, name: string];

const RATES: readonly Step[] = [
  [1e12, "Tbit/s"],
  [1e9, "Gbit/s"],
  [1e6, "Mbit/s"],
  [1e3, "kbit/s"],
];
const SIZES: readonly Step[] = [
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
];
const TIMES: readonly Step[] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
];
const SPANS: readonly Step[] = [
  [86_400, "d"],
  [3600, "h"],
  [60, "min"],
];

/** `toFixed`, but an exact tie goes to the even digit, as the program prints it. */
function fixed(value: number, decimals: number): string {
  const text = value.toFixed(decimals);
  const scaled = Math.abs(value) * 10 ** decimals;
  const tie = scaled - Math.floor(scaled) === 0.5 && Number.isInteger(value * 2 ** (decimals + 1));
  if (!tie) return text;
  const even = 2 * Math.round(scaled / 2);
  return ((Math.sign(value) * even) / 10 ** decimals).toFixed(decimals);
}

/** Three significant digits at least, no trailing zeros: `6.25`, `941`, `0.5`. */
export function short(value: number): string {
  const size = Math.abs(value);
  const text = fixed(value, size >= 99.95 ? 1 : size >= 9.995 ? 2 : 3);
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}

function scaled(value: number, steps: readonly Step[], base: string): string {
  const step = steps.find(([size]) => Math.abs(value) >= size);
  return step ? `${short(value / step[0])} ${step[1]}` : `${short(value)} ${base}`;
}

function or(value: number | null | undefined, text: (value: number) => string): string {
  return value === undefined || value === null || !Number.isFinite(value) ? ABSENT : text(value);
}

type Reading = number | null | undefined;

export const rate = (bps: Reading) => or(bps, (v) => scaled(v, RATES, "bit/s"));
export const size = (bytes: Reading) => or(bytes, (v) => scaled(v, SIZES, "B"));
export const nanos = (ns: Reading) => or(ns, (v) => scaled(v, TIMES, "ns"));
export const micros = (us: Reading) => or(us, (v) => scaled(v * 1000, TIMES, "ns"));
export const count = (value: Reading) => or(value, (v) => short(v).replace(/\B(?=(\d{3})+$)/g, "\u202f"));

/** A share of one, as per cent; small ones keep their digits. */
export function percent(ratio: Reading): string {
  return or(ratio, (v) => {
    const value = v * 100;
    if (value !== 0 && Math.abs(value) < 0.001) return `${value.toExponential(1)} %`;
    return `${short(value)} %`;
  });
}

/** A span of time for people: `26 h`, `3.5 d`. */
export const span = (us: Reading) =>
  or(us, (v) => (Math.abs(v) < 60e6 ? micros(v) : scaled(v / 1e6, SPANS, "s")));

/** `0.72` as `−28 %`; `2.4` as `×2.4`. */
export function change(ratio: Reading): string {
  return or(ratio, (v) => {
    if (v >= 2) return `×${short(v)}`;
    const per = Math.round((v - 1) * 1000) / 10;
    return `${per < 0 ? "−" : "+"}${Math.abs(per)} %`;
  });
}

/** An interval with one unit where both ends share it: `6.17–6.18 Gbit/s`. */
export function interval(
  low: Reading,
  high: Reading,
  text: (value: Reading) => string,
): string {
  const [a, b] = [text(low), text(high)];
  if (a === ABSENT || b === ABSENT) return ABSENT;
  const unit = b.slice(b.lastIndexOf(" "));
  return a.endsWith(unit) ? `${a.slice(0, -unit.length)}–${b}` : `${a} – ${b}`;
}
