// Prompts on their way: from the moment they are typed until the gateway has answered them, over any number of
// connections. Each carries a key, so sending one again never starts a second turn (DESIGN V16).

import type { ContentBlock } from '../wire/types';
import type { Problem } from '../wire/problem';
import { opt } from '../wire/types';
import { textOf } from './entries';

export type Phase =
  /** No connection yet. */
  | 'waiting'
  /** Written to the socket, nothing heard. */
  | 'sent'
  /** In the gateway's queue. */
  | 'queued'
  /** Its turn began: it is in the transcript. */
  | 'running'
  /** Refused; kept so that its text is not lost. */
  | 'failed';

export interface Outgoing {
  readonly key: string;
  readonly blocks: readonly ContentBlock[];
  readonly phase: Phase;
  readonly turn?: string;
  readonly problem?: Problem;
  /** Answered by nobody on this connection yet. */
  readonly inflight: boolean;
}

/** The part of window.sessionStorage that is used: a reload keeps it, another tab does not see it. */
export interface Shelf {
  getItem(k: string): string | null;
  setItem(k: string, v: string): void;
  removeItem(k: string): void;
}

/** Larger prompts (images) are not kept over a reload, in characters of JSON. */
const keepMax = 1_000_000;

export function newKey(): string {
  const b = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(b, (x) => x.toString(16).padStart(2, '0')).join('');
}

export function outgoing(blocks: readonly ContentBlock[], key = newKey()): Outgoing {
  return { key, blocks, phase: 'waiting', inflight: false };
}

/** Replaces the item with key; the list is returned as it is when there is none. */
export function patch(items: readonly Outgoing[], key: string, change: Partial<Outgoing>): readonly Outgoing[] {
  if (!items.some((i) => i.key === key)) return items;
  return items.map((i) => (i.key === key ? { ...i, ...change } : i));
}

export function without(items: readonly Outgoing[], key: string): readonly Outgoing[] {
  return items.filter((i) => i.key !== key);
}

/** A short line that stands for a prompt. */
export function summary(blocks: readonly ContentBlock[]): string {
  const text = textOf(blocks).trim();
  if (text) return text;
  return blocks.length === 1 ? 'an attachment' : `${blocks.length} attachments`;
}

function shelfKey(session: string): string {
  return `acpgate.outbox.${session}`;
}

export function save(shelf: Shelf, session: string, items: readonly Outgoing[]): void {
  const rows = items.map((i) => ({ key: i.key, blocks: i.blocks, ...opt('failed', i.phase === 'failed' ? true : undefined) }));
  const json = JSON.stringify(rows);
  try {
    if (rows.length === 0 || json.length > keepMax) shelf.removeItem(shelfKey(session));
    else shelf.setItem(shelfKey(session), json);
  } catch {
    // A full or forbidden storage only means that a reload forgets what is on its way.
    shelf.removeItem(shelfKey(session));
  }
}

export function restore(shelf: Shelf, session: string): Outgoing[] {
  try {
    const rows: unknown = JSON.parse(shelf.getItem(shelfKey(session)) ?? '[]');
    if (!Array.isArray(rows)) return [];
    return rows
      .filter((r): r is { key: string; blocks: ContentBlock[]; failed?: boolean } => typeof r?.key === 'string' && Array.isArray(r?.blocks))
      .map((r) => ({ ...outgoing(r.blocks, r.key), phase: r.failed ? 'failed' : 'waiting' }));
  } catch {
    return [];
  }
}
