// The page on a screen that nobody operates: without controls, read again by itself.

import { live } from "./api/live.svelte.ts";

const EVERY_MS = 60_000;

class KioskMode {
  on = $state(false);
  #timer: ReturnType<typeof setInterval> | undefined;

  start(): void {
    if (new URLSearchParams(location.search).has("kiosk")) this.set(true);
  }

  set(on: boolean): void {
    this.on = on;
    document.documentElement.toggleAttribute("data-kiosk", on);
    history.replaceState(null, "", `${location.pathname}${on ? "?kiosk" : ""}${location.hash}`);
    clearInterval(this.#timer);
    // Ages and ranges of time go on without news.
    this.#timer = on ? setInterval(() => live.resumed++, EVERY_MS) : undefined;
  }

  key(event: KeyboardEvent): void {
    const typing = event.target instanceof HTMLElement && event.target.matches("input, textarea, select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "k") this.set(!this.on);
    else if (event.key === "Escape" && this.on) this.set(false);
  }
}

export const kiosk = new KioskMode();
