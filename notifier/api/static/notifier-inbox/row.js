// One row: created once, then updated.

import { DOTS, el, icon } from "./dom.js";
import { hue, initial, pieces, plainName } from "./plain.js";

export class Row {
  constructor(words, times) {
    Object.assign(this, { words, times, item: null });
    this.avatars = el("span", { class: "avatars", "aria-hidden": "true" });
    this.state = el("span", { class: "sr" });
    this.text = el("span", { class: "text", dir: "auto" });
    this.names = el("span", { class: "names" });
    this.time = el("time");
    this.button = el("button", { class: "open", type: "button", tabindex: "-1" }, this.state, this.text);
    this.more = el("button", { class: "more", type: "button", tabindex: "-1", "aria-haspopup": "menu", "aria-expanded": "false" }, icon(DOTS));
    const about = el("p", { class: "about" }, this.names, this.time);
    this.node = el("li", { class: "row" }, el("span", { class: "dot" }), this.avatars, el("div", {}, this.button, about), this.more);
  }

  show(item, fresh) {
    this.node.classList.toggle("unread", item.unread);
    this.node.classList.toggle("fresh", fresh);
    if (item === this.item) return;
    const grown = this.item && item.count > this.item.count;
    this.item = item;
    const names = (item.names ?? []).slice(0, 3);
    this.state.textContent = item.unread ? `${this.words.unread}: ` : "";
    this.text.replaceChildren(...said(item, names));
    this.avatars.replaceChildren(...(names.length ? names : [""]).slice(0, 2).map(avatar));
    this.names.replaceChildren(...(item.more && names.length > 1 ? this.listed(names) : [])); // else the text has all names
    this.time.dateTime = item.opened_at;
    this.time.title = this.times.whole(item.opened_at);
    if (item.digest) this.digest();
    this.more.setAttribute("aria-label", `${this.words.menu}: ${this.text.textContent}`);
    this.tick();
    if (grown) this.grow();
  }

  // Items of a digest; most rows have none.
  async digest() {
    const { Inside } = await import("./inside.js");
    this.inside ??= new Inside(this);
    this.inside.show(this.item.digest);
  }

  tick() {
    const ago = this.times.ago(this.item.opened_at);
    if (this.time.textContent !== ago) this.time.textContent = ago;
  }

  listed(names) {
    const parts = this.times.list.formatToParts(names.map(plainName));
    return parts.map(({ type, value }) => (type === "element" ? isolated(value) : value));
  }

  grow() {
    this.text.classList.remove("grown");
    requestAnimationFrame(() => this.text.classList.add("grown"));
  }
}

// The text of an item with its names split off. Names in a digest are accounts, and its subject is the user.
export function said({ text, subject, digest }, names) {
  const mentioned = digest ? [] : [String(subject).replace(/^\w+:/, "")];
  return pieces(text, [...names, ...mentioned]).map((piece) => (piece.name ? isolated(piece.text) : piece.text));
}

function isolated(name) {
  return el("bdi", { dir: "auto" }, name);
}

function avatar(name) {
  return el("span", { class: "avatar", "data-hue": hue(name) }, initial(name));
}
