// Columns of several series on one axis of time.

import uPlot from "uplot";
import type { Columns } from "../model/timeline.ts";

/** Times, then for each series most, least and middle. A break of one is no break of another. */
export function joined(tables: Columns[]): uPlot.AlignedData {
  if (tables.length === 1 && tables[0]) return tables[0];
  const filled = tables.filter((it) => it[0].length > 0);
  if (filled.length === 0) return [[], ...tables.flatMap(() => [[], [], []])];
  return uPlot.join(tables, tables.map((it) => it.map(() => 1)));
}

/** The value of a column nearest to a place in it; absent: none within a few steps. */
export function nearest(column: ArrayLike<number | null | undefined> | undefined, index: number | null): number | undefined {
  if (column === undefined || index === null) return undefined;
  for (let step = 0; step <= 8; step++) {
    for (const at of [index - step, index + step]) {
      const value = column[at];
      if (value !== undefined && value !== null) return value;
    }
  }
  return undefined;
}
