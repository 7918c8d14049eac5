import { useComputed } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { oneLine } from '../md/safe';
import type { App } from '../store/app';
import type { Session } from '../store/session';
import { AskCard } from './AskCard';
import { AppContext, SessionContext, useApp } from './context';
import { Conversation } from './Conversation';
import { Header } from './Header';
import { Help } from './Help';
import * as icons from './icons';
import { Login } from './Login';
import { NewChat } from './NewChat';
import { Spinner } from './parts';
import { Sidebar } from './Sidebar';
import { shortcuts } from './shortcuts';

export function Root({ app }: { app: App }) {
  return (
    <AppContext.Provider value={app}>
      <View />
    </AppContext.Provider>
  );
}

function View() {
  const app = useApp();
  switch (app.auth.value) {
    case 'unknown':
      return (
        <main class="splash">
          <Spinner label="Loading" />
        </main>
      );
    case 'unreachable':
      return <Unreachable />;
    case 'out':
      return <Login />;
    case 'in':
      return <Shell />;
  }
}

function Unreachable() {
  const app = useApp();
  useEffect(() => {
    const timer = setInterval(() => void app.enter(), 5_000);
    return () => clearInterval(timer);
  }, []);
  return (
    <main class="splash">
      <icons.Mark />
      <h1>The gateway cannot be reached</h1>
      <p class="muted">Is it running? The page tries again by itself.</p>
      <button type="button" onClick={() => void app.enter()}>
        Try now
      </button>
    </main>
  );
}

function Shell() {
  const app = useApp();
  useEffect(() => shortcuts(app), []);
  const session = app.session.value;
  const waiting = useComputed(() => {
    let n = 0;
    for (const l of app.links.value) if (l.count.value > 0) for (const s of l.sessions.values()) if (s.asks.open.value.length > 0) n++;
    return n;
  });
  useEffect(() => {
    const title = session?.around.title.value ?? (session ? 'Chat' : 'New chat');
    document.title = `${waiting.value > 0 ? `(${waiting.value}) ` : ''}${title} · acpgate`;
  });
  return (
    <div class={`shell ${app.drawer.value ? 'drawer-open' : ''}`}>
      <a class="skip" href="#composer" onClick={(e) => (e.preventDefault(), document.getElementById('composer')?.focus())}>
        Skip to the message box
      </a>
      <Sidebar />
      {app.drawer.value ? <button type="button" class="scrim" aria-label="Close the list of sessions" onClick={() => (app.drawer.value = false)} /> : null}
      <main class="main" aria-label="Conversation">
        <Header />
        <LooseAsks />
        {session ? <Panes session={session} /> : <NewChat />}
      </main>
      {app.help.value ? <Help /> : null}
      <Toast />
      <div class="visually-hidden" role="status" aria-live="polite">
        {app.said.value}
      </div>
    </div>
  );
}

/** The conversation that is shown, on a wide screen with its parent at its left. */
function Panes({ session }: { session: Session }) {
  const app = useApp();
  const parent = app.beside();
  useEffect(() => app.openBeside(), [session, session.parent.value, app.wide.value]);
  const close = () => parent && app.show(parent.id, parent.agent);
  return (
    <div class={`panes ${parent ? 'two' : ''}`}>
      {(parent ? [parent, session] : [session]).map((s) => (
        <section key={s.id} class="pane" aria-label={parent ? (s === parent ? 'Main conversation' : 'Side conversation') : undefined}>
          {parent ? (
            <header class="pane-head">
              <h2>{s === parent ? oneLine(s.around.title.value ?? '', 120) || 'Main conversation' : 'Side conversation'}</h2>
              {s === parent ? null : (
                <button type="button" class="ghost icon-only" aria-label="Close the side conversation" title="Close" onClick={close}>
                  <icons.Close />
                </button>
              )}
            </header>
          ) : null}
          <SessionContext.Provider value={s}>
            <Conversation session={s} aside={s === parent} />
          </SessionContext.Provider>
        </section>
      ))}
    </div>
  );
}

/** Questions that belong to no session, as during a login of the agent. */
function LooseAsks() {
  const app = useApp();
  const open = app.links.value.flatMap((l) => l.asks.open.value.map((ask) => ({ ask, asks: l.asks })));
  if (open.length === 0) return null;
  return (
    <div class="loose">
      {open.map(({ ask, asks }) => (
        <AskCard key={ask.id} ask={ask} asks={asks} />
      ))}
    </div>
  );
}

function Toast() {
  const app = useApp();
  const text = app.toast.value;
  return text ? (
    <div class="toast" role="status">
      {text}
    </div>
  ) : null;
}
