// A large square of cells as pixels: a million small rectangles would take a second to draw.

/** `rgb(…)` as the browser writes it, as one little-endian RGBA word. */
export function rgbaWord(colour: string): number {
  const [red = 0, green = 0, blue = 0] = (colour.match(/[\d.]+/g) ?? []).map(Number);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Of `colours`, row-major, what a view of `width` x `height` pixels shows; 0 is left clear. */
export function pixels(
  colours: Uint32Array,
  view: { count: number; side: number; x: number; y: number; width: number; height: number },
): Uint32Array<ArrayBuffer> {
  const { count, side, x, y, width, height } = view;
  const out = new Uint32Array(width * height);
  const columns = Int32Array.from({ length: width }, (_, at) => Math.floor((at + 0.5 + x) / side));
  for (let line = 0; line < height; line++) {
    const row = Math.floor((line + 0.5 + y) / side);
    if (row < 0 || row >= count) continue;
    for (let at = 0; at < width; at++) {
      const column = columns[at] as number;
      if (column >= 0 && column < count) out[line * width + at] = colours[row * count + column] as number;
    }
  }
  return out;
}
