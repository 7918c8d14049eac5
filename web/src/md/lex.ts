// Markdown to tokens, incrementally: a stream of ten thousand words must not be read from its start for every word.

import { lexer, type Token, type Tokens } from 'marked';

export type { Token, Tokens };

const definition = /^ {0,3}\[[^\]]+\]:/m;

/** Lexes a growing text. Blocks that can no longer change are kept; only the last one is read again. */
export class GrowingLexer {
  private text = '';
  // Tokens that are settled, and how much of the text they cover.
  private settled: Token[] = [];
  private done = 0;

  /** The tokens of text. A text that does not continue the last one is read from the start. */
  lex(text: string): Token[] {
    // A definition gives links before it their targets: then nothing is settled.
    if (!text.startsWith(this.text) || definition.test(text)) {
      this.settled = [];
      this.done = 0;
    }
    this.text = text;
    const rest = lexer(text.slice(this.done), { gfm: true, breaks: false });
    const all = [...this.settled, ...rest];
    this.settle(rest);
    return all;
  }

  // All but the last block and what follows it is settled. The raw texts must add up to the source: marked normalises
  // some (tabs, carriage returns), and then nothing can be told about places.
  private settle(rest: Token[]): void {
    let last = rest.length - 1;
    while (last >= 0 && rest[last]?.type === 'space') last--;
    if (last <= 0) return;
    const head = rest.slice(0, last);
    const raw = head.map((t) => t.raw).join('');
    if (!this.text.startsWith(raw, this.done)) return;
    this.settled.push(...head);
    this.done += raw.length;
  }
}
