import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { linkTarget, oneLine } from '../md/safe';
import type { Ask } from '../store/asks';
import { contentOf, fault, fieldsOf, type Field, type Value } from '../store/form';
import { dict, str } from '../wire/types';
import { AskState } from './AskCard';
import * as icons from './icons';

/** A structured question of the agent: a form, or an address to open. */
export function Elicitation({ ask, onAnswer }: { ask: Ask; onAnswer: (result: unknown) => void }) {
  const params = dict(ask.params);
  const message = str(params['message']) ?? 'The agent has a question.';
  return (
    <section class="card ask elicitation" aria-label={oneLine(message, 100)}>
      <h2>
        <icons.Question /> The agent asks
      </h2>
      <p class="ask-message">{message}</p>
      {params['mode'] === 'url' ? <UrlBody ask={ask} url={str(params['url']) ?? ''} onAnswer={onAnswer} /> : <FormBody ask={ask} schema={params['requestedSchema']} onAnswer={onAnswer} />}
    </section>
  );
}

function UrlBody({ ask, url, onAnswer }: { ask: Ask; url: string; onAnswer: (result: unknown) => void }) {
  const target = linkTarget(url);
  const href = target?.startsWith('http') ? target : undefined;
  const busy = ask.answered || !ask.live;
  return (
    <>
      {href === undefined ? (
        <p class="field-error">The agent sent an address that cannot be opened safely: {oneLine(url, 200)}</p>
      ) : (
        <p class="ask-url">
          <icons.Globe />
          <span>
            <strong>{new URL(href).host}</strong>
            <br />
            <span class="muted small">{oneLine(href, 200)}</span>
          </span>
        </p>
      )}
      {ask.complete ? <p class="muted">Done. You can go on here.</p> : null}
      <div class="actions">
        {href === undefined ? null : (
          <a class="button primary" data-choice href={href} target="_blank" rel="noopener noreferrer" onClick={() => onAnswer({ action: 'accept' })}>
            Open
          </a>
        )}
        <button type="button" data-choice disabled={busy} onClick={() => onAnswer({ action: 'decline' })}>
          Decline
        </button>
        <AskState ask={ask} />
      </div>
    </>
  );
}

function FormBody({ ask, schema, onAnswer }: { ask: Ask; schema: unknown; onAnswer: (result: unknown) => void }) {
  const fields = useMemo(() => fieldsOf(schema), [schema]);
  const values = useSignal<Record<string, Value>>(Object.fromEntries(fields.map((f) => [f.name, f.initial])));
  const tried = useSignal(false);
  const busy = ask.answered || !ask.live;
  const faults = Object.fromEntries(fields.map((f) => [f.name, fault(f, values.value[f.name] ?? f.initial)]));
  const submit = (e: Event) => {
    e.preventDefault();
    tried.value = true;
    const bad = fields.find((f) => faults[f.name] !== undefined);
    if (bad) document.getElementById(fieldId(ask, bad))?.focus();
    else onAnswer({ action: 'accept', content: contentOf(fields, values.value) });
  };
  return (
    <form onSubmit={submit} noValidate>
      {fields.map((f) => (
        <FieldView
          key={f.name}
          field={f}
          id={fieldId(ask, f)}
          value={values.value[f.name] ?? f.initial}
          problem={tried.value ? faults[f.name] : undefined}
          onChange={(v) => (values.value = { ...values.value, [f.name]: v })}
        />
      ))}
      <div class="actions">
        <button type="submit" class="primary" data-choice disabled={busy}>
          {fields.length === 0 ? 'Confirm' : 'Answer'}
        </button>
        <button type="button" data-choice disabled={busy} onClick={() => onAnswer({ action: 'decline' })}>
          Decline
        </button>
        <button type="button" class="ghost" data-choice disabled={busy} onClick={() => onAnswer({ action: 'cancel' })}>
          Cancel
        </button>
        <AskState ask={ask} />
      </div>
    </form>
  );
}

function fieldId(ask: Ask, f: Field): string {
  return `ask-${ask.id}-${f.name}`;
}

interface FieldProps {
  field: Field;
  id: string;
  value: Value;
  problem: string | undefined;
  onChange: (v: Value) => void;
}

function FieldView({ field: f, id, value, problem, onChange }: FieldProps) {
  const note = problem !== undefined ? `${id}-problem` : f.description ? `${id}-what` : undefined;
  const group = f.kind === 'choices' || (f.kind === 'choice' && f.choices.length <= 5);
  const label = (
    <>
      {f.label}
      {f.required ? null : <span class="muted"> (optional)</span>}
    </>
  );
  const below = (
    <>
      {f.description ? (
        <p class="muted small" id={`${id}-what`}>
          {f.description}
        </p>
      ) : null}
      {problem !== undefined ? (
        <p class="field-error" id={`${id}-problem`}>
          {problem}
        </p>
      ) : null}
    </>
  );
  if (group) {
    return (
      <fieldset class="form-field" aria-describedby={note}>
        <legend>{label}</legend>
        <Group field={f} id={id} value={value} onChange={onChange} />
        {below}
      </fieldset>
    );
  }
  if (f.kind === 'boolean') {
    return (
      <div class="form-field">
        <label class="check">
          <input id={id} type="checkbox" checked={value === true} aria-describedby={note} onChange={(e) => onChange(e.currentTarget.checked)} />
          {f.label}
        </label>
        {below}
      </div>
    );
  }
  const common = { id, 'aria-invalid': problem !== undefined, 'aria-describedby': note, value: String(value) };
  return (
    <div class="form-field">
      <label for={id}>{label}</label>
      {f.kind === 'choice' ? (
        <select {...common} onChange={(e) => onChange(e.currentTarget.value)}>
          {f.required && f.initial !== '' ? null : <option value="">Choose…</option>}
          {f.choices.map((c) => (
            <option key={c.value} value={c.value}>
              {c.label}
            </option>
          ))}
        </select>
      ) : (
        <input {...common} type={(f.kind === 'text' ? f.input : 'text') as 'text'} inputMode={f.kind === 'text' ? undefined : f.kind === 'integer' ? 'numeric' : 'decimal'} onInput={(e) => onChange(e.currentTarget.value)} />
      )}
      {below}
    </div>
  );
}

function Group({ field: f, id, value, onChange }: Omit<FieldProps, 'problem'>) {
  const many = f.kind === 'choices';
  const chosen = new Set(many ? (value as readonly string[]) : [value as string]);
  return (
    <>
      {f.choices.map((c, i) => (
        <label class="check" key={c.value}>
          <input
            {...(i === 0 ? { id } : {})}
            type={many ? 'checkbox' : 'radio'}
            name={id}
            checked={chosen.has(c.value)}
            onChange={(e) => {
              if (!many) onChange(c.value);
              else onChange(f.choices.map((x) => x.value).filter((v) => (v === c.value ? e.currentTarget.checked : chosen.has(v))));
            }}
          />
          <span>
            {c.label}
            {c.description ? <span class="muted small"> {c.description}</span> : null}
          </span>
        </label>
      ))}
    </>
  );
}
