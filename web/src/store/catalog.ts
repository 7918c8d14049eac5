// The list of sessions at the left: what session/list of each agent says, patched by what passes through us.

import { signal } from '@preact/signals';
import { toProblem, type Problem } from '../wire/problem';
import { dict, list, opt, str } from '../wire/types';
import type { Link } from './link';

export interface Row {
  sessionId: string;
  agent: string;
  cwd: string;
  title?: string;
  /** Unix ms. */
  updatedAt?: number;
}

/** Reads one page of session/list. Rows without an id are left out. */
export function rowsOf(agent: string, result: unknown): { rows: Row[]; next: string | undefined } {
  const r = dict(result);
  const rows: Row[] = [];
  for (const s of list(r['sessions']).map(dict)) {
    const sessionId = str(s['sessionId']);
    if (sessionId === undefined) continue;
    const at = Date.parse(str(s['updatedAt']) ?? '');
    rows.push({ sessionId, agent, cwd: str(s['cwd']) ?? '', ...opt('title', str(s['title'])), ...opt('updatedAt', Number.isNaN(at) ? undefined : at) });
  }
  const next = str(r['nextCursor']);
  return { rows, next: next === '' ? undefined : next };
}

/** Newest activity first; rows without a time last; ties keep their order. */
export function sorted(rows: readonly Row[]): Row[] {
  return [...rows].sort((a, b) => (b.updatedAt ?? -1) - (a.updatedAt ?? -1));
}

/** Adds rows to known ones; of two with one id the later wins. */
export function merged(known: readonly Row[], more: readonly Row[]): Row[] {
  const byId = new Map(known.map((r) => [`${r.agent} ${r.sessionId}`, r]));
  for (const r of more) byId.set(`${r.agent} ${r.sessionId}`, r);
  return sorted([...byId.values()]);
}

/** Case-insensitive words, each of which must be in the title, the directory or the id. */
export function matches(row: Row, query: string): boolean {
  const hay = `${row.title ?? ''} ${row.cwd} ${row.sessionId}`.toLowerCase();
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((w) => hay.includes(w));
}

export class Catalog {
  readonly rows = signal<readonly Row[]>([]);
  readonly loading = signal(false);
  readonly problem = signal<Problem | undefined>(undefined);
  /** More pages can be had. */
  readonly more = signal(false);
  private readonly next = new Map<string, string>();
  private readonly busy = new Map<string, Promise<void>>();
  private readonly again = new Set<string>();

  /** Reads the first page of an agent again. One walk per agent at a time; calls meanwhile join into one more. */
  refresh(link: Link): Promise<void> {
    const running = this.busy.get(link.agent);
    if (running) {
      this.again.add(link.agent);
      return running;
    }
    const run = this.page(link, undefined).finally(() => {
      this.busy.delete(link.agent);
      if (this.again.delete(link.agent)) void this.refresh(link);
    });
    this.busy.set(link.agent, run);
    return run;
  }

  /** Reads the next page of each agent that has one. */
  async extend(links: readonly Link[]): Promise<void> {
    for (const link of links) {
      const cursor = this.next.get(link.agent);
      if (cursor !== undefined && !this.busy.has(link.agent)) await this.page(link, cursor);
    }
  }

  remove(agent: string, sessionId: string): void {
    this.rows.value = this.rows.value.filter((r) => r.agent !== agent || r.sessionId !== sessionId);
  }

  private async page(link: Link, cursor: string | undefined): Promise<void> {
    this.loading.value = true;
    try {
      const connection = await link.connected();
      const result = await connection.request('session/list', cursor === undefined ? {} : { cursor });
      const { rows, next } = rowsOf(link.name, result);
      if (next === undefined || next === cursor) this.next.delete(link.agent);
      else this.next.set(link.agent, next);
      const others = cursor === undefined ? this.rows.value.filter((r) => r.agent !== link.name) : this.rows.value;
      this.rows.value = merged(others, rows);
      this.problem.value = undefined;
    } catch (e) {
      this.problem.value = toProblem(e);
    } finally {
      this.more.value = this.next.size > 0;
      this.loading.value = false;
    }
  }
}
