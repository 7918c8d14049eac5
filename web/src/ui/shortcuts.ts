// Keyboard shortcuts of the whole page. Those of a view (send, menu, answer) live with the view.

import type { App } from '../store/app';

export const shortcutList: readonly (readonly [string, string])[] = [
  ['Enter', 'Send the message'],
  ['Shift + Enter', 'New line'],
  ['Esc', 'Stop the running turn, or close a menu'],
  ['/', 'Go to the message box; at its start: commands of the agent'],
  ['Alt + 1 … 9', 'Answer the open request with its first, second, … choice'],
  ['Alt + N', 'New chat'],
  ['Ctrl or ⌘ + K', 'Search the sessions'],
  ['Alt + ↑ / ↓', 'Previous or next session'],
  ['?', 'Show this list'],
];

function typing(e: KeyboardEvent): boolean {
  const t = e.target;
  return t instanceof HTMLElement && (t.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(t.tagName));
}

/** Listens until the returned function is called. */
export function shortcuts(app: App): () => void {
  const onKey = (e: KeyboardEvent) => {
    if (e.defaultPrevented || document.querySelector('dialog[open]')) return;
    const mod = e.ctrlKey || e.metaKey;
    if (mod && !e.altKey && e.key.toLowerCase() === 'k') {
      app.drawer.value = true;
      requestAnimationFrame(() => document.getElementById('session-search')?.focus());
    } else if (e.altKey && !mod && e.code === 'KeyN') app.show();
    else if (e.altKey && !mod && (e.key === 'ArrowUp' || e.key === 'ArrowDown')) step(app, e.key === 'ArrowUp' ? -1 : 1);
    else if (e.altKey && !mod && /^Digit[1-9]$/.test(e.code)) {
      const button = choices()[Number(e.code.slice(5)) - 1];
      if (!button) return;
      button.click();
    } else if (!typing(e) && !mod && !e.altKey && e.key === '/') document.getElementById('composer')?.focus();
    else if (!typing(e) && !mod && !e.altKey && e.key === '?') app.help.value = true;
    else if (e.key === 'Escape' && app.drawer.value) app.drawer.value = false;
    else if (e.key === 'Escape' && app.session.value?.running && (!typing(e) || (e.target as HTMLElement).id === 'composer')) app.session.value.stop();
    else return;
    e.preventDefault();
  };
  addEventListener('keydown', onKey);
  return () => removeEventListener('keydown', onKey);
}

// The answers to the question that is open in the pane where the focus is, else in the one that is shown; never those of
// the other pane. A login of the agent asks in no pane.
function choices(): NodeListOf<HTMLButtonElement> {
  const all = '.ask:last-of-type [data-choice]';
  const pane = document.activeElement?.closest('.pane') ?? document.querySelector('.pane:last-child');
  const here = pane?.querySelectorAll<HTMLButtonElement>(all);
  return here && here.length > 0 ? here : document.querySelectorAll<HTMLButtonElement>(`.loose ${all}`);
}

function step(app: App, by: number): void {
  const rows = app.rows();
  const at = rows.findIndex((r) => r.sessionId === app.session.value?.binding.value);
  const next = rows[at === -1 ? 0 : at + by];
  if (next) app.pickRow(next.agent, next.sessionId);
}
