import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { ABSENT, change, count, interval, micros, nanos, percent, rate, short, size, span } from "./units.ts";

type Table = Record<"rate_bps" | "size_bytes" | "duration_us", [number, string][]>;
const shared: Table = JSON.parse(
  readFileSync(new URL("../../fixtures/units.json", import.meta.url), "utf8"),
);

describe("units, as the program prints them", () => {
  it.each(shared.rate_bps)("%d bit/s is %s", (value, text) => expect(rate(value)).toBe(text));
  it.each(shared.size_bytes)("%d bytes are %s", (value, text) => expect(size(value)).toBe(text));
  it.each(shared.duration_us)("%d us are %s", (value, text) => expect(micros(value)).toBe(text));
});

describe("units", () => {
  it("says that a reading is absent, and never zero", () => {
    for (const text of [rate, size, micros, nanos, percent, count, span, change]) {
      expect(text(undefined)).toBe(ABSENT);
      expect(text(null)).toBe(ABSENT);
      expect(text(Number.NaN)).toBe(ABSENT);
    }
    expect(rate(0)).toBe("0 bit/s");
  });

  it("rounds an exact tie to the even digit, as Rust does", () => {
    expect(short(100.25)).toBe("100.2");
    expect(short(100.75)).toBe("100.8");
    expect(short(1.0625)).toBe("1.062");
    expect(short(-100.25)).toBe("-100.2");
  });

  it("keeps the digits of small shares", () => {
    expect(percent(0.00012)).toBe("0.012 %");
    expect(percent(0.0000012)).toBe("1.2e-4 %");
    expect(percent(0)).toBe("0 %");
  });

  it("writes intervals and changes", () => {
    expect(interval(6.171e9, 6.184e9, rate)).toBe("6.171–6.184 Gbit/s");
    expect(interval(9.8e8, 1.2e9, rate)).toBe("980 Mbit/s – 1.2 Gbit/s");
    expect(interval(undefined, 1, rate)).toBe(ABSENT);
    expect(change(0.72)).toBe("−28 %");
    expect(change(1.05)).toBe("+5 %");
    expect(change(2.4)).toBe("×2.4");
  });

  it("writes spans and counts", () => {
    expect(span(90e6)).toBe("1.5 min");
    expect(span(93_600e6)).toBe("1.083 d");
    expect(span(1500)).toBe("1.5 ms");
    expect(count(2472666)).toBe("2\u202f472\u202f666");
  });
});
