import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { login } from '../store/http';
import { useApp } from './context';
import * as icons from './icons';

export function Login() {
  const app = useApp();
  const input = useRef<HTMLInputElement>(null);
  const busy = useSignal(false);
  const wrong = useSignal<string | undefined>(undefined);
  useEffect(() => input.current?.focus(), []);
  const submit = async (e: Event) => {
    e.preventDefault();
    const token = input.current?.value.trim() ?? '';
    if (token === '') {
      wrong.value = 'Paste your token first.';
      return;
    }
    busy.value = true;
    wrong.value = await login(token);
    busy.value = false;
    if (wrong.value === undefined) await app.enter();
    else input.current?.focus();
  };
  return (
    <main class="splash">
      <form class="login" onSubmit={submit} aria-labelledby="login-title">
        <icons.Mark />
        <h1 id="login-title">Log in to acpgate</h1>
        {app.linkFailed.value ? (
          <p class="field-error" role="alert">
            This login link was used before, or its time is over. Get a new one with <code>acpgate token link</code>.
          </p>
        ) : null}
        <p class="muted">
          The quickest way is the login link that <code>acpgate serve</code> prints when it starts. It works once and logs this browser in.
        </p>
        <input type="text" name="username" autocomplete="username" value="acpgate" hidden readOnly />
        <label for="token">Or paste an access token</label>
        <input
          id="token"
          ref={input}
          type="password"
          autocomplete="current-password"
          spellcheck={false}
          aria-invalid={wrong.value !== undefined}
          aria-describedby={wrong.value === undefined ? 'token-help' : 'token-error'}
        />
        {wrong.value === undefined ? (
          <p class="muted small" id="token-help">
            It is in the file <code>token</code> of the gateway’s state directory.
          </p>
        ) : (
          <p class="field-error" id="token-error" role="alert">
            {wrong.value}
          </p>
        )}
        <button type="submit" class="primary" disabled={busy.value}>
          {busy.value ? 'Logging in…' : 'Log in'}
        </button>
      </form>
    </main>
  );
}
