// Syntax colours, in a chunk of their own that is loaded with the first code block. The result is a tree, never HTML.

import { createLowlight } from 'lowlight';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import csharp from 'highlight.js/lib/languages/csharp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import dockerfile from 'highlight.js/lib/languages/dockerfile';
import go from 'highlight.js/lib/languages/go';
import ini from 'highlight.js/lib/languages/ini';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import kotlin from 'highlight.js/lib/languages/kotlin';
import lua from 'highlight.js/lib/languages/lua';
import makefile from 'highlight.js/lib/languages/makefile';
import markdown from 'highlight.js/lib/languages/markdown';
import php from 'highlight.js/lib/languages/php';
import python from 'highlight.js/lib/languages/python';
import ruby from 'highlight.js/lib/languages/ruby';
import rust from 'highlight.js/lib/languages/rust';
import shell from 'highlight.js/lib/languages/shell';
import sql from 'highlight.js/lib/languages/sql';
import swift from 'highlight.js/lib/languages/swift';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';

const lowlight = createLowlight({
  bash, c, cpp, csharp, css, diff, dockerfile, go, ini, java, javascript, json, kotlin, lua, makefile, markdown, php,
  python, ruby, rust, shell, sql, swift, typescript, xml, yaml,
});

/** A piece of coloured text: a class name of the theme, or none, and text or further pieces. */
export interface Piece {
  className?: string;
  text?: string;
  children?: Piece[];
}

interface Node {
  type: string;
  value?: string;
  properties?: { className?: unknown };
  children?: Node[];
}

function piece(n: Node): Piece {
  if (n.type === 'text') return { text: n.value ?? '' };
  const names = n.properties?.className;
  return {
    ...(Array.isArray(names) ? { className: names.join(' ') } : {}),
    children: (n.children ?? []).map(piece),
  };
}

/** Colours code, or returns undefined for a language that is not here. */
export function highlight(code: string, language: string): Piece[] | undefined {
  const lang = language.toLowerCase();
  if (!lowlight.registered(lang)) return undefined;
  return (lowlight.highlight(lang, code).children as Node[]).map(piece);
}
