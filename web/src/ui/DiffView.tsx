import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { diffLines, type Row } from '../diff/fold';
import { oneLine } from '../md/safe';
import { bytes } from './parts';

/** Rows that are shown before somebody asks for all. */
const rowsMax = 300;
const marks = { add: '+', del: '−', same: ' ' } as const;
const words = { add: 'added', del: 'removed', same: '' } as const;

export function DiffView({ path, oldText, newText, created }: { path: string; oldText: string; newText: string; created: boolean }) {
  const diff = useMemo(() => diffLines(oldText, newText), [oldText, newText]);
  const all = useSignal(false);
  const rows = all.value ? diff.rows : diff.rows.slice(0, rowsMax);
  const hidden = diff.rows.length - rows.length;
  return (
    <figure class="diff">
      <figcaption>
        <span class="diff-path" title={path}>
          <bdi>{oneLine(path, 300)}</bdi>
        </span>
        {created ? <span class="tag">new file</span> : null}
        <span class="diff-count">
          <span class="plus">+{diff.added}</span> <span class="minus">−{diff.removed}</span>
        </span>
      </figcaption>
      <div class="diff-scroll" tabIndex={0} role="region" aria-label={`Changes in ${path}`}>
        <table>
          <tbody>
            {rows.map((r, i) => (
              <DiffRow key={i} row={r} />
            ))}
          </tbody>
        </table>
      </div>
      {hidden > 0 ? (
        <button type="button" class="show-all" onClick={() => (all.value = true)}>
          {hidden.toLocaleString()} more lines, show all
        </button>
      ) : null}
      {diff.coarse ? <p class="muted small diff-note">Too large to be compared line by line ({bytes(oldText.length + newText.length)}).</p> : null}
    </figure>
  );
}

function DiffRow({ row }: { row: Row }) {
  if (row.kind === 'fold') {
    return (
      <tr class="fold-row">
        <td colSpan={4}>{row.count.toLocaleString()} equal lines</td>
      </tr>
    );
  }
  return (
    <tr class={row.kind}>
      <td class="no" aria-hidden="true">
        {row.oldNo}
      </td>
      <td class="no" aria-hidden="true">
        {row.newNo}
      </td>
      <td class="mark">
        <span aria-hidden="true">{marks[row.kind]}</span>
        {words[row.kind] ? <span class="visually-hidden">{words[row.kind]}</span> : null}
      </td>
      <td class="line">{row.text}</td>
    </tr>
  );
}
