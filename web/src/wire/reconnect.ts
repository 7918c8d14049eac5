// When to try again. Pure: time and chance come from outside.

import type { Advice } from './close';

export interface Backoff {
  /** Failed tries since the last connection that held. */
  failures: number;
  advice: Advice;
}

const firstNow = 250;
const firstLater = 2_000;
const base = 500;
const ceiling = 30_000;
/** A connection that lived as long as this has proved that the way is clear again, in ms. */
export const steadyMs = 10_000;

/**
 * Milliseconds to wait before the next try, or undefined when the close-code table says never. The first try after a
 * loss comes almost at once; later ones double up to 30 s. All are jittered over their upper half, so that a thousand
 * pages do not come back in one instant.
 */
export function nextDelay(b: Backoff, random: () => number): number | undefined {
  if (b.advice === 'never') return undefined;
  const floor = b.advice === 'later' ? firstLater : firstNow;
  const span = b.failures === 0 ? floor : Math.min(ceiling, Math.max(floor, base * 2 ** Math.min(b.failures, 16)));
  return Math.round(span / 2 + (span / 2) * random());
}
