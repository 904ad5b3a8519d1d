// Series as columns of a chart, and the span of time that is looked at.

import type { Series } from "../api/types.ts";
import { shownIso } from "../zone.svelte.ts";

/** Times in seconds, then most, least and middle. `null` breaks the line; `undefined` does not. */
export type Columns = [
  at: number[],
  most: (number | null)[],
  least: (number | null)[],
  middle: (number | null)[],
];

/** A silence this many times as long as the three spacings before it is no spacing. */
const SILENCE = 3;

/**
 * Points or buckets of one series. The line is broken where a run was missed (`brokenUs`), in a
 * silence, and where buckets are not neighbours: nothing is drawn where nothing was measured.
 */
export function columns(series: Series | undefined, brokenUs: number[] = []): Columns {
  const out: Columns = [[], [], [], []];
  if (series === undefined) return out;
  if (series.buckets && series.buckets.length > 0) return bucketColumns(series.buckets, out);
  const breaks = brokenUs.toSorted((a, b) => a - b);
  let next = 0;
  let before: number | undefined;
  let spacings: number[] = [];
  for (const { at_us, value } of series.points) {
    if (before !== undefined) {
      const spacing = at_us - before;
      if (spacings.length === 3 && spacing > SILENCE * Math.max(...spacings)) put(out, before + 1, null, null, null);
      else spacings = [...spacings.slice(-2), spacing];
    }
    before = at_us;
    while (next < breaks.length && (breaks[next] as number) < at_us) {
      const at = breaks[next++] as number;
      if (out[0].length > 0 && at / 1e6 > (out[0].at(-1) as number)) put(out, at, null, null, null);
    }
    put(out, at_us, null, null, value);
  }
  return out;
}

function bucketColumns(buckets: NonNullable<Series["buckets"]>, out: Columns): Columns {
  let end: number | undefined;
  for (const bucket of buckets) {
    // A bucket's own length of silence is a gap; rounding of spans is not.
    if (end !== undefined && bucket.at_us - end > bucket.duration_us) put(out, end, null, null, null);
    put(out, bucket.at_us + bucket.duration_us / 2, bucket.max, bucket.min, bucket.median);
    end = bucket.at_us + bucket.duration_us;
  }
  return out;
}

/** Times in seconds of the values or buckets with this much loss or more. */
export function lossyTimes(loss: Series | undefined, leastRatio: number): number[] {
  const times: number[] = [];
  for (const { at_us, value } of loss?.points ?? []) if (value >= leastRatio) times.push(at_us / 1e6);
  for (const it of loss?.buckets ?? []) if (it.max >= leastRatio) times.push((it.at_us + it.duration_us / 2) / 1e6);
  return times;
}

function put(out: Columns, us: number, most: number | null, least: number | null, middle: number | null): void {
  out[0].push(us / 1e6);
  out[1].push(most);
  out[2].push(least);
  out[3].push(middle);
}

export interface Span { beginUs: number; endUs: number }

/** Shortest and longest that can be looked at: a second, and twenty years. */
const LEAST_US = 1e6;
const MOST_US = 20 * 365.25 * 86_400e6;

/** Around its middle, or around `aroundUs`. */
export function zoomed(span: Span, factor: number, aroundUs = (span.beginUs + span.endUs) / 2): Span {
  const length = Math.min(MOST_US, Math.max(LEAST_US, (span.endUs - span.beginUs) * factor));
  const share = (aroundUs - span.beginUs) / (span.endUs - span.beginUs);
  const beginUs = Math.round(aroundUs - share * length);
  return { beginUs, endUs: Math.round(beginUs + length) };
}

export function panned(span: Span, share: number): Span {
  const by = Math.round((span.endUs - span.beginUs) * share);
  return { beginUs: span.beginUs + by, endUs: span.endUs + by };
}

export const RANGES: readonly [label: string, seconds: number][] = [
  ["15 min", 900],
  ["1 h", 3600],
  ["6 h", 6 * 3600],
  ["1 d", 86_400],
  ["7 d", 7 * 86_400],
  ["30 d", 30 * 86_400],
  ["1 y", 365 * 86_400],
];

/** Labels of a time axis, in the shown zone: the day where it begins, else the time of day. */
export function ticks(splits: number[], step: number): string[] {
  return splits.map((at, index) => {
    const iso = shownIso(new Date(at * 1000));
    const midnight = iso.endsWith("T00:00:00.000");
    if (step >= 300 * 86_400) return iso.slice(0, 4);
    if (step >= 86_400) return iso.endsWith("01-01T00:00:00.000") || index === 0 ? iso.slice(0, 10) : iso.slice(5, 10);
    if (midnight) return iso.slice(5, 10);
    return step >= 60 ? iso.slice(11, 16) : iso.slice(11, 19);
  });
}

/** The span of the data of a series around a change, never into the future, with a tenth of room. */
export function spanOfData(series: Series | undefined, window: Span, nowUs: number): Span {
  const times = columns(series)[0].map((at) => at * 1e6);
  const endUs = Math.min(window.endUs, nowUs);
  if (times.length < 2) return { beginUs: window.beginUs, endUs };
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const room = Math.max(LEAST_US, (last - first) / 10);
  return { beginUs: Math.max(window.beginUs, first - room), endUs: Math.min(endUs, last + room) };
}
