import { expect, it } from "vitest";
import type { RunRow } from "./api/types.ts";
import { isUnusualReason, missedReasonText, runResult } from "./labels.ts";

const run = (kind: RunRow["kind"], more: Partial<RunRow>): RunRow => ({ id: "r", started_at: "", kind, initiator_host: "a", responder_host: "b", ...more });

it("says the result of every kind of run", () => {
  const text = (kind: RunRow["kind"], more: Partial<RunRow>) => runResult(run(kind, more));
  expect(text("throughput", { goodput_bps: 93e6 })).toBe("93 Mbit/s");
  expect(text("path", { values: { rtt_us: 161_800, hops: 17, loss_ratio: 0 } })).toBe("RTT 161.8 ms, 17 hops, no loss");
  expect(text("path", { values: { hops: 1, loss_ratio: 1 } })).toBe("no answer, 1 hop, 100 % lost");
  expect(text("available", { values: { available_bps: 240e6, capacity_bps: 311e6 } })).toBe("240 Mbit/s available of 311 Mbit/s");
  expect(text("available", { values: { capacity_bps: 311e6 } })).toBe("capacity 311 Mbit/s");
  expect(text("load", { values: { rtt_us: 29_000, rtt_rise_us: 55_000 } })).toBe("RTT 29 ms, under load +55 ms");
  expect(text("host", { values: { limiting_settings: 1, advised_settings: 4 } })).toBe("1 limiting setting, 4 to improve");
  expect(text("scan", { goodput_bps: 6e9, streams: 9, values: { window_bytes: 2 ** 26 } })).toBe("6 Gbit/s with 9 streams, windows of 64 MiB");
  expect(text("scan", { goodput_bps: 6e9, streams: 1 })).toBe("6 Gbit/s with 1 stream, autotuned windows");
  expect(text("imported", { values: { rtt_us: 1000 } })).toBe("RTT 1 ms");
  // An archive of an earlier version has no values.
  expect([text("load", {}), text("path", {}), text("available", {})]).toEqual(["–", "–", "–"]);
});

it("asks for attention only where a reason needs it", () => {
  expect(["failed", "disk_full", "budget", "target_failing", "of_a_later_version"].every(isUnusualReason)).toBe(true);
  expect(["locked", "agent_off", "asleep", "stopping", "agent_stopped"].some(isUnusualReason)).toBe(false);
  expect(missedReasonText("failed")).toBe("the run failed");
});
