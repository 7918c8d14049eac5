import { useApp } from './context';
import { Dialog } from './parts';
import { shortcutList } from './shortcuts';

export function Help() {
  const app = useApp();
  return (
    <Dialog title="Keyboard" onClose={() => (app.help.value = false)}>
      <dl class="keys">
        {shortcutList.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p class="muted small help-foot">
        acpgate {app.link.value?.init.value?.gate.version} ·{' '}
        <a href="./licenses.txt" target="_blank" rel="noopener">
          Licenses of what it is made of
        </a>
      </p>
    </Dialog>
  );
}
