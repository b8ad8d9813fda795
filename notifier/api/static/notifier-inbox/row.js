// One row: created once, then updated.

import { DOTS, button, el, icon } from "./dom.js";
import { colorOf, initial, sanitizeName, splitNames } from "./sanitize.js";

export class Row {
  constructor(texts, times) {
    Object.assign(this, { texts, times, item: null });
    this.avatars = el("span", { class: "avatars", "aria-hidden": "true" });
    this.unread = el("span", { class: "sr-only" });
    this.text = el("span", { class: "text", dir: "auto" });
    this.names = el("span", { class: "names" });
    this.time = el("time");
    this.button = button({ class: "open", tabindex: "-1" }, this.unread, this.text);
    this.more = button({ class: "more", tabindex: "-1", "aria-haspopup": "menu", "aria-expanded": "false" }, icon(DOTS));
    const details = el("p", { class: "details" }, this.names, this.time);
    this.node = el("li", { class: "row" }, el("span", { class: "dot" }), this.avatars, el("div", {}, this.button, details), this.more);
  }

  update(item, highlighted) {
    this.node.classList.toggle("unread", item.unread);
    this.node.classList.toggle("highlighted", highlighted);
    if (item === this.item) return;
    const grown = this.item && item.count > this.item.count;
    this.item = item;
    const names = (item.names ?? []).slice(0, 3);
    this.unread.textContent = item.unread ? `${this.texts.unread}: ` : "";
    this.text.replaceChildren(...textNodes(item, names));
    this.avatars.replaceChildren(...(names.length ? names : [""]).slice(0, 2).map(avatar));
    this.names.replaceChildren(...(item.more && names.length > 1 ? this.nameList(names) : [])); // else the text has all names
    this.time.dateTime = item.opened_at;
    this.time.title = this.times.full(item.opened_at);
    if (item.digest) this.updateDigest();
    this.more.setAttribute("aria-label", `${this.texts.menu}: ${this.text.textContent}`);
    this.updateTime();
    if (grown) this.animate();
  }

  // The code is loaded on demand, because most rows are no digests.
  async updateDigest() {
    const { DigestBursts } = await import("./digest.js");
    this.digest ??= new DigestBursts(this);
    this.digest.update(this.item.digest);
  }

  updateTime() {
    const time = this.times.relative(this.item.opened_at);
    if (this.time.textContent !== time) this.time.textContent = time;
  }

  nameList(names) {
    const parts = this.times.listFormat.formatToParts(names.map(sanitizeName));
    return parts.map(({ type, value }) => (type === "element" ? isolated(value) : value));
  }

  animate() {
    this.text.classList.remove("grown");
    requestAnimationFrame(() => this.text.classList.add("grown"));
  }
}

// Returns the text of an item with its names isolated. Names in a digest are accounts, and its subject is the user.
export function textNodes({ text, subject, digest }, names) {
  const mentioned = digest ? [] : [String(subject).replace(/^\w+:/, "")];
  return splitNames(text, [...names, ...mentioned]).map((part) => (part.name ? isolated(part.text) : part.text));
}

function isolated(name) {
  return el("bdi", { dir: "auto" }, name);
}

function avatar(name) {
  return el("span", { class: "avatar", "data-color": colorOf(name) }, initial(name));
}
