import { RequestError } from '@agentclientprotocol/sdk';
import { describe, expect, test } from 'vitest';
import { characters, Merge, noteMax, sendable } from '../src/store/merge';

interface Call {
  method: string;
  params: object;
  answer: (result: unknown) => void;
  refuse: (e: unknown) => void;
}

function merge(): { m: Merge; calls: Call[] } {
  const calls: Call[] = [];
  const m = new Merge((method, params) => new Promise((answer, refuse) => calls.push({ method, params, answer, refuse })));
  return { m, calls };
}

describe('rule S9: a note is seen before it goes home', () => {
  test('TestS9_PreviewEditSend', async () => {
    const { m, calls } = merge();
    const asked = m.ask();
    expect(m.stage.value).toEqual({ kind: 'asking' });
    void m.ask();
    expect(calls.map((c) => c.method)).toEqual(['_acpgate/merge_preview']);
    calls[0]?.answer({ note: 'found it', turn: 't9' });
    await asked;
    expect(m.stage.value).toEqual({ kind: 'shown', note: 'found it', turn: 't9' });
    m.edit('found it, at last');
    const sent = m.send();
    m.edit('too late');
    m.discard();
    expect(await m.send()).toBe(false);
    expect(calls[1]).toMatchObject({ method: '_acpgate/merge', params: { note: 'found it, at last', turn: 't9' } });
    calls[1]?.answer({ note: 'found it, at last' });
    expect(await sent).toBe(true);
    expect(calls.length).toBe(2);
    expect(m.stage.value).toEqual({ kind: 'none' });
  });

  test('TestS9_DiscardSendsNothing', async () => {
    const { m, calls } = merge();
    const asked = m.ask();
    calls[0]?.answer({ note: 'n', turn: 't' });
    await asked;
    m.discard();
    expect(await m.send()).toBe(false);
    expect(calls.length).toBe(1);
    expect(m.stage.value).toEqual({ kind: 'none' });
  });

  test('TestS9_ErrorsSayWhatToDoAndKeepTheNote', async () => {
    const { m, calls } = merge();
    const asked = m.ask();
    calls[0]?.refuse(new RequestError(-32603, 'Nothing was merged: the agent refused', { reason: 'nothing_merged', hint: 'send /merge again' }));
    await asked;
    expect(m.stage.value).toEqual({ kind: 'none' });
    expect(m.problem.value).toMatchObject({ title: 'Nothing was merged: the agent refused', hint: 'Send /merge again.', reason: 'nothing_merged' });
    const again = m.ask();
    expect(m.problem.value).toBeUndefined();
    calls[1]?.answer({ note: 'n', turn: 't2' });
    await again;
    const sent = m.send();
    calls[2]?.refuse(new RequestError(-32002, 'The main conversation was deleted', { reason: 'parent_deleted', hint: 'copy the note' }));
    expect(await sent).toBe(false);
    expect(m.stage.value).toEqual({ kind: 'shown', note: 'n', turn: 't2' });
    expect(m.problem.value?.hint).toBe('Copy the note.');
    // The same turn once more makes no second note.
    void m.send();
    expect(calls[3]?.params).toEqual({ note: 'n', turn: 't2' });
  });

  test('TestS9_LengthIsCountedInCharacters', () => {
    expect(characters('a😀é')).toBe(3);
    expect(sendable('😀'.repeat(noteMax))).toBe(true);
    expect(sendable('😀'.repeat(noteMax) + 'x')).toBe(false);
    expect(sendable(' \n ')).toBe(false);
  });
});
