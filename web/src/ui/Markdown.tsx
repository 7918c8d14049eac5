// Markdown tokens as components. Text goes in as text, so whatever an agent writes is shown and never run (CASE 87).

import type { ComponentChildren, VNode } from 'preact';
import { Component } from 'preact';
import { useMemo } from 'preact/hooks';
import { GrowingLexer, type Token, type Tokens } from '../md/lex';
import { imageSource, linkTarget, unescapeHtml } from '../md/safe';
import { Code } from './Code';

/** live: the text still grows, so code is coloured only once it rests. */
export function Markdown({ text, live }: { text: string; live: boolean }) {
  const lexer = useMemo(() => new GrowingLexer(), []);
  const tokens = lexer.lex(text);
  return (
    <div class="md">
      {tokens.map((t, i) => (t.type === 'space' ? null : <Block key={i} token={t} live={live && i >= tokens.length - 2} />))}
    </div>
  );
}

// A block whose source did not change is not built again.
class Block extends Component<{ token: Token; live: boolean }> {
  override shouldComponentUpdate(next: { token: Token; live: boolean }): boolean {
    return next.token.raw !== this.props.token.raw || next.token.type !== this.props.token.type || next.live !== this.props.live;
  }
  override render() {
    return block(this.props.token, this.props.live);
  }
}

function blocks(tokens: Token[], live: boolean): ComponentChildren {
  return tokens.map((t, i) => <Block key={i} token={t} live={live} />);
}

function block(t: Token, live: boolean): VNode | string | null {
  switch (t.type) {
    case 'space':
    case 'def':
      return null;
    case 'heading': {
      const h = t as Tokens.Heading;
      // The page has its own outline: an agent's headings begin at level 3.
      const level = Math.min(6, h.depth + 2);
      return (
        <div class={`h h${h.depth}`} role="heading" aria-level={level}>
          {inlines(h.tokens)}
        </div>
      );
    }
    case 'paragraph':
      return <p>{inlines((t as Tokens.Paragraph).tokens)}</p>;
    case 'text': {
      const x = t as Tokens.Text;
      return <span>{x.tokens ? inlines(x.tokens) : unescapeHtml(x.text)}</span>;
    }
    case 'code': {
      const c = t as Tokens.Code;
      return <Code text={c.text} language={(c.lang ?? '').split(/[\s,{]/)[0] ?? ''} live={live} />;
    }
    case 'blockquote':
      return <blockquote>{blocks((t as Tokens.Blockquote).tokens, live)}</blockquote>;
    case 'list':
      return listOf(t as Tokens.List, live);
    case 'table':
      return tableOf(t as Tokens.Table);
    case 'hr':
      return <hr />;
    case 'checkbox':
      return <>{inline(t)}</>;
    case 'html':
      return <p class="md-html">{t.raw.trimEnd()}</p>;
    default:
      return <p>{t.raw}</p>;
  }
}

function listOf(l: Tokens.List, live: boolean): VNode {
  const items = l.items.map((item, i) => (
    <li key={i} class={item.task ? 'task' : undefined}>
      {blocks(item.tokens, live)}
    </li>
  ));
  return l.ordered ? <ol start={typeof l.start === 'number' ? l.start : 1}>{items}</ol> : <ul>{items}</ul>;
}

function tableOf(t: Tokens.Table): VNode {
  const cell = (c: Tokens.TableCell, i: number, Tag: 'th' | 'td') => (
    <Tag key={i} class={c.align ? `align-${c.align}` : undefined}>
      {inlines(c.tokens)}
    </Tag>
  );
  return (
    <div class="table" role="region" aria-label="Table" tabIndex={0}>
      <table>
        <thead>
          <tr>{t.header.map((c, i) => cell(c, i, 'th'))}</tr>
        </thead>
        <tbody>
          {t.rows.map((row, r) => (
            <tr key={r}>{row.map((c, i) => cell(c, i, 'td'))}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inlines(tokens: Token[]): ComponentChildren {
  return tokens.map((t) => inline(t));
}

function inline(t: Token): ComponentChildren {
  switch (t.type) {
    case 'text': {
      const x = t as Tokens.Text;
      return x.tokens ? inlines(x.tokens) : unescapeHtml(x.text);
    }
    case 'escape':
      return (t as Tokens.Escape).text;
    case 'strong':
      return <strong>{inlines((t as Tokens.Strong).tokens)}</strong>;
    case 'em':
      return <em>{inlines((t as Tokens.Em).tokens)}</em>;
    case 'del':
      return <del>{inlines((t as Tokens.Del).tokens)}</del>;
    case 'codespan':
      return <code>{(t as Tokens.Codespan).text}</code>;
    case 'br':
      return <br />;
    case 'checkbox':
      return <input type="checkbox" disabled checked={(t as Tokens.Checkbox).checked} aria-label={(t as Tokens.Checkbox).checked ? 'done' : 'open'} />;
    case 'link': {
      const l = t as Tokens.Link;
      const href = linkTarget(l.href);
      const body = inlines(l.tokens);
      if (href === undefined) return <span class="dead-link" title={`Not a web address: ${l.href.slice(0, 200)}`}>{body}</span>;
      return (
        <a href={href} target="_blank" rel="noopener noreferrer" title={l.title ?? undefined}>
          {body}
        </a>
      );
    }
    case 'image': {
      const img = t as Tokens.Image;
      const src = imageSource(img.href);
      if (src !== undefined) return <img class="md-image" src={src} alt={img.text} />;
      const href = linkTarget(img.href);
      const label = `Image: ${img.text || img.href.slice(0, 80)}`;
      // Loading it would tell its server who reads this.
      return href === undefined ? <span class="dead-link">{label}</span> : <a href={href} target="_blank" rel="noopener noreferrer">{label}</a>;
    }
    default:
      return t.raw;
  }
}
