// Base styles: a constructed sheet, so that a page may forbid inline styles. Logical properties support both directions.

export const sheet = new CSSStyleSheet();

sheet.replaceSync(`
:host {
  --text: light-dark(#16181d, #eceef2); --muted: light-dark(#5b6270, #a2a9b8); --border: light-dark(#e8eaef, #262a33);
  --surface: light-dark(#fff, #14161b); --popup: light-dark(#fff, #1f232b); --hover: light-dark(#f5f6f9, #1b1e25);
  --accent: light-dark(#4338ca, #a5b0ff); --on-accent: light-dark(#fff, #14161b); --tint: light-dark(#f4f4ff, #1b1d2c);
  --shadow: 0 1px 2px rgb(0 0 0 / .08), 0 6px 24px rgb(0 0 0 / .16);
  display: flex; flex-direction: column; position: relative; block-size: 100%; max-block-size: 100dvh; min-inline-size: 0;
  color-scheme: light dark; color: var(--text); background: var(--surface);
  font: 15px/1.4 system-ui, sans-serif; text-align: start; container-type: inline-size;
}
:host([theme="light"]) { color-scheme: light; }
:host([theme="dark"]) { color-scheme: dark; }
:host([hidden]), [hidden] { display: none !important; }
* { box-sizing: border-box; margin: 0; }
button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; text-align: start; }
svg { inline-size: 20px; block-size: 20px; flex: none; fill: none; stroke: currentColor; stroke-width: 1.8; stroke-linecap: round; stroke-linejoin: round; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.sr-only { position: absolute; inline-size: 1px; block-size: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }

header { display: flex; align-items: center; justify-content: space-between; gap: 12px; padding: 18px 24px 14px; border-block-end: 1px solid var(--border); }
.gear { display: grid; place-items: center; flex: none; inline-size: 32px; block-size: 32px; margin-block: -4px; margin-inline-end: -10px; border-radius: 50%; color: var(--muted); }
.gear:hover { color: var(--text); background: var(--border); }
.title { display: flex; align-items: center; gap: 10px; font-size: 19px; font-weight: 680; letter-spacing: -.012em; }
.badge { min-inline-size: 24px; padding: 2px 8px; border-radius: 12px; font-size: 12.5px; line-height: 20px; font-weight: 650; letter-spacing: 0;
  text-align: center; font-variant-numeric: tabular-nums; color: var(--on-accent); background: var(--accent); }
.notice { display: flex; align-items: center; gap: 10px; padding: 10px 24px; font-size: 13.5px; color: var(--muted);
  background: var(--hover); border-block-end: 1px solid var(--border); }
.notice svg { inline-size: 18px; block-size: 18px; }
.link { flex: none; font-weight: 620; color: var(--accent); border-radius: 4px; min-block-size: 24px; }

.content { position: relative; flex: 1; min-block-size: 0; display: flex; flex-direction: column; }
.scroller { flex: 1; min-block-size: 0; overflow: hidden auto; overflow-anchor: none; overscroll-behavior: contain; position: relative; }
.list { padding: 0; list-style: none; }
.row { position: relative; display: grid; grid-template-columns: 44px minmax(0, 1fr) 32px; align-items: center; gap: 14px;
  padding-block: 13px; padding-inline: 24px 14px; border-block-end: 1px solid var(--border); --row-color: var(--surface); background: var(--row-color); }
.highlighted, .unread { --row-color: var(--tint); }
.row:hover { --row-color: var(--hover); }
.open { display: block; inline-size: 100%; border-radius: 4px; }
.open::after { content: ""; position: absolute; inset: 0; }
.open:focus-visible { outline: none; }
.open:focus-visible::after { outline: 2px solid var(--accent); outline-offset: -3px; border-radius: 10px; }
.text { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3; overflow: clip; overflow-wrap: anywhere; text-align: -webkit-match-parent; text-align: match-parent;
  font-variant-numeric: tabular-nums; }
.unread .text { font-weight: 620; }
.grown { animation: grown 1.2s ease-out; }
@keyframes grown { from { color: var(--accent); } }
.details { display: flex; margin-block-start: 2px; font-size: 13px; color: var(--muted); white-space: nowrap; }
.names { overflow: hidden; text-overflow: ellipsis; }
.names:not(:empty) + time::before { content: "·"; margin-inline: 5px; }
time { position: relative; flex: none; font-variant-numeric: tabular-nums; }
.dot { position: absolute; inset-inline-start: 8px; inset-block-start: calc(50% - 4px); inline-size: 8px; block-size: 8px; border-radius: 50%; }
.unread .dot { background: var(--accent); }
.more { position: relative; display: grid; place-items: center; inline-size: 32px; block-size: 32px; border-radius: 50%; color: var(--muted); }
.more:hover, .more[aria-expanded="true"] { color: var(--text); background: var(--border); }
.more svg { stroke-width: 2.6; }
@media (hover: hover) {
  .more { opacity: 0; }
  .row:hover .more, .row:focus-within .more { opacity: 1; }
}

.avatars { position: relative; inline-size: 44px; block-size: 44px; }
.avatar { position: absolute; inset: 0; display: grid; place-items: center; overflow: clip; border-radius: 50%; font-size: 17px; font-weight: 620;
  line-height: 1; color: light-dark(oklch(.42 .11 var(--hue)), oklch(.9 .06 var(--hue))); background: light-dark(oklch(.92 .045 var(--hue)), oklch(.37 .06 var(--hue))); }
.avatar:not(:only-child) { inline-size: 29px; block-size: 29px; font-size: 12px; box-shadow: 0 0 0 2px var(--row-color); }
.avatar:first-child:not(:only-child) { z-index: 1; inset-block: auto 0; inset-inline: 0 auto; }
.avatar:last-child:not(:only-child) { inset-block: 0 auto; inset-inline: auto 0; }
${[25, 75, 125, 165, 205, 245, 285, 335].map((hue, color) => `[data-color="${color}"] { --hue: ${hue}; }`).join("\n")}

.pill { position: absolute; z-index: 2; inset-block-start: 12px; inset-inline: 0; inline-size: fit-content; margin-inline: auto; display: flex; align-items: center; gap: 6px;
  padding-block: 8px; padding-inline: 12px 16px; border-radius: 20px; font-size: 14px; font-weight: 620; font-variant-numeric: tabular-nums;
  color: var(--on-accent); background: var(--accent); box-shadow: var(--shadow); animation: arrive .25s ease-out; }
.pill svg { inline-size: 16px; block-size: 16px; stroke-width: 2.4; }
@keyframes arrive { from { opacity: 0; translate: 0 -8px; } }
.toast { position: absolute; z-index: 4; inset-block-end: 16px; inset-inline: 16px; inline-size: fit-content; margin-inline: auto; display: flex; gap: 20px; align-items: center;
  padding: 11px 18px; border-radius: 12px; font-size: 14px; color: var(--text); background: var(--popup); border: 1px solid var(--border); box-shadow: var(--shadow); }

.state { display: grid; justify-items: center; align-content: center; gap: 6px; min-block-size: 100%; padding: 48px 24px; text-align: center; color: var(--muted); }
.picture { display: grid; place-items: center; inline-size: 72px; block-size: 72px; margin-block-end: 10px; border-radius: 50%; background: var(--hover); }
.picture svg { inline-size: 32px; block-size: 32px; stroke-width: 1.5; }
.state-title { font-size: 17px; font-weight: 640; color: var(--text); }
.primary { margin-block-start: 14px; padding: 9px 20px; border-radius: 20px; font-weight: 620; color: var(--on-accent); background: var(--accent); }
.footer { min-block-size: 1px; text-align: center; font-size: 14px; color: var(--muted); }
.older, .end { display: inline-block; margin: 14px; padding: 8px 18px; border-radius: 18px; }
.older { font-weight: 620; color: var(--accent); }
.older:hover { background: var(--hover); }
.end { font-size: 13px; }

.placeholder { display: grid; grid-template: 16px 12px / 44px 1fr; gap: 9px 14px; align-content: center; padding: 17px 24px; }
.placeholder span { border-radius: 6px; background: var(--border); animation: breathe 1.6s ease-in-out infinite alternate; }
.placeholder span:first-child { grid-row: span 2; block-size: 40px; inline-size: 40px; border-radius: 50%; }
.placeholder span:nth-child(2) { inline-size: 78%; }
.placeholder span:nth-child(3) { inline-size: 40%; }
@keyframes breathe { to { opacity: .45; } }

@container (max-width: 420px) {
  header { padding-inline: 16px; }
  .row { gap: 10px; padding-inline: 18px 6px; }
  .dot { inset-inline-start: 5px; }
  .notice { padding-inline: 16px; }
}
@media (prefers-reduced-motion: reduce) { * { animation: none !important; } }
@media (forced-colors: active) {
  .unread .dot { background: Highlight; forced-color-adjust: none; }
  .badge, .pill, .avatar, .primary, .picture { border: 1px solid; }
}
`);
