// Whether a value is fresh, stale, or of a measurement that fails.

import type { GridCell, MeasurementState, Pair, Quantity } from "../api/types.ts";

export type CellState = "fresh" | "stale" | "failing" | "none";

/** The quantities that runs of a kind measure. */
const QUANTITIES_OF: Record<string, readonly Quantity[]> = {
  throughput: ["goodput", "retransmits"],
  tune: ["goodput"],
  scan: ["goodput"],
  available: ["available", "capacity"],
  path: ["rtt_floor", "rtt_median", "rtt_p95", "loss", "hops"],
  latency: ["rtt_floor", "rtt_median", "rtt_p95", "one_way_delay", "delay_variation", "loss"],
  load: [],
  host: [],
  flows: ["goodput", "retransmits", "host_share"],
};
/** One run of these kinds measures both directions. */
const BOTH_WAYS = new Set(["path", "latency", "available"]);
const DAY_US = 86_400e6;

export type StateIndex = Map<string, MeasurementState[]>;
const key = ({ from, to }: Pair) => `${from}\n${to}`;

/** Measurements by the pairs that they measure. */
export function indexStates(rows: MeasurementState[]): StateIndex {
  const index: StateIndex = new Map();
  const add = (pair: Pair, row: MeasurementState) => {
    const list = index.get(key(pair));
    if (list) list.push(row);
    else index.set(key(pair), [row]);
  };
  for (const row of rows) {
    if (!row.pair) continue;
    add(row.pair, row);
    if (row.kind !== undefined && BOTH_WAYS.has(row.kind)) add({ from: row.pair.to, to: row.pair.from }, row);
  }
  return index;
}

/** The measurements of a quantity of a pair; those of an unknown kind may be. */
export function measuring(index: StateIndex, pair: Pair, quantity: Quantity): MeasurementState[] {
  return (index.get(key(pair)) ?? []).filter(({ kind }) => kind === undefined || (QUANTITIES_OF[kind]?.includes(quantity) ?? true));
}

export interface StandingOf {
  state: CellState;
  /** The measurement that fails, if all that measure the quantity do. */
  failing?: MeasurementState;
}

/**
 * A measurement fails if its last runs did, and no other one measures the quantity. A value is stale
 * after three intervals of its measurement, or a day where the interval is unknown.
 */
export function standing(cell: GridCell | undefined, quantity: Quantity, index: StateIndex, nowUs: number): StandingOf {
  const rows = cell ? measuring(index, cell.pair, quantity) : [];
  const known = rows.filter((it) => it.done_us !== undefined || it.failure);
  if (known.length > 0 && known.every((it) => it.failure)) {
    return { state: "failing", failing: known.toSorted((a, b) => (b.failure?.since_us ?? 0) - (a.failure?.since_us ?? 0))[0] };
  }
  if (cell?.value === undefined || cell.at_us === undefined) return { state: "none" };
  const after = rows.length > 0 ? Math.max(...rows.map((it) => it.stale_after_us)) : DAY_US;
  return { state: nowUs - cell.at_us > after ? "stale" : "fresh" };
}

/** The failing measurements, those that began to fail last first. */
export function failures(rows: MeasurementState[]): MeasurementState[] {
  return rows.filter((it) => it.failure).toSorted((a, b) => (b.failure?.since_us ?? 0) - (a.failure?.since_us ?? 0));
}
