import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { App } from '../store/app';

export const AppContext = createContext<App | undefined>(undefined);

export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error('no App above this component');
  return app;
}
