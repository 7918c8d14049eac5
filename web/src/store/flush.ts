// Changes are collected and shown once per frame: a burst of a thousand tokens costs one render.

import { batch, signal, type Signal } from '@preact/signals';

export class Flusher {
  private readonly dirty = new Set<Signal<number>>();
  private readonly schedule: (run: () => void) => void;
  private waiting = false;

  /** schedule calls its argument once, soon; tests pass one that calls it at once. */
  constructor(schedule: (run: () => void) => void) {
    this.schedule = schedule;
  }

  mark(rev: Signal<number>): void {
    this.dirty.add(rev);
    if (this.waiting) return;
    this.waiting = true;
    this.schedule(() => this.flush());
  }

  flush(): void {
    this.waiting = false;
    if (this.dirty.size === 0) return;
    const now = [...this.dirty];
    this.dirty.clear();
    batch(() => {
      for (const rev of now) rev.value++;
    });
  }
}

export function rev(): Signal<number> {
  return signal(0);
}

/** Once per animation frame while visible; a hidden tab has no frames, so a slow timer stands in. */
export function frames(run: () => void): void {
  let ran = false;
  const once = () => {
    if (ran) return;
    ran = true;
    clearTimeout(timer);
    run();
  };
  const timer = setTimeout(once, 200);
  requestAnimationFrame(once);
}
