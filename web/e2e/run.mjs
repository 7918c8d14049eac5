// Runs the end-to-end tests: node e2e/run.mjs [PART OF A NAME]. Each *.e2e.mjs exports tests: an object of functions that
// get the path of the gateway's binary. Ends with a line "N passed, M failed".

import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build, closeBrowser } from './lib.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const only = process.argv[2] ?? '';
/** No test may take longer, in ms. */
const limit = 120_000;

let passed = 0;
const failed = [];

function within(ms, name, promise) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`${name} took longer than ${ms} ms`)), ms)));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

const bin = build();
for (const file of fs.readdirSync(here).filter((f) => f.endsWith('.e2e.mjs')).sort()) {
  const { tests } = await import(pathToFileURL(path.join(here, file)).href);
  for (const [name, run] of Object.entries(tests)) {
    if (!`${file} ${name}`.includes(only)) continue;
    const begin = Date.now();
    try {
      await within(limit, name, run(bin));
      passed++;
      console.log(`ok    ${name} (${Date.now() - begin} ms)`);
    } catch (e) {
      failed.push(name);
      console.log(`FAIL  ${name} (${Date.now() - begin} ms)\n${e instanceof Error ? e.stack : e}`);
    }
  }
}
await closeBrowser();
if (failed.length > 0) console.log(`\nfailed: ${failed.join(', ')}`);
if (passed + failed.length === 0) console.log(`no test has "${only}" in its name`);
console.log(`${passed} passed, ${failed.length} failed`);
process.exit(failed.length > 0 || passed === 0 ? 1 : 0);
