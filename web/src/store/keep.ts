// Small things that a browser keeps: drafts, the directory of a session, the last choices. Every read tolerates junk and
// every write a full or forbidden storage.

import type { Shelf } from './outbox';

const cwdsMax = 200;

export function shelf(of: () => Storage): Shelf {
  const safe = <T>(f: () => T, other: T): T => {
    try {
      return f();
    } catch {
      return other;
    }
  };
  return {
    getItem: (k) => safe(() => of().getItem(k), null),
    setItem: (k, v) => of().setItem(k, v),
    removeItem: (k) => safe(() => of().removeItem(k), undefined),
  };
}

export class Keep {
  private readonly local: Shelf;
  private readonly tab: Shelf;

  /** local outlives the browser, tab outlives a reload. */
  constructor(local: Shelf, tab: Shelf) {
    this.local = local;
    this.tab = tab;
  }

  draft(session: string): string {
    return this.tab.getItem(`acpgate.draft.${session}`) ?? '';
  }

  setDraft(session: string, text: string): void {
    const key = `acpgate.draft.${session}`;
    if (text === '') this.tab.removeItem(key);
    else this.write(this.tab, key, text);
  }

  /** session/load needs the directory, also after a reload. */
  cwd(session: string): string | undefined {
    return this.cwds()[session];
  }

  setCwd(session: string, cwd: string): void {
    const all = Object.entries(this.cwds()).filter(([id]) => id !== session);
    all.push([session, cwd]);
    this.write(this.local, 'acpgate.cwds', JSON.stringify(Object.fromEntries(all.slice(-cwdsMax))));
  }

  choice(name: string): string | undefined {
    return this.local.getItem(`acpgate.${name}`) ?? undefined;
  }

  setChoice(name: string, value: string | undefined): void {
    if (value === undefined) this.local.removeItem(`acpgate.${name}`);
    else this.write(this.local, `acpgate.${name}`, value);
  }

  private cwds(): Record<string, string> {
    try {
      const v: unknown = JSON.parse(this.local.getItem('acpgate.cwds') ?? '{}');
      if (typeof v !== 'object' || v === null) return {};
      return Object.fromEntries(Object.entries(v).filter((e): e is [string, string] => typeof e[1] === 'string'));
    } catch {
      return {};
    }
  }

  private write(to: Shelf, key: string, value: string): void {
    try {
      to.setItem(key, value);
    } catch {
      // Forgetting a draft or a choice is all that happens.
    }
  }
}
