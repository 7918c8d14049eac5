import { useComputed, useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import type { Session } from '../store/session';
import type { ContentBlock } from '../wire/types';
import { AgentLogin } from './AgentLogin';
import { AskCard } from './AskCard';
import { Composer } from './Composer';
import { useApp } from './context';
import * as icons from './icons';
import { MergeCard } from './MergeCard';
import { Outbox } from './Outbox';
import { ProblemCard, Spinner } from './parts';
import { PlanStrip } from './Plan';
import { Selectors } from './Selectors';
import { TurnView } from './TurnView';

/** Turns that are mounted at once; older ones come when somebody scrolls up to them. */
const page = 200;
/** A background activity without output for this long counts as over, in ms. */
const quietMs = 10_000;

/** A conversation; `aside` is the parent that is shown beside a side conversation. */
export function Conversation({ session, aside = false }: { session: Session; aside?: boolean }) {
  const app = useApp();
  const link = app.link.value;
  const attach = session.attach.value;
  const send = (blocks: ContentBlock[]) => session.prompts.add(blocks);
  useEffect(() => {
    if (attach === 'attached') app.keep.setCwd(session.id, session.cwd.value);
  }, [attach]);
  return (
    <div class="conversation" aria-busy={attach === 'attaching' || attach === 'detached'}>
      <Scroll session={session} />
      <div class="dock" hidden={attach === 'gone'}>
        <PlanStrip session={session} />
        <ForceStop session={session} />
        <MergeCard session={session} />
        <Composer
          draftId={session.id}
          aside={aside}
          init={link?.init.value}
          commands={session.around.commands.value}
          placeholder={session.running ? 'Queue a message' : 'Message'}
          running={session.running}
          onSend={send}
          onStop={() => session.stop()}
        >
          <Selectors session={session} />
        </Composer>
      </div>
    </div>
  );
}

function Scroll({ session }: { session: Session }) {
  const box = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const follow = useRef(true);
  const seen = useRef({ top: 0, height: 0 });
  const away = useSignal(false);

  // Keeps the end in view while it grows, unless somebody has scrolled up to read.
  useLayoutEffect(() => {
    const el = box.current;
    const content = inner.current;
    if (!el || !content) return undefined;
    const down = () => {
      if (follow.current) el.scrollTop = el.scrollHeight;
    };
    down();
    const grown = new ResizeObserver(down);
    grown.observe(content);
    grown.observe(el);
    return () => grown.disconnect();
  }, []);

  // Only a move up ends the following. The browser itself moves up when the content shrinks.
  const onScroll = () => {
    const el = box.current;
    if (!el) return;
    const { top, height } = seen.current;
    seen.current = { top: el.scrollTop, height: el.scrollHeight };
    if (el.scrollHeight - el.scrollTop - el.clientHeight < 60) follow.current = true;
    else if (el.scrollTop < top - 1 && el.scrollHeight >= height) follow.current = false;
    away.value = !follow.current;
  };
  const toEnd = () => {
    follow.current = true;
    away.value = false;
    box.current?.scrollTo({ top: box.current.scrollHeight });
  };

  return (
    <div class="scroll-frame">
      <div class="scroll" ref={box} onScroll={onScroll} tabIndex={0} role="log" aria-live="off" aria-label="Messages">
        <div class="column" ref={inner}>
          {/* Another session is another list; it fades in, where motion is wanted. */}
          <div key={session.switches.value} class={session.switches.value > 0 ? 'switched' : undefined}>
            <Turns session={session} />
          </div>
          <Below session={session} onSent={toEnd} />
        </div>
      </div>
      {away.value ? (
        <button type="button" class="to-end" onClick={toEnd} aria-label="Go to the end">
          <icons.Down />
        </button>
      ) : null}
    </div>
  );
}

function Turns({ session }: { session: Session }) {
  const turns = session.transcript.turns.value;
  const shown = useSignal(page);
  const first = Math.max(0, turns.length - shown.value);
  const top = useRef<HTMLButtonElement>(null);
  const more = () => {
    const el = top.current?.closest('.scroll');
    const fromEnd = el ? el.scrollHeight - el.scrollTop : 0;
    shown.value += page;
    // The new turns go in above: what was being read stays where it was.
    requestAnimationFrame(() => {
      if (el) el.scrollTop = el.scrollHeight - fromEnd;
    });
  };
  if (turns.length === 0 && session.prompts.items.value.length === 0) return <Opening session={session} />;
  return (
    <>
      {first > 0 ? (
        <button type="button" class="ghost wide earlier" ref={top} onClick={more}>
          {first.toLocaleString()} earlier {first === 1 ? 'turn' : 'turns'}
        </button>
      ) : null}
      {turns.slice(first).map((t, i, all) => (
        <TurnView key={t.id} turn={t} session={session} last={i === all.length - 1} first={first + i === 0} />
      ))}
    </>
  );
}

function Opening({ session }: { session: Session }) {
  const attach = session.attach.value;
  if (attach === 'attaching' || attach === 'detached') {
    return (
      <div class="opening">
        <Spinner label="Loading the conversation" />
        <p class="muted">Loading the conversation…</p>
      </div>
    );
  }
  if (attach === 'gone' || attach === 'failed') return null;
  return (
    <div class="opening">
      <p class="muted">Nothing was said here yet.</p>
    </div>
  );
}

function Below({ session, onSent }: { session: Session; onSent: () => void }) {
  const asks = session.asks.open.value;
  const count = session.prompts.items.value.length;
  const before = useRef(count);
  useEffect(() => {
    if (count > before.current) onSent();
    before.current = count;
  }, [count]);
  return (
    <>
      {asks.map((a) => (
        <AskCard key={a.id} ask={a} asks={session.asks} />
      ))}
      <Working session={session} />
      <Outbox session={session} />
      <Trouble session={session} />
    </>
  );
}

/** What goes on while nothing new is on the screen. */
function Working({ session }: { session: Session }) {
  const state = session.view.value.state;
  const asking = session.asks.open.value.length > 0;
  if (asking) return null;
  if (state === 'waking') return <WorkingLine text="Waking the agent…" />;
  if (state === 'stopping') return <WorkingLine text="Stopping…" />;
  if (state === 'running') return <WorkingLine text="Working…" />;
  return <Background session={session} />;
}

function WorkingLine({ text }: { text: string }) {
  return (
    <p class="working">
      <Spinner /> <span class="shimmer">{text}</span>
    </p>
  );
}

// Output that no prompt asked for has no end of its own (CASE 27).
function Background({ session }: { session: Session }) {
  const last = session.transcript.turns.value.at(-1);
  const at = session.lastOutput.value;
  const active = useSignal(false);
  const background = useComputed(() => session.transcript.turns.value.at(-1)?.background === true);
  useEffect(() => {
    const left = at + quietMs - Date.now();
    active.value = background.value && left > 0;
    if (left <= 0) return undefined;
    const timer = setTimeout(() => (active.value = false), left);
    return () => clearTimeout(timer);
  }, [at, last]);
  return active.value ? <WorkingLine text="Background activity" /> : null;
}

function Trouble({ session }: { session: Session }) {
  const app = useApp();
  const link = app.link.value;
  const problem = session.problem.value;
  const status = link?.status.value;
  if (status?.kind === 'stopped') {
    return (
      <ProblemCard problem={status.problem}>
        <button type="button" onClick={() => link?.retry()}>
          Connect
        </button>
      </ProblemCard>
    );
  }
  if (!problem || !link) return null;
  const again = () => link.open(session.id, session.cwd.value);
  if (problem.code === -32000) return <AgentLogin link={link} onDone={again} />;
  return (
    <ProblemCard problem={problem}>
      {session.attach.value === 'gone' ? (
        <button type="button" onClick={() => app.show()}>
          New chat
        </button>
      ) : (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </ProblemCard>
  );
}

function ForceStop({ session }: { session: Session }) {
  const app = useApp();
  const offer = session.view.value.forceStop;
  if (!offer) return null;
  const others = offer.otherSessions;
  const go = () => {
    session.forceStop().catch(() => app.pop('The agent could not be stopped.'));
  };
  return (
    <div class="force" role="alert">
      <p>
        The agent did not stop.{' '}
        {others > 0 ? `Ending its process also ends ${others} other ${others === 1 ? 'session' : 'sessions'} that it runs now.` : 'Its process can be ended.'}
      </p>
      <button type="button" class="danger" onClick={go}>
        Force stop
      </button>
    </div>
  );
}
