import { useSignal } from '@preact/signals';
import type { Link } from '../store/link';
import { toProblem, type Problem } from '../wire/problem';
import type { AuthMethod } from '../wire/types';
import * as icons from './icons';
import { CopyButton, ProblemCard, Spinner } from './parts';

/** The agent itself wants a login (rule W12): its methods, each as a button or as the command to run on the server. */
export function AgentLogin({ link, onDone }: { link: Link; onDone: () => void }) {
  const busy = useSignal<string | undefined>(undefined);
  const problem = useSignal<Problem | undefined>(undefined);
  const info = link.init.value;
  const methods = info?.authMethods ?? [];
  const login = async (m: AuthMethod) => {
    busy.value = m.id;
    problem.value = undefined;
    try {
      const connection = await link.connected();
      await connection.request('authenticate', { methodId: m.id });
      onDone();
    } catch (e) {
      problem.value = toProblem(e);
    } finally {
      busy.value = undefined;
    }
  };
  return (
    <section class="card login-card" aria-label="Log in to the agent">
      <h2>
        <icons.Shield /> {info?.agentTitle ?? 'The agent'} wants you to log in
      </h2>
      {methods.length === 0 ? <p class="muted">It names no way to do so. See its documentation, then try again.</p> : null}
      <ul class="methods">
        {methods.map((m) => (
          <li key={m.id}>
            <div>
              <p class="method-name">{m.name}</p>
              {m.description ? <p class="muted small">{m.description}</p> : null}
              {m.command ? (
                <p class="command">
                  <span class="muted small">This needs a terminal. Run it on the server, as the user of the gateway:</span>
                  <code>{m.command.replace(/^AGENT\b/, `<command of ${link.name}>`)}</code>
                  <CopyButton text={() => m.command ?? ''} what="command" />
                </p>
              ) : null}
            </div>
            {m.command ? null : (
              <button type="button" disabled={busy.value !== undefined} onClick={() => void login(m)}>
                {busy.value === m.id ? <Spinner label="Waiting for the agent" /> : 'Log in'}
              </button>
            )}
          </li>
        ))}
      </ul>
      {problem.value ? <ProblemCard problem={problem.value} /> : null}
      <div class="actions">
        <button type="button" onClick={onDone}>
          I am logged in, try again
        </button>
      </div>
    </section>
  );
}
