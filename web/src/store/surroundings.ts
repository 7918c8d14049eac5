// What surrounds a conversation: commands, modes, options, usage, title, plan. Each has one current value, which a late
// joiner is told in a snapshot.

import { signal } from '@preact/signals';
import type { AvailableCommand, Dict, EventMeta, SessionConfigOption, SessionModeState } from '../wire/types';
import { dict, num, str } from '../wire/types';
import { planItems, type PlanItem } from './entries';

export interface Usage {
  used: number;
  size: number;
  cost?: { amount: number; currency: string };
}

export class Surroundings {
  readonly title = signal<string | undefined>(undefined);
  readonly commands = signal<readonly AvailableCommand[]>([]);
  readonly modes = signal<SessionModeState | undefined>(undefined);
  readonly config = signal<readonly SessionConfigOption[]>([]);
  readonly usage = signal<Usage | undefined>(undefined);
  readonly plan = signal<readonly PlanItem[]>([]);

  /** Takes modes and config options from the result of a session method. */
  options(result: unknown): void {
    const r = dict(result);
    const modes = dict(r['modes']);
    if (Array.isArray(modes['availableModes'])) this.modes.value = modes as unknown as SessionModeState;
    if (Array.isArray(r['configOptions'])) this.config.value = r['configOptions'] as SessionConfigOption[];
  }

  mode(id: string): void {
    if (this.modes.value) this.modes.value = { ...this.modes.value, currentModeId: id };
  }

  /** Takes a session/update. True when there is nothing in it for the transcript. */
  take(update: Dict, meta: EventMeta): boolean {
    switch (update['sessionUpdate']) {
      case 'available_commands_update':
        if (Array.isArray(update['availableCommands'])) this.commands.value = update['availableCommands'] as AvailableCommand[];
        return true;
      case 'current_mode_update': {
        const id = str(update['currentModeId']);
        if (id !== undefined) this.mode(id);
        return true;
      }
      case 'config_option_update':
        this.options(update);
        return true;
      case 'usage_update':
        this.spend(update);
        return true;
      case 'session_info_update': {
        const title = str(update['title']);
        if (title !== undefined) this.title.value = title;
        return true;
      }
      case 'plan':
        this.plan.value = planItems(update['entries']);
        return meta.kind === 'snapshot';
      default:
        return meta.kind === 'snapshot';
    }
  }

  // Agents that do not count send zeros: that is no usage at all (CASE 32).
  private spend(update: Dict): void {
    const used = num(update['used']);
    const size = num(update['size']);
    if (used === undefined || size === undefined || size <= 0) return;
    const cost = dict(update['cost']);
    const amount = num(cost['amount']);
    this.usage.value = { used, size, ...(amount ? { cost: { amount, currency: str(cost['currency']) ?? '' } } : {}) };
  }
}
