import { useEffect, useRef } from 'preact/hooks';
import { oneLine } from '../md/safe';
import type { Ask, Asks } from '../store/asks';
import { mergeTool } from '../store/entries';
import { dict, list, str } from '../wire/types';
import { useApp } from './context';
import { Elicitation } from './Elicitation';
import * as icons from './icons';
import { Fold, Spinner } from './parts';
import { ToolBody } from './ToolView';

/** An open request of the agent. */
export function AskCard({ ask, asks }: { ask: Ask; asks: Asks }) {
  const answer = (result: unknown) => {
    asks.answer(ask.id, result);
    focusComposer();
  };
  return ask.method === 'session/request_permission' ? <Permission ask={ask} onAnswer={answer} /> : <Elicitation ask={ask} onAnswer={answer} />;
}

interface Option {
  optionId: string;
  name: string;
  kind: string;
}

const order = ['allow_once', 'allow_always', 'reject_once', 'reject_always'];

// Agents send options in any order: the same kind is always in the same place, so that a habit does no harm.
function optionsOf(params: unknown): Option[] {
  const options = list(dict(params)['options'])
    .map(dict)
    .filter((o) => typeof o['optionId'] === 'string')
    .map((o) => ({ optionId: o['optionId'] as string, name: oneLine(str(o['name']) ?? (o['optionId'] as string), 80), kind: str(o['kind']) ?? '' }));
  const rank = (o: Option) => (order.includes(o.kind) ? order.indexOf(o.kind) : order.length);
  return options.map((o, i) => ({ o, i })).sort((a, b) => rank(a.o) - rank(b.o) || a.i - b.i).map((x) => x.o);
}

const questions: Record<string, string> = {
  edit: 'Allow this change?',
  delete: 'Allow this deletion?',
  move: 'Allow this move?',
  execute: 'Allow this command?',
  fetch: 'Allow this request to the network?',
  read: 'Allow reading this?',
  search: 'Allow this search?',
  switch_mode: 'Allow this change of mode?',
};

function Permission({ ask, onAnswer }: { ask: Ask; onAnswer: (result: unknown) => void }) {
  const app = useApp();
  const card = useRef<HTMLElement>(null);
  const options = optionsOf(ask.params);
  const call = mergeTool(undefined, dict(dict(ask.params)['toolCall']));
  const title = oneLine(call.title) || 'The agent asks for permission';
  const choose = (o: Option) => onAnswer({ outcome: { outcome: 'selected', optionId: o.optionId } });
  // Focus comes here unless somebody is writing.
  useEffect(() => {
    const at = document.activeElement;
    const writing = at instanceof HTMLTextAreaElement && at.value !== '';
    if (!writing && matchMedia('(pointer: fine)').matches) card.current?.focus({ preventScroll: true });
  }, []);
  const detail = call.content.length > 0 || call.rawInput !== undefined || call.locations.length > 0;
  return (
    <section class="card ask permission" ref={card} tabIndex={-1} aria-label={`Permission: ${title}`}>
      <h2>
        <icons.Shield /> {questions[call.kind] ?? 'Allow this?'}
      </h2>
      <p class="ask-title">{title}</p>
      {detail ? (
        <Fold summary="Details" class="plain" open={call.content.some((c) => c.type === 'diff')}>
          {() => <ToolBody call={call} />}
        </Fold>
      ) : null}
      <div class="actions">
        {options.map((o, i) => (
          <button
            key={o.optionId}
            type="button"
            data-choice
            class={o.kind === 'allow_once' ? 'primary' : o.kind.startsWith('reject') ? 'reject' : ''}
            disabled={ask.answered || !ask.live}
            onClick={() => choose(o)}
          >
            {o.name}
            <kbd aria-hidden="true">Alt {i + 1}</kbd>
          </button>
        ))}
        <AskState ask={ask} />
      </div>
      {app.notifier.state.value === 'off' ? (
        <button type="button" class="link small" onClick={() => void app.notifier.toggle()}>
          Notify me next time
        </button>
      ) : null}
    </section>
  );
}

/** The card goes away: focus must not be lost with it. A touch screen would open its keyboard. */
function focusComposer(): void {
  if (matchMedia('(pointer: fine)').matches) document.getElementById('composer')?.focus();
}

export function AskState({ ask }: { ask: Ask }) {
  if (!ask.live) {
    return (
      <span class="muted small">
        <Spinner /> Waiting for the connection
      </span>
    );
  }
  return ask.answered ? <Spinner label="Answering" /> : null;
}
