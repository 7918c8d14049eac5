// Where we stand in a session's journal, and what an event means for it. Pure.

import type { EventMeta, Place } from '../wire/types';

export type Verdict =
  /** New: apply it. */
  | 'apply'
  /** Seen before: leave it out. */
  | 'duplicate'
  /** Of another journal: forget the transcript, then apply it. */
  | 'rebuild';

export class Cursor {
  private journal: { session: string; epoch: string | number } | undefined;
  private at: Place | undefined;
  private base: Place | undefined;

  /** The cursor to resume from; undefined when nothing is known yet. */
  get place(): Place | undefined {
    return this.at ?? this.base;
  }

  /**
   * Takes an event in. A frame of the session's replay names its journal but has no place there; a snapshot names not
   * even that. Both apply and move nothing, but for the first frame of another journal.
   */
  take(meta: EventMeta): Verdict {
    const { session, epoch, seq } = meta;
    if (session === undefined || epoch === undefined) return 'apply';
    const known = this.journal;
    this.journal = { session, epoch };
    const other = known !== undefined && (known.session !== session || known.epoch !== epoch);
    if (other) {
      this.at = undefined;
      this.base = undefined;
    }
    if (seq !== undefined) {
      if (this.at && seq <= this.at.seq) return 'duplicate';
      this.at = { session, epoch, seq };
    }
    return other ? 'rebuild' : 'apply';
  }

  /**
   * Where an attachment stands by the word of its result. It is only a place to resume from while no event was seen:
   * events up to it may still be under way, so it makes no event a duplicate.
   */
  start(from: Place | undefined): void {
    if (!from) return;
    this.base = from;
    this.journal ??= { session: from.session, epoch: from.epoch };
  }

  forget(): void {
    this.journal = undefined;
    this.at = undefined;
    this.base = undefined;
  }
}
