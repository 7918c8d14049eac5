// What the end-to-end tests stand on: the real gateway in a directory of its own, a browser, and a wire that can be cut.

import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const here = path.dirname(fileURLToPath(import.meta.url));
const repo = path.resolve(here, '../..');
export const out = path.join(here, 'out');

const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

/** Builds the gateway once, or takes the one that E2E_GATEWAY names. */
export function build() {
  if (process.env.E2E_GATEWAY) return process.env.E2E_GATEWAY;
  const bin = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'acpgate-e2e-')), 'acpgate');
  const r = spawnSync('go', ['build', '-o', bin, './cmd/acpgate'], { cwd: repo, stdio: ['ignore', 'inherit', 'inherit'] });
  if (r.status !== 0) throw new Error('the gateway does not build');
  return bin;
}

export function findChromium() {
  const found = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((p) => p && fs.existsSync(p));
  if (!found) throw new Error('no Chromium: set CHROMIUM to its path');
  return found;
}

/** A running gateway. stop() ends it; login() is a fresh one-time link. */
export class Gateway {
  static async start(bin, args = [], dir = fs.mkdtempSync(path.join(os.tmpdir(), 'acpgate-e2e-')), listen = '127.0.0.1:0') {
    const root = path.join(dir, 'work');
    fs.mkdirSync(root, { recursive: true });
    const g = new Gateway();
    g.dir = dir;
    g.root = fs.realpathSync(root);
    g.bin = bin;
    g.args = args;
    g.text = '';
    g.child = spawn(bin, ['serve', '--listen', listen, '--state', path.join(dir, 'state'), '--root', g.root, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      // ACPGATE_* are settings of the gateway: those of whoever runs the tests are not meant for it.
      env: { ...Object.fromEntries(Object.entries(process.env).filter(([k]) => !k.startsWith('ACPGATE_'))), HOME: dir },
    });
    for (const s of [g.child.stdout, g.child.stderr]) s.on('data', (b) => (g.text += b));
    g.over = new Promise((resolve) => g.child.on('exit', resolve));
    g.url = (await g.wait(/listening on (http:\/\/\S+)/))[1];
    return g;
  }

  async wait(pattern) {
    for (let i = 0; i < 300; i++) {
      const m = pattern.exec(this.text);
      if (m) return m;
      if (this.child.exitCode !== null) break;
      await new Promise((r) => setTimeout(r, 50));
    }
    throw new Error(`the gateway did not print ${pattern}:\n${this.text}`);
  }

  get token() {
    return fs.readFileSync(path.join(this.dir, 'state', 'token'), 'utf8').trim();
  }

  /** The path and query of the login link that serve prints. */
  async loginPath() {
    const m = await this.wait(/https?:\/\/[^\s/]+(\/\S*login\?ticket=[^\s"]+)/);
    return m[1];
  }

  async stop(signal = 'SIGTERM') {
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill(signal);
    await this.over;
  }

  /** The same gateway again, on the same address and state. */
  async restart(signal) {
    await this.stop(signal);
    return Gateway.start(this.bin, this.args, this.dir, new URL(this.url).host);
  }

  remove() {
    fs.rmSync(this.dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** A wire between browser and gateway that can be cut, or go silent without a word. Its address is known before the
 * gateway runs, so that the gateway can be told to accept it. */
export class Wire {
  static async listen() {
    const w = new Wire();
    w.pairs = new Set();
    w.silent = false;
    w.target = undefined;
    w.server = net.createServer((a) => w.accept(a));
    await new Promise((resolve) => w.server.listen(0, '127.0.0.1', resolve));
    w.url = `http://127.0.0.1:${w.server.address().port}`;
    return w;
  }

  /** Flags for the gateway behind the wire. */
  get flags() {
    return ['--allow-host', new URL(this.url).host, '--allow-origin', this.url];
  }

  accept(a) {
    if (!this.target) return a.destroy();
    const to = new URL(this.target);
    const b = net.connect(Number(to.port), to.hostname);
    const pair = [a, b];
    this.pairs.add(pair);
    for (const [x, y] of [[a, b], [b, a]]) {
      x.on('data', (d) => pair.silent || y.write(d));
      x.on('error', () => undefined);
      x.on('close', () => {
        this.pairs.delete(pair);
        if (!pair.silent) y.destroy();
      });
    }
  }

  /** Ends every connection at once. */
  cut() {
    for (const pair of this.pairs) for (const s of pair) s.destroy();
  }

  /** From now on the open connections carry nothing, and nobody is told. New ones work. */
  hush() {
    for (const pair of this.pairs) pair.silent = true;
  }

  close() {
    this.cut();
    this.server.close();
  }
}

let browser;

export async function launch() {
  browser ??= await chromium.launch({ executablePath: findChromium(), headless: true, args: flags });
  return browser;
}

export async function closeBrowser() {
  await browser?.close();
  browser = undefined;
}

/** A page that fails the test on script errors and on violations of the content security policy. */
export async function newPage(context) {
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.faults = [];
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', (e) => console.error(`CSP: ${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber} ${e.sample}`));
  });
  page.on('pageerror', (e) => page.faults.push(`error: ${e.stack ?? e.message}`));
  page.on('console', (m) => {
    const t = m.text();
    if (/CSP:|Content Security Policy|TrustedHTML|TrustedScript/.test(t)) page.faults.push(t);
  });
  return page;
}

export function check(ok, what) {
  if (!ok) throw new Error(`expected: ${what}`);
}

export async function eventually(what, f, ms = 15_000) {
  const end = Date.now() + ms;
  let last;
  for (;;) {
    try {
      last = await f();
      if (last) return last;
    } catch (e) {
      last = e;
    }
    if (Date.now() > end) throw new Error(`not in ${ms} ms: ${what} (last: ${last instanceof Error ? last.message : JSON.stringify(last)})`);
    await new Promise((r) => setTimeout(r, 50));
  }
}

/** A gateway, a logged-in page on it, and their end. */
export async function withPage(bin, { args = [], viewport = { width: 1280, height: 800 }, wire = false, ...options }, run) {
  const w = wire ? await Wire.listen() : undefined;
  const g = await Gateway.start(bin, [...args, ...(w ? w.flags : [])]);
  const context = await (await launch()).newContext({ viewport, ...options });
  try {
    if (w) w.target = g.url;
    const base = w ? w.url : g.url;
    const page = await newPage(context);
    await page.goto(base + (await g.loginPath()));
    await page.locator('.newchat #composer').waitFor();
    const all = { g, page, context, wire: w, base };
    await run(all);
    for (const p of context.pages()) check((p.faults ?? []).length === 0, `no script error and no policy violation, got ${JSON.stringify(p.faults)}`);
  } catch (e) {
    for (const [i, p] of context.pages().entries()) await shot(p, `failed-${i}`).catch(() => undefined);
    e.message += `\n--- gateway\n${g.text.slice(-3000)}`;
    throw e;
  } finally {
    await context.close();
    w?.close();
    await g.stop();
    g.remove();
  }
}

/** Waits until the agent of the page has answered. */
export async function connected(page) {
  await eventually('connected', async () => (await page.locator('#composer').getAttribute('placeholder')) !== 'Message');
}

/** Types a message and presses Enter. */
export async function type(page, text) {
  await page.locator('#composer').fill(text);
  await page.locator('#composer').press('Enter');
}

/** Sends a message and waits until it is on the screen. */
export async function send(page, text) {
  const bubbles = page.locator('.user, .outgoing');
  const before = page.url().includes('#/s/') ? await bubbles.count() : 0;
  await type(page, text);
  await eventually(`"${text.slice(0, 40)}" on the screen`, async () => (await bubbles.count()) > before);
}

/** Waits until no turn runs and nothing is on its way. */
export async function idle(page) {
  // In one look: a prompt leaves the outbox in the moment in which its turn begins.
  const busy = () => document.querySelector('.composer .stop, .outgoing, .conversation[aria-busy=true]') !== null || document.querySelector('.conversation') === null;
  await eventually('the turn to end', async () => !(await page.evaluate(busy)), 30_000);
}

/** The text of all agent messages, one string per turn. */
export async function answers(page) {
  // What came last may wait for the next frame.
  await page.evaluate(() => new Promise((r) => setTimeout(r, 250)));
  return page.locator('.turn').evaluateAll((turns) => turns.map((t) => [...t.querySelectorAll('.message .md')].map((m) => m.textContent).join('\n')));
}

export async function shot(page, name) {
  fs.mkdirSync(out, { recursive: true });
  await page.screenshot({ path: path.join(out, `${name}.png`) });
}
