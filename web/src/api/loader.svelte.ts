// What a page waits for: the value, or why there is none. The old value stands while a new one
// is on its way, so that a page that refreshes does not blink.

import { Fault, unanswered } from "./fault.ts";

export class Loader<T> {
  value = $state.raw<T | undefined>(undefined);
  fault = $state.raw<Fault | undefined>(undefined);
  busy = $state(false);
  #stop: AbortController | undefined;

  /** Sends the request; a request that is still in progress is cancelled. */
  async load(request: (signal: AbortSignal) => Promise<T>): Promise<void> {
    this.#stop?.abort();
    const stop = new AbortController();
    this.#stop = stop;
    this.busy = true;
    try {
      const value = await request(stop.signal);
      if (stop.signal.aborted) return;
      this.value = value;
      this.fault = undefined;
    } catch (cause) {
      if (stop.signal.aborted) return;
      this.fault = cause instanceof Fault ? cause : unanswered("Cannot query the agent", cause);
    } finally {
      if (this.#stop === stop) this.busy = false;
    }
  }

  /** For another subject: what stood here is no longer true. */
  clear(): void {
    this.#stop?.abort();
    this.value = undefined;
    this.fault = undefined;
  }
}
