import { useContext } from 'preact/hooks';
import type { Entry, NoteEntry, NoticeEntry, TextEntry } from '../store/entries';
import { textOf } from '../store/entries';
import { blockSource, linkTarget, oneLine } from '../md/safe';
import type { ContentBlock } from '../wire/types';
import { Clipped, Code } from './Code';
import { SessionContext, useApp } from './context';
import * as icons from './icons';
import { Markdown } from './Markdown';
import { bytes, CopyButton, Fold } from './parts';
import { PlanList } from './Plan';
import { ToolView } from './ToolView';

/** One entry. It alone renders again when its content grows. */
export function EntryView({ entry, live }: { entry: Entry; live: boolean }) {
  void entry.rev.value;
  switch (entry.kind) {
    case 'user':
      return (
        <div class="user">
          <span class="visually-hidden">You:</span>
          <UserBubble blocks={entry.blocks} />
        </div>
      );
    case 'message':
      return <Message entry={entry} live={live} />;
    case 'thought':
      return (
        <Fold
          class="thought"
          summary={
            <>
              <icons.Bulb />
              <span class={live ? 'shimmer' : ''}>{live ? 'Thinking…' : 'Thought'}</span>
              <span class="thought-peek">{live ? '' : oneLine(textOf(entry.blocks), 80)}</span>
            </>
          }
        >
          {() => <Blocks blocks={entry.blocks} live={live} />}
        </Fold>
      );
    case 'tool':
      return <ToolView call={entry.call} />;
    case 'plan':
      return (
        <section class="card plan" aria-label="Plan">
          <h2>
            <icons.List /> Plan
          </h2>
          <PlanList items={entry.items} />
        </section>
      );
    case 'notice':
      return <Notice entry={entry} />;
    case 'gap':
      return <Gap omitted={entry.omitted} />;
    case 'note':
      return <Note entry={entry} />;
    case 'report':
      return (
        <div class="card report">
          <Markdown text={entry.text} live={false} />
        </div>
      );
    case 'compaction':
      return (
        <div class="quiet">
          <span>{entry.status === 'failed' ? `The context could not be compacted${entry.error ? `: ${oneLine(entry.error)}` : ''}` : entry.status === 'completed' ? 'The context was compacted' : 'Compacting the context…'}</span>
          {entry.summary.length > 0 ? (
            <Fold summary="Summary" class="plain">
              {() => <Blocks blocks={entry.summary} live={false} />}
            </Fold>
          ) : null}
        </div>
      );
    case 'unknown':
      return (
        <Fold
          class="unknown"
          summary={
            <>
              <icons.Info />
              <span>{oneLine(entry.name, 80)}</span>
            </>
          }
        >
          {() => <Code text={JSON.stringify(entry.update, null, 2)} language="json" live={false} />}
        </Fold>
      );
  }
}

function Message({ entry, live }: { entry: TextEntry; live: boolean }) {
  const text = textOf(entry.blocks);
  return (
    <div class="message">
      <Blocks blocks={entry.blocks} live={live} />
      {!live && text.length > 0 ? (
        <div class="message-tools">
          <CopyButton text={() => textOf(entry.blocks)} what="message" />
        </div>
      ) : null}
    </div>
  );
}

function Gap({ omitted }: { omitted: number }) {
  const app = useApp();
  const session = useContext(SessionContext);
  const all = () => {
    if (session) app.link.value?.showAll(session);
  };
  return (
    <p class="quiet gap">
      <span>{omitted > 0 ? `${omitted.toLocaleString()} earlier ${omitted === 1 ? 'entry is' : 'entries are'} not shown` : 'Earlier entries are not shown'}</span>
      {session?.whole.value ? null : (
        <button type="button" class="link" onClick={all}>
          Show all
        </button>
      )}
    </p>
  );
}

function Note({ entry }: { entry: NoteEntry }) {
  const app = useApp();
  const { session } = entry;
  return (
    <section class="card note" aria-label="Note from a side conversation">
      <h2>
        <icons.Move /> {entry.title ? oneLine(entry.title, 120) : 'From a side conversation'}
      </h2>
      <Markdown text={entry.text} live={false} />
      <p class="quiet">
        <span>{entry.state === 'delivered' ? 'The agent has it' : 'Goes to the agent with your next message'}</span>
        {session === undefined ? null : (
          <button type="button" class="link" onClick={() => app.pickRow(app.link.value?.name ?? '', session)}>
            Open it
          </button>
        )}
      </p>
    </section>
  );
}

function Notice({ entry }: { entry: NoticeEntry }) {
  return (
    <div class={`quiet ${entry.severity}`}>
      <span>{entry.text}</span>
      {entry.detail ? <span class="quiet-detail">{entry.detail}</span> : null}
    </div>
  );
}

/** What a person said. It is shown as it was typed, not as Markdown. */
export function UserBubble({ blocks }: { blocks: readonly ContentBlock[] }) {
  const text = textOf(blocks);
  const rest = blocks.filter((b) => b.type !== 'text');
  return (
    <div class="bubble">
      {rest.map((b, i) => (
        <BlockView key={i} block={b} live={false} />
      ))}
      {text ? (
        <p class="bubble-text">
          <Clipped text={text} as="span" />
        </p>
      ) : null}
    </div>
  );
}

export function Blocks({ blocks, live }: { blocks: readonly ContentBlock[]; live: boolean }) {
  return (
    <>
      {blocks.map((b, i) => (
        <BlockView key={i} block={b} live={live && i === blocks.length - 1} />
      ))}
    </>
  );
}

export function BlockView({ block, live }: { block: ContentBlock; live: boolean }) {
  switch (block.type) {
    case 'text':
      return <Markdown text={block.text} live={live} />;
    case 'image': {
      const src = blockSource(block.mimeType, block.data);
      return src ? <img class="block-image" src={src} alt="" /> : <Chip name={`Image (${oneLine(block.mimeType, 40)})`} />;
    }
    case 'audio':
      return <Chip name={`Audio (${oneLine(block.mimeType, 40)})`} />;
    case 'resource_link': {
      const name = block.title ?? block.name;
      return <Chip name={name} uri={block.uri} {...(typeof block.size === 'number' ? { size: block.size } : {})} />;
    }
    case 'resource': {
      const r = block.resource;
      const name = decodeName(r.uri);
      if (!('text' in r)) return <Chip name={name} />;
      return (
        <Fold class="resource" summary={<Chip name={name} size={r.text.length} />}>
          {() => (
            <pre class="raw">
              <Clipped text={r.text} as="span" />
            </pre>
          )}
        </Fold>
      );
    }
  }
}

function Chip({ name, uri, size }: { name: string; uri?: string; size?: number }) {
  const href = uri === undefined ? undefined : linkTarget(uri);
  const body = (
    <>
      <icons.Clip />
      <span class="chip-name" title={uri}>
        {oneLine(name, 120)}
      </span>
      {size === undefined ? null : <span class="muted">{bytes(size)}</span>}
    </>
  );
  if (href === undefined) return <span class="chip">{body}</span>;
  return (
    <a class="chip" href={href} target="_blank" rel="noopener noreferrer">
      {body}
    </a>
  );
}

function decodeName(uri: string): string {
  const last = uri.split('/').pop() ?? uri;
  try {
    return decodeURIComponent(last) || uri;
  } catch {
    return last;
  }
}
