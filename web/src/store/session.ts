// One session as the page knows it. It outlives connections: the link attaches it again after each reconnect, from its
// cursor, and what was said meanwhile follows without a lost or doubled word.

import { RequestError } from '@agentclientprotocol/sdk';
import { batch, signal, type Signal } from '@preact/signals';
import type { Connection } from '../wire/connection';
import { ConnectionLost, toProblem, type Problem } from '../wire/problem';
import { attachMeta, dict, eventMeta, ident, str, turnResult, viewState } from '../wire/types';
import type { ContentBlock, EventMeta, RpcId, TurnResult, ViewState } from '../wire/types';
import { Asks, type Ask } from './asks';
import { Cursor } from './cursor';
import { textOf } from './entries';
import type { Flusher } from './flush';
import { outgoing, patch, restore, save, without, type Outgoing, type Shelf } from './outbox';
import { Surroundings } from './surroundings';
import { Transcript } from './transcript';

export type Attach = 'attaching' | 'attached' | 'detached' | 'gone' | 'failed';

export interface SessionDeps {
  flusher: Flusher;
  shelf: Shelf;
  /** A request of the agent waits for a person. Called once per request. */
  announce: (session: Session, ask: Ask) => void;
  /** A turn ended, ours or another client's. */
  turnEnded: (session: Session) => void;
}

export class Session {
  readonly id: string;
  readonly agent: string;
  /** Local time at which this page first saw it, in ms. */
  readonly createdAt = Date.now();
  readonly cwd: Signal<string>;
  /** The session that the view looks at now; id is the handle, which stays. */
  readonly binding: Signal<string>;
  readonly around = new Surroundings();
  readonly attach = signal<Attach>('attaching');
  readonly problem = signal<Problem | undefined>(undefined);
  readonly view = signal<ViewState>({ state: 'idle', queue: [], requests: [] });
  readonly outbox = signal<readonly Outgoing[]>([]);
  /** Local time of the last output, in ms, for the background indicator. */
  readonly lastOutput = signal(0);
  readonly transcript: Transcript;
  readonly asks: Asks;
  private readonly cursor = new Cursor();
  private readonly deps: SessionDeps;
  private connection: Connection | undefined;
  // True from the moment a reattach was asked for until the first event or the result.
  private untouched = false;
  // Keys of prompts that are being taken out of the queue.
  private readonly withdrawn = new Set<string>();

  constructor(id: string, agent: string, cwd: string, deps: SessionDeps) {
    this.id = id;
    this.agent = agent;
    this.cwd = signal(cwd);
    this.binding = signal(id);
    this.deps = deps;
    this.transcript = new Transcript(deps.flusher);
    this.asks = new Asks((ask) => deps.announce(this, ask));
    this.outbox.value = restore(deps.shelf, id);
  }

  get running(): boolean {
    const s = this.view.value.state;
    return s === 'running' || s === 'stopping' || s === 'waking';
  }

  // --- attaching -----------------------------------------------------------------------------------------------

  /** The session was just created on connection; result is that of session/new. Called in wire order. */
  created(connection: Connection, result: unknown): void {
    this.connection = connection;
    this.adopt(result);
    this.attach.value = 'attached';
  }

  /** Attaches to the view as it is: from our cursor when there is one, else with the whole history. */
  async open(connection: Connection): Promise<void> {
    this.connection = connection;
    this.attach.value = 'attaching';
    this.problem.value = undefined;
    this.untouched = true;
    const after = this.cursor.place;
    const common = { sessionId: this.id, cwd: this.cwd.value, mcpServers: [] };
    const params = { ...common, _meta: { acpgate: after ? { view: true, after } : { view: true } } };
    if (!after) this.transcript.reset();
    try {
      await connection.request(after ? 'session/resume' : 'session/load', params, (r) => this.adopt(r));
      if (this.connection !== connection) return;
      this.attach.value = 'attached';
      this.pump();
    } catch (e) {
      if (e instanceof ConnectionLost || this.connection !== connection) return;
      const problem = toProblem(e);
      this.problem.value = problem;
      this.attach.value = problem.code === -32002 ? 'gone' : 'failed';
    }
  }

  /** The connection ended. Everything stays on screen; what was not answered is sent again later. */
  detached(): void {
    this.connection = undefined;
    this.asks.detach();
    if (this.attach.value !== 'gone') this.attach.value = 'detached';
    this.setOutbox(this.outbox.value.map((i) => ({ ...i, inflight: false })));
  }

  // The result of new, load or resume, at its place in the stream.
  private adopt(result: unknown): void {
    const meta = attachMeta(result);
    batch(() => {
      if (meta.resync !== undefined && this.untouched) this.rebuild(meta.resync);
      this.untouched = false;
      if (!this.cursor.place) this.cursor.start(meta.cursor);
      if (meta.binding !== undefined) this.binding.value = meta.binding;
      if (meta.cwd !== undefined) this.cwd.value = meta.cwd;
      if (meta.title !== undefined && meta.title !== '') this.around.title.value = meta.title;
      this.around.options(result);
    });
  }

  // What we know is of a journal that is gone, or that we no longer follow; all that matters comes again. When the
  // gateway lost its memory, prompts whose turn had begun are not sent again: nobody can tell how far the agent came.
  private rebuild(why: string): void {
    this.clear();
    this.cursor.forget();
    if (why !== 'epoch') return;
    this.setOutbox(this.outbox.value.map((i) => (i.phase === 'running' ? { ...i, phase: 'failed', problem: interrupted } : i)));
  }

  private clear(): void {
    this.transcript.reset();
    this.around.plan.value = [];
    this.around.usage.value = undefined;
  }

  /** Forgets what is here, so that the next attach brings the whole history instead of its end. */
  forget(): void {
    this.cursor.forget();
  }

  // --- events --------------------------------------------------------------------------------------------------

  /** A session/update of this session. */
  update(params: unknown): void {
    const meta = eventMeta(params);
    if (!this.admit(meta)) return;
    const update = dict(dict(params)['update']);
    // Our own prompt, told on replay or by another connection: we have its text.
    const item = meta.kind === 'prompt' ? this.mine(meta.key) : undefined;
    if (item && meta.turn !== undefined) this.began(item, meta.turn);
    if (meta.kind === 'report') this.reported();
    if (!this.around.take(update, meta)) this.transcript.apply(update, meta);
    if (!meta.replay && meta.kind === undefined) this.lastOutput.value = Date.now();
  }

  /** An _acpgate/state of this session. */
  state(params: unknown): void {
    const meta = eventMeta(params);
    if (!this.admit(meta)) return;
    const now = viewState(params);
    batch(() => {
      for (const q of now.queue) {
        if (this.mine(q.key)) this.setOutbox(patch(this.outbox.value, q.key ?? '', { phase: 'queued', turn: q.turn }));
      }
      if (now.lastTurn) this.ended(now.lastTurn.turn, now.lastTurn.key, now.lastTurn, meta);
      const item = now.turn && this.mine(now.turn.key);
      if (item && now.turn) this.began(item, now.turn.turn);
      this.transcript.runs(now.turn?.turn);
      // What a replay tells about open requests was true then; the snapshot behind it tells what is true now.
      if (!meta.replay) this.asks.settle(now.requests.map((r) => r.id));
      this.view.value = now;
    });
  }

  /** An _acpgate/turn_end of this session: the end of a turn at its place in the journal, live and replayed. */
  turnEnd(params: unknown): void {
    const meta = eventMeta(params);
    if (!this.admit(meta)) return;
    const p = dict(params);
    const turn = ident(p['turn']);
    if (turn !== undefined) batch(() => this.ended(turn, str(p['key']), turnResult(p), meta));
  }

  private mine(key: string | undefined): Outgoing | undefined {
    return key === undefined ? undefined : this.outbox.value.find((i) => i.key === key);
  }

  private ended(turn: string, key: string | undefined, result: TurnResult, meta: EventMeta): void {
    const known = this.transcript.turn(turn);
    const fresh = known !== undefined && !known.end;
    this.transcript.finish(turn, result, meta.ts);
    const item = this.mine(key);
    if (item) this.settle(item, result);
    if (fresh && !meta.replay) this.deps.turnEnded(this);
  }

  // A prompt of ours is over. One that never began was cancelled in the queue: its text is kept.
  private settle(item: Outgoing, result: TurnResult): void {
    const began = item.phase === 'running' || this.transcript.hasKey(item.key);
    const cancelled = result.stopReason === 'cancelled' || result.error?.code === -32800;
    if (!began && cancelled && !this.withdrawn.has(item.key)) {
      this.setOutbox(patch(this.outbox.value, item.key, { phase: 'failed', problem: unstarted, inflight: false }));
    } else {
      this.setOutbox(without(this.outbox.value, item.key));
    }
  }

  // A command of the gateway is no turn of the view: its report is the first that is heard of it.
  private reported(): void {
    const item = this.outbox.value.find((i) => i.inflight && i.phase === 'sent' && textOf(i.blocks).startsWith('/'));
    if (item) this.began(item, `command ${item.key}`);
  }

  private began(item: Outgoing, turn: string): void {
    this.transcript.begin(turn, item.key, item.blocks);
    this.setOutbox(patch(this.outbox.value, item.key, { phase: 'running', turn }));
  }

  // False when the event was seen before. An event of another session means that the view has moved there.
  private admit(meta: EventMeta): boolean {
    const verdict = this.cursor.take(meta);
    if (verdict === 'duplicate') return false;
    if (verdict === 'rebuild') this.clear();
    if (meta.session !== undefined) {
      this.untouched = false;
      this.binding.value = meta.session;
    }
    return true;
  }

  // --- prompts -------------------------------------------------------------------------------------------------

  /** Sends a prompt now, or as soon as there is a connection. */
  prompt(blocks: readonly ContentBlock[]): void {
    this.setOutbox([...this.outbox.value, outgoing(blocks)]);
    this.pump();
  }

  /** Sends a refused prompt once more, as a new one. */
  retry(key: string): void {
    const item = this.outbox.value.find((i) => i.key === key);
    if (!item) return;
    this.setOutbox([...without(this.outbox.value, key), outgoing(item.blocks)]);
    this.pump();
  }

  /** Takes a prompt out of the queue, or drops a refused one. Returns its blocks when it never ran. */
  async withdraw(key: string): Promise<readonly ContentBlock[] | undefined> {
    const item = this.outbox.value.find((i) => i.key === key);
    if (!item || item.phase === 'running') return undefined;
    if (item.phase === 'sent') return undefined;
    if (item.phase === 'queued' && item.turn !== undefined) {
      this.withdrawn.add(key);
      const gone = await this.withdrawTurn(item.turn);
      this.withdrawn.delete(key);
      if (!gone) return undefined;
    }
    this.setOutbox(without(this.outbox.value, key));
    return item.blocks;
  }

  /** Takes any client's waiting prompt out of the queue. */
  async withdrawTurn(turn: string): Promise<boolean> {
    try {
      await this.connection?.request('_acpgate/queue_cancel', { sessionId: this.id, turn });
      return this.connection !== undefined;
    } catch {
      // Its turn began in that instant: it shows in the transcript now.
      return false;
    }
  }

  private pump(): void {
    const connection = this.connection;
    if (!connection || this.attach.value !== 'attached') return;
    for (const item of this.outbox.value) if (!item.inflight && item.phase !== 'failed') this.send(connection, item);
  }

  private send(connection: Connection, item: Outgoing): void {
    const phase = item.phase === 'waiting' ? 'sent' : item.phase;
    this.setOutbox(patch(this.outbox.value, item.key, { inflight: true, phase }));
    const params = { sessionId: this.id, prompt: item.blocks, _meta: { acpgate: { key: item.key } } };
    connection
      .request('session/prompt', params, (result) => this.answered(item.key, result))
      .catch((e: unknown) => {
        if (!(e instanceof ConnectionLost)) this.refused(item.key, e);
      });
  }

  private answered(key: string, result: unknown): void {
    const item = this.mine(key);
    if (!item || item.phase === 'failed') return;
    const meta = eventMeta(result);
    const turn = meta.turn ?? item.turn;
    const stopReason = str(dict(result)['stopReason']) ?? 'end_turn';
    if (turn !== undefined && (item.phase === 'running' || stopReason !== 'cancelled')) {
      // One that began and is not in the transcript moved the view to another session.
      if (item.phase !== 'running') this.transcript.begin(turn, item.key, item.blocks);
      this.transcript.finish(turn, { stopReason }, meta.ts);
    }
    this.settle(item, { stopReason });
  }

  private refused(key: string, e: unknown): void {
    const item = this.mine(key);
    // Already settled by the event that told of the turn's end.
    if (!item || item.phase === 'failed') return;
    const problem = toProblem(e);
    const error = e instanceof RequestError ? { code: e.code, message: e.message, data: e.data } : { code: -32603, message: problem.title };
    if (item.phase === 'running' && item.turn !== undefined) this.transcript.finish(item.turn, { error }, undefined);
    if (item.phase === 'running' || error.code === -32800) this.settle(item, { error });
    else this.setOutbox(patch(this.outbox.value, key, { phase: 'failed', problem, inflight: false }));
  }

  private setOutbox(items: readonly Outgoing[]): void {
    if (items === this.outbox.value) return;
    this.outbox.value = items;
    save(this.deps.shelf, this.id, items);
  }

  // --- controls ------------------------------------------------------------------------------------------------

  /** Asks the agent to stop the running turn; open requests are answered cancelled by the gateway. */
  stop(): void {
    this.connection?.notify('session/cancel', { sessionId: this.id });
  }

  /** Brings a view that has moved on back to the session with its own id (rule V4). */
  async comeHome(): Promise<void> {
    await this.call('session/resume', { sessionId: this.id, cwd: this.cwd.value, mcpServers: [] });
  }

  /** Ends the agent's process. Rejects with the reason when it cannot. */
  async forceStop(): Promise<void> {
    await this.call('_acpgate/force_stop', { sessionId: this.id });
  }

  async setMode(modeId: string): Promise<void> {
    await this.call('session/set_mode', { sessionId: this.id, modeId });
    this.around.mode(modeId);
  }

  async setConfig(configId: string, value: string | boolean): Promise<void> {
    const typed = typeof value === 'boolean' ? { type: 'boolean', value } : { value };
    this.around.options(await this.call('session/set_config_option', { sessionId: this.id, configId, ...typed }));
  }

  /** A request of the agent for this session. */
  ask(method: string, params: unknown, id: RpcId, signal: AbortSignal): Promise<unknown> {
    return this.asks.receive(method, params, id, signal);
  }

  private async call(method: string, params: object): Promise<unknown> {
    if (!this.connection) throw new ConnectionLost();
    return this.connection.request(method, params);
  }
}

const interrupted: Problem = {
  title: 'The gateway restarted while this ran',
  hint: 'It was not sent again. Look at what was done before you repeat it.',
};

const unstarted: Problem = { title: 'Cancelled before it started' };
