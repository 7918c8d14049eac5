import './prelude';
import { render } from 'preact';
import { App } from './store/app';
import { applyTheme } from './store/theme';
import { Root } from './ui/Root';
import './styles/tokens.css';
import './styles/base.css';
import './styles/shell.css';
import './styles/chat.css';
import './styles/markdown.css';
import './styles/cards.css';
import './styles/tools.css';
import './styles/composer.css';

const app = new App();
applyTheme(app.keep);
const root = document.getElementById('app');
if (root) render(<Root app={app} />, root);
void app.start();
