// The way home of a side conversation: a note is made, shown, perhaps edited, and sent or dropped.

import { signal } from '@preact/signals';
import { toProblem, type Problem } from '../wire/problem';
import { dict, str } from '../wire/types';

/** The gateway cuts a note at this many characters. */
export const noteMax = 2_000;

export type Stage =
  | { kind: 'none' }
  /** The agent writes the note. */
  | { kind: 'asking' }
  /** It waits for a decision; turn names it, so that it goes home once however often it is sent. */
  | { kind: 'shown'; note: string; turn: string }
  | { kind: 'sending'; note: string; turn: string };

export class Merge {
  readonly stage = signal<Stage>({ kind: 'none' });
  readonly problem = signal<Problem | undefined>(undefined);
  private readonly call: (method: string, params: object) => Promise<unknown>;

  /** call sends a request of this session; params get the session's id from it. */
  constructor(call: (method: string, params: object) => Promise<unknown>) {
    this.call = call;
  }

  /** Has the agent condense the conversation. Nothing goes home yet. */
  async ask(): Promise<void> {
    if (this.stage.value.kind !== 'none') return;
    this.problem.value = undefined;
    this.stage.value = { kind: 'asking' };
    try {
      const result = dict(await this.call('_acpgate/merge_preview', {}));
      this.stage.value = { kind: 'shown', note: str(result['note']) ?? '', turn: str(result['turn']) ?? '' };
    } catch (e) {
      this.fail(e, { kind: 'none' });
    }
  }

  /** The note as somebody has edited it. */
  edit(note: string): void {
    const s = this.stage.value;
    if (s.kind === 'shown') this.stage.value = { ...s, note };
  }

  /** Sends the note home; true when it went. After a failure it is still there. */
  async send(): Promise<boolean> {
    const s = this.stage.value;
    if (s.kind !== 'shown' || !sendable(s.note)) return false;
    this.problem.value = undefined;
    this.stage.value = { ...s, kind: 'sending' };
    try {
      await this.call('_acpgate/merge', { note: s.note, turn: s.turn });
      this.stage.value = { kind: 'none' };
      return true;
    } catch (e) {
      this.fail(e, s);
      return false;
    }
  }

  /** Drops the note, or the error in its place. */
  discard(): void {
    if (this.stage.value.kind === 'shown') this.stage.value = { kind: 'none' };
    this.problem.value = undefined;
  }

  private fail(e: unknown, back: Stage): void {
    this.problem.value = toProblem(e);
    this.stage.value = back;
  }
}

/** Characters as the gateway counts them. */
export function characters(note: string): number {
  let n = 0;
  for (const _ of note) n++;
  return n;
}

export function sendable(note: string): boolean {
  return note.trim() !== '' && characters(note) <= noteMax;
}
