// Sees every message of a connection in wire order, before the SDK does.
//
// The SDK parses session updates with the schema of its release: unknown kinds are dropped and unknown fields stripped,
// while a gateway must show what any agent sends. Its dispatch also takes a few microtasks more for a notification than
// for a response, so the two may swap. Cursors need neither to happen: notifications are taken here, and a request may
// name a function that runs when its response is read, at its exact place in the stream.

import type { AnyMessage, Stream } from '@agentclientprotocol/sdk';
import { dict } from './types';

export type ResultHook = (result: unknown) => void;

export class Tap {
  private readonly pending = new Map<object, ResultHook>();
  private readonly hooks = new Map<unknown, ResultHook>();
  private readonly notify: (method: string, params: unknown) => void;
  private readonly fail: (e: unknown) => void;

  constructor(notify: (method: string, params: unknown) => void, fail: (e: unknown) => void) {
    this.notify = notify;
    this.fail = fail;
  }

  /** Runs hook with the result of the request that will carry params (the same object), when its response is read. */
  onResult(params: object, hook: ResultHook): void {
    this.pending.set(params, hook);
  }

  wrap(stream: Stream): Stream {
    const inbound = new TransformStream<AnyMessage, AnyMessage>({
      transform: (m, c) => {
        if (!this.incoming(m)) c.enqueue(m);
      },
    });
    const outbound = new TransformStream<AnyMessage, AnyMessage>({
      transform: (m, c) => {
        this.outgoing(m);
        c.enqueue(m);
      },
    });
    // The SDK learns of a broken socket through the readable side; a write that fails with it has nothing to add.
    outbound.readable.pipeTo(stream.writable).catch(() => undefined);
    return { readable: stream.readable.pipeThrough(inbound), writable: outbound.writable };
  }

  // True when the message is dealt with and the SDK need not see it. A handler that throws must not end the connection.
  private incoming(m: AnyMessage): boolean {
    const msg = dict(m);
    try {
      if (typeof msg['method'] === 'string') {
        if ('id' in msg || msg['method'] === '$/cancel_request') return false;
        this.notify(msg['method'], msg['params']);
        return true;
      }
      const hook = this.hooks.get(msg['id']);
      this.hooks.delete(msg['id']);
      if (hook && 'result' in msg) hook(msg['result']);
    } catch (e) {
      this.fail(e);
    }
    return false;
  }

  private outgoing(m: AnyMessage): void {
    const msg = dict(m);
    const params = msg['params'];
    if (typeof params !== 'object' || params === null) return;
    const hook = this.pending.get(params);
    if (!hook) return;
    this.pending.delete(params);
    this.hooks.set(msg['id'], hook);
  }
}
