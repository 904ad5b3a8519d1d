// The mesh as a square: who sends by row, who receives by column.

import type { GridCell, Quantity } from "../api/types.ts";
import { QUANTITIES } from "../labels.ts";

export interface Mesh {
  hosts: string[];
  /** Row-major; absent where nothing is measured. */
  cells: (GridCell | undefined)[];
}

export type Order = "worst" | "name";

/**
 * A value relative to the 7-day median of its path: -3 far worse … 0 normal … 3 far better.
 * Absent without a value or a median.
 */
export type ChangeGrade = -3 | -2 | -1 | 0 | 1 | 2 | 3;

/** Upper bounds of the improvement ratio for each grade, worst first. */
const STEPS: readonly [below: number, grade: ChangeGrade][] = [
  [0.5, -3],
  [0.8, -2],
  [0.95, -1],
  [1.0527, 0],
  [1.25, 1],
  [2, 2],
];

/** Ratio of the value to the 7-day median; above 1 is better. Absent without a value or a median. */
export function improvementRatio(cell: GridCell, quantity: Quantity): number | undefined {
  const { value, median_7d: usual } = cell;
  if (value === undefined || usual === undefined) return undefined;
  if (value === usual) return 1;
  const better = QUANTITIES[quantity].moreIsBetter;
  if (better === undefined) return Math.min(value, usual) / Math.max(value, usual);
  return better ? value / usual : usual / value;
}

export function changeGrade(cell: GridCell | undefined, quantity: Quantity): ChangeGrade | undefined {
  const good = cell && improvementRatio(cell, quantity);
  if (good === undefined || Number.isNaN(good)) return undefined;
  return STEPS.find(([below]) => good < below)?.[1] ?? 3;
}

/** Orders cells by open events, then by improvement ratio, worst first. */
export function worse(quantity: Quantity): (a: GridCell, b: GridCell) => number {
  const good = (cell: GridCell) => improvementRatio(cell, quantity) ?? 1;
  return (a, b) =>
    Math.sign(b.open_events) - Math.sign(a.open_events) ||
    good(a) - good(b) ||
    byName(a.pair.from, b.pair.from) ||
    byName(a.pair.to, b.pair.to);
}

const collator = new Intl.Collator("en", { numeric: true });
const byName = (a: string, b: string) => collator.compare(a, b);

/** Trouble of a host: what touches it, as sender or receiver. */
function troubles(cells: GridCell[], quantity: Quantity): Map<string, number> {
  const sum = new Map<string, number>();
  for (const cell of cells) {
    const below = Math.min(0, changeGrade(cell, quantity) ?? 0);
    const trouble = cell.open_events * 10 - below;
    for (const host of [cell.pair.from, cell.pair.to]) sum.set(host, (sum.get(host) ?? 0) + trouble);
  }
  return sum;
}

export function mesh(cells: GridCell[], quantity: Quantity, order: Order): Mesh {
  const trouble = troubles(cells, quantity);
  const of = (host: string) => (order === "worst" ? (trouble.get(host) ?? 0) : 0);
  const hosts = [...trouble.keys()].sort((a, b) => of(b) - of(a) || byName(a, b));
  const place = new Map(hosts.map((host, index) => [host, index]));
  const square = new Array<GridCell | undefined>(hosts.length ** 2);
  for (const cell of cells) {
    const row = place.get(cell.pair.from);
    const column = place.get(cell.pair.to);
    if (row !== undefined && column !== undefined) square[row * hosts.length + column] = cell;
  }
  return { hosts, cells: square };
}

/** Least and most value shown, for the scale of colours; absent without values. */
export function extent(cells: GridCell[]): [number, number] | undefined {
  let [low, high] = [Infinity, -Infinity];
  for (const { value } of cells) {
    if (value === undefined) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low <= high ? [low, high] : undefined;
}

/** Place of a value on that scale, 0 to 1: by ratio, as rates and times differ by orders. */
export function level(value: number, [low, high]: [number, number]): number {
  if (high <= low) return 0.5;
  if (low > 0) return Math.log(value / low) / Math.log(high / low);
  return Math.sqrt((value - low) / (high - low));
}
