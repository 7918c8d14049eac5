// Runs real agents through the gateway with the official SDK's remote WebSocket client.
//
//   sh deploy/check.sh --agents DIR
//
// DIR holds the agents and what belongs to them: agents.mjs, whose prepare(name, tag) writes an agent's configuration and
// returns {cmd, args, env, ws}; sdk/, with the SDK and ws installed; and, if there is one, offline.sh, which runs a command without
// a network and with a stand-in for the model. Each agent is driven through initialize, a session, two prompts, a tool
// call that is allowed and one that is rejected, a cancel, two sessions at once, and the session commands, over a restart of
// the gateway. Prints a table in Markdown; exits 1 when a cell is not ok.
import { spawn, spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [dir, ...only] = process.argv.slice(2);
if (!dir) {
  console.error('usage: node deploy/agents-check.mjs DIR [AGENT...]');
  process.exit(2);
}
const here = path.resolve(import.meta.dirname, '..');
const offline = path.join(dir, 'offline.sh');
if (fs.existsSync(offline) && !process.env.AGENTS_CHECK_OFFLINE) {
  const r = spawnSync('bash', [offline, process.execPath, ...process.argv.slice(1)], {
    stdio: 'inherit', cwd: here, env: { ...process.env, AGENTS_CHECK_OFFLINE: '1' },
  });
  process.exit(r.status ?? 1);
}

const sdk = path.join(dir, 'sdk', 'package.json');
const load = (name) => import(pathToFileURL(createRequire(sdk).resolve(name)));
const { client, methods } = await load('@agentclientprotocol/sdk/unstable').catch(() => importEsm('@agentclientprotocol/sdk/unstable'));
const { createWebSocketStream } = await load('@agentclientprotocol/sdk/experimental/ws-client').catch(() => importEsm('@agentclientprotocol/sdk/experimental/ws-client'));
const WebSocket = createRequire(sdk)('ws');
const { prepare, AGENTS } = await import(pathToFileURL(path.join(dir, 'agents.mjs')));

// importEsm resolves a subpath export that only has an import condition.
async function importEsm(name) {
  const pkg = name.split('/').slice(0, 2).join('/');
  const root = path.join(dir, 'sdk', 'node_modules', pkg);
  const entry = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8')).exports['.' + name.slice(pkg.length)];
  const file = typeof entry === 'string' ? entry : entry.import?.default ?? entry.import ?? entry.default;
  return import(pathToFileURL(path.join(root, file)));
}

const names = only.length ? only : ['opencode', 'claude-0.49', 'codex'].filter((n) => AGENTS[n]);
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'acpgate-agents-'));
const binary = path.join(scratch, 'acpgate');
const build = spawnSync('go', ['build', '-o', binary, './cmd/acpgate'], { cwd: here, stdio: 'inherit' });
if (build.status !== 0) process.exit(1);

const spec = { agents: {}, default: names[0] };
const homes = {};
for (const name of names) {
  const a = prepare(name, 'gateway-' + name);
  homes[name] = a;
  spec.agents[name] = { command: a.cmd, args: a.args, env: { PATH: process.env.PATH, ...a.env } };
}
const specFile = path.join(scratch, 'agents.json');
fs.writeFileSync(specFile, JSON.stringify(spec, null, 2));

async function startGateway() {
  const p = spawn(binary, [
    'serve', '--listen', '127.0.0.1:0', '--state', path.join(scratch, 'state'), '--agents', specFile, '--auth', 'none',
    '--root', dir, '--root', scratch,
  ], { stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  const url = await new Promise((resolve, reject) => {
    p.stderr.on('data', (d) => {
      log += d;
      const m = /listening on http:\/\/(\S+)/.exec(log);
      if (m) resolve('ws://' + m[1] + '/acp');
    });
    p.on('exit', (code) => reject(new Error(`gateway ended with ${code}: ${log}`)));
  });
  return {
    url,
    stop: () => new Promise((r) => {
      p.removeAllListeners('exit');
      p.on('exit', r);
      p.kill('SIGTERM');
    }),
    log: () => log,
  };
}

// connect opens a connection to an agent and calls fn with helpers.
async function connect(url, name, fn) {
  const seen = { text: {}, permissions: 0, choose: 'allow_once' };
  const app = client({ name: 'agents-check' }).onRequest(methods.client.session.requestPermission, ({ params }) => {
    seen.permissions++;
    const want = params.options.find((o) => o.kind === seen.choose) ?? params.options.find((o) => o.kind.startsWith(seen.choose.split('_')[0]));
    return { outcome: { outcome: 'selected', optionId: want.optionId } };
  });
  app.onNotification(methods.client.session.update, ({ params }) => {
    const u = params.update;
    if (u.sessionUpdate === 'agent_message_chunk') seen.text[params.sessionId] = (seen.text[params.sessionId] ?? '') + (u.content.text ?? '');
  });
  const stream = createWebSocketStream(`${url}/${name}`, { WebSocket });
  return app.connectWith(stream, async (ctx) => {
    const init = await ctx.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {}, clientInfo: { name: 'agents-check', version: '1' } });
    const say = async (sessionId, text) => {
      seen.text[sessionId] = '';
      const r = await ctx.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: 'text', text }] });
      await sleep(100);
      return { stop: r.stopReason, text: seen.text[sessionId] };
    };
    return fn({ ctx, init, seen, say, open: (cwd) => ctx.request(methods.agent.session.new, { cwd, mcpServers: [] }) });
  });
}

const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
const rows = [];
let bad = 0;

async function check(name, what, fn) {
  const t = Date.now();
  let outcome = 'ok';
  try {
    const problem = await fn();
    if (typeof problem === 'string') outcome = problem;
  } catch (e) {
    outcome = `failed: ${e?.message ?? e} ${JSON.stringify(e?.data ?? '')}`;
  }
  if (outcome !== 'ok') bad++;
  rows.push([name, what, outcome, `${((Date.now() - t) / 1000).toFixed(1)} s`]);
  console.log(`${name}: ${what}: ${outcome}`);
}

// sameSystemAndTools compares what the stand-in model was sent for the parent's turn and for the child's: with equal system
// and tool bytes a provider's cache of the prefix holds.
function sameSystemAndTools() {
  const log = process.env.FAKE_LOG ?? path.join(dir, 'fake-llm', 'requests.jsonl');
  const of = (text) => {
    for (const line of fs.readFileSync(log, 'utf8').split('\n').reverse()) {
      if (!line.includes(text)) continue;
      const r = JSON.parse(line);
      if (!r.body?.tools?.length || !String(r.lastUser).includes(text)) continue;
      const messages = (r.body.messages ?? []).filter((m) => m.role === 'system' || m.role === 'developer');
      // Claude Code gives a forked or resumed session its model without the mark of the long context, in a direct connection
      // just as here: session/fork over stdio shows the same. Everything else must be equal.
      return JSON.stringify([r.body.system ?? messages, r.body.tools]).replaceAll(/ \(1M context\)|\[1m\]| \(with 1M context\)/g, '');
    }
    return '';
  };
  const parent = of('the animal is a heron');
  const child = of('which animal');
  if (!parent || !child) return 'the requests are not in the log of the stand-in model';
  if (parent !== child) return `they differ: ${parent.length} and ${child.length} bytes`;
}

const has = (text, ...parts) => {
  for (const p of parts) if (!text.includes(p)) return `no ${JSON.stringify(p)} in ${JSON.stringify(text.slice(0, 300))}`;
};

let gateway = await startGateway();
for (const name of names) {
  const cwd = homes[name].ws;
  for (const f of ['yes', 'no']) fs.rmSync(path.join(cwd, f), { force: true });
  let session;
  await check(name, 'initialize, session/new, two prompts', () => connect(gateway.url, name, async ({ open, say }) => {
    session = (await open(cwd)).sessionId;
    const one = await say(session, 'first words');
    const two = await say(session, 'second words RECALL');
    return has(one.text, 'ECHO[') ?? has(two.text, 'first words', 'second words');
  }));
  await check(name, 'tool call allowed', () => connect(gateway.url, name, async ({ ctx, say, seen }) => {
    await ctx.request(methods.agent.session.resume ?? 'session/resume', { sessionId: session, cwd, mcpServers: [] });
    await say(session, `USE_TOOL:bash CMD="touch ${path.join(cwd, 'yes')}"`);
    if (!seen.permissions) return 'no permission was asked for';
    if (!fs.existsSync(path.join(cwd, 'yes'))) return 'the tool did not run';
  }));
  await check(name, 'tool call rejected', () => connect(gateway.url, name, async ({ ctx, say, seen }) => {
    await ctx.request('session/resume', { sessionId: session, cwd, mcpServers: [] });
    seen.choose = 'reject_once';
    await say(session, `USE_TOOL:bash CMD="touch ${path.join(cwd, 'no')}"`);
    if (!seen.permissions) return 'no permission was asked for';
    if (fs.existsSync(path.join(cwd, 'no'))) return 'the tool ran';
  }));
  await check(name, 'cancel', () => connect(gateway.url, name, async ({ ctx, open, say }) => {
    const id = (await open(cwd)).sessionId;
    const turn = say(id, 'SLOW:100x100 please');
    await sleep(3000);
    ctx.notify(methods.agent.session.cancel ?? 'session/cancel', { sessionId: id });
    const r = await Promise.race([turn, sleep(15000).then(() => null)]);
    if (!r) return 'the turn did not end';
    if (r.stop !== 'cancelled') return `stop reason ${r.stop}`;
  }));
  await check(name, 'two sessions at once', () => connect(gateway.url, name, async ({ open, say }) => {
    const [a, b] = [(await open(cwd)).sessionId, (await open(cwd)).sessionId];
    const [x, y] = await Promise.all([say(a, 'SLOW:5x100 alpha'), say(b, 'SLOW:5x100 beta')]);
    return has(x.text, 'alpha') ?? has(y.text, 'beta') ?? (x.text.includes('beta') || y.text.includes('alpha') ? 'mixed' : undefined);
  }));
  let handle;
  await check(name, '/new, /resume back', () => connect(gateway.url, name, async ({ open, say }) => {
    handle = (await open(cwd)).sessionId;
    await say(handle, 'the colour is red');
    await say(handle, '/new');
    const away = await say(handle, 'the shape is round RECALL');
    if (away.text.includes('red')) return `the new session knows the old one: ${away.text.slice(0, 300)}`;
    const back = await say(handle, '/resume ' + handle);
    const recall = await say(handle, 'what do you know RECALL');
    return has(back.text, 'the colour is red') ?? has(recall.text, 'the colour is red') ?? (recall.text.includes('round') ? 'contexts mixed' : undefined);
  }));
  await check(name, '/side and /merge', () => connect(gateway.url, name, async ({ open, say, seen }) => {
    const parent = (await open(cwd)).sessionId;
    await say(parent, 'the animal is a heron');
    await say(parent, '/side which animal RECALL');
    const made = await open(cwd);
    const child = made.sessionId;
    for (let i = 0; i < 200 && !/ECHO\[/.test(seen.text[child] ?? ''); i++) await sleep(50);
    await sleep(300);
    const asked = has(seen.text[child] ?? '', 'the animal is a heron', 'which animal');
    if (asked) return asked;
    await say(child, 'chatter about feathers');
    const merged = await say(child, '/merge');
    const went = has(merged.text, 'The note went to');
    if (went) return went;
    const home = await say(parent, 'what came home RECALL');
    return has(home.text, 'the animal is a heron', 'acpgate-note') ?? (home.text.includes('chatter') ? 'the parent knows the chatter of the child' : undefined);
  }));
  if (name !== 'codex') await check(name, 'a fork keeps system and tools', () => sameSystemAndTools());
  await gateway.stop();
  gateway = await startGateway();
  await check(name, 'after a restart of the gateway', () => connect(gateway.url, name, async ({ ctx, say }) => {
    await ctx.request(methods.agent.session.load, { sessionId: handle, cwd, mcpServers: [] });
    const recall = await say(handle, 'still there RECALL');
    return has(recall.text, 'the colour is red', 'still there');
  }));
  await check(name, '/drop', () => connect(gateway.url, name, async ({ ctx, say }) => {
    await ctx.request('session/resume', { sessionId: handle, cwd, mcpServers: [] });
    await say(handle, '/drop');
    const fresh = await say(handle, 'after the drop RECALL');
    return has(fresh.text, 'after the drop') ?? (fresh.text.includes('red') ? 'the new session knows the dropped one' : undefined);
  }));
}
await gateway.stop();
console.log('\n| agent | what | outcome | time |\n|---|---|---|---|');
for (const r of rows) console.log(`| ${r.join(' | ')} |`);
if (bad) console.log('\n' + gateway.log().slice(-3000));
fs.rmSync(scratch, { recursive: true, force: true });
process.exit(bad ? 1 : 0);
