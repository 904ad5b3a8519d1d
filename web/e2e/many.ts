// A path of a million values, in the program: how soon it is drawn, and follows the hand.
// `cargo xtask page-many` fills the archive, starts the agent and runs this.

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { link } from "../src/router.ts";
import { launch, open } from "./browser.ts";

const base = process.env.LONGHAUL_AGENT ?? "";
let browser: Browser;
beforeAll(async () => {
  expect(base, "LONGHAUL_AGENT says where the agent is").toMatch(/^http:/);
  browser = await launch();
});
afterAll(() => browser?.close());

it("draws a year of it, and moves and zooms", async () => {
  const { page, complaints, close } = await open(browser, base, link("path", ["slac", "cern"], { last: 365 * 86_400 }));
  const asked: number[] = [];
  page.on("requestfinished", (request) => {
    if (request.url().includes("/series") && request.url().includes("quantity=goodput")) asked.push(request.timing().responseEnd);
  });
  const chart = page.getByRole("group", { name: /one time axis/ });
  await chart.focus();
  /** From the key to the frame with the new values in it. */
  const key = async (name: string) => {
    const begin = performance.now();
    await Promise.all([
      page.waitForResponse((it) => it.url().includes("/series") && it.url().includes("quantity=goodput")),
      page.keyboard.press(name),
    ]);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
    return performance.now() - begin;
  };
  const took: Record<string, number[]> = {};
  for (const name of ["ArrowLeft", "+", "+", "ArrowLeft", "-", "-", "ArrowRight", "+", "-"]) (took[name] ??= []).push(await key(name));
  // Between two frames while a key is held: the page must go on drawing.
  const frames = await page.evaluate(async () => {
    const gaps: number[] = [];
    let last = performance.now();
    const target = document.querySelector("section[role=group]");
    for (let step = 0; step < 60; step++) {
      target?.dispatchEvent(new KeyboardEvent("keydown", { key: step % 2 === 0 ? "ArrowLeft" : "ArrowRight", bubbles: true }));
      await new Promise((done) => requestAnimationFrame(done));
      gaps.push(performance.now() - last);
      last = performance.now();
    }
    return gaps.sort((a, b) => a - b);
  });
  const ms = (list: number[]) => list.map((it) => `${Math.round(it)} ms`).join(", ");
  for (const [name, list] of Object.entries(took)) console.log(`${name}, to the new values (120 ms of it is the wait for the hand to rest): ${ms(list)}`);
  console.log(`answers of the API for the year: ${ms(asked)}`);
  console.log(`frames while moving: median ${ms([frames[30] ?? 0])}, longest ${ms(frames.slice(-1))}`);
  expect(complaints).toEqual([]);
  await close();
});
