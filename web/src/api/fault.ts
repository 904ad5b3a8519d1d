// What went wrong between the page and the program, in words that say what to do.

import type { ErrorBody } from "./types.ts";

export class Fault extends Error {
  constructor(
    /** What was tried. */
    readonly what: string,
    /** Why it failed. */
    readonly why: string,
    /** What to do next. */
    readonly hint: string,
    readonly status?: number,
  ) {
    super(`${what}: ${why}`);
  }
}

function isErrorBody(body: unknown): body is ErrorBody {
  const error = (body as ErrorBody | null)?.error;
  return typeof error === "object" && error !== null && typeof error.text === "string";
}

const HINTS: Record<number, string> = {
  401: "Enter a token with the right `read`: the agent's operator has it.",
  403: "This token lacks the right. Ask the agent's operator for one that has it.",
  404: "It may have been removed by the archive's retention, or the link is of another agent.",
  429: "Wait a moment, then try again.",
  503: "The archive may be busy or away. The agent's log says more.",
};

/** From an answer that is no success. */
export function refused(what: string, status: number, body: unknown): Fault {
  const known = isErrorBody(body) ? body.error : undefined;
  const why = known?.text ?? `the agent answered with status ${status}`;
  const hint = known?.hint ?? HINTS[status] ?? "The agent's log says more (`journalctl -u longhaul-watch`).";
  return new Fault(what, why, hint, status);
}

/** From a request that got no answer, or one that cannot be read. */
export function unanswered(what: string, cause: unknown): Fault {
  if (cause instanceof Fault) return cause;
  if (cause instanceof DOMException && cause.name === "TimeoutError") {
    return new Fault(what, "no answer in 20 s", "The agent or its archive is overloaded. Ask for a shorter range, or try again.");
  }
  if (cause instanceof SyntaxError) {
    return new Fault(what, "the answer is not JSON", "Something between this browser and the agent answers in its place: a proxy, or a login page.");
  }
  return new Fault(what, "the agent does not answer", "See whether `longhaul watch` runs and can be reached from here; this page tries again by itself.");
}
