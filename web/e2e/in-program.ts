// The page in the program, before the program's own API: LONGHAUL_AGENT is where an agent stands
// whose archive `cargo xtask page-in-program` filled.

import { mkdirSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { link } from "../src/router.ts";
import { events, NOW_US } from "./answers.ts";
import { axe, firstPaints, launch, open, SHOTS, SIZES } from "./browser.ts";

const base = process.env.LONGHAUL_AGENT ?? "";
const HOSTILE = "<img src=x onerror=alert(1)>";
const hourAround = { begin: Math.round(NOW_US / 1e6) - 86_400, end: Math.round(NOW_US / 1e6) };

const PAGES: Record<string, string> = {
  mesh: "#/mesh",
  path: link("path", ["slac", "cesnet"], { last: 7 * 86_400 }),
  "path-days": link("path", ["cesnet", "cern"], hourAround),
  "path-never-seen": link("path", [HOSTILE, "nobody"]),
  events: "#/events",
  event: link("events", [events[0]?.id ?? ""]),
  "event-hostile": link("events", [events[3]?.id ?? ""]),
  "event-shared": link("events", [events[6]?.id ?? ""]),
  runs: "#/runs",
  "run-throughput": "#/runs/20261121T215612Z-4f3a9c",
  "run-path": "#/runs/20260911T141500Z-0b77d2",
  "run-host": "#/runs/20261122T023434Z-e0dc17",
  "run-flows": "#/runs/20261127T123914Z-b9ab14",
  transfers: "#/transfers",
  transfer: link("path", ["slac/rclone", "192.0.2.7"], { last: 7 * 86_400 }),
  map: "#/map",
  hosts: "#/hosts",
  planned: "#/planned?only=all&hours=168",
};

let browser: Browser;
beforeAll(async () => {
  expect(base, "LONGHAUL_AGENT says where the agent is").toMatch(/^http:/);
  browser = await launch();
  if (SHOTS) mkdirSync(SHOTS, { recursive: true });
});
afterAll(() => browser?.close());

describe.each(Object.entries(PAGES))("%s", (name, hash) => {
  it.each(SIZES)("at %d x %d: no complaint, fits, accessible", async (...size) => {
    const { page, complaints, close } = await open(browser, base, hash, size);
    try {
      if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name}-${size[0]}.png`, fullPage: true });
      expect(await page.locator("[role=alert]").allTextContents()).toEqual([]);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      expect(wide, "the page must not scroll sideways").toBeLessThanOrEqual(0);
      expect(await page.locator("img, main script, [onerror], [onmouseover]").count(), "names must be inert").toBe(0);
      expect(await axe(page)).toEqual([]);
      expect(complaints).toEqual([]);
    } finally {
      await close();
    }
  });
});

it("hears news, and shows what the agent is", async () => {
  const { page, close } = await open(browser, base, "#/mesh");
  await expect.poll(() => page.locator("header [role=status]").textContent(), { timeout: 15_000 }).toContain("live");
  expect(await page.locator("footer").textContent()).toContain("archive: SQLite");
  await close();
});

it("asks for a run, which is then among the planned ones", async () => {
  const { page, close } = await open(browser, base, link("path", ["slac", "cesnet"], { last: 7 * 86_400 }));
  const form = page.getByRole("form", { name: "Run now" });
  await form.getByRole("combobox").selectOption({ label: "avail" });
  const [answer] = await Promise.all([
    page.waitForResponse((it) => it.request().method() === "POST"),
    form.getByRole("button").click(),
  ]);
  expect([202, 409]).toContain(answer.status());
  const { planned_id: id } = (await answer.json()) as { planned_id?: string };
  if (id !== undefined) {
    // The plan is stored after the answer.
    const ids = async () => {
      const planned = await page.evaluate(() => fetch("/api/v1/planned?limit=50").then((it) => it.json()));
      return planned.rows.map((it: { id: string }) => it.id);
    };
    await expect.poll(ids, { timeout: 15_000 }).toContain(id);
  }
  await close();
});

it("paints first within a second", async () => {
  const paints = await firstPaints(browser, base);
  console.log(`first paint: ${paints.map((it) => `${Math.round(it)} ms`).join(", ")}`);
  // The best of some: other programs may take the processor meanwhile.
  expect(Math.min(...paints)).toBeLessThan(1000);
});
