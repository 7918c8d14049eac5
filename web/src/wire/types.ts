// Shapes of the wire: what the SDK's types do not know (gateway/README.md), and narrow readers for values that come from
// an agent and may have any shape.

import type { ContentBlock, SessionConfigOption, SessionModeState, AvailableCommand, InitializeResponse } from '@agentclientprotocol/sdk';

export type { ContentBlock, SessionConfigOption, SessionModeState, AvailableCommand };

/** A JSON-RPC id; 0 and strings are ids. */
export type RpcId = string | number;

/** A place in a session's journal, the cursor to resume from. */
export interface Place {
  session: string;
  epoch: string | number;
  seq: number;
}

/** `params._meta.acpgate` of an event. Without seq it has no place in the journal. */
export interface EventMeta {
  session?: string;
  epoch?: string | number;
  seq?: number;
  replay?: boolean;
  kind?: string;
  turn?: string;
  key?: string;
  ts?: number;
  /** Id of a replayed entry: the same entry has the same id in every replay. */
  entry?: string;
  /** Number of a further content block of a replayed entry. */
  part?: number;
  /** A replayed entry that a child has from its parent. */
  inherited?: boolean;
  /** Entries that a gap marker stands for. */
  omitted?: number;
  /** A note from a side conversation, with kind context. */
  context?: Dict;
}

/** `result._meta.acpgate` of session/new, load and resume. */
export interface AttachMeta {
  view?: string;
  binding?: string;
  cursor?: Place;
  agent?: string;
  cwd?: string;
  title?: string;
  resync?: string;
  /** The session that this one is a child of, and the handle under which that was shown. */
  parentSession?: string;
  parentView?: string;
  /** A side conversation: it advises and changes nothing. */
  side?: boolean;
}

/** What /side has staged: the next session/new with the token opens it. */
export interface Slot {
  token: string;
  cwd: string;
}

/** `_meta.acpgate` of initialize. */
export interface GateInfo {
  version: string;
  agent: string;
  agents: { name: string; title?: string }[];
  roots: string[];
  principal: string;
  pingMs: number;
  frameBytes: number;
}

export type Run = 'idle' | 'running' | 'stopping' | 'waking' | 'asleep' | 'closed';

export interface TurnResult {
  stopReason?: string;
  error?: { code: number; message: string; data?: unknown };
}

/** `_acpgate/state`: the whole state of a view. */
export interface ViewState {
  state: Run;
  /** The session that the view looks at. */
  binding?: string;
  turn?: { turn: string; key?: string; startedAt?: number; by?: string };
  lastTurn?: { turn: string; key?: string } & TurnResult;
  queue: { turn: string; key?: string; text: string; by?: string }[];
  requests: { id: RpcId; method: string }[];
  answered?: { id: RpcId; by?: string; outcome?: string };
  forceStop?: { otherSessions: number };
}

export interface AuthMethod {
  id: string;
  name: string;
  description?: string;
  /** The command to run on the server, when the method needs a terminal. */
  command?: string;
}

/** What a connection knows after initialize. */
export interface InitInfo {
  gate: GateInfo;
  agentTitle: string;
  agentVersion: string;
  image: boolean;
  audio: boolean;
  embeddedContext: boolean;
  canDelete: boolean;
  canLogout: boolean;
  authMethods: AuthMethod[];
}

export type Dict = Record<string, unknown>;

export function dict(v: unknown): Dict {
  return typeof v === 'object' && v !== null && !Array.isArray(v) ? (v as Dict) : {};
}
export function list(v: unknown): unknown[] {
  return Array.isArray(v) ? v : [];
}
export function str(v: unknown): string | undefined {
  return typeof v === 'string' ? v : undefined;
}
export function num(v: unknown): number | undefined {
  return typeof v === 'number' && Number.isFinite(v) ? v : undefined;
}
/** Ids of turns and the like, which may be numbers on the wire. */
export function ident(v: unknown): string | undefined {
  return typeof v === 'number' ? String(v) : str(v);
}

/** The acpgate member of a `_meta`, an empty object when there is none. */
export function gateMeta(holder: unknown): Dict {
  return dict(dict(dict(holder)['_meta'])['acpgate']);
}

export function eventMeta(params: unknown): EventMeta {
  const m = gateMeta(params);
  const out: EventMeta = {};
  const session = str(m['session']);
  const epoch = m['epoch'];
  const seq = num(m['seq']);
  if (session !== undefined) out.session = session;
  if (typeof epoch === 'string' || typeof epoch === 'number') out.epoch = epoch;
  if (seq !== undefined) out.seq = seq;
  if (m['replay'] === true) out.replay = true;
  if (m['inherited'] === true) out.inherited = true;
  const kind = str(m['kind']);
  if (kind !== undefined) out.kind = kind;
  const turn = ident(m['turn']);
  if (turn !== undefined) out.turn = turn;
  const key = str(m['key']);
  if (key !== undefined) out.key = key;
  if (typeof m['context'] === 'object' && m['context'] !== null) out.context = dict(m['context']);
  const entry = str(m['entry']);
  if (entry !== undefined) out.entry = entry;
  for (const k of ['ts', 'part', 'omitted'] as const) {
    const v = num(m[k]);
    if (v !== undefined) out[k] = v;
  }
  return out;
}

/** The place named by a meta, or undefined for frames that have none. */
export function placeOf(m: { session?: unknown; epoch?: unknown; seq?: unknown }): Place | undefined {
  const { session, epoch, seq } = m;
  if (typeof session !== 'string' || typeof seq !== 'number') return undefined;
  if (typeof epoch !== 'string' && typeof epoch !== 'number') return undefined;
  return { session, epoch, seq };
}

export function attachMeta(result: unknown): AttachMeta {
  const m = gateMeta(result);
  const out: AttachMeta = {};
  if (m['side'] === true) out.side = true;
  for (const k of ['view', 'binding', 'agent', 'cwd', 'title', 'parentSession', 'parentView'] as const) {
    const v = str(m[k]);
    if (v !== undefined) out[k] = v;
  }
  const cursor = placeOf(dict(m['cursor']));
  if (cursor) out.cursor = cursor;
  const resync = str(m['resync']);
  if (resync !== undefined && resync !== '') out.resync = resync;
  return out;
}

/** The slot in the result of a /side command, if it is one. */
export function slotOf(result: unknown): Slot | undefined {
  const slot = dict(gateMeta(result)['slot']);
  const token = str(slot['token']);
  const cwd = str(slot['cwd']);
  return token === undefined || cwd === undefined ? undefined : { token, cwd };
}

function turnResult(v: Dict): TurnResult {
  const out: TurnResult = {};
  const stop = str(v['stopReason']);
  if (stop !== undefined) out.stopReason = stop;
  const e = dict(v['error']);
  if (typeof e['code'] === 'number') {
    out.error = { code: e['code'], message: str(e['message']) ?? 'the agent failed', data: e['data'] };
  }
  return out;
}

const runs: readonly string[] = ['idle', 'running', 'stopping', 'waking', 'asleep', 'closed'];

export function viewState(params: unknown): ViewState {
  const p = dict(params);
  const state = str(p['state']) ?? 'idle';
  const out: ViewState = { state: runs.includes(state) ? (state as Run) : 'idle', queue: [], requests: [], ...opt('binding', str(p['binding'])) };
  const t = dict(p['turn']);
  const turn = ident(t['turn']);
  if (turn !== undefined) {
    out.turn = { turn, ...opt('key', str(t['key'])), ...opt('startedAt', when(t['startedAt'])), ...opt('by', str(t['by'])) };
  }
  const l = dict(p['lastTurn']);
  const last = ident(l['turn']);
  if (last !== undefined) out.lastTurn = { turn: last, ...opt('key', str(l['key'])), ...turnResult(l) };
  for (const row of list(p['queue']).map(dict)) {
    const id = ident(row['turn']);
    if (id === undefined) continue;
    out.queue.push({ turn: id, text: str(row['text']) ?? '', ...opt('key', str(row['key'])), ...opt('by', str(row['by'])) });
  }
  for (const row of list(p['requests']).map(dict)) {
    const id = row['id'];
    if (typeof id === 'string' || typeof id === 'number') out.requests.push({ id, method: str(row['method']) ?? '' });
  }
  const a = dict(p['answered']);
  if (typeof a['id'] === 'string' || typeof a['id'] === 'number') {
    out.answered = { id: a['id'], ...opt('by', str(a['by'])), ...opt('outcome', str(a['outcome'])) };
  }
  const f = p['forceStop'];
  if (typeof f === 'object' && f !== null) out.forceStop = { otherSessions: num(dict(f)['otherSessions']) ?? 0 };
  return out;
}

// Times are Unix milliseconds; an RFC 3339 string is understood too.
function when(v: unknown): number | undefined {
  if (typeof v === 'string') {
    const t = Date.parse(v);
    return Number.isNaN(t) ? undefined : t;
  }
  return num(v);
}

/** Spreads a member only when it has a value, as exactOptionalPropertyTypes asks. */
export function opt<K extends string, V>(k: K, v: V | undefined): { [P in K]?: V } {
  return (v === undefined ? {} : { [k]: v }) as { [P in K]?: V };
}

function authMethod(v: unknown): AuthMethod | undefined {
  const m = dict(v);
  const id = str(m['id']);
  if (id === undefined) return undefined;
  const meta = dict(m['_meta']);
  const term = dict(meta['terminal-auth']);
  const args = (x: unknown) => list(x).filter((a): a is string => typeof a === 'string');
  let command: string | undefined;
  if (str(term['command'])) command = [str(term['command']), ...args(term['args'])].join(' ');
  else if (m['type'] === 'terminal' || meta['type'] === 'terminal') {
    command = ['AGENT', ...args(m['args'] ?? meta['args'])].join(' ');
  }
  return { id, name: str(m['name']) ?? id, ...opt('description', str(m['description'])), ...opt('command', command) };
}

export function initInfo(result: InitializeResponse): InitInfo {
  const g = gateMeta(result);
  const limits = dict(g['limits']);
  const caps = dict(result.agentCapabilities);
  const prompt = dict(caps['promptCapabilities']);
  const session = dict(caps['sessionCapabilities']);
  const agent = str(g['agent']) ?? 'agent';
  const agents = list(g['agents'])
    .map(dict)
    .filter((a) => typeof a['name'] === 'string')
    .map((a) => ({ name: a['name'] as string, ...opt('title', str(a['title'])) }));
  return {
    gate: {
      version: str(g['version']) ?? '',
      agent,
      agents: agents.length > 0 ? agents : [{ name: agent }],
      roots: list(g['roots']).filter((r): r is string => typeof r === 'string'),
      principal: str(g['principal']) ?? '',
      pingMs: num(g['pingMs']) ?? 20_000,
      frameBytes: num(limits['frameBytes']) ?? 32 * 1024 * 1024,
    },
    agentTitle: result.agentInfo?.title ?? result.agentInfo?.name ?? agent,
    agentVersion: result.agentInfo?.version ?? '',
    image: prompt['image'] === true,
    audio: prompt['audio'] === true,
    embeddedContext: prompt['embeddedContext'] === true,
    canDelete: typeof session['delete'] === 'object' && session['delete'] !== null,
    canLogout: typeof dict(caps['auth'])['logout'] === 'object' && dict(caps['auth'])['logout'] !== null,
    authMethods: list(result.authMethods).map(authMethod).filter((m) => m !== undefined),
  };
}
