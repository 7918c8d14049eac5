import { oneLine } from '../md/safe';
import type { PlanItem } from '../store/entries';
import type { Session } from '../store/session';
import * as icons from './icons';

const words: Record<string, string> = { pending: 'to do', in_progress: 'in progress', completed: 'done' };

export function PlanList({ items }: { items: readonly PlanItem[] }) {
  return (
    <ol class="plan-list">
      {items.map((p, i) => (
        <li key={i} class={p.status}>
          <span class="plan-mark" role="img" aria-label={words[p.status] ?? p.status}>
            {p.status === 'completed' ? <icons.Check /> : null}
          </span>
          <span>{p.content}</span>
          {p.priority === 'high' && p.status !== 'completed' ? <span class="tag">high</span> : null}
        </li>
      ))}
    </ol>
  );
}

/** The plan in one line above the message box while the agent works through it. */
export function PlanStrip({ session }: { session: Session }) {
  const items = session.around.plan.value;
  const done = items.filter((p) => p.status === 'completed').length;
  if (!session.running || done === items.length) return null;
  const now = items.find((p) => p.status === 'in_progress') ?? items.find((p) => p.status === 'pending');
  return (
    <p class="plan-strip">
      <icons.List />
      <span class="plan-count">
        {done} of {items.length}
      </span>
      <span class="plan-now">{now ? oneLine(now.content, 120) : null}</span>
      <progress max={items.length} value={done} aria-label="Plan" />
    </p>
  );
}
