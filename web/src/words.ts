// Words for people of the stable words in reports.

import type { Kind, Quantity, State } from "./api/types.ts";
import { ABSENT, count, micros, percent, rate } from "./units.ts";

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
  loss: { title: "Loss", short: "loss", unit: "ratio", moreIsBetter: false },
  retransmits: { title: "Sent again", short: "sent again", unit: "ratio", moreIsBetter: false },
  hops: { title: "Hops", short: "hops", unit: "count" },
};

export const QUANTITY_WORDS = Object.keys(QUANTITIES) as Quantity[];

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
  unknown: "cannot be told",
};

export function limiterText(word: string | undefined): string {
  return word === undefined ? ABSENT : (LIMITERS[word] ?? plain(word));
}

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
};

export const STATES: Record<State, string> = {
  suspected: "suspected",
  confirmed: "confirmed",
  withdrawn: "withdrawn",
  recovered: "recovered",
};

/** `path_full` as `path full`: for words that have no entry of their own. */
export function plain(word: string): string {
  return word.replaceAll("_", " ");
}

/** A name from elsewhere, without what would turn the text around it: control and bidi characters. */
export function inert(name: string): string {
  return name.replace(/[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");
}

/** A sentence of several parts, without those that are absent. */
export function joined(parts: (string | undefined | false)[], by = " · "): string {
  return parts.filter((it) => it && it !== ABSENT).join(by);
}
