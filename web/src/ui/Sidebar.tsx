import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { oneLine } from '../md/safe';
import { matches, type Row } from '../store/catalog';
import type { Session } from '../store/session';
import { setTheme, themeOf, themes, type Theme } from '../store/theme';
import { useApp } from './context';
import * as icons from './icons';
import { ago, Dialog, shortPath, Spinner } from './parts';

export function Sidebar() {
  const app = useApp();
  const query = useSignal('');
  const doomed = useSignal<Row | undefined>(undefined);
  const all = app.rows();
  const rows = query.value.trim() ? all.filter((r) => matches(r, query.value.trim())) : all;
  return (
    <aside class="sidebar" aria-label="Sessions">
      <div class="brand">
        <icons.Mark />
        <span>acpgate</span>
      </div>
      <button type="button" class="new-chat" onClick={() => app.show()} aria-current={app.session.value ? undefined : 'page'}>
        <icons.Plus />
        New chat
        <kbd aria-hidden="true">Alt N</kbd>
      </button>
      <label class="search">
        <icons.Search />
        <span class="visually-hidden">Search the sessions</span>
        <input id="session-search" type="search" placeholder="Search" value={query.value} onInput={(e) => (query.value = e.currentTarget.value)} />
      </label>
      <nav class="sessions" aria-label="Sessions">
        {groups(rows).map(([name, part]) => (
          <section key={name}>
            <h2>{name}</h2>
            <ul>
              {part.map((r) => (
                <SessionRow key={`${r.agent} ${r.sessionId}`} row={r} onDelete={() => (doomed.value = r)} />
              ))}
            </ul>
          </section>
        ))}
        {rows.length === 0 ? <Empty searching={query.value.trim() !== ''} /> : null}
        {app.catalog.more.value ? (
          <button type="button" class="ghost wide" onClick={() => void app.catalog.extend(app.links.value)} disabled={app.catalog.loading.value}>
            {app.catalog.loading.value ? 'Loading…' : 'Older sessions'}
          </button>
        ) : null}
      </nav>
      <Footer />
      {doomed.value ? <DeleteDialog row={doomed.value} onDone={() => (doomed.value = undefined)} /> : null}
    </aside>
  );
}

function Empty({ searching }: { searching: boolean }) {
  const app = useApp();
  if (app.catalog.loading.value) return <Spinner label="Loading the sessions" />;
  const problem = app.catalog.problem.value;
  if (problem) return <p class="empty">The sessions could not be listed: {problem.title}</p>;
  return <p class="empty">{searching ? 'No session matches.' : 'Your sessions will be listed here.'}</p>;
}

function groups(rows: readonly Row[]): [string, Row[]][] {
  const midnight = new Date().setHours(0, 0, 0, 0);
  const day = 86_400_000;
  const name = (t: number | undefined) => {
    if (t === undefined) return 'Older';
    if (t >= midnight) return 'Today';
    if (t >= midnight - day) return 'Yesterday';
    return t >= midnight - 6 * day ? 'This week' : 'Older';
  };
  const out = new Map<string, Row[]>();
  for (const r of rows) {
    const n = name(r.updatedAt);
    out.set(n, [...(out.get(n) ?? []), r]);
  }
  return [...out];
}

function SessionRow({ row, onDelete }: { row: Row; onDelete: () => void }) {
  const app = useApp();
  const link = app.links.value.find((l) => l.name === row.agent);
  const session = link?.showing(row.sessionId);
  const title = oneLine(session?.around.title.value ?? row.title ?? '') || 'Untitled';
  const current = session !== undefined && session === app.session.value;
  return (
    <li class="session">
      <a
        href={`#/s/${encodeURIComponent(row.sessionId)}?agent=${encodeURIComponent(row.agent)}`}
        aria-current={current ? 'page' : undefined}
        onClick={(e) => {
          if (e.ctrlKey || e.metaKey || e.shiftKey) return;
          e.preventDefault();
          app.pickRow(row.agent, row.sessionId);
        }}
      >
        <span class="session-title">{title}</span>
        <span class="session-meta">
          <span title={row.cwd}>{shortPath(row.cwd)}</span>
          {app.links.value.length > 1 ? <span>{row.agent}</span> : null}
          <span>{ago(row.updatedAt)}</span>
        </span>
        {session ? <Badge session={session} /> : null}
      </a>
      <button type="button" class="ghost icon-only session-delete" aria-label={`Delete ${title}`} onClick={onDelete}>
        <icons.Trash />
      </button>
    </li>
  );
}

function Badge({ session }: { session: Session }) {
  if (session.asks.open.value.length > 0) return <span class="badge waiting">waiting</span>;
  const running = session.view.value.state;
  if (running === 'running' || running === 'stopping' || running === 'waking') return <span class="badge running">running</span>;
  return null;
}

function DeleteDialog({ row, onDone }: { row: Row; onDone: () => void }) {
  const app = useApp();
  const busy = useRef(false);
  const remove = () => {
    if (busy.current) return;
    busy.current = true;
    void app.remove(row.agent, row.sessionId).finally(onDone);
  };
  return (
    <Dialog title="Delete this session?" onClose={onDone}>
      <p>
        <strong>{oneLine(row.title ?? '') || 'Untitled'}</strong> will be deleted at the agent. This cannot be undone.
      </p>
      <div class="actions end">
        <button type="button" onClick={onDone}>
          Keep it
        </button>
        <button type="button" class="danger" onClick={remove}>
          Delete
        </button>
      </div>
    </Dialog>
  );
}

const themeIcon: Record<Theme, () => preact.JSX.Element> = { system: icons.Auto, light: icons.Sun, dark: icons.Moon };

function Footer() {
  const app = useApp();
  const theme = useSignal(themeOf(app.keep));
  const next = themes[(themes.indexOf(theme.value) + 1) % themes.length] ?? 'system';
  const ThemeIcon = themeIcon[theme.value];
  const notify = app.notifier.state.value;
  return (
    <footer class="sidebar-foot">
      <span class="who" title={app.principal.value}>
        {app.principal.value || 'you'}
      </span>
      <button
        type="button"
        class="ghost icon-only"
        aria-label={`Colours: ${theme.value}. Switch to ${next}`}
        title={`Colours: ${theme.value}`}
        onClick={() => {
          setTheme(app.keep, next);
          theme.value = next;
        }}
      >
        <ThemeIcon />
      </button>
      {notify === 'unsupported' ? null : (
        <button
          type="button"
          class={`ghost icon-only ${notify === 'on' ? 'on' : ''}`}
          aria-pressed={notify === 'on'}
          aria-label="Notify me when an agent waits for my answer"
          title={notify === 'denied' ? 'Notifications are blocked in this browser' : 'Notify me when an agent waits'}
          disabled={notify === 'denied'}
          onClick={() => void app.notifier.toggle()}
        >
          <icons.Bell />
        </button>
      )}
      <button type="button" class="ghost icon-only" aria-label="Keyboard shortcuts" title="Keyboard shortcuts" onClick={() => (app.help.value = true)}>
        <icons.Keyboard />
      </button>
      {app.canLeave.value ? (
        <button type="button" class="ghost icon-only" aria-label="Log out" title="Log out" onClick={() => void app.leave()}>
          <icons.Leave />
        </button>
      ) : null}
    </footer>
  );
}
