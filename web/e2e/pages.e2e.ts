// Every page, in a real browser, at two sizes and in both themes.

import { mkdirSync } from "node:fs";
import { readFileSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { link } from "../src/router.ts";
import { caseText, events, notes, NOW_US } from "./answers.ts";
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
  "event-shared": link("events", [events[6]?.id ?? ""]),
  runs: "#/runs",
  "run-throughput": "#/runs/20261121T215612Z-4f3a9c",
  "run-scan": "#/runs/20261121T223107Z-5c01aa",
  "run-path": "#/runs/20260911T141500Z-0b77d2",
  "run-available": "#/runs/20260911T150000Z-a0a0a0",
  "run-load": "#/runs/20260911T160000Z-b0b0b0",
  "run-imported": "#/runs/20040222T000000Z-d7b05f",
  "run-imported-route": "#/runs/20040222T000000Z-5fda35",
  "run-host": "#/runs/20261122T023434Z-e0dc17",
  "run-latency": "#/runs/20261128T053655Z-6d0026",
  "run-flows": "#/runs/20261127T123914Z-b9ab14",
  transfers: "#/transfers",
  transfer: link("path", ["slac/rclone", "10.77.0.2"]),
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
  agent.notes = [...notes];
  agent.silenced = agent.long = false;
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
  const PLAIN = ["overview", "mesh", "path", "events", "runs", "map", "transfers", "hosts", "planned"];

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

describe("transfers", () => {
  it("explains the transfer that is chosen, with its evidence and advice", async () => {
    const { page, close } = await visit(PAGES["run-flows"] ?? "");
    const rows = page.getByRole("region", { name: "Transfers" }).locator("tbody tr");
    expect(await rows.count()).toBe(6);
    expect(await rows.nth(3).textContent()).toContain("sender's side");
    const advice = page.getByRole("region", { name: "Evidence and advice" });
    expect(await advice.textContent()).toContain("--transfers");
    await page.getByRole("button", { name: "Details of nginx to 198.51.100.20" }).click();
    expect(await page.locator("main").textContent()).toContain("nginx to 198.51.100.20");
    expect(await advice.count()).toBe(0);
    await close();
  });

  it("lists the series, which lead to their charts", async () => {
    const { page, close } = await visit(PAGES.transfers ?? "");
    await page.getByRole("link", { name: "rclone to 10.77.0.2" }).click();
    await expect.poll(() => page.locator("h1").textContent()).toContain("on slac");
    expect(await page.locator("main").textContent()).toContain("Time limited by a host");
    expect(await page.getByRole("form", { name: "Run now" }).count()).toBe(0);
    await close();
  });

  it("sums the bytes of each day by what limited them, and says if there are more", async () => {
    const { page, close } = await visit(PAGES.transfers ?? "");
    const days = page.getByRole("region", { name: "Bytes by day" }).first();
    await expect.poll(() => days.locator("tbody tr").count()).toBe(3);
    expect(await days.locator("tbody tr").first().textContent()).toContain("receive window 80 %, loss 20 %");
    expect(await days.textContent()).toContain("longhaul report transfers");
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
    await expect.poll(first).toBe("2026-11-28 05:36:55");
    await page.getByRole("button", { name: "local" }).click();
    await expect.poll(first).toBe("2026-11-28 11:06:55");
    expect(await page.locator("footer").textContent()).toContain("UTC+5:30");
    await page.reload();
    await expect.poll(first).toBe("2026-11-28 11:06:55");
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

describe("states of values", () => {
  it("has neither axes nor a green light where the archive does not answer", async () => {
    agent.mood = "broken";
    const { page, close } = await visit(PAGES.path ?? "");
    await expect.poll(() => page.locator("header [role=status]").textContent()).toContain("archive unreachable");
    const heights = () => page.locator(".series .u-wrap").evaluateAll((all) => all.map((it) => it.getBoundingClientRect().height));
    await expect.poll(async () => Math.max(...(await heights()))).toBeLessThan(40);
    expect(await page.locator("main").textContent()).not.toContain("no missed runs");
    await close();
  });

  it("says what fails, since when and why, and shows old values as old", async () => {
    agent.mood = "star";
    const { page, complaints, close } = await visit(PAGES.mesh ?? "");
    const row = (name: string) => page.getByRole("region", { name: "Paths" }).locator("tbody tr", { hasText: name });
    await expect.poll(() => row("cern").textContent()).toContain("failing since 2026-09-12 05:00: cern.example.org port 5201: connection refused");
    expect(await row("fnal").textContent()).toContain("stale: 1 d ago");
    expect(await row("cesnet").textContent()).not.toMatch(/failing|stale/);
    const old = (name: string) => row(name).locator("td.num").first().getAttribute("class");
    expect([await old("fnal"), await old("cern")].every((it) => it?.includes("old"))).toBe(true);
    expect(await old("cesnet")).not.toContain("old");
    // Who is limited by what, from the run of the newest value.
    expect(await row("cesnet").textContent()).toMatch(/receive window|path capacity/);
    expect(complaints).toEqual([]);
    await close();
  });

  it("lists what fails on the overview, and on the page of the path", async () => {
    const { page, close } = await visit(PAGES.overview ?? "");
    const failing = page.getByRole("region", { name: "Failing measurements" });
    expect(await failing.textContent()).toContain("connection refused");
    await page.goto(`${base}/${link("path", ["slac", "cern"])}`);
    await expect.poll(() => failing.textContent()).toContain("throughput-hourly");
    await page.goto(`${base}/${link("path", ["slac", "cesnet"])}`);
    await expect.poll(() => failing.count()).toBe(0);
    await close();
  });

  it("shows missed runs by reason, and only unusual ones in colour", async () => {
    const { page, close } = await visit(PAGES.overview ?? "");
    const health = page.getByRole("region", { name: "Health" });
    const tone = async (text: string) => health.locator("p.small", { hasText: text }).getAttribute("class");
    expect(await tone("the run failed")).toContain("bad");
    expect(await tone("another test used the link")).toContain("muted");
    expect(await tone("the agent was not running")).toContain("muted");
    await page.goto(`${base}/#/planned?only=all`);
    await expect.poll(() => page.locator("main").textContent()).toContain("connect to 192.0.2.7 port 5201: connection refused");
    await close();
  });

  it("puts a dot on the icon of the tab while events are open", async () => {
    const { page, close } = await visit(PAGES.hosts ?? "");
    const icon = () => page.locator("link[rel=icon]").getAttribute("href");
    await expect.poll(icon).toBe("/icon-open.svg");
    agent.mood = "empty";
    await page.reload();
    await expect.poll(icon).toBe("/icon.svg");
    await close();
  });

  it("shows no controls but the field for the token where one is needed", async () => {
    agent.mood = "token";
    const { page, close } = await visit(PAGES.path ?? "");
    expect(await page.locator("main h1").textContent()).toBe("This agent needs a token");
    expect(await page.locator("main button").allTextContents()).toEqual(["Sign in"]);
    expect(await page.locator("main").textContent()).not.toContain("`");
    if (SHOTS) await page.screenshot({ path: `${SHOTS}/token.png`, fullPage: true });
    await close();
  });

  it("shows the paths of one group of the watch file", async () => {
    const { page, complaints, close } = await visit(PAGES.mesh ?? "");
    await page.getByRole("group", { name: "Group of hosts" }).getByRole("button", { name: "labs" }).click();
    await page.waitForFunction(() => location.hash.includes("group=labs"));
    const region = page.getByRole("region", { name: "Paths" }).first();
    await expect.poll(() => region.textContent()).toContain("5 hosts");
    expect(await region.textContent()).not.toContain("kek");
    expect(complaints).toEqual([]);
    await close();
  });
});

describe("a screen that nobody operates", () => {
  it("has no controls, and reads everything again each minute", async () => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    const page = await context.newPage();
    await page.clock.install({ time: NOW_US / 1000 });
    await page.goto(`${base}/?kiosk${PAGES.overview}`);
    const table = page.getByRole("region", { name: "Paths", exact: true });
    await table.waitFor();
    expect(await page.locator("button:visible, input:visible, select:visible, nav:visible, footer:visible").count()).toBe(0);
    const grids = () => agent.asked.filter((it) => it.includes("/grid")).length;
    const before = grids();
    await page.clock.runFor(61_000);
    await expect.poll(grids).toBeGreaterThan(before);
    if (SHOTS) await page.screenshot({ path: `${SHOTS}/kiosk.png` });
    await page.keyboard.press("Escape");
    await page.locator("nav").waitFor();
    expect(new URL(page.url()).search).toBe("");
    await context.close();
  });

  it("is entered and left by the key k, which is also a letter of a search", async () => {
    const { page, close } = await visit(PAGES.mesh ?? "");
    const hasNav = () => page.locator("nav").isVisible();
    await page.getByRole("combobox", { name: "Find a host" }).fill("");
    await page.keyboard.type("k");
    expect(await hasNav()).toBe(true);
    await page.keyboard.press("Escape");
    await page.keyboard.press("k");
    expect(await hasNav()).toBe(false);
    await page.keyboard.press("k");
    expect(await hasNav()).toBe(true);
    await close();
  });
});

it("hides a path in this browser, and shows it again", async () => {
  agent.mood = "star";
  const { page, complaints, close } = await visit(PAGES.path ?? "");
  await page.getByRole("button", { name: "Hide this path" }).click();
  await page.goto(`${base}/${PAGES.mesh}`);
  await page.reload();
  const rows = page.getByRole("region", { name: "Paths" }).locator("tbody tr", { hasText: "cesnet" });
  const summary = page.getByText("1 hidden path");
  await summary.click();
  expect(await rows.count()).toBe(0);
  await page.goto(`${base}/${PAGES.overview}`);
  await summary.click();
  expect(await page.getByRole("region", { name: "Open events" }).textContent()).not.toContain("slac → cesnet");
  if (SHOTS) await page.screenshot({ path: `${SHOTS}/hidden.png` });
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.goto(`${base}/${PAGES.mesh}`);
  await expect.poll(() => rows.count()).toBe(1);
  expect(complaints).toEqual([]);
  await close();
});

it("shows the values at a tap on a chart", async () => {
  const context = await browser.newContext({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  const page = await context.newPage();
  await page.clock.setFixedTime(NOW_US / 1000);
  await page.goto(`${base}/${PAGES.path}`);
  const readout = page.locator(".readout");
  await expect.poll(() => readout.textContent()).toContain("tap: values");
  const box = await page.locator(".u-over").first().boundingBox();
  if (!box) throw new Error("no chart");
  await page.touchscreen.tap(box.x + box.width * 0.4, box.y + 40);
  await expect.poll(() => readout.textContent()).toMatch(/2026-09-\d\d \d\d:\d\d/);
  const first = await readout.textContent();
  await page.touchscreen.tap(box.x + box.width * 0.7, box.y + 40);
  await expect.poll(() => readout.textContent()).not.toBe(first);
  if (SHOTS) await page.screenshot({ path: `${SHOTS}/tap.png` });
  await context.close();
});

it("reads the events once for the frame and the overview, and counts the open ones in the title", async () => {
  const { page, close } = await visit(PAGES.overview ?? "");
  expect(agent.asked.filter((it) => it.startsWith("/api/v1/events")).length).toBe(1);
  const title = await page.title();
  expect(title).toMatch(/^\(\d+\) Overview/);
  await page.goto(`${base}/${PAGES.hosts}`);
  await expect.poll(() => page.title()).toBe(title.replace("Overview", "Hosts"));
  await close();
});

it("shows an event of several paths in one line, and its paths behind it", async () => {
  const { page, complaints, close } = await visit(PAGES.events ?? "");
  const line = page.getByRole("row", { name: "3 of 4 paths changed (" });
  expect(await line.textContent()).toContain("hop 198.51.100.9 or hop 198.51.100.13");
  expect(await page.getByRole("row", { name: "fnal" }).count()).toBe(0);
  await line.getByRole("link").first().click();
  const paths = page.getByRole("region", { name: "Affected paths" });
  await expect.poll(() => paths.getByRole("listitem").allTextContents()).toEqual([
    "Throughput kek → cern", "Throughput kek → in2p3", "Throughput fnal → cern", "kek → slac",
  ]);
  await paths.getByRole("link", { name: "Throughput" }).last().click();
  await page.getByRole("link", { name: "a change of several paths" }).click();
  await expect.poll(() => paths.count()).toBe(1);
  expect(complaints).toEqual([]);
  await close();
});

describe("notes", () => {
  const EVENT = PAGES.event ?? "";

  it("acknowledges, comments and silences an event, with a name that is kept", async () => {
    const { page, complaints, close } = await visit(EVENT);
    const form = page.getByRole("form", { name: "Add a note" });
    expect(await form.getByRole("button", { name: "Acknowledge" }).isDisabled()).toBe(true);
    await form.getByLabel("Name").fill("kim");
    await form.getByLabel("Text").fill("planned work");
    await form.getByLabel("Silence for").selectOption({ label: "4 h" });
    await form.getByRole("button", { name: "Silence" }).click();
    await expect.poll(() => agent.notes.length).toBe(3);
    expect(agent.notes[2]).toMatchObject({ action: "silence", who: "kim", text: "planned work", until_us: NOW_US + 4 * 3600e6 });
    const notes = page.getByRole("region", { name: "Notes" });
    await expect.poll(() => notes.textContent()).toContain("kim silenced until 2026-09-12 13:00 UTC: planned work");
    await page.reload();
    await expect.poll(() => form.getByLabel("Name").inputValue()).toBe("kim");
    expect(complaints).toEqual([]);
    await close();
  });

  it("leaves a silenced event out of the open ones", async () => {
    agent.silenced = true;
    const { page, close } = await visit(PAGES.overview ?? "");
    const open = page.getByRole("region", { name: "Open events" });
    expect(await open.textContent()).not.toContain("Throughput fell 44.5 %");
    expect(await page.getByRole("region", { name: "Health" }).textContent()).toContain("1 silenced");
    await page.goto(`${base}/#/events`);
    await expect.poll(() => page.locator("main table").textContent()).toContain("silenced until");
    await close();
  });

  it("offers no form to a token that may only read", async () => {
    agent.mood = "readonly";
    const { page, close } = await visit(EVENT);
    expect(await page.getByRole("form", { name: "Add a note" }).count()).toBe(0);
    expect(await page.getByRole("region", { name: "Notes" }).textContent()).toContain("can only be read");
    await close();
  });

  it("shows the case, copies it as text, and gives it as HTML", async () => {
    const { page, close } = await visit(EVENT);
    const title = page.getByRole("region", { name: "Case" }).locator("h3").first();
    expect(await title.textContent()).toContain("Throughput from slac to cesnet fell");
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download case.html" }).click()]);
    expect(file.suggestedFilename()).toMatch(/^case-.*\.html$/);
    expect(readFileSync(await file.path(), "utf8")).toContain("<!doctype html>");
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.getByRole("button", { name: "Copy as text" }).click();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(caseText);
    await close();
  });
});

describe("the list of runs", () => {
  it("has a result for every kind of run", async () => {
    const { page, close } = await visit(PAGES.runs ?? "");
    const table = await page.getByRole("region", { name: "Runs" }).textContent();
    for (const text of ["limiting setting", "RTT 161.8 ms, 13 hops", "391 Mbit/s available of 622 Mbit/s", "under load +55 ms", "6.178 Gbit/s", "with 3 streams"]) expect(table).toContain(text);
    await close();
  });

  it("is filtered by host and id, and says so in the address", async () => {
    const { page, complaints, close } = await visit(PAGES.runs ?? "");
    const rows = page.getByRole("region", { name: "Runs" }).locator("tbody tr");
    await page.getByLabel("Host", { exact: true }).fill("LULEA");
    await page.keyboard.press("Enter");
    await expect.poll(() => rows.count()).toBe(1);
    expect(await page.evaluate(() => location.hash)).toContain("host=LULEA");
    await page.getByRole("link", { name: "clear" }).click();
    await page.getByLabel("Run id").fill("20260911T14");
    await page.keyboard.press("Enter");
    await expect.poll(() => rows.count()).toBe(2);
    await page.getByLabel("Begin, UTC").fill("2026-09-11T00:00");
    await expect.poll(() => agent.asked.some((it) => it.includes("/runs") && it.includes(`begin_us=${Date.UTC(2026, 8, 11) * 1000}`))).toBe(true);
    await page.getByLabel("Network").selectOption("lab");
    await expect.poll(() => agent.asked.some((it) => it.includes("/runs") && it.includes("environment=lab"))).toBe(true);
    expect(complaints).toEqual([]);
    await close();
  });

  it("reads older runs page by page, up to the end", async () => {
    agent.long = true;
    const { page, close } = await visit(PAGES.runs ?? "");
    const rows = page.getByRole("region", { name: "Runs" }).locator("tbody tr");
    const more = page.getByRole("button", { name: "Show older runs" });
    expect(await rows.count()).toBe(100);
    await more.click();
    await expect.poll(() => rows.count()).toBe(200);
    await more.click();
    await expect.poll(() => rows.count()).toBe(250);
    expect(await more.count()).toBe(0);
    await close();
  });
});

it("names the bound of the receive window once, and puts the server into commands", async () => {
  const { page, close } = await visit("#/runs/20261121T220401Z-b21e07");
  const bounds = page.getByRole("region", { name: "Bounds" }).locator("tbody tr td:first-child");
  const names = (await bounds.allTextContents()).map((it) => it.replace("(next)", "").trim());
  expect(new Set(names).size).toBe(names.length);
  expect(names.length).toBeGreaterThan(1);
  expect(await page.locator("main code").allTextContents()).not.toContain("HOST");
  await close();
});

it("draws floor, median and p95 of the RTT in one chart, with the loss", async () => {
  const { page, complaints, close } = await visit(PAGES.path ?? "");
  const title = page.locator(".series .title", { hasText: "RTT floor" });
  expect(await title.textContent()).toMatch(/RTT\s.*RTT floor \d.* ms.*RTT median \d.* ms.*RTT p95 \d.* ms.*loss over 1 %/s);
  expect(complaints).toEqual([]);
  await close();
});

it("names the declared rate of the path", async () => {
  const { page, close } = await visit(PAGES.path ?? "");
  expect(await page.locator("main").textContent()).toContain("declared rate 622 Mbit/s");
  await close();
});
