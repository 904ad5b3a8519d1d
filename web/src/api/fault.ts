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
  401: "Enter the agent's token; its operator has it. This page keeps the token for this browser tab only.",
  403: "The agent does not allow this request with this token. Ask the agent's operator for access.",
  404: "The archive's retention may have deleted it, or the link belongs to another agent.",
  429: "Wait a moment, then try again.",
  503: "The archive may be busy or unreachable. Read the agent's log with: journalctl -u longhaul-watch",
};

/** From an answer that is no success. */
export function refused(what: string, status: number, body: unknown): Fault {
  const known = isErrorBody(body) ? body.error : undefined;
  const why = known?.text ?? `the agent answered with status ${status}`;
  const hint = known?.hint ?? HINTS[status] ?? "Read the agent's log with: journalctl -u longhaul-watch";
  return new Fault(what, why, hint, status);
}

/** From a request that got no answer, or one that cannot be read. */
export function unanswered(what: string, cause: unknown): Fault {
  if (cause instanceof Fault) return cause;
  if (cause instanceof DOMException && cause.name === "TimeoutError") {
    return new Fault(what, "no answer within 20 s", "The agent or its archive is overloaded. Select a shorter range, or try again.");
  }
  if (cause instanceof SyntaxError) {
    return new Fault(what, "the answer is not JSON", "Check whether a proxy or a login page between this browser and the agent answers instead of the agent.");
  }
  return new Fault(what, "the agent does not answer", "Check that longhaul watch is running and reachable from this browser. This page retries automatically.");
}
