import fs from 'node:fs';
import { createRequire } from 'node:module';
import { check, connected, eventually, idle, launch, newPage, Gateway, send, shot, withPage } from './lib.mjs';

const axe = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

// axe-core needs to be evaluated in the page, which the page's own policy forbids: the browser is told to look away for
// these tests alone, and the other tests prove the policy.
async function audit(page, view) {
  await page.evaluate(axe);
  const result = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }));
  const found = result.violations.map((v) => `${v.id}: ${v.help} (${v.nodes.map((n) => `${n.target} ${n.failureSummary?.split('\n')[1] ?? ''}`).join('; ').slice(0, 600)})`);
  check(found.length === 0, `no accessibility violation in ${view}, got\n${found.join('\n')}`);
}

async function everyView(bin, options, name) {
  await withPage(bin, { bypassCSP: true, ...options }, async ({ page }) => {
    await connected(page);
    await audit(page, `${name}: new chat`);
    await send(page, 'THINK PLAN TOOL CODE everything');
    await idle(page);
    await eventually('coloured', async () => (await page.locator('.code .hljs-keyword').count()) > 0);
    await page.locator('.thought summary').click();
    await audit(page, `${name}: conversation`);
    await shot(page, `${name}-conversation`);
    await send(page, 'ASK something');
    await page.locator('.ask').waitFor();
    await audit(page, `${name}: permission`);
    await shot(page, `${name}-permission`);
    await page.keyboard.press('Alt+1');
    await idle(page);
    await send(page, 'ELICIT');
    await page.locator('.elicitation').waitFor();
    await audit(page, `${name}: elicitation`);
    await page.getByRole('button', { name: 'Decline' }).click();
    await idle(page);
    await send(page, 'FAIL');
    await page.locator('.problem').waitFor();
    await audit(page, `${name}: error`);
    await page.locator('#composer').fill('/');
    await page.locator('.slash').waitFor();
    await audit(page, `${name}: slash menu`);
    await page.keyboard.press('Escape');
    await page.locator('#composer').fill('');
    await page.locator('.header').click();
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
    await audit(page, `${name}: help`);
  });
}

export const tests = {
  TestP1_AxeLight: (bin) => everyView(bin, { colorScheme: 'light' }, 'light'),
  TestP1_AxeDark: (bin) => everyView(bin, { colorScheme: 'dark' }, 'dark'),

  TestP1_AxeLogin: async (bin) => {
    const g = await Gateway.start(bin);
    const context = await (await launch()).newContext({ bypassCSP: true });
    try {
      const page = await newPage(context);
      await page.goto(`${g.url}/?login=failed`);
      await page.locator('#token').waitFor();
      await audit(page, 'login');
    } finally {
      await context.close();
      await g.stop();
      g.remove();
    }
  },

  TestP1_Phone: (bin) =>
    withPage(bin, { bypassCSP: true, viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }, async ({ page }) => {
      await shot(page, 'phone-empty');
      await send(page, 'THINK TOOL CODE on a phone');
      await idle(page);
      await send(page, 'ASK on a phone');
      await page.locator('.ask').waitFor();
      await shot(page, 'phone-permission');
      const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
      check(!wide, 'nothing is wider than the screen');
      await page.getByRole('button', { name: 'Allow', exact: false }).first().click();
      await idle(page);
      await shot(page, 'phone');
      check(!(await page.locator('.sidebar').isVisible()), 'the list is away');
      await page.getByRole('button', { name: 'Open the list' }).click();
      await page.locator('.session a').first().waitFor();
      await new Promise((r) => setTimeout(r, 300));
      await shot(page, 'phone-drawer');
      await audit(page, 'phone drawer');
      await page.locator('.scrim').click({ position: { x: 380, y: 400 } });
      await eventually('the list is away again', async () => !(await page.locator('.sidebar').isVisible()));
    }),

  TestP1_KeyboardOnly: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      check(await page.locator('#composer').evaluate((e) => e === document.activeElement), 'the message box has the focus');
      await page.keyboard.type('ASK by keyboard');
      await page.keyboard.press('Enter');
      await page.locator('.ask').waitFor();
      // Through the card: details, then the choices.
      for (let i = 0; i < 12; i++) {
        await page.keyboard.press('Tab');
        if (await page.evaluate(() => document.activeElement.textContent.startsWith('Reject'))) break;
      }
      check(await page.evaluate(() => document.activeElement.matches('[data-choice]')), 'Tab reaches the choices');
      await page.keyboard.press('Enter');
      await idle(page);
      check(await page.locator('#composer').evaluate((e) => e === document.activeElement), 'the focus is back');
      await page.keyboard.press('Alt+KeyN');
      await page.locator('.newchat').waitFor();
      await eventually('listed', async () => (await page.locator('.session').count()) === 1);
      await page.keyboard.press('Control+KeyK');
      await eventually('search has the focus', async () => page.locator('#session-search').evaluate((e) => e === document.activeElement));
      await page.keyboard.type('zzz');
      await page.getByText('No session matches').waitFor();
      await page.locator('#session-search').fill('');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await page.locator('.turn').first().waitFor();
    }),

  TestP1_ThemeSwitch: (bin) =>
    withPage(bin, { colorScheme: 'light' }, async ({ page }) => {
      const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      const light = await ground();
      await page.getByRole('button', { name: /Colours: system/ }).click();
      await page.getByRole('button', { name: /Colours: light/ }).click();
      const dark = await ground();
      check(dark !== light, 'dark is another colour');
      await page.reload();
      await page.locator('#composer').waitFor();
      check((await ground()) === dark, 'the choice is kept');
      await shot(page, 'dark-empty');
    }),
};
