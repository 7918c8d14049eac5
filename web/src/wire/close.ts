// The close-code table of the gateway, as the page obeys it. The file is written by the gateway's own test, so the two
// never differ.

import table from '../closecodes.json';

export type Advice = 'now' | 'later' | 'never';

export interface CloseInfo {
  /** The WebSocket close code; 1006 when there was none. */
  code: number;
  reason: string;
}

const byCode = new Map(table.map((row) => [row.code, row]));

/** What to do after a close. Codes that nobody knows are treated as a lost connection: only the table ends it. */
export function adviceFor(code: number): Advice {
  const advice = byCode.get(code)?.advice;
  return advice === 'never' || advice === 'later' ? advice : 'now';
}

/** One plain sentence for a person. */
export function meaningOf(info: CloseInfo): string {
  const row = byCode.get(info.code);
  const meaning = row ? row.meaning : `the connection was closed (code ${info.code})`;
  return info.reason && info.reason !== row?.name ? `${meaning}: ${info.reason}` : meaning;
}
