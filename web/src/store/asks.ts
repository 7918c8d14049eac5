// Open requests of the agent: permissions and elicitations. A card outlives its connection: the gateway sends the
// request again under the same id after a reattach, and an answer that may have been lost is given again.

import { RequestError } from '@agentclientprotocol/sdk';
import { signal, type Signal } from '@preact/signals';
import type { RpcId } from '../wire/types';
import { dict, str } from '../wire/types';

export interface Ask {
  readonly id: RpcId;
  readonly method: string;
  readonly params: unknown;
  /** False while the connection under it is gone; answers wait until it is back. */
  readonly live: boolean;
  /** The answer was given and is on its way. */
  readonly answered: boolean;
  /** The page of a URL elicitation reported that it is done. */
  readonly complete: boolean;
}

export class Asks {
  readonly open: Signal<readonly Ask[]> = signal<readonly Ask[]>([]);
  private readonly resolvers = new Map<RpcId, (result: unknown) => void>();
  private readonly answers = new Map<RpcId, unknown>();
  /** Told once per request, however often it is sent again. */
  private readonly announce: (ask: Ask) => void;
  private readonly announced = new Set<RpcId>();

  constructor(announce: (ask: Ask) => void) {
    this.announce = announce;
  }

  /** A request arrived, for the first time or again. */
  receive(method: string, params: unknown, id: RpcId, signal: AbortSignal): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(aborted());
      const known = this.answers.get(id);
      if (this.answers.has(id)) return resolve(known);
      this.resolvers.set(id, resolve);
      const ask: Ask = { id, method, params, live: true, answered: false, complete: false };
      this.open.value = [...this.open.value.filter((a) => a.id !== id), ask];
      signal.addEventListener('abort', () => {
        if (this.resolvers.get(id) === resolve) this.resolvers.delete(id);
        if (withdrawn(signal)) this.remove(id);
        reject(aborted());
      });
      if (!this.announced.has(id)) {
        this.announced.add(id);
        this.announce(ask);
      }
    });
  }

  /** The person answered. */
  answer(id: RpcId, result: unknown): void {
    this.answers.set(id, result);
    this.open.value = this.open.value.map((a) => (a.id === id ? { ...a, answered: true } : a));
    const resolve = this.resolvers.get(id);
    this.resolvers.delete(id);
    resolve?.(result);
  }

  /** The whole list of open ids, from a state of the view: cards that are not in it are over. */
  settle(ids: readonly RpcId[]): void {
    const open = new Set(ids);
    for (const id of [...this.answers.keys()]) if (!open.has(id)) this.answers.delete(id);
    for (const id of [...this.announced]) if (!open.has(id)) this.announced.delete(id);
    const left = this.open.value.filter((a) => open.has(a.id));
    if (left.length !== this.open.value.length) this.open.value = left;
  }

  /** The connection is gone: cards stay, but cannot be sent. */
  detach(): void {
    this.resolvers.clear();
    if (this.open.value.length > 0) this.open.value = this.open.value.map((a) => ({ ...a, live: false }));
  }

  /** A URL elicitation was completed elsewhere. */
  completed(elicitationId: string): void {
    this.open.value = this.open.value.map((a) =>
      str(dict(a.params)['elicitationId']) === elicitationId ? { ...a, complete: true } : a,
    );
  }

  private remove(id: RpcId): void {
    this.open.value = this.open.value.filter((a) => a.id !== id);
  }
}

// The SDK aborts for two reasons: the other side cancelled the request, or the connection ended.
function withdrawn(signal: AbortSignal): boolean {
  return signal.reason instanceof RequestError && signal.reason.code === -32800;
}

function aborted(): DOMException {
  return new DOMException('the request was withdrawn', 'AbortError');
}
