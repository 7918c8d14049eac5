import { render } from 'preact';
import { config } from 'zod';
import { App } from './store/app';
import { applyTheme } from './store/theme';
import { Root } from './ui/Root';
import './styles/tokens.css';
import './styles/base.css';
import './styles/shell.css';
import './styles/chat.css';
import './styles/cards.css';
import './styles/composer.css';

// The SDK validates with zod, which would try `new Function`: the content security policy forbids it and reports the try.
config({ jitless: true });

const app = new App();
applyTheme(app.keep);
const root = document.getElementById('app');
if (root) render(<Root app={app} />, root);
void app.start();
