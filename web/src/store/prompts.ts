// The prompts of one session: sends them, sends them again after a lost connection, and settles each exactly once,
// whichever way its end is heard of first (the answer, an event, a replay).

import { RequestError } from '@agentclientprotocol/sdk';
import { signal, type Signal } from '@preact/signals';
import type { Connection } from '../wire/connection';
import { ConnectionLost, toProblem, type Problem } from '../wire/problem';
import { dict, eventMeta, slotOf, str } from '../wire/types';
import type { ContentBlock, Slot, TurnResult } from '../wire/types';
import { textOf } from './entries';
import { outgoing, patch, restore, save, without, type Outgoing, type Shelf } from './outbox';
import type { Transcript } from './transcript';

export class Prompts {
  readonly items: Signal<readonly Outgoing[]>;
  private readonly session: string;
  private readonly transcript: Transcript;
  private readonly shelf: Shelf;
  private readonly staged: (slot: Slot) => void;
  private connection: Connection | undefined;
  // Keys of prompts that are being taken out of the queue.
  private readonly withdrawn = new Set<string>();

  /** staged is told of the slot that a /side command made. */
  constructor(session: string, transcript: Transcript, shelf: Shelf, staged: (slot: Slot) => void) {
    this.session = session;
    this.transcript = transcript;
    this.shelf = shelf;
    this.staged = staged;
    this.items = signal(restore(shelf, session));
  }

  /** The session is attached on connection: what was not answered goes out, again or for the first time. */
  attached(connection: Connection): void {
    this.connection = connection;
    for (const item of this.items.value) if (!item.inflight && item.phase !== 'failed') this.send(connection, item);
  }

  /** The connection is gone. */
  detached(): void {
    this.connection = undefined;
    this.set(this.items.value.map((i) => ({ ...i, inflight: false })));
  }

  /** The gateway has lost its memory. Nobody can tell how far the agent came with a turn that had begun. */
  interrupted(): void {
    this.set(this.items.value.map((i) => (i.phase === 'running' ? { ...i, phase: 'failed', problem: interrupted } : i)));
  }

  // --- what a person does --------------------------------------------------------------------------------------

  /** Sends a prompt now, or as soon as there is a connection. */
  add(blocks: readonly ContentBlock[]): void {
    const item = outgoing(blocks);
    this.set([...this.items.value, item]);
    if (this.connection) this.send(this.connection, item);
  }

  /** Sends a refused prompt once more, as a new one. */
  retry(key: string): void {
    const item = this.find(key);
    if (!item) return;
    this.set(without(this.items.value, key));
    this.add(item.blocks);
  }

  /** Takes a prompt out of the queue, or drops a refused one. Returns its blocks when it never ran. */
  async withdraw(key: string): Promise<readonly ContentBlock[] | undefined> {
    const item = this.find(key);
    if (!item || item.phase === 'running' || item.phase === 'sent') return undefined;
    if (item.phase === 'queued' && item.turn !== undefined) {
      this.withdrawn.add(key);
      const gone = await this.withdrawTurn(item.turn);
      this.withdrawn.delete(key);
      if (!gone) return undefined;
    }
    this.set(without(this.items.value, key));
    return item.blocks;
  }

  /** Takes any client's waiting prompt out of the queue. */
  async withdrawTurn(turn: string): Promise<boolean> {
    try {
      await this.connection?.request('_acpgate/queue_cancel', { sessionId: this.session, turn });
      return this.connection !== undefined;
    } catch {
      // Its turn began in that instant: it shows in the transcript now.
      return false;
    }
  }

  // --- what is heard -------------------------------------------------------------------------------------------

  /** A prompt of ours waits in the gateway's queue. Other keys are ignored, as everywhere below. */
  queued(key: string | undefined, turn: string): void {
    if (key !== undefined) this.set(patch(this.items.value, key, { phase: 'queued', turn }));
  }

  /** The turn of a prompt began. */
  began(key: string | undefined, turn: string): void {
    const item = this.find(key);
    if (!item) return;
    this.transcript.begin(turn, item.key, item.blocks);
    this.set(patch(this.items.value, item.key, { phase: 'running', turn }));
  }

  /** A command of the gateway is no turn of the view: its report is the first that is heard of it. */
  reported(): void {
    const item = this.items.value.find((i) => i.inflight && i.phase === 'sent' && textOf(i.blocks).startsWith('/'));
    if (item) this.began(item.key, `command ${item.key}`);
  }

  /** The turn of a prompt is over. One that never began was cancelled in the queue: its text is kept. */
  ended(key: string | undefined, result: TurnResult): void {
    const item = this.find(key);
    if (!item) return;
    const began = item.phase === 'running' || this.transcript.hasKey(item.key);
    const cancelled = result.stopReason === 'cancelled' || result.error?.code === -32800;
    if (!began && cancelled && !this.withdrawn.has(item.key)) this.fail(item.key, unstarted);
    else this.set(without(this.items.value, item.key));
  }

  // --- on the wire ---------------------------------------------------------------------------------------------

  private send(connection: Connection, item: Outgoing): void {
    const phase = item.phase === 'waiting' ? 'sent' : item.phase;
    this.set(patch(this.items.value, item.key, { inflight: true, phase }));
    const params = { sessionId: this.session, prompt: item.blocks, _meta: { acpgate: { key: item.key } } };
    connection
      .request('session/prompt', params, (result) => this.answered(item.key, result))
      .catch((e: unknown) => {
        if (!(e instanceof ConnectionLost)) this.refused(item.key, e);
      });
  }

  private answered(key: string, result: unknown): void {
    const item = this.find(key);
    if (!item || item.phase === 'failed') return;
    const meta = eventMeta(result);
    const turn = meta.turn ?? item.turn;
    const stopReason = str(dict(result)['stopReason']) ?? 'end_turn';
    if (turn !== undefined && (item.phase === 'running' || stopReason !== 'cancelled')) {
      // One that began and is not in the transcript moved the view to another session.
      if (item.phase !== 'running') this.transcript.begin(turn, item.key, item.blocks);
      this.transcript.finish(turn, { stopReason }, meta.ts);
    }
    this.ended(key, { stopReason });
    const slot = slotOf(result);
    if (slot) this.staged(slot);
  }

  private refused(key: string, e: unknown): void {
    const item = this.find(key);
    // Already settled by the event that told of the turn's end.
    if (!item || item.phase === 'failed') return;
    const problem = toProblem(e);
    const error = e instanceof RequestError ? { code: e.code, message: e.message, data: e.data } : { code: -32603, message: problem.title };
    if (item.phase === 'running' && item.turn !== undefined) this.transcript.finish(item.turn, { error }, undefined);
    if (item.phase === 'running' || error.code === -32800) this.ended(key, { error });
    else this.fail(key, problem);
  }

  private fail(key: string, problem: Problem): void {
    this.set(patch(this.items.value, key, { phase: 'failed', problem, inflight: false }));
  }

  private find(key: string | undefined): Outgoing | undefined {
    return key === undefined ? undefined : this.items.value.find((i) => i.key === key);
  }

  private set(items: readonly Outgoing[]): void {
    if (items === this.items.value) return;
    this.items.value = items;
    save(this.shelf, this.session, items);
  }
}

const interrupted: Problem = {
  title: 'The gateway restarted while this ran',
  hint: 'It was not sent again. Look at what was done before you repeat it.',
};

const unstarted: Problem = { title: 'Cancelled before it started' };
