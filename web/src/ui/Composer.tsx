import { useSignal, type Signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { attachment, contentMax, weight, type Attachment } from '../store/attach';
import type { AvailableCommand, ContentBlock, InitInfo } from '../wire/types';
import { useApp } from './context';
import * as icons from './icons';
import { bytes } from './parts';
import { filterCommands, SlashMenu } from './SlashMenu';

export interface ComposerProps {
  /** Under which the draft is kept. */
  draftId: string;
  /** Beside the conversation that is shown: the keyboard's message box is another one. */
  aside?: boolean;
  init: InitInfo | undefined;
  commands: readonly AvailableCommand[];
  placeholder: string;
  running: boolean;
  disabled?: boolean;
  onSend: (blocks: ContentBlock[]) => void;
  onStop?: () => void;
  /** Selectors under the text. */
  children?: ComponentChildren;
}

export function Composer(props: ComposerProps) {
  const app = useApp();
  const area = useRef<HTMLTextAreaElement>(null);
  const text = useSignal(app.keep.draft(props.draftId));
  const files = useSignal<readonly Attachment[]>([]);
  const wrong = useSignal<string | undefined>(undefined);
  const chosen = useSignal(0);
  const closed = useSignal(false);
  const over = useSignal(false);

  const set = (value: string) => {
    text.value = value;
    app.keep.setDraft(props.draftId, value);
  };

  useEffect(() => {
    if (!props.aside && matchMedia('(pointer: fine)').matches) area.current?.focus();
  }, [props.draftId]);
  // A prompt that was taken out of the queue comes back here, in front of what is being typed.
  useEffect(() => {
    const back = app.handedBack.value;
    if (back?.draftId !== props.draftId) return;
    app.handedBack.value = undefined;
    set(text.value ? `${back.text}\n\n${text.value}` : back.text);
    area.current?.focus();
  });
  useLayoutEffect(() => {
    const t = area.current;
    if (!t) return;
    t.style.height = 'auto';
    t.style.height = `${Math.min(t.scrollHeight, innerHeight * 0.4)}px`;
  }, [text.value]);

  const menu = closed.value ? [] : filterCommands(props.commands, text.value);
  const pick = (c: AvailableCommand) => {
    set(`/${c.name} `);
    area.current?.focus();
  };

  const add = async (list: Iterable<File>) => {
    const { init } = props;
    if (!init) return;
    wrong.value = undefined;
    for (const f of list) {
      try {
        const a = await attachment(f, init);
        if (weight([...files.value.map((x) => x.block), a.block]) > contentMax(init.gate.frameBytes)) {
          throw new Error(`Together the attachments are too large: the gateway takes messages of at most ${bytes(init.gate.frameBytes)}.`);
        }
        files.value = [...files.value, a];
      } catch (e) {
        wrong.value = e instanceof Error ? e.message : String(e);
      }
    }
  };

  const send = () => {
    const t = text.value.trim();
    if (props.disabled || (t === '' && files.value.length === 0)) return;
    const blocks: ContentBlock[] = files.value.map((f) => f.block);
    if (t !== '') blocks.push({ type: 'text', text: t });
    const max = props.init ? contentMax(props.init.gate.frameBytes) : Infinity;
    if (weight(blocks) > max) {
      wrong.value = `This message is too large: the gateway takes at most ${bytes(max)}.`;
      return;
    }
    props.onSend(blocks);
    set('');
    files.value = [];
    wrong.value = undefined;
  };

  const onKey = (e: KeyboardEvent) => {
    if (e.isComposing) return;
    if (menu.length > 0 && !e.altKey) {
      if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
        e.preventDefault();
        chosen.value = (chosen.value + (e.key === 'ArrowDown' ? 1 : menu.length - 1)) % menu.length;
        return;
      }
      const c = menu[chosen.value];
      const whole = c !== undefined && text.value === `/${c.name}`;
      if (c && (e.key === 'Tab' || (e.key === 'Enter' && !e.shiftKey && !whole))) {
        e.preventDefault();
        pick(c);
        return;
      }
      if (e.key === 'Escape') {
        e.preventDefault();
        closed.value = true;
        return;
      }
    }
    if (e.key === 'Enter' && !e.shiftKey) {
      e.preventDefault();
      send();
    }
  };

  const empty = text.value.trim() === '' && files.value.length === 0;
  return (
    <form
      class={`composer ${over.value ? 'drop' : ''}`}
      onSubmit={(e) => (e.preventDefault(), send())}
      onDragOver={(e) => (e.preventDefault(), (over.value = true))}
      onDragLeave={() => (over.value = false)}
      onDrop={(e) => {
        e.preventDefault();
        over.value = false;
        void add(e.dataTransfer?.files ?? []);
      }}
    >
      {menu.length > 0 ? <SlashMenu commands={menu} chosen={Math.min(chosen.value, menu.length - 1)} onPick={pick} /> : null}
      {files.value.length > 0 ? <Attached files={files} /> : null}
      <textarea
        id={props.aside ? 'composer-aside' : 'composer'}
        ref={area}
        rows={1}
        value={text.value}
        placeholder={props.placeholder}
        aria-label={props.aside ? 'Message to the main conversation' : 'Message'}
        aria-autocomplete="list"
        aria-controls={menu.length > 0 ? 'slash-menu' : undefined}
        aria-activedescendant={menu.length > 0 ? `slash-${Math.min(chosen.value, menu.length - 1)}` : undefined}
        onInput={(e) => {
          set(e.currentTarget.value);
          chosen.value = 0;
          closed.value = false;
        }}
        onKeyDown={onKey}
        onPaste={(e) => {
          const pasted = [...(e.clipboardData?.files ?? [])];
          if (pasted.length === 0) return;
          e.preventDefault();
          void add(pasted);
        }}
      />
      <div class="composer-row">
        <AttachButton onFiles={(f) => void add(f)} disabled={!props.init} />
        <div class="composer-extra">{props.children}</div>
        {props.running && props.onStop ? (
          <button type="button" class="stop" onClick={props.onStop} title="Stop (Esc)" aria-label="Stop">
            <icons.Stop />
            <span>Stop</span>
          </button>
        ) : null}
        {!props.running || !empty ? (
          <button type="submit" class="send" disabled={empty || props.disabled === true} aria-label={props.running ? 'Queue the message' : 'Send'} title={props.running ? 'Runs when the turn has ended' : 'Send (Enter)'}>
            <icons.Send />
          </button>
        ) : null}
      </div>
      {wrong.value ? (
        <p class="field-error" role="alert">
          {wrong.value}
        </p>
      ) : null}
    </form>
  );
}

function AttachButton({ onFiles, disabled }: { onFiles: (f: File[]) => void; disabled: boolean }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" class="ghost icon-only" aria-label="Attach files" title="Attach files" disabled={disabled} onClick={() => input.current?.click()}>
        <icons.Clip />
      </button>
      <input
        ref={input}
        type="file"
        multiple
        class="visually-hidden"
        tabIndex={-1}
        aria-hidden="true"
        onChange={(e) => {
          onFiles([...(e.currentTarget.files ?? [])]);
          e.currentTarget.value = '';
        }}
      />
    </>
  );
}

function Attached({ files }: { files: Signal<readonly Attachment[]> }) {
  return (
    <ul class="attached" aria-label="Attachments">
      {files.value.map((f, i) => (
        <li key={i}>
          <icons.Clip />
          <span class="attached-name">{f.name}</span>
          <span class="muted">{bytes(f.size)}</span>
          <button type="button" class="ghost icon-only" aria-label={`Remove ${f.name}`} onClick={() => (files.value = files.value.filter((x) => x !== f))}>
            <icons.Close />
          </button>
        </li>
      ))}
    </ul>
  );
}
