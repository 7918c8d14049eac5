// Elicitation forms: the schema of ACP as fields, their values, and what is wrong with them. Pure.

import { dict, list, num, opt, str, type Dict } from '../wire/types';

export interface Choice {
  value: string;
  label: string;
  description?: string;
}

export type FieldKind = 'text' | 'number' | 'integer' | 'boolean' | 'choice' | 'choices';

export interface Field {
  name: string;
  label: string;
  description?: string;
  required: boolean;
  kind: FieldKind;
  /** HTML input type of text fields. */
  input: 'text' | 'email' | 'url' | 'date';
  choices: Choice[];
  min?: number;
  max?: number;
  pattern?: string;
  initial: Value;
}

export type Value = string | boolean | readonly string[];

function choicesOf(p: Dict): Choice[] | undefined {
  const titled = list(p['oneOf'] ?? p['anyOf']).map(dict).filter((o) => typeof o['const'] === 'string');
  if (titled.length > 0) {
    return titled.map((o) => ({ value: o['const'] as string, label: str(o['title']) ?? (o['const'] as string), ...opt('description', str(o['description'])) }));
  }
  const plain = list(p['enum']).filter((v): v is string => typeof v === 'string');
  if (plain.length === 0) return undefined;
  const names = list(p['enumNames']);
  return plain.map((value, i) => ({ value, label: str(names[i]) ?? value }));
}

const inputs: Record<string, Field['input']> = { email: 'email', uri: 'url', date: 'date' };

/** The fields of a requestedSchema, in its order. A property of an unknown type becomes a text field. */
export function fieldsOf(schema: unknown): Field[] {
  const s = dict(schema);
  const required = new Set(list(s['required']));
  return Object.entries(dict(s['properties'])).map(([name, v]) => {
    const p = dict(v);
    const type = str(p['type']) ?? 'string';
    const base = { name, label: str(p['title']) ?? name, required: required.has(name), ...opt('description', str(p['description'])), choices: [] as Choice[], input: 'text' as Field['input'] };
    if (type === 'boolean') return { ...base, kind: 'boolean', initial: p['default'] === true };
    if (type === 'number' || type === 'integer') {
      const d = num(p['default']);
      return { ...base, kind: type, initial: d === undefined ? '' : String(d), ...opt('min', num(p['minimum'])), ...opt('max', num(p['maximum'])) };
    }
    if (type === 'array') {
      const initial = list(p['default']).filter((x): x is string => typeof x === 'string');
      return { ...base, kind: 'choices', choices: choicesOf(dict(p['items'])) ?? [], initial, ...opt('min', num(p['minItems'])), ...opt('max', num(p['maxItems'])) };
    }
    const choices = choicesOf(p);
    const initial = str(p['default']) ?? '';
    if (choices) return { ...base, kind: 'choice', choices, initial };
    return {
      ...base,
      kind: 'text',
      input: inputs[str(p['format']) ?? ''] ?? 'text',
      initial,
      ...opt('min', num(p['minLength'])),
      ...opt('max', num(p['maxLength'])),
      ...opt('pattern', str(p['pattern'])),
    };
  });
}

/** What is wrong with a value, in words, or undefined. */
export function fault(f: Field, v: Value): string | undefined {
  if (f.kind === 'boolean') return undefined;
  if (typeof v === 'boolean') return 'This has the wrong type.';
  const blank = v.length === 0;
  if (blank) return f.required ? 'This is needed.' : undefined;
  if (f.kind === 'choices') {
    if (f.min !== undefined && v.length < f.min) return `Choose at least ${f.min}.`;
    if (f.max !== undefined && v.length > f.max) return `Choose at most ${f.max}.`;
    return undefined;
  }
  const text = v as string;
  if (f.kind === 'number' || f.kind === 'integer') {
    const n = Number(text);
    if (!Number.isFinite(n) || (f.kind === 'integer' && !Number.isInteger(n))) return f.kind === 'integer' ? 'This must be a whole number.' : 'This must be a number.';
    if (f.min !== undefined && n < f.min) return `This must be at least ${f.min}.`;
    if (f.max !== undefined && n > f.max) return `This must be at most ${f.max}.`;
    return undefined;
  }
  if (f.kind === 'text') {
    if (f.min !== undefined && text.length < f.min) return `This needs at least ${f.min} characters.`;
    if (f.max !== undefined && text.length > f.max) return `This may have at most ${f.max} characters.`;
    if (f.pattern !== undefined && text.length <= 1_000 && !matchesPattern(f.pattern, text)) return 'This does not have the form that was asked for.';
  }
  return undefined;
}

// A pattern that is no regular expression here must not lock the form.
function matchesPattern(pattern: string, text: string): boolean {
  try {
    return new RegExp(pattern, 'u').test(text);
  } catch {
    return true;
  }
}

/** The content of an accept answer. Blank optional fields are left out. */
export function contentOf(fields: readonly Field[], values: Readonly<Record<string, Value>>): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const f of fields) {
    const v = values[f.name] ?? f.initial;
    if (f.kind === 'boolean') out[f.name] = v === true;
    else if (typeof v === 'boolean' || v.length === 0) continue;
    else if (f.kind === 'number' || f.kind === 'integer') out[f.name] = Number(v);
    else out[f.name] = v;
  }
  return out;
}
