// @vitest-environment happy-dom
import { render } from 'preact';
import { afterEach, describe, expect, test } from 'vitest';
import { Markdown } from '../src/ui/Markdown';

afterEach(() => render(null, document.body));

function html(text: string): Element {
  render(<Markdown text={text} live={false} />, document.body);
  return document.body.firstElementChild ?? expect.fail('nothing was rendered');
}

describe('CASE 87: Markdown of an agent', () => {
  test('TestCase87_MarkupIsText', () => {
    const evil = '<img src=x onerror=alert(1)> <script>alert(1)</script>\n\n<div onclick="x()">\nblock\n</div>\n\n<svg onload=alert(1)>';
    const el = html(evil);
    expect(el.querySelectorAll('img, script, svg, [onclick], [onerror], [onload]').length).toBe(0);
    expect(el.textContent).toContain('<img src=x onerror=alert(1)>');
    expect(el.textContent).toContain('<div onclick="x()">');
  });

  test('TestCase87_LinksAndImages', () => {
    const el = html('[a](javascript:alert(1)) [b](data:text/html,x) [c](https://example.com "t") <https://auto.example> [d](/relative) ![i](https://x.example/p.png) ![j](data:image/png;base64,iVBORw0K)\n\n[ref]\n\n[ref]: javascript:alert(1)');
    expect([...el.querySelectorAll('a')].map((a) => [a.getAttribute('href'), a.rel, a.target])).toEqual([
      ['https://example.com/', 'noopener noreferrer', '_blank'],
      ['https://auto.example/', 'noopener noreferrer', '_blank'],
      ['https://x.example/p.png', 'noopener noreferrer', '_blank'],
    ]);
    expect([...el.querySelectorAll('img')].map((i) => i.getAttribute('src'))).toEqual(['data:image/png;base64,iVBORw0K']);
    expect(el.textContent).toContain('a b c');
  });

  test('TestP2_RendersTheUsualThings', () => {
    const el = html('# One\n\ntext **b** *i* ~~s~~ `a &amp; <b>` &lt;x&gt;\nbreak  \nhere\n\n3. x\n4. y\n\n- [x] done\n- [ ] open\n\n> quote\n\n| a | b |\n|--:|---|\n| 1 | 2 |\n\n---\n\n```ts\nlet x = 1;\n```');
    expect(el.querySelector('[role=heading]')?.getAttribute('aria-level')).toBe('3');
    expect(el.querySelector('strong')?.textContent).toBe('b');
    expect(el.querySelector('p code')?.textContent).toBe('a &amp; <b>');
    expect(el.querySelector('p')?.textContent).toContain('<x>');
    expect(el.querySelector('ol')?.getAttribute('start')).toBe('3');
    expect([...el.querySelectorAll('input')].map((i) => [i.checked, i.disabled])).toEqual([[true, true], [false, true]]);
    expect(el.querySelector('td.align-right')?.textContent).toBe('1');
    expect(el.querySelector('blockquote')?.textContent).toBe('quote');
    expect(el.querySelector('hr')).not.toBeNull();
    expect(el.querySelector('.code-lang')?.textContent).toBe('ts');
    expect(el.querySelector('pre code')?.textContent).toBe('let x = 1;');
  });

  test('TestP2_GrowingTextKeepsWhatIsThere', () => {
    html('First paragraph.\n\nSecond para');
    const first = document.querySelector('p');
    html('First paragraph.\n\nSecond paragraph.\n\n- a');
    expect(document.querySelector('p')).toBe(first);
    expect(document.querySelectorAll('p').length).toBe(2);
    expect(document.querySelectorAll('li').length).toBe(1);
  });
});
