import { answers, check, eventually, idle, send, shot, withPage } from './lib.mjs';

const evil = '<img src=x onerror=alert(1)> <script>alert(1)</script> [x](javascript:alert(1)) [d](data:text/html,hi) ![i](https://tracker.example/p.png) <a href="javascript:alert(1)">y</a> **fine**';

export const tests = {
  TestCase87_AgentTextIsNeverMarkup: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      const asked = [];
      page.on('request', (r) => asked.push(r.url()));
      page.on('dialog', (d) => d.dismiss().then(() => asked.push('dialog')));
      await send(page, `SAY ${evil}`);
      await idle(page);
      const raw = (u) => `RAW ${JSON.stringify(u)}`;
      await send(page, raw({ sessionUpdate: 'tool_call', toolCallId: 'x', title: evil, kind: 'execute', status: 'completed', locations: [{ path: evil }], content: [{ type: 'content', content: { type: 'text', text: evil } }, { type: 'diff', path: evil, oldText: evil, newText: `${evil}!` }] }));
      await idle(page);
      await send(page, raw({ sessionUpdate: 'session_info_update', title: evil }));
      await idle(page);
      await send(page, raw({ sessionUpdate: 'agent_message_chunk', content: { type: 'image', mimeType: 'image/svg+xml', data: Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>').toString('base64') } }));
      await idle(page);
      await page.locator('.tool summary').first().click();
      const inside = page.locator('.scroll, .sidebar, .header');
      check((await page.locator('.scroll script, .scroll iframe, .scroll [onerror], .scroll [onload]').count()) === 0, 'no markup of the agent in the page');
      check((await page.locator('.scroll img').count()) === 0, 'no image is loaded');
      const links = await inside.locator('a').evaluateAll((as) => as.map((a) => a.getAttribute('href')));
      check(links.every((h) => h.startsWith('https://tracker.example/') || h.startsWith('#/s/')), `only web links: ${links}`);
      check((await answers(page))[0].includes('<img src=x onerror=alert(1)>'), 'the text is shown as it is');
      check((await page.locator('.header h1').textContent()).includes('<img'), 'the title too');
      check(asked.every((u) => u.startsWith('http://127.0.0.1') || u.startsWith('ws://127.0.0.1')), `nothing left the page: ${asked}`);
      await shot(page, 'hostile');
    }),

  TestCase91_UnknownUpdatesAreCards: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      for (const kind of ['state_update', '_x']) {
        await send(page, `RAW ${JSON.stringify({ sessionUpdate: kind, some: { thing: [1, 2] } })}`);
        await idle(page);
      }
      await send(page, `RAW ${JSON.stringify({ sessionUpdate: 'notice', severity: 'warning', title: 'Careful now' })}`);
      await idle(page);
      check((await page.locator('.unknown').count()) === 2, 'two cards');
      check((await page.locator('.quiet.warning').textContent()).includes('Careful now'), 'a notice is a quiet line');
      await page.locator('.unknown summary').first().click();
      check((await page.locator('.unknown .code').textContent()).includes('"thing"'), 'what was in it can be seen');
      await send(page, 'still there');
      await idle(page);
      check((await answers(page)).at(-1).includes('still there'), 'the session goes on');
    }),

  TestCase94_BigOutputsDoNotFreezeThePage: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      const big = Array.from({ length: 60_000 }, (_, i) => `line ${i}`).join('\n');
      const other = Array.from({ length: 60_000 }, (_, i) => `other ${i}`).join('\n');
      await send(page, `RAW ${JSON.stringify({ sessionUpdate: 'tool_call', toolCallId: 'b', title: 'big', status: 'completed', content: [{ type: 'content', content: { type: 'text', text: big } }, { type: 'diff', path: '/w/f', oldText: big, newText: other }] })}`);
      await page.locator('.tool').waitFor();
      await idle(page);
      await eventually('head and tail', async () => (await page.locator('.tool .output .show-all').count()) === 1);
      check((await page.locator('.diff tr').count()) <= 301, 'the diff is cut');
      check((await page.locator('.tool .output').textContent()).includes('line 59999'), 'the tail shows');
      const begin = Date.now();
      await page.locator('#composer').fill('typing still works');
      check(Date.now() - begin < 1_000, 'the page answers at once');
      await page.locator('.tool .output .show-all').click();
      await eventually('all of it', async () => (await page.locator('.tool .output').textContent()).includes('line 30000'));
    }),
};
