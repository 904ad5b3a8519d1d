// Which page, of what. The hash carries it, so that a page can be kept, sent and opened again
// without the program knowing of pages.

export interface Place {
  page: string;
  /** What follows the page's name, decoded. */
  parts: string[];
  query: URLSearchParams;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function parse(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter((it) => it !== "").map(decoded);
  return { page: parts[0] ?? "overview", parts: parts.slice(1), query: new URLSearchParams(query) };
}

type Query = Record<string, string | number | undefined>;

/** A link to a page. Every part is escaped: host names come from elsewhere. */
export function link(page: string, parts: string[] = [], query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined) search.set(key, String(value));
  }
  const tail = search.size > 0 ? `?${search}` : "";
  return `#/${[page, ...parts].map(encodeURIComponent).join("/")}${tail}`;
}

/** A whole number of the query; absent where there is none. */
export function whole(query: URLSearchParams, key: string): number | undefined {
  const text = query.get(key);
  if (text === null || !/^-?\d{1,17}$/.test(text)) return undefined;
  return Number(text);
}
