// Texts for the stable words in reports.

import type { Event, Kind, NoteAction, Pair, Quantity, RunRow, State } from "./api/types.ts";
import { ABSENT, count, micros, percent, rate, size } from "./units.ts";

interface QuantityWords {
  title: string;
  /** For a column or an axis. */
  short: string;
  unit: "bps" | "us" | "ratio" | "count";
  moreIsBetter?: boolean;
}

export const QUANTITIES: Record<Quantity, QuantityWords> = {
  goodput: { title: "Throughput", short: "throughput", unit: "bps", moreIsBetter: true },
  available: { title: "Available bandwidth", short: "available", unit: "bps", moreIsBetter: true },
  capacity: { title: "Capacity", short: "capacity", unit: "bps", moreIsBetter: true },
  rtt_floor: { title: "RTT floor", short: "RTT floor", unit: "us", moreIsBetter: false },
  rtt_median: { title: "RTT median", short: "RTT median", unit: "us", moreIsBetter: false },
  rtt_p95: { title: "RTT p95", short: "RTT p95", unit: "us", moreIsBetter: false },
  one_way_delay: { title: "One-way delay", short: "one way", unit: "us", moreIsBetter: false },
  delay_variation: { title: "Delay variation", short: "variation", unit: "us", moreIsBetter: false },
  loss: { title: "Loss", short: "loss", unit: "ratio", moreIsBetter: false },
  retransmits: { title: "Retransmits", short: "retransmits", unit: "ratio", moreIsBetter: false },
  hops: { title: "Hops", short: "hops", unit: "count" },
  host_share: { title: "Time limited by a host", short: "limited by a host", unit: "ratio" },
};

export const QUANTITY_WORDS = Object.keys(QUANTITIES) as Quantity[];
/** Those of paths; the others are of transfers only. */
export const PATH_QUANTITY_WORDS = QUANTITY_WORDS.filter((it) => it !== "host_share");

export function isQuantity(word: string | undefined): word is Quantity {
  return word !== undefined && Object.hasOwn(QUANTITIES, word);
}

/** A value of a quantity with its unit. */
export function quantityText(quantity: Quantity, value: number | null | undefined): string {
  switch (QUANTITIES[quantity].unit) {
    case "bps":
      return rate(value);
    case "us":
      return micros(value);
    case "ratio":
      return percent(value);
    case "count":
      return count(value);
  }
}

/** `Throughput fell 37 %`: the change that an event reports. */
export function eventTitle({ quantity, before, after, shared }: Event): string {
  if (shared) return `${shared.affected_paths} of ${shared.paths} paths changed (${shared.quantities.map((it) => QUANTITIES[it].title).join(", ")})`;
  const { title, unit } = QUANTITIES[quantity];
  const [old, now] = [before.median, after.median];
  if (old === now) return `${title} changed`;
  const verb = now > old ? "rose" : "fell";
  const ratio = now / old;
  if (unit === "count" || !Number.isFinite(ratio) || ratio >= 3) return `${title} ${verb} from ${quantityText(quantity, old)} to ${quantityText(quantity, now)}`;
  return `${title} ${verb} ${Math.round(Math.abs(ratio - 1) * 1000) / 10} %`;
}

/** What the paths of an event share: `hop 10.2.0.1 or hop 10.2.0.5`. */
export function sharedText({ elements }: NonNullable<Event["shared"]>): string {
  const words = { hop: "hop ", sender: "from ", receiver: "to ", host: "host " };
  return elements.map(({ kind, name }) => (words[kind] ?? "") + sanitize(name)).join(" or ");
}

/** Whether an event is open; with a time, whether it is also not silenced then. */
export function isOpen({ state, recovered_by, handling }: Event, nowUs?: number): boolean {
  const silenced = nowUs !== undefined && handling?.silenced_until_us !== undefined && nowUs < handling.silenced_until_us;
  return (state === "suspected" || state === "confirmed") && recovered_by === undefined && !silenced;
}

const LIMITERS: Record<string, string> = {
  receive_window: "receive window",
  send_buffer: "send buffer",
  application: "application",
  cpu_sender: "sender's CPU",
  cpu_receiver: "receiver's CPU",
  loss: "loss",
  path_capacity: "path capacity",
  shaper: "shaper",
  policer: "policer",
  pacing: "pacing",
  ramp: "ramp",
  unknown: "unknown",
};

export function limiterText(word: string | undefined): string {
  return word === undefined ? ABSENT : (LIMITERS[word] ?? wordText(word));
}

const LIMITER_SENTENCES: Record<string, string> = {
  receive_window: "the receiver's window is full",
  send_buffer: "the sender's buffer is full",
  application: "the program moves too little at a time, or waits",
  cpu_sender: "a core of the sender is fully used",
  cpu_receiver: "a core of the receiver is fully used",
  loss: "losses keep the window small",
  path_capacity: "the path is full",
  shaper: "a shaper delays packets to a set rate",
  policer: "a policer drops packets above a set rate",
  pacing: "the sender paces its packets",
  ramp: "it was still starting",
  unknown: "no counter explains the rate",
};

/** The limiter of a transfer in two words and in a sentence. What a receiver cannot explain is at the sender. */
export function transferLimit(word: string, sends: boolean): [words: string, sentence: string] {
  if (word === "unknown" && !sends) return ["sender's side", "nothing at this end explains the rate"];
  return [limiterText(word), LIMITER_SENTENCES[word] ?? ""];
}

/** A transfer of another program, as the pair of its series names it; absent for a path. */
export function transferOf({ from, to }: Pair): TransferName | undefined {
  const sends = from.includes("/");
  const near = sends ? from : to;
  const slash = near.indexOf("/");
  if (slash < 0) return undefined;
  return { host: near.slice(0, slash), program: near.slice(slash + 1), peer: sends ? to : from, sends };
}
export interface TransferName { host: string; program: string; peer: string; sends: boolean }

const SENDER_STATES: Record<string, string> = {
  stalled_rto: "retransmission timeout",
  sender_app: "sending application slow",
  sender_cpu: "sender CPU-bound",
  receiver_app: "receiving application slow",
  receiver_cpu: "receiver CPU-bound",
  rwnd_clip: "receive-window limited",
  rwnd_growing: "receive window growing",
  sndbuf_clip: "send-buffer limited",
  climbing: "cwnd growing slowly",
  sawtooth: "recovering from queue overflow",
  overshot: "recovering from slow-start overshoot",
  recovering: "recovering from loss",
};

/** Returns the text for a state of the sender, such as `rwnd_clip`. */
export const senderStateText = (word: string) => SENDER_STATES[word] ?? wordText(word);

const CAUSES: Record<string, string> = { healthy: "OK" };

/** Returns the text for the cause of a finding. */
export const causeText = (word: string) => CAUSES[word] ?? wordText(word);

const PLACES: Record<string, string> = { initiator: "client", responder: "server" };

/** Returns the text for the end or the place that advice refers to. */
export const placeText = (word: string) => PLACES[word] ?? word;

const MISSED_REASONS: Record<string, string> = {
  failed: "the run failed",
  budget: "the daily budget is used up",
  locked: "another test used the link for a whole interval",
  far_end_busy: "the server was busy for a whole interval",
  target_failing: "the server failed repeatedly and is skipped for a while",
  asleep: "the host slept",
  agent_off: "the agent was not running",
  clock_stepped: "the clock stepped past its time",
  waited_too_long: "requested, but could not start within an hour",
  stopping: "the agent was stopping",
  agent_stopped: "the agent stopped before the run ended",
  disk_full: "no disk space for the result",
  spool_full: "unsent results exceed spool_bytes",
};

/** Returns the text for the reason why a planned run was missed. */
export const missedReasonText = (word: string) => MISSED_REASONS[word] ?? wordText(word);

/** Reasons that need no attention: other runs, and an agent or a host that was off. */
const USUAL_REASONS = new Set(["locked", "asleep", "agent_off", "agent_stopped", "stopping"]);
export const isUnusualReason = (word: string) => !USUAL_REASONS.has(word);

export const NOTE_ACTIONS: Record<NoteAction, string> = {
  acknowledge: "acknowledged",
  comment: "commented",
  silence: "silenced",
  reopen: "reopened",
};

/** The result of a run in a few words: its throughput, or what a run of its kind measures. */
export function runResult({ kind, goodput_bps, streams, values }: RunRow): string {
  if (kind === "scan") {
    if (goodput_bps === undefined) return "no setting found";
    return `${rate(goodput_bps)} with ${counted(streams ?? 1, "stream")}, ${values?.window_bytes === undefined ? "autotuned windows" : `windows of ${size(values.window_bytes)}`}`;
  }
  // Runs that an earlier version archived have no values.
  if (values === undefined) return rate(goodput_bps);
  const { rtt_us, rtt_rise_us, loss_ratio, hops, available_bps, capacity_bps, limiting_settings, advised_settings } = values;
  switch (kind) {
    case "latency":
    case "path":
      return joined([rtt_us === undefined ? "no answer" : `RTT ${micros(rtt_us)}`, hops !== undefined && counted(hops, "hop"), loss_ratio !== undefined && (loss_ratio > 0 ? `${percent(loss_ratio)} lost` : "no loss")], ", ");
    case "available":
      if (available_bps === undefined) return capacity_bps === undefined ? "no estimate" : `capacity ${rate(capacity_bps)}`;
      return `${rate(available_bps)} available${capacity_bps === undefined ? "" : ` of ${rate(capacity_bps)}`}`;
    case "load":
      return rtt_us === undefined ? ABSENT : `RTT ${micros(rtt_us)}, under load ${rtt_rise_us === undefined ? "not measured" : `+${micros(rtt_rise_us)}`}`;
    case "host":
      return limiting_settings === undefined ? ABSENT : `${counted(limiting_settings, "limiting setting")}, ${count(advised_settings)} to improve`;
    default:
      return goodput_bps === undefined && rtt_us !== undefined ? `RTT ${micros(rtt_us)}` : rate(goodput_bps);
  }
}

/** `1 hop`, `17 hops`. */
export const counted = (number: number, noun: string) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

const STOPS: Record<string, string> = {
  settled: "no untried setting is expected to be faster",
  grid_done: "all cells measured",
  probes: "budget of probes used up",
  time: "time budget used up",
  bytes: "byte budget used up",
  application: "an application limits the rate",
  policed: "a policer limits the rate",
  shaped: "a shaper limits the rate",
  far_end_gone: "connection to the server lost",
};

/** Returns the text for the reason why a scan stopped. */
export const stopText = (word: string) => STOPS[word] ?? wordText(word);

export const KINDS: Record<Kind, string> = {
  throughput: "throughput",
  scan: "scan",
  host: "host audit",
  predict: "prediction",
  path: "path",
  available: "available bandwidth",
  load: "load",
  imported: "imported",
  copy: "copy",
  flows: "transfers",
  latency: "latency",
};

export const STATES: Record<State, string> = {
  suspected: "suspected",
  confirmed: "confirmed",
  withdrawn: "withdrawn",
  recovered: "recovered",
};

/** `path_full` as `path full`: for words that have no entry of their own. */
export function wordText(word: string): string {
  return word.replaceAll("_", " ");
}

/** Replaces control and bidirectional characters in text from outside. */
export function sanitize(name: string): string {
  return name.replace(/[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");
}

/** A sentence of several parts, without those that are absent. */
export function joined(parts: (string | undefined | false)[], by = " · "): string {
  return parts.filter((it) => it && it !== ABSENT).join(by);
}
