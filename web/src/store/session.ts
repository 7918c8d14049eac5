// One session as the page knows it. It outlives connections: the link attaches it again after each reconnect, from its
// cursor, and what was said meanwhile follows without a lost or doubled word.

import { batch, signal, type Signal } from '@preact/signals';
import type { Connection } from '../wire/connection';
import { ConnectionLost, toProblem, type Problem } from '../wire/problem';
import { attachMeta, dict, eventMeta, str, viewState } from '../wire/types';
import type { EventMeta, RpcId, Slot, TurnResult, ViewState } from '../wire/types';
import { Asks, type Ask } from './asks';
import { Cursor } from './cursor';
import type { Flusher } from './flush';
import type { Shelf } from './outbox';
import { Merge } from './merge';
import { Prompts } from './prompts';
import { Surroundings } from './surroundings';
import { Transcript } from './transcript';

export type Attach = 'attaching' | 'attached' | 'detached' | 'gone' | 'failed';

export interface SessionDeps {
  flusher: Flusher;
  shelf: Shelf;
  /** A request of the agent waits for a person. Called once per request. */
  announce: (session: Session, ask: Ask) => void;
  /** A /side command has staged a side conversation. */
  staged: (session: Session, slot: Slot) => void;
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
  /** Grows when the view has moved to another session. */
  readonly switches = signal(0);
  /** All that the gateway retains of the session was sent: a gap in it cannot be filled. */
  readonly whole = signal(false);
  readonly around = new Surroundings();
  /** The conversation that this one is a side of. */
  readonly parent = signal<string | undefined>(undefined);
  readonly attach = signal<Attach>('attaching');
  readonly problem = signal<Problem | undefined>(undefined);
  readonly view = signal<ViewState>({ state: 'idle', queue: [], requests: [] });
  /** Local time of the last output, in ms, for the background indicator. */
  readonly lastOutput = signal(0);
  readonly transcript: Transcript;
  readonly asks: Asks;
  readonly prompts: Prompts;
  /** The way home, of a side conversation. */
  readonly merge = new Merge((method, params) => this.call(method, { sessionId: this.id, ...params }));
  private readonly cursor = new Cursor();
  private readonly deps: SessionDeps;
  private connection: Connection | undefined;
  // True from the moment a reattach was asked for until the first event or the result.
  private untouched = false;
  // The next attach is not to use the cursor, though events may still move it.
  private afresh = false;

  constructor(id: string, agent: string, cwd: string, deps: SessionDeps) {
    this.id = id;
    this.agent = agent;
    this.cwd = signal(cwd);
    this.binding = signal(id);
    this.deps = deps;
    this.transcript = new Transcript(deps.flusher);
    this.asks = new Asks((ask) => deps.announce(this, ask));
    this.prompts = new Prompts(id, this.transcript, deps.shelf, (slot) => deps.staged(this, slot));
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
    this.prompts.attached(connection);
  }

  /** Attaches to the view as it is: from our cursor when there is one, else with the whole history. */
  async open(connection: Connection): Promise<void> {
    this.connection = connection;
    this.attach.value = 'attaching';
    this.problem.value = undefined;
    this.untouched = true;
    if (this.afresh) this.cursor.forget();
    this.afresh = false;
    const after = this.cursor.place;
    const common = { sessionId: this.id, cwd: this.cwd.value, mcpServers: [] };
    const params = { ...common, _meta: { acpgate: after ? { view: true, after } : { view: true } } };
    if (!after) {
      // A load sends all that is retained; a resume what is new, or a bounded replay.
      this.transcript.reset();
      this.whole.value = true;
    }
    try {
      await connection.request(after ? 'session/resume' : 'session/load', params, (r) => this.adopt(r));
      if (this.connection !== connection) return;
      this.attach.value = 'attached';
      this.prompts.attached(connection);
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
    this.prompts.detached();
  }

  // The result of new, load or resume, at its place in the stream.
  private adopt(result: unknown): void {
    const meta = attachMeta(result);
    batch(() => {
      if (meta.binding !== undefined) this.bind(meta.binding);
      if (meta.resync !== undefined && this.untouched) this.rebuild(meta.resync);
      this.untouched = false;
      if (!this.cursor.place) this.cursor.start(meta.cursor);
      if (meta.side === true) this.parent.value = meta.parentView ?? meta.parentSession;
      if (meta.cwd !== undefined) this.cwd.value = meta.cwd;
      if (meta.title !== undefined && meta.title !== '') this.around.title.value = meta.title;
      this.around.options(result);
    });
  }

  // What we know is of a journal that is gone, or that we no longer follow; all that matters comes again.
  private rebuild(why: string): void {
    this.clear();
    this.cursor.forget();
    if (why === 'epoch') this.prompts.interrupted();
  }

  private clear(): void {
    this.whole.value = false;
    this.transcript.reset();
    this.around.plan.value = [];
    this.around.usage.value = undefined;
  }

  /** Forgets what is here, so that the next attach brings the whole history instead of its end. */
  forget(): void {
    this.afresh = true;
  }

  // --- events --------------------------------------------------------------------------------------------------

  /** A session/update of this session. */
  update(params: unknown): void {
    const meta = eventMeta(params);
    if (!this.admit(meta)) return;
    const update = dict(dict(params)['update']);
    // Our own prompt, told on replay or by another connection: we have its text.
    if (meta.kind === 'prompt' && meta.turn !== undefined) this.prompts.began(meta.key, meta.turn);
    if (meta.kind === 'report') this.prompts.reported();
    if (!this.around.take(update, meta)) this.transcript.apply(update, meta);
    if (!meta.replay && meta.kind === undefined) this.lastOutput.value = Date.now();
  }

  /** An _acpgate/state of this session. */
  state(params: unknown): void {
    const meta = eventMeta(params);
    if (!this.admit(meta)) return;
    const now = viewState(params);
    batch(() => {
      for (const q of now.queue) this.prompts.queued(q.key, q.turn);
      if (now.lastTurn) this.ended(now.lastTurn.turn, now.lastTurn.key, now.lastTurn, meta);
      if (now.turn) this.prompts.began(now.turn.key, now.turn.turn);
      this.transcript.runs(now.turn?.turn);
      // What a replay tells about open requests was true then; the snapshot behind it tells what is true now.
      if (!meta.replay) this.asks.settle(now.requests.map((r) => r.id));
      if (now.binding !== undefined) this.bind(now.binding);
      this.view.value = now;
    });
  }

  /** An _acpgate/context of this session: a note was delivered. */
  context(params: unknown): void {
    if (!this.admit(eventMeta(params))) return;
    const p = dict(params);
    this.transcript.noted(str(p['id']) ?? '', str(p['state']) ?? '');
  }

  private ended(turn: string, key: string | undefined, result: TurnResult, meta: EventMeta): void {
    const known = this.transcript.turn(turn);
    const fresh = known !== undefined && !known.end;
    this.transcript.finish(turn, result, meta.ts);
    this.prompts.ended(key, result);
    if (fresh && !meta.replay) this.deps.turnEnded(this);
  }

  // False when the event was seen before. An event of another session means that the view has moved there.
  private admit(meta: EventMeta): boolean {
    const verdict = this.cursor.take(meta);
    if (verdict === 'duplicate') return false;
    if (meta.session !== undefined) {
      this.untouched = false;
      this.bind(meta.session);
    }
    if (verdict === 'rebuild') this.clear();
    return true;
  }

  // The view looks at this session. It has switched when another one was on the screen.
  private bind(id: string): void {
    if (this.binding.value === id) return;
    this.binding.value = id;
    if (this.transcript.last) this.switches.value++;
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
