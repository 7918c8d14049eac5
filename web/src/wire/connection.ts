// One connection to one agent: the SDK's client over a WebSocket stream, initialized. It ends with its socket; what
// survives (sessions, cursors, unanswered prompts) lives in store/.

import { client, RequestError, type Stream } from '@agentclientprotocol/sdk';
import { createWebSocketStream } from '@agentclientprotocol/sdk/experimental/ws-client';
import type { CloseInfo } from './close';
import { ConnectionLost } from './problem';
import { Tap, type ResultHook } from './tap';
import { initInfo, type InitInfo, type RpcId } from './types';

/** A stream of messages and the promise of its end. */
export interface Socket {
  stream: Stream;
  /** Resolves when the handshake is done; never when it fails. */
  opened: Promise<void>;
  closed: Promise<CloseInfo>;
}

export interface Handlers {
  notification(method: string, params: unknown): void;
  /** Answers a request of the agent. The signal fires when the agent, or the gateway, no longer wants the answer. */
  request(method: string, params: unknown, id: RpcId, signal: AbortSignal): Promise<unknown>;
}

/** The requests of agents that the page can answer; the SDK refuses all others with -32601. */
const answerable = ['session/request_permission', 'elicitation/create'];

export class Connection {
  readonly init: InitInfo;
  /** Resolves once, when the connection is over, whoever ended it. */
  readonly closed: Promise<CloseInfo>;
  private readonly app: ReturnType<ReturnType<typeof client>['connect']>;
  private readonly tap: Tap;

  private constructor(app: Connection['app'], tap: Tap, init: InitInfo, closed: Promise<CloseInfo>) {
    this.app = app;
    this.tap = tap;
    this.init = init;
    this.closed = closed;
  }

  /** Opens the stream and initializes. Rejects with the close info when the socket ends first. */
  static async open(socket: Socket, handlers: Handlers): Promise<Connection> {
    const tap = new Tap(
      (method, params) => handlers.notification(method, params),
      (e) => console.error('a message could not be handled', e),
    );
    const builder = client({ name: 'acpgate-page' });
    for (const method of answerable) {
      builder.onRequest(
        method,
        (params: unknown) => params,
        ({ params, requestId, signal }) => handlers.request(method, params, requestId as RpcId, signal),
      );
    }
    const app = builder.connect(tap.wrap(socket.stream));
    const closed = Promise.race([socket.closed, app.closed.then(() => late(socket.closed))]);
    const params = {
      protocolVersion: 1,
      clientInfo: { name: 'acpgate-page', title: 'acpgate page', version: '1' },
      clientCapabilities: {
        elicitation: { form: {}, url: {} },
        session: { configOptions: { boolean: {} }, notices: {}, compaction: {} },
        _meta: { acpgate: { v: 1 } },
      },
    };
    let initialized: (i: InitInfo) => void = () => undefined;
    // Read at its place in the stream, so that a notification right behind it finds the connection ready.
    const info = new Promise<InitInfo>((resolve) => (initialized = resolve));
    tap.onResult(params, (result) => initialized(initInfo(result as Parameters<typeof initInfo>[0])));
    const ended = closed.then((c): never => {
      throw new ClosedBeforeReady(c);
    });
    // Only an error object is an answer. A broken socket fails the request too, with its event, perhaps before it closes.
    const answered = app.agent.request('initialize', params).then(
      () => info,
      (e: unknown) => (e instanceof RequestError ? Promise.reject(e) : ended),
    );
    const init = await Promise.race([answered, ended]).catch((e: unknown) => {
      app.close();
      throw e;
    });
    return new Connection(app, tap, init, closed);
  }

  /** Sends a request. hook runs with the result at its place in the stream, before the promise settles. */
  async request<T>(method: string, params: object, hook?: ResultHook): Promise<T> {
    if (hook) this.tap.onResult(params, hook);
    try {
      return await this.app.agent.request<T, object>(method, params);
    } catch (e) {
      throw this.app.signal.aborted && !(e instanceof RequestError) ? new ConnectionLost() : e;
    }
  }

  /** Sends a notification; one that the connection can no longer carry is dropped. */
  notify(method: string, params: object): void {
    this.app.agent.notify(method, params).catch(() => undefined);
  }

  get over(): boolean {
    return this.app.signal.aborted;
  }

  close(): void {
    this.app.close();
  }
}

export class ClosedBeforeReady extends Error {
  readonly info: CloseInfo;
  constructor(info: CloseInfo) {
    super('the connection ended before it was ready');
    this.info = info;
  }
}

// The SDK may notice the end before the close event (which has the code) is delivered: give the event a moment. A
// half-open socket never delivers one.
function late(closed: Promise<CloseInfo>): Promise<CloseInfo> {
  const none = new Promise<CloseInfo>((resolve) => setTimeout(resolve, 250, { code: 1006, reason: '' }));
  return Promise.race([closed, none]);
}

/** The WebSocket endpoint of an agent, relative to the page, so that it follows any base path. */
export function endpoint(page: string, agent: string): string {
  const url = new URL(agent ? `acp/${encodeURIComponent(agent)}` : 'acp', page);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  url.search = '';
  url.hash = '';
  return url.href;
}

/** Opens the SDK's WebSocket stream and keeps an eye on the close code, which the stream does not tell. */
export function openSocket(url: string): Socket {
  let ended: (c: CloseInfo) => void = () => undefined;
  let ready: () => void = () => undefined;
  const closed = new Promise<CloseInfo>((resolve) => (ended = resolve));
  const opened = new Promise<void>((resolve) => (ready = resolve));
  class Watched extends WebSocket {
    constructor(address: string | URL) {
      super(address);
      this.addEventListener('open', () => ready());
      this.addEventListener('close', (e) => ended({ code: e.code || 1006, reason: e.reason }));
    }
  }
  const stream = createWebSocketStream(url, { WebSocket: Watched as never, cookies: 'omit' });
  return { stream, opened, closed };
}
