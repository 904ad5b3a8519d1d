// Server-sent events, from bytes. `EventSource` can send no token, so the page reads them itself.

export interface Message { event: string; data: string }

/** No line and no message of the agent comes near this; what does is not the agent. */
const MOST = 1_000_000;

/** Feed it text as it comes; it gives the messages that are complete. */
export class Messages {
  #rest = "";
  #event = "message";
  #data: string[] = [];

  feed(text: string): Message[] {
    this.#rest += text;
    if (this.#rest.length > MOST) throw new Error("cannot read the live updates: a message exceeds 1 MB");
    const lines = this.#rest.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    return lines.map((line) => this.#line(line)).filter((it) => it !== undefined);
  }

  #line(line: string): Message | undefined {
    if (line === "") return this.#end();
    const colon = line.indexOf(":");
    if (colon === 0) return undefined;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#event = value;
    if (field === "data") this.#data.push(value);
    return undefined;
  }

  #end(): Message | undefined {
    const message = { event: this.#event, data: this.#data.join("\n") };
    const empty = this.#data.length === 0;
    this.#event = "message";
    this.#data = [];
    return empty ? undefined : message;
  }
}

/** Returns the delay in ms before the n-th reconnection attempt: 1 s, doubling, max 30 s. */
export function retryDelay(attempt: number): number {
  return Math.min(30_000, 1000 * 2 ** Math.min(attempt, 5));
}
