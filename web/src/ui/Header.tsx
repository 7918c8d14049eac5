import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { oneLine } from '../md/safe';
import type { Link } from '../store/link';
import type { Session } from '../store/session';
import { useApp } from './context';
import * as icons from './icons';
import { shortPath, Spinner } from './parts';

export function Header() {
  const app = useApp();
  const session = app.session.value;
  const link = app.link.value;
  const info = link?.init.value;
  return (
    <header class="header">
      <button type="button" class="ghost icon-only menu" aria-label="Open the list of sessions" aria-expanded={app.drawer.value} onClick={() => (app.drawer.value = !app.drawer.value)}>
        <icons.Menu />
      </button>
      <div class="header-title">
        <h1>{session ? oneLine(session.around.title.value ?? '') || (session.attach.value === 'gone' ? 'Unknown session' : 'New session') : 'New chat'}</h1>
        {session ? (
          <p class="header-sub">
            <span>{info?.agentTitle ?? session.agent}</span>
            <Parent session={session} />
            <span class="path" title={session.cwd.value}>
              {shortPath(session.cwd.value)}
            </span>
          </p>
        ) : null}
      </div>
      {session ? <UsageMeter session={session} /> : null}
      {link ? <ConnectionPill link={link} /> : null}
    </header>
  );
}

function Parent({ session }: { session: Session }) {
  const app = useApp();
  const parent = session.parent.value;
  if (parent === undefined) return null;
  return (
    <button type="button" class="link" onClick={() => app.show(parent, session.agent)}>
      Side conversation: back to the main one
    </button>
  );
}

function UsageMeter({ session }: { session: Session }) {
  const u = session.around.usage.value;
  if (!u) return null;
  const share = Math.min(1, u.used / u.size);
  // Next to nothing is not worth a place in the header.
  if (share < 0.01 && !u.cost) return null;
  const percent = `${Math.round(share * 100)} %`;
  const cost = u.cost ? ` · ${money(u.cost.amount, u.cost.currency)}` : '';
  const label = `${u.used.toLocaleString()} of ${u.size.toLocaleString()} tokens of context used${cost}`;
  return (
    <span class={`usage ${share > 0.85 ? 'high' : ''}`} title={label} role="img" aria-label={label}>
      <svg viewBox="0 0 20 20" width="16" height="16" aria-hidden="true">
        <circle class="usage-track" cx="10" cy="10" r="7" fill="none" stroke-width="3" />
        <circle class="usage-fill" cx="10" cy="10" r="7" fill="none" stroke-width="3" stroke-dasharray={`${share * 44} 44`} transform="rotate(-90 10 10)" />
      </svg>
      <span aria-hidden="true">
        {percent}
        {cost}
      </span>
    </span>
  );
}

function money(amount: number, currency: string): string {
  try {
    return new Intl.NumberFormat(undefined, { style: 'currency', currency, maximumFractionDigits: amount < 1 ? 4 : 2 }).format(amount);
  } catch {
    return `${amount} ${currency}`;
  }
}

function ConnectionPill({ link }: { link: Link }) {
  const s = link.status.value;
  switch (s.kind) {
    case 'open':
      return null;
    case 'connecting':
      return (
        <span class="pill" role="status">
          <Spinner /> {s.first ? 'Starting the agent…' : 'Reconnecting…'}
        </span>
      );
    case 'waiting':
      return (
        <span class="pill warn" role="status" title={s.why}>
          Offline · <Countdown until={s.until} />
          <button type="button" class="link" onClick={() => link.wake()}>
            Retry
          </button>
        </span>
      );
    case 'stopped':
      return (
        <span class="pill warn" role="status" title={s.problem.hint}>
          Not connected
          <button type="button" class="link" onClick={() => link.retry()}>
            Connect
          </button>
        </span>
      );
    case 'unauthorized':
      return <span class="pill warn">Logged out</span>;
  }
}

function Countdown({ until }: { until: number }) {
  const now = useSignal(Date.now());
  useEffect(() => {
    const timer = setInterval(() => (now.value = Date.now()), 500);
    return () => clearInterval(timer);
  }, []);
  const left = Math.ceil((until - now.value) / 1000);
  return <span>{left > 0 ? `trying in ${left} s` : 'trying…'}</span>;
}
