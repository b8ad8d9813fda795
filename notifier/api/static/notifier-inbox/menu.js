// A menu beside its button: one at a time, closed by Escape, by leaving it and by choosing.

import { button, el } from "./dom.js";

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
.menu { position: absolute; z-index: 3; inset-block-start: calc(50% + 20px); inset-inline-end: 12px; min-inline-size: 168px; max-inline-size: min(272px, calc(100% - 24px)); padding: 6px; border-radius: 12px;
  border: 1px solid var(--border); background: var(--popup); box-shadow: var(--shadow); }
.menu.up { inset-block: auto calc(50% + 20px); }
.menu button { display: block; inline-size: 100%; padding: 8px 12px; border-radius: 7px; overflow-wrap: anywhere; }
.menu button:is(:hover, :focus-visible) { background: var(--hover); outline-offset: -2px; }
`);

export class Menu {
  // `choices` are pairs of a label and an action. The menu opens upward if it does not fit below `opener` in
  // `container`.
  open(opener, choices, container) {
    this.close();
    const items = choices.map(([label, action]) =>
      button({ role: "menuitem", tabindex: "-1", onclick: () => (this.close(true), action()) }, label),
    );
    this.opener = opener;
    this.node = el("div", { class: "menu", role: "menu", onkeydown: (event) => this.onKeyDown(event, items), onfocusout: (event) => this.onFocusOut(event) }, ...items);
    const root = opener.getRootNode();
    if (!root.adoptedStyleSheets.includes(sheet)) root.adoptedStyleSheets.push(sheet);
    opener.setAttribute("aria-expanded", "true");
    opener.after(this.node);
    const space = container.getBoundingClientRect().bottom - opener.getBoundingClientRect().bottom;
    this.node.classList.toggle("up", space < this.node.offsetHeight + 8);
    items[0].focus();
  }

  close(restoreFocus = false) {
    const { node, opener } = this;
    if (!node) return;
    this.node = this.opener = null;
    opener.setAttribute("aria-expanded", "false");
    if (restoreFocus) opener.focus();
    node.remove();
  }

  onFocusOut(event) {
    if (this.node && !this.node.contains(event.relatedTarget) && event.relatedTarget !== this.opener) this.close();
  }

  onKeyDown(event, items) {
    event.stopPropagation();
    const index = items.indexOf(event.target);
    const target = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: items.length - 1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") this.close(true);
    if (target === undefined && event.key !== "Escape") return;
    event.preventDefault();
    if (target !== undefined) items.at(target % items.length).focus();
  }
}
