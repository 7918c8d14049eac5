// The way to one agent: a connection that is always being restored, and the sessions on it.

import { signal } from '@preact/signals';
import { adviceFor, meaningOf, type CloseInfo } from '../wire/close';
import { ClosedBeforeReady, Connection, type Handlers, type Socket } from '../wire/connection';
import { toProblem, type Problem } from '../wire/problem';
import { nextDelay, steadyMs, type Backoff } from '../wire/reconnect';
import { dict, str, type InitInfo, type RpcId } from '../wire/types';
import { Asks } from './asks';
import { Session, type SessionDeps } from './session';

export type LinkStatus =
  | { kind: 'connecting'; first: boolean }
  | { kind: 'open' }
  /** The next try is due at this local time, in ms. */
  | { kind: 'waiting'; until: number; why: string; tries: number }
  /** Nothing more is tried until a person asks for it. */
  | { kind: 'stopped'; problem: Problem }
  | { kind: 'unauthorized' };

export interface LinkDeps {
  open: (agent: string) => Socket;
  /** Asks the server who we are: the browser does not tell why a WebSocket was refused. */
  whoami: () => Promise<'ok' | 'unauthorized' | 'unreachable'>;
  random: () => number;
  session: SessionDeps;
}

/** Bounds in ms. The agent may take 90 s to start, the handshake may not. */
const handshakeMs = 15_000;
const initializeMs = 100_000;
const pingMs = { deadline: 10_000, wake: 4_000 };
/** Notifications kept for a session whose session/new is not answered yet. */
const earlyMax = 500;
const earlySessions = 20;

export class Link {
  readonly agent: string;
  readonly status = signal<LinkStatus>({ kind: 'connecting', first: true });
  readonly init = signal<InitInfo | undefined>(undefined);
  /** Elicitations that belong to no session, as during a login of the agent. */
  readonly asks: Asks;
  readonly sessions = new Map<string, Session>();
  /** Grows when sessions changed. */
  readonly count = signal(0);
  private readonly deps: LinkDeps;
  private connection: Connection | undefined;
  private backoff: Backoff = { failures: 0, advice: 'now' };
  private wait: { timed: boolean; go: () => void } | undefined;
  private readonly early = new Map<string, { method: string; params: unknown }[]>();
  private ready: ((c: Connection) => void)[] = [];
  private ended = false;

  constructor(agent: string, deps: LinkDeps) {
    this.agent = agent;
    this.deps = deps;
    this.asks = new Asks(() => undefined);
    void this.run();
  }

  /** The name of the agent, as far as it is known. */
  get name(): string {
    return this.init.value?.gate.agent ?? this.agent;
  }

  /** Ends the link for good. */
  close(): void {
    this.ended = true;
    this.wait?.go();
    this.connection?.close();
  }

  /** The connection, as soon as there is one. */
  connected(): Promise<Connection> {
    const now = this.connection;
    if (now && !now.over) return Promise.resolve(now);
    return new Promise((resolve) => this.ready.push(resolve));
  }

  /** Someone looks at the page again, or the network is back: do not wait, and do not trust an open socket (CASE 55). */
  wake(): void {
    if (this.wait) return this.wait.timed ? this.wait.go() : undefined;
    const connection = this.connection;
    if (connection) void this.ping(connection, pingMs.wake);
  }

  /** Tries again after a stop. */
  retry(): void {
    this.backoff = { failures: 0, advice: 'now' };
    if (this.wait) this.wait.go();
  }

  /** Brings the whole history of a session, of which only the end is here. The connection is made anew for it. */
  showAll(session: Session): void {
    session.forget();
    this.connection?.close();
  }

  /**
   * Makes a session: with the token of a slot the side conversation that is staged there, without one never that.
   * Rejects with what the agent or the gateway said.
   */
  async create(cwd: string, token?: string): Promise<Session> {
    const connection = await this.connected();
    let session: Session | undefined;
    const params = { cwd, mcpServers: [], _meta: { acpgate: { claim: token ?? false } } };
    await connection.request('session/new', params, (result) => {
      const id = str(dict(result)['sessionId']);
      if (id === undefined) return;
      session = new Session(id, this.name, cwd, this.deps.session);
      this.sessions.set(id, session);
      this.count.value++;
      session.created(connection, result);
      for (const n of this.early.get(id) ?? []) this.route(n.method, n.params);
      this.early.delete(id);
    });
    if (!session) throw new Error('the agent made a session without an id');
    return session;
  }

  /** The session with this id, attached (now or as soon as possible). */
  open(id: string, cwd: string): Session {
    const known = this.sessions.get(id);
    if (known) {
      if (known.attach.value === 'failed' || known.attach.value === 'gone') this.attach(known);
      return known;
    }
    const session = new Session(id, this.name, cwd, this.deps.session);
    this.sessions.set(id, session);
    this.count.value++;
    this.attach(session);
    return session;
  }

  /** The view that shows a session now. */
  showing(id: string): Session | undefined {
    if (this.count.value === 0) return undefined;
    const own = this.sessions.get(id);
    if (own?.binding.value === id) return own;
    for (const s of this.sessions.values()) if (s.binding.value === id) return s;
    return undefined;
  }

  /** Forgets a session that was closed or deleted. */
  drop(id: string): void {
    this.sessions.delete(id);
    this.count.value++;
  }

  private attach(session: Session): void {
    const connection = this.connection;
    if (!connection || connection.over) return;
    // The directory of a session that we only know by its id: the gateway wants one, and for a live view ignores it.
    if (session.cwd.value === '') session.cwd.value = connection.init.gate.roots[0] ?? '/';
    void session.open(connection);
  }

  // --- the loop ------------------------------------------------------------------------------------------------

  private async run(): Promise<void> {
    while (!this.ended) {
      this.status.value = { kind: 'connecting', first: this.init.value === undefined };
      let over: CloseInfo;
      try {
        const connection = await this.establish();
        if (this.ended) return connection.close();
        over = await this.serve(connection);
      } catch (e) {
        if (this.ended) return;
        if (!(e instanceof ClosedBeforeReady)) {
          // initialize was answered with an error: the agent could not be started. A person decides when to try again.
          await this.stop({ kind: 'stopped', problem: toProblem(e) });
          continue;
        }
        over = e.info;
        this.backoff.failures++;
        const who = await this.deps.whoami();
        if (who === 'unauthorized') {
          await this.stop({ kind: 'unauthorized' });
          continue;
        }
      }
      if (!this.ended) await this.pause(over);
    }
  }

  private async establish(): Promise<Connection> {
    const socket = this.deps.open(this.agent);
    const timeout = deadline(handshakeMs);
    const opening = Connection.open({ ...socket, closed: Promise.race([socket.closed, timeout.expired]) }, this.handlers());
    void socket.opened.then(() => timeout.extend(initializeMs));
    try {
      return await opening;
    } finally {
      timeout.clear();
    }
  }

  // Serves one connection until it ends.
  private async serve(connection: Connection): Promise<CloseInfo> {
    const since = Date.now();
    this.connection = connection;
    this.init.value = connection.init;
    this.status.value = { kind: 'open' };
    for (const s of this.sessions.values()) this.attach(s);
    for (const resolve of this.ready.splice(0)) resolve(connection);
    const beat = setInterval(() => void this.ping(connection, pingMs.deadline), Math.max(1_000, connection.init.gate.pingMs));
    const over = await connection.closed;
    clearInterval(beat);
    connection.close();
    this.connection = undefined;
    this.early.clear();
    this.asks.detach();
    for (const s of this.sessions.values()) s.detached();
    if (Date.now() - since >= steadyMs) this.backoff = { failures: 0, advice: 'now' };
    else this.backoff.failures++;
    return over;
  }

  private async ping(connection: Connection, within: number): Promise<void> {
    const timer = setTimeout(() => connection.close(), within);
    try {
      await connection.request('_acpgate/ping', {});
    } catch {
      // An error is an answer too; a lost connection is noticed by the loop.
    } finally {
      clearTimeout(timer);
    }
  }

  private async pause(over: CloseInfo): Promise<void> {
    const ms = nextDelay({ ...this.backoff, advice: adviceFor(over.code) }, this.deps.random);
    if (ms === undefined) {
      if ((await this.deps.whoami()) === 'unauthorized') return this.stop({ kind: 'unauthorized' });
      await this.stop({ kind: 'stopped', problem: { title: `Disconnected: ${meaningOf(over)}`, hint: 'Connect again when you are ready.' } });
      return;
    }
    this.status.value = { kind: 'waiting', until: Date.now() + ms, why: meaningOf(over), tries: this.backoff.failures };
    await this.sleep(ms);
  }

  private async stop(status: LinkStatus): Promise<void> {
    this.status.value = status;
    await this.sleep(undefined);
  }

  // Waits for ms, or until wake() or retry(); without ms only until retry().
  private sleep(ms: number | undefined): Promise<void> {
    return new Promise((resolve) => {
      const go = () => {
        if (timer !== undefined) clearTimeout(timer);
        this.wait = undefined;
        resolve();
      };
      const timer = ms === undefined ? undefined : setTimeout(go, ms);
      this.wait = { timed: timer !== undefined, go };
    });
  }

  // --- what comes in -------------------------------------------------------------------------------------------

  private handlers(): Handlers {
    return {
      notification: (method, params) => this.route(method, params),
      request: (method, params, id, signal) => this.ask(method, params, id, signal),
    };
  }

  private route(method: string, params: unknown): void {
    if (method === 'elicitation/complete') {
      const id = str(dict(params)['elicitationId']);
      if (id === undefined) return;
      this.asks.completed(id);
      for (const s of this.sessions.values()) s.asks.completed(id);
      return;
    }
    const take = events[method];
    if (!take) return;
    const id = str(dict(params)['sessionId']);
    if (id === undefined) return;
    const session = this.sessions.get(id);
    if (!session) return this.hold(id, method, params);
    take(session, params);
  }

  private hold(id: string, method: string, params: unknown): void {
    const rows = this.early.get(id) ?? [];
    if (rows.length >= earlyMax || this.early.size >= earlySessions) return;
    rows.push({ method, params });
    this.early.set(id, rows);
  }

  private ask(method: string, params: unknown, id: RpcId, signal: AbortSignal): Promise<unknown> {
    const session = this.sessions.get(str(dict(params)['sessionId']) ?? '');
    return session ? session.ask(method, params, id, signal) : this.asks.receive(method, params, id, signal);
  }
}

/** The notifications that belong to a session. */
const events: Readonly<Record<string, (s: Session, params: unknown) => void>> = {
  'session/update': (s, p) => s.update(p),
  '_acpgate/state': (s, p) => s.state(p),
  '_acpgate/context': (s, p) => s.context(p),
};

// Ends a socket that takes too long: the SDK's stream has no time-out of its own.
function deadline(ms: number) {
  let expire: (c: CloseInfo) => void = () => undefined;
  const expired = new Promise<CloseInfo>((resolve) => (expire = resolve));
  const fire = () => expire({ code: 1006, reason: 'no answer' });
  let timer = setTimeout(fire, ms);
  let done = false;
  return {
    expired,
    extend(more: number) {
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(fire, more);
    },
    clear() {
      done = true;
      clearTimeout(timer);
    },
  };
}
