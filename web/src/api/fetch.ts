// Every request of the page.

import { refused, unanswered } from "./fault.ts";
import type {
  About, AnyReport, CasePart, DailyTransferList, Event, EventNote, GridCell, HostRow, Job, MeasurementState, NewEventNote, Pair, Planned, Quantity, RouteRow, RunOrder,
  RunRow, RunTaken, Series, PlannedRunState,
} from "./types.ts";

const BASE = "/api/v1";
const DEADLINE_MS = 20_000;
const TOKEN_KEY = "longhaul.token";

/** Kept for this tab only. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN_KEY) ?? undefined,
  set: (text: string) => sessionStorage.setItem(TOKEN_KEY, text),
};

export function headers(): Record<string, string> {
  const text = token.get();
  return text === undefined ? {} : { authorization: `Bearer ${text}` };
}

type Query = Record<string, string | number | undefined>;

export function address(path: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined) search.set(key, String(value));
  }
  return `${BASE}/${path}${search.size > 0 ? `?${search}` : ""}`;
}

function posted(body: unknown): RequestInit {
  if (body === undefined) return {};
  return { method: "POST", headers: { ...headers(), "content-type": "application/json" }, body: JSON.stringify(body) };
}

async function read(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch {
    return undefined;
  }
}

async function answer(what: string, url: string, signal?: AbortSignal, body?: unknown): Promise<Response> {
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  const stop = signal ? AbortSignal.any([signal, deadline]) : deadline;
  try {
    const response = await fetch(url, { headers: headers(), signal: stop, ...posted(body) });
    if (!response.ok) throw refused(what, response.status, await read(response));
    return response;
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw unanswered(what, cause);
  }
}

async function json<T>(what: string, url: string, signal?: AbortSignal, body?: unknown): Promise<T> {
  const response = await answer(what, url, signal, body);
  try {
    return (await response.json()) as T;
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw unanswered(what, cause);
  }
}

export interface Range { beginUs: number; endUs: number }
/** What the API takes as a time: from 1970 to 2199. */
const timeOf = (us: number) => Math.min(7_258_118_400_000_000, Math.max(0, Math.round(us)));
const spanOf = (range: Range) => ({ begin_us: timeOf(range.beginUs), end_us: timeOf(range.endUs) });
const id = (text: string) => encodeURIComponent(text);

export interface EventQuery { range?: Range; pair?: Pair; state?: string; open?: string; limit?: number }
export interface PlannedQuery { range: Range; pair?: Pair; state?: PlannedRunState; limit: number }
export interface RunQuery { pair?: Pair; kind?: string; host?: string; id?: string; environment?: string; after?: string; range?: Range; limit?: number }

export const api = {
  about: (signal?: AbortSignal) => json<About>("Cannot load the description of the agent", address("about"), signal),
  pairs: (signal?: AbortSignal) => json<Pair[]>("Cannot load the paths", address("pairs"), signal),
  grid: (quantity: Quantity, signal?: AbortSignal) =>
    json<GridCell[]>("Cannot load the mesh", address("grid", { quantity }), signal),
  transfers: (signal?: AbortSignal) => json<GridCell[]>("Cannot load the transfers", address("transfers"), signal),
  dailyTransfers: (range: Range, signal?: AbortSignal) =>
    json<DailyTransferList>("Cannot load the bytes by day", address("transfers/daily", spanOf(range)), signal),
  series: (pair: Pair, quantity: Quantity, range: Range, points: number, signal?: AbortSignal) =>
    json<Series>("Cannot load the series", address("series", { ...pair, quantity, ...spanOf(range), points }), signal),
  routes: (pair: Pair, range: Range, signal?: AbortSignal) =>
    json<RouteRow[]>("Cannot load the routes", address("routes", { ...pair, ...spanOf(range) }), signal),
  events: (query: EventQuery, signal?: AbortSignal) =>
    json<Event[]>(
      "Cannot load the events",
      address("events", {
        ...query.pair,
        ...(query.range && spanOf(query.range)),
        state: query.state,
        open: query.open,
        limit: query.limit,
      }),
      signal,
    ),
  event: (event: string, signal?: AbortSignal) =>
    json<Event>("Cannot load the event", address(`events/${id(event)}`), signal),
  caseFile: async (event: string, format: "text" | "html", signal?: AbortSignal) =>
    (await answer("Cannot load the case", address(`events/${id(event)}/case`, { format }), signal)).text(),
  caseParts: (event: string, signal?: AbortSignal) =>
    json<CasePart[]>("Cannot load the case", address(`events/${id(event)}/case`, { format: "json" }), signal),
  notes: (event: string, signal?: AbortSignal) =>
    json<EventNote[]>("Cannot load the notes", address(`events/${id(event)}/notes`), signal),
  addNote: (event: string, note: NewEventNote) =>
    json<EventNote>("Cannot store the note", address(`events/${id(event)}/notes`), undefined, note),
  measurements: (signal?: AbortSignal) =>
    json<MeasurementState[]>("Cannot load the states of the measurements", address("measurements"), signal),
  runs: (query: RunQuery, signal?: AbortSignal) =>
    json<RunRow[]>("Cannot load the runs", address("runs", { ...query.pair, ...(query.range && spanOf(query.range)), kind: query.kind, host: query.host, id: query.id, environment: query.environment, after: query.after, limit: query.limit }), signal),
  run: (run: string, signal?: AbortSignal) =>
    json<AnyReport>("Cannot load the report", address(`runs/${id(run)}`), signal),
  runFile: async (run: string, format: "text" | "html", signal?: AbortSignal) =>
    (await answer("Cannot load the report", address(`runs/${id(run)}`, { format }), signal)).text(),
  planned: ({ range, pair, state, limit }: PlannedQuery, signal?: AbortSignal) =>
    json<Planned>("Cannot load the planned runs", address("planned", { ...pair, ...spanOf(range), state, limit }), signal),
  jobs: (pair?: Pair, signal?: AbortSignal) => json<Job[]>("Cannot load the measurements", address("jobs", { ...pair }), signal),
  order: (order: RunOrder) => json<RunTaken>("Cannot request the run", address("runs"), undefined, order),
  hosts: (signal?: AbortSignal) => json<HostRow[]>("Cannot load the hosts", address("hosts"), signal),
};
