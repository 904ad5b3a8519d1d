// The time zone in which the page shows times: UTC, or that of the browser.

export type TimeZone = "utc" | "local";
const KEY = "longhaul.zone";

class ZoneState {
  choice = $state<TimeZone>("utc");

  start(): void {
    this.choice = localStorage.getItem(KEY) === "local" ? "local" : "utc";
  }

  set(choice: TimeZone): void {
    this.choice = choice;
    localStorage.setItem(KEY, choice);
  }
}

export const zone = new ZoneState();

/** Minutes that the shown time is ahead of UTC at a moment. */
export function offsetMinutes(at: Date): number {
  return zone.choice === "local" ? -at.getTimezoneOffset() : 0;
}

/** `UTC`, or the local offset as `UTC+5:30`. */
export function zoneName(at: Date = new Date()): string {
  const offset = offsetMinutes(at);
  if (zone.choice === "utc" || offset === 0) return "UTC";
  const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60];
  return `UTC${offset < 0 ? "−" : "+"}${hours}${minutes > 0 ? `:${String(minutes).padStart(2, "0")}` : ""}`;
}

/** The moment as an ISO text in the shown zone, `2026-11-22T08:54:09.120`. */
export function shownIso(at: Date): string {
  return new Date(at.getTime() + offsetMinutes(at) * 60_000).toISOString().slice(0, -1);
}

/** The moment that an ISO text without a zone means in the shown zone; absent if it is none. */
export function parseShown(text: string): Date | undefined {
  const at = new Date(zone.choice === "local" ? text : `${text}Z`);
  return Number.isNaN(at.getTime()) ? undefined : at;
}
