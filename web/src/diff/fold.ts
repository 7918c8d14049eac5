// Two texts to the rows of a diff view: changes with a little context, long equal stretches folded. Pure and bounded: a
// diff of 200,000 lines costs no more than one pass over both.

import { diffArrays } from 'diff';

export type Row =
  | { kind: 'same' | 'add' | 'del'; text: string; oldNo?: number; newNo?: number }
  /** Equal lines that are left out. */
  | { kind: 'fold'; count: number };

export interface Diff {
  rows: Row[];
  added: number;
  removed: number;
  /** True when the change was too big to be matched line by line: it is shown as one block out, one block in. */
  coarse: boolean;
}

const context = 3;
/** Changed lines (after equal ends are cut off) up to which lines are matched. */
const matchMax = 4_000;
const editMax = 2_000;

function lines(text: string): string[] {
  if (text === '') return [];
  const out = text.split('\n');
  if (out[out.length - 1] === '') out.pop();
  return out;
}

export function diffLines(oldText: string, newText: string): Diff {
  const a = lines(oldText);
  const b = lines(newText);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;

  const all: Row[] = [];
  let added = 0;
  let removed = 0;
  let oldNo = 1;
  let newNo = 1;
  const same = (text: string) => all.push({ kind: 'same', text, oldNo: oldNo++, newNo: newNo++ });
  const del = (text: string) => (removed++, all.push({ kind: 'del', text, oldNo: oldNo++ }));
  const add = (text: string) => (added++, all.push({ kind: 'add', text, newNo: newNo++ }));

  for (let i = 0; i < head; i++) same(a[i] ?? '');
  const from = a.slice(head, a.length - tail);
  const to = b.slice(head, b.length - tail);
  const parts = from.length + to.length <= matchMax ? diffArrays(from, to, { maxEditLength: editMax }) : undefined;
  if (parts) {
    for (const p of parts) for (const text of p.value) p.added ? add(text) : p.removed ? del(text) : same(text);
  } else {
    from.forEach(del);
    to.forEach(add);
  }
  for (let i = a.length - tail; i < a.length; i++) same(a[i] ?? '');
  return { rows: fold(all), added, removed, coarse: parts === undefined };
}

// Keeps equal lines within `context` of a change; a stretch that would save less than three lines stays.
function fold(rows: Row[]): Row[] {
  const out: Row[] = [];
  let i = 0;
  while (i < rows.length) {
    if (rows[i]?.kind !== 'same') {
      out.push(rows[i++] as Row);
      continue;
    }
    let end = i;
    while (end < rows.length && rows[end]?.kind === 'same') end++;
    const before = i === 0 ? 0 : context;
    const after = end === rows.length ? 0 : context;
    const count = end - i - before - after;
    if (count < 3) for (let k = i; k < end; k++) out.push(rows[k] as Row);
    else {
      for (let k = i; k < i + before; k++) out.push(rows[k] as Row);
      out.push({ kind: 'fold', count });
      for (let k = end - after; k < end; k++) out.push(rows[k] as Row);
    }
    i = end;
  }
  return out;
}
