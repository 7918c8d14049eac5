// The few plain HTTP calls: who am I, log in, log out. Paths are relative to the page.

import { dict, str } from '../wire/types';

export type Who = { state: 'ok'; name: string; canLeave: boolean } | { state: 'unauthorized' } | { state: 'unreachable' };

export async function whoami(): Promise<Who> {
  try {
    const r = await fetch('api/v1/me', { headers: { accept: 'application/json' }, cache: 'no-store' });
    if (r.status === 401 || r.status === 403) return { state: 'unauthorized' };
    if (!r.ok) return { state: 'unreachable' };
    const me = dict(await r.json());
    // Only a login of ours can be ended; a proxy or an open gateway would log in again at once.
    return { state: 'ok', name: str(me['principal']) ?? '', canLeave: me['auth'] === 'token' };
  } catch {
    return { state: 'unreachable' };
  }
}

/** Resolves to a sentence that says what is wrong, or undefined after a login. */
export async function login(token: string): Promise<string | undefined> {
  try {
    const r = await fetch('api/v1/login', {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: JSON.stringify({ token }),
    });
    if (r.ok) return undefined;
    if (r.status === 401 || r.status === 403) return 'This token is not known here. Check that you copied all of it.';
    if (r.status === 429) return 'Too many tries. Wait a moment and try again.';
    return `The gateway could not log you in (HTTP ${r.status}).`;
  } catch {
    return 'The gateway cannot be reached.';
  }
}

export async function logout(): Promise<void> {
  await fetch('api/v1/logout', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' });
}
