// Every page, in a real browser, at two sizes and in both themes.

import { mkdirSync } from "node:fs";
import { readFileSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { link } from "../src/router.ts";
import { events } from "./answers.ts";
import { Agent } from "./agent.ts";
import { axe, firstPaints, launch, open, SHOTS, SIZES, type Size } from "./browser.ts";

const HOSTILE = "<img src=x onerror=alert(1)>";
const RTL = "\u202eشبكة-الجامعة.example";

const PAGES: Record<string, string> = {
  overview: "#/overview",
  mesh: "#/mesh",
  "mesh-value": "#/mesh?quantity=rtt_floor&shade=value&order=name",
  path: link("path", ["slac", "cesnet"]),
  "path-year": link("path", ["slac", "cesnet"], { last: 365 * 86_400 }),
  "path-hostile": link("path", [HOSTILE, RTL]),
  routes: link("routes", ["slac", "cesnet"], { a: "20260910T141458Z-55f0aa", b: "20260911T141500Z-0b77d2" }),
  "routes-to-choose": link("routes", ["slac", "cesnet"]),
  events: "#/events",
  event: link("events", [events[0]?.id ?? ""]),
  "event-hostile": link("events", [events[3]?.id ?? ""]),
  runs: "#/runs",
  "run-throughput": "#/runs/20261121T215612Z-4f3a9c",
  "run-scan": "#/runs/20261121T223107Z-5c01aa",
  "run-path": "#/runs/20260911T141500Z-0b77d2",
  "run-available": "#/runs/20260911T150000Z-a0a0a0",
  "run-load": "#/runs/20260911T160000Z-b0b0b0",
  "run-imported": "#/runs/20040222T000000Z-d7b05f",
  "run-imported-route": "#/runs/20040222T000000Z-5fda35",
  "run-host": "#/runs/20261122T023434Z-e0dc17",
  map: "#/map",
  hosts: "#/hosts",
  planned: "#/planned?only=all",
};

/** Each theme at one size, for the time that it takes; all of them where screenshots are wanted. */
const schemes = (size: Size): ("light" | "dark")[] => (SHOTS ? ["light", "dark"] : size[0] < 1000 ? ["dark"] : ["light"]);

const agent = new Agent();
let base: string;
let browser: Browser;

beforeAll(async () => {
  base = await agent.start();
  browser = await launch();
  if (SHOTS) mkdirSync(SHOTS, { recursive: true });
});
afterAll(async () => {
  await browser?.close();
  await agent.stop();
});
beforeEach(() => {
  agent.mood = "well";
  agent.asked = [];
  agent.orders = [];
});

const visit = (hash: string, size?: Size, scheme?: "light" | "dark") => open(browser, base, hash, size, scheme);

describe.each(Object.entries(PAGES))("%s", (name, hash) => {
  describe.each(SIZES)("at %d x %d", (...size) => {
    it.each(schemes(size))("%s: no complaint, fits, accessible", async (scheme) => {
      const { page, complaints, close } = await visit(hash, size, scheme);
      try {
        expect(await page.locator("[role=alert]").allTextContents()).toEqual([]);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        expect(wide, "the page must not scroll sideways").toBeLessThanOrEqual(0);
        if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name}-${size[0]}-${scheme}.png`, fullPage: true });
        expect(await page.locator("img, main script, [onerror], [onmouseover]").count(), "names must be inert").toBe(0);
        expect(await axe(page)).toEqual([]);
        expect(complaints).toEqual([]);
      } finally {
        await close();
      }
    });
  });
});

describe("states", () => {
  const PLAIN = ["overview", "mesh", "path", "events", "runs", "map", "hosts", "planned"];

  it.each(PLAIN)("%s says when there is nothing yet", async (name) => {
    agent.mood = "empty";
    const { page, complaints, close } = await visit(PAGES[name] ?? "");
    expect(await page.locator("main").textContent()).toMatch(/No |no |Nothing|none/);
    expect(complaints).toEqual([]);
    await close();
  });

  it.each(PLAIN)("%s says what failed and what to do", async (name) => {
    agent.mood = "broken";
    const { page, close } = await visit(PAGES[name] ?? "");
    const alert = page.locator("[role=alert]").first();
    expect(await alert.textContent()).toContain("the archive did not answer within 5 s");
    expect(await alert.textContent()).toContain("longhaul.db");
    agent.mood = "well";
    // Each part of a page that failed can be tried again by itself.
    const again = page.getByRole("button", { name: "Try again" });
    await expect.poll(async () => {
      if ((await again.count()) > 0) await again.first().click({ timeout: 1000 }).catch(() => undefined);
      return page.locator("[role=alert]").count();
    }, { timeout: 15_000 }).toBe(0);
    await close();
  });

  it("asks for a token, and goes on with it", async () => {
    agent.mood = "token";
    const { page, close } = await visit(PAGES.hosts ?? "");
    expect(await page.locator("header").textContent()).toContain("token needed");
    await page.getByLabel("Token").fill("right");
    await page.keyboard.press("Enter");
    await page.waitForSelector("main table");
    await page.waitForFunction(() => document.querySelector("header")?.textContent?.includes("live"));
    await close();
  });

  it("says of an unknown run that it is not there", async () => {
    const { page, close } = await visit("#/hosts");
    await page.goto(`${base}/#/runs/nosuch`);
    expect(await page.locator("[role=alert]").textContent()).toContain("nothing of this name");
    await close();
  });
});

describe("live", () => {
  it("shows a lost line, comes back, and reads again", async () => {
    const { page, close } = await visit(PAGES.mesh ?? "");
    const state = page.locator("header [role=status]");
    await expect.poll(() => state.textContent()).toContain("live");
    const before = agent.asked.length;
    agent.drop();
    await expect.poll(() => state.textContent()).toContain("reconnecting");
    await expect.poll(() => state.textContent(), { timeout: 10_000 }).toContain("live");
    await expect.poll(() => agent.asked.slice(before).some((it) => it.includes("/grid"))).toBe(true);
    await close();
  });

  it("reads the grid again when a run has ended", async () => {
    const { page, close } = await visit(PAGES.mesh ?? "");
    await expect.poll(() => page.locator("header [role=status]").textContent()).toContain("live");
    const grids = () => agent.asked.filter((it) => it.includes("/grid")).length;
    const before = grids();
    agent.tell("run", { id: "x", kind: "throughput", started_at: "2026-09-12T09:00:00Z", initiator_host: "slac", responder_host: "cern" });
    await expect.poll(grids, { timeout: 10_000 }).toBeGreaterThan(before);
    await close();
  });
});

describe("hands", () => {
  it("walks the mesh by keyboard and opens a path", async () => {
    const { page, close } = await visit(PAGES.mesh ?? "");
    const grid = page.getByRole("application");
    await grid.focus();
    await page.keyboard.press("ArrowRight");
    const first = await page.getByLabel("Selected path").textContent();
    await page.keyboard.press("ArrowDown");
    expect(await page.getByLabel("Selected path").textContent()).not.toBe(first);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => location.hash.startsWith("#/path/"));
    await close();
  });

  it("reaches every page and control by Tab, with a focus that is seen", async () => {
    const { page, close } = await visit(PAGES.events ?? "");
    const seen: string[] = [];
    for (let step = 0; step < 48; step++) {
      await page.keyboard.press("Tab");
      const now = await page.evaluate(() => {
        const it = document.activeElement as HTMLElement;
        return { text: it.textContent?.trim() ?? "", ring: getComputedStyle(it).outlineStyle, body: it === document.body };
      });
      if (now.body) break;
      expect(now.ring, now.text).not.toBe("none");
      seen.push(now.text);
    }
    for (const text of ["Overview", "Mesh", "Events", "Map", "Runs", "Hosts", "Planned", "dark", "confirmed", "CSV"]) expect(seen).toContain(text);
    await close();
  });

  it("zooms and moves on the path page, and asks the API for that span", async () => {
    const { page, complaints, close } = await visit(PAGES.path ?? "");
    const spans = () => agent.asked.filter((it) => it.includes("/series") && it.includes("quantity=goodput")).map((it) => {
      const query = new URLSearchParams(it.slice(it.indexOf("?")));
      return [Number(query.get("begin_us")), Number(query.get("end_us")), Number(query.get("points"))] as const;
    });
    const [begin, end, points] = spans().at(-1) ?? [0, 0, 0];
    expect(points).toBeGreaterThan(500);
    await page.getByRole("button", { name: "Zoom in" }).click();
    await expect.poll(() => { const it = spans().at(-1); return (it?.[1] ?? 0) - (it?.[0] ?? 0); }).toBeCloseTo((end - begin) / 2, -7);
    const chart = page.locator(".u-over").first();
    const box = await chart.boundingBox();
    if (!box) throw new Error("no chart");
    await page.mouse.move(box.x + box.width * 0.25, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 40, { steps: 5 });
    await page.mouse.up();
    await expect.poll(() => { const it = spans().at(-1); return Math.round(((it?.[1] ?? 0) - (it?.[0] ?? 0)) / ((end - begin) / 100)); }).toBe(13);
    await page.getByRole("group", { name: /one time axis/ }).focus();
    await page.keyboard.press("0");
    await expect.poll(() => spans().at(-1)?.[0]).toBe(begin);
    expect(complaints).toEqual([]);
    await close();
  });

  it("shows one cursor in all charts", async () => {
    const { page, close } = await visit(PAGES.path ?? "");
    const box = await page.locator(".u-over").first().boundingBox();
    if (!box) throw new Error("no chart");
    await page.mouse.move(box.x + box.width / 2, box.y + 30);
    const at = await page.locator(".u-cursor-x").evaluateAll((all) => all.map((it) => it.getBoundingClientRect().x));
    expect(at.length).toBeGreaterThanOrEqual(6);
    expect(Math.max(...at) - Math.min(...at)).toBeLessThan(2);
    await close();
  });

  it("finds a path by the names of its hosts, after a slash", async () => {
    const { page, complaints, close } = await visit(PAGES.events ?? "");
    await page.keyboard.press("/");
    await page.keyboard.type("slac ces");
    await expect.poll(() => page.getByRole("option").first().textContent()).toBe("slac → cesnet");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => location.hash === "#/path/slac/cesnet");
    expect(complaints).toEqual([]);
    await close();
  });

  it("shows local times when asked to, and keeps that", async () => {
    const context = await browser.newContext({ timezoneId: "Asia/Kolkata" });
    const page = await context.newPage();
    await page.goto(`${base}/#/runs`);
    const first = () => page.locator("main tbody a").first().textContent();
    await expect.poll(first).toBe("2026-11-22 02:34:34");
    await page.getByRole("button", { name: "local" }).click();
    await expect.poll(first).toBe("2026-11-22 08:04:34");
    expect(await page.locator("footer").textContent()).toContain("UTC+5:30");
    await page.reload();
    await expect.poll(first).toBe("2026-11-22 08:04:34");
    await context.close();
  });

  it("shows a mesh of one sender as a table with all quantities", async () => {
    agent.mood = "star";
    const { page, complaints, close } = await visit(PAGES.mesh ?? "");
    expect(await page.getByRole("application").count()).toBe(0);
    const rows = page.getByRole("region", { name: "Paths" }).locator("tbody tr");
    expect(await rows.count()).toBeGreaterThan(3);
    expect(await rows.first().textContent()).toMatch(/slac → .*bit\/s.*ms/s);
    if (SHOTS) await page.screenshot({ path: `${SHOTS}/mesh-star.png`, fullPage: true });
    expect(await axe(page)).toEqual([]);
    expect(complaints).toEqual([]);
    await close();
  });

  it("moves the begin of the charts to a typed time", async () => {
    const { page, close } = await visit(PAGES.path ?? "");
    await page.getByLabel("Begin, UTC").fill("2026-09-11T06:00");
    await expect.poll(() => page.evaluate(() => location.hash)).toContain(`begin=${Date.UTC(2026, 8, 11, 6) / 1000}`);
    await close();
  });

  it("keeps the theme that was chosen", async () => {
    const { page, close } = await visit(PAGES.hosts ?? "");
    await page.getByRole("button", { name: "dark" }).click();
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    expect(await ground()).toBe("rgb(14, 17, 20)");
    await page.reload();
    expect(await ground()).toBe("rgb(14, 17, 20)");
    await close();
  });

  it("asks for a run, and says so when one waits already", async () => {
    const { page, close } = await visit(PAGES.path ?? "");
    const form = page.getByRole("form", { name: "Run now" });
    await form.getByRole("combobox").selectOption({ label: "path-6h" });
    await form.getByRole("button").click();
    await expect.poll(() => form.getByRole("status").textContent()).toContain("Queued");
    expect(agent.orders).toEqual([{ measure: "path-6h", from: "slac", to: "cesnet" }]);
    await form.getByRole("button").click();
    await expect.poll(() => page.locator("[role=alert]").allTextContents()).toHaveLength(1);
    expect(await page.locator("[role=alert]").textContent()).toContain("waits already");
    await close();
  });

  it("gives files: PNG, CSV, JSON", async () => {
    const { page, complaints, close } = await visit(PAGES.path ?? "");
    for (const kind of ["PNG", "CSV", "JSON"]) {
      const [file] = await Promise.all([
        page.waitForEvent("download"),
        page.locator("main > .bar").getByRole("button", { name: kind, exact: true }).click(),
      ]);
      expect(file.suggestedFilename()).toBe(`slac_to_cesnet.${kind.toLowerCase()}`);
      const size = readFileSync(await file.path()).length;
      expect(size).toBeGreaterThan(2000);
    }
    expect(complaints).toEqual([]);
    await close();
  });
});

describe("scale", () => {
  it("draws a mesh of 300 hosts, and answers the hand at once", async () => {
    agent.mood = "crowd";
    const { page, close } = await visit(PAGES.mesh ?? "");
    if (SHOTS) await page.screenshot({ path: `${SHOTS}/mesh-300.png` });
    await page.getByRole("application").focus();
    const step = () => page.evaluate(async () => {
      const begin = performance.now();
      document.querySelector("canvas")?.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      return performance.now() - begin;
    });
    // The best of some: other programs may take the processor meanwhile.
    const took = [await step(), await step(), await step(), await step(), await step()];
    expect(Math.min(...took)).toBeLessThan(100);
    await close();
  });

  it("paints first within a second", async () => {
    // With the browser's own clock: the fixed one of the other tests gives no paint times.
    // The best of some, as above; each with an empty cache.
    const paints = await firstPaints(browser, base);
    expect(Math.min(...paints)).toBeLessThan(1000);
  });
});
