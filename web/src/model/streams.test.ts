import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import type { Sample, Throughput, ThroughputObservation } from "../api/types.ts";
import { bands, streamRates, streamReadings } from "./streams.ts";

const report = JSON.parse(
  readFileSync(new URL("../../../fixtures/reports/la-geneva-9-streams.json", import.meta.url), "utf8"),
) as Throughput;

function one(samples: Sample[], sender: Sample[] = []): ThroughputObservation {
  const end = { bytes: 0, started_us: 0, duration_us: 0 };
  const stream = { index: 0, sender: { ...end, samples: sender }, receiver: { ...end, samples } };
  return { ...report.observation, streams: [stream] };
}

it("derives rates from two samples each, once", () => {
  const samples = [1, 2, 3].map((s) => ({ at_us: s * 1e6, bytes: s * 1e6, blocked_us: 0 }));
  expect(streamRates(one(samples))[0]?.values).toEqual([8e6, 8e6, 8e6]);
  expect(streamRates(one([]))).toEqual([]);
});

it("counts what a sender that was watched alone had acknowledged since the first look", () => {
  const tcp = { rtt_us: 1, cwnd_bytes: 1, retransmitted_segments: 0 };
  const sender = [0, 1, 3].map((s) => ({ at_us: s * 1e6, bytes: 5e6 + s * 1e6, blocked_us: 0, tcp: { ...tcp, bytes_acked: s * 1e6 } }));
  expect(streamRates(one([], sender))[0]?.values).toEqual([8e6, 8e6]);
  expect(streamRates(one([], sender.slice(0, 1)))).toEqual([]);
});

it("bears a counter that falls and a clock that stands", () => {
  const samples = [[1e6, 5], [1e6, 9], [2e6, 3]].map(([at_us, bytes]) => ({ at_us, bytes, blocked_us: 0 }) as Sample);
  expect(streamRates(one(samples))[0]?.at).toEqual([1]);
});

it("reads every stream of a real report", () => {
  expect(streamRates(report.observation)).toHaveLength(9);
  const rtt = streamReadings(report.observation, (it) => it.tcp?.rtt_us);
  expect(rtt).toHaveLength(9);
  expect(Math.min(...rtt.flatMap((it) => it.values as number[]))).toBeGreaterThan(170_000);
});

it("splits the sender's time by the kernel's clocks", () => {
  const tcp = { rtt_us: 1, cwnd_bytes: 1, retransmitted_segments: 0 };
  const sender = [
    { at_us: 1e6, bytes: 1, blocked_us: 0, tcp: { ...tcp, busy_us: 1e6, receive_window_limited_us: 4e5, send_buffer_limited_us: 0 } },
    { at_us: 2e6, bytes: 2, blocked_us: 0, tcp: { ...tcp, busy_us: 15e5, receive_window_limited_us: 4e5, send_buffer_limited_us: 5e5 } },
  ];
  expect(bands(one([], sender))).toEqual([
    { fromUs: 0, toUs: 1e6, receiveWindow: 0.4, sendBuffer: 0, path: 0.6 },
    { fromUs: 1e6, toUs: 2e6, receiveWindow: 0, sendBuffer: 0.5, path: 0 },
  ]);
  expect(bands(one([], [{ at_us: 1, bytes: 0, blocked_us: 0, tcp }]))).toEqual([]);
});
