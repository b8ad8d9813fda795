// What is known of the inbox: the rows shown, the new ones that wait, the badge. No document, no network, no clock.

import { MOST_ROWS } from "./pace.js";

export const at = (item) => Date.parse(item.opened_at) || 0;
const newestFirst = (one, other) => at(other) - at(one); // sort is stable: the server's order stands among equals
const changed = (item, changes) => (changes.has(item.burst) ? { ...item, ...changes.get(item.burst) } : item);

export class Store {
  items = [];
  waiting = new Map(); // new rows behind the pill: nothing moves under a reader
  next = undefined; // the cursor of older rows; null at the end, undefined when they must be looked for from the top
  cut = false; // the newest rows are not at hand: far down, or away for long
  seen = null; // covers what is shown, never what waits
  latest = null;
  uncovered = false; // rows came live since the last page, and no token covers them yet
  badge = { count: 0, more: false };
  elsewhere = 0; // unread rows on pages that aren't loaded
  fresh = new Set(); // were unread when this look began
  kept = new Set(); // marked as unread by hand, here or elsewhere: looking at them doesn't change that
  lookedAt = new Set();
  hidden = new Set();
  silenced = new Set(); // subjects whose mute the server hasn't answered
  loaded = false;
  whole = false; // a page that wasn't partial was: only such a one says what is behind it
  partial = false;

  // Whether there may be rows between the page and those that are shown. `loose` are rows that prove nothing.
  misses(page, loose) {
    const meets = page.items.some(({ burst }) => this.has(burst) && !loose.has(burst));
    return this.items.length > 0 && page.next !== null && !page.partial && !meets;
  }

  // The newest page. `changes` happened since it was asked for. New rows wait unless `show`. Returns how many there were.
  refresh(page, { show, changes, loose }) {
    const first = !this.whole || !this.items.length; // nothing that is known to meet the page
    const quiet = !this.loaded;
    const gap = this.misses(page, loose);
    const bare = !page.items.length && page.next !== null && !page.partial; // there is nothing to lead to
    if ((gap || this.cut) && !show && !bare) return this.leave(page);
    let news = 0;
    if (first || gap || this.cut) Object.assign(this, { items: [], waiting: new Map(), next: page.next, cut: false });
    else this.prune(page, changes);
    const last = this.items.at(-1) ?? { opened_at: Infinity };
    for (const item of page.items.toReversed()) news += this.take(changed(item, changes), show || first || !(at(item) > at(last)));
    const place = new Map(page.items.map((item, index) => [item.burst, index]));
    const stands = (item) => place.get(item.burst) ?? page.items.length;
    this.items.sort((one, other) => newestFirst(one, other) || stands(one) - stands(other)); // what came back from hiding, too
    this.loaded = true;
    this.whole ||= !page.partial;
    this.partial = page.partial;
    this.advance(page.seen);
    if (page.badge) this.settle(changes.get("count") ?? page.badge);
    this.trim();
    return quiet ? 0 : news;
  }

  // Nothing of the newest page meets what is shown: the pill leads there.
  leave(page) {
    this.cut = true;
    this.latest = page.seen;
    if (page.badge) this.badge = page.badge;
    return 0;
  }

  // What the page should show and doesn't was hidden elsewhere, or taken back.
  prune(page, changes) {
    if (page.partial) return;
    const there = new Set([...page.items, ...changes.values()].map(({ burst }) => burst));
    const reach = page.reach ?? (page.next === null ? -Infinity : at(page.items.at(-1) ?? {}));
    const stays = (item) => there.has(item.burst) || at(item) <= reach;
    this.items = this.items.filter(stays);
    for (const item of [...this.waiting.values()]) if (!stays(item)) this.waiting.delete(item.burst);
  }

  // An older page. Far down, the newest rows drop off: the document stays bounded either way.
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

  // A row, or one that changed and stays in its place. Says whether it is new.
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
      this.items = [item, ...this.items].sort(newestFirst); // the newer of the same second goes first
    } else this.waiting.set(item.burst, item);
    if (this.waiting.size > MOST_ROWS) this.cut = true;
    while (this.waiting.size > MOST_ROWS) this.waiting.delete(this.waiting.keys().next().value);
    this.trim();
    return news;
  }

  // A row that opened or grew just now. Of one that is known already, pages and marks alone say whether it is unread.
  grow(item, show) {
    const known = this.known(item.burst);
    return this.take(known ? { ...item, unread: known.unread } : item, show);
  }

  // Rows that were missed. Returns how many are new.
  fit(items, show, changes) {
    let news = 0;
    for (const item of items.toReversed()) if (this.reaches(item)) news += this.take(changed(item, changes), show);
    return news;
  }

  // Whether the item's place is among the rows that are loaded.
  reaches(item) {
    return this.loaded && !this.cut && (this.next === null || at(item) >= at(this.items.at(-1) ?? { opened_at: Infinity }));
  }

  reveal() {
    this.items = [...[...this.waiting.values()].reverse(), ...this.items].sort(newestFirst);
    this.waiting.clear();
    this.advance(this.latest);
    this.trim();
  }

  // The tail is cut where no cursor points: older rows are looked for from the top.
  trim() {
    if (this.cut || this.items.length <= MOST_ROWS) return;
    this.elsewhere += this.items.slice(MOST_ROWS).filter((item) => item.unread).length;
    this.items = this.items.slice(0, MOST_ROWS);
    this.next = undefined;
  }

  // `place` is where one that comes back was: of what opened in the same second only a page knows the order.
  mark(item, mark, place) {
    this.fresh.delete(item.burst);
    this.kept[mark === "unread" ? "add" : "delete"](item.burst);
    this.hidden[mark === "hidden" ? "add" : "delete"](item.burst);
    this.put(item.burst, mark === "hidden" ? null : { ...item, unread: mark === "none" ? item.unread : mark === "unread" }, place);
  }

  // Marked on another device, or here: back in its place if it was hidden. Says whether it came back.
  marked(item) {
    const known = this.known(item.burst);
    this.hidden.delete(item.burst);
    if (!item.unread) this.kept.delete(item.burst);
    else if (known && !known.unread) this.kept.add(item.burst);
    if (known) this.take(item, false);
    else if (this.reaches(item)) this.put(item.burst, item);
    return !known;
  }

  // What is on a page that was asked for after it was hidden was taken back on another device.
  recall(page, hidden, changes) {
    for (const item of page.items) if (hidden.has(item.burst) && !changes.has(item.burst)) this.marked(item);
  }

  // A mark that the server didn't take.
  restore(item) {
    this.hidden.delete(item.burst);
    this.kept.delete(item.burst);
    this.put(item.burst, item);
  }

  // Nothing of it is shown, whatever comes, until the server knows.
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

  // A later token would cover rows that nobody has been shown.
  advance(token) {
    if (token) this.latest = token;
    if (token && !this.waiting.size && !this.cut) this.seen = token;
  }

  // What is shown is no longer unread, but is still told apart until the user leaves. Returns what became read by it.
  looked() {
    const read = this.items.filter(({ unread, burst }) => unread && !this.kept.has(burst)).map(({ burst }) => burst);
    const shown = new Set(this.items.map(({ burst }) => burst)); // what has dropped off is forgotten
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

  // Something was seen, read or hidden where we can't see it: in another tab, on a phone.
  surprised() {
    return !this.badge.more && !this.cut && this.badge.count !== this.unread() + this.elsewhere;
  }
}
