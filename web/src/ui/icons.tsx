// Line icons on a 20 by 20 grid. They are decoration: the button around them has the name.

import type { ComponentChildren } from 'preact';

function Icon({ children }: { children: ComponentChildren }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" width="18" height="18" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false">
      {children}
    </svg>
  );
}

const path = (d: string) => () => (
  <Icon>
    <path d={d} />
  </Icon>
);

export const Plus = path('M10 4v12M4 10h12');
export const Menu = path('M3 5.5h14M3 10h14M3 14.5h14');
export const Close = path('M5 5l10 10M15 5L5 15');
export const Check = path('M4 10.5l4 4 8-9');
export const Send = path('M10 16V4M5 9l5-5 5 5');
export const Chevron = path('M7.5 5l5 5-5 5');
export const Down = path('M10 4v12M5 11l5 5 5-5');
export const Copy = path('M7 7V4.5A1.5 1.5 0 0 1 8.5 3h7A1.5 1.5 0 0 1 17 4.5v7a1.5 1.5 0 0 1-1.5 1.5H13M4.5 7h7A1.5 1.5 0 0 1 13 8.5v7a1.5 1.5 0 0 1-1.5 1.5h-7A1.5 1.5 0 0 1 3 15.5v-7A1.5 1.5 0 0 1 4.5 7z');
export const Trash = path('M4 5.5h12M8 5.5V4h4v1.5M5.5 5.5l.7 10.5h7.6l.7-10.5M8.5 8.5v5M11.5 8.5v5');
export const Folder = path('M3 6a1.5 1.5 0 0 1 1.5-1.5h3.2l1.8 2h6A1.5 1.5 0 0 1 17 8v6.5a1.5 1.5 0 0 1-1.5 1.5h-11A1.5 1.5 0 0 1 3 14.5z');
export const Clip = path('M14.5 9.5l-5 5a3.2 3.2 0 0 1-4.5-4.5l6-6a2.1 2.1 0 0 1 3 3l-6 6a1 1 0 0 1-1.5-1.5l5-5');
export const Bell = path('M5 13.5V9a5 5 0 0 1 10 0v4.5l1 1H4zM8.5 16.8a1.7 1.7 0 0 0 3 0');
export const Sun = path('M10 6.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7zM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M15.7 4.3l-1.1 1.1M5.4 14.6l-1.1 1.1');
export const Moon = path('M16.5 11.8A7 7 0 1 1 8.2 3.5a5.5 5.5 0 0 0 8.3 8.3z');
export const Auto = path('M10 3a7 7 0 1 0 0 14zM10 3a7 7 0 0 1 0 14');
export const Keyboard = path('M3 6.5A1.5 1.5 0 0 1 4.5 5h11A1.5 1.5 0 0 1 17 6.5v7a1.5 1.5 0 0 1-1.5 1.5h-11A1.5 1.5 0 0 1 3 13.5zM6 8.3h.01M9 8.3h.01M12 8.3h.01M14.5 8.3h.01M6.5 12h7');
export const Leave = path('M8 4H5.5A1.5 1.5 0 0 0 4 5.5v9A1.5 1.5 0 0 0 5.5 16H8M12.5 6.5L16 10l-3.5 3.5M16 10H8');
export const Warn = path('M10 3.5l7.2 12.5H2.8zM10 8.5v3.2M10 14h.01');
export const Info = path('M10 3a7 7 0 1 1 0 14 7 7 0 0 1 0-14zM10 9.3V14M10 6.6h.01');
export const Shield = path('M10 3l6 2.2v4.3c0 3.8-2.5 6.4-6 7.5-3.5-1.1-6-3.7-6-7.5V5.2z');
export const Question = path('M10 3a7 7 0 1 1 0 14 7 7 0 0 1 0-14zM8 8a2 2 0 1 1 2.8 1.9c-.6.3-.8.7-.8 1.3M10 13.8h.01');
export const Bulb = path('M7.8 14.5h4.4M8.3 17h3.4M10 3a5 5 0 0 1 2.8 9.1c-.4.4-.6.8-.6 1.4H7.8c0-.6-.2-1-.6-1.4A5 5 0 0 1 10 3z');
export const Pencil = path('M4 16l.8-3.2 8.4-8.4a1.4 1.4 0 0 1 2 0l.4.4a1.4 1.4 0 0 1 0 2l-8.4 8.4z');
export const Eye = path('M2.5 10S5 5 10 5s7.5 5 7.5 5-2.5 5-7.5 5-7.5-5-7.5-5zM10 7.8a2.2 2.2 0 1 1 0 4.4 2.2 2.2 0 0 1 0-4.4z');
export const Search = path('M9 4a5 5 0 1 1 0 10A5 5 0 0 1 9 4zM12.8 12.8L16.5 16.5');
export const Terminal = path('M4.5 4h11A1.5 1.5 0 0 1 17 5.5v9a1.5 1.5 0 0 1-1.5 1.5h-11A1.5 1.5 0 0 1 3 14.5v-9A1.5 1.5 0 0 1 4.5 4zM6 8l2.2 2L6 12M10 12.5h3.5');
export const Globe = path('M10 3a7 7 0 1 1 0 14 7 7 0 0 1 0-14zM3 10h14M10 3c2 2 2.8 4.4 2.8 7S12 15 10 17c-2-2-2.8-4.4-2.8-7S8 5 10 3z');
export const Move = path('M4 10h12M12 6l4 4-4 4');
export const Wrench = path('M12.2 7.8a3.4 3.4 0 0 1 4.4-3.9l-2.1 2.1.3 1.7 1.7.3 2-2a3.4 3.4 0 0 1-4.4 4.3L8 16.4a1.7 1.7 0 0 1-2.4-2.4z');
export const List = path('M7.5 5.5H16M7.5 10H16M7.5 14.5H16M4 5.5h.01M4 10h.01M4 14.5h.01');
export const Plug = path('M7 3v4M13 3v4M5 7h10v2.5a5 5 0 0 1-10 0zM10 14.5V17');
export const Stop = () => (
  <svg class="icon" viewBox="0 0 20 20" width="18" height="18" aria-hidden="true" focusable="false">
    <rect x="5.5" y="5.5" width="9" height="9" rx="2" fill="currentColor" />
  </svg>
);

/** The mark of the product: a gate with a way through it. */
export const Mark = () => (
  <svg class="mark" viewBox="0 0 32 32" width="28" height="28" fill="none" stroke-linecap="round" stroke-width="3" aria-hidden="true" focusable="false">
    <rect class="mark-ground" width="32" height="32" rx="8" />
    <path class="mark-arch" d="M9 23V13a7 7 0 0 1 14 0v10" />
    <path class="mark-way" d="M16 14v9" />
  </svg>
);
