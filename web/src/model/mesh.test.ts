import { describe, expect, it } from "vitest";
import type { GridCell } from "../api/types.ts";
import { extent, level, mesh, changeGrade, worse } from "./mesh.ts";

function cell(from: string, to: string, value?: number, usual?: number, events = 0): GridCell {
  return { pair: { from, to }, value, median_7d: usual, open_events: events };
}

describe("change grade", () => {
  it("depends on which direction is better for the quantity", () => {
    expect(changeGrade(cell("a", "b", 40, 100), "goodput")).toBe(-3);
    expect(changeGrade(cell("a", "b", 40, 100), "rtt_floor")).toBe(3);
    expect(changeGrade(cell("a", "b", 100, 100), "goodput")).toBe(0);
    expect(changeGrade(cell("a", "b", 96, 100), "goodput")).toBe(0);
    expect(changeGrade(cell("a", "b", 104, 100), "rtt_floor")).toBe(0);
    expect(changeGrade(cell("a", "b", 16, 13), "hops")).toBe(-1);
  });

  it("is absent without a value or a median, and accepts zeros", () => {
    expect(changeGrade(undefined, "loss")).toBeUndefined();
    expect(changeGrade(cell("a", "b", undefined, 1), "loss")).toBeUndefined();
    expect(changeGrade(cell("a", "b", 1), "loss")).toBeUndefined();
    expect(changeGrade(cell("a", "b", 0, 0), "loss")).toBe(0);
    expect(changeGrade(cell("a", "b", 0.01, 0), "loss")).toBe(-3);
    expect(changeGrade(cell("a", "b", 0, 0.01), "loss")).toBe(3);
    expect(changeGrade(cell("a", "b", 0, 5e9), "goodput")).toBe(-3);
  });
});

it("puts hosts in trouble first, and both directions in their places", () => {
  const cells = [cell("a", "b", 100, 100), cell("b", "c", 20, 100, 1), cell("c", "b", 99, 100)];
  const square = mesh(cells, "goodput", "worst");
  expect(square.hosts).toEqual(["b", "c", "a"]);
  expect(square.cells[0 * 3 + 1]?.value).toBe(20);
  expect(square.cells[1 * 3 + 0]?.value).toBe(99);
  expect(square.cells[0]).toBeUndefined();
  expect(mesh(cells, "goodput", "name").hosts).toEqual(["a", "b", "c"]);
  expect(cells.toSorted(worse("goodput"))[0]?.pair.to).toBe("c");
});

it("orders names as people count", () => {
  const names = ["h10", "h2", "h1"].map((name) => cell(name, "z", 1, 1));
  expect(mesh(names, "goodput", "name").hosts).toEqual(["h1", "h2", "h10", "z"]);
});

it("scales by ratio, and by root where zero occurs", () => {
  expect(extent([cell("a", "b")])).toBeUndefined();
  expect(extent([cell("a", "b", 3), cell("b", "a", 1)])).toEqual([1, 3]);
  expect(level(10, [1, 100])).toBeCloseTo(0.5);
  expect(level(0.25, [0, 1])).toBeCloseTo(0.5);
  expect(level(7, [7, 7])).toBe(0.5);
});

it("takes a mesh of a thousand", { timeout: 60_000 }, () => {
  const cells: GridCell[] = [];
  for (let a = 0; a < 1000; a++) for (let b = 0; b < 1000; b++) if (a !== b) cells.push(cell(`h${a}`, `h${b}`, a + b, 1000));
  const square = mesh(cells, "goodput", "worst");
  expect(square.hosts).toHaveLength(1000);
  expect(square.hosts.slice(0, 2)).toEqual(["h0", "h1"]);
  expect(square.cells.filter((it) => it !== undefined)).toHaveLength(999_000);
});
