// The element's DOM: shows the state of the store.

import { ALERT, BELL, CLOUD, GEAR, UP, el, hide, icon, write } from "./dom.js";
import { Row } from "./row.js";

export class View {
  rows = new Map(); // burst to Row
  current = null; // the burst in the tab order

  constructor(words, times, act) {
    Object.assign(this, { words, times, act });
    this.badge = el("span", { class: "badge", hidden: true });
    this.title = el("h2", { class: "title", part: "title" }, words.title, this.badge);
    this.gear = el("button", { class: "gear", type: "button", "aria-haspopup": "dialog", "aria-label": words.settings, onclick: act.arrange }, icon(GEAR));
    this.notice = el("p", { class: "notice", hidden: true });
    this.pill = el("button", { class: "pill", type: "button", hidden: true, onclick: act.reveal });
    this.list = el("ol", { class: "list", role: "list", "aria-label": words.title });
    this.empty = el("div", { class: "state", hidden: true });
    this.skeleton = el("div", { class: "skeleton", "aria-hidden": "true" }, ...Array.from({ length: 6 }, ghost));
    this.older = el("button", { class: "older", type: "button", onclick: act.older });
    this.end = el("p", { class: "end", hidden: true }, words.end);
    this.foot = el("div", { class: "foot" }, this.older, this.end);
    this.scroller = el("div", { class: "scroller" }, this.list, this.skeleton, this.empty, this.foot);
    this.toast = el("div", { class: "toast", hidden: true });
    this.said = el("div", { class: "sr", role: "status", "aria-live": "polite" });
    this.nodes = [el("header", { part: "header" }, this.title, this.gear), this.notice, el("div", { class: "stage" }, this.pill, this.scroller, this.toast), this.said];
  }

  show(store, { trouble, busy, olderFailed }) {
    const shown = store.items.length > 0;
    if (this.scroller.ariaBusy !== String(busy)) this.scroller.ariaBusy = String(busy);
    hide(this.skeleton, shown || Boolean(trouble) || (store.loaded && !busy));
    this.showRows(store);
    this.showBadge(store.badge);
    this.showPill(store);
    this.showNotice(shown && trouble ? trouble : store.partial ? "partial" : null);
    this.showState(shown ? null : (trouble ?? (store.loaded && !store.waiting.size && store.next === null && !store.partial ? "empty" : null)));
    hide(this.older, !(shown || olderFailed) || store.next === null);
    write(this.older, olderFailed ? this.words.olderFailed : busy ? this.words.loading : this.words.older);
    hide(this.end, !shown || store.next !== null || store.partial);
    hide(this.list, !shown);
  }

  showRows(store) {
    const there = new Set(store.items.map((item) => item.burst));
    const held = this.held(there);
    for (const [burst, row] of this.rows) if (!there.has(burst)) this.drop(burst, row);
    let after = null;
    for (const item of store.items) {
      const row = this.rows.get(item.burst) ?? this.add(item.burst);
      row.show(item, store.fresh.has(item.burst));
      const place = after ? after.nextSibling : this.list.firstChild;
      if (place !== row.node) this.list.insertBefore(row.node, place);
      after = row.node;
    }
    if (!this.rows.has(this.current)) this.lead(store.items[0]?.burst ?? null);
    if (held) this.scroller.scrollTop += held.node.offsetTop - held.top;
  }

  // Anchor for scrolling, so that changes above don't move the text being read: the first visible row that stays.
  held(there) {
    const top = this.scroller.scrollTop;
    if (top < 8) return null;
    const staying = new Set([...there].map((burst) => this.rows.get(burst)?.node));
    const node = [...this.list.children].find((each) => staying.has(each) && each.offsetTop + each.offsetHeight > top);
    return node ? { node, top: node.offsetTop } : null;
  }

  add(burst) {
    const row = new Row(this.words, this.times);
    row.button.addEventListener("click", () => (row.inside?.fold(), this.act.open(burst)));
    row.more.addEventListener("click", () => this.act.menuOf(burst, row.more));
    row.node.addEventListener("focusin", () => this.lead(burst));
    this.rows.set(burst, row);
    return row;
  }

  // Focus moves to the neighbor of a removed row.
  drop(burst, { node }) {
    const next = node.matches(":focus-within") ? (node.nextElementSibling ?? node.previousElementSibling) : null;
    node.remove();
    this.rows.delete(burst);
    next?.querySelector(".open").focus();
  }

  // One tab stop: the user's current row.
  lead(burst) {
    for (const [key, index] of [[this.current, "-1"], [burst, "0"]]) {
      const row = this.rows.get(key);
      row?.button.setAttribute("tabindex", index);
      row?.more.setAttribute("tabindex", index);
    }
    this.current = burst;
  }

  showBadge({ count, more }) {
    hide(this.badge, !count);
    if (this.badge.firstChild?.textContent === `${count}${more ? "+" : ""}`) return;
    this.badge.replaceChildren(el("span", { "aria-hidden": "true" }, `${count}${more ? "+" : ""}`), el("span", { class: "sr" }, this.words.unreadCount(count, more)));
  }

  showPill({ waiting, cut }) {
    hide(this.pill, !waiting.size && !cut);
    const text = waiting.size ? this.words.news(waiting.size, cut) : this.words.newest;
    if (this.pill.textContent !== text) this.pill.replaceChildren(icon(UP), text);
  }

  showNotice(kind) {
    if (this.notice.dataset.kind === String(kind)) return;
    this.notice.dataset.kind = String(kind);
    this.notice.hidden = !kind;
    const retry = el("button", { type: "button", class: "link", onclick: this.act.retry }, this.words.retry);
    if (kind) this.notice.replaceChildren(icon(kind === "offline" ? CLOUD : ALERT), this.words[kind], retry);
  }

  // Shown instead of the list: empty, offline, failed, expired.
  showState(kind) {
    if (this.empty.dataset.kind === String(kind)) return;
    this.empty.dataset.kind = String(kind);
    this.empty.hidden = !kind;
    if (!kind) return;
    const name = kind === "offline" ? "offlineEmpty" : kind;
    const retry = kind === "empty" ? null : el("button", { type: "button", class: "retry", onclick: this.act.retry }, this.words.retry);
    const picture = el("span", { class: "picture" }, icon({ empty: BELL, offline: CLOUD }[kind] ?? ALERT));
    this.empty.replaceChildren(picture, el("p", { class: "what" }, this.words[name]), el("p", {}, this.words[`${name}More`]), retry ?? "");
    if (kind !== "empty") this.say(this.words[name]);
  }

  // A message at the bottom with an action.
  offer(text, label, act) {
    this.toast.hidden = !text;
    this.toast.replaceChildren(text ?? "", label ? el("button", { type: "button", class: "link", onclick: act }, label) : "");
    if (text) this.say(text);
  }

  say(text) {
    this.said.textContent = text;
  }

  tick() {
    for (const row of this.rows.values()) row.tick();
  }
}

function ghost() {
  return el("div", { class: "ghost" }, el("span"), el("span"), el("span"));
}
