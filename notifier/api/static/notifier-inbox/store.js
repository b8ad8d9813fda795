// State of the inbox: shown rows, waiting new rows, badge. Uses no DOM, network or clock.

import { MOST_ROWS } from "./pace.js";

export const at = (item) => Date.parse(item.opened_at) || 0;
const newestFirst = (one, other) => at(other) - at(one); // sort is stable: equals keep the server's order
const changed = (item, changes) => (changes.has(item.burst) ? { ...item, ...changes.get(item.burst) } : item);

export class Store {
  items = [];
  waiting = new Map(); // new rows behind the pill, so that nothing moves while the user reads
  next = undefined; // the cursor of older rows; null at the end, undefined if the search must start from the top
  cut = false; // the newest rows are not loaded: far down, or after a long time
  seen = null; // covers shown rows, never waiting ones
  latest = null;
  uncovered = false; // live rows since the last page, not covered by a token yet
  badge = { count: 0, more: false };
  elsewhere = 0; // unread rows on pages that aren't loaded
  fresh = new Set(); // rows that were unread when this look began
  kept = new Set(); // marked as unread by the user, here or elsewhere: a look doesn't change that
  lookedAt = new Set();
  hidden = new Set();
  silenced = new Set(); // subjects with a mute request in flight
  loaded = false;
  whole = false; // a complete page was applied: only such a page proves what is behind it
  partial = false;

  // Whether rows may be missing between the page and the shown rows. `loose` rows prove nothing.
  misses(page, loose) {
    const meets = page.items.some(({ burst }) => this.has(burst) && !loose.has(burst));
    return this.items.length > 0 && page.next !== null && !page.partial && !meets;
  }

  // Applies the newest page. `changes` happened since its request. New rows wait unless `show`. Returns their number.
  refresh(page, { show, changes, loose }) {
    const first = !this.whole || !this.items.length; // no known row that the page could meet
    const quiet = !this.loaded;
    const gap = this.misses(page, loose);
    const bare = !page.items.length && page.next !== null && !page.partial; // the pill would lead nowhere
    if ((gap || this.cut) && !show && !bare) return this.leave(page);
    let news = 0;
    if (first || gap || this.cut) Object.assign(this, { items: [], waiting: new Map(), next: page.next, cut: false });
    else this.prune(page, changes);
    const last = this.items.at(-1) ?? { opened_at: Infinity };
    for (const item of page.items.toReversed()) news += this.take(changed(item, changes), show || first || !(at(item) > at(last)));
    const place = new Map(page.items.map((item, index) => [item.burst, index]));
    const stands = (item) => place.get(item.burst) ?? page.items.length;
    this.items.sort((one, other) => newestFirst(one, other) || stands(one) - stands(other)); // includes restored rows
    this.loaded = true;
    this.whole ||= !page.partial;
    this.partial = page.partial;
    this.advance(page.seen);
    if (page.badge) this.settle(changes.get("count") ?? page.badge);
    this.trim();
    return quiet ? 0 : news;
  }

  // The newest page does not meet the shown rows: the pill leads there.
  leave(page) {
    this.cut = true;
    this.latest = page.seen;
    if (page.badge) this.badge = page.badge;
    return 0;
  }

  // A row that the page should contain but does not was hidden elsewhere, or retracted.
  prune(page, changes) {
    if (page.partial) return;
    const there = new Set([...page.items, ...changes.values()].map(({ burst }) => burst));
    const reach = page.reach ?? (page.next === null ? -Infinity : at(page.items.at(-1) ?? {}));
    const stays = (item) => there.has(item.burst) || at(item) <= reach;
    this.items = this.items.filter(stays);
    for (const item of [...this.waiting.values()]) if (!stays(item)) this.waiting.delete(item.burst);
  }

  // Applies an older page. Far down, the newest rows drop off, so that the document stays bounded.
  append(page, changes) {
    const last = this.items.at(-1);
    const items = page.items.map((item) => changed(item, changes));
    const loud = items.filter((item) => !this.hidden.has(item.burst) && !this.silenced.has(item.subject));
    const older = loud.filter((item) => !this.has(item.burst) && (!last || at(item) <= at(last)));
    this.items = [...this.items, ...older].sort(newestFirst);
    this.elsewhere = Math.max(0, this.elsewhere - older.filter((item) => item.unread).length);
    if (!page.partial) this.next = page.next;
    this.partial = page.partial;
    if (this.items.length > MOST_ROWS) {
      this.items = this.items.slice(-MOST_ROWS);
      this.cut = true;
    }
    return older.length;
  }

  // Adds a row, or updates it in place. Returns whether it is new.
  take(item, show) {
    if (typeof item?.burst !== "string" || this.hidden.has(item.burst) || this.silenced.has(item.subject)) return false;
    if (item.unread && this.lookedAt.has(item.burst)) this.kept.add(item.burst);
    const place = this.place(item.burst);
    if (place !== undefined) {
      if (JSON.stringify(item) !== JSON.stringify(this.items[place])) this.items = this.items.with(place, item);
      return false;
    }
    const news = !this.waiting.has(item.burst);
    if (show && !this.cut) {
      this.waiting.delete(item.burst);
      this.items = [item, ...this.items].sort(newestFirst); // within the same second the newer goes first
    } else this.waiting.set(item.burst, item);
    if (this.waiting.size > MOST_ROWS) this.cut = true;
    while (this.waiting.size > MOST_ROWS) this.waiting.delete(this.waiting.keys().next().value);
    this.trim();
    return news;
  }

  // A row that just opened or grew. For a known row, only pages and marks decide whether it is unread.
  grow(item, show) {
    const known = this.known(item.burst);
    return this.take(known ? { ...item, unread: known.unread } : item, show);
  }

  // Adds missed rows. Returns how many are new.
  fit(items, show, changes) {
    let news = 0;
    for (const item of items.toReversed()) if (this.reaches(item)) news += this.take(changed(item, changes), show);
    return news;
  }

  // Whether the item's place is among the loaded rows.
  reaches(item) {
    return this.loaded && !this.cut && (this.next === null || at(item) >= at(this.items.at(-1) ?? { opened_at: Infinity }));
  }

  reveal() {
    this.items = [...[...this.waiting.values()].reverse(), ...this.items].sort(newestFirst);
    this.waiting.clear();
    this.advance(this.latest);
    this.trim();
  }

  // The tail is cut without a cursor: older rows are searched from the top.
  trim() {
    if (this.cut || this.items.length <= MOST_ROWS) return;
    this.elsewhere += this.items.slice(MOST_ROWS).filter((item) => item.unread).length;
    this.items = this.items.slice(0, MOST_ROWS);
    this.next = undefined;
  }

  // `place` is the former place of a restored row: only a page knows the order within a second.
  mark(item, mark, place) {
    this.fresh.delete(item.burst);
    this.kept[mark === "unread" ? "add" : "delete"](item.burst);
    this.hidden[mark === "hidden" ? "add" : "delete"](item.burst);
    this.put(item.burst, mark === "hidden" ? null : { ...item, unread: mark === "none" ? item.unread : mark === "unread" }, place);
  }

  // Applies a mark from any device. A hidden row returns to its place. Returns whether it returned.
  marked(item) {
    const known = this.known(item.burst);
    this.hidden.delete(item.burst);
    if (!item.unread) this.kept.delete(item.burst);
    else if (known && !known.unread) this.kept.add(item.burst);
    if (known) this.take(item, false);
    else if (this.reaches(item)) this.put(item.burst, item);
    return !known;
  }

  // A row on a page requested after it was hidden was restored on another device.
  recall(page, hidden, changes) {
    for (const item of page.items) if (hidden.has(item.burst) && !changes.has(item.burst)) this.marked(item);
  }

  // Undoes a mark that the server rejected.
  restore(item) {
    this.hidden.delete(item.burst);
    this.kept.delete(item.burst);
    this.put(item.burst, item);
  }

  // Hides all rows of the subject until the server answers.
  silence(subject) {
    this.silenced.add(subject);
    for (const { burst, subject: of } of [...this.items, ...this.waiting.values()]) if (of === subject) this.put(burst, null);
  }

  put(burst, item, place = this.place(burst)) {
    const before = this.unread();
    this.waiting.delete(burst);
    this.items = this.items.filter((one) => one.burst !== burst);
    if (item && !this.silenced.has(item.subject)) this.items = this.items.toSpliced(place ?? this.items.length, 0, item).sort(newestFirst);
    this.badge = { ...this.badge, count: Math.max(0, this.badge.count + this.unread() - before) };
  }

  place(burst) {
    const place = this.items.findIndex((one) => one.burst === burst);
    return place < 0 ? undefined : place;
  }

  find(burst) {
    return this.items.find((item) => item.burst === burst);
  }

  known(burst) {
    return this.waiting.get(burst) ?? this.find(burst);
  }

  has(burst) {
    return this.known(burst) !== undefined;
  }

  // A later token would cover rows that were not shown.
  advance(token) {
    if (token) this.latest = token;
    if (token && !this.waiting.size && !this.cut) this.seen = token;
  }

  // Marks shown rows as read, but keeps them highlighted until the user leaves. Returns the rows that became read.
  looked() {
    const read = this.items.filter(({ unread, burst }) => unread && !this.kept.has(burst)).map(({ burst }) => burst);
    const shown = new Set(this.items.map(({ burst }) => burst)); // forget dropped rows
    this.lookedAt = shown;
    this.fresh = new Set([...this.fresh, ...read]).intersection(shown);
    this.items = this.items.map((item) => (read.includes(item.burst) ? { ...item, unread: false } : item));
    this.elsewhere = 0;
    this.badge = { count: this.unread(), more: false };
    return read;
  }

  unseen() {
    return this.items.some((item) => item.unread && !this.kept.has(item.burst));
  }

  unread() {
    return [...this.items, ...this.waiting.values()].filter((item) => item.unread).length;
  }

  settle(badge) {
    this.badge = badge;
    this.elsewhere = Math.max(0, badge.count - this.unread());
  }

  // A row was seen, read or hidden elsewhere: in another tab or on a phone.
  surprised() {
    return !this.badge.more && !this.cut && this.badge.count !== this.unread() + this.elsewhere;
  }
}
