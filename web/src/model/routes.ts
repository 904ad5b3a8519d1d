// Routes over time, and the comparison of two routes.

import type { PathReport, RouteHop, RouteRow } from "../api/types.ts";

/** A period in which every trace found the same route. */
export interface RoutePeriod { number: number; beginUs: number; endUs: number; row: RouteRow }

/** From the first trace that saw it to the first that saw another; the last one to `untilUs`. */
export function routePeriods(rows: RouteRow[], untilUs: number): RoutePeriod[] {
  const out: RoutePeriod[] = [];
  for (const row of rows.toSorted((a, b) => a.at_us - b.at_us)) {
    const last = out.at(-1);
    if (last) last.endUs = row.at_us;
    if (last?.number !== row.number) {
      out.push({ number: row.number, beginUs: row.at_us, endUs: row.at_us, row });
    }
  }
  const last = out.at(-1);
  if (last) last.endUs = Math.max(last.endUs, untilUs);
  return out;
}

/** `silent`: one of the two did not answer there, so nothing can be said. */
export type HopRelation = "same" | "changed" | "only_here" | "only_there" | "silent";
export interface HopPair { here?: RouteHop; there?: RouteHop; kind: HopRelation }

/** The longest list of hops in common, in order; what lies between is laid side by side. */
export function diff(here: RouteHop[], there: RouteHop[]): HopPair[] {
  const out: HopPair[] = [];
  let [i, j] = [0, 0];
  for (const [a, b] of [...common(here, there), [here.length, there.length] as const]) {
    out.push(...between(here.slice(i, a), there.slice(j, b)));
    const [same, twin] = [here[a], there[b]];
    if (same && twin) out.push({ here: same, there: twin, kind: "same" });
    [i, j] = [a + 1, b + 1];
  }
  return out;
}

function between(here: RouteHop[], there: RouteHop[]): HopPair[] {
  return Array.from({ length: Math.max(here.length, there.length) }, (_, at) => {
    const [a, b] = [here[at], there[at]];
    if (!a) return { there: b, kind: "only_there" };
    if (!b) return { here: a, kind: "only_here" };
    const [silent, mute] = [a.address === undefined, b.address === undefined];
    return { here: a, there: b, kind: silent && mute ? "same" : silent || mute ? "silent" : "changed" };
  });
}

/** Index pairs of the longest common subsequence of answering addresses. */
function common(here: RouteHop[], there: RouteHop[]): [number, number][] {
  const width = there.length + 1;
  const length = new Uint16Array((here.length + 1) * width);
  const at = (i: number, j: number) => length[i * width + j] ?? 0;
  const equal = (i: number, j: number) =>
    here[i]?.address !== undefined && here[i]?.address === there[j]?.address;
  for (let i = here.length - 1; i >= 0; i--) {
    for (let j = there.length - 1; j >= 0; j--) {
      length[i * width + j] = equal(i, j) ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const out: [number, number][] = [];
  for (let i = 0, j = 0; i < here.length && j < there.length; ) {
    if (equal(i, j)) out.push([i++, j++]);
    else if (at(i + 1, j) >= at(i, j + 1)) i++;
    else j++;
  }
  return out;
}

/** Hops of a whole path report, in the form of the list of routes. */
export function hopsOf(report: PathReport): RouteHop[] {
  const delays = new Map(report.analysis.hops.map((it) => [it.ttl, it.rtt_min_ns]));
  return (report.observation.route?.hops ?? []).map((hop) => {
    const [answer] = hop.answers;
    const ns = delays.get(hop.ttl);
    return {
      ttl: hop.ttl,
      address: answer?.address,
      name: answer?.name,
      rtt_us: ns === undefined ? undefined : ns / 1000,
    };
  });
}

const CHANGES: Record<string, string> = {
  same: "unchanged",
  silent_hop: "unchanged as far as hops answered",
  stutter: "a router answers at several TTLs",
  last_octet: "addresses differ only in the last octet",
  same_as: "other routers in the same AS",
  one_hop: "one hop differs",
  several_hops: "several hops differ",
  end_not_reached: "destination not reached",
};

export const changeText = (kind: string) => CHANGES[kind] ?? kind.replaceAll("_", " ");
