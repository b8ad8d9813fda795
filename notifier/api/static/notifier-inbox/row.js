// One row: made once, then told what changed.

import { DOTS, el, icon } from "./dom.js";
import { hue, initial, plain } from "./plain.js";

export class Row {
  constructor(words, times) {
    Object.assign(this, { words, times, item: null });
    this.avatars = el("span", { class: "avatars", "aria-hidden": "true" });
    this.state = el("span", { class: "sr" });
    this.text = el("bdi", { class: "text", dir: "auto" });
    this.names = el("span", { class: "names" });
    this.time = el("time");
    this.button = el("button", { class: "open", type: "button", tabindex: "-1" }, this.state, this.text);
    this.more = el("button", { class: "more", type: "button", tabindex: "-1", "aria-haspopup": "menu", "aria-expanded": "false" }, icon(DOTS));
    const about = el("p", { class: "about" }, this.names, this.time);
    this.node = el("li", { class: "row" }, this.avatars, el("div", { class: "body" }, this.button, about), el("span", { class: "dot" }), this.more);
  }

  show(item, fresh) {
    this.node.classList.toggle("unread", item.unread);
    this.node.classList.toggle("fresh", fresh);
    if (item === this.item) return;
    const grown = this.item && item.count > this.item.count;
    this.item = item;
    const names = (item.names ?? []).slice(0, 3);
    this.state.textContent = item.unread ? `${this.words.unread}: ` : "";
    this.text.textContent = plain(item.text);
    this.avatars.replaceChildren(...(names.length ? names : [""]).slice(0, 2).map(avatar));
    this.names.replaceChildren(...(names.length > 1 ? this.listed(names, item.more) : []));
    this.time.dateTime = item.opened_at;
    this.time.title = this.times.whole(item.opened_at);
    this.more.setAttribute("aria-label", `${this.words.menu}: ${plain(item.text).slice(0, 80)}`);
    this.tick();
    if (grown) this.grow();
  }

  tick() {
    const ago = this.times.ago(this.item.opened_at);
    if (this.time.textContent !== ago) this.time.textContent = ago;
  }

  // Each name apart: one that is written from right to left, or pretends to be, can't pull its neighbours along.
  listed(names, more) {
    const shown = names.map((name) => el("bdi", { dir: "auto" }, plain(name)));
    return [...shown.flatMap((name, place) => (place ? [", ", name] : [name])), more ? `, ${this.words.others}` : null, " · "].filter(Boolean);
  }

  grow() {
    this.text.classList.remove("grown");
    requestAnimationFrame(() => this.text.classList.add("grown"));
  }
}

function avatar(name) {
  return el("span", { class: "avatar", "data-hue": hue(name) }, initial(name));
}
