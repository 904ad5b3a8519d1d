// A browser, and what every visit of a page is held to.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Browser, chromium, type Page } from "playwright-core";
import { expect } from "vitest";
import { NOW_US } from "./answers.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** Where screenshots go, if they are wanted. */
export const SHOTS = process.env.LONGHAUL_SHOTS;
export type Size = readonly [width: number, height: number];
export const SIZES = [[360, 740], [1440, 900]] as const;

export const launch = (): Promise<Browser> =>
  chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

export interface Visit { page: Page; complaints: string[]; close: () => Promise<void> }

/** Opens a page in a world of its own, at the time of the fixtures, and hears all it complains of. */
export async function open(browser: Browser, base: string, hash: string, size: Size = [1440, 900], colorScheme: "light" | "dark" = "light"): Promise<Visit> {
  const context = await browser.newContext({ viewport: { width: size[0], height: size[1] }, colorScheme, reducedMotion: "reduce" });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("dialog", (dialog) => {
    complaints.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(base) && !url.startsWith("blob:")) complaints.push(`an external request: ${url}`);
  });
  await page.clock.setFixedTime(NOW_US / 1000);
  await page.goto(`${base}/${hash}`);
  await settled(page);
  return { page, complaints, close: () => context.close() };
}

/** Until nothing is being read any more. */
export async function settled(page: Page): Promise<void> {
  await page.waitForSelector("main h1", { timeout: 15_000 });
  await page.waitForFunction(() => !/[Ll]oading…/.test(document.querySelector("main")?.textContent ?? "loading…"), undefined, { timeout: 15_000 });
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

/** Times of the first paint, ms, each with an empty cache and by the browser's own clock. */
export async function firstPaints(browser: Browser, base: string): Promise<number[]> {
  const paints: number[] = [];
  for (let round = 0; round < 4; round++) {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    const page = await context.newPage();
    await page.goto(`${base}/#/mesh`);
    await page.waitForSelector("main canvas");
    const paint = () => page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
    await expect.poll(paint).toBeGreaterThan(0);
    paints.push(await paint());
    await context.close();
  }
  return paints;
}

/** What would keep people from using the page. */
export async function axe(page: Page): Promise<string[]> {
  // As a script of the browser's own world: the page's policy forbids injected ones.
  return page.evaluate(`(async () => { ${AXE}; const result = await axe.run(document, { resultTypes: ["violations"] });
    return result.violations.filter((it) => it.impact === "serious" || it.impact === "critical")
      .map((it) => it.id + ": " + it.nodes.slice(0, 4).map((node) => node.html.slice(0, 120) + " " + (node.any[0]?.message ?? "")).join(" | ")); })()`);
}
