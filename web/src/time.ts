// Times for people, in the zone that the page shows: UTC unless its user chose otherwise, so that
// two engineers on two continents mean one moment.

import { ABSENT, span } from "./units.ts";
import { shownIso } from "./zone.svelte.ts";

/** `2026-11-22 08:54` of unix microseconds; with seconds on demand. */
export function moment(us: number | undefined, seconds = false): string {
  if (us === undefined || !Number.isFinite(us)) return ABSENT;
  const at = new Date(us / 1000);
  if (Number.isNaN(at.getTime())) return ABSENT;
  return shownIso(at).slice(0, seconds ? 19 : 16).replace("T", " ");
}

/** `08:54` of unix microseconds. */
export const clockTime = (us: number | undefined) => moment(us).slice(-5);

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
