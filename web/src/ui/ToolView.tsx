import { oneLine } from '../md/safe';
import type { ToolCall, ToolContent } from '../store/entries';
import { Clipped } from './Code';
import { DiffView } from './DiffView';
import { BlockView } from './Entries';
import * as icons from './icons';
import { CopyButton, Fold, Spinner } from './parts';

const kinds: Record<string, { icon: () => preact.JSX.Element; word: string }> = {
  read: { icon: icons.Eye, word: 'Read' },
  edit: { icon: icons.Pencil, word: 'Edit' },
  delete: { icon: icons.Trash, word: 'Delete' },
  move: { icon: icons.Move, word: 'Move' },
  search: { icon: icons.Search, word: 'Search' },
  execute: { icon: icons.Terminal, word: 'Run' },
  think: { icon: icons.Bulb, word: 'Think' },
  fetch: { icon: icons.Globe, word: 'Fetch' },
  switch_mode: { icon: icons.Wrench, word: 'Switch mode' },
  other: { icon: icons.Wrench, word: 'Tool' },
};

const statusWords: Record<string, string> = { pending: 'waiting', in_progress: 'running', completed: 'done', failed: 'failed' };

/** A tool call in one line; its body is built when it is opened. A change of a file shows as soon as it is made. */
export function ToolView({ call }: { call: ToolCall }) {
  const kind = kinds[call.kind] ?? { icon: icons.Wrench, word: 'Tool' };
  const Icon = kind.icon;
  const title = oneLine(call.title) || kind.word;
  const changed = call.status !== 'pending' && call.content.some((c) => c.type === 'diff');
  return (
    <div class={`tool ${call.status}`}>
      <Fold
        open={changed}
        summary={
          <>
            <span class="tool-icon" title={kind.word}>
              <Icon />
            </span>
            <span class="tool-title">{title}</span>
            <Locations call={call} />
            <Status status={call.status} />
          </>
        }
      >
        {() => <ToolBody call={call} />}
      </Fold>
    </div>
  );
}

function Status({ status }: { status: string }) {
  return (
    <span class={`status ${status}`}>
      {status === 'in_progress' ? <Spinner /> : status === 'completed' ? <icons.Check /> : status === 'failed' ? <icons.Close /> : null}
      <span class={status === 'completed' ? 'visually-hidden' : ''}>{statusWords[status] ?? status}</span>
    </span>
  );
}

function Locations({ call }: { call: ToolCall }) {
  const first = call.locations[0];
  const name = first?.path.split('/').pop() ?? '';
  if (!first || call.title.includes(name)) return null;
  const more = call.locations.length - 1;
  return (
    <span class="tool-where" title={call.locations.map(place).join('\n')}>
      {name}
      {first.line === undefined ? '' : `:${first.line}`}
      {more > 0 ? ` +${more}` : ''}
    </span>
  );
}

function place(l: { path: string; line?: number }): string {
  return l.line === undefined ? l.path : `${l.path}:${l.line}`;
}

export function ToolBody({ call }: { call: ToolCall }) {
  const raw = call.content.length === 0;
  const shown = new Set(call.content.map((c) => (c.type === 'diff' ? c.path : '')));
  const locations = call.locations.filter((l) => !shown.has(l.path));
  return (
    <div class="tool-body">
      {locations.length > 0 ? (
        <ul class="locations">
          {locations.slice(0, 50).map((l, i) => (
            <li key={i}>{place(l)}</li>
          ))}
        </ul>
      ) : null}
      {call.content.map((c, i) => (
        <Content key={i} content={c} />
      ))}
      {call.rawInput !== undefined ? <Raw name="Input" value={call.rawInput} open={raw && call.rawOutput === undefined} /> : null}
      {call.rawOutput !== undefined && raw ? <Raw name="Output" value={call.rawOutput} open /> : null}
      {raw && call.rawInput === undefined && call.rawOutput === undefined && call.locations.length === 0 ? <p class="muted small">The agent told nothing more.</p> : null}
    </div>
  );
}

function Content({ content }: { content: ToolContent }) {
  switch (content.type) {
    case 'diff':
      return <DiffView path={content.path} oldText={content.oldText} newText={content.newText} created={content.created} />;
    case 'terminal':
      return <p class="muted small">Output in a terminal of the agent ({oneLine(content.terminalId, 60)}).</p>;
    case 'content': {
      const b = content.content;
      // Output of a tool is text, not prose: Markdown in it means nothing, unless it is a fenced block.
      if (b.type === 'text' && !/^\s*(```|~~~)/.test(b.text)) return <Output text={b.text} />;
      return <BlockView block={b} live={false} />;
    }
  }
}

function Output({ text }: { text: string }) {
  return (
    <div class="output">
      <CopyButton text={() => text} what="output" />
      <pre tabIndex={0} role="region" aria-label="Output">
        <Clipped text={text} as="code" />
      </pre>
    </div>
  );
}

function Raw({ name, value, open }: { name: string; value: unknown; open: boolean }) {
  return (
    <Fold summary={name} class="plain" open={open}>
      {() => <Output text={typeof value === 'string' ? value : JSON.stringify(value, null, 2)} />}
    </Fold>
  );
}
