/** Waits between attempts. */

import type { GoQueueError } from "./errors.js";

const FIRST_MS = 100;
const LONGEST_MS = 5_000;

/**
 * Each wait is twice as long as the one before, less up to half of it by chance, and never shorter
 * than the node asks for.
 */
export class Delays {
  private failures = 0;

  constructor(
    private readonly firstMs = FIRST_MS,
    private readonly longestMs = LONGEST_MS,
  ) {}

  /** How long to wait after an attempt that failed. */
  next(failed?: GoQueueError): number {
    const ms = Math.min(this.firstMs * 2 ** Math.min(this.failures, 16), this.longestMs);
    this.failures += 1;
    return Math.max(ms - (Math.random() * ms) / 2, failed?.retryAfterMs ?? 0);
  }

  /** Begin again with the shortest wait. */
  reset(): void {
    this.failures = 0;
  }

  /** The same bounds, without failures. */
  fresh(): Delays {
    return new Delays(this.firstMs, this.longestMs);
  }
}

/** Wait, or until the signal is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}
