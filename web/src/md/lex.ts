// Markdown to tokens, incrementally: a stream of ten thousand words must not be read from its start for every word.

import { lexer, type Token, type Tokens } from 'marked';

export type { Token, Tokens };

const definition = /^ {0,3}\[[^\]]+\]:/m;

/** Lexes a growing text. Blocks that can no longer change are kept; only the end is read again. */
export class GrowingLexer {
  private text = '';
  // A link definition gives links anywhere before it their targets: then the whole text is read each time.
  private defines = false;
  // Tokens that are settled, and how much of the text they cover.
  private settled: Token[] = [];
  private done = 0;

  /** The tokens of text. A text that does not continue the last one is read from the start. */
  lex(text: string): Token[] {
    let from = this.text.lastIndexOf('\n') + 1;
    if (!text.startsWith(this.text)) {
      from = 0;
      this.defines = false;
      this.restart();
    }
    if (!this.defines && definition.test(text.slice(from))) {
      this.defines = true;
      this.restart();
    }
    this.text = text;
    const rest = lexer(text.slice(this.done), { gfm: true, breaks: false });
    const all = [...this.settled, ...rest];
    if (!this.defines) this.settle(rest);
    return all;
  }

  private restart(): void {
    this.settled = [];
    this.done = 0;
  }

  // All but the last two blocks is settled. Not the last: it grows. Not the one before it: "2" after a list is a
  // paragraph, "2." is its next item. The raw texts must add up to the source: marked normalises some (tabs, carriage
  // returns), and then nothing can be told about places.
  private settle(rest: Token[]): void {
    let blocks = 0;
    let last = rest.length;
    while (last > 0 && blocks < 2) if (rest[--last]?.type !== 'space') blocks++;
    if (last <= 0) return;
    const head = rest.slice(0, last);
    const raw = head.map((t) => t.raw).join('');
    if (!this.text.startsWith(raw, this.done)) return;
    this.settled.push(...head);
    this.done += raw.length;
  }
}
