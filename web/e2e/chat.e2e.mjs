import fs from 'node:fs';
import path from 'node:path';
import { answers, check, connected, eventually, idle, send, shot, type, withPage } from './lib.mjs';

const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FAAhKDveksOjmAAAAAElFTkSuQmCC', 'base64');

export const tests = {
  TestP2_StreamsAnAnswer: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await send(page, 'SLOW:12x120 words');
      await page.locator('.message .md').first().waitFor();
      const early = (await answers(page))[0];
      await shot(page, 'streaming');
      await idle(page);
      const late = (await answers(page))[0];
      check(late.startsWith(early) && late.length > early.length, `the answer grew: ${early} | ${late}`);
      for (let i = 1; i <= 12; i++) check(late.split(`tick ${i}/12`).length === 2, `tick ${i} once in ${late}`);
      check(/^#\/s\/.+/.test(new URL(page.url()).hash), 'the address names the session');
      await eventually('the session is listed', async () => (await page.locator('.session a[aria-current=page]').count()) === 1);
    }),

  TestP2_RendersMarkdownThoughtPlanAndTool: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await send(page, 'THINK PLAN TOOL CODE please');
      await idle(page);
      await page.locator('.thought').waitFor();
      check((await page.locator('.plan-list .completed').count()) === 4, 'the plan is done');
      check((await page.locator('.tool .diff tr.add').count()) > 0, 'the diff of the tool shows');
      check((await page.locator('.md table').count()) === 1 && (await page.locator('.md ol li').count()) === 3, 'table and list');
      await eventually('the code is coloured', async () => (await page.locator('.code .hljs-keyword').count()) > 0);
      await page.locator('.tool').scrollIntoViewIfNeeded();
      await shot(page, 'tool-diff');
      await page.locator('.thought summary').click();
      await page.locator('.thought .md').waitFor();
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
      await page.locator('.code .copy').click();
      check((await page.evaluate(() => navigator.clipboard.readText())).includes('func Greet'), 'the code is copied');
    }),

  TestP2_PermissionAllowedAndRejected: (bin) =>
    withPage(bin, {}, async ({ page, g }) => {
      await send(page, 'ASK first line');
      await page.locator('.ask').waitFor();
      check((await page.locator('.ask [data-choice]').first().textContent()).startsWith('Allow'), 'allow comes first');
      check(await page.locator('.ask').evaluate((e) => e === document.activeElement), 'the card has the focus');
      await shot(page, 'permission');
      await page.keyboard.press('Alt+1');
      await idle(page);
      const file = path.join(g.root, 'demo.txt');
      check(fs.readFileSync(file, 'utf8').includes('first line'), 'the allowed change was made');
      await send(page, 'ASK second line');
      await page.locator('.ask').waitFor();
      await page.getByRole('button', { name: 'Reject', exact: false }).first().click();
      await idle(page);
      check(!fs.readFileSync(file, 'utf8').includes('second line'), 'the rejected change was not made');
      check((await page.locator('.ask').count()) === 0, 'no card is left');
    }),

  TestCase45_ElicitationFormAndUrl: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await send(page, 'ELICIT');
      await page.locator('.elicitation').waitFor();
      await shot(page, 'elicitation');
      await page.reload();
      await page.locator('.elicitation').waitFor();
      for (const input of await page.locator('.elicitation input[type=text]').all()) await input.fill('3');
      for (const group of await page.locator('.elicitation fieldset').all()) await group.locator('input').first().check();
      await page.getByRole('button', { name: 'Answer', exact: true }).click();
      await idle(page);
      check((await answers(page)).join().includes('"comment":"3"'), `the answer arrived: ${await answers(page)}`);
      await send(page, 'ELICIT');
      await page.locator('.elicitation').waitFor();
      await page.getByRole('button', { name: 'Decline' }).click();
      await idle(page);
      await send(page, 'ELICIT:url');
      await page.locator('.elicitation a.button').waitFor();
      check((await page.locator('.elicitation a.button').getAttribute('rel')) === 'noopener noreferrer', 'the page cannot reach back');
      await page.getByRole('button', { name: 'Decline' }).click();
      await idle(page);
    }),

  TestV17_StopAndForceStop: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await send(page, 'SLOW:200x100 long');
      await page.locator('.message .md').first().waitFor();
      await page.keyboard.press('Escape');
      await idle(page);
      check((await page.locator('.turn .quiet').last().textContent()) === 'Stopped', 'the turn says that it was stopped');
      await send(page, 'IGNORECANCEL:300x100 stubborn');
      await page.locator('.turn').nth(1).locator('.message').waitFor();
      await page.locator('.composer .stop').click();
      await page.getByRole('button', { name: 'Force stop' }).waitFor({ timeout: 20_000 });
      await shot(page, 'force-stop');
      await page.getByRole('button', { name: 'Force stop' }).click();
      await idle(page);
      // A slow machine needs more than a moment to start the agent again; the page says so then.
      await eventually('the session goes on', async () => {
        await send(page, 'alive?');
        await idle(page);
        return (await answers(page)).at(-1).includes('alive?');
      }, 30_000);
    }),

  TestCase22_QueueIsVisibleEditableAndCancellable: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await send(page, 'SLOW:30x100 first');
      await page.locator('.message').first().waitFor();
      await send(page, 'second');
      await send(page, 'third');
      await send(page, 'fourth');
      await eventually('three are queued', async () => (await page.locator('.outgoing.queued').count()) === 3);
      await shot(page, 'queue');
      await page.locator('.outgoing.queued').nth(1).getByRole('button', { name: 'Cancel' }).click();
      await eventually('two are queued', async () => (await page.locator('.outgoing.queued').count()) === 2);
      await page.locator('.outgoing.queued').nth(1).getByRole('button', { name: 'Edit' }).click();
      await eventually('the text comes back', async () => (await page.locator('#composer').inputValue()) === 'fourth');
      await idle(page);
      const users = await page.locator('.turn .user .bubble').allTextContents();
      check(JSON.stringify(users) === JSON.stringify(['SLOW:30x100 first', 'second']), `only what was left ran: ${users}`);
    }),

  TestP2_ErrorsSayWhatToDo: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await page.locator('.newchat input[list=roots]').fill('relative/path');
      await type(page, 'hello');
      await page.locator('.problem').waitFor();
      await shot(page, 'error-directory');
      check((await page.locator('#composer').inputValue()) === 'hello', 'the message is not lost');
      await page.locator('.newchat input[list=roots]').fill('/nope');
      await page.locator('#composer').press('Enter');
      await eventually('the new error', async () => (await page.locator('.problem').textContent()).includes('/nope'));
    }),

  TestCase70_AgentFailuresAreShown: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await send(page, 'FAIL');
      await page.locator('.problem').waitFor();
      await idle(page);
      await send(page, 'CRASH:3');
      await eventually('the crash is told', async () => (await page.locator('.problem').count()) === 2);
      await shot(page, 'error');
      check(/exit|ended|3/.test(await page.locator('.problem').last().textContent()), 'it says how the agent ended');
      await idle(page);
      await send(page, 'back again');
      await idle(page);
      check((await answers(page)).at(-1).includes('back again'), 'the session goes on after a crash');
    }),

  TestP2_SlashMenuModesAndOptions: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await send(page, 'hello');
      await idle(page);
      await page.locator('#composer').fill('/');
      await page.locator('.slash li').first().waitFor();
      await shot(page, 'slash');
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('Tab');
      check(/^\/\S+ $/.test(await page.locator('#composer').inputValue()), 'the command is taken over');
      await page.locator('#composer').fill('');
      const selects = page.locator('.chip-select');
      check((await selects.count()) > 0, 'the session has options');
      const first = selects.first();
      const other = await first.evaluate((s) => [...s.options].map((o) => o.value).find((v) => v !== s.value));
      await first.selectOption(other);
      await eventually('the option is set', async () => (await first.inputValue()) === other && !(await first.isDisabled()));
      await page.reload();
      await eventually('a reload keeps it', async () => (await page.locator('.chip-select').first().inputValue()) === other);
    }),

  TestP2_AttachesImagesAndFiles: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await connected(page);
      await page.locator('input[type=file]').setInputFiles([
        { name: 'dot.png', mimeType: 'image/png', buffer: png },
        { name: 'notes.md', mimeType: 'text/markdown', buffer: Buffer.from('# Notes\n') },
      ]);
      await eventually('both are there', async () => (await page.locator('.attached li').count()) === 2);
      await send(page, 'look at these');
      await idle(page);
      check((await page.locator('.user img.block-image').count()) === 1, 'the image shows');
      check((await page.locator('.user .chip').textContent()).includes('notes.md'), 'the file shows');
      await page.reload();
      await page.locator('.user img.block-image').waitFor();
    }),

  TestCase11_TooLargeAttachmentsAreRefusedBeforeTheyAreSent: (bin) =>
    withPage(bin, { args: ['--frame-limit', '1MiB'] }, async ({ page }) => {
      await connected(page);
      await page.locator('input[type=file]').setInputFiles([{ name: 'big.txt', mimeType: 'text/plain', buffer: Buffer.alloc(2 << 20, 'x') }]);
      await page.locator('.composer .field-error').waitFor();
      check((await page.locator('.composer .field-error').textContent()).includes('1 MiB'), 'the limit is named');
      await page.locator('#composer').fill('y'.repeat(2 << 20));
      await page.locator('#composer').press('Enter');
      await eventually('a long text too', async () => (await page.locator('.composer .field-error').textContent()).includes('too large'));
    }),

  TestV8_CommandsSwitchTheConversation: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await send(page, 'in the first session');
      await idle(page);
      const address = page.url();
      await type(page, '/new second');
      await eventually('the new session is empty but for its report', async () => (await page.locator('.report').count()) === 1 && !(await page.locator('.column').textContent()).includes('in the first session'));
      await idle(page);
      await shot(page, 'switched');
      await send(page, 'in the second session');
      await idle(page);
      await type(page, '/sessions');
      await eventually('the list', async () => (await page.locator('.report').last().textContent()).includes('in the first session'));
      await idle(page);
      await type(page, '/resume in the first session');
      await eventually('back in the first', async () => (await page.locator('.user .bubble').first().textContent()) === 'in the first session' && (await page.locator('.outgoing').count()) === 0);
      check(!(await page.locator('.column').textContent()).includes('in the second session'), 'only the first shows');
      check(page.url() === address, 'the address stays');
      await page.reload();
      await eventually('a reload shows the same', async () => (await page.locator('.user .bubble').first().textContent()) === 'in the first session');
      check((await page.getByRole('separator', { name: 'Earlier' }).count()) === 1, 'what was replayed is marked');
      await send(page, 'RECALL');
      await idle(page);
      await page.getByRole('separator', { name: 'New from here' }).waitFor();
      check((await answers(page)).at(-1).includes('in the first session'), 'the agent remembers');
    }),

  TestS1_SideConversationAndMerge: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await send(page, 'the main subject');
      await idle(page);
      const main = page.url();
      await type(page, '/side why is that so?');
      await eventually('the side conversation opens by itself', async () => page.url() !== main && (await page.locator('.user .bubble').allTextContents()).includes('why is that so?'));
      await idle(page);
      await shot(page, 'side');
      await type(page, '/merge');
      await idle(page);
      await page.locator('.header').getByRole('button', { name: 'back to the main one' }).click();
      await page.locator('.note').waitFor();
      check(!(await page.locator('.user .bubble').allTextContents()).includes('why is that so?'), 'the main conversation has none of the chatter');
      await eventually('the note waits', async () => (await page.locator('.note').textContent()).includes('next message'));
      await send(page, 'go on');
      await idle(page);
      await eventually('the note is delivered', async () => (await page.locator('.note').textContent()).includes('The agent has it'));
      await shot(page, 'handback');
      await page.reload();
      await page.locator('.note').waitFor();
      check((await page.locator('.note').count()) === 1, 'one card after a reload');
    }),

  TestP1_SideConversationBesideItsParent: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await send(page, 'the main subject');
      await idle(page);
      await type(page, '/side why is that so?');
      const main = page.getByRole('region', { name: 'Main conversation' });
      const side = page.getByRole('region', { name: 'Side conversation' });
      await side.waitFor();
      await eventually('the question is in the side conversation', async () => (await side.locator('.user .bubble').allTextContents()).join() === 'why is that so?');
      check((await main.locator('.user .bubble').first().textContent()) === 'the main subject', 'the main one stays in view');
      await idle(page);
      await main.getByLabel('Message to the main conversation').fill('go on meanwhile');
      await main.getByLabel('Message to the main conversation').press('Enter');
      await eventually('the main one goes on', async () => (await main.locator('.message').count()) === 2);
      await send(page, 'and here too');
      await idle(page);
      check(!(await main.textContent()).includes('and here too') && !(await side.textContent()).includes('go on meanwhile'), 'nothing mixes');
      await shot(page, 'beside');
      await page.reload();
      await eventually('a reload shows both', async () => (await main.locator('.user').count()) === 2 && (await side.locator('.user').count()) > 1);
      check((await side.getByRole('separator', { name: 'From the main conversation' }).count()) === 1, 'what the child inherited is marked');
      await shot(page, 'beside-reloaded');
      await page.setViewportSize({ width: 1100, height: 800 });
      await eventually('one conversation when there is no room', async () => (await page.locator('.pane').count()) === 1);
      await page.setViewportSize({ width: 1280, height: 800 });
      await side.getByRole('button', { name: 'Close the side conversation' }).click();
      await eventually('the main one alone', async () => (await page.locator('.pane').count()) === 1 && (await page.locator('.user .bubble').last().textContent()) === 'go on meanwhile');
    }),

  TestS9_NoteIsSeenBeforeItGoesHome: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await send(page, 'the main subject');
      await idle(page);
      const main = page.url();
      check((await page.getByRole('button', { name: 'Bring a note home' }).count()) === 0, 'only a side conversation has the button');
      await type(page, '/side SLOW:30x150 why is that so?');
      await eventually('the side conversation opens', async () => page.url() !== main);
      const bring = page.getByRole('button', { name: 'Bring a note home' });
      await bring.waitFor();
      check(await bring.isDisabled(), 'not while a turn runs');
      await idle(page);
      await bring.click();
      const form = page.getByRole('form', { name: 'Note for the main conversation' });
      await form.waitFor();
      await shot(page, 'note-preview');
      await form.getByRole('button', { name: 'Discard' }).click();
      await eventually('idle again', async () => await bring.isEnabled());
      await bring.click();
      await form.getByLabel('Note', { exact: true }).fill('x'.repeat(2001));
      check(await form.getByRole('button', { name: 'Send' }).isDisabled(), 'not over the limit');
      await form.getByLabel('Note', { exact: true }).fill('what was found out, in my words');
      await form.getByRole('button', { name: 'Send' }).click();
      await page.locator('.report', { hasText: 'The note went to' }).waitFor();
      check((await form.count()) === 0, 'the card is away');
      await shot(page, 'note-sent');
      await page.locator('.header').getByRole('button', { name: 'back to the main one' }).click();
      await page.locator('.note').waitFor();
      check((await page.locator('.note').count()) === 1, 'the discarded one did not go');
      check((await page.locator('.note').textContent()).includes('what was found out, in my words'), 'as it was edited');
    }),

  TestCase27_BackgroundOutputIsNoTurn: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await send(page, 'BACKGROUND:3500 later');
      await idle(page);
      await eventually('the message from the background', async () => (await answers(page)).join().includes('from the background'));
      await eventually('it is marked', async () => (await page.locator('.turn .quiet', { hasText: 'Background activity' }).count()) === 1);
      check((await page.locator('.composer .stop').count()) === 0, 'nothing seems to run');
    }),

  TestV13_DeletesASession: (bin) =>
    withPage(bin, {}, async ({ page }) => {
      await send(page, 'to be deleted');
      await idle(page);
      await eventually('listed', async () => (await page.locator('.session').count()) === 1);
      await page.locator('.session').hover();
      await page.locator('.session-delete').click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await page.locator('.newchat').waitFor();
      await eventually('gone from the list', async () => (await page.locator('.session').count()) === 0);
    }),
};
