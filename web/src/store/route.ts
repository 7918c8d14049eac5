// The address of the page: #/s/SESSION[?agent=NAME], or ?session=SESSION in a link from elsewhere. Anything else is the
// new-chat view.

import { opt } from '../wire/types';

export interface Route {
  session?: string;
  agent?: string;
}

export function parseRoute(search: string, hash: string): Route {
  const m = /^#\/s\/([^?]+)(?:\?(.*))?$/.exec(hash);
  if (m?.[1]) {
    const agent = new URLSearchParams(m[2] ?? '').get('agent');
    return { session: decode(m[1]), ...opt('agent', agent ?? undefined) };
  }
  const query = new URLSearchParams(search);
  const session = query.get('session');
  const agent = query.get('agent');
  return { ...opt('session', session ?? undefined), ...opt('agent', agent ?? undefined) };
}

/** The hash of a route; '#/' for the new-chat view. */
export function formatRoute(r: Route): string {
  if (r.session === undefined) return '#/';
  const agent = r.agent ? `?agent=${encodeURIComponent(r.agent)}` : '';
  return `#/s/${encodeURIComponent(r.session)}${agent}`;
}

function decode(s: string): string {
  try {
    return decodeURIComponent(s);
  } catch {
    return s;
  }
}
