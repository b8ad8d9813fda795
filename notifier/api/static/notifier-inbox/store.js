// State of the inbox: shown rows, waiting new rows, badge. Uses no DOM, network or clock.

import { MAX_ROWS } from "./delays-and-limits.js";

export const openedAt = (item) => Date.parse(item.opened_at) || 0;
const newestFirst = (a, b) => openedAt(b) - openedAt(a); // sort is stable: equals keep the server's order
const withChanges = (item, changes) => (changes.has(item.burst) ? { ...item, ...changes.get(item.burst) } : item);

export class Store {
  items = []; // shown rows
  waiting = new Map(); // new rows behind the pill "3 new"
  next = undefined; // the cursor of older rows; null at the end, undefined if the search must start from the top
  topMissing = false; // the newest rows are not loaded: the user is far down, or was away for a long time
  seenToken = null; // seen token that covers the shown rows, but no waiting ones
  latestToken = null; // seen token of the latest page
  needsToken = false; // rows came from the stream since the latest page, and no seen token covers them
  badge = { count: 0, more: false };
  unreadElsewhere = 0; // unread rows on pages that aren't loaded
  highlighted = new Set(); // rows that were unread when the user began to look
  keptUnread = new Set(); // rows that the user marked as unread, on any device: seeing them doesn't change that
  seenRows = new Set(); // rows that were shown when the user last saw the list
  hidden = new Set();
  muted = new Set(); // subjects with a mute request in flight
  loaded = false;
  complete = false; // a page that was not partial has been applied
  partial = false;

  // Rows may be missing between the page and the shown rows unless both have a common row. An `isolated` common row does
  // not count: rows below it may be missing.
  hasGap(page, isolated) {
    const overlaps = page.items.some(({ burst }) => this.has(burst) && !isolated.has(burst));
    return this.items.length > 0 && page.next !== null && !page.partial && !overlaps;
  }

  // Applies the newest page. `changes` happened since its request. New rows wait behind the pill unless `show`. Returns
  // how many new rows to announce.
  applyNewest(page, { show, changes, isolated }) {
    const nothingToOverlap = !this.complete || !this.items.length; // no known row that the page could overlap
    const isFirstLoad = !this.loaded;
    const gap = this.hasGap(page, isolated);
    const emptyWithMore = !page.items.length && page.next !== null && !page.partial; // the pill would lead nowhere
    if ((gap || this.topMissing) && !show && !emptyWithMore) return this.postpone(page);
    let added = 0;
    if (nothingToOverlap || gap || this.topMissing) Object.assign(this, { items: [], waiting: new Map(), next: page.next, topMissing: false });
    else this.prune(page, changes);
    const last = this.items.at(-1) ?? { opened_at: Infinity };
    for (const item of page.items.toReversed()) added += this.upsert(withChanges(item, changes), show || nothingToOverlap || !(openedAt(item) > openedAt(last)));
    const indexes = new Map(page.items.map((item, index) => [item.burst, index]));
    const index = (item) => indexes.get(item.burst) ?? page.items.length;
    this.items.sort((a, b) => newestFirst(a, b) || index(a) - index(b)); // also puts restored rows in their place
    this.loaded = true;
    this.complete ||= !page.partial;
    this.partial = page.partial;
    this.setToken(page.seen);
    if (page.badge) this.setBadge(changes.get("count") ?? page.badge);
    this.trim();
    return isFirstLoad ? 0 : added;
  }

  // Keeps the shown rows, because the newest page does not overlap them. The pill leads to the page.
  postpone(page) {
    this.topMissing = true;
    this.latestToken = page.seen;
    if (page.badge) this.badge = page.badge;
    return 0;
  }

  // Removes rows that the page should contain but does not: they were hidden on another device, or retracted.
  prune(page, changes) {
    if (page.partial) return;
    const present = new Set([...page.items, ...changes.values()].map(({ burst }) => burst));
    const oldest = page.oldest ?? (page.next === null ? -Infinity : openedAt(page.items.at(-1) ?? {}));
    const stays = (item) => present.has(item.burst) || openedAt(item) <= oldest;
    this.items = this.items.filter(stays);
    for (const item of [...this.waiting.values()]) if (!stays(item)) this.waiting.delete(item.burst);
  }

  // Appends an older page. Removes the newest rows if there are more than MAX_ROWS. Returns how many rows were added.
  append(page, changes) {
    const last = this.items.at(-1);
    const items = page.items.map((item) => withChanges(item, changes));
    const visible = items.filter((item) => !this.hidden.has(item.burst) && !this.muted.has(item.subject));
    const older = visible.filter((item) => !this.has(item.burst) && (!last || openedAt(item) <= openedAt(last)));
    this.items = [...this.items, ...older].sort(newestFirst);
    this.unreadElsewhere = Math.max(0, this.unreadElsewhere - older.filter((item) => item.unread).length);
    if (!page.partial) this.next = page.next;
    this.partial = page.partial;
    if (this.items.length > MAX_ROWS) {
      this.items = this.items.slice(-MAX_ROWS);
      this.topMissing = true;
    }
    return older.length;
  }

  // Adds a row, or updates it in place. Returns whether the row is new.
  upsert(item, show) {
    if (typeof item?.burst !== "string" || this.hidden.has(item.burst) || this.muted.has(item.subject)) return false;
    if (item.unread && this.seenRows.has(item.burst)) this.keptUnread.add(item.burst);
    const index = this.indexOf(item.burst);
    if (index !== undefined) {
      if (JSON.stringify(item) !== JSON.stringify(this.items[index])) this.items = this.items.with(index, item);
      return false;
    }
    const isNew = !this.waiting.has(item.burst);
    if (show && !this.topMissing) {
      this.waiting.delete(item.burst);
      this.items = [item, ...this.items].sort(newestFirst); // within the same second the newer goes first
    } else this.waiting.set(item.burst, item);
    if (this.waiting.size > MAX_ROWS) this.topMissing = true;
    while (this.waiting.size > MAX_ROWS) this.waiting.delete(this.waiting.keys().next().value);
    this.trim();
    return isNew;
  }

  // Adds or updates a row that just opened or grew. The event does not decide whether a known row is unread: only pages
  // and marks do.
  upsertLive(item, show) {
    const known = this.get(item.burst);
    return this.upsert(known ? { ...item, unread: known.unread } : item, show);
  }

  insertMissed(items, show, changes) {
    let added = 0;
    for (const item of items.toReversed()) if (this.isInRange(item)) added += this.upsert(withChanges(item, changes), show);
    return added;
  }

  isInRange(item) {
    return this.loaded && !this.topMissing && (this.next === null || openedAt(item) >= openedAt(this.items.at(-1) ?? { opened_at: Infinity }));
  }

  revealWaiting() {
    this.items = [...[...this.waiting.values()].reverse(), ...this.items].sort(newestFirst);
    this.waiting.clear();
    this.setToken(this.latestToken);
    this.trim();
  }

  // Removes the oldest rows beyond MAX_ROWS. No cursor leads to them, so older rows are then searched from the top.
  trim() {
    if (this.topMissing || this.items.length <= MAX_ROWS) return;
    this.unreadElsewhere += this.items.slice(MAX_ROWS).filter((item) => item.unread).length;
    this.items = this.items.slice(0, MAX_ROWS);
    this.next = undefined;
  }

  // Applies the user's mark. `index` is the former place of a row whose hiding is undone: the times of rows don't tell
  // their order within a second.
  mark(item, mark, index) {
    this.highlighted.delete(item.burst);
    this.keptUnread[mark === "unread" ? "add" : "delete"](item.burst);
    this.hidden[mark === "hidden" ? "add" : "delete"](item.burst);
    this.replace(item.burst, mark === "hidden" ? null : { ...item, unread: mark === "none" ? item.unread : mark === "unread" }, index);
  }

  // Applies a mark from any device. A hidden row returns to its place. Returns whether the row was missing.
  applyMarked(item) {
    const known = this.get(item.burst);
    this.hidden.delete(item.burst);
    if (!item.unread) this.keptUnread.delete(item.burst);
    else if (known && !known.unread) this.keptUnread.add(item.burst);
    if (known) this.upsert(item, false);
    else if (this.isInRange(item)) this.replace(item.burst, item);
    return !known;
  }

  // Shows rows again that another device restored: they were hidden before the page was requested, and are on the page.
  restoreHidden(page, hidden, changes) {
    for (const item of page.items) if (hidden.has(item.burst) && !changes.has(item.burst)) this.applyMarked(item);
  }

  undoMark(item) {
    this.hidden.delete(item.burst);
    this.keptUnread.delete(item.burst);
    this.replace(item.burst, item);
  }

  // Removes all rows of the subject. Also ignores them in pages until the server answers.
  mute(subject) {
    this.muted.add(subject);
    for (const item of [...this.items, ...this.waiting.values()]) if (item.subject === subject) this.replace(item.burst, null);
  }

  // Replaces or removes a row, and corrects the badge.
  replace(burst, item, index = this.indexOf(burst)) {
    const before = this.countUnread();
    this.waiting.delete(burst);
    this.items = this.items.filter((shown) => shown.burst !== burst);
    if (item && !this.muted.has(item.subject)) this.items = this.items.toSpliced(index ?? this.items.length, 0, item).sort(newestFirst);
    this.badge = { ...this.badge, count: Math.max(0, this.badge.count + this.countUnread() - before) };
  }

  indexOf(burst) {
    const index = this.items.findIndex((item) => item.burst === burst);
    return index < 0 ? undefined : index;
  }

  find(burst) {
    return this.items.find((item) => item.burst === burst);
  }

  get(burst) {
    return this.waiting.get(burst) ?? this.find(burst);
  }

  has(burst) {
    return this.get(burst) !== undefined;
  }

  // Keeps the old seen token while rows wait or are not loaded: the new token would cover rows that were not shown.
  setToken(token) {
    if (token) this.latestToken = token;
    if (token && !this.waiting.size && !this.topMissing) this.seenToken = token;
  }

  // Marks shown rows as read, but keeps them highlighted until the user leaves. Returns the rows that became read.
  markSeen() {
    const read = this.items.filter(({ unread, burst }) => unread && !this.keptUnread.has(burst)).map(({ burst }) => burst);
    const shown = new Set(this.items.map(({ burst }) => burst));
    this.seenRows = shown; // forget removed rows
    this.highlighted = new Set([...this.highlighted, ...read]).intersection(shown);
    this.items = this.items.map((item) => (read.includes(item.burst) ? { ...item, unread: false } : item));
    this.unreadElsewhere = 0;
    this.badge = { count: this.countUnread(), more: false };
    return read;
  }

  hasUnseen() {
    return this.items.some((item) => item.unread && !this.keptUnread.has(item.burst));
  }

  countUnread() {
    return [...this.items, ...this.waiting.values()].filter((item) => item.unread).length;
  }

  setBadge(badge) {
    this.badge = badge;
    this.unreadElsewhere = Math.max(0, badge.count - this.countUnread());
  }

  // Whether the badge contradicts the rows, because another tab or device changed one.
  isOutdated() {
    return !this.badge.more && !this.topMissing && this.badge.count !== this.countUnread() + this.unreadElsewhere;
  }
}
