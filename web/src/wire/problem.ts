// Errors as a person reads them.

import { RequestError } from '@agentclientprotocol/sdk';
import { dict, opt, str, type Dict } from './types';

export interface Problem {
  title: string;
  /** What to do about it. */
  hint?: string;
  /** Technical detail, folded away. */
  detail?: string;
  code?: number;
  reason?: string;
}

/** The request never got an answer because the connection ended. It says nothing about the request. */
export class ConnectionLost extends Error {
  constructor() {
    super('the connection ended before the answer came');
    this.name = 'ConnectionLost';
  }
}

const hints: Record<string, string> = {
  agent_unknown: 'Pick another agent, or add this one to the gateway’s configuration.',
  agent_restarting: 'The agent is being restarted. Try again in a moment.',
  agent_start_failed: 'The agent’s program could not be started. Check its command on the server.',
  agent_limit: 'Too many agent processes are in use. Close a session and try again.',
  agent_exited: 'The agent’s process ended. Send the prompt again to start a new one.',
  agent_restarted: 'The agent was stopped on request while it was in use.',
  agent_stalled: 'The agent does not read its input. Force stop it, then try again.',
  queue_full: 'Too many prompts are waiting. Wait for the turn to end or cancel one.',
  turn_running: 'A turn is still running. Wait for it to end, or stop it first.',
  key_reused: 'This prompt was sent before with other content. Send it again as a new one.',
  owner_lost: 'Nothing was sent again. Look at what was done before you repeat it.',
  store_unavailable: 'The gateway’s store is not reachable. It goes on by itself when the store is back.',
};

// The gateway's own reasons, in a person's words. The message stays as the detail.
const reasons: Record<string, string> = {
  agent_start_failed: 'The agent could not be started',
  agent_exited: 'The agent’s process ended',
  agent_restarted: 'The agent was stopped',
  agent_restarting: 'The agent is being restarted',
  agent_stalled: 'The agent hangs',
  agent_timeout: 'The agent did not answer in time',
  agent_limit: 'There is no room for another agent process',
  session_not_found: 'This session is not known here',
  queue_full: 'Too many prompts are waiting',
  turn_running: 'A turn is still running',
  owner_lost: 'The gateway was stopped while this ran',
};

const titles: Record<number, string> = {
  [-32000]: 'The agent wants you to log in',
  [-32002]: 'This session is not known here',
  [-32601]: 'The agent does not support this',
  [-32602]: 'The request was refused',
  [-32603]: 'Something failed',
  [-32700]: 'A message could not be read',
  [-32800]: 'Cancelled',
};

// Agents say little in some messages; then the title of the code says more.
const empty = new Set(['', 'internal error', 'invalid params', 'resource not found', 'request cancelled']);

export function problemOf(error: { code: number; message: string; data?: unknown }): Problem {
  const data = dict(error.data);
  const reason = str(data['reason']);
  const message = error.message.trim();
  const own = str(data['details']) ?? str(data['message']) ?? str(error.data);
  const bare = empty.has(message.toLowerCase());
  const known = reason === undefined ? undefined : reasons[reason];
  const title = known ? known + ending(data) : bare ? (own ?? titles[error.code] ?? 'Something failed') : message;
  const hint = str(data['hint']) ?? (reason ? hints[reason] : undefined) ?? hintFor(error.code);
  const parts = [known && !bare ? message : undefined, str(data['stderr']) ?? rest(error.data)];
  const detail = parts.filter((x) => x !== undefined && x !== '').join('\n\n');
  return { title: capital(title), code: error.code, ...opt('hint', hint === undefined ? undefined : sentence(hint)), ...opt('detail', detail || undefined), ...opt('reason', reason) };
}

// Hints on the wire are for programs and people alike: lower case, without a full stop.
function sentence(s: string): string {
  return /[.!?:;…)]$/.test(s) ? capital(s) : `${capital(s)}.`;
}

function capital(s: string): string {
  return s.charAt(0).toUpperCase() + s.slice(1);
}

function ending(data: Dict): string {
  const signal = str(data['signal']);
  if (signal) return ` (signal ${signal})`;
  return typeof data['exitCode'] === 'number' ? ` (exit code ${data['exitCode']})` : '';
}

// What else came with the error, but for what is shown already.
function rest(data: unknown): string | undefined {
  const { reason: _reason, hint: _hint, ...more } = dict(data);
  return Object.keys(more).length > 0 ? JSON.stringify(more, null, 2) : undefined;
}

function hintFor(code: number): string | undefined {
  if (code === -32002) return 'It may have been deleted, or it belongs to someone else. Start a new chat.';
  return undefined;
}

/** Any thrown value. */
export function toProblem(e: unknown): Problem {
  if (e instanceof RequestError) return problemOf({ code: e.code, message: e.message, data: e.data });
  if (e instanceof ConnectionLost) return { title: 'The connection was lost', hint: 'It is being restored.' };
  return { title: e instanceof Error ? e.message : String(e) };
}
