// Small parts that several views share.

import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Problem } from '../wire/problem';
import * as icons from './icons';

export function Spinner({ label }: { label?: string }) {
  return (
    <span class="spinner" role={label ? 'status' : undefined}>
      <span class="spinner-ring" aria-hidden="true" />
      {label ? <span class="visually-hidden">{label}</span> : null}
    </span>
  );
}

export function CopyButton({ text, what = 'code' }: { text: () => string; what?: string }) {
  const copied = useSignal(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
      copied.value = true;
      setTimeout(() => (copied.value = false), 1_500);
    } catch {
      // No permission, or no secure context: the text can still be selected by hand.
    }
  };
  return (
    <button type="button" class="copy ghost small" onClick={copy} aria-label={copied.value ? 'Copied' : `Copy ${what}`}>
      {copied.value ? <icons.Check /> : <icons.Copy />}
      <span aria-hidden="true">{copied.value ? 'Copied' : 'Copy'}</span>
    </button>
  );
}

/** A section whose body is only built once it has been opened. `open` opens it until a person has decided otherwise. */
export function Fold({ summary, children, open = false, class: className = '' }: { summary: ComponentChildren; children: () => ComponentChildren; open?: boolean; class?: string }) {
  const decided = useSignal<boolean | undefined>(undefined);
  const shown = decided.value ?? open;
  return (
    <details class={`fold ${className}`} open={shown}>
      <summary
        onClick={(e) => {
          e.preventDefault();
          decided.value = !shown;
        }}
      >
        <span class="fold-mark">
          <icons.Chevron />
        </span>
        {summary}
      </summary>
      {shown ? <div class="fold-body">{children()}</div> : null}
    </details>
  );
}

/** An error as a person reads it: what happened, what to do, and the technical part folded away. */
export function ProblemCard({ problem, children }: { problem: Problem; children?: ComponentChildren }) {
  return (
    <div class="problem" role="alert">
      <span class="problem-icon">
        <icons.Warn />
      </span>
      <div class="problem-text">
        <p class="problem-title">{problem.title}</p>
        {problem.hint ? <p class="problem-hint">{problem.hint}</p> : null}
        {problem.detail ? (
          <Fold summary="Details" class="plain">
            {() => <pre class="raw">{problem.detail}</pre>}
          </Fold>
        ) : null}
        {children ? <div class="actions">{children}</div> : null}
      </div>
    </div>
  );
}

/** A modal dialog, with the browser's own focus trap. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const d = ref.current;
    if (d && !d.open) d.showModal();
  }, []);
  return (
    <dialog
      ref={ref}
      class="dialog"
      aria-label={title}
      onClose={onClose}
      onClick={(e) => {
        if (e.target === ref.current) ref.current?.close();
      }}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2>{title}</h2>
          <button type="button" class="ghost icon-only" aria-label="Close" onClick={() => ref.current?.close()}>
            <icons.Close />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

export function ago(ms: number | undefined, now = Date.now()): string {
  if (ms === undefined) return '';
  const s = Math.max(0, (now - ms) / 1000);
  if (s < 60) return 'now';
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h`;
  if (s < 7 * 86_400) return `${Math.floor(s / 86_400)} d`;
  return new Date(ms).toLocaleDateString(undefined, { day: 'numeric', month: 'short' });
}

/** The end of a path, which tells more than its beginning. */
export function shortPath(path: string): string {
  const parts = path.split('/').filter(Boolean);
  return parts.length <= 2 ? path : `…/${parts.slice(-2).join('/')}`;
}

export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  if (n < 1024 * 1024) return `${Math.round(n / 1024)} KiB`;
  return `${(n / 1024 / 1024).toFixed(1)} MiB`;
}
