// The menu of a row: one at a time, closed by Escape, by leaving it and by choosing.

import { el } from "./dom.js";

export class Menu {
  // `choices`: pairs of a label and an action.
  open(button, choices, room) {
    this.close();
    const items = choices.map(([label, act]) =>
      el("button", { type: "button", role: "menuitem", tabindex: "-1", onclick: () => (this.close(true), act()) }, label),
    );
    this.button = button;
    this.node = el("div", { class: "menu", role: "menu", onkeydown: (event) => this.key(event, items), onfocusout: (event) => this.left(event) }, ...items);
    button.setAttribute("aria-expanded", "true");
    button.after(this.node);
    const below = room.getBoundingClientRect().bottom - button.getBoundingClientRect().bottom;
    this.node.classList.toggle("up", below < this.node.offsetHeight + 8);
    items[0].focus();
  }

  close(back = false) {
    const { node, button } = this;
    if (!node) return;
    this.node = this.button = null;
    button.setAttribute("aria-expanded", "false");
    if (back) button.focus();
    node.remove();
  }

  left(event) {
    if (this.node && !this.node.contains(event.relatedTarget) && event.relatedTarget !== this.button) this.close();
  }

  key(event, items) {
    event.stopPropagation();
    const here = items.indexOf(event.target);
    const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: items.length - 1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") this.close(true);
    if (to === undefined && event.key !== "Escape") return;
    event.preventDefault();
    if (to !== undefined) items.at(to % items.length).focus();
  }
}
