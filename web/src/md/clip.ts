// Big outputs are shown by their head and tail until somebody asks for all of it.

export interface Clip {
  head: string;
  /** Lines (or, in few long lines, characters) left out; 0 when head is everything. */
  hidden: number;
  unit: 'lines' | 'characters';
  tail: string;
}

const headLines = 40;
const tailLines = 20;
const charsMax = 20_000;

export function clip(text: string): Clip {
  const breaks: number[] = [];
  for (let i = text.indexOf('\n'); i !== -1; i = text.indexOf('\n', i + 1)) breaks.push(i);
  const count = breaks.length;
  const small = text.length <= charsMax;
  if (small && count <= headLines + tailLines + 5) return { head: text, hidden: 0, unit: 'lines', tail: '' };
  const headEnd = count > headLines ? (breaks[headLines - 1] ?? text.length) : text.length;
  const tailStart = count > headLines + tailLines ? (breaks[count - tailLines] ?? 0) + 1 : text.length;
  if (count > headLines + tailLines + 5 && headEnd <= charsMax && text.length - tailStart <= charsMax) {
    return { head: text.slice(0, headEnd), hidden: count + 1 - headLines - tailLines, unit: 'lines', tail: text.slice(tailStart) };
  }
  const a = whole(text, charsMax / 2);
  const b = whole(text, text.length - charsMax / 4);
  return { head: text.slice(0, a), hidden: b - a, unit: 'characters', tail: text.slice(b) };
}

// Never cuts a surrogate pair in two.
function whole(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at + 1 : at;
}

/** Larger code is not coloured. */
export function colourable(code: string): boolean {
  if (code.length > 100_000) return false;
  let lines = 1;
  for (let i = code.indexOf('\n'); i !== -1; i = code.indexOf('\n', i + 1)) if (++lines > 1_000) return false;
  return true;
}
