// News of the agent as it happens, and whether they still come.

import { address, headers } from "./fetch.ts";
import { type Message, Messages, retryDelay } from "./stream.ts";
import type { Event, PlannedRow, RunRow } from "./types.ts";

export type News =
  | { kind: "run"; row: RunRow }
  | { kind: "event"; row: Event }
  | { kind: "planned"; row: PlannedRow };
type Listener = (news: News) => void;

/** The agent sends a comment every 15 s at least; a longer silence is a broken line. */
const SILENCE_MS = 45_000;

class Live {
  state = $state<"connecting" | "live" | "reconnecting" | "refused">("connecting");
  /** Counts up when the line is back: what was missed meanwhile has to be read again. */
  resumed = $state(0);
  #listeners = new Set<Listener>();
  #started = false;
  #retry: (() => void) | undefined;

  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  start(): void {
    if (this.#started) return;
    this.#started = true;
    void this.#keep();
  }

  /** At once, such as after a token was entered. */
  retry(): void {
    this.#retry?.();
  }

  async #keep(): Promise<never> {
    for (let attempt = 0; ; attempt++) {
      const read = await this.#once().catch(() => false);
      if (read) attempt = 0;
      if (this.state !== "refused") this.state = "reconnecting";
      await new Promise<void>((done) => {
        this.#retry = done;
        setTimeout(done, retryDelay(attempt));
      });
    }
  }

  /** One connection to its end. True: news could have come. */
  async #once(): Promise<boolean> {
    const stop = new AbortController();
    let alarm = setTimeout(() => stop.abort(), SILENCE_MS);
    let open = false;
    try {
      const response = await fetch(address("live"), { headers: headers(), signal: stop.signal });
      if (!response.ok || !response.body) {
        this.state = response.status === 401 || response.status === 403 ? "refused" : "reconnecting";
        return false;
      }
      open = true;
      if (this.state !== "connecting") this.resumed++;
      this.state = "live";
      const messages = new Messages();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return true;
        clearTimeout(alarm);
        alarm = setTimeout(() => stop.abort(), SILENCE_MS);
        for (const message of messages.feed(value)) this.#tell(message);
      }
    } catch {
      return open;
    } finally {
      clearTimeout(alarm);
      stop.abort();
    }
  }

  #tell({ event, data }: Message): void {
    // Some news were lost: what they were about is read again.
    if (event === "resync") this.resumed++;
    if (event !== "run" && event !== "event" && event !== "planned") return;
    let row: unknown;
    try {
      row = JSON.parse(data);
    } catch {
      return;
    }
    for (const listener of this.#listeners) listener({ kind: event, row } as News);
  }
}

export const live = new Live();

/** Limits calls to one per `everyMs`, with a final call: a mesh sends many messages. */
export function throttle(action: () => void, everyMs = 2000): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let last = 0;
  return () => {
    if (timer !== undefined) return;
    const wait = Math.max(0, last + everyMs - Date.now());
    timer = setTimeout(() => {
      timer = undefined;
      last = Date.now();
      action();
    }, wait);
  };
}
