// The page's state: who is logged in, the links to agents, what is shown.

import { batch, signal } from '@preact/signals';
import { endpoint, openSocket } from '../wire/connection';
import { toProblem } from '../wire/problem';
import { opt, type ContentBlock, type Slot } from '../wire/types';
import { Catalog, sorted, type Row } from './catalog';
import { Flusher, frames } from './flush';
import { logout, whoami } from './http';
import { Keep, shelf } from './keep';
import { Link, type LinkDeps } from './link';
import { Notifier } from './notify';
import { formatRoute, parseRoute, type Route } from './route';
import type { Session } from './session';

export type Auth = 'unknown' | 'in' | 'out' | 'unreachable';

export class App {
  readonly auth = signal<Auth>('unknown');
  readonly principal = signal('');
  readonly canLeave = signal(false);
  /** The login link that led here did not work. */
  readonly linkFailed = signal(false);
  readonly route = signal<Route>({});
  readonly links = signal<readonly Link[]>([]);
  readonly drawer = signal(false);
  readonly help = signal(false);
  /** One short line for a screen reader. */
  readonly said = signal('');
  readonly toast = signal<string | undefined>(undefined);
  readonly catalog = new Catalog();
  readonly keep: Keep;
  readonly notifier: Notifier;
  /** Text that the composer should take over, as when a prompt is taken out of the queue. */
  readonly handedBack = signal<{ draftId: string; text: string } | undefined>(undefined);
  /** There is room for a side conversation beside its parent. */
  readonly wide = signal(false);
  private readonly deps: LinkDeps;
  private refreshTimer: ReturnType<typeof setTimeout> | undefined;
  private toastTimer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    const local = shelf(() => localStorage);
    const tab = shelf(() => sessionStorage);
    this.keep = new Keep(local, tab);
    this.notifier = new Notifier(this.keep);
    this.deps = {
      open: (agent) => openSocket(endpoint(document.baseURI, agent)),
      whoami: async () => (await whoami()).state,
      random: Math.random,
      session: {
        flusher: new Flusher(frames),
        shelf: tab,
        announce: (session, ask) => {
          const title = session.around.title.value ?? 'A session';
          this.say(`${title} is waiting for your answer`);
          this.notifier.waiting(session, ask, () => this.show(session.id, session.agent));
        },
        staged: (session, slot) => void this.openSide(session, slot),
        turnEnded: (session) => {
          if (session.id === this.route.value.session) this.say('The turn has ended');
          this.refreshSoon();
        },
      },
    };
  }

  /** The link that is used: of the shown session, or for the next chat. */
  readonly link = signal<Link | undefined>(undefined);
  /** The session that is shown. */
  readonly session = signal<Session | undefined>(undefined);

  /** The parent of the side conversation that is shown, when there is room for it. */
  beside(): Session | undefined {
    const parent = this.parentBeside();
    const link = this.link.value;
    const session = parent !== undefined && link && link.count.value > 0 ? link.sessions.get(parent) : undefined;
    return session?.attach.value === 'gone' ? undefined : session;
  }

  /** Opens that parent, as after a reload of the page. */
  openBeside(): void {
    const parent = this.parentBeside();
    if (parent !== undefined && !this.link.value?.sessions.has(parent)) this.link.value?.open(parent, this.cwdOf(parent));
  }

  private parentBeside(): string | undefined {
    return this.wide.value ? this.session.value?.parent.value : undefined;
  }

  async start(): Promise<void> {
    this.linkFailed.value = new URLSearchParams(location.search).get('login') === 'failed';
    const route = parseRoute(location.search, location.hash);
    if (location.search) history.replaceState(null, '', location.pathname + formatRoute(route));
    this.route.value = route;
    addEventListener('popstate', () => this.follow());
    addEventListener('hashchange', () => this.follow());
    const back = () => {
      if (document.visibilityState !== 'visible') return;
      for (const l of this.links.value) l.wake();
    };
    const room = matchMedia('(min-width: 1160px)');
    const measure = () => (this.wide.value = room.matches);
    measure();
    room.addEventListener('change', measure);
    document.addEventListener('visibilitychange', back);
    addEventListener('online', back);
    addEventListener('focus', back);
    await this.enter();
  }

  /** Finds out who we are and opens the first link. Called again after a login. */
  async enter(): Promise<void> {
    const who = await whoami();
    if (who.state !== 'ok') {
      this.auth.value = who.state === 'unauthorized' ? 'out' : 'unreachable';
      return;
    }
    batch(() => {
      this.principal.value = who.name;
      this.canLeave.value = who.canLeave;
      this.auth.value = 'in';
    });
    for (const l of this.links.value) l.retry();
    this.sync();
  }

  /** The link to an agent ('' is the gateway's default), opened when there is none yet. */
  use(agent: string): Link {
    const known = this.links.value.find((l) => l.agent === agent || l.name === agent);
    if (known) return known;
    const link = new Link(agent, this.deps);
    this.links.value = [...this.links.value, link];
    link.status.subscribe((s) => {
      if (s.kind === 'unauthorized') this.auth.value = 'out';
      if (s.kind === 'open') void this.catalog.refresh(link);
      if (s.kind === 'waiting' && s.tries > 1 && link.init.peek() === undefined) this.fallBack(link);
    });
    return link;
  }

  /** Picks the agent of the next chat. */
  pick(agent: string): void {
    this.keep.setChoice('agent', agent);
    this.link.value = this.use(agent);
  }

  // The agent of the last time may be gone from the configuration: the default one is always there.
  private fallBack(link: Link): void {
    if (link.agent === '' || link.agent !== this.keep.choice('agent') || this.route.value.session !== undefined) return;
    this.keep.setChoice('agent', undefined);
    this.links.value = this.links.value.filter((l) => l !== link);
    link.close();
    this.link.value = this.use('');
  }

  // Makes link and session follow the route.
  private sync(): void {
    if (this.auth.value !== 'in') return;
    const { session, agent } = this.route.value;
    const link = agent !== undefined || session !== undefined ? this.use(agent ?? '') : (this.link.value ?? this.use(this.keep.choice('agent') ?? ''));
    batch(() => {
      this.link.value = link;
      this.session.value = session === undefined ? undefined : link.open(session, this.cwdOf(session));
    });
  }

  /** Shows a session, or the new-chat view without one. */
  show(session?: string, agent?: string): void {
    const route: Route = session === undefined ? {} : { session, ...(agent ? { agent } : {}) };
    batch(() => {
      this.drawer.value = false;
      this.route.value = route;
      this.sync();
    });
    if (location.hash !== formatRoute(route)) history.pushState(null, '', formatRoute(route));
  }

  /** The list of sessions, with those of this page in front that the agents do not list yet. */
  rows(): readonly Row[] {
    const listed = this.catalog.rows.value;
    const fresh: Row[] = [];
    for (const link of this.links.value) {
      if (link.count.value === 0) continue;
      for (const s of link.sessions.values()) {
        const id = s.binding.value;
        const said = s.transcript.turns.value.length > 0 || s.prompts.items.value.length > 0;
        if (!said || s.attach.value === 'gone' || listed.some((r) => r.sessionId === id)) continue;
        fresh.push({ sessionId: id, agent: s.agent, cwd: s.cwd.value, updatedAt: s.createdAt, ...opt('title', s.around.title.value) });
      }
    }
    return fresh.length === 0 ? listed : [...sorted(fresh), ...listed];
  }

  /** Shows a session of the list: in the view that has it, in its own view brought home, or in a new one. */
  pickRow(agent: string, id: string): void {
    const link = this.use(agent);
    const view = link.showing(id);
    const drifted = view ? undefined : link.sessions.get(id);
    this.show(view?.id ?? id, agent);
    drifted?.comeHome().catch((e: unknown) => this.pop(toProblem(e).title));
  }

  private follow(): void {
    this.route.value = parseRoute('', location.hash);
    this.sync();
  }

  /** Makes a session and sends its first prompt. Resolves to what went wrong, if anything did. */
  async begin(link: Link, cwd: string, blocks: readonly ContentBlock[]): Promise<unknown> {
    try {
      const session = await link.create(cwd);
      this.keep.setCwd(session.id, session.cwd.value);
      this.keep.setChoice('agent', link.name);
      this.keep.setChoice('dir', cwd);
      session.prompts.add(blocks);
      this.show(session.id, link.name);
      this.refreshSoon();
      return undefined;
    } catch (e) {
      return e;
    }
  }

  // Opens the side conversation that /side has staged. The gateway sends its question.
  private async openSide(from: Session, slot: Slot): Promise<void> {
    const link = this.links.value.find((l) => l.sessions.get(from.id) === from);
    if (!link) return;
    try {
      const side = await link.create(slot.cwd, slot.token);
      this.show(side.id, link.name);
    } catch (e) {
      this.pop(`The side conversation could not be opened: ${toProblem(e).title}`);
    }
  }

  async remove(agent: string, id: string): Promise<void> {
    const link = this.use(agent);
    try {
      const connection = await link.connected();
      await connection.request('session/delete', { sessionId: id });
    } catch (e) {
      this.pop(toProblem(e).title);
      return;
    }
    link.drop(id);
    this.catalog.remove(agent, id);
    if (this.route.value.session === id) this.show();
    void this.catalog.refresh(link);
  }

  async leave(): Promise<void> {
    await logout().catch(() => undefined);
    for (const l of this.links.value) l.close();
    location.hash = '#/';
    location.reload();
  }

  say(text: string): void {
    this.said.value = text;
  }

  /** A line at the edge of the screen for a few seconds. */
  pop(text: string): void {
    this.toast.value = text;
    clearTimeout(this.toastTimer);
    this.toastTimer = setTimeout(() => (this.toast.value = undefined), 6_000);
  }

  refreshSoon(): void {
    clearTimeout(this.refreshTimer);
    this.refreshTimer = setTimeout(() => {
      for (const l of this.links.value) if (l.status.value.kind === 'open') void this.catalog.refresh(l);
    }, 1_000);
  }

  /** The directory of a session, from the list or from memory; '' when unknown. */
  private cwdOf(id: string): string {
    const row = this.catalog.rows.value.find((r) => r.sessionId === id);
    return row?.cwd ?? this.keep.cwd(id) ?? '';
  }
}
