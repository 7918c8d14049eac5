import { check, eventually, Gateway, launch, newPage, shot } from './lib.mjs';

async function withBrowser(bin, run) {
  const g = await Gateway.start(bin);
  const context = await (await launch()).newContext({ viewport: { width: 1280, height: 800 } });
  try {
    const page = await newPage(context);
    await run(g, page, context);
    check(page.faults.length === 0, `no policy violation, got ${page.faults}`);
  } finally {
    await context.close();
    await g.stop();
    g.remove();
  }
}

export const tests = {
  TestT1_TokenLogin: (bin) =>
    withBrowser(bin, async (g, page) => {
      await page.goto(`${g.url}/`);
      await page.locator('#token').waitFor();
      await shot(page, 'login');
      await page.locator('#token').fill('wrong');
      await page.keyboard.press('Enter');
      await page.locator('.field-error').waitFor();
      check((await page.locator('.field-error').textContent()).includes('not known'), 'a wrong token is named');
      await page.locator('#token').fill(g.token);
      await page.keyboard.press('Enter');
      await page.locator('.newchat #composer').waitFor();
      await eventually('the agent is connected', async () => (await page.locator('#composer').getAttribute('placeholder')).includes('Demo'));
      await shot(page, 'empty');
      await page.getByRole('button', { name: 'Log out' }).click();
      await page.locator('#token').waitFor();
      await page.reload();
      await page.locator('#token').waitFor();
    }),

  TestT1_LoginLinkWorksOnce: (bin) =>
    withBrowser(bin, async (g, page, context) => {
      const link = g.url + (await g.loginPath());
      await page.goto(link);
      await page.locator('.newchat').waitFor();
      check(!page.url().includes('ticket'), 'the ticket is gone from the address');
      await page.reload();
      await page.locator('.newchat').waitFor();
      await context.clearCookies();
      await page.goto(link);
      await page.locator('[role=alert]').waitFor();
      check((await page.locator('[role=alert]').textContent()).includes('used before'), 'a used link is explained');
    }),
};
