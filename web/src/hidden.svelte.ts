// The paths that this browser does not show, such as one that is known to be down.

import type { Pair } from "./api/types.ts";

const KEY = "longhaul.hidden";
const same = (a: Pair, b: Pair) => a.from === b.from && a.to === b.to;

class HiddenPaths {
  pairs = $state.raw<Pair[]>([]);

  start(): void {
    try {
      const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]") as unknown;
      const isPair = (it: Partial<Pair> | null) => typeof it?.from === "string" && typeof it.to === "string";
      this.pairs = Array.isArray(kept) ? kept.filter(isPair) : [];
    } catch {
      this.pairs = [];
    }
  }

  has(pair: Pair): boolean {
    return this.pairs.some((it) => same(it, pair));
  }

  set(pair: Pair, hide: boolean): void {
    const others = this.pairs.filter((it) => !same(it, pair));
    this.pairs = hide ? [...others, { from: pair.from, to: pair.to }] : others;
    localStorage.setItem(KEY, JSON.stringify(this.pairs));
  }

  /** The rows of paths that are not hidden, and those without a path. */
  without<T extends { pair?: Pair | null }>(rows: T[]): T[] {
    return this.pairs.length === 0 ? rows : rows.filter((it) => !it.pair || !this.has(it.pair));
  }
}

export const hidden = new HiddenPaths();
