import { useEffect, useRef } from 'preact/hooks';
import { oneLine } from '../md/safe';
import type { AvailableCommand } from '../wire/types';

/** The commands that the text so far could become; none once an argument is being typed. */
export function filterCommands(commands: readonly AvailableCommand[], text: string): AvailableCommand[] {
  const m = /^\/(\S*)$/.exec(text);
  if (!m) return [];
  const word = (m[1] ?? '').toLowerCase();
  const begins = commands.filter((c) => c.name.toLowerCase().startsWith(word));
  const has = commands.filter((c) => !c.name.toLowerCase().startsWith(word) && c.name.toLowerCase().includes(word));
  return [...begins, ...has].slice(0, 50);
}

export function SlashMenu({ commands, chosen, onPick }: { commands: AvailableCommand[]; chosen: number; onPick: (c: AvailableCommand) => void }) {
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    list.current?.children[chosen]?.scrollIntoView({ block: 'nearest' });
  }, [chosen]);
  return (
    <ul class="slash" id="slash-menu" role="listbox" aria-label="Commands" tabIndex={0} ref={list}>
      {commands.map((c, i) => (
        <li
          key={c.name}
          id={`slash-${i}`}
          role="option"
          aria-selected={i === chosen}
          onMouseDown={(e) => {
            e.preventDefault();
            onPick(c);
          }}
        >
          <span class="slash-name">/{c.name}</span>
          {c.input?.hint ? <span class="slash-hint">{oneLine(c.input.hint, 60)}</span> : null}
          <span class="slash-what">{oneLine(c.description ?? '', 120)}</span>
        </li>
      ))}
    </ul>
  );
}
