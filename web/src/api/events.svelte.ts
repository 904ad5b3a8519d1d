// The open events, which the page's frame and its overview show, read once for both.

import { hidden } from "../hidden.svelte.ts";
import { isOpen } from "../labels.ts";
import { now } from "../time.ts";
import { api } from "./fetch.ts";
import { Loader } from "./loader.svelte.ts";
import type { Event } from "./types.ts";

class EventList {
  /** Those that are open, also silenced ones. */
  all = new Loader<Event[]>();
  /** The open events of the paths that are not hidden; those of several paths stand for their parts. */
  open = $derived(hidden.without(this.all.value ?? []).filter((it) => !it.part_of && isOpen(it, now())));

  read = (): Promise<void> => this.all.load((signal) => api.events({ open: "true", limit: 1000 }, signal));
}

export const eventList = new EventList();
