// Controller: pages, live events and user actions change the store, and the view shows it.

import { Api } from "./api.js";
import { Deeds } from "./deeds.js";
import { keys } from "./keys.js";
import { Live, hidden } from "./live.js";
import { Loader } from "./loader.js";
import { Look } from "./look.js";
import { MARKS, Order } from "./order.js";
import { PACE, spread } from "./pace.js";
import { Store } from "./store.js";
import { View } from "./view.js";

export class Inbox {
  store = new Store();
  order = new Order();
  loader = new Loader(this);
  deeds = new Deeds(this);
  shown = { trouble: null, busy: false, olderFailed: false };
  news = 0; // new rows not announced yet
  timers = {};

  constructor({ host, base, token, renew, words, times }) {
    Object.assign(this, { host, words, api: new Api({ base, token, renew }), ended: new AbortController() });
    const bound = (owner, ...names) => Object.fromEntries(names.map((name) => [name, owner[name].bind(owner)]));
    const act = { ...bound(this, "reveal", "retry", "arrange"), ...bound(this.loader, "older"), ...bound(this.deeds, "open", "menuOf", "toggle", "hide", "undo") };
    this.view = new View(words, times, act);
    this.look = new Look(host, () => this.looked());
    const on = (target, type, act) => target.addEventListener(type, act, { signal: this.ended.signal });
    on(this.view.list, "keydown", keys(this.view, act));
    on(document, "visibilitychange", () => this.turned());
    on(window, "online", () => (hidden() ? (this.loader.due = true) : this.retry()));
    on(window, "offline", () => this.trouble("offline"));
    this.below = new IntersectionObserver((entries) => entries.at(-1).isIntersecting && !this.shown.olderFailed && this.loader.older(), {
      root: this.view.scroller,
      rootMargin: "400px",
    });
    this.below.observe(this.view.foot);
    this.timers.tick = setInterval(() => hidden() || this.view.tick(), PACE.times);
    this.live = new Live(this.api, {
      since: () => this.loader.since,
      hear: (event) => this.hear(event),
      load: () => this.load(),
      lost: (refusal) => (refusal.status === 401 ? this.refused(refusal) : navigator.onLine || this.trouble("offline")),
      found: () => this.trouble(null),
    });
    this.show();
    if (token || host.getToken) this.start();
  }

  close() {
    this.ended.abort();
    this.api.close();
    this.live.stop();
    this.loader.close();
    this.look.stop();
    this.below.disconnect();
    this.deeds.menu?.close();
    this.settings?.close();
    clearInterval(this.timers.tick);
    Object.values(this.timers).forEach(clearTimeout);
  }

  start() {
    this.started = true;
    this.starting ??= this.begin().finally(() => (this.starting = null));
  }

  async begin() {
    const refusal = await this.load();
    if (this.ended.signal.aborted || this.shown.trouble === "expired") return;
    if (!refusal) this.live.start();
    else this.later("start", () => hidden() || this.live.on || this.start(), spread(Math.max(this.api.poll, refusal.retryAfter ?? 0)));
  }

  load(show) {
    return this.loader.load(show);
  }

  // The end of the list may still be in view.
  lookBelow() {
    this.below.unobserve(this.view.foot);
    this.below.observe(this.view.foot);
  }

  // Events of the stream.
  hear({ type, data, id }) {
    const value = type === "reset" ? {} : parsed(data);
    if (type === "reset") this.loader.reset(id);
    else if (value && !this.order.keeps({ type, value })) this.apply({ type, value });
    this.loader.passed(id); // after its effect: an event without effect is requested again
    this.soon();
  }

  apply({ type, value }) {
    if (type === "count") return this.count(value);
    const known = this.store.known(value.burst);
    const { unread, ...grown } = value;
    this.order.changed(value.burst, known && !MARKS.includes(type) ? grown : value);
    this.api.touched();
    if (type === "row") this.opened(value);
    if (type === "group" && (known || this.store.reaches(value))) this.grew(value);
    if (type === "marked" && this.store.marked(value)) this.loader.reload(PACE.settle); // to find its place
    if (type === "hidden") this.store.mark(value, "hidden");
  }

  opened(row) {
    if (this.loader.broken) this.loader.loose.add(row.burst);
    this.tell(Number(this.store.grow(row, this.idle())));
    this.store.uncovered = true;
    this.look.again();
  }

  grew(row) {
    const news = this.store.grow(row, this.idle());
    this.tell(Number(news));
    if (news) this.loader.lacks(row);
  }

  count(badge) {
    if (badge.count !== this.store.badge.count || badge.more !== this.store.badge.more) {
      this.order.changed("count", badge);
      this.api.touched();
      this.store.badge = badge;
    }
    this.later("settle", () => this.store.surprised() && this.loader.reload(0, true), PACE.settle);
  }

  // The server has answered our write. Its events follow shortly; earlier events may be older.
  answered(write) {
    write.answered = true;
    setTimeout(() => {
      if (this.ended.signal.aborted) return;
      for (const event of this.order.end(write)) {
        if (this.agrees(event)) this.apply(event);
        else this.loader.reload(0, true); // a page knows which one was last
      }
      this.soon();
    }, PACE.settle);
  }

  agrees({ type, value }) {
    const known = this.store.known(value.burst);
    if (type === "marked") return !this.store.hidden.has(value.burst) && (!known || known.unread === value.unread);
    return type === "count" || !known;
  }

  // The user is not reading: at the very top, without pointer and focus.
  idle() {
    return this.view.scroller.scrollTop < 8 && !this.host.matches(":hover, :focus-within") && !this.store.waiting.size;
  }

  // Live rows have no seen token: a page that shows them has one.
  async looked() {
    const { store } = this;
    if (store.uncovered && store.unseen() && !store.waiting.size) {
      store.uncovered = false;
      if (await this.load()) return;
    }
    if (!store.seen || store.seen === this.saw || !(store.unseen() || (!this.saw && store.badge.count))) return;
    this.saw = store.seen;
    const read = store.looked(); // before the server answers: its next count shows whether it agrees
    const write = this.order.begin(new Map([...read.map((burst) => [burst, { unread: false }]), ["count", store.badge]]));
    this.show();
    try {
      await this.api.seen(this.saw);
      this.answered(write);
    } catch {
      this.order.end(write);
      this.saw = null; // the next page has the state
      this.loader.reload(spread(this.api.poll), true);
    }
  }

  // The visibility of the browser tab changed.
  turned() {
    this.look.again();
    this.live.turned();
    if (hidden()) this.store.fresh.clear();
    else if (this.started && !this.live.on) this.retry();
    else if (this.loader.due) this.load();
  }

  async reveal() {
    if (this.store.cut) {
      this.api.touched(); // the tagged rows have dropped off
      await this.load(true);
    } else this.store.reveal();
    this.show();
    this.look.again();
    this.view.scroller.scrollTop = 0;
    this.view.list.querySelector(".open")?.focus({ preventScroll: true });
  }

  // Rarely used: loaded on demand.
  async arrange() {
    try {
      const { Settings } = await import("./settings.js");
      this.settings ??= new Settings(this);
    } catch {
      return this.deeds.say(this.words.settingsFailed);
    }
    this.settings.arrange();
  }

  retry() {
    if (this.live.on) {
      this.live.hurry();
      this.load();
    } else {
      this.shown.trouble = null;
      this.show();
      this.start();
    }
  }

  refused({ status, retryAfter = 0 }) {
    if (this.ended.signal.aborted) return;
    const expired = status === 401 || status === 403;
    this.trouble(expired ? "expired" : navigator.onLine ? "failed" : "offline");
    if (expired) this.live.stop();
    else if (this.live.stream.open) this.loader.reload(spread(Math.max(this.api.poll, retryAfter)));
  }

  trouble(trouble) {
    if (this.shown.trouble === trouble) return;
    this.shown.trouble = trouble;
    this.soon();
  }

  // A screen reader announces new rows together, and no growing counts.
  tell(count) {
    this.news += count;
    if (!this.news || this.telling) return;
    this.telling = true;
    const say = () => {
      this.view.say(this.words.newNotifications(this.news, false));
      this.telling = false;
      this.news = 0;
    };
    this.later("tell", say, PACE.settle);
  }

  // A busy burst grows a hundred times a second, faster than anyone can read.
  soon() {
    if (this.drawing || this.ended.signal.aborted) return;
    this.drawing = true;
    this.later("draw", () => this.show(), PACE.draw);
  }

  show(changes = {}) {
    this.drawing = false;
    Object.assign(this.shown, changes);
    this.view.show(this.store, this.shown);
    if (this.store.seen !== this.looking) this.look.again();
    this.looking = this.store.seen;
    const { count, more } = this.store.badge;
    if (`${count}${more}` !== this.badge) this.send("badge", { count, more });
    this.badge = `${count}${more}`;
  }

  // False if the event was cancelled.
  send(type, detail) {
    return this.host.dispatchEvent(new CustomEvent(type, { detail, bubbles: true, composed: true, cancelable: type === "open" }));
  }

  later(name, act, wait) {
    clearTimeout(this.timers[name]);
    this.timers[name] = setTimeout(act, wait);
  }
}

function parsed(data) {
  try {
    return JSON.parse(data);
  } catch {
    return null; // the next page has the row again
  }
}
