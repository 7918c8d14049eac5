import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { toProblem, type Problem } from '../wire/problem';
import type { ContentBlock } from '../wire/types';
import { AgentLogin } from './AgentLogin';
import { Composer } from './Composer';
import { useApp } from './context';
import * as icons from './icons';
import { ProblemCard, Spinner } from './parts';

export function NewChat() {
  const app = useApp();
  const link = app.link.value;
  const info = link?.init.value;
  const status = link?.status.value;
  const cwd = useSignal(app.keep.choice('dir') ?? '');
  const busy = useSignal(false);
  const problem = useSignal<Problem | undefined>(undefined);
  // What could not be sent yet, so that a login can go on with it.
  const held = useSignal<ContentBlock[] | undefined>(undefined);

  const root = info?.gate.roots[0];
  useEffect(() => {
    if (cwd.value === '' && root !== undefined) cwd.value = root;
  }, [root]);

  const start = async (blocks: ContentBlock[]) => {
    if (!link) return;
    busy.value = true;
    problem.value = undefined;
    held.value = blocks;
    // Somebody may be faster than the agent: its gateway then tells the default directory.
    const { init } = await link.connected();
    const dir = cwd.value.trim() || (init.gate.roots[0] ?? '');
    const failed = await app.begin(link, dir, blocks);
    busy.value = false;
    if (failed === undefined) held.value = undefined;
    else {
      problem.value = toProblem(failed);
      const text = blocks.map((b) => (b.type === 'text' ? b.text : '')).join('');
      if (problem.value.code !== -32000 && text) app.handedBack.value = { draftId: 'new', text };
    }
  };

  const needsLogin = problem.value?.code === -32000;
  return (
    <div class="newchat">
      <div class="newchat-inner">
        <h2 class="greeting">What shall we work on?</h2>
        {status?.kind === 'stopped' ? (
          <ProblemCard problem={status.problem}>
            <button type="button" onClick={() => link?.retry()}>
              Try again
            </button>
          </ProblemCard>
        ) : null}
        {needsLogin && link ? (
          <AgentLogin link={link} onDone={() => (held.value ? void start(held.value) : (problem.value = undefined))} />
        ) : problem.value ? (
          <ProblemCard problem={problem.value} />
        ) : null}
        <Composer
          draftId="new"
          init={info}
          commands={[]}
          placeholder={info ? `Message ${info.agentTitle}` : 'Message'}
          running={false}
          disabled={busy.value}
          onSend={(b) => void start(b)}
        >
          {busy.value ? <Spinner label="Starting the session" /> : null}
        </Composer>
        <div class="newchat-where">
          <AgentChoice />
          <label class="field">
            <span>
              <icons.Folder /> Directory
            </span>
            <input
              type="text"
              list="roots"
              value={cwd.value}
              spellcheck={false}
              autocapitalize="off"
              aria-invalid={problem.value?.code === -32602}
              placeholder="/absolute/path/on/the/server"
              onInput={(e) => (cwd.value = e.currentTarget.value)}
            />
            <datalist id="roots">
              {dirs(info?.gate.roots ?? [], app.catalog.rows.value.map((r) => r.cwd)).map((d) => (
                <option key={d} value={d} />
              ))}
            </datalist>
          </label>
        </div>
      </div>
    </div>
  );
}

function dirs(roots: readonly string[], used: readonly string[]): string[] {
  return [...new Set([...roots, ...used])].filter(Boolean).slice(0, 50);
}

function AgentChoice() {
  const app = useApp();
  const link = app.link.value;
  // Any link knows all agents; the one that is being connected does not yet.
  const agents = app.links.value.map((l) => l.init.value?.gate.agents).find((a) => a !== undefined) ?? [];
  if (agents.length < 2) return null;
  return (
    <label class="field">
      <span>
        <icons.Plug /> Agent
      </span>
      <select value={link?.name ?? ''} onChange={(e) => app.pick(e.currentTarget.value)}>
        {agents.map((a) => (
          <option key={a.name} value={a.name}>
            {a.title && a.title !== a.name ? `${a.title} (${a.name})` : a.name}
          </option>
        ))}
      </select>
    </label>
  );
}
