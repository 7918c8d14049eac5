// Where we stand in a session's journal, and what an event means for it. Pure.

import type { EventMeta, Place } from '../wire/types';
import { placeOf } from '../wire/types';

export type Verdict =
  /** New: apply it. */
  | 'apply'
  /** Seen before: leave it out. */
  | 'duplicate'
  /** Of another journal: forget the transcript, then apply it. */
  | 'rebuild';

export class Cursor {
  private at: Place | undefined;
  private base: Place | undefined;

  /** The cursor to resume from; undefined when nothing is known yet. */
  get place(): Place | undefined {
    return this.at ?? this.base;
  }

  /** Takes an event in. Frames without a place (snapshots) always apply and move nothing. */
  take(meta: EventMeta): Verdict {
    const to = placeOf(meta);
    if (!to) return 'apply';
    const from = this.at;
    if (!from) {
      this.at = to;
      return 'apply';
    }
    if (from.session !== to.session || from.epoch !== to.epoch) {
      this.at = to;
      return 'rebuild';
    }
    if (to.seq <= from.seq) return 'duplicate';
    this.at = to;
    return 'apply';
  }

  /**
   * Where an attachment stands by the word of its result. It is only a place to resume from while no event was seen:
   * events up to it may still be under way, so it makes no event a duplicate.
   */
  start(from: Place | undefined): void {
    this.base = from;
  }

  /** True when place belongs to the journal that we follow. */
  follows(place: Place | undefined): boolean {
    const own = this.place;
    return !!place && !!own && own.session === place.session && own.epoch === place.epoch;
  }

  forget(): void {
    this.at = undefined;
    this.base = undefined;
  }
}
