// The fixture agent: serves dist and answers the API, with the policy headers of the real one.

import { createReadStream, existsSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import type { EventNote, Quantity } from "../src/api/types.ts";
import * as answers from "./answers.ts";

const DIST = fileURLToPath(new URL("../dist/page", import.meta.url));
const TYPES: Record<string, string> = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".json": "application/json" };
export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export class Agent {
  /** How it behaves: tests change these. */
  mood: "well" | "empty" | "broken" | "token" | "crowd" | "star" | "readonly" = "well";
  asked: string[] = [];
  orders: unknown[] = [];
  notes: EventNote[] = [...answers.notes];
  /** The runs of a long archive, instead of those of the fixtures. */
  long = false;
  /** Whether the first event is silenced for an hour. */
  silenced = false;
  #server: Server;
  #listeners = new Set<ServerResponse>();

  constructor() {
    this.#server = createServer((request, response) => this.#serve(request, response));
  }

  async start(): Promise<string> {
    await new Promise<void>((done) => this.#server.listen(0, "127.0.0.1", done));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.drop();
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  tell(event: string, row: unknown): void {
    for (const it of this.#listeners) it.write(`event: ${event}\ndata: ${JSON.stringify(row)}\n\n`);
  }

  /** Cuts the live lines. */
  drop(): void {
    for (const it of this.#listeners) it.destroy();
    this.#listeners.clear();
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? "/", "http://agent");
    response.setHeader("content-security-policy", POLICY);
    response.setHeader("x-content-type-options", "nosniff");
    if (!url.pathname.startsWith("/api/v1/")) return this.#file(url.pathname, response);
    this.asked.push(`${url.pathname}${url.search}`);
    if (this.mood === "token" && request.headers.authorization !== "Bearer right") {
      return fail(response, 401, "no_token", "this agent asks for a token");
    }
    const path = url.pathname.slice("/api/v1/".length);
    if (path === "live") return this.#live(response);
    if (this.mood === "broken") return fail(response, 503, "archive_busy", "the archive did not answer within 5 s", "See whether another program holds the file longhaul.db.");
    if (request.method === "POST") return path.endsWith("/notes") ? this.#note(request, response) : this.#order(request, response);
    const body = this.mood === "empty" ? nothing(path) : this.#answer(path, url.searchParams);
    if (body === undefined) return fail(response, 404, "not_found", "nothing of this name is in the archive");
    const text = typeof body === "string";
    response.setHeader("content-type", text ? "text/plain; charset=utf-8" : "application/json");
    response.end(text ? body : JSON.stringify(body));
  }

  /** Takes the first order; then one waits already. */
  #order(request: IncomingMessage, response: ServerResponse): void {
    let text = "";
    request.on("data", (piece) => (text += piece));
    request.on("end", () => {
      this.orders.push(JSON.parse(text));
      if (this.orders.length > 1) return fail(response, 409, "waits_already", "one that was asked for waits already, as slac-1-1");
      response.writeHead(202, { "content-type": "application/json" });
      response.end(JSON.stringify({ planned_id: "slac-1-1" }));
    });
  }

  #note(request: IncomingMessage, response: ServerResponse): void {
    let text = "";
    request.on("data", (piece) => (text += piece));
    request.on("end", () => {
      const note = { at_us: answers.NOW_US, ...JSON.parse(text) } as EventNote;
      this.notes.push(note);
      response.writeHead(201, { "content-type": "application/json" });
      response.end(JSON.stringify(note));
    });
  }

  #runs(query: URLSearchParams): unknown {
    const rows = this.long ? Array.from({ length: 250 }, (_, at) => ({ ...answers.runs[0], id: `run-${String(at).padStart(3, "0")}` })) : answers.runs;
    const after = rows.findIndex((it) => it.id === query.get("after"));
    const host = query.get("host")?.toLowerCase();
    return rows.slice(after + 1)
      .filter((it) => !query.has("kind") || it.kind === query.get("kind"))
      .filter((it) => host === undefined || `${it.initiator_host}\n${it.responder_host}`.toLowerCase().includes(host))
      .filter((it) => it.id?.startsWith(query.get("id") ?? ""))
      .slice(0, Number(query.get("limit") ?? 100));
  }

  #live(response: ServerResponse): void {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(": hello\n\n");
    this.#listeners.add(response);
    response.on("close", () => this.#listeners.delete(response));
  }

  #answer(path: string, query: URLSearchParams): unknown {
    const pair = { from: query.get("from") ?? "", to: query.get("to") ?? "" };
    const range = [Number(query.get("begin_us") ?? -8e15), Number(query.get("end_us") ?? 8e15)] as const;
    const quantity = query.get("quantity") as Quantity;
    const [first, second, third] = path.split("/").map(decodeURIComponent);
    const mine = (it: { from: string; to: string } | undefined) => !query.has("from") || (it?.from === pair.from && it.to === pair.to);
    switch (first) {
      case "about": return this.mood === "readonly" ? { ...answers.about, agent: { ...answers.about.agent, takes_orders: false } } : answers.about;
      case "hosts": return answers.hosts;
      case "pairs": return answers.grid("goodput").map((it) => it.pair);
      case "grid": {
        const grid = this.mood === "crowd" ? answers.crowd(300) : answers.grid(quantity);
        return this.mood === "star" ? grid.filter((it) => it.pair.from === "slac") : grid;
      }
      case "transfers": return second === "daily" ? answers.dailyTransfers : answers.transfers;
      case "series": return answers.series(pair, quantity, ...range, Number(query.get("points") ?? 1000));
      case "routes": return answers.routes(pair, ...range);
      case "planned": return answers.plannedRuns(mine, query.get("state"));
      case "measurements": return this.mood === "crowd" ? [] : answers.measurements;
      case "jobs": return answers.jobs.filter(mine);
      case "runs":
        if (second !== undefined) return query.get("format") === "text" ? answers.latencyText : answers.reports.get(second);
        return this.#runs(query);
      case "events": {
        if (third === "case") return query.get("format") === "json" ? answers.caseParts : query.get("format") === "html" ? `<!doctype html><title>${answers.caseParts[0]?.text}</title>` : answers.caseText;
        if (third === "notes") return this.notes;
        if (second !== undefined) return answers.events.find((it) => it.id === second);
        return answers.events.map((it, at) => (this.silenced && at === 0 ? { ...it, handling: { notes: 3, silenced_until_us: answers.NOW_US + 3600e6 } } : it)).filter((it) => mine(it.pair) && it.between_us[1] >= range[0] && it.between_us[0] < range[1] && (!query.has("state") || it.state === query.get("state")) && (!query.has("open") || (["suspected", "confirmed"].includes(it.state) && it.recovered_by === undefined)));
      }
      default: return undefined;
    }
  }

  #file(path: string, response: ServerResponse): void {
    const file = join(DIST, normalize(path === "/" ? "/index.html" : path));
    if (!file.startsWith(DIST) || !existsSync(file)) return fail(response, 404, "not_found", "no such file");
    response.setHeader("content-type", TYPES[extname(file)] ?? "application/octet-stream");
    createReadStream(file).pipe(response);
  }
}

function fail(response: ServerResponse, status: number, code: string, text: string, hint?: string): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify({ error: { code, text, hint } }));
}

/** An agent that was started a moment ago. */
function nothing(path: string): unknown {
  if (path === "about") return { longhaul: "0.1.0", started_at: "2026-09-12T08:59:00Z", archive: { kind: "sqlite" }, agent: { name: "slac", targets: 0, planned_today: 0, failed_today: 0, missed_today: 0, missed_today_by_reason: [], takes_orders: false } };
  if (path === "planned") return { counts: { planned: 0, done: 0, missed: 0, waiting: 0, reasons: [] }, rows: [], more: false };
  if (path === "series") return { pair: { from: "", to: "" }, quantity: "goodput", points: [] };
  if (path === "transfers/daily") return { rows: [], is_complete: true };
  return path.includes("/") ? undefined : [];
}
