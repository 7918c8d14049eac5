import { useEffect, useRef } from 'preact/hooks';
import { characters, noteMax, sendable } from '../store/merge';
import type { Session } from '../store/session';
import { useApp } from './context';
import * as icons from './icons';
import { ProblemCard, Spinner } from './parts';

/** In a side conversation: the button that brings a note home, and the note before it goes. */
export function MergeCard({ session }: { session: Session }) {
  if (session.parent.value === undefined) return null;
  const { merge } = session;
  const stage = merge.stage.value;
  const problem = merge.problem.value;
  return (
    <div class="merge">
      {problem ? (
        <ProblemCard problem={problem}>
          <button type="button" onClick={() => merge.discard()}>
            {stage.kind === 'none' ? 'Dismiss' : 'Discard the note'}
          </button>
        </ProblemCard>
      ) : null}
      {stage.kind === 'shown' || stage.kind === 'sending' ? <NoteForm session={session} note={stage.note} sending={stage.kind === 'sending'} /> : <AskButton session={session} asking={stage.kind === 'asking'} />}
    </div>
  );
}

function AskButton({ session, asking }: { session: Session; asking: boolean }) {
  const ready = session.attach.value === 'attached' && !session.running && session.prompts.items.value.length === 0;
  return (
    <div class="merge-row">
      <span class="muted">Side conversation: it advises and changes nothing.</span>
      <button type="button" class="small" disabled={asking || !ready} title="The agent condenses this conversation; you see the note before it goes" onClick={() => void session.merge.ask()}>
        {asking ? <Spinner /> : <icons.Move />} {asking ? 'Writing the note…' : 'Bring a note home'}
      </button>
    </div>
  );
}

function NoteForm({ session, note, sending }: { session: Session; note: string; sending: boolean }) {
  const app = useApp();
  const area = useRef<HTMLTextAreaElement>(null);
  const { merge } = session;
  const count = characters(note);
  useEffect(() => area.current?.focus(), []);
  const send = async () => {
    // The gateway says so in the conversation, for eyes.
    if (await merge.send()) app.say('The note went to the main conversation');
  };
  return (
    <form class="card merge-note" aria-label="Note for the main conversation" onSubmit={(e) => (e.preventDefault(), void send())}>
      <h2>
        <icons.Move /> Note for the main conversation
      </h2>
      <textarea ref={area} rows={6} value={note} readOnly={sending} aria-label="Note" aria-describedby="merge-count" aria-invalid={count > noteMax} onInput={(e) => merge.edit(e.currentTarget.value)} />
      <div class="actions">
        <button type="submit" class="primary" disabled={sending || !sendable(note)}>
          Send
        </button>
        <button type="button" disabled={sending} onClick={() => merge.discard()}>
          Discard
        </button>
        <span id="merge-count" class={count > noteMax ? 'field-error' : 'muted'}>
          {count.toLocaleString()} of {noteMax.toLocaleString()} characters
        </span>
      </div>
    </form>
  );
}
