import { answers, check, eventually, idle, newPage, send, shot, withPage } from './lib.mjs';

const ticks = (n) => Array.from({ length: n }, (_, i) => `tick ${i + 1}/${n} `).join('');

async function exact(page, n) {
  await idle(page);
  const got = (await answers(page)).at(-1).replace(/\s+/g, ' ');
  const want = ticks(n).replace(/\s+/g, ' ').trim();
  check(got.includes(want), `every word once and in order, got ${got}`);
  for (let i = 1; i <= n; i++) check(got.split(`tick ${i}/${n} `).length === 2, `tick ${i} once, got ${got}`);
}

export const tests = {
  TestV11_SocketCutMidStream: (bin) =>
    withPage(bin, { wire: true }, async ({ page, wire }) => {
      await send(page, 'SLOW:60x60 cut');
      await page.locator('.message .md').first().waitFor();
      for (let i = 0; i < 6; i++) {
        await new Promise((r) => setTimeout(r, 350));
        wire.cut();
      }
      await exact(page, 60);
      check((await page.locator('.turn').count()) === 1, 'one turn');
      check((await page.locator('.pill').count()) === 0, 'connected again');
    }),

  TestP4_SaysThatItIsOffline: (bin) =>
    withPage(bin, { wire: true }, async ({ page, wire, g }) => {
      await send(page, 'SLOW:40x100 offline');
      await page.locator('.message .md').first().waitFor();
      wire.target = undefined;
      wire.cut();
      await page.locator('.pill.warn').waitFor();
      await send(page, 'typed while offline');
      await page.locator('.outgoing.waiting').waitFor();
      await shot(page, 'offline');
      wire.target = g.url;
      await page.getByRole('button', { name: 'Retry' }).click().catch(() => undefined);
      await idle(page);
      const all = await answers(page);
      check(all.length === 2 && all[0].includes(ticks(40).trim().slice(-20)) && all[1].includes('typed while offline'), `both turns: ${all}`);
    }),

  TestCase55_HalfOpenSocketIsReplacedOnFocus: (bin) =>
    withPage(bin, { wire: true }, async ({ page, wire }) => {
      await send(page, 'SLOW:50x100 half open');
      await page.locator('.message .md').first().waitFor();
      wire.hush();
      const before = (await answers(page))[0];
      await new Promise((r) => setTimeout(r, 600));
      check((await answers(page))[0] === before, 'the wire is silent');
      await page.evaluate(() => dispatchEvent(new Event('focus')));
      await exact(page, 50);
    }),

  TestCase54_CleanCloseIsNoGoodbye: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await page.addInitScript(() => {
        const Real = window.WebSocket;
        window.sockets = [];
        window.WebSocket = class extends Real {
          constructor(...a) {
            super(...a);
            window.sockets.push(this);
          }
        };
      });
      await page.reload();
      await page.locator('#composer').waitFor();
      await send(page, 'SLOW:40x80 clean');
      await page.locator('.message .md').first().waitFor();
      await page.evaluate(() => window.sockets.at(-1).close(1000));
      await exact(page, 40);
      check((await page.evaluate(() => window.sockets.length)) === 2, 'a second socket was opened');
    }),

  TestP4_ReloadMidTurn: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await send(page, 'SLOW:50x80 reload');
      await page.locator('.message .md').first().waitFor();
      await page.reload();
      await page.locator('.message .md').first().waitFor();
      check((await page.locator('.composer .stop').count()) === 1, 'it still runs');
      await page.reload();
      await exact(page, 50);
      check((await page.locator('.turn').count()) === 1, 'one turn');
    }),

  TestCase28_SecondTab: (bin) =>
    withPage(bin, {}, async ({ page, context }) => {
      await send(page, 'SLOW:40x80 shared');
      await page.locator('.message .md').first().waitFor();
      const other = await newPage(context);
      await other.goto(page.url());
      await other.locator('.message .md').first().waitFor();
      await exact(page, 40);
      await exact(other, 40);
      await send(other, 'ASK from the second tab');
      for (const p of [page, other]) await p.locator('.ask').waitFor();
      await eventually('the first tab sees the prompt', async () => (await page.locator('.user .bubble').last().textContent()) === 'ASK from the second tab');
      await page.locator('.ask [data-choice]').first().click();
      for (const p of [page, other]) await eventually('the card goes away everywhere', async () => (await p.locator('.ask').count()) === 0);
      for (const p of [page, other]) await idle(p);
      check(JSON.stringify(await answers(page)) === JSON.stringify(await answers(other)), 'both show the same');
    }),

  TestCase39_PermissionSurvivesReloadAndCut: (bin) =>
    withPage(bin, { wire: true }, async ({ page, wire }) => {
      await send(page, 'ASK keep me');
      await page.locator('.ask').waitFor();
      wire.cut();
      await eventually('live again', async () => (await page.locator('.ask [data-choice]:enabled').count()) > 0);
      await page.reload();
      await page.locator('.ask [data-choice]').first().click();
      await idle(page);
      check((await page.locator('.tool .status.completed').count()) === 1, 'the call was made');
    }),

  TestCase42_NotificationOnceWhileHidden: (bin) =>
    withPage(bin, { permissions: ['notifications'] }, async ({ page }) => {
      await page.addInitScript(() => {
        window.told = [];
        window.Notification = class {
          static permission = 'granted';
          static requestPermission = async () => 'granted';
          constructor(title, options) {
            window.told.push({ title, ...options });
          }
          close() {}
        };
        Object.defineProperty(document, 'visibilityState', { get: () => (window.hiddenNow ? 'hidden' : 'visible') });
      });
      await page.reload();
      await page.getByRole('button', { name: /Notify me when/ }).click();
      await page.evaluate(() => (window.hiddenNow = true));
      await send(page, 'ASK while hidden');
      await page.locator('.ask').waitFor();
      await eventually('told', async () => (await page.evaluate(() => window.told.length)) === 1);
      check((await page.title()).startsWith('(1)'), 'the title counts it');
      check((await page.evaluate(() => window.told[0].body)).includes('demo.txt'), 'it says what for');
      await page.evaluate(() => (window.hiddenNow = false));
      await page.locator('.ask [data-choice]').first().click();
      await idle(page);
      check((await page.evaluate(() => window.told.length)) === 1, 'told once');
    }),

  TestP4_GatewayRestart: (bin) =>
    withPage(bin, {}, async (all) => {
      const { page } = all;
      await send(page, 'remember me');
      await idle(page);
      all.g.text += (await restart(all)).text;
      await eventually('connected again', async () => (await page.locator('.pill').count()) === 0, 30_000);
      await send(page, 'RECALL');
      await idle(page);
      check((await answers(page)).at(-1).includes('remember me'), 'the agent has its history');
      check((await page.locator('.user .bubble').count()) === 2, 'each message once');
    }),

  TestCase51_UnknownSessionIsSaid: (bin) =>
    withPage(bin, {}, async ({ page, base }) => {
      await page.goto(`${base}/#/s/nope`);
      await page.reload();
      await page.locator('.problem').waitFor();
      await shot(page, 'session-gone');
      await page.locator('.problem').getByRole('button', { name: 'New chat' }).click();
      await page.locator('.newchat').waitFor();
    }),

  TestP1_DeepLinkByQuery: (bin) =>
    withPage(bin, {}, async ({ page, base }) => {
      await send(page, 'find me');
      await idle(page);
      const id = decodeURIComponent(new URL(page.url()).hash.slice(4).split('?')[0]);
      await page.goto(`${base}/?session=${encodeURIComponent(id)}`);
      await eventually('the session shows', async () => (await page.locator('.user .bubble').count()) === 1);
      check(!new URL(page.url()).search && page.url().includes('#/s/'), `the address is tidy: ${page.url()}`);
    }),
};

// Stops the gateway and starts it again on the same address; the harness ends the new one.
async function restart(all) {
  const old = all.g;
  const next = await old.restart();
  old.child = next.child;
  old.over = next.over;
  return next;
}
