// A gateway in a few lines, with the rules that the page relies on: a journal with places, attachments that replay from a
// cursor, idempotent prompts, agent requests under one id. It speaks to the page over the SDK's streams.

import type { AnyMessage } from '@agentclientprotocol/sdk';
import type { CloseInfo } from '../src/wire/close';
import type { Socket } from '../src/wire/connection';
import { dict, str, type Dict } from '../src/wire/types';

interface Event {
  seq: number;
  kind: 'update' | 'prompt' | 'state' | 'end' | 'notice';
  body: Dict;
  meta: Dict;
  by: number | undefined;
}

interface Turn {
  turn: string;
  key: string | undefined;
  blocks: unknown[];
  waiters: { conn: Conn; id: unknown }[];
  result?: Dict;
}

/** What the agent does in a turn, one step at a time. */
export type Step = { update: Dict } | { notice: string } | { end: string };

export class Conn {
  readonly number: number;
  readonly socket: Socket;
  attached = false;
  dead = false;
  readonly offered = new Set<number>();
  private readonly out: ReadableStreamDefaultController<AnyMessage>;
  private readonly ended: (c: CloseInfo) => void;

  constructor(number: number, receive: (m: Dict, c: Conn) => void) {
    this.number = number;
    let controller: ReadableStreamDefaultController<AnyMessage> | undefined;
    const readable = new ReadableStream<AnyMessage>({ start: (c) => void (controller = c), cancel: () => this.end({ code: 1005, reason: '' }) });
    this.out = controller as ReadableStreamDefaultController<AnyMessage>;
    let ended: (c: CloseInfo) => void = () => undefined;
    const closed = new Promise<CloseInfo>((r) => (ended = r));
    this.ended = ended;
    const writable = new WritableStream<AnyMessage>({ write: (m) => (this.dead ? undefined : receive(JSON.parse(JSON.stringify(m)) as Dict, this)) });
    this.socket = { stream: { readable, writable }, opened: Promise.resolve(), closed };
  }

  send(m: Dict): void {
    if (!this.dead) this.out.enqueue(JSON.parse(JSON.stringify({ jsonrpc: '2.0', ...m })) as AnyMessage);
  }

  /** Breaks as a browser's socket does: an error event first, the close event a moment later. */
  break(): void {
    this.dead = true;
    this.out.error({ type: 'error' });
    setTimeout(() => this.ended({ code: 1006, reason: '' }), 5);
  }

  end(c: CloseInfo): void {
    if (this.dead) return;
    this.dead = true;
    this.ended(c);
    try {
      this.out.close();
    } catch {
      // The page cancelled it first.
    }
  }
}

export class FakeGateway {
  readonly session = 's1';
  epoch = 1;
  /** Seqs up to this one are no longer retained. */
  trimmed = 0;
  conns: Conn[] = [];
  /** Methods of all requests, in order. */
  readonly calls: { method: string; params: Dict; conn: number }[] = [];
  /** Prompts that reached the agent. */
  readonly prompts: string[] = [];
  /** Called before each message to a page; true drops the connection instead. */
  dropBefore: (n: number, m: Dict) => boolean = () => false;
  refuse = false;
  initError: Dict | undefined;
  now = 1_000_000;
  private sent = 0;
  private journal: Event[] = [];
  private turn: Turn | undefined;
  private last: Turn | undefined;
  private queue: Turn[] = [];
  private readonly keys = new Map<string, Turn>();
  private readonly requests = new Map<number, { method: string; params: Dict; answer?: Dict }>();
  private count = 0;

  open = (): Socket => {
    const c = new Conn(++this.count, (m, conn) => this.receive(m, conn));
    if (this.refuse) c.end({ code: 1006, reason: '' });
    this.conns.push(c);
    return c.socket;
  };

  drop(code = 1006): void {
    for (const c of this.conns) c.end({ code, reason: '' });
    this.conns = [];
  }

  /** Forgets what only memory knows, as a restart does. */
  restart(): void {
    this.drop(1012);
    this.epoch++;
    this.journal = [];
    this.keys.clear();
    this.turn = undefined;
    this.last = undefined;
    this.queue = [];
  }

  get running(): boolean {
    return this.turn !== undefined;
  }

  step(s: Step): void {
    if ('update' in s) this.append('update', { sessionId: this.session, update: s.update }, {});
    else if ('notice' in s) this.append('notice', { sessionId: this.session, update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: s.notice } } }, { kind: 'notice' });
    else this.finish({ stopReason: s.end });
  }

  finish(result: Dict): void {
    const t = this.turn;
    if (!t) return;
    t.result = result;
    this.turn = undefined;
    this.last = t;
    this.append('end', { sessionId: this.session, turn: t.turn, key: t.key, ...result }, {});
    for (const w of t.waiters) this.reply(w.conn, w.id, { ...result, _meta: { acpgate: { ...this.head(), turn: t.turn, key: t.key } } });
    const next = this.queue.shift();
    if (next) this.start(next);
    else this.state();
  }

  /** The agent asks. Resolves to the answer. */
  ask(id: number, method: string, params: Dict): void {
    this.requests.set(id, { method, params: { sessionId: this.session, ...params } });
    for (const c of this.conns) if (c.attached) this.offer(c, id);
    this.state();
  }

  answered(id: number): Dict | undefined {
    return this.requests.get(id)?.answer;
  }

  withdraw(id: number): void {
    this.requests.delete(id);
    for (const c of this.conns) if (c.offered.delete(id)) this.send(c, { method: '$/cancel_request', params: { requestId: id } });
    this.state({ answered: { id, outcome: 'withdrawn' } });
  }

  private head(): Dict {
    return { session: this.session, epoch: this.epoch, seq: this.journal.at(-1)?.seq ?? 0 };
  }

  private append(kind: Event['kind'], body: Dict, meta: Dict, by?: number): void {
    const e: Event = { seq: (this.journal.at(-1)?.seq ?? this.trimmed) + 1, kind, body, meta: { ...meta, ts: (this.now += 10) }, by };
    this.journal.push(e);
    for (const c of this.conns) if (c.attached) this.emit(c, e, false);
  }

  private emit(c: Conn, e: Event, replay: boolean): void {
    // As the gateway does: the state at the time is no use to a late joiner, a prompter has its own text, and the end of a
    // turn is told by the state.
    if (e.kind === 'end' || (e.kind === 'state' && replay)) return;
    if (e.kind === 'prompt' && e.by === c.number && !replay) return;
    const method = e.kind === 'state' ? '_acpgate/state' : 'session/update';
    const acpgate = { session: this.session, epoch: this.epoch, seq: e.seq, ...e.meta, ...(replay ? { replay: true } : {}) };
    this.send(c, { method, params: { ...e.body, _meta: { acpgate } } });
  }

  private send(c: Conn, m: Dict): void {
    if (c.dead) return;
    if (this.dropBefore(++this.sent, m)) this.drop();
    else c.send(m);
  }

  private reply(c: Conn, id: unknown, result: Dict): void {
    this.send(c, { id, result });
  }

  private view(more: Dict = {}): Dict {
    return {
      sessionId: this.session,
      state: this.turn ? 'running' : 'idle',
      ...(this.turn ? { turn: { turn: this.turn.turn, key: this.turn.key } } : {}),
      ...(this.last ? { lastTurn: { turn: this.last.turn, key: this.last.key, ...this.last.result } } : {}),
      queue: this.queue.map((q) => ({ turn: q.turn, key: q.key, text: '' })),
      requests: [...this.requests].filter(([, r]) => !r.answer).map(([id, r]) => ({ id, method: r.method })),
      ...more,
    };
  }

  private state(more: Dict = {}): void {
    this.append('state', this.view(more), {});
  }

  private start(t: Turn): void {
    this.turn = t;
    this.prompts.push(JSON.stringify(t.blocks));
    for (const content of t.blocks) {
      this.append('prompt', { sessionId: this.session, update: { sessionUpdate: 'user_message_chunk', messageId: `turn-${t.turn}`, content } }, { kind: 'prompt', turn: t.turn, key: t.key }, t.waiters[0]?.conn.number);
    }
    this.state();
  }

  private offer(c: Conn, id: number): void {
    const r = this.requests.get(id);
    if (!r || r.answer || c.offered.has(id)) return;
    c.offered.add(id);
    this.send(c, { id, method: r.method, params: r.params });
  }

  private receive(m: Dict, c: Conn): void {
    const params = dict(m['params']);
    if (typeof m['method'] !== 'string') {
      const r = this.requests.get(m['id'] as number);
      if (r && !r.answer && 'result' in m) {
        r.answer = dict(m['result']);
        this.state({ answered: { id: m['id'], outcome: 'ok' } });
      }
      return;
    }
    this.calls.push({ method: m['method'], params, conn: c.number });
    const gate = dict(dict(params['_meta'])['acpgate']);
    switch (m['method']) {
      case 'initialize':
        if (this.initError) return this.send(c, { id: m['id'], error: this.initError });
        return this.reply(c, m['id'], {
          protocolVersion: 1,
          agentInfo: { name: 'fake', version: '1' },
          agentCapabilities: { promptCapabilities: { image: true } },
          _meta: { acpgate: { v: 1, version: 'x', agent: 'fake', agents: [{ name: 'fake' }], roots: ['/w'], principal: 'me', pingMs: 20_000, limits: { frameBytes: 1 << 20 } } },
        });
      case 'session/new':
        c.attached = true;
        this.reply(c, m['id'], { sessionId: this.session, ...this.opened({}) });
        return this.snapshot(c);
      case 'session/load':
        for (const e of this.journal) this.emit(c, e, true);
        c.attached = true;
        this.reply(c, m['id'], this.opened({}));
        return this.snapshot(c);
      case 'session/resume': {
        const after = dict(gate['after']);
        const resync = after['epoch'] !== this.epoch ? 'epoch' : (after['seq'] as number) < this.trimmed ? 'trimmed' : undefined;
        this.reply(c, m['id'], this.opened(resync ? { resync } : {}));
        for (const e of this.journal) if (resync || e.seq > (after['seq'] as number)) this.emit(c, e, true);
        c.attached = true;
        return this.snapshot(c);
      }
      case 'session/prompt':
        return this.prompt(c, m['id'], params, str(gate['key']));
      case '_acpgate/queue_cancel': {
        const t = this.queue.find((q) => q.turn === params['turn']);
        this.queue = this.queue.filter((q) => q !== t);
        for (const w of t?.waiters ?? []) this.send(w.conn, { id: w.id, error: { code: -32800, message: 'cancelled' } });
        this.state();
        return this.reply(c, m['id'], {});
      }
      default:
        if ('id' in m) this.reply(c, m['id'], {});
    }
  }

  private opened(more: Dict): Dict {
    return { _meta: { acpgate: { view: this.session, binding: this.session, agent: 'fake', cwd: '/w', cursor: this.head(), ...more } } };
  }

  private snapshot(c: Conn): void {
    this.send(c, { method: '_acpgate/state', params: { ...this.view(), _meta: { acpgate: { kind: 'snapshot' } } } });
    for (const id of this.requests.keys()) this.offer(c, id);
  }

  private prompt(c: Conn, id: unknown, params: Dict, key: string | undefined): void {
    const known = key === undefined ? undefined : this.keys.get(key);
    if (known?.result) return this.reply(c, id, { ...known.result, _meta: { acpgate: { ...this.head(), turn: known.turn, key } } });
    if (known) return void known.waiters.push({ conn: c, id });
    const t: Turn = { turn: `t${this.keys.size + 1}-${this.epoch}`, key, blocks: params['prompt'] as unknown[], waiters: [{ conn: c, id }] };
    if (key !== undefined) this.keys.set(key, t);
    if (!this.turn) return this.start(t);
    this.queue.push(t);
    this.state();
  }

  /** Retains only what comes after now. */
  trim(): void {
    this.trimmed = this.journal.at(-1)?.seq ?? 0;
    this.journal = [];
  }
}

export function chunk(text: string, messageId?: string): Step {
  return { update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text }, ...(messageId ? { messageId } : {}) } };
}
