// Desktop notifications for a request that waits while nobody looks (CASE 42), and the count in the tab's title.

import { signal } from '@preact/signals';
import type { Ask } from './asks';
import type { Keep } from './keep';
import type { Session } from './session';
import { dict, str } from '../wire/types';

export type NotifyState = 'unsupported' | 'off' | 'on' | 'denied';

export class Notifier {
  readonly state = signal<NotifyState>('off');
  private readonly keep: Keep;

  constructor(keep: Keep) {
    this.keep = keep;
    this.state.value = this.read();
  }

  /** Turns notifications on or off. Must be called from a user action: browsers ask only then. */
  async toggle(): Promise<void> {
    if (this.state.value === 'unsupported') return;
    if (this.state.value === 'on') this.keep.setChoice('notify', 'off');
    else {
      if (Notification.permission === 'default') await Notification.requestPermission();
      this.keep.setChoice('notify', 'on');
    }
    this.state.value = this.read();
  }

  /** Tells that a request waits. One request is told once: the session calls this once, and tabs share the tag. */
  waiting(session: Session, ask: Ask, show: () => void): void {
    if (this.state.value !== 'on' || document.visibilityState === 'visible') return;
    const params = dict(ask.params);
    const body = str(dict(params['toolCall'])['title']) ?? str(params['message']) ?? 'The agent waits for your answer.';
    const n = new Notification(session.around.title.value ?? 'Your agent is asking', { body: body.slice(0, 200), tag: `acpgate-${session.id}-${ask.id}` });
    n.onclick = () => {
      window.focus();
      show();
      n.close();
    };
  }

  private read(): NotifyState {
    if (typeof Notification === 'undefined') return 'unsupported';
    if (Notification.permission === 'denied') return 'denied';
    return Notification.permission === 'granted' && this.keep.choice('notify') === 'on' ? 'on' : 'off';
  }
}
