import { expect, it } from "vitest";
import { ago, moment, parsed } from "./time.ts";
import { ABSENT } from "./units.ts";

it("writes moments in UTC", () => {
  expect(moment(1_790_000_000_000_000)).toBe("2026-09-21 14:13");
  expect(moment(1_790_000_000_000_000, true)).toBe("2026-09-21 14:13:20");
  expect(moment(undefined)).toBe(ABSENT);
  expect(moment(9e30)).toBe(ABSENT);
});

it("reads what it is told", () => {
  expect(parsed("2026-11-21T21:56:12Z")).toBe(1_795_298_172_000_000);
  expect(parsed("yesterday")).toBeUndefined();
});

it("writes ages in whole units", () => {
  expect(ago(0, 1e6)).toBe("now");
  expect(ago(0, 190e6)).toBe("3 min ago");
  expect(ago(0, 25 * 3600e6)).toBe("1 d ago");
  expect(ago(7200e6, 0)).toBe("in 2 h");
  expect(ago(undefined, 0)).toBe(ABSENT);
});
