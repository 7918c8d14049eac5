import { useSignal } from '@preact/signals';
import { oneLine } from '../md/safe';
import type { Session } from '../store/session';
import { toProblem } from '../wire/problem';
import type { SessionConfigOption } from '../wire/types';
import { useApp } from './context';

/** Mode and config options of the session, as the agent offers them. */
export function Selectors({ session }: { session: Session }) {
  const app = useApp();
  const busy = useSignal<string | undefined>(undefined);
  const change = async (id: string, run: () => Promise<void>) => {
    busy.value = id;
    try {
      await run();
    } catch (e) {
      app.pop(`That could not be changed: ${toProblem(e).title}`);
    } finally {
      busy.value = undefined;
    }
  };
  const config = session.around.config.value;
  const modes = session.around.modes.value;
  // An agent that has both says the same thing twice.
  const modeShown = modes && modes.availableModes.length > 1 && !config.some((o) => o.category === 'mode');
  return (
    <>
      {modeShown ? (
        <Select
          label="Mode"
          value={modes.currentModeId}
          options={modes.availableModes.map((m) => ({ value: m.id, name: m.name }))}
          disabled={busy.value === 'mode'}
          onChange={(v) => void change('mode', () => session.setMode(v))}
        />
      ) : null}
      {config.map((o) => (
        <Option key={o.id} option={o} disabled={busy.value === o.id} onChange={(v) => void change(o.id, () => session.setConfig(o.id, v))} />
      ))}
    </>
  );
}

interface Flat {
  value: string;
  name: string;
  group?: string;
}

function flat(o: SessionConfigOption & { type: 'select' }): Flat[] {
  return o.options.flatMap((x): Flat[] =>
    'options' in x ? x.options.map((y) => ({ value: y.value, name: y.name, group: x.name })) : [{ value: x.value, name: x.name }],
  );
}

function Option({ option: o, disabled, onChange }: { option: SessionConfigOption; disabled: boolean; onChange: (v: string | boolean) => void }) {
  if (o.type === 'boolean') {
    return (
      <label class="toggle">
        <input type="checkbox" role="switch" checked={o.currentValue} disabled={disabled} onChange={(e) => onChange(e.currentTarget.checked)} />
        {oneLine(o.name, 40)}
      </label>
    );
  }
  if (o.type !== 'select') return null;
  const options = flat(o);
  if (options.length < 2) return null;
  return <Select label={oneLine(o.name, 40)} value={o.currentValue} options={options} disabled={disabled} onChange={onChange} />;
}

function Select({ label, value, options, disabled, onChange }: { label: string; value: string; options: Flat[]; disabled: boolean; onChange: (v: string) => void }) {
  const groups = [...new Set(options.map((o) => o.group))];
  const item = (o: Flat) => (
    <option key={o.value} value={o.value}>
      {oneLine(o.name, 60)}
    </option>
  );
  return (
    <select class="chip-select" aria-label={label} title={label} value={value} disabled={disabled} onChange={(e) => onChange(e.currentTarget.value)}>
      {groups.map((g) => {
        const part = options.filter((o) => o.group === g).map(item);
        return g === undefined ? (
          part
        ) : (
          <optgroup key={g} label={g}>
            {part}
          </optgroup>
        );
      })}
    </select>
  );
}
