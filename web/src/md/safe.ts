// What text of an agent may do: nothing but be read. Links lead to the web or a mailbox, images show bytes that are here.

const schemes = new Set(['http:', 'https:', 'mailto:']);

/** The address of a link that may be followed, else undefined. */
export function linkTarget(href: string): string | undefined {
  let url: URL;
  try {
    // Without a base only absolute addresses parse: a relative one would lead into the gateway itself.
    url = new URL(unescapeHtml(href).trim());
  } catch {
    return undefined;
  }
  return schemes.has(url.protocol) ? url.href : undefined;
}

const raster = /^data:image\/(?:png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/=\s]+$/i;

/** The source of an image that may be shown without a request leaving the page, else undefined. */
export function imageSource(href: string): string | undefined {
  return raster.test(href) || href.startsWith('blob:') ? href : undefined;
}

const rasterTypes = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif']);

/** The data URL of an ACP image block, when its type is one that cannot carry script. */
export function blockSource(mimeType: string, data: string): string | undefined {
  const type = mimeType.toLowerCase();
  return rasterTypes.has(type) ? imageSource(`data:${type};base64,${data}`) : undefined;
}

const named: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', copy: '©', hellip: '…', mdash: '—', ndash: '–', rarr: '→', larr: '←', times: '×' };

/** Text with its HTML entities resolved, as Markdown asks. The result is text, never markup. */
export function unescapeHtml(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z]{2,8}));/g, (all, dec: string, hex: string, name: string) => {
    if (name) return named[name] ?? all;
    const code = dec ? Number.parseInt(dec, 10) : Number.parseInt(hex, 16);
    return code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : all;
  });
}

// Controls that turn the reading direction around can make one text look like another ("Trojan source").
const bidi = /[\u202a-\u202e\u2066-\u2069]/g;

/** One line of text from an agent, for titles and labels. */
export function oneLine(text: string, max = 300): string {
  const flat = text.replace(bidi, '').replace(/\s+/g, ' ').trim();
  return flat.length > max ? `${flat.slice(0, max - 1)}…` : flat;
}
