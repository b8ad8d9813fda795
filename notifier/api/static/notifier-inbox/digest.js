// The bursts of a digest in its row: collapsed by default.

import { el } from "./dom.js";
import { textNodes } from "./row.js";

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
.bursts { margin-block-start: 8px; padding: 0; list-style: none; font-size: 14px; overflow-wrap: anywhere; }
.row:has(.bursts:not([hidden])) .avatars { align-self: start; }
.bursts li { padding-block: 5px; border-block-start: 1px solid var(--border); }
.bursts time { margin-inline-start: 8px; font-size: 13px; white-space: nowrap; color: var(--muted); }
`);

export class DigestBursts {
  list = el("ol", { class: "bursts", hidden: true });

  constructor({ button, times }) {
    this.button = button;
    this.timeFormat = new Intl.DateTimeFormat(times.lang, { weekday: "short", hour: "numeric", minute: "2-digit" });
    button.parentNode.append(this.list);
    const root = button.getRootNode();
    if (root.adoptedStyleSheets && !root.adoptedStyleSheets.includes(sheet)) root.adoptedStyleSheets.push(sheet);
  }

  update({ bursts }) {
    this.list.replaceChildren(...bursts.map((burst) => this.listItem(burst)));
    this.updateExpanded();
  }

  listItem(burst) {
    const openedAt = Date.parse(burst.opened_at);
    const time = el("time", { datetime: burst.opened_at }, Number.isNaN(openedAt) ? "" : this.timeFormat.format(openedAt));
    return el("li", { dir: "auto" }, ...textNodes(burst, burst.names ?? []), time);
  }

  toggle() {
    this.list.hidden = !this.list.hidden;
    this.updateExpanded();
  }

  updateExpanded() {
    this.button.setAttribute("aria-expanded", String(!this.list.hidden));
  }
}
