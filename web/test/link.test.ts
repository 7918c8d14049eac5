import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { chunk, FakeGateway } from './fakegateway';
import { page, settle } from './helpers';
import { textOf } from '../src/store/entries';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const perm = { toolCall: { title: 'x' }, options: [{ optionId: 'o', name: 'n', kind: 'allow_once' }] };

describe('a link is always being restored', () => {
  test('TestCase54_CleanCloseIsNoGoodbye', async () => {
    for (const code of [1000, 1001, 1006, 1012]) {
      const gw = new FakeGateway();
      const { link } = page(gw);
      await settle();
      expect(link.status.value.kind).toBe('open');
      gw.drop(code);
      await settle();
      expect(link.status.value.kind, `code ${code}`).toBe('waiting');
      await settle(5_000);
      expect(link.status.value.kind, `code ${code}`).toBe('open');
    }
  });

  test('TestW11_TerminalCodeStopsUntilAsked', async () => {
    const gw = new FakeGateway();
    const { link } = page(gw);
    await settle();
    gw.drop(4401);
    await settle(120_000);
    expect(link.status.value.kind).toBe('stopped');
    link.wake();
    await settle();
    expect(link.status.value.kind, 'looking at the page changes nothing').toBe('stopped');
    link.retry();
    await settle();
    expect(link.status.value.kind).toBe('open');
  });

  test('TestT1_EndOfALoginIsSeen', async () => {
    const gw = new FakeGateway();
    const { link } = page(gw, { whoami: () => Promise.resolve('unauthorized') });
    await settle();
    gw.drop(4401);
    await settle();
    expect(link.status.value.kind).toBe('unauthorized');
  });

  test('TestCase62_BacksOffWhileTheServerIsAway', async () => {
    const gw = new FakeGateway();
    gw.refuse = true;
    const { link } = page(gw);
    await settle(60_000);
    const tries = gw.conns.length;
    expect(tries).toBeGreaterThan(3);
    expect(tries).toBeLessThan(15);
    gw.refuse = false;
    link.wake();
    await settle();
    expect(link.status.value.kind, 'a look at the page does not wait').toBe('open');
  });

  test('TestP4_BrokenSocketIsNoAnswerOfTheAgent', async () => {
    const gw = new FakeGateway();
    let broken = 3;
    const { link } = page(gw, {
      open: () => {
        const socket = gw.open();
        if (broken-- > 0) gw.conns.at(-1)?.break();
        return socket;
      },
    });
    await settle();
    expect(link.status.value.kind).not.toBe('stopped');
    await settle(30_000);
    expect(link.status.value.kind).toBe('open');
  });

  test('TestCase70_ErrorOfInitializeStopsAndIsShown', async () => {
    const gw = new FakeGateway();
    gw.initError = { code: -32603, message: 'no', data: { reason: 'agent_start_failed' } };
    const { link } = page(gw);
    await settle(60_000);
    const s = link.status.value;
    expect(s.kind === 'stopped' && s.problem.title).toBe('The agent could not be started');
    expect(gw.conns.length, 'it is not tried again and again').toBe(1);
    gw.initError = undefined;
    link.retry();
    await settle();
    expect(link.status.value.kind).toBe('open');
  });

  test('TestCase55_SilentSocketIsReplaced', async () => {
    const gw = new FakeGateway();
    const { link } = page(gw);
    const made = link.create('/w');
    await settle();
    const session = await made;
    session.prompts.add([{ type: 'text', text: 'hi' }]);
    await settle();
    // The socket says that it is open and carries nothing.
    const old = gw.conns[0];
    if (!old) expect.fail('no connection');
    old.send = () => undefined;
    gw.step(chunk('said into the void'));
    link.wake();
    await settle(3_000);
    expect(session.attach.value).toBe('attached');
    await settle(5_000);
    expect(gw.conns.length).toBe(2);
    const m = session.transcript.last?.entries[1];
    expect(m?.kind === 'message' && textOf(m.blocks)).toBe('said into the void');
  });

  test('TestCase56_PingsAtTheAdvertisedInterval', async () => {
    const gw = new FakeGateway();
    page(gw);
    await settle(65_000);
    expect(gw.calls.filter((c) => c.method === '_acpgate/ping').length).toBe(3);
    expect(gw.conns.length).toBe(1);
  });

  test('TestCase73_HandshakeThatHangsIsGivenUp', async () => {
    const gw = new FakeGateway();
    const opened: unknown[] = [];
    const { link } = page(gw, {
      open: () => {
        const s = gw.open();
        opened.push(s);
        return opened.length === 1 ? { ...s, opened: new Promise(() => undefined), stream: { ...s.stream, writable: new WritableStream() } } : s;
      },
    });
    await settle(14_000);
    expect(link.status.value.kind).toBe('connecting');
    await settle(5_000);
    expect(link.status.value.kind).toBe('open');
  });

  test('TestCase62_OneInitializePerConnectionAndOneAttachPerSession', async () => {
    const gw = new FakeGateway();
    const { link } = page(gw);
    const made = link.create('/w');
    await settle();
    await made;
    for (let i = 0; i < 5; i++) {
      gw.drop();
      await settle(60_000);
    }
    expect(gw.calls.filter((c) => c.method === 'initialize').length).toBe(6);
    expect(gw.calls.filter((c) => c.method === 'session/resume').length).toBe(5);
    expect(gw.calls.filter((c) => c.method === 'session/load').length).toBe(0);
  });
});

describe('what comes in', () => {
  test('TestW5_UpdatesRightBehindTheAnswerFindTheirSession', async () => {
    const gw = new FakeGateway();
    const { link } = page(gw);
    const made = link.create('/w');
    await settle();
    const session = await made;
    // The snapshot came in the same burst as the answer.
    expect(session.view.value.state).toBe('idle');
    expect(session.cwd.value).toBe('/w');
  });

  test('TestW10_TheCursorGoesWithTheResume', async () => {
    const gw = new FakeGateway();
    const { link } = page(gw);
    const made = link.create('/w');
    await settle();
    const session = await made;
    session.prompts.add([{ type: 'text', text: 'hi' }]);
    await settle();
    gw.step(chunk('a'));
    await settle();
    gw.drop();
    await settle(5_000);
    const resume = gw.calls.find((c) => c.method === 'session/resume');
    expect(resume?.params).toEqual({ sessionId: 's1', cwd: '/w', mcpServers: [], _meta: { acpgate: { view: true, after: { session: 's1', epoch: 1, seq: 3 } } } });
  });

  test('TestV18_RequestWithoutASessionIsTheLinksOwn', async () => {
    const gw = new FakeGateway();
    const { link } = page(gw);
    const made = link.create('/w');
    await settle();
    await made;
    gw.ask(3, 'session/request_permission', { ...perm, sessionId: 'another' });
    await settle();
    expect(link.asks.open.value.map((a) => a.id)).toEqual([3]);
  });

  test('TestV18_AnswerOfAnAgentWithOddParamsStillArrives', async () => {
    const gw = new FakeGateway();
    const { link } = page(gw);
    const made = link.create('/w');
    await settle();
    const session = await made;
    // No toolCall, unknown members: the SDK's schema would refuse it.
    gw.ask(4, 'session/request_permission', { options: [{ optionId: 'x', name: 'X', kind: 'odd' }], more: 1 });
    await settle();
    expect(session.asks.open.value.length).toBe(1);
    session.asks.answer(4, { outcome: { outcome: 'selected', optionId: 'x' } });
    await settle();
    expect(gw.answered(4)).toEqual({ outcome: { outcome: 'selected', optionId: 'x' } });
  });
});
