// The element's DOM: shows the state of the store.

import { ALERT, BELL, CLOUD, GEAR, UP, button, el, icon, setHidden, setText } from "./dom.js";
import { Row } from "./row.js";

export class View {
  rows = new Map(); // burst to Row
  current = null; // the burst in the tab order

  constructor(texts, times, handlers) {
    Object.assign(this, { texts, times, handlers });
    this.badge = el("span", { class: "badge", hidden: true });
    this.title = el("h2", { class: "title", part: "title" }, texts.title, this.badge);
    this.gear = button({ class: "gear", "aria-haspopup": "dialog", "aria-label": texts.settings, onclick: handlers.openSettings }, icon(GEAR));
    this.notice = el("p", { class: "notice", hidden: true });
    this.pill = button({ class: "pill", hidden: true, onclick: handlers.reveal });
    this.list = el("ol", { class: "list", role: "list", "aria-label": texts.title });
    this.state = el("div", { class: "state", hidden: true });
    this.skeleton = el("div", { class: "skeleton", "aria-hidden": "true" }, ...Array.from({ length: 6 }, placeholder));
    this.older = button({ class: "older", onclick: handlers.loadOlder });
    this.end = el("p", { class: "end", hidden: true }, texts.end);
    this.footer = el("div", { class: "footer" }, this.older, this.end);
    this.scroller = el("div", { class: "scroller" }, this.list, this.skeleton, this.state, this.footer);
    this.toast = el("div", { class: "toast", hidden: true });
    this.announcer = el("div", { class: "sr-only", role: "status", "aria-live": "polite" });
    this.nodes = [el("header", { part: "header" }, this.title, this.gear), this.notice, el("div", { class: "content" }, this.pill, this.scroller, this.toast), this.announcer];
  }

  render(store, { problem, busy, olderFailed }) {
    const hasRows = store.items.length > 0;
    const isEmpty = store.loaded && !store.waiting.size && store.next === null && !store.partial;
    if (this.scroller.ariaBusy !== String(busy)) this.scroller.ariaBusy = String(busy);
    setHidden(this.skeleton, hasRows || Boolean(problem) || (store.loaded && !busy));
    this.renderRows(store);
    this.renderBadge(store.badge);
    this.renderPill(store);
    this.renderNotice(hasRows && problem ? problem : store.partial ? "partial" : null);
    this.renderState(hasRows ? null : (problem ?? (isEmpty ? "empty" : null)));
    setHidden(this.older, !(hasRows || olderFailed) || store.next === null);
    setText(this.older, olderFailed ? this.texts.olderFailed : busy ? this.texts.loading : this.texts.older);
    setHidden(this.end, !hasRows || store.next !== null || store.partial);
    setHidden(this.list, !hasRows);
  }

  renderRows(store) {
    const bursts = new Set(store.items.map((item) => item.burst));
    const anchor = this.findAnchor(bursts);
    for (const [burst, row] of this.rows) if (!bursts.has(burst)) this.removeRow(burst, row);
    let previous = null;
    for (const item of store.items) {
      const row = this.rows.get(item.burst) ?? this.addRow(item.burst);
      row.update(item, store.highlighted.has(item.burst));
      const next = previous ? previous.nextSibling : this.list.firstChild;
      if (next !== row.node) this.list.insertBefore(row.node, next);
      previous = row.node;
    }
    if (!this.rows.has(this.current)) this.setCurrent(store.items[0]?.burst ?? null);
    if (anchor) this.scroller.scrollTop += anchor.node.offsetTop - anchor.top;
  }

  // Returns the first visible row that stays, and its position. Changes above must not move what the user reads.
  findAnchor(bursts) {
    const top = this.scroller.scrollTop;
    if (top < 8) return null;
    const staying = new Set([...bursts].map((burst) => this.rows.get(burst)?.node));
    const node = [...this.list.children].find((node) => staying.has(node) && node.offsetTop + node.offsetHeight > top);
    return node ? { node, top: node.offsetTop } : null;
  }

  addRow(burst) {
    const row = new Row(this.texts, this.times);
    row.button.addEventListener("click", () => (row.digest?.toggle(), this.handlers.open(burst)));
    row.more.addEventListener("click", () => this.handlers.openMenu(burst, row.more));
    row.node.addEventListener("focusin", () => this.setCurrent(burst));
    this.rows.set(burst, row);
    return row;
  }

  removeRow(burst, { node }) {
    const neighbor = node.matches(":focus-within") ? (node.nextElementSibling ?? node.previousElementSibling) : null;
    node.remove();
    this.rows.delete(burst);
    neighbor?.querySelector(".open").focus();
  }

  // Makes a row the current one: only this row is in the tab order.
  setCurrent(burst) {
    for (const [key, index] of [[this.current, "-1"], [burst, "0"]]) {
      const row = this.rows.get(key);
      row?.button.setAttribute("tabindex", index);
      row?.more.setAttribute("tabindex", index);
    }
    this.current = burst;
  }

  renderBadge({ count, more }) {
    setHidden(this.badge, !count);
    const text = `${count}${more ? "+" : ""}`;
    if (this.badge.firstChild?.textContent === text) return;
    this.badge.replaceChildren(el("span", { "aria-hidden": "true" }, text), el("span", { class: "sr-only" }, this.texts.unreadCount(count, more)));
  }

  renderPill({ waiting, topMissing }) {
    setHidden(this.pill, !waiting.size && !topMissing);
    const text = waiting.size ? this.texts.newCount(waiting.size, topMissing) : this.texts.backToTop;
    if (this.pill.textContent !== text) this.pill.replaceChildren(icon(UP), text);
  }

  // Shown above the list: offline, failed, expired, partial.
  renderNotice(kind) {
    if (this.notice.dataset.kind === String(kind)) return;
    this.notice.dataset.kind = String(kind);
    this.notice.hidden = !kind;
    if (kind) this.notice.replaceChildren(icon(kind === "offline" ? CLOUD : ALERT), this.texts[kind], this.retryButton("link"));
  }

  // Shown instead of the list: empty, offline, failed, expired.
  renderState(kind) {
    if (this.state.dataset.kind === String(kind)) return;
    this.state.dataset.kind = String(kind);
    this.state.hidden = !kind;
    if (!kind) return;
    const title = this.texts[kind === "offline" ? "offlineTitle" : kind];
    const picture = el("span", { class: "picture" }, icon({ empty: BELL, offline: CLOUD }[kind] ?? ALERT));
    const retry = kind === "empty" ? "" : this.retryButton("primary");
    this.state.replaceChildren(picture, el("p", { class: "state-title" }, title), el("p", {}, this.texts[`${kind}Detail`]), retry);
    if (kind !== "empty") this.announce(title);
  }

  retryButton(style) {
    return button({ class: style, onclick: this.handlers.retry }, this.texts.retry);
  }

  // Shows a message at the bottom, with an action if there is a label. Null removes the message.
  showToast(text, label, action) {
    this.toast.hidden = !text;
    this.toast.replaceChildren(text ?? "", label ? button({ class: "link", onclick: action }, label) : "");
    if (text) this.announce(text);
  }

  announce(text) {
    this.announcer.textContent = text;
  }

  updateTimes() {
    for (const row of this.rows.values()) row.updateTime();
  }
}

function placeholder() {
  return el("div", { class: "placeholder" }, el("span"), el("span"), el("span"));
}
