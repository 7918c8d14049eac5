import { describe, expect, test } from 'vitest';
import { Flusher } from '../src/store/flush';
import { textOf, type Entry, type Turn } from '../src/store/entries';
import { Transcript } from '../src/store/transcript';
import type { Dict, EventMeta } from '../src/wire/types';

function transcript(): Transcript {
  return new Transcript(new Flusher((run) => run()));
}

const text = (kind: string, t: string, more: Dict = {}): Dict => ({ sessionUpdate: kind, content: { type: 'text', text: t }, ...more });
const say = (t: string, messageId?: string) => text('agent_message_chunk', t, messageId ? { messageId } : {});
const user = (t: string, messageId?: string) => text('user_message_chunk', t, messageId ? { messageId } : {});
const show = (e: Entry): string => {
  switch (e.kind) {
    case 'user':
    case 'message':
    case 'thought':
      return `${e.kind}: ${textOf(e.blocks)}`;
    case 'tool':
      return `tool: ${e.call.title} ${e.call.status}`;
    case 'notice':
    case 'report':
      return `${e.kind}: ${e.text}`;
    case 'note':
      return `note: ${e.text} (${e.state})`;
    case 'plan':
      return `plan: ${e.items.map((i) => i.status).join()}`;
    case 'gap':
      return `gap: ${e.omitted}`;
    case 'compaction':
      return `compaction: ${e.status} ${textOf(e.summary)}`;
    case 'unknown':
      return `unknown: ${e.name}`;
  }
};
const look = (t: Transcript): string[][] => t.turns.value.map((turn: Turn) => turn.entries.map(show));

function all(t: Transcript, updates: [Dict, EventMeta?][]): string[][] {
  for (const [u, m] of updates) t.apply(u, m ?? {});
  return look(t);
}

describe('CASE 89: bubbles', () => {
  test('TestCase89_NewBubbleOnMessageIdRoleAndPrompt', () => {
    const t = transcript();
    t.begin('t1', 'k1', [{ type: 'text', text: 'q1' }]);
    all(t, [[say('a', 'm1')], [say('b', 'm1')], [say('c', 'm2')], [text('agent_thought_chunk', 'hm')], [say('d', 'm3')]]);
    t.begin('t2', 'k2', [{ type: 'text', text: 'q2' }]);
    expect(all(t, [[say('e', 'm4')]])).toEqual([['user: q1', 'message: ab', 'message: c', 'thought: hm', 'message: d'], ['user: q2', 'message: e']]);
  });

  test('TestCase89_WithoutIdsTheRoleDecides', () => {
    const t = transcript();
    t.begin('t1', undefined, [{ type: 'text', text: 'q' }]);
    expect(all(t, [[say('a')], [say('b')], [text('agent_thought_chunk', 'x')], [say('c')], [say('')]])).toEqual([['user: q', 'message: ab', 'thought: x', 'message: c']]);
  });

  test('TestCase66_NoticesAndPlansDoNotSplitAMessage', () => {
    const t = transcript();
    t.begin('t1', undefined, [{ type: 'text', text: 'q' }]);
    const plan = (status: string): Dict => ({ sessionUpdate: 'plan', entries: [{ content: 'x', priority: 'low', status }] });
    expect(all(t, [[say('a')], [say('quiet'), { kind: 'notice' }], [plan('pending')], [say('b')], [plan('completed')]])).toEqual([['user: q', 'message: ab', 'notice: quiet', 'plan: completed']]);
  });

  test('TestP2_TextAfterAToolIsBelowIt', () => {
    const t = transcript();
    t.begin('t1', undefined, [{ type: 'text', text: 'q' }]);
    expect(all(t, [[say('before', 'm')], [{ sessionUpdate: 'tool_call', toolCallId: 'c', title: 'T' }], [say('after', 'm')]])).toEqual([['user: q', 'message: before', 'tool: T pending', 'message: after']]);
  });

  test('TestP2_OtherContentIsKeptInOrder', () => {
    const t = transcript();
    t.begin('t1', undefined, []);
    all(t, [[say('a')], [{ sessionUpdate: 'agent_message_chunk', content: { type: 'image', mimeType: 'image/png', data: 'AAAA' } }], [say('b')], [{ sessionUpdate: 'agent_message_chunk', content: { type: 'odd' } }]]);
    const m = t.last?.entries[1];
    expect(m?.kind === 'message' && m.blocks.map((b) => b.type)).toEqual(['text', 'image', 'text']);
    expect(m?.kind === 'message' && textOf(m.blocks)).toBe('ab{"type":"odd"}');
  });
});

describe('CASES 25 and 27: output without a prompt', () => {
  const ended = () => {
    const t = transcript();
    t.begin('t1', undefined, [{ type: 'text', text: 'q' }]);
    t.apply(say('a', 'm1'), { ts: 1_000 });
    t.finish('t1', { stopReason: 'end_turn' }, 2_000);
    return t;
  };

  test('TestCase25_LateOutputJoinsItsTurn', () => {
    expect(all(ended(), [[say(' tail', 'm1'), { ts: 900_000 }]])).toEqual([['user: q', 'message: a tail']]);
    expect(all(ended(), [[say('soon after', 'm2'), { ts: 3_000 }]])).toEqual([['user: q', 'message: a', 'message: soon after']]);
  });

  test('TestCase27_LaterOutputIsBackground', () => {
    const t = ended();
    expect(all(t, [[say('cron', 'm2'), { ts: 60_000 }], [say(' goes on', 'm2'), { ts: 61_000 }]])).toEqual([['user: q', 'message: a'], ['message: cron goes on']]);
    expect(t.turns.value.map((x) => x.background)).toEqual([false, true]);
    t.begin('t2', undefined, [{ type: 'text', text: 'q2' }]);
    expect(all(t, [[say('b', 'm3')]]).at(-1)).toEqual(['user: q2', 'message: b']);
  });

  test('TestCase25_LateWordOfAnEarlierMessage', () => {
    const t = ended();
    t.begin('t2', undefined, [{ type: 'text', text: 'q2' }]);
    expect(all(t, [[say('new', 'm2')], [say(' late', 'm1')]])).toEqual([['user: q', 'message: a late'], ['user: q2', 'message: new']]);
  });

  test('TestCase25_TheTimeOfTheEndMayComeLater', () => {
    const t = transcript();
    t.begin('t1', undefined, []);
    t.finish('t1', { stopReason: 'end_turn' }, undefined);
    t.finish('t1', { stopReason: 'cancelled' }, 2_000);
    expect(t.last?.end).toEqual({ stopReason: 'end_turn', ts: 2_000 });
  });
});

describe('replayed history is marked', () => {
  const marks = (t: Transcript) => t.turns.value.flatMap((turn) => turn.entries.flatMap((e) => (e.begins ? [`${e.begins}: ${show(e)}`] : [])));
  const replay = (entry: string, more: EventMeta = {}): EventMeta => ({ session: 's', epoch: 1, replay: true, entry, ...more });

  test('TestV10_MarksStandWhereHistoryBeginsAndEnds', () => {
    const t = transcript();
    all(t, [
      [user('asked there'), replay('hist-u1', { inherited: true, turn: 't1' })],
      [say('answered there'), replay('hist-a1', { inherited: true })],
      [user('asked here'), replay('hist-u2', { turn: 't2' })],
      [say('answered here'), replay('hist-a2')],
    ]);
    expect(marks(t)).toEqual(['inherited: user: asked there', 'replay: user: asked here']);
    t.begin('t3', 'k', [{ type: 'text', text: 'new' }]);
    all(t, [[say('fresh')]]);
    expect(marks(t)).toEqual(['inherited: user: asked there', 'replay: user: asked here', 'live: user: new']);
  });

  test('TestV10_WhatWasMissedForAMomentIsNoHistory', () => {
    const t = transcript();
    t.begin('t1', 'k', [{ type: 'text', text: 'q' }]);
    all(t, [[say('a'), { session: 's', epoch: 1, seq: 2, replay: true }], [say('b', 'm2'), { session: 's', epoch: 1, seq: 3 }]]);
    expect(marks(t)).toEqual([]);
  });

  test('TestV10_ARebuiltTranscriptIsMarkedAgain', () => {
    const t = transcript();
    all(t, [[user('one'), replay('hist-u1')]]);
    t.reset();
    expect(all(t, [[user('one'), replay('hist-u1')]])).toEqual([['user: one']]);
    expect(marks(t)).toEqual(['replay: user: one']);
  });
});

describe('prompts of others and replays', () => {
  test('TestV19_PromptOfAnotherClient', () => {
    const t = transcript();
    const meta = { kind: 'prompt', turn: 't1', key: 'k' };
    t.apply(user('look '), meta);
    t.apply({ sessionUpdate: 'user_message_chunk', content: { type: 'image', mimeType: 'image/png', data: 'AAAA' } }, meta);
    t.apply(say('a'), {});
    const first = t.last?.entries[0];
    expect(first?.kind === 'user' && first.blocks.map((b) => b.type)).toEqual(['text', 'image']);
    expect(t.hasKey('k')).toBe(true);
  });

  test('TestV11_OwnPromptIsNotSaidTwice', () => {
    const t = transcript();
    t.begin('t1', 'k', [{ type: 'text', text: 'mine' }]);
    t.apply(user('mine'), { kind: 'prompt', turn: 't1', key: 'k' });
    expect(look(t)).toEqual([['user: mine']]);
    // Under the key alone, too: a command is known by its key before its turn has a name.
    t.begin('t1-other-name', 'k', [{ type: 'text', text: 'mine' }]);
    expect(look(t)).toEqual([['user: mine']]);
  });

  test('TestV10_ReplayedEntriesAreReplacedNotAppended', () => {
    const t = transcript();
    const replay = (entry: string, more: EventMeta = {}): EventMeta => ({ session: 's', epoch: 1, replay: true, entry, ...more });
    const once: [Dict, EventMeta][] = [
      [user('question', 'hist-u1'), replay('hist-u1', { turn: 't1', key: 'k' })],
      [say('answer', 'hist-a1'), replay('hist-a1')],
      [user('second', 'hist-u2'), replay('hist-u2')],
      [say('… 5 earlier entries …', 'hist-gap'), replay('hist-gap', { kind: 'gap', omitted: 5 })],
    ];
    const want = [['user: question', 'message: answer'], ['user: second', 'gap: 5']];
    expect(all(t, once)).toEqual(want);
    expect(all(t, once.slice(0, 3))).toEqual(want);
  });

  test('TestCase49_HistoryOfAnAgentSplitsAtUserMessages', () => {
    const t = transcript();
    expect(all(t, [[user('q1')], [say('a1')], [user('q2')], [user(' goes on')], [say('a2')]])).toEqual([['user: q1', 'message: a1'], ['user: q2 goes on', 'message: a2']]);
  });

  test('TestV19_EchoOfALivePromptIsDropped', () => {
    const t = transcript();
    t.begin('t1', 'k', [{ type: 'text', text: 'hello' }]);
    t.runs('t1');
    expect(all(t, [[user('hello')], [say('hi')]])).toEqual([['user: hello', 'message: hi']]);
  });

  test('TestP2_OutputFollowsAUserMessageWithinATurn', () => {
    const t = transcript();
    t.begin('t1', 'k', [{ type: 'text', text: 'go' }]);
    t.runs('t1');
    expect(all(t, [[say('a')], [user('steered')], [say('b')]])).toEqual([['user: go', 'message: a'], ['user: steered', 'message: b']]);
    t.finish('t1', { stopReason: 'end_turn' }, 1);
    expect(t.last?.end?.stopReason).toBe('end_turn');
  });

  test('TestV11_TurnThatBeganWhileAway', () => {
    const t = transcript();
    t.begin('t1', 'k1', [{ type: 'text', text: 'one' }]);
    t.runs('t1');
    // The state that ended t1 was missed; our queued prompt began meanwhile.
    t.begin('t2', 'k2', [{ type: 'text', text: 'two' }]);
    t.apply(user('two'), { kind: 'prompt', turn: 't2', key: 'k2', replay: true });
    t.apply(say('second'), { replay: true });
    expect(look(t)).toEqual([['user: one'], ['user: two', 'message: second']]);
  });

  test('TestV15_CommandBesideARunningTurn', () => {
    const t = transcript();
    t.begin('t1', 'k1', [{ type: 'text', text: 'long' }]);
    t.runs('t1');
    t.apply(say('a'), {});
    t.begin('command k2', 'k2', [{ type: 'text', text: '/sessions' }]);
    t.apply(say('list'), { kind: 'report' });
    t.apply(say('b'), {});
    t.finish('command k2', { stopReason: 'end_turn' }, 1);
    expect(look(t)).toEqual([['user: long', 'message: ab'], ['user: /sessions', 'report: list']]);
  });
});

describe('tools and the rest', () => {
  const call = (id: string, more: Dict = {}): Dict => ({ sessionUpdate: 'tool_call', toolCallId: id, title: id, ...more });
  const change = (id: string, more: Dict): Dict => ({ sessionUpdate: 'tool_call_update', toolCallId: id, ...more });

  test('TestP2_UpdatesMergeIntoTheirCall', () => {
    const t = transcript();
    t.begin('t1', undefined, []);
    all(t, [
      [call('c', { status: 'pending', locations: [{ path: '/a', line: 3 }, { line: 1 }], rawInput: { x: 1 } })],
      [change('c', { status: 'completed', title: null, content: [{ type: 'diff', path: '/a', newText: 'n' }, { type: 'odd' }, { type: 'terminal', terminalId: 't' }] })],
    ]);
    const e = t.last?.entries[1];
    expect(e?.kind === 'tool' && e.call).toEqual({
      toolCallId: 'c', title: 'c', kind: 'other', status: 'completed', rawInput: { x: 1 }, locations: [{ path: '/a', line: 3 }],
      content: [{ type: 'diff', path: '/a', oldText: '', newText: 'n', created: true }, { type: 'terminal', terminalId: 't' }],
    });
  });

  test('TestP2_UpdateBeforeItsCall', () => {
    const t = transcript();
    t.begin('t1', undefined, [{ type: 'text', text: 'q' }]);
    expect(all(t, [[change('c', { status: 'in_progress' })], [call('c', { title: 'Late title' })]])).toEqual([['user: q', 'tool: Late title in_progress']]);
  });

  test('TestP2_SameIdInTheNextTurnIsAnotherCall', () => {
    const t = transcript();
    t.begin('t1', undefined, [{ type: 'text', text: 'a' }]);
    t.apply(call('t1', { status: 'completed' }), {});
    t.begin('t2', undefined, [{ type: 'text', text: 'b' }]);
    t.apply(call('t1'), {});
    t.apply(change('t1', { status: 'failed' }), {});
    expect(look(t)).toEqual([['user: a', 'tool: t1 completed'], ['user: b', 'tool: t1 failed']]);
  });

  test('TestCase91_UnknownKindsAreCards', () => {
    const t = transcript();
    expect(all(t, [[{ sessionUpdate: '_x', a: 1 }], [{ sessionUpdate: 'state_update' }], [{}], [{ sessionUpdate: 'notice', severity: 'error', title: 'Careful', description: 'd' }], [say('go on')]])).toEqual([
      ['unknown: _x', 'unknown: state_update', 'unknown: unknown', 'notice: Careful', 'message: go on'],
    ]);
  });

  test('TestS9_ANoteHasOneCard', () => {
    const t = transcript();
    t.begin('t1', undefined, [{ type: 'text', text: 'q' }]);
    const context = { id: 'n1', role: 'note', state: 'pending', text: 'what was learned', source: { session: 's2', title: 'Side' } };
    const told: [Dict, EventMeta] = [say('Note from …', 'note-n1'), { kind: 'context', context }];
    expect(all(t, [[say('a', 'm')], told, [say('b', 'm')], told])).toEqual([['user: q', 'message: ab', 'note: what was learned (pending)']]);
    expect(t.noted('n1', 'delivered')).toBe(true);
    expect(look(t)[0]?.[2]).toBe('note: what was learned (delivered)');
    expect(t.noted('other', 'delivered')).toBe(false);
  });

  test('TestP2_Compaction', () => {
    const t = transcript();
    expect(
      all(t, [
        [{ sessionUpdate: 'compaction_update', compactionId: 'c', status: 'in_progress' }],
        [{ sessionUpdate: 'compaction_summary_chunk', compactionId: 'c', content: { type: 'text', text: 'sum' } }],
        [{ sessionUpdate: 'compaction_update', compactionId: 'c', status: 'completed' }],
      ]),
    ).toEqual([['compaction: completed sum']]);
  });

  test('TestP2_OnlyWhatChangedIsMarked', () => {
    const flushes: number[] = [];
    const t = new Transcript(new Flusher((run) => (flushes.push(1), run())));
    t.begin('t1', undefined, [{ type: 'text', text: 'q' }]);
    t.apply(say('a'), {});
    const turn = t.last;
    const entry = turn?.entries[1];
    const before = [t.turns.value, turn?.rev.value, entry?.rev.value];
    t.apply(say('b'), {});
    expect(t.turns.value).toBe(before[0]);
    expect(turn?.rev.value).toBe(before[1]);
    expect(entry?.rev.value).toBe((before[2] as number) + 1);
  });
});
