import { describe, expect, test } from 'vitest';
import table from '../src/closecodes.json';
import { adviceFor, meaningOf } from '../src/wire/close';
import { endpoint } from '../src/wire/connection';
import { problemOf, toProblem } from '../src/wire/problem';
import { nextDelay } from '../src/wire/reconnect';
import { attachMeta, eventMeta, initInfo, viewState } from '../src/wire/types';
import { Cursor } from '../src/store/cursor';
import { formatRoute, parseRoute } from '../src/store/route';
import { matches, merged, rowsOf, sorted } from '../src/store/catalog';
import { Keep } from '../src/store/keep';
import { outgoing, restore, save } from '../src/store/outbox';
import { memoryShelf } from './helpers';

describe('cursor (rule V11)', () => {
  const at = (seq: number, epoch: string | number = 1, session = 's') => ({ session, epoch, seq });

  test('TestV11_AppliesOnceAndInOrder', () => {
    const c = new Cursor();
    expect(c.place).toBeUndefined();
    expect(c.take(at(5))).toBe('apply');
    expect(c.take(at(5))).toBe('duplicate');
    expect(c.take(at(4))).toBe('duplicate');
    expect(c.take(at(9))).toBe('apply'); // places of events that are not for us are left out
    expect(c.place).toEqual(at(9));
  });

  test('TestV11_AnotherJournalRebuilds', () => {
    const c = new Cursor();
    c.take(at(9));
    expect(c.take(at(1, 2))).toBe('rebuild');
    expect(c.take(at(1, 2))).toBe('duplicate');
    expect(c.take(at(1, 2, 'other'))).toBe('rebuild');
  });

  test('TestV11_FramesWithoutAPlaceMoveNothing', () => {
    const c = new Cursor();
    c.take(at(9));
    expect(c.take({ kind: 'snapshot' })).toBe('apply');
    expect(c.place).toEqual(at(9));
  });

  test('TestV10_ReplayFramesNameAJournalButNoPlace', () => {
    const c = new Cursor();
    expect(c.take({ session: 's', epoch: 1, replay: true, entry: 'hist-u1' })).toBe('apply');
    expect(c.place).toBeUndefined();
    c.take(at(9));
    // The view has moved: nothing of the other session can be resumed from yet.
    expect(c.take({ session: 'other', epoch: 4, replay: true, entry: 'hist-u1' })).toBe('rebuild');
    expect(c.place).toBeUndefined();
    expect(c.take({ session: 'other', epoch: 4, replay: true, entry: 'hist-u2' })).toBe('apply');
    expect(c.take(at(3, 4, 'other'))).toBe('apply');
  });

  test('TestV11_StartIsOnlyAPlaceToResumeFrom', () => {
    const c = new Cursor();
    c.start(at(100));
    expect(c.place).toEqual(at(100));
    // Events up to it may still be on their way.
    expect(c.take(at(7))).toBe('apply');
    expect(c.place).toEqual(at(7));
    c.forget();
    expect(c.place).toBeUndefined();
  });
});

describe('reconnecting', () => {
  test('TestCase54_OnlyTheTableEndsIt', () => {
    for (const code of [1000, 1001, 1005, 1006, 1012, 1013, 4408, 4999]) {
      expect(nextDelay({ failures: 0, advice: adviceFor(code) }, () => 0.5), `code ${code}`).toBeGreaterThan(0);
    }
    for (const row of table.filter((r) => r.advice === 'never')) {
      expect(nextDelay({ failures: 0, advice: adviceFor(row.code) }, () => 0.5), `code ${row.code}`).toBeUndefined();
    }
    expect(table.some((r) => r.advice === 'never')).toBe(true);
  });

  test('TestW11_TableIsWellFormed', () => {
    expect(new Set(table.map((r) => r.code)).size).toBe(table.length);
    for (const r of table) {
      expect(['now', 'later', 'never']).toContain(r.advice);
      expect(r.name).toMatch(/^[a-z_]+$/);
      expect(r.meaning).not.toBe('');
    }
  });

  test('TestCase62_BacksOffWithJitterUpToACeiling', () => {
    const spans = Array.from({ length: 12 }, (_, failures) => [nextDelay({ failures, advice: 'now' }, () => 0), nextDelay({ failures, advice: 'now' }, () => 1)]);
    for (const [lo, hi] of spans) expect(hi).toBeGreaterThan(lo ?? 0);
    expect(spans[0]).toEqual([125, 250]);
    for (let i = 1; i < spans.length; i++) expect(spans[i]?.[1] ?? 0).toBeGreaterThanOrEqual(spans[i - 1]?.[1] ?? 0);
    expect(spans[11]).toEqual([15_000, 30_000]);
    expect(nextDelay({ failures: 1000, advice: 'now' }, () => 1)).toBe(30_000);
    expect(nextDelay({ failures: 0, advice: 'later' }, () => 0)).toBe(1_000);
  });

  test('TestW11_MeaningsAreSentences', () => {
    expect(meaningOf({ code: 1012, reason: '' })).toContain('restarts');
    expect(meaningOf({ code: 1009, reason: 'limit is 32 MiB' })).toContain('limit is 32 MiB');
    expect(meaningOf({ code: 3999, reason: '' })).toContain('3999');
  });

  test('TestT1_EndpointFollowsTheBasePath', () => {
    expect(endpoint('http://h:1/', '')).toBe('ws://h:1/acp');
    expect(endpoint('https://h/gate/?a=b#c', 'my agent')).toBe('wss://h/gate/acp/my%20agent');
  });
});

describe('the wire', () => {
  test('TestW10_ReadsPlaces', () => {
    expect(eventMeta({ _meta: { acpgate: { session: 's', epoch: 3, seq: 4, replay: true, kind: 'prompt', turn: 7, key: 'k', ts: 5 } } })).toEqual({ session: 's', epoch: 3, seq: 4, replay: true, kind: 'prompt', turn: '7', key: 'k', ts: 5 });
    for (const odd of [undefined, null, 1, [], {}, { _meta: 3 }, { _meta: { acpgate: [] } }, { _meta: { acpgate: { seq: '4', epoch: {} } } }]) expect(eventMeta(odd)).toEqual({});
    expect(attachMeta({ _meta: { acpgate: { view: 'v', cursor: { session: 's', epoch: 1, seq: 0 }, resync: 'epoch' } } })).toEqual({ view: 'v', cursor: { session: 's', epoch: 1, seq: 0 }, resync: 'epoch' });
  });

  test('TestW10_ReadsAnyState', () => {
    expect(viewState({})).toEqual({ state: 'idle', queue: [], requests: [] });
    expect(viewState({ state: 'odd', queue: [1, {}], requests: 'x', turn: 5, forceStop: null })).toEqual({ state: 'idle', queue: [], requests: [] });
    const s = viewState({
      state: 'running',
      turn: { turn: 't', key: 'k', startedAt: 1, by: 'c' },
      lastTurn: { turn: 'l', error: { code: -32603, message: 'm', data: 1 } },
      queue: [{ turn: 'q', text: 'x', by: 'c' }],
      requests: [{ id: 0, method: 'm' }],
      answered: { id: 0, by: 'c', outcome: 'ok' },
      forceStop: { otherSessions: 2 },
    });
    expect(s).toEqual({
      state: 'running',
      turn: { turn: 't', key: 'k', startedAt: 1, by: 'c' },
      lastTurn: { turn: 'l', error: { code: -32603, message: 'm', data: 1 } },
      queue: [{ turn: 'q', text: 'x', by: 'c' }],
      requests: [{ id: 0, method: 'm' }],
      answered: { id: 0, by: 'c', outcome: 'ok' },
      forceStop: { otherSessions: 2 },
    });
  });

  test('TestW12_ReadsAuthMethods', () => {
    const init = initInfo({
      protocolVersion: 1,
      authMethods: [
        { id: 'a', name: 'Browser' },
        { id: 'b', name: 'Terminal', type: 'terminal', args: ['login'] },
        { id: 'c', name: 'Meta', _meta: { 'terminal-auth': { command: '/x/agent', args: ['--login'] } } },
        { name: 'no id' },
      ],
    } as never);
    expect(init.authMethods.map((m) => [m.id, m.command])).toEqual([['a', undefined], ['b', 'AGENT login'], ['c', '/x/agent --login']]);
    expect(init.gate.frameBytes).toBe(32 * 1024 * 1024);
  });

  test('TestW9_ErrorsAreReadable', () => {
    expect(problemOf({ code: -32603, message: 'x', data: { reason: 'queue_full' } }).hint).toContain('waiting');
    expect(problemOf({ code: -32603, message: 'x', data: { reason: 'queue_full', hint: 'own words' } }).hint).toBe('Own words.');
    expect(problemOf({ code: -32602, message: 'Invalid params', data: { details: 'cwd must be absolute' } }).title).toBe('Cwd must be absolute');
    expect(problemOf({ code: -32002, message: 'Resource not found' }).title).toContain('not known');
    expect(problemOf({ code: -32603, message: 'agent failed', data: { stderr: 'boom' } }).detail).toBe('boom');
    expect(problemOf({ code: 400, message: '', data: 'a text' }).title).toBe('A text');
    expect(problemOf({ code: -32603, message: 'agent x: agent_exited', data: { reason: 'agent_exited', exitCode: 3, stderr: 'boom' } })).toMatchObject({ title: 'The agent’s process ended (exit code 3)', detail: 'agent x: agent_exited\n\nboom' });
    expect(problemOf({ code: -32603, message: 'm', data: { reason: 'x', hint: 'y', more: 1 } }).detail).toBe('{\n  "more": 1\n}');
    expect(toProblem('odd').title).toBe('odd');
  });
});

describe('addresses', () => {
  test('TestP1_RoutesRoundTrip', () => {
    for (const r of [{}, { session: 'a' }, { session: 'ä/б?#%', agent: 'my agent' }]) expect(parseRoute('', formatRoute(r))).toEqual(r);
    expect(parseRoute('?session=x&agent=y', '')).toEqual({ session: 'x', agent: 'y' });
    expect(parseRoute('?session=x', '#/s/z')).toEqual({ session: 'z' });
    expect(parseRoute('', '#/s/%E0%A4%A')).toEqual({ session: '%E0%A4%A' });
    expect(parseRoute('', '#/other')).toEqual({});
  });
});

describe('the list', () => {
  const row = (sessionId: string, updatedAt?: number, title?: string) => ({ sessionId, agent: 'a', cwd: '/w', ...(updatedAt === undefined ? {} : { updatedAt }), ...(title ? { title } : {}) });

  test('TestL1_ReadsAnyPage', () => {
    const { rows, next } = rowsOf('a', { sessions: [{ sessionId: 's', cwd: '/w', title: 't', updatedAt: '2026-01-02T03:04:05Z' }, {}, 3, { sessionId: 'u', updatedAt: 'never' }], nextCursor: '' });
    expect(rows).toEqual([{ sessionId: 's', agent: 'a', cwd: '/w', title: 't', updatedAt: Date.UTC(2026, 0, 2, 3, 4, 5) }, { sessionId: 'u', agent: 'a', cwd: '' }]);
    expect(next).toBeUndefined();
    expect(rowsOf('a', null).rows).toEqual([]);
  });

  test('TestL3_NewestFirstAndRowsWithoutATimeLast', () => {
    expect(sorted([row('x'), row('a', 1), row('b', 3), row('y'), row('c', 3)]).map((r) => r.sessionId)).toEqual(['b', 'c', 'a', 'x', 'y']);
    expect(merged([row('a', 1), row('b', 2)], [row('a', 5, 'new')]).map((r) => [r.sessionId, r.title])).toEqual([['a', 'new'], ['b', undefined]]);
  });

  test('TestP1_SearchTakesAllWords', () => {
    const r = row('id-1', 1, 'Fix the Parser');
    expect(matches(r, 'parser fix')).toBe(true);
    expect(matches(r, '/w id-1')).toBe(true);
    expect(matches(r, 'parser nope')).toBe(false);
  });
});

describe('what a browser keeps', () => {
  test('TestP4_OutboxIsKeptAndJunkIsIgnored', () => {
    const shelf = memoryShelf();
    const item = outgoing([{ type: 'text', text: 'hi' }]);
    save(shelf, 's', [item, { ...item, key: 'f', phase: 'failed' }]);
    expect(restore(shelf, 's').map((i) => [i.key, i.phase])).toEqual([[item.key, 'waiting'], ['f', 'failed']]);
    save(shelf, 's', [outgoing([{ type: 'text', text: 'x'.repeat(2_000_000) }])]);
    expect(shelf.map.size).toBe(0);
    for (const junk of ['{', '3', '[1,{}]']) {
      shelf.setItem('acpgate.outbox.s', junk);
      expect(restore(shelf, 's')).toEqual([]);
    }
  });

  test('TestP4_DirectoriesAreBounded', () => {
    const local = memoryShelf();
    const keep = new Keep(local, memoryShelf());
    for (let i = 0; i < 300; i++) keep.setCwd(`s${i}`, `/w/${i}`);
    expect(keep.cwd('s299')).toBe('/w/299');
    expect(keep.cwd('s0')).toBeUndefined();
    local.setItem('acpgate.cwds', '[broken');
    expect(keep.cwd('s299')).toBeUndefined();
    keep.setDraft('s', 'text');
    expect(keep.draft('s')).toBe('text');
    keep.setDraft('s', '');
    expect(keep.draft('s')).toBe('');
  });
});
