import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { plain } from '../src/store/transcript';
import type { Session } from '../src/store/session';
import { textOf } from '../src/store/entries';
import { chunk, FakeGateway, type Step } from './fakegateway';
import { lcg, page, settle, type Page } from './helpers';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const say = (text: string) => [{ type: 'text' as const, text }];

const script: Step[] = [
  { update: { sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text: 'hm' } } },
  chunk('Hello ', 'm1'),
  chunk('wörld 😀', 'm1'),
  { update: { sessionUpdate: 'tool_call', toolCallId: 'c1', title: 'Read', status: 'pending' } },
  { notice: 'a quiet line' },
  { update: { sessionUpdate: 'tool_call_update', toolCallId: 'c1', status: 'completed', content: [{ type: 'content', content: { type: 'text', text: 'out' } }] } },
  chunk('after', 'm2'),
  chunk(' the tool', 'm2'),
  { update: { sessionUpdate: 'plan', entries: [{ content: 'x', priority: 'high', status: 'pending' }] } },
  { end: 'end_turn' },
];

async function start(gw: FakeGateway): Promise<{ p: Page; session: Session }> {
  const p = page(gw);
  const made = p.link.create('/w');
  await settle();
  return { p, session: await made };
}

// Two turns, the second queued while the first runs, a late word, and background output.
async function scenario(gw: FakeGateway, pause: () => Promise<void> = settle): Promise<Session> {
  const { session } = await start(gw);
  session.prompts.add(say('one'));
  await pause();
  for (let i = 0; i < 300 && !gw.running; i++) await settle(1_000);
  for (const s of script.slice(0, 4)) {
    gw.step(s);
    await pause();
  }
  session.prompts.add(say('two'));
  await pause();
  for (const s of script.slice(4)) {
    gw.step(s);
    await pause();
  }
  for (let i = 0; i < 300 && !gw.running; i++) await settle(1_000);
  gw.step(chunk('second', 'm3'));
  await pause();
  gw.step({ end: 'cancelled' });
  await pause();
  gw.step(chunk(' tail', 'm3'));
  gw.now += 60_000;
  gw.step(chunk('cron says hi', 'm9'));
  await pause();
  await settle(60_000);
  return session;
}

describe('rule V11: a lost connection loses and doubles nothing', () => {
  test('TestV11_DropBeforeAnyMessage', { timeout: 60_000 }, async () => {
    const calm = new FakeGateway();
    let messages = 0;
    calm.dropBefore = (n) => ((messages = n), false);
    const want = plain((await scenario(calm)).transcript);
    expect(want.length).toBe(10);
    const total = messages; // pings go on
    expect(total).toBeGreaterThan(20);
    for (let k = 4; k <= total; k++) {
      const gw = new FakeGateway();
      gw.dropBefore = (n) => n === k;
      const got = await scenario(gw, () => settle(1_000));
      expect(plain(got.transcript), `dropped before message ${k}`).toEqual(want);
      expect(got.prompts.items.value).toEqual([]);
      expect(gw.prompts.length, `prompts that reached the agent, dropped before ${k}`).toBe(2);
    }
  });

  test('TestV11_ManyDropsAtRandomPoints', { timeout: 60_000 }, async () => {
    const want = plain((await scenario(new FakeGateway())).transcript);
    for (let seed = 1; seed <= 40; seed++) {
      const random = lcg(seed);
      const gw = new FakeGateway();
      // Bounded, so that the scenario gets on between the drops.
      let drops = 0;
      gw.dropBefore = (n) => n > 3 && drops < 12 && random() < 0.15 && ++drops > 0;
      const pause = () => settle(random() < 0.5 ? 0 : 3_000);
      const got = await scenario(gw, pause);
      gw.dropBefore = () => false;
      await settle(120_000);
      expect(plain(got.transcript), `seed ${seed}`).toEqual(want);
      expect(gw.prompts.length, `seed ${seed}`).toBe(2);
    }
  });

  test('TestV11_ReloadBuildsTheSameTranscript', async () => {
    const gw = new FakeGateway();
    const want = plain((await scenario(gw)).transcript);
    const { link } = page(gw);
    const again = link.open('s1', '/w');
    await settle();
    expect(again.attach.value).toBe('attached');
    expect(plain(again.transcript)).toEqual(want);
    expect(gw.calls.at(-1)?.method).toBe('session/load');
    expect(gw.calls.at(-1)?.params['_meta']).toEqual({ acpgate: { view: true } });
  });

  test('TestV9_ShowAllLoadsEverythingRetained', async () => {
    const gw = new FakeGateway();
    const session = await scenario(gw);
    const { link: other } = page(gw);
    const tab = other.open('s1', '/w');
    await settle();
    expect(tab.whole.value).toBe(true);
    const want = plain(tab.transcript);
    // A view that comes to a session replays its end: a new place, then what is replayed there.
    const meta = { session: 's2', epoch: 1, replay: true };
    tab.update({ sessionId: 's1', update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: '…' } }, _meta: { acpgate: { ...meta, entry: 'hist-gap', kind: 'gap', omitted: 7 } } });
    expect(plain(tab.transcript)).toEqual([{ kind: 'gap', omitted: 7 }]);
    expect([tab.whole.value, tab.switches.value, tab.binding.value]).toEqual([false, 1, 's2']);
    other.showAll(tab);
    // What is still under way does not make it a resume.
    tab.update({ sessionId: 's1', update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'late' } }, _meta: { acpgate: { session: 's2', epoch: 1, seq: 900 } } });
    await settle(1_000);
    expect(gw.calls.at(-1)?.method).toBe('session/load');
    expect(gw.calls.at(-1)?.params['_meta']).toEqual({ acpgate: { view: true } });
    expect(plain(tab.transcript)).toEqual(want);
    expect(tab.whole.value).toBe(true);
    expect(plain(session.transcript)).toEqual(want);
  });

  test('TestCase28_SecondTabSeesTheSame', async () => {
    const gw = new FakeGateway();
    const { session } = await start(gw);
    const other = page(gw).link.open('s1', '/w');
    await settle();
    session.prompts.add(say('one'));
    await settle();
    for (const s of script) gw.step(s);
    await settle();
    expect(plain(other.transcript)).toEqual(plain(session.transcript));
    expect(other.view.value.state).toBe('idle');
  });

  test('TestV11_EpochRebuilds', async () => {
    const gw = new FakeGateway();
    const { session } = await start(gw);
    session.prompts.add(say('one'));
    await settle();
    gw.step(chunk('lost with the process'));
    await settle();
    gw.restart();
    gw.step(chunk('what the agent remembers'));
    await settle(5_000);
    const text = JSON.stringify(plain(session.transcript));
    expect(text).toContain('what the agent remembers');
    expect(text).not.toContain('lost with the process');
    // Nobody knows how far the turn came: it is not sent again by itself.
    expect(gw.prompts.length).toBe(1);
    expect(session.prompts.items.value[0]?.phase).toBe('failed');
    expect(session.prompts.items.value[0]?.problem?.title).toContain('restarted');
  });

  test('TestV11_TrimmedRebuilds', async () => {
    const gw = new FakeGateway();
    const { session } = await start(gw);
    session.prompts.add(say('one'));
    await settle();
    gw.step(chunk('old'));
    await settle();
    gw.drop();
    gw.step(chunk('never seen'));
    gw.trim();
    gw.step(chunk('new'));
    await settle(5_000);
    const text = JSON.stringify(plain(session.transcript));
    expect(text).toContain('new');
    expect(text).not.toContain('old');
  });
});

describe('rule V16: prompts', () => {
  test('TestV16_KeyIsSentAgainAfterALostAnswer', async () => {
    const gw = new FakeGateway();
    const { session } = await start(gw);
    session.prompts.add(say('once'));
    await settle();
    gw.step(chunk('answer'));
    gw.drop();
    gw.step({ end: 'end_turn' });
    await settle(5_000);
    const prompts = gw.calls.filter((c) => c.method === 'session/prompt').map((c) => JSON.stringify(c.params['_meta']));
    expect(new Set(prompts).size).toBe(1);
    expect(gw.prompts.length).toBe(1);
    expect(session.prompts.items.value).toEqual([]);
    expect(session.transcript.last?.end?.stopReason).toBe('end_turn');
  });

  test('TestCase22_QueuedPromptsWaitInTheOutboxAndRunInOrder', async () => {
    const gw = new FakeGateway();
    const { session } = await start(gw);
    session.prompts.add(say('one'));
    session.prompts.add(say('two'));
    await settle();
    expect(session.prompts.items.value.map((i) => i.phase)).toEqual(['running', 'queued']);
    expect(session.transcript.turns.value.length).toBe(1);
    gw.step({ end: 'end_turn' });
    await settle();
    expect(session.prompts.items.value.map((i) => i.phase)).toEqual(['running']);
    expect(session.transcript.turns.value.length).toBe(2);
  });

  test('TestV16_WithdrawnPromptGivesItsTextBack', async () => {
    const gw = new FakeGateway();
    const { session } = await start(gw);
    session.prompts.add(say('one'));
    session.prompts.add(say('two'));
    await settle();
    const key = session.prompts.items.value[1]?.key ?? '';
    const back = session.prompts.withdraw(key);
    await settle();
    expect(await back).toEqual(say('two'));
    expect(session.prompts.items.value.length).toBe(1);
    expect(session.transcript.turns.value.length).toBe(1);
  });

  test('TestCase89_TwoQueuedPromptsAreTwoBubblesAfterAReload', async () => {
    const gw = new FakeGateway();
    const { session } = await start(gw);
    session.prompts.add(say('one'));
    session.prompts.add(say('two'));
    await settle();
    gw.step({ end: 'end_turn' });
    gw.step({ end: 'end_turn' });
    await settle();
    const again = page(gw).link.open('s1', '/w');
    await settle();
    const users = again.transcript.turns.value.map((t) => t.entries.flatMap((e) => (e.kind === 'user' ? [textOf(e.blocks)] : [])));
    expect(users).toEqual([['one'], ['two']]);
  });

  test('TestP4_PromptSurvivesAReloadBeforeItWasSent', async () => {
    const gw = new FakeGateway();
    const { session, p } = await start(gw);
    gw.refuse = true;
    gw.drop();
    await settle();
    session.prompts.add(say('typed while offline'));
    await settle();
    expect(gw.prompts).toEqual([]);
    gw.refuse = false;
    const again = page(gw, {}, p.shelf).link.open('s1', '/w');
    await settle();
    expect(gw.prompts.length).toBe(1);
    expect(again.prompts.items.value[0]?.phase).toBe('running');
  });
});

describe('rule V18: requests of the agent', () => {
  const perm = { toolCall: { toolCallId: 't', title: 'rm x' }, options: [{ optionId: 'ok', name: 'Allow', kind: 'allow_once' }] };
  const chosen = { outcome: { outcome: 'selected', optionId: 'ok' } };

  test('TestCase39_CardComesBackAfterALostConnection', async () => {
    const gw = new FakeGateway();
    const { session, p } = await start(gw);
    gw.ask(7, 'session/request_permission', perm);
    await settle();
    expect(session.asks.open.value.map((a) => [a.id, a.live])).toEqual([[7, true]]);
    gw.drop();
    await settle();
    expect(session.asks.open.value.map((a) => [a.id, a.live])).toEqual([[7, false]]);
    await settle(5_000);
    expect(session.asks.open.value.map((a) => [a.id, a.live])).toEqual([[7, true]]);
    session.asks.answer(7, chosen);
    await settle();
    expect(gw.answered(7)).toEqual(chosen);
    expect(session.asks.open.value).toEqual([]);
    expect(p.announced.length, 'CASE 42: told once').toBe(1);
  });

  test('TestV18_AnswerThatWasLostIsGivenAgain', async () => {
    const gw = new FakeGateway();
    const { session } = await start(gw);
    gw.ask(7, 'session/request_permission', perm);
    await settle();
    gw.drop();
    session.asks.answer(7, chosen);
    await settle(5_000);
    expect(gw.answered(7)).toEqual(chosen);
    expect(session.asks.open.value).toEqual([]);
  });

  test('TestCase38_WithdrawnRequestTakesTheCardAway', async () => {
    const gw = new FakeGateway();
    const { session } = await start(gw);
    gw.ask(7, 'session/request_permission', perm);
    await settle();
    gw.withdraw(7);
    await settle();
    expect(session.asks.open.value).toEqual([]);
  });

  test('TestCase41_CardThatTheStateDoesNotNameIsDropped', async () => {
    const gw = new FakeGateway();
    const { session } = await start(gw);
    gw.ask(7, 'session/request_permission', perm);
    await settle();
    gw.drop();
    gw.withdraw(7);
    await settle(5_000);
    expect(session.asks.open.value).toEqual([]);
  });
});
