import { expect, it } from "vitest";
import { pixels, rgbaWord } from "./pixels.ts";

it("turns colours into words", () => {
  expect(rgbaWord("rgb(1, 2, 3)")).toBe(0xff030201);
  expect(rgbaWord("rgb(255, 255, 255)")).toBe(0xffffffff);
});

it("shows each cell in its place, also when moved and beyond the edge", () => {
  const colours = Uint32Array.from([1, 2, 3, 4]);
  const view = { count: 2, side: 2, x: 0, y: 0, width: 5, height: 4 };
  expect([...pixels(colours, view)]).toEqual([1, 1, 2, 2, 0, 1, 1, 2, 2, 0, 3, 3, 4, 4, 0, 3, 3, 4, 4, 0]);
  expect([...pixels(colours, { ...view, x: 2, y: 2, width: 2, height: 1 })]).toEqual([4, 4]);
});
