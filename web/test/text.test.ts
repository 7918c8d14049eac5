import { lexer } from 'marked';
import { describe, expect, test } from 'vitest';
import { diffLines, type Row } from '../src/diff/fold';
import { clip, colourable } from '../src/md/clip';
import { highlight } from '../src/md/highlight';
import { GrowingLexer } from '../src/md/lex';
import { blockSource, imageSource, linkTarget, oneLine, unescapeHtml } from '../src/md/safe';
import { contentOf, fault, fieldsOf } from '../src/store/form';
import { contentMax, sort, textBlock, weight } from '../src/store/attach';
import { initInfo } from '../src/wire/types';
import { lcg } from './helpers';

const sample = `# Title

A paragraph with *emphasis*, \`code\` and a [link](https://example.com).
It goes on.

- one
- two
  - nested

  still two
- three

Setext
======

1. first

   \`\`\`js
   in a list
   \`\`\`
2. second

> quote
> goes on

| a | b |
|---|---|
| 1 | 2 |

\`\`\`go
func main() {

}
\`\`\`

<div>
html
</div>

    indented code

    more of it

* * *

last line 😀 한글`;

describe('markdown', () => {
  test('TestP2_GrowingTextIsReadAsTheWholeText', () => {
    for (let seed = 1; seed <= 60; seed++) {
      const random = lcg(seed);
      const grow = new GrowingLexer();
      let at = 0;
      while (at < sample.length) {
        at = Math.min(sample.length, at + 1 + Math.floor(random() * 12));
        const text = sample.slice(0, at);
        const strip = (ts: { type: string; raw: string }[]) => ts.filter((t) => t.type !== 'space').map((t) => [t.type, t.raw.trimEnd()]);
        expect(strip(grow.lex(text)), `seed ${seed}, ${at} characters`).toEqual(strip(lexer(text, { gfm: true })));
      }
    }
  });

  test('TestP2_ReadsOnlyTheEndOfALongText', () => {
    const grow = new GrowingLexer();
    let text = '';
    for (let i = 0; i < 500; i++) {
      text += `Paragraph ${i} with some words in it.\n\n`;
      grow.lex(text);
    }
    const { done } = grow as unknown as { done: number };
    expect(text.length - done, 'characters that the next word makes it read').toBeLessThan(200);
  });

  test('TestP2_DefinitionsReachBack', () => {
    const grow = new GrowingLexer();
    grow.lex('See [this][1].\n\nMore.\n\nEven more.\n\n');
    const text = 'See [this][1].\n\nMore.\n\nEven more.\n\n[1]: https://example.com\n';
    expect(JSON.stringify(grow.lex(text))).toContain('"href":"https://example.com"');
  });

  test('TestP2_AnotherTextIsReadFromTheStart', () => {
    const grow = new GrowingLexer();
    grow.lex('one\n\ntwo\n\nthree');
    expect(grow.lex('# other').map((t) => t.type)).toEqual(['heading']);
  });
});

describe('CASE 87: what text may do', () => {
  test('TestCase87_Links', () => {
    for (const bad of ['javascript:alert(1)', ' JaVaScRiPt:alert(1)', 'java\nscript:alert(1)', 'javascript&colon;alert(1)', '&#106;avascript:alert(1)', 'data:text/html,x', 'vbscript:x', 'file:///etc/passwd', '/relative', '#x', '//host/x', 'blob:https://x/1', 'not a url']) {
      expect(linkTarget(bad), bad).toBeUndefined();
    }
    expect(linkTarget('https://example.com/?a=1&amp;b=2')).toBe('https://example.com/?a=1&b=2');
    expect(linkTarget('mailto:a@b.c')).toBe('mailto:a@b.c');
  });

  test('TestCase87_Images', () => {
    expect(imageSource('https://tracker.example/p.png')).toBeUndefined();
    expect(imageSource('data:image/svg+xml;base64,AAAA')).toBeUndefined();
    expect(imageSource('data:text/html;base64,AAAA')).toBeUndefined();
    expect(imageSource('data:image/png;base64,iVBORw0K=')).toBe('data:image/png;base64,iVBORw0K=');
    expect(blockSource('image/svg+xml', 'AAAA')).toBeUndefined();
    expect(blockSource('image/png', 'AAAA"onload=x')).toBeUndefined();
    expect(blockSource('IMAGE/PNG', 'AAAA')).toBe('data:image/png;base64,AAAA');
  });

  test('TestCase87_Lines', () => {
    expect(oneLine('a\n b\t c')).toBe('a b c');
    expect(oneLine('safe\u202etxt.exe')).toBe('safetxt.exe');
    expect(oneLine('x'.repeat(500)).length).toBe(300);
    expect(unescapeHtml('&lt;b&gt; &amp;amp; &#65;&#x42; &#0; &#xD800; &nope; &')).toBe('<b> &amp; AB &#0; &#xD800; &nope; &');
  });
});

describe('code', () => {
  test('TestP2_ColoursAreATree', () => {
    const pieces = highlight('const x = "<script>"', 'ts');
    expect(JSON.stringify(pieces)).toContain('hljs-keyword');
    expect(JSON.stringify(pieces)).toContain('<script>');
    expect(highlight('x', 'no-such-language')).toBeUndefined();
  });

  test('TestCase94_BigCodeStaysPlain', () => {
    expect(colourable('x\n'.repeat(900))).toBe(true);
    expect(colourable('x\n'.repeat(1_001))).toBe(false);
    expect(colourable('x'.repeat(100_001))).toBe(false);
  });

  test('TestCase94_ClipKeepsHeadAndTail', () => {
    const lines = Array.from({ length: 1_000 }, (_, i) => `l${i}`);
    const c = clip(lines.join('\n'));
    expect(c.head.split('\n').length + c.hidden + c.tail.split('\n').length).toBe(1_000);
    expect(c.head.startsWith('l0\n')).toBe(true);
    expect(c.tail.endsWith('l999')).toBe(true);
    expect(c.tail.split('\n').length).toBe(20);
    expect(clip('short').hidden).toBe(0);
    const wide = clip('😀'.repeat(50_000));
    expect(wide.unit).toBe('characters');
    expect(wide.head.length + wide.hidden + wide.tail.length).toBe(100_000);
    for (const part of [wide.head, wide.tail]) expect(part.isWellFormed()).toBe(true);
    expect(clip('y'.repeat(3) + '\n'.repeat(200_000)).hidden).toBeGreaterThan(0);
  });
});

describe('diffs', () => {
  const rebuild = (rows: Row[], side: 'old' | 'new') => rows.flatMap((r) => (r.kind === 'fold' || r.kind === (side === 'old' ? 'add' : 'del') ? [] : [r.text]));

  test('TestP2_DiffOfSmallTexts', () => {
    const d = diffLines('a\nb\nc\n', 'a\nB\nc\n');
    expect(d.rows.map((r) => (r.kind === 'fold' ? 'fold' : `${r.kind} ${r.text}`))).toEqual(['same a', 'del b', 'add B', 'same c']);
    expect([d.added, d.removed, d.coarse]).toEqual([1, 1, false]);
    expect(diffLines('', 'x\n').rows).toEqual([{ kind: 'add', text: 'x', newNo: 1 }]);
    expect(diffLines('x', '').rows).toEqual([{ kind: 'del', text: 'x', oldNo: 1 }]);
    expect(diffLines('same', 'same').rows).toEqual([{ kind: 'same', text: 'same', oldNo: 1, newNo: 1 }]);
  });

  test('TestP2_DiffsAreRightForAnyTexts', () => {
    for (let seed = 1; seed <= 200; seed++) {
      const random = lcg(seed);
      const text = () => Array.from({ length: Math.floor(random() * 8) }, () => 'abc'[Math.floor(random() * 3)] ?? '');
      const a = text();
      const b = text();
      const d = diffLines(a.join('\n'), b.join('\n'));
      const clean = (x: string[]) => (x.at(-1) === '' ? x.slice(0, -1) : x);
      expect(rebuild(d.rows, 'old'), `seed ${seed}`).toEqual(clean(a.length === 1 && a[0] === '' ? [] : a));
      expect(rebuild(d.rows, 'new'), `seed ${seed}`).toEqual(clean(b.length === 1 && b[0] === '' ? [] : b));
    }
  });

  test('TestP2_EqualStretchesAreFolded', () => {
    const old = Array.from({ length: 100 }, (_, i) => `line ${i}`);
    const now = old.with(50, 'changed');
    const d = diffLines(old.join('\n'), now.join('\n'));
    expect(d.rows.map((r) => r.kind)).toEqual(['fold', 'same', 'same', 'same', 'del', 'add', 'same', 'same', 'same', 'fold']);
    expect(d.rows[0]).toEqual({ kind: 'fold', count: 47 });
    expect(d.rows.at(-1)).toEqual({ kind: 'fold', count: 46 });
    expect(d.rows[1]).toEqual({ kind: 'same', text: 'line 47', oldNo: 48, newNo: 48 });
  });

  test('TestCase94_HugeDiffIsBounded', () => {
    const a = Array.from({ length: 200_000 }, (_, i) => `a${i}`).join('\n');
    const b = Array.from({ length: 200_000 }, (_, i) => `b${i}`).join('\n');
    const begin = performance.now();
    const d = diffLines(a, b);
    expect(performance.now() - begin).toBeLessThan(3_000);
    expect([d.coarse, d.added, d.removed]).toEqual([true, 200_000, 200_000]);
  });
});

describe('CASE 45: elicitation forms', () => {
  const schema = {
    type: 'object',
    required: ['name', 'color', 'n'],
    properties: {
      name: { type: 'string', title: 'Name', minLength: 2, pattern: '^[a-z]+$' },
      color: { type: 'string', oneOf: [{ const: 'r', title: 'Red' }, { const: 'g', title: 'Green' }] },
      size: { type: 'string', enum: ['s', 'm'], default: 'm' },
      n: { type: 'integer', minimum: 1, maximum: 5 },
      ok: { type: 'boolean', default: true },
      tags: { type: 'array', items: { anyOf: [{ const: 'x', title: 'X' }, { const: 'y', title: 'Y' }] }, maxItems: 1 },
      mail: { type: 'string', format: 'email' },
      odd: { type: 'matrix' },
    },
  };
  const fields = fieldsOf(schema);
  const field = (n: string) => fields.find((f) => f.name === n) ?? expect.fail(n);

  test('TestCase45_FieldsOfASchema', () => {
    expect(fields.map((f) => [f.name, f.kind, f.required])).toEqual([
      ['name', 'text', true], ['color', 'choice', true], ['size', 'choice', false], ['n', 'integer', true],
      ['ok', 'boolean', false], ['tags', 'choices', false], ['mail', 'text', false], ['odd', 'text', false],
    ]);
    expect(field('color').choices.map((c) => c.label)).toEqual(['Red', 'Green']);
    expect(field('size').initial).toBe('m');
    expect(fieldsOf(undefined)).toEqual([]);
  });

  test('TestCase45_FaultsAreNamed', () => {
    expect(fault(field('name'), '')).toContain('needed');
    expect(fault(field('name'), 'a')).toContain('2');
    expect(fault(field('name'), 'ABC')).toContain('form');
    expect(fault(field('name'), 'abc')).toBeUndefined();
    expect(fault(field('n'), '1.5')).toContain('whole');
    expect(fault(field('n'), '9')).toContain('5');
    expect(fault(field('n'), 'x')).toContain('number');
    expect(fault(field('tags'), ['x', 'y'])).toContain('1');
    expect(fault(field('mail'), '')).toBeUndefined();
    expect(fault({ ...field('name'), pattern: '(' }, 'abc')).toBeUndefined();
  });

  test('TestCase45_ContentLeavesBlanksOut', () => {
    expect(contentOf(fields, { name: 'abc', color: 'r', n: '3', tags: ['y'] })).toEqual({ name: 'abc', color: 'r', size: 'm', n: 3, ok: true, tags: ['y'] });
  });
});

describe('CASE 11: attachments', () => {
  const init = (prompt: object) => initInfo({ protocolVersion: 1, agentInfo: { name: 'demo', version: '1' }, agentCapabilities: { promptCapabilities: prompt }, _meta: { acpgate: { limits: { frameBytes: 1 << 20 } } } } as never);

  test('TestCase11_WhatTheAgentTakes', () => {
    const all = init({ image: true, embeddedContext: true });
    const none = init({});
    const file = (name: string, type: string, size = 10) => ({ name, type, size });
    expect(sort(file('a.png', 'image/png'), all)).toBe('image');
    expect(sort(file('a.png', 'image/png'), none)).toEqual({ refused: expect.stringContaining('does not take images') });
    expect(sort(file('a.ts', 'video/mp2t'), all)).toBe('text');
    expect(sort(file('Makefile', ''), none)).toBe('text');
    expect(sort(file('a.pdf', 'application/pdf'), all)).toBe('blob');
    expect(sort(file('a.pdf', 'application/pdf'), none)).toEqual({ refused: expect.stringContaining('application/pdf') });
    expect(sort(file('a.txt', 'text/plain', 1 << 20), all)).toEqual({ refused: expect.stringContaining('1 MiB') });
  });

  test('TestCase11_TextGoesInAFenceThatHolds', () => {
    const b = textBlock('a.md', 'text/markdown', 'x\n````\ny', init({}));
    expect(b.type === 'text' && b.text).toContain('`````\nx\n````\ny\n`````');
    expect(textBlock('a.md', '', 'x', init({ embeddedContext: true })).type).toBe('resource');
    expect(weight([{ type: 'text', text: 'ä' }])).toBeGreaterThan(contentMax(0));
  });
});
