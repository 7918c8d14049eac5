import { summary, type Outgoing } from '../store/outbox';
import type { Session } from '../store/session';
import { oneLine } from '../md/safe';
import { useApp } from './context';
import * as icons from './icons';
import { Spinner } from './parts';
import { UserBubble } from './Entries';

/** Prompts that are not in the transcript yet: on their way, in the queue (ours and others'), refused. */
export function Outbox({ session }: { session: Session }) {
  const items = session.prompts.items.value.filter((i) => i.phase !== 'running');
  const keys = new Set(items.map((i) => i.key));
  const others = session.view.value.queue.filter((q) => q.key === undefined || !keys.has(q.key));
  return (
    <>
      {others.map((q) => (
        <div class="outgoing" key={q.turn}>
          <div class="bubble">{oneLine(q.text, 500)}</div>
          <p class="outgoing-state">
            <span>Queued in another window</span>
            <button type="button" class="link" onClick={() => void session.prompts.withdrawTurn(q.turn)}>
              Cancel
            </button>
          </p>
        </div>
      ))}
      {items.map((i) => (
        <Item key={i.key} item={i} session={session} />
      ))}
    </>
  );
}

function Item({ item, session }: { item: Outgoing; session: Session }) {
  const app = useApp();
  const edit = async () => {
    const blocks = await session.prompts.withdraw(item.key);
    if (blocks) app.handedBack.value = { draftId: session.id, text: summary(blocks) };
  };
  return (
    <div class={`outgoing ${item.phase}`}>
      <UserBubble blocks={item.blocks} />
      <p class="outgoing-state">
        {item.phase === 'failed' ? (
          <>
            <span class="failed">
              <icons.Warn /> {item.problem?.title ?? 'Not sent'}
            </span>
            <button type="button" class="link" onClick={() => session.prompts.retry(item.key)}>
              Send again
            </button>
            <button type="button" class="link" onClick={() => void edit()}>
              Edit
            </button>
            {item.problem?.hint ? <span class="muted">{item.problem.hint}</span> : null}
          </>
        ) : item.phase === 'queued' ? (
          <>
            <span>Queued</span>
            <button type="button" class="link" onClick={() => void edit()}>
              Edit
            </button>
            <button type="button" class="link" onClick={() => void session.prompts.withdraw(item.key)}>
              Cancel
            </button>
          </>
        ) : (
          <span>
            <Spinner /> {item.phase === 'waiting' ? 'Waiting for the connection' : 'Sending'}
          </span>
        )}
      </p>
    </div>
  );
}
