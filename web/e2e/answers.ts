// What an agent would answer, from committed fixtures; values that vary are drawn from a seed.

import { readFileSync } from "node:fs";
import type { About, AnyReport, Bucket, CasePart, DailyTransferList, Event, EventNote, GridCell, HostRow, Job, MeasurementState, Pair, Planned, Point, Quantity, RouteRow, RunRow, Series } from "../src/api/types.ts";

const here = (name: string) => readFileSync(new URL(`../fixtures/${name}`, import.meta.url), "utf8");
const report = (name: string) => readFileSync(new URL(`../../fixtures/reports/${name}`, import.meta.url), "utf8");

/** 2026-09-12T09:00:00Z; the browser's clock stands there too. */
export const NOW_US = 1_789_203_600_000_000;
const CHANGE_US = 1_789_136_100_000_000;
const HOUR_US = 3_600_000_000;

export const about: About = JSON.parse(here("about.json"));
export const hosts: HostRow[] = JSON.parse(here("hosts.json"));
export const events: Event[] = (JSON.parse(here("events.json")) as Event[]).map((it, at) => ({ ...it, handling: at === 0 ? { notes: 2, acknowledged_by: "jo" } : { notes: 0 } }));
const planned: Planned = JSON.parse(here("planned.json"));

/** The newest first, as the agent gives them. */
export function plannedRuns(mine: (pair: Pair | undefined) => boolean, state: string | null): Planned {
  const standing = (row: Planned["rows"][number]) => (row.outcome === undefined ? "waiting" : "done" in row.outcome ? "done" : "missed");
  const rows = planned.rows.filter((it) => mine(it.pair) && (state === null || standing(it) === state));
  return { ...planned, rows: rows.toSorted((a, b) => b.due_us - a.due_us) };
}

export const jobs: Job[] = [
  { measure: "throughput-hourly", from: "slac", to: "cesnet", kind: "throughput", heavy: true, lasts_us: 15_000_000, every_us: HOUR_US, bytes: 12_500_000_000, rate_bps: 622_000_000 },
  { measure: "path-6h", from: "slac", to: "cesnet", kind: "path", heavy: false, lasts_us: 45_000_000, every_us: 6 * HOUR_US, bytes: 128_000 },
];
export const caseText = here("case.txt");
/** The first line is the title; an indented line is a row of a table; all else is a paragraph. */
export const caseParts: CasePart[] = caseText.split("\n").filter((it) => it.trim() !== "").map((text, at) => ({ kind: at === 0 ? "title" : text.startsWith("  ") ? "row" : "paragraph", text }));
export const notes: EventNote[] = [
  { at_us: NOW_US - 2 * HOUR_US, who: "jo", action: "acknowledge", text: "a ticket is open at the NREN" },
  { at_us: NOW_US - HOUR_US, who: "<img src=x onerror=alert(1)>", action: "comment", text: "the new route is shorter, as announced" },
];
/** `slac > cern` fails since the morning; `slac > fnal` has had no result for a day. */
export const measurements: MeasurementState[] = [
  { measurement: "throughput-hourly", pair: { from: "slac", to: "cern" }, kind: "throughput", done_us: NOW_US - 5 * HOUR_US, run_id: "gone", stale_after_us: 3 * HOUR_US, failure: { since_us: NOW_US - 4 * HOUR_US, latest_us: NOW_US - HOUR_US, reason: "target_failing", detail: "cern.example.org port 5201: connection refused" } },
  { measurement: "throughput-hourly", pair: { from: "slac", to: "cesnet" }, kind: "throughput", done_us: NOW_US - HOUR_US, stale_after_us: 3 * HOUR_US },
  { measurement: "path-5min", pair: { from: "slac", to: "cesnet" }, kind: "path", done_us: NOW_US - HOUR_US / 6, stale_after_us: HOUR_US / 4 },
];
const routeFile: {
  routes: Record<string, RouteRow["hops"]>;
  seen: [number, number][];
  runs: Record<string, string>;
  change: RouteRow["change"];
} = JSON.parse(here("routes.json"));

/** As a terminal shows the run of latency. */
export const latencyText = readFileSync(new URL("../../crates/longhaul/tests/golden/latency-asymmetric.txt", import.meta.url), "utf8");

export const reports = new Map<string, AnyReport>();
for (const text of [
  ...["la-geneva-9-streams", "path-sanjose-lulea", "path-slac-cesnet-change", "scan-grid", "scan-guided", "host-judged", "host-daresbury-proof", "slac-daresbury-window", "udp-reverse", "latency-asymmetric"].map((it) => report(`${it}.json`)),
  here("run-available.json"),
  here("run-imported.json"),
  here("run-imported-route.json"),
  loadRun(),
  flowsRun(),
]) {
  const one = JSON.parse(text) as AnyReport;
  reports.set(one.run.id, one);
}
reports.set("20260910T141458Z-55f0aa", oldRoute());

/** The fixture of rclone, with transfers beside it: one that arrives, one without a name, and a hostile name. */
function flowsRun(): string {
  const run = JSON.parse(report("flows-rclone.json"));
  const [transfer, judged] = [run.observation.transfers[0], run.analysis.transfers[0]];
  const add = (name: string | undefined, peer: string, sends: boolean, limiter: string, bps: number) => {
    const process = name === undefined ? undefined : { pid: 4711, name, parent: name === "ssh" ? "rsync" : undefined };
    run.observation.transfers.push({ ...transfer, process, peer, sends });
    const shares = [{ state: "path_full", limiter, share_ratio: 0.8 }, { state: "sender_app", limiter: "application", share_ratio: 0.2 }];
    run.analysis.transfers.push({ ...judged, finding_index: [], run: { ...judged.run, limited_by: limiter, goodput_bps: bps, shares } });
  };
  add("ssh", "2001:db8:85a3::8a2e:370:7334", true, "receive_window", 91e6);
  add("nginx", "198.51.100.20", true, "path_capacity", 38e6);
  add("curl", "192.0.2.9", false, "unknown", 12e6);
  add(undefined, "192.0.2.10", true, "policer", 5e6);
  add("<img src=x onerror=alert(1)>", "192.0.2.11", true, "loss", 1e6);
  run.observation.matching_flows = 41;
  return JSON.stringify(run);
}

/** The load fixture with its probes: round trips that a queue lengthens. */
function loadRun(): string {
  const run = JSON.parse(here("run-load.json"));
  for (let at = 0; at < 24e6; at += 40_000) {
    const under = at > 4e6 && at < 10e6 ? Math.min(1, (at - 4e6) / 8e5) : 0;
    run.observation.probes.push({ at_us: at, rtt_ns: Math.round(29e6 + under * 55e6 + noise(at) * (1e6 + under * 9e6)) });
  }
  return JSON.stringify(run);
}

/** The path report of the day before: the same with the old route. */
function oldRoute(): AnyReport {
  const one = structuredClone(reports.get("20260911T141500Z-0b77d2"));
  if (one?.kind !== "path" || !one.observation.route) throw new Error("the fixture has no route");
  one.run = { ...one.run, id: "20260910T141458Z-55f0aa", started_at: "2026-09-10T14:14:58Z" };
  one.analysis = { ...one.analysis, route_number: 1, route_change: undefined, hops: [] };
  const hops = one.observation.route.hops;
  const extra = Array.from({ length: 4 }, (_, at) => ({ ttl: 0, sent: 3, answers: [{ address: `203.0.113.${at * 4 + 1}`, kind: "time_exceeded", rtts_ns: [1_000_000] }] }));
  one.observation.route.hops = [...hops.slice(0, 5), ...extra, ...hops.slice(6)].map((hop, at) => ({ ...hop, ttl: at + 1 }));
  return one;
}

/** Even noise from -1 to 1, always the same for the same seed. */
function noise(seed: number): number {
  let it = (Math.imul(seed | 0, 2654435761) ^ Math.imul((seed / 4294967296) | 0, 40503)) >>> 0;
  it = Math.imul(it ^ (it >>> 15), 2246822519) >>> 0;
  it = Math.imul(it ^ (it >>> 13), 3266489917) >>> 0;
  return ((it ^ (it >>> 16)) >>> 0) / 2147483648 - 1;
}

function seedOf(text: string): number {
  let seed = 7;
  for (const letter of text) seed = (Math.imul(seed, 31) + (letter.codePointAt(0) ?? 0)) >>> 0;
  return seed;
}

const BASES: Record<Quantity, number> = { goodput: 93e6, available: 240e6, capacity: 311e6, rtt_floor: 161_800, rtt_median: 162_600, rtt_p95: 166_000, one_way_delay: 80_700, delay_variation: 900, loss: 0.0002, retransmits: 0.00002, hops: 17, host_share: 0.9 };

function value(pair: Pair, quantity: Quantity, atUs: number): number {
  const path = `${pair.from}>${pair.to}`;
  const seed = seedOf(path + quantity);
  const changed = path === "slac>cesnet" && atUs >= CHANGE_US;
  const scale = path === "slac>cesnet" ? 1 : 0.4 + (seed % 100) / 40;
  const steps: Partial<Record<Quantity, number>> = { goodput: 0.555, available: 1.63, capacity: 2, hops: 13 / 17 };
  const base = BASES[quantity] * (quantity === "hops" ? 1 : scale) * (changed ? (steps[quantity] ?? 1) : 1);
  const wave = noise(Math.round(atUs / 1e6) + seed);
  if (quantity === "hops") return Math.round(base);
  if (quantity === "host_share") return BASES.host_share + 0.05 * noise(atUs / HOUR_US);
  if (quantity === "loss" && wave > 0.997) return 0.05;
  if (quantity === "loss" || quantity === "retransmits") return wave > 0.6 ? base * wave * 4 : 0;
  const day = Math.sin((atUs / HOUR_US / 24) * 2 * Math.PI) * (quantity.startsWith("rtt") ? 0.0005 : 0.03);
  return base * (1 + day + wave * (quantity.startsWith("rtt") ? (quantity === "rtt_p95" ? 0.01 : 0.002) : quantity === "capacity" ? 0.01 : 0.05));
}

const EVERY_US: Record<Quantity, number> = { goodput: HOUR_US, available: HOUR_US / 4, capacity: HOUR_US / 4, rtt_floor: HOUR_US / 12, rtt_median: HOUR_US / 12, rtt_p95: HOUR_US / 12, one_way_delay: HOUR_US / 12, delay_variation: HOUR_US / 12, loss: HOUR_US / 12, retransmits: HOUR_US, hops: 6 * HOUR_US, host_share: HOUR_US };
const FIRST_US = NOW_US - 400 * 24 * HOUR_US;

export function series(pair: Pair, quantity: Quantity, beginUs: number, endUs: number, points: number): Series {
  const every = EVERY_US[quantity];
  const from = Math.ceil(Math.max(beginUs, FIRST_US) / every) * every;
  const to = Math.min(endUs, NOW_US);
  const count = Math.max(0, Math.floor((to - from) / every));
  // A night without values: a gap has to be seen as one.
  const dark = (at: number) => at > NOW_US - 80 * HOUR_US && at < NOW_US - 70 * HOUR_US && pair.to === "cesnet";
  const one = (at: number): Point => ({ at_us: at, value: value(pair, quantity, at) });
  const times = (begin: number, end: number, most = Infinity) => {
    const out: number[] = [];
    const step = Math.max(every, Math.ceil((end - begin) / most / every) * every);
    for (let at = begin; at < end; at += step) if (!dark(at)) out.push(at);
    return out;
  };
  if (count <= points) return { pair, quantity, points: times(from, to).map(one) };
  const span = Math.ceil((to - from) / points);
  const buckets: Bucket[] = [];
  for (let at = from; at < to; at += span) {
    const values = times(at, Math.min(to, at + span), 40).map((it) => one(it).value).sort((a, b) => a - b);
    if (values.length === 0) continue;
    buckets.push({ at_us: at, duration_us: span, samples: values.length, min: values[0] ?? 0, median: values[values.length >> 1] ?? 0, max: values.at(-1) ?? 0 });
  }
  return { pair, quantity, points: [], buckets };
}

export function grid(quantity: Quantity): GridCell[] {
  const names = hosts.map((it) => it.host);
  return names.flatMap((from) =>
    names.filter((to) => to !== from && noise(seedOf(`${from}|${to}`)) > -0.9).map((to) => {
      const pair = { from, to };
      const open = events.filter((it) => it.quantity === quantity && it.pair.from === from && it.pair.to === to && (it.state === "confirmed" || it.state === "suspected"));
      const usual = open[0]?.before.median ?? value(pair, quantity, CHANGE_US - HOUR_US);
      const luck = noise(seedOf(`${to}~${from}`));
      const factor = luck > 0.93 ? 0.72 : luck < -0.95 ? 1.4 : luck > 0.88 ? 0.9 : 1 + luck * 0.02;
      if (noise(seedOf(`${from}!${to}`)) > 0.95) return { pair, open_events: 0 };
      const limited = { run_id: "20260911T141500Z-0b77d2", limited_by: luck > 0 ? "path_capacity" : "receive_window" };
      if (from === "slac" && to === "fnal") return { pair, value: usual, at_us: NOW_US - 31 * HOUR_US, median_7d: usual, open_events: 0, ...limited };
      return { pair, value: open[0]?.after.median ?? usual * factor, at_us: NOW_US - Math.round(900e6 * (1 + luck)), median_7d: usual, open_events: open.length, ...limited };
    }),
  );
}

/** Of slac: one that became slower, one that arrives, and a hostile name. */
export const transfers: GridCell[] = [
  { pair: { from: "slac/rclone", to: "10.77.0.2" }, value: 162e6, median_7d: 410e6, at_us: NOW_US - 420e6, open_events: 1, run_id: "20261127T123914Z-b9ab14" },
  { pair: { from: "2001:db8::7", to: "slac/nginx" }, value: 38e6, median_7d: 37e6, at_us: NOW_US - 420e6, open_events: 0, run_id: "20261127T123914Z-b9ab14" },
  { pair: { from: "slac/<img src=x onerror=alert(1)>", to: "192.0.2.9" }, value: 1e6, at_us: NOW_US - 50 * HOUR_US, open_events: 0 },
];

/** Of two days: one with two limits, one that arrives, and a hostile name. */
export const dailyTransfers: DailyTransferList = {
  rows: [
    { day: "2026-09-12", host: "slac", program: "rclone", peer: "10.77.0.2", sends: true, transfers: 144, bytes: 1.5e12, limits: [{ limiter: "receive_window", bytes: 1.2e12, share_ratio: 0.8 }, { limiter: "loss", bytes: 3e11, share_ratio: 0.2 }] },
    { day: "2026-09-12", host: "slac", program: "nginx", peer: "2001:db8::7", sends: false, transfers: 3, bytes: 4.2e9, limits: [{ limiter: "path_capacity", bytes: 4.2e9, share_ratio: 1 }] },
    { day: "2026-09-11", host: "slac", program: "<img src=x onerror=alert(1)>", peer: "192.0.2.9", sends: true, transfers: 1, bytes: 9e6, limits: [{ limiter: "unknown", bytes: 9e6, share_ratio: 1 }] },
  ],
  is_complete: false,
};

/** A mesh of many, for scale. */
export function crowd(size: number): GridCell[] {
  const out: GridCell[] = [];
  for (let a = 0; a < size; a++) {
    for (let b = 0; b < size; b++) {
      const luck = noise(a * size + b);
      if (a !== b) out.push({ pair: { from: `node${a}`, to: `node${b}` }, value: 1e9 * (luck > 0.995 ? 0.4 : 1 + luck * 0.03), median_7d: 1e9, at_us: NOW_US, open_events: luck > 0.998 ? 1 : 0 });
    }
  }
  return out;
}

export function routes(pair: Pair, beginUs: number, endUs: number): RouteRow[] {
  if (pair.from !== "slac" || pair.to !== "cesnet") return [];
  return routeFile.seen.filter(([at]) => at >= beginUs && at < endUs).map(([at_us, number]) => ({
    at_us, until_us: at_us, traces: 1, number, run_id: routeFile.runs[number] ?? "", hops: routeFile.routes[number] ?? [],
    change: at_us === 1_789_135_200_000_000 || number === 1 ? undefined : routeFile.change,
  }));
}

/** The values that the archive derives from a report; those of the program are tested there. */
function valuesOf(it: AnyReport): Pick<RunRow, "values" | "goodput_bps" | "streams" | "limited_by"> {
  if (it.kind === "path") return { values: { rtt_us: it.analysis.rtt && it.analysis.rtt.min_ns / 1000, loss_ratio: it.analysis.rtt?.loss_ratio, hops: it.observation.route?.hops.length } };
  if (it.kind === "available") return { values: { available_bps: it.analysis.forward?.available_bps, capacity_bps: it.analysis.forward?.capacity_bps } };
  if (it.kind === "load") return { values: { rtt_us: (it.analysis.idle?.rtt_median_ns ?? 0) / 1000, rtt_rise_us: (it.analysis.steps[0]?.rise_ns ?? 0) / 1000 } };
  if (it.kind === "flows") return { goodput_bps: it.analysis.transfers[0]?.run.goodput_bps, limited_by: it.analysis.transfers[0]?.run.limited_by, streams: it.observation.transfers[0]?.plan.streams };
  if (it.kind === "host") return { values: { limiting_settings: it.analysis.verdicts.filter((one) => one.grade === "limits").length, advised_settings: it.analysis.verdicts.filter((one) => one.grade === "advice").length } };
  const best = it.kind === "scan" ? it.analysis.directions[0]?.recommended : undefined;
  return best ? { goodput_bps: best.goodput_bps, streams: best.setting.streams, limited_by: best.limited_by, values: { window_bytes: best.setting.window_bytes } } : {};
}

export const runs: RunRow[] = [...reports.values()].map((it) => ({
  id: it.run.id,
  started_at: it.run.started_at,
  kind: it.kind,
  initiator_host: it.run.initiator.host,
  responder_host: it.run.responder.host,
  ...valuesOf(it),
  ...(it.kind === "throughput" && { goodput_bps: it.analysis.goodput_bps, limited_by: it.analysis.limited_by, streams: it.plan.streams }),
})).sort((a, b) => b.started_at.localeCompare(a.started_at));
runs.push({ id: "20260901T000000Z-bad000", started_at: "2026-09-01T00:00:00Z", kind: "throughput", initiator_host: "<img src=x onerror=alert(1)>", responder_host: "\u202eشبكة-الجامعة.example" });
