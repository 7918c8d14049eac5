// Dark or light: the system's choice until a person makes one.

import type { Keep } from './keep';

export type Theme = 'system' | 'light' | 'dark';

export const themes: readonly Theme[] = ['system', 'light', 'dark'];

export function themeOf(keep: Keep): Theme {
  const v = keep.choice('theme');
  return v === 'light' || v === 'dark' ? v : 'system';
}

export function applyTheme(keep: Keep): void {
  const theme = themeOf(keep);
  const root = document.documentElement;
  if (theme === 'system') delete root.dataset['theme'];
  else root.dataset['theme'] = theme;
}

export function setTheme(keep: Keep, theme: Theme): void {
  keep.setChoice('theme', theme === 'system' ? undefined : theme);
  applyTheme(keep);
}
