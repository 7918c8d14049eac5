// The transcript: events folded to turns and entries. Given the same events it is the same, wherever the connection was
// cut in between: nothing here looks at the clock or at what is on screen.

import { signal, type Signal } from '@preact/signals';
import type { ContentBlock, Dict, EventMeta, TurnResult } from '../wire/types';
import { dict, opt, str } from '../wire/types';
import { append, block, mergeTool, planItems, textOf } from './entries';
import type { CompactionEntry, Entry, NoteEntry, NoticeEntry, Origin, PlanEntry, TextEntry, ToolEntry, Turn } from './entries';
import { rev, type Flusher } from './flush';

/** Output this long after the end of a turn (by the gateway's clock, ms) no longer belongs to it. */
const lateMs = 2_000;

const roles: Record<string, TextEntry['kind']> = {
  user_message_chunk: 'user',
  agent_message_chunk: 'message',
  agent_thought_chunk: 'thought',
};

export class Transcript {
  /** All turns, oldest first; replaced when one is added. */
  readonly turns: Signal<readonly Turn[]> = signal<readonly Turn[]>([]);
  private list: Turn[] = [];
  private readonly shape = rev();
  private readonly byTurn = new Map<string, Turn>();
  private readonly byKey = new Map<string, Turn>();
  private readonly replayed = new Map<string, TextEntry>();
  // Id of the turn that output belongs to while it runs: a command of the gateway may come after it.
  private running: string | undefined;
  // Of what is folded in now, and of the entry that came last.
  private origin: Origin = 'live';
  private lastOrigin: Origin = 'live';
  private readonly tools = new Map<string, { turn: Turn; entry: ToolEntry }>();
  private readonly messages = new Map<string, { turn: Turn; entry: TextEntry }>();
  private readonly compactions = new Map<string, CompactionEntry>();
  private readonly flusher: Flusher;
  private count = 0;

  constructor(flusher: Flusher) {
    this.flusher = flusher;
    this.shape.subscribe(() => {
      this.turns.value = this.list.slice();
    });
  }

  get last(): Turn | undefined {
    return this.list[this.list.length - 1];
  }

  turn(id: string): Turn | undefined {
    return this.byTurn.get(id);
  }

  /** True when the prompt with this key is in the transcript. */
  hasKey(key: string): boolean {
    return this.byKey.has(key);
  }

  /** Forgets everything, before a replay builds it again. */
  reset(): void {
    this.list = [];
    this.running = undefined;
    this.lastOrigin = 'live';
    for (const m of [this.byTurn, this.byKey, this.replayed, this.tools, this.messages, this.compactions]) m.clear();
    this.flusher.mark(this.shape);
  }

  /** A turn of our own begins; blocks are what was sent. Known turns stay as they are. */
  begin(id: string, key: string | undefined, blocks: readonly ContentBlock[]): void {
    this.origin = 'live';
    const known = this.byTurn.get(id) ?? (key === undefined ? undefined : this.byKey.get(key));
    if (known) this.byTurn.set(id, known);
    else this.push(this.open(id, key, false), { kind: 'user', ...this.base(), blocks: [...blocks] });
  }

  /** The turn that runs now, from the view's state; undefined when none does. */
  runs(id: string | undefined): void {
    this.running = id;
  }

  /** The turn ended. Unknown turns (trimmed, or of another client and still without text) are ignored. */
  finish(id: string, result: TurnResult, ts: number | undefined): void {
    const turn = this.byTurn.get(id);
    if (!turn) return;
    if (this.running === id) this.running = undefined;
    if (turn.end) {
      // The answer to the prompt may come before the event that has the time.
      if (ts !== undefined) turn.end.ts ??= ts;
      return;
    }
    turn.end = { ...result, ...opt('ts', ts) };
    this.flusher.mark(turn.rev);
  }

  /** Folds one session/update in. Updates that only change the session's state must not come here. */
  apply(update: Dict, meta: EventMeta): void {
    const name = str(update['sessionUpdate']) ?? 'unknown';
    this.origin = originOf(meta);
    if (meta.kind === 'notice') return this.notice(update);
    if (meta.kind === 'report') return this.report(update);
    if (meta.kind === 'gap') return this.push(this.host(undefined, meta), { kind: 'gap', ...this.base(), omitted: meta.omitted ?? 0 });
    if (meta.kind === 'context' && meta.context) return this.note(update, meta.context);
    const role = roles[name];
    if (role && this.again(update, meta)) return;
    if (role === 'user') return meta.turn !== undefined || meta.kind === 'prompt' ? this.prompt(update, meta) : this.replayedUser(update, meta);
    if (role) return this.text(role, update, meta);
    switch (name) {
      case 'tool_call':
      case 'tool_call_update':
        return this.tool(name, update, meta);
      case 'plan':
        return this.plan(update, meta);
      case 'notice':
        return this.notice(update);
      case 'compaction_update':
      case 'compaction_summary_chunk':
        return this.compaction(name, update, meta);
      default:
        this.push(this.host(undefined, meta), { kind: 'unknown', ...this.base(), name, update });
    }
  }

  private base(): { id: string; rev: Signal<number> } {
    return { id: `e${++this.count}`, rev: rev() };
  }

  private open(id: string, key: string | undefined, background: boolean): Turn {
    const turn: Turn = { id, rev: rev(), background, entries: [], answered: false, ...opt('key', key) };
    this.list.push(turn);
    this.byTurn.set(id, turn);
    if (key !== undefined) this.byKey.set(key, turn);
    this.flusher.mark(this.shape);
    return turn;
  }

  private push(turn: Turn, entry: Entry): void {
    if (this.origin !== this.lastOrigin) entry.begins = this.lastOrigin = this.origin;
    turn.entries.push(entry);
    if (entry.kind !== 'user' && entry.kind !== 'notice' && entry.kind !== 'note') turn.answered = true;
    this.flusher.mark(turn.rev);
  }

  private touch(entry: Entry): void {
    this.flusher.mark(entry.rev);
  }

  // The turn that output belongs to: the open one; the one that just ended, when this continues it or comes right
  // after it; else a background turn (CASES 25 and 27).
  private host(update: Dict | undefined, meta: EventMeta): Turn {
    const current = this.running === undefined ? undefined : this.byTurn.get(this.running);
    if (current) return current;
    const last = this.last;
    if (!last) return this.open(`b${++this.count}`, undefined, true);
    const end = last.end;
    if (!end) return last;
    const id = update ? str(update['messageId']) : undefined;
    if (id !== undefined && this.messages.get(messageKey('message', id))?.turn === last) return last;
    if (meta.ts === undefined || end.ts === undefined || meta.ts - end.ts <= lateMs) return last;
    return this.open(`b${++this.count}`, undefined, true);
  }

  // The entry that more text would join: notices and plans in between do not split a message.
  private tail(turn: Turn): Entry | undefined {
    for (let i = turn.entries.length - 1; i >= 0; i--) {
      const e = turn.entries[i];
      if (e && e.kind !== 'notice' && e.kind !== 'note' && e.kind !== 'plan') return e;
    }
    return undefined;
  }

  private text(kind: 'message' | 'thought', update: Dict, meta: EventMeta): void {
    const content = block(update['content']);
    const id = str(update['messageId']);
    if (content.type === 'text' && content.text === '') return;
    const turn = this.host(update, meta);
    if (id !== undefined) {
      const known = this.messages.get(messageKey(kind, id));
      if (known && known.turn !== turn) return this.extend(known.entry, content);
    }
    const tail = this.tail(turn);
    if (tail?.kind === kind && tail.messageId === id) return this.extend(tail, content);
    const entry: TextEntry = { kind, ...this.base(), blocks: [content], ...opt('messageId', id) };
    if (meta.entry !== undefined) this.replayed.set(meta.entry, entry);
    if (id !== undefined) this.messages.set(messageKey(kind, id), { turn, entry });
    this.push(turn, entry);
  }

  private extend(entry: TextEntry, content: ContentBlock): void {
    append(entry.blocks, content);
    this.touch(entry);
  }

  // A replayed entry that is here already is replaced, not said twice. True when it was.
  private again(update: Dict, meta: EventMeta): boolean {
    const known = meta.entry === undefined ? undefined : this.replayed.get(meta.entry);
    if (!known || meta.part !== undefined) return false;
    known.blocks = [block(update['content'])];
    this.touch(known);
    return true;
  }

  // The text of a prompt, told to the other clients and on replay. The prompter has it already, under the same turn.
  private prompt(update: Dict, meta: EventMeta): void {
    const content = block(update['content']);
    const id = meta.turn ?? meta.key ?? `p${++this.count}`;
    // The turn before is over. If this is a command beside a running turn, the state that follows says so.
    this.running = undefined;
    const known = this.byTurn.get(id) ?? (meta.key === undefined ? undefined : this.byKey.get(meta.key));
    if (!known) {
      const turn = this.open(id, meta.key, false);
      const entry: TextEntry = { kind: 'user', ...this.base(), blocks: [content], messageId: told };
      if (meta.entry !== undefined) this.replayed.set(meta.entry, entry);
      this.push(turn, entry);
      return;
    }
    this.byTurn.set(id, known);
    const first = known.entries[0];
    if (first?.kind === 'user' && first.messageId === told && !known.answered) {
      first.blocks.push(content);
      this.touch(first);
    }
  }

  // A user message in an agent's own replay of its history, or the echo that some agents send of a live prompt.
  private replayedUser(update: Dict, meta: EventMeta): void {
    const content = block(update['content']);
    const id = str(update['messageId']);
    const last = this.last;
    const first = last?.entries[0];
    if (last && first?.kind === 'user' && !last.answered && !last.end) {
      if (last.id.startsWith('h')) {
        if (first.messageId === id) return this.extend(first, content);
      } else if (content.type === 'text' && textOf(first.blocks).startsWith(content.text.trim())) {
        return;
      }
    }
    const turn = this.open(`h${++this.count}`, undefined, false);
    const entry: TextEntry = { kind: 'user', ...this.base(), blocks: [content], ...opt('messageId', id) };
    if (meta.entry !== undefined) this.replayed.set(meta.entry, entry);
    // What the agent goes on to say in the turn that runs belongs behind it.
    if (this.running !== undefined) this.byTurn.set(this.running, turn);
    this.push(turn, entry);
  }

  // Updates find their call wherever it is; a tool_call with the id of a call of an earlier turn is a new one, as some
  // agents count from 1 in every turn. Some send the update first.
  private tool(name: string, update: Dict, meta: EventMeta): void {
    const id = str(update['toolCallId']) ?? '';
    const known = this.tools.get(id);
    if (known && (name === 'tool_call_update' || known.turn === this.last)) {
      known.entry.call = mergeTool(known.entry.call, update);
      known.turn.answered = true;
      return this.touch(known.entry);
    }
    const turn = this.host(undefined, meta);
    const entry: ToolEntry = { kind: 'tool', ...this.base(), call: mergeTool(undefined, update) };
    this.tools.set(id, { turn, entry });
    this.push(turn, entry);
  }

  // One plan per turn, where it first appeared.
  private plan(update: Dict, meta: EventMeta): void {
    const items = planItems(update['entries']);
    const turn = this.host(undefined, meta);
    const known = turn.entries.find((e): e is PlanEntry => e.kind === 'plan');
    if (known) {
      known.items = items;
      return this.touch(known);
    }
    this.push(turn, { kind: 'plan', ...this.base(), items });
  }

  private notice(update: Dict): void {
    const content = dict(update['content']);
    const text = str(content['text']) ?? str(update['title']) ?? str(update['text']) ?? '';
    if (text === '') return;
    const s = str(update['severity']);
    const severity: NoticeEntry['severity'] = s === 'warning' || s === 'error' ? s : 'info';
    const entry: NoticeEntry = { kind: 'notice', ...this.base(), text, severity, ...opt('detail', str(update['description'])) };
    this.push(this.aside(), entry);
  }

  // Where a line of the gateway goes: it is no output of the agent.
  private aside(): Turn {
    return this.last ?? this.open(`n${++this.count}`, undefined, false);
  }

  // It answers a command, which need not be the turn that runs.
  private report(update: Dict): void {
    const text = str(dict(update['content'])['text']) ?? '';
    this.push(this.aside(), { kind: 'report', ...this.base(), text });
  }

  // A note has one card, wherever it is told again.
  private note(update: Dict, context: Dict): void {
    const note = str(context['id']) ?? '';
    if (this.noted(note, str(context['state']) ?? '')) return;
    const source = dict(context['source']);
    this.push(this.aside(), {
      kind: 'note',
      ...this.base(),
      note,
      text: str(context['text']) ?? str(dict(update['content'])['text']) ?? '',
      state: str(context['state']) ?? 'pending',
      ...opt('session', str(source['session'])),
      ...opt('title', str(source['title'])),
    });
  }

  /** The agent has got a note, or lost it again. True when the note is known. */
  noted(note: string, state: string): boolean {
    for (const turn of this.list) {
      const entry = turn.entries.find((e): e is NoteEntry => e.kind === 'note' && e.note === note);
      if (!entry) continue;
      if (state !== '') entry.state = state;
      this.touch(entry);
      return true;
    }
    return false;
  }

  private compaction(name: string, update: Dict, meta: EventMeta): void {
    const id = str(update['compactionId']) ?? '';
    let entry = this.compactions.get(id);
    if (!entry) {
      entry = { kind: 'compaction', ...this.base(), compactionId: id, status: 'in_progress', summary: [] };
      this.compactions.set(id, entry);
      this.push(this.host(undefined, meta), entry);
    }
    if (name === 'compaction_summary_chunk') append(entry.summary, block(update['content']));
    else {
      entry.status = str(update['status']) ?? entry.status;
      if (Array.isArray(update['summary'])) entry.summary = update['summary'].map(block);
      const error = str(update['error']);
      if (error !== undefined) entry.error = error;
    }
    this.touch(entry);
  }
}

// Only a replay of the transcript names its entries: what an attachment missed for a moment is no history.
function originOf(meta: EventMeta): Origin {
  if (!meta.replay || meta.entry === undefined) return 'live';
  return meta.inherited ? 'inherited' : 'replay';
}

// Marks the user entry that prompt events built, to which further blocks of the same prompt are added.
const told = '\u0000prompt';

function messageKey(kind: string, id: string): string {
  return `${kind} ${id}`;
}

/**
 * The entries as plain data, without keys, revisions and marks of replays: what two clients must agree on. How entries fall into turns is
 * left out, as the end of a turn is not told again to a client that was away.
 */
export function plain(t: Transcript): unknown[] {
  return t.turns.value.flatMap((turn) =>
    turn.entries.map((e) => {
      const { id: _id, rev: _rev, begins: _begins, ...rest } = e;
      return rest.kind === 'user' ? { kind: 'user', blocks: rest.blocks } : rest;
    }),
  );
}
