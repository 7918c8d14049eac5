import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { clip, colourable } from '../md/clip';
import type { Piece } from '../md/highlight';
import { CopyButton } from './parts';

/** A block of code with its language, a copy button and, once the text rests, colours. */
export function Code({ text, language, live }: { text: string; language: string; live: boolean }) {
  const pieces = useSignal<{ text: string; pieces: Piece[] } | undefined>(undefined);
  useEffect(() => {
    if (!language || !colourable(text)) return undefined;
    let gone = false;
    const timer = setTimeout(
      () => {
        import('../md/highlight')
          .then(({ highlight }) => {
            const found = gone ? undefined : highlight(text, language);
            if (found) pieces.value = { text, pieces: found };
          })
          // Without the chunk (the gateway was just updated) code simply stays without colours.
          .catch(() => undefined);
      },
      live ? 300 : 0,
    );
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [text, language, live]);
  const now = pieces.value?.text === text ? pieces.value.pieces : undefined;
  return (
    <figure class="code">
      <figcaption>
        <span class="code-lang">{language || 'text'}</span>
        <CopyButton text={() => text} />
      </figcaption>
      <pre tabIndex={0} role="region" aria-label={language ? `${language} code` : 'Code'}>
        {now ? <code>{now.map(coloured)}</code> : <Clipped text={text} as="code" />}
      </pre>
    </figure>
  );
}

function coloured(p: Piece): ComponentChildren {
  if (p.text !== undefined) return p.text;
  return <span class={p.className}>{p.children?.map(coloured)}</span>;
}

/** Text whose middle is left out when it is big, with a button that shows all of it. */
export function Clipped({ text, as: Tag }: { text: string; as: 'code' | 'span' }) {
  const all = useSignal(false);
  const c = all.value ? undefined : clip(text);
  if (!c || c.hidden === 0) return <Tag>{text}</Tag>;
  return (
    <Tag>
      {c.head}
      <button type="button" class="show-all" onClick={() => (all.value = true)}>
        {c.hidden.toLocaleString()} {c.unit} hidden, show all
      </button>
      {c.tail}
    </Tag>
  );
}
