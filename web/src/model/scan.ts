// A scan as tables: windows down, streams across, one table for each congestion control.

import type { ScanCell, Setting } from "../api/types.ts";
import { rate, size } from "../units.ts";

export interface HeatMap {
  congestionControl?: string;
  /** Rising; absent: sized by the kernel, last. */
  windows: (number | undefined)[];
  streams: number[];
  /** Row-major; several where a cell was measured again. */
  cells: ScanCell[][];
}

const rising = (a: number | undefined, b: number | undefined) => (a ?? Infinity) - (b ?? Infinity);
const unlike = <T>(values: T[]) => [...new Set(values)];

export function heatMaps(cells: ScanCell[], forward: boolean): HeatMap[] {
  const mine = cells.filter((it) => it.forward === forward);
  return unlike(mine.map((it) => it.setting.congestion_control)).map((congestionControl) => {
    const part = mine.filter((it) => it.setting.congestion_control === congestionControl);
    const windows = unlike(part.map((it) => it.setting.window_bytes)).sort(rising);
    const streams = unlike(part.map((it) => it.setting.streams)).sort((a, b) => a - b);
    const square: ScanCell[][] = Array.from({ length: windows.length * streams.length }, () => []);
    for (const cell of part) {
      const row = windows.indexOf(cell.setting.window_bytes);
      square[row * streams.length + streams.indexOf(cell.setting.streams)]?.push(cell);
    }
    return { congestionControl, windows, streams, cells: square };
  });
}

/** Returns the measurement of a cell with the highest goodput; absent: none gave a result. */
export function bestCell(cells: ScanCell[]): ScanCell | undefined {
  return cells
    .filter((it) => it.goodput_bps !== undefined)
    .sort((a, b) => (b.goodput_bps ?? 0) - (a.goodput_bps ?? 0))[0];
}

export const windowText = (bytes: number | undefined) => (bytes === undefined ? "auto" : size(bytes));

export function settingText(setting: Setting): string {
  const streams = `${setting.streams} stream${setting.streams === 1 ? "" : "s"}`;
  const parts = [`${streams} × ${windowText(setting.window_bytes)}`];
  if (setting.congestion_control) parts.push(setting.congestion_control);
  if (setting.pacing_bps !== undefined) parts.push(`paced at ${rate(setting.pacing_bps)}`);
  return parts.join(", ");
}

export function sameSetting(a: Setting | undefined, b: Setting): boolean {
  return (
    a !== undefined &&
    a.window_bytes === b.window_bytes &&
    a.streams === b.streams &&
    a.congestion_control === b.congestion_control &&
    a.pacing_bps === b.pacing_bps
  );
}
