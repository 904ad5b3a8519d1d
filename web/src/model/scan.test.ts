import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import type { Scan } from "../api/types.ts";
import { heatMaps, sameSetting, settingText, bestCell } from "./scan.ts";

const scan = JSON.parse(
  readFileSync(new URL("../../../fixtures/reports/scan-grid.json", import.meta.url), "utf8"),
) as Scan;

it("puts every cell of a scan into one place", () => {
  const [heat] = heatMaps(scan.observation.cells, true);
  expect(heat?.streams).toEqual([1, 4]);
  expect(heat?.windows.at(-1)).toBeUndefined();
  const placed = heat?.cells.flat().length;
  expect(placed).toBe(scan.observation.cells.filter((it) => it.forward).length);
});

it("shows a failed cell as absent", () => {
  expect(bestCell([])).toBeUndefined();
  expect(bestCell([{ index: 0, setting: { streams: 1 }, forward: true, error: "refused" }])).toBeUndefined();
});

it("names settings", () => {
  expect(settingText({ streams: 1 })).toBe("1 stream × auto");
  expect(settingText({ streams: 8, window_bytes: 1048576, congestion_control: "cubic" })).toBe("8 streams × 1 MiB, cubic");
  expect(sameSetting({ streams: 1 }, { streams: 1 })).toBe(true);
  expect(sameSetting(undefined, { streams: 1 })).toBe(false);
});
