import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { App } from '../store/app';
import type { Session } from '../store/session';

export const AppContext = createContext<App | undefined>(undefined);

export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error('no App above this component');
  return app;
}

/** The session of the pane that a component is in. */
export const SessionContext = createContext<Session | undefined>(undefined);
