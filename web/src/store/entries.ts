// What a transcript is made of.

import type { Signal } from '@preact/signals';
import type { ContentBlock, Dict, TurnResult } from '../wire/types';
import { dict, list, num, opt, str } from '../wire/types';

export interface PlanItem {
  content: string;
  priority: string;
  status: string;
}

export type ToolStatus = 'pending' | 'in_progress' | 'completed' | 'failed';

export type ToolContent =
  | { type: 'content'; content: ContentBlock }
  | { type: 'diff'; path: string; oldText: string; newText: string; created: boolean }
  | { type: 'terminal'; terminalId: string };

export interface ToolCall {
  toolCallId: string;
  title: string;
  kind: string;
  status: ToolStatus;
  content: ToolContent[];
  locations: { path: string; line?: number }[];
  rawInput?: unknown;
  rawOutput?: unknown;
}

/** How an entry came here: live, as history that was replayed, or as history that a child has from its parent. */
export type Origin = 'live' | 'replay' | 'inherited';

interface Base {
  /** Unique in the transcript, for keys. */
  readonly id: string;
  /** Grows when the entry changed. */
  readonly rev: Signal<number>;
  /** The first entry of another origin than the one before it. A transcript that begins live has no mark there. */
  begins?: Origin;
}

export interface TextEntry extends Base {
  readonly kind: 'user' | 'message' | 'thought';
  readonly messageId?: string;
  blocks: ContentBlock[];
}
export interface ToolEntry extends Base {
  readonly kind: 'tool';
  call: ToolCall;
}
export interface PlanEntry extends Base {
  readonly kind: 'plan';
  items: PlanItem[];
}
export interface NoticeEntry extends Base {
  readonly kind: 'notice';
  text: string;
  detail?: string;
  severity: 'info' | 'warning' | 'error';
}
/** What the gateway answers to one of its own commands. */
export interface ReportEntry extends Base {
  readonly kind: 'report';
  readonly text: string;
}
/** What a side conversation brought home. */
export interface NoteEntry extends Base {
  readonly kind: 'note';
  readonly note: string;
  readonly text: string;
  /** The side conversation. */
  readonly session?: string;
  readonly title?: string;
  /** pending until the agent has it, then delivered. */
  state: string;
}
export interface GapEntry extends Base {
  readonly kind: 'gap';
  readonly omitted: number;
}
export interface CompactionEntry extends Base {
  readonly kind: 'compaction';
  readonly compactionId: string;
  status: string;
  summary: ContentBlock[];
  error?: string;
}
export interface UnknownEntry extends Base {
  readonly kind: 'unknown';
  readonly name: string;
  readonly update: Dict;
}

export type Entry = TextEntry | ToolEntry | PlanEntry | NoticeEntry | ReportEntry | NoteEntry | GapEntry | CompactionEntry | UnknownEntry;

export interface Turn {
  readonly id: string;
  /** Grows when the list of entries or the end changed, not when the content of an entry did. */
  readonly rev: Signal<number>;
  /** Output that no prompt asked for. */
  readonly background: boolean;
  readonly key?: string;
  entries: Entry[];
  end?: TurnResult & { ts?: number };
  /** Something answered this prompt already. */
  answered: boolean;
}

const statuses: readonly string[] = ['pending', 'in_progress', 'completed', 'failed'];

function toolContent(v: unknown): ToolContent | undefined {
  const c = dict(v);
  switch (c['type']) {
    case 'content':
      return { type: 'content', content: block(c['content']) };
    case 'diff': {
      const old = str(c['oldText']);
      return { type: 'diff', path: str(c['path']) ?? '', oldText: old ?? '', newText: str(c['newText']) ?? '', created: old === undefined };
    }
    case 'terminal':
      return { type: 'terminal', terminalId: str(c['terminalId']) ?? '' };
    default:
      return undefined;
  }
}

/** Any content block; one that is none of ACP's becomes a text block that shows its JSON. */
export function block(v: unknown): ContentBlock {
  const b = dict(v);
  if (b['type'] === 'text') return { type: 'text', text: str(b['text']) ?? '' };
  if (b['type'] === 'image' || b['type'] === 'audio' || b['type'] === 'resource' || b['type'] === 'resource_link') {
    return b as unknown as ContentBlock;
  }
  return { type: 'text', text: typeof v === 'string' ? v : JSON.stringify(v ?? null) };
}

/** Merges a tool_call or tool_call_update into what is known; a field that is absent or null stays. */
export function mergeTool(known: ToolCall | undefined, update: Dict): ToolCall {
  const call: ToolCall = known
    ? { ...known }
    : { toolCallId: str(update['toolCallId']) ?? '', title: '', kind: 'other', status: 'pending', content: [], locations: [] };
  const title = str(update['title']);
  if (title !== undefined) call.title = title;
  const kind = str(update['kind']);
  if (kind !== undefined) call.kind = kind;
  const status = str(update['status']);
  if (status !== undefined && statuses.includes(status)) call.status = status as ToolStatus;
  if (Array.isArray(update['content'])) {
    call.content = update['content'].map(toolContent).filter((c) => c !== undefined);
  }
  if (Array.isArray(update['locations'])) {
    call.locations = list(update['locations'])
      .map(dict)
      .filter((l) => typeof l['path'] === 'string')
      .map((l) => ({ path: l['path'] as string, ...opt('line', num(l['line'])) }));
  }
  if (update['rawInput'] !== undefined && update['rawInput'] !== null) call.rawInput = update['rawInput'];
  if (update['rawOutput'] !== undefined && update['rawOutput'] !== null) call.rawOutput = update['rawOutput'];
  return call;
}

export function planItems(v: unknown): PlanItem[] {
  return list(v)
    .map(dict)
    .map((e) => ({ content: str(e['content']) ?? '', priority: str(e['priority']) ?? 'medium', status: str(e['status']) ?? 'pending' }));
}

/** The text of blocks, for titles and comparisons. */
export function textOf(blocks: readonly ContentBlock[]): string {
  let out = '';
  for (const b of blocks) if (b.type === 'text') out += b.text;
  return out;
}

/** Adds a block to a message; text joins the text before it. */
export function append(blocks: ContentBlock[], b: ContentBlock): void {
  const last = blocks[blocks.length - 1];
  if (b.type === 'text' && last?.type === 'text') blocks[blocks.length - 1] = { type: 'text', text: last.text + b.text };
  else blocks.push(b);
}
