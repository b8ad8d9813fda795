// The items of a digest in its row: collapsed by default.

import { el } from "./dom.js";
import { said } from "./row.js";

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
.inside { margin-block-start: 8px; padding: 0; list-style: none; font-size: 14px; overflow-wrap: anywhere; }
.row:has(.inside:not([hidden])) .avatars { align-self: start; }
.inside li { padding-block: 5px; border-block-start: 1px solid var(--line); }
.inside time { margin-inline-start: 8px; font-size: 13px; white-space: nowrap; color: var(--soft); }
`);

export class Inside {
  list = el("ol", { class: "inside", hidden: true });

  constructor({ button, times }) {
    this.button = button;
    this.times = new Intl.DateTimeFormat(times.lang, { weekday: "short", hour: "numeric", minute: "2-digit" });
    button.parentNode.append(this.list);
    const root = button.getRootNode();
    if (root.adoptedStyleSheets && !root.adoptedStyleSheets.includes(sheet)) root.adoptedStyleSheets.push(sheet);
  }

  show({ bursts }) {
    this.list.replaceChildren(...bursts.map((one) => this.told(one)));
    this.tell();
  }

  told(one) {
    const at = Date.parse(one.opened_at);
    const time = el("time", { datetime: one.opened_at }, Number.isNaN(at) ? "" : this.times.format(at));
    return el("li", { dir: "auto" }, ...said(one, one.names ?? []), time);
  }

  fold() {
    this.list.hidden = !this.list.hidden;
    this.tell();
  }

  tell() {
    this.button.setAttribute("aria-expanded", String(!this.list.hidden));
  }
}
