// Times for people. All of them are UTC, as in the reports: two engineers on two continents look
// at one page and mean one moment.

import { ABSENT, span } from "./units.ts";

const two = (value: number) => String(value).padStart(2, "0");

/** `2026-11-22 08:54` of unix microseconds; with seconds on demand. */
export function moment(us: number | undefined, seconds = false): string {
  if (us === undefined || !Number.isFinite(us)) return ABSENT;
  const at = new Date(us / 1000);
  if (Number.isNaN(at.getTime())) return ABSENT;
  const day = `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())}`;
  const time = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
  return `${day} ${time}${seconds ? `:${two(at.getUTCSeconds())}` : ""}`;
}

/** Unix microseconds of an RFC 3339 text. */
export function parsed(text: string): number | undefined {
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : at * 1000;
}

/** `3 min ago`, `in 2 h`. */
export function ago(us: number | undefined, nowUs: number): string {
  if (us === undefined || !Number.isFinite(us)) return ABSENT;
  const past = nowUs - us;
  if (Math.abs(past) < 5e6) return "now";
  const text = span(coarse(Math.abs(past)));
  return past > 0 ? `${text} ago` : `in ${text}`;
}

/** To whole units, for ages: nobody needs `1.083 d`. */
function coarse(us: number): number {
  const unit = us < 60e6 ? 1e6 : us < 3600e6 ? 60e6 : us < 86_400e6 ? 3600e6 : 86_400e6;
  return Math.floor(us / unit) * unit;
}

export const now = () => Date.now() * 1000;
