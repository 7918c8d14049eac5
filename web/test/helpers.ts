import { vi } from 'vitest';
import { Flusher } from '../src/store/flush';
import { Link, type LinkDeps } from '../src/store/link';
import type { Shelf } from '../src/store/outbox';
import type { Ask } from '../src/store/asks';
import type { FakeGateway } from './fakegateway';

export function memoryShelf(): Shelf & { map: Map<string, string> } {
  const map = new Map<string, string>();
  return { map, getItem: (k) => map.get(k) ?? null, setItem: (k, v) => void map.set(k, v), removeItem: (k) => void map.delete(k) };
}

export interface Page {
  link: Link;
  announced: Ask[];
  shelf: Shelf;
}

export function page(gw: FakeGateway, over: Partial<LinkDeps> = {}, shelf: Shelf = memoryShelf()): Page {
  const announced: Ask[] = [];
  const link = new Link('', {
    open: gw.open,
    whoami: () => Promise.resolve('ok'),
    random: () => 0.5,
    session: { flusher: new Flusher((run) => run()), shelf, announce: (_s, a) => void announced.push(a), staged: () => undefined, turnEnded: () => undefined },
    ...over,
  });
  return { link, announced, shelf };
}

/** Lets everything that is due happen. */
export async function settle(ms = 0): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  for (let i = 0; i < 200; i++) await Promise.resolve();
  await vi.advanceTimersByTimeAsync(0);
}

/** A small deterministic random generator, so that a failing run can be repeated. */
export function lcg(seed: number): () => number {
  let s = seed >>> 0;
  return () => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0;
    return s / 2 ** 32;
  };
}
