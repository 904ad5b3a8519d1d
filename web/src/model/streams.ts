// Counters of a throughput run as lines over time. Rates are differences of two samples; nothing
// is averaged here.

import type { Sample, ThroughputObservation } from "../api/types.ts";

export interface Line { label: string; at: number[]; values: (number | null)[] }

type Counted = Pick<Sample, "at_us" | "bytes">;

function rates(samples: Counted[], first: Counted = { at_us: 0, bytes: 0 }): Pick<Line, "at" | "values"> {
  const at: number[] = [];
  const values: (number | null)[] = [];
  let before = first;
  for (const sample of samples) {
    const time = sample.at_us - before.at_us;
    if (time > 0 && sample.bytes >= before.bytes) {
      at.push(sample.at_us / 1e6);
      values.push(((sample.bytes - before.bytes) * 8e6) / time);
    }
    before = sample;
  }
  return { at, values };
}

/**
 * Goodput of each stream, by its receiver. If only the sender was observed, by what was acknowledged
 * since its first sample. Streams without samples are left out.
 */
export function streamRates(observation: ThroughputObservation): Line[] {
  return observation.streams.flatMap((stream) => {
    const label = `stream ${stream.index}`;
    const samples = stream.receiver.samples ?? [];
    if (samples.length > 0) return [{ label, ...rates(samples) }];
    const acked = (stream.sender.samples ?? []).flatMap(({ at_us, tcp }) => (tcp?.bytes_acked === undefined ? [] : [{ at_us, bytes: tcp.bytes_acked }]));
    return acked.length > 1 ? [{ label, ...rates(acked.slice(1), acked[0]) }] : [];
  });
}

/** A reading of the sender's kernel for each stream, as it was taken. */
export function streamReadings(
  observation: ThroughputObservation,
  reading: (sample: Sample) => number | undefined,
): Line[] {
  return observation.streams.flatMap((stream) => {
    const samples = (stream.sender.samples ?? []).filter((it) => reading(it) !== undefined);
    if (samples.length === 0) return [];
    return [{
      label: `stream ${stream.index}`,
      at: samples.map((it) => it.at_us / 1e6),
      values: samples.map((it) => reading(it) as number),
    }];
  });
}

/** What held the sender between two of its samples, all streams together, as shares of that time. */
export interface Band { fromUs: number; toUs: number; receiveWindow: number; sendBuffer: number; path: number }

/** By the kernel's own clocks (TCP_INFO). Absent where the sender's kernel has none of them. */
export function bands(observation: ThroughputObservation): Band[] {
  const sums = new Map<number, Band & { streams: number }>();
  for (const stream of observation.streams) {
    let before: Sample | undefined;
    for (const sample of stream.sender.samples ?? []) {
      addBand(sums, before, sample);
      before = sample;
    }
  }
  return [...sums.values()]
    .sort((a, b) => a.fromUs - b.fromUs)
    .map(({ streams, ...band }) => ({
      ...band,
      receiveWindow: band.receiveWindow / streams,
      sendBuffer: band.sendBuffer / streams,
      path: band.path / streams,
    }));
}

function addBand(sums: Map<number, Band & { streams: number }>, before: Sample | undefined, sample: Sample): void {
  const [was, is] = [before?.tcp, sample.tcp];
  if (is?.busy_us === undefined) return;
  const time = sample.at_us - (before?.at_us ?? 0);
  if (time <= 0) return;
  const grown = (now?: number, then?: number) => Math.min(1, Math.max(0, ((now ?? 0) - (then ?? 0)) / time));
  const receiveWindow = grown(is.receive_window_limited_us, was?.receive_window_limited_us);
  const sendBuffer = grown(is.send_buffer_limited_us, was?.send_buffer_limited_us);
  const busy = grown(is.busy_us, was?.busy_us);
  const sum = sums.get(sample.at_us) ?? {
    fromUs: before?.at_us ?? 0, toUs: sample.at_us, receiveWindow: 0, sendBuffer: 0, path: 0, streams: 0,
  };
  sum.receiveWindow += receiveWindow;
  sum.sendBuffer += sendBuffer;
  sum.path += Math.max(0, busy - receiveWindow - sendBuffer);
  sum.streams += 1;
  sums.set(sample.at_us, sum);
}
