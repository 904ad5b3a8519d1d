// Light or dark: as the system says, unless the user says otherwise. Colours for canvases are
// read from the style sheet, so that there is one list of them.

export type Theme = "auto" | "light" | "dark";
const KEY = "longhaul.theme";

class ThemeState {
  choice = $state<Theme>("auto");
  /** Counts up whenever colours have changed: what is drawn by hand is drawn anew. */
  version = $state(0);

  start(): void {
    const kept = localStorage.getItem(KEY);
    this.set(kept === "light" || kept === "dark" ? kept : "auto");
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#changed());
  }

  set(choice: Theme): void {
    this.choice = choice;
    localStorage.setItem(KEY, choice);
    document.documentElement.dataset.theme = choice;
    this.#changed();
  }

  #changed(): void {
    known.clear();
    this.version++;
  }
}

export const theme = new ThemeState();

const known = new Map<string, string>();
let probe: HTMLElement | undefined;

/** Returns a colour of the style sheet by its name, such as `ink` for `--ink`. */
export function cssColour(name: string): string {
  void theme.version;
  let colour = known.get(name);
  if (colour === undefined) {
    if (!probe) {
      probe = document.createElement("i");
      probe.hidden = true;
      document.body.append(probe);
    }
    probe.style.color = `var(--${name})`;
    colour = getComputedStyle(probe).color;
    known.set(name, colour);
  }
  return colour;
}

/** Returns the same colour with an alpha value. */
export function translucent(name: string, alpha: number): string {
  const parts = cssColour(name).match(/[\d.]+/g) ?? [];
  return `rgba(${parts.slice(0, 3).join(", ")}, ${alpha})`;
}
