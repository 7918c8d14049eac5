// Files to content blocks, within what the agent takes and the gateway lets through. Pure but for reading the file.

import type { ContentBlock, InitInfo } from '../wire/types';

export interface Attachment {
  name: string;
  /** Bytes of the file. */
  size: number;
  block: ContentBlock;
}

/** Room for the rest of the frame around base64 data. */
const overhead = 16 * 1024;

/** The largest prompt content, in characters of its JSON, that fits the gateway's frame limit. */
export function contentMax(frameBytes: number): number {
  return Math.max(0, frameBytes - overhead);
}

/** Characters that blocks take on the wire, from below by at most a factor of the escapes in them. */
export function weight(blocks: readonly ContentBlock[]): number {
  return new TextEncoder().encode(JSON.stringify(blocks)).length;
}

const textual = /^text\/|[/+](json|xml|yaml|toml|javascript|typescript|x-sh|sql)$/;
const textNames = /\.(txt|md|json|ya?ml|toml|ini|cfg|conf|csv|tsv|log|xml|html?|css|s[ac]ss|[cm]?[jt]sx?|py|go|rs|rb|php|java|kt|swift|c|h|cc|cpp|hpp|cs|sh|bash|zsh|sql|lua|pl|r|tf|proto|gradle|dockerfile|makefile|diff|patch|vue|svelte)$/i;

/** What the agent takes of a file: as image, as text, as bytes, or a sentence that says why not. */
export function sort(file: { name: string; type: string; size: number }, init: InitInfo): 'image' | 'text' | 'blob' | { refused: string } {
  if (file.size * (4 / 3) > contentMax(init.gate.frameBytes)) {
    return { refused: `${file.name} is too large: the gateway takes messages of at most ${Math.floor(init.gate.frameBytes / 1024 / 1024)} MiB.` };
  }
  if (/^image\/(png|jpeg|gif|webp)$/.test(file.type)) {
    return init.image ? 'image' : { refused: `${init.agentTitle} does not take images.` };
  }
  if (textual.test(file.type) || textNames.test(file.name) || file.type === '') return 'text';
  return init.embeddedContext ? 'blob' : { refused: `${init.agentTitle} does not take files of this kind (${file.type}).` };
}

export function textBlock(name: string, mimeType: string, text: string, init: InitInfo): ContentBlock {
  if (init.embeddedContext) {
    return { type: 'resource', resource: { uri: `attachment:///${encodeURIComponent(name)}`, mimeType: mimeType || 'text/plain', text } };
  }
  return { type: 'text', text: `${name}:\n\n${fence(text)}` };
}

// A fence longer than any in the text.
function fence(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((m) => m[0].length));
  const marks = '`'.repeat(longest + 1);
  return `${marks}\n${text}\n${marks}\n`;
}

/** Reads a file into a block. Rejects with a sentence for the person. */
export async function attachment(file: File, init: InitInfo): Promise<Attachment> {
  const kind = sort(file, init);
  if (typeof kind === 'object') throw new Error(kind.refused);
  const common = { name: file.name, size: file.size };
  if (kind === 'text') {
    const data = new Uint8Array(await file.arrayBuffer());
    try {
      const text = new TextDecoder('utf-8', { fatal: true }).decode(data);
      return { ...common, block: textBlock(file.name, file.type, text, init) };
    } catch {
      if (!init.embeddedContext) throw new Error(`${file.name} is not text.`);
    }
  }
  const data = await base64(file);
  const mimeType = file.type || 'application/octet-stream';
  if (kind === 'image') return { ...common, block: { type: 'image', mimeType, data } };
  return { ...common, block: { type: 'resource', resource: { uri: `attachment:///${encodeURIComponent(file.name)}`, mimeType, blob: data } } };
}

function base64(file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^data:[^,]*,/, ''));
    reader.onerror = () => reject(new Error('The file could not be read.'));
    reader.readAsDataURL(file);
  });
}
