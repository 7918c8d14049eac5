import { useSignal } from '@preact/signals';
import { Fragment } from 'preact';
import type { Origin, Turn } from '../store/entries';
import type { Session } from '../store/session';
import { problemOf } from '../wire/problem';
import { AgentLogin } from './AgentLogin';
import { useApp } from './context';
import { EntryView } from './Entries';
import { ProblemCard } from './parts';

/** One turn. It renders again when its list of entries changes; an entry that grows renders alone. */
export function TurnView({ turn, session, last, first }: { turn: Turn; session: Session; last: boolean; first: boolean }) {
  // Read so that this component, and no other, renders again.
  void turn.rev.value;
  const live = last && session.running;
  return (
    <article class="turn" aria-label={turn.background ? 'Background activity' : undefined}>
      {turn.background && !first ? <p class="quiet">Background activity</p> : null}
      {turn.entries.map((e, i) => (
        <Fragment key={e.id}>
          {e.begins ? <Mark begins={e.begins} /> : null}
          <EntryView entry={e} live={live && i === turn.entries.length - 1} />
        </Fragment>
      ))}
      <TurnEnd turn={turn} last={last} />
    </article>
  );
}

const marks: Readonly<Record<Origin, string>> = { replay: 'Earlier', inherited: 'From the main conversation', live: 'New from here' };

/** A thin rule where replayed history begins or ends. */
function Mark({ begins }: { begins: Origin }) {
  return (
    <div class="mark-line" role="separator" aria-label={marks[begins]}>
      <span>{marks[begins]}</span>
    </div>
  );
}

const ends: Record<string, string> = {
  cancelled: 'Stopped',
  max_tokens: 'The answer reached the token limit',
  max_turn_requests: 'The turn reached its limit of model requests',
  refusal: 'The agent declined to answer',
};

function TurnEnd({ turn, last }: { turn: Turn; last: boolean }) {
  const app = useApp();
  const loggedIn = useSignal(false);
  const end = turn.end;
  if (!end) return null;
  if (end.error) {
    const link = app.link.value;
    if (end.error.code === -32000 && last && link && !loggedIn.value) return <AgentLogin link={link} onDone={() => (loggedIn.value = true)} />;
    return <ProblemCard problem={problemOf(end.error)} />;
  }
  const text = end.stopReason === undefined || end.stopReason === 'end_turn' ? undefined : (ends[end.stopReason] ?? end.stopReason);
  return text ? <p class="quiet">{text}</p> : null;
}
