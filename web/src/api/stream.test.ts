import { expect, it } from "vitest";
import { Messages, retryDelay } from "./stream.ts";

it("reads messages however they are cut", () => {
  const text = ': hello\n\nevent: run\ndata: {"id":\ndata: "a"}\n\nretry: 5\nevent: event\r\ndata: x\r\n\r\n';
  for (const step of [1, 3, text.length]) {
    const messages = new Messages();
    const got = [];
    for (let at = 0; at < text.length; at += step) got.push(...messages.feed(text.slice(at, at + step)));
    expect(got).toEqual([
      { event: "run", data: '{"id":\n"a"}' },
      { event: "event", data: "x" },
    ]);
  }
});

it("takes no endless line", () => {
  expect(() => new Messages().feed("x".repeat(1_000_001))).toThrow();
});

it("waits longer each time, to a bound", () => {
  expect([0, 1, 2, 10].map(retryDelay)).toEqual([1000, 2000, 4000, 30_000]);
});
