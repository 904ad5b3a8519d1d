import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import type { PathReport, RouteHop, RouteRow } from "../api/types.ts";
import { diff, hopsOf, routePeriods } from "./routes.ts";

const hops = (text: string): RouteHop[] =>
  text.split(" ").map((it, index) => ({ ttl: index + 1, address: it === "*" ? undefined : it }));
const kinds = (a: string, b: string) => diff(hops(a), hops(b)).map((it) => it.kind).join(" ");

it("lays routes side by side", () => {
  expect(kinds("a b c", "a b c")).toBe("same same same");
  expect(kinds("a b c z", "a x z")).toBe("same changed only_here same");
  expect(kinds("a z", "a b c z")).toBe("same only_there only_there same");
  expect(kinds("a * z", "a b z")).toBe("same silent same");
  expect(kinds("a * z", "a * z")).toBe("same same same");
});

it("loses no hop and keeps the order, whatever the routes", () => {
  let seed = 7;
  const random = (most: number) => (seed = (seed * 48271) % 2147483647) % most;
  for (let round = 0; round < 300; round++) {
    const make = () => Array.from({ length: random(9) }, () => "abc*"[random(4)]).join(" ");
    const [a, b] = [make(), make()].map((it) => (it === "" ? [] : hops(it))) as [RouteHop[], RouteHop[]];
    const rows = diff(a, b);
    expect(rows.flatMap((it) => it.here ?? [])).toEqual(a);
    expect(rows.flatMap((it) => it.there ?? [])).toEqual(b);
  }
});

it("takes a route to last until another is seen", () => {
  const row = (at_us: number, number: number): RouteRow => ({ at_us, until_us: at_us, traces: 1, number, run_id: "", hops: [] });
  const got = routePeriods([row(30, 2), row(10, 1), row(20, 1), row(40, 1)], 50);
  expect(got.map((it) => [it.number, it.beginUs, it.endUs])).toEqual([[1, 10, 30], [2, 30, 40], [1, 40, 50]]);
  expect(routePeriods([], 9)).toEqual([]);
});

it("reads the hops of a report", () => {
  const file = new URL("../../../fixtures/reports/path-slac-cesnet-change.json", import.meta.url);
  const got = hopsOf(JSON.parse(readFileSync(file, "utf8")) as PathReport);
  expect(got).toHaveLength(13);
  expect(got[0]).toEqual({ ttl: 1, address: "192.0.2.1", name: "r1.example.net", rtt_us: 300 });
});
