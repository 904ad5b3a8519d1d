// Files that the page gives: charts as PNG, data as JSON and CSV. Made in the browser, so that a
// token is never in an address.

import { cssColour } from "../theme.svelte.ts";

export function save(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name.replace(/[^\w.+-]+/g, "_").slice(0, 120);
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function saveJson(name: string, value: unknown): void {
  save(name, new Blob([JSON.stringify(value, null, 1)], { type: "application/json" }));
}

type CsvValue = string | number | null | undefined;

/** One field. A text that a spreadsheet would run as a formula is made a text. */
function field(value: CsvValue): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csv(head: string[], rows: CsvValue[][]): string {
  return [head, ...rows].map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
}

export function saveCsv(name: string, head: string[], rows: CsvValue[][]): void {
  save(name, new Blob([csv(head, rows)], { type: "text/csv" }));
}

const MARGIN = 12;
const HEAD = 22;

/** Canvases one below the other, each under its title, on the page's ground. */
export function savePng(name: string, title: string, charts: { title: string; canvas: HTMLCanvasElement }[]): void {
  const ratio = devicePixelRatio || 1;
  const width = Math.max(...charts.map((it) => it.canvas.width), 300) + 2 * MARGIN * ratio;
  const height = charts.reduce((sum, it) => sum + it.canvas.height + HEAD * ratio, (2 * MARGIN + HEAD) * ratio);
  const sheet = document.createElement("canvas");
  [sheet.width, sheet.height] = [width, height];
  const context = sheet.getContext("2d");
  if (!context) return;
  context.fillStyle = cssColour("panel");
  context.fillRect(0, 0, width, height);
  context.fillStyle = cssColour("ink");
  let y = MARGIN * ratio;
  const write = (text: string, weight: number) => {
    context.font = `${weight} ${13 * ratio}px system-ui, sans-serif`;
    context.fillText(text, MARGIN * ratio, y + 14 * ratio);
    y += HEAD * ratio;
  };
  write(title, 600);
  for (const chart of charts) {
    write(chart.title, 400);
    context.drawImage(chart.canvas, MARGIN * ratio, y);
    y += chart.canvas.height;
  }
  sheet.toBlob((blob) => blob && save(name, blob), "image/png");
}
