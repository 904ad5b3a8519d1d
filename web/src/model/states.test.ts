import { describe, expect, it } from "vitest";
import type { GridCell, MeasurementState } from "../api/types.ts";
import { failures, indexStates, standing } from "./states.ts";

const HOUR = 3600e6;
const NOW = 100 * HOUR;
const pair = { from: "a", to: "b" };
const cell = (at_us?: number, back = false): GridCell => ({ pair: back ? { from: "b", to: "a" } : pair, value: at_us === undefined ? undefined : 1e9, at_us, open_events: 0 });
const row = (kind: string | undefined, more: Partial<MeasurementState> = {}): MeasurementState => ({ measurement: kind ?? "x", pair, kind, done_us: NOW - HOUR, stale_after_us: 3 * HOUR, ...more });
const failure = { since_us: NOW - 5 * HOUR, latest_us: NOW - HOUR, reason: "failed", detail: "connection refused" };

describe("the state of a value", () => {
  it("is fresh, stale after three intervals, or absent", () => {
    const index = indexStates([row("throughput")]);
    expect(standing(cell(NOW - HOUR), "goodput", index, NOW).state).toBe("fresh");
    expect(standing(cell(NOW - 4 * HOUR), "goodput", index, NOW).state).toBe("stale");
    expect(standing(cell(), "goodput", index, NOW).state).toBe("none");
    expect(standing(undefined, "goodput", index, NOW).state).toBe("none");
  });

  it("is stale after a day where no measurement is known", () => {
    const index = indexStates([]);
    expect(standing(cell(NOW - 23 * HOUR), "goodput", index, NOW).state).toBe("fresh");
    expect(standing(cell(NOW - 25 * HOUR), "goodput", index, NOW).state).toBe("stale");
  });

  it("is failing for the quantities of the failing measurement, with the reason", () => {
    const index = indexStates([row("throughput", { failure }), row("path")]);
    const found = standing(cell(NOW - 6 * HOUR), "goodput", index, NOW);
    expect(found).toEqual({ state: "failing", failing: row("throughput", { failure }) });
    expect(standing(cell(NOW), "rtt_floor", index, NOW).state).toBe("fresh");
    // Never measured, and failing: not an empty square.
    expect(standing(cell(), "goodput", index, NOW).state).toBe("failing");
  });

  it("is not failing while another measurement of the quantity has results", () => {
    const index = indexStates([row("throughput", { failure }), row("tune")]);
    expect(standing(cell(NOW), "goodput", index, NOW).state).toBe("fresh");
  });

  it("is that of both directions for runs that measure both", () => {
    const index = indexStates([row("path", { failure }), row("throughput", { failure })]);
    expect(standing(cell(NOW, true), "loss", index, NOW).state).toBe("failing");
    expect(standing(cell(NOW, true), "goodput", index, NOW).state).toBe("fresh");
  });
});

it("lists what fails, the newest first", () => {
  const old = row("path", { failure: { ...failure, since_us: 1 } });
  expect(failures([old, row("available"), row("throughput", { failure })]).map((it) => it.kind)).toEqual(["throughput", "path"]);
});
