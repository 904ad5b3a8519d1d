import { describe, expect, it } from "vitest";
import type { Series } from "../api/types.ts";
import { columns, lossyTimes, panned, ticks, zoomed } from "./timeline.ts";

const pair = { from: "a", to: "b" };

describe("columns", () => {
  it("breaks the line where a run was missed, and nowhere else", () => {
    const series: Series = {
      pair, quantity: "goodput",
      points: [1, 2, 4].map((at) => ({ at_us: at * 1e6, value: at })),
    };
    expect(columns(series)).toEqual([[1, 2, 4], [null, null, null], [null, null, null], [1, 2, 4]]);
    expect(columns(series, [3e6, 0.5e6, 9e6])[0]).toEqual([1, 2, 3, 4]);
    expect(columns(series, [3e6])[3]).toEqual([1, 2, null, 4]);
  });

  it("breaks the line in a silence, whatever the jitter before it", () => {
    const points = [0, 60, 118, 181, 240, 600, 660].map((s) => ({ at_us: s * 1e6, value: 1 }));
    const broken = columns({ pair, quantity: "goodput", points });
    expect(broken[0].filter((_, at) => broken[3][at] === null)).toEqual([240.000001]);
  });

  it("keeps the extremes of buckets, and their gaps", () => {
    const bucket = (at: number) => ({ at_us: at, duration_us: 1e6, samples: 9, min: 1, median: 2, max: 9 });
    const series: Series = { pair, quantity: "loss", points: [], buckets: [bucket(0), bucket(1e6), bucket(5e6)] };
    expect(columns(series)).toEqual([
      [0.5, 1.5, 2, 5.5], [9, 9, null, 9], [1, 1, null, 1], [2, 2, null, 2],
    ]);
  });

  it("is empty without a series", () => expect(columns(undefined)[0]).toEqual([]));
});

describe("span", () => {
  const span = { beginUs: 0, endUs: 100e6 };
  it("zooms around a moment that stays in its place", () => {
    expect(zoomed(span, 0.5)).toEqual({ beginUs: 25e6, endUs: 75e6 });
    expect(zoomed(span, 0.5, 0)).toEqual({ beginUs: 0, endUs: 50e6 });
    expect(zoomed(span, 1e-9)).toEqual({ beginUs: 49.5e6, endUs: 50.5e6 });
  });
  it("pans by a share", () => expect(panned(span, -0.25)).toEqual({ beginUs: -25e6, endUs: 75e6 }));
});

it("labels the axis in UTC", () => {
  const day = Date.UTC(2026, 8, 11) / 1000;
  expect(ticks([day, day + 21_600], 21_600)).toEqual(["09-11", "06:00"]);
  expect(ticks([day + 86_400, day + 2 * 86_400], 86_400)).toEqual(["2026-09-12", "09-13"]);
  expect(ticks([day + 5], 5)).toEqual(["00:00:05"]);
});

it("finds the runs that lost much, and the buckets that hold one", () => {
  const loss = (rest: object) => ({ pair: { from: "a", to: "b" }, quantity: "loss" as const, points: [], ...rest });
  expect(lossyTimes(loss({ points: [{ at_us: 1e6, value: 0.005 }, { at_us: 2e6, value: 0.01 }] }), 0.01)).toEqual([2]);
  const bucket = { duration_us: 10e6, samples: 5, min: 0, median: 0 };
  expect(lossyTimes(loss({ buckets: [{ ...bucket, at_us: 0, max: 0 }, { ...bucket, at_us: 10e6, max: 0.05 }] }), 0.01)).toEqual([15]);
  expect(lossyTimes(undefined, 0.01)).toEqual([]);
});
