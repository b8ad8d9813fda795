// What happens: pages, live rows and the person's doings change the store, then the view shows it.

import { Api } from "./api.js";
import { Deeds } from "./deeds.js";
import { keys } from "./keys.js";
import { Look } from "./look.js";
import { PACE, PAGE } from "./pace.js";
import { Store } from "./store.js";
import { Stream } from "./stream.js";
import { View } from "./view.js";

const ROUNDS = 5; // a page may be empty and have a next one

export class Inbox {
  store = new Store();
  deeds = new Deeds(this);
  shown = { trouble: null, busy: false, olderFailed: false };
  news = 0; // new rows that nobody was told of yet
  timers = {};
  since = null; // an id, of a page or an event: up to here nothing is missing
  resets = 0;
  mended = 0; // so many of them are made up for by a page
  loads = new Set(); // for each page on its way, what the stream told meanwhile: the page may be older

  constructor({ host, base, token, renew, words, times }) {
    Object.assign(this, { host, words, api: new Api({ base, token, renew }), ended: new AbortController() });
    const bound = (owner, ...names) => Object.fromEntries(names.map((name) => [name, owner[name].bind(owner)]));
    const act = { ...bound(this, "reveal", "older", "retry", "arrange"), ...bound(this.deeds, "open", "menuOf", "toggle", "hide", "undo") };
    this.view = new View(words, times, act);
    this.look = new Look(host, () => this.looked());
    const on = (target, type, act) => target.addEventListener(type, act, { signal: this.ended.signal });
    on(this.view.list, "keydown", keys(this.view, act));
    on(document, "visibilitychange", () => this.turned());
    on(window, "online", () => this.retry());
    on(window, "offline", () => this.trouble("offline"));
    this.below = new IntersectionObserver((entries) => entries.at(-1).isIntersecting && !this.shown.olderFailed && this.older(), {
      root: this.view.scroller,
      rootMargin: "400px",
    });
    this.below.observe(this.view.foot);
    this.timers.tick = setInterval(() => document.visibilityState === "visible" && this.view.tick(), PACE.times);
    this.show();
    if (token || host.getToken) this.start();
  }

  close() {
    this.ended.abort();
    this.api.close();
    this.stream?.stop();
    this.look.stop();
    this.below.disconnect();
    this.deeds.menu.close();
    this.settings?.close();
    clearInterval(this.timers.tick);
    Object.values(this.timers).forEach(clearTimeout);
  }

  async start() {
    if (await this.load()) this.listen();
    else if (this.shown.trouble !== "expired" && !this.ended.signal.aborted) this.later("reload", () => this.start(), this.api.poll);
  }

  listen() {
    this.stream?.stop();
    this.stream = new Stream(this.api, {
      since: () => this.since,
      hear: (event) => this.hear(event),
      poll: () => (document.visibilityState === "visible" ? this.load() : this.count()),
      lost: (error) => (error.status === 401 ? this.refused(error) : navigator.onLine || this.trouble("offline")),
      found: () => this.trouble(null),
    });
    if (document.visibilityState === "hidden") this.later("away", () => this.rest(), PACE.hidden); // also one that never was in front
  }

  // The newest page. `show` brings the person to it; else new rows may have to wait.
  async load(show = false) {
    const [told, hidden, resets] = [new Map(), this.deeds.settled(), this.resets];
    this.loads.add(told);
    try {
      const page = await this.api.newest(PAGE);
      if (this.ended.signal.aborted) return false;
      if (page) {
        this.store.recall(page, hidden);
        this.tell(this.store.refresh(page, show || this.idle(), told));
        this.since = page.live ?? this.since; // one that is older than the stream's only repeats
        if (!this.store.items.length) this.older(); // whoever may see none of the newest sees those behind them
      }
      if (!page?.partial) this.mended = resets;
      if (page?.partial) this.later("reload", () => this.load(), this.api.poll);
      this.trouble(null);
      return true;
    } catch (error) {
      this.refused(error);
      return false;
    } finally {
      this.loads.delete(told);
    }
  }

  async older() {
    const { store } = this;
    if (this.shown.busy || !store.loaded || store.next === null) return;
    this.show({ busy: true, olderFailed: false });
    try {
      for (let round = 0, added = 0; round < ROUNDS && !added && store.next !== null; round++) {
        const [hidden, cursor] = [this.deeds.settled(), store.next];
        const page = await this.api.older(cursor);
        if (this.ended.signal.aborted) return;
        if (store.next !== cursor) continue; // the list began anew meanwhile, and this page isn't next to it
        store.recall(page, hidden);
        added = store.append(page);
        if (page.partial) throw new Error("partial");
      }
      this.show({ busy: false });
      this.below.unobserve(this.view.foot); // and look again: the foot may still be in view
      this.below.observe(this.view.foot);
    } catch (error) {
      if (!this.ended.signal.aborted) this.show({ busy: false, olderFailed: true });
    }
  }

  // What the stream says.
  hear({ type, data, id }) {
    const value = type === "reset" ? {} : parsed(data);
    for (const told of this.loads) told.set(value?.burst ?? type, value);
    if (type === "row" && value) {
      this.tell(Number(this.store.take(value, this.idle())));
      this.store.uncovered = true;
      this.look.again();
    }
    if (type === "group" && value && this.store.has(value.burst)) this.store.take(value, false);
    if (type === "marked" && value && this.store.marked(value)) this.later("reload", () => this.load(), PACE.settle); // for its place
    if (type === "hidden" && value) this.store.mark(value, "hidden");
    if (type === "count" && value) {
      this.store.badge = value;
      this.later("settle", () => this.store.surprised() && this.load(), PACE.settle);
    }
    if (type === "reset") this.resets += 1;
    if (type === "reset") this.later("reload", () => this.load(), Math.random() * PACE.settle);
    if (this.mended === this.resets) this.since = id ?? this.since; // after its effect: what was not taken in is asked for again
    this.soon();
  }

  // Nobody is reading: at the very top, with pointer and keyboard elsewhere.
  idle() {
    return this.view.scroller.scrollTop < 8 && !this.host.matches(":hover, :focus-within") && !this.store.waiting.size;
  }

  // What came live has no token of its own: a page that shows it brings one.
  async looked() {
    const { store } = this;
    if (store.uncovered && store.unseen() && !store.waiting.size) {
      store.uncovered = false;
      if (!(await this.load())) return;
    }
    if (!store.seen || store.seen === this.saw || !(store.unseen() || (!this.saw && store.badge.count))) return;
    this.saw = store.seen;
    store.looked(); // before the server says so: its next count then tells whether it agrees
    this.show();
    try {
      await this.api.seen(this.saw);
    } catch {
      this.saw = null; // the next page says what is so
      this.later("reload", () => this.load(), this.api.poll);
    }
  }

  // To the front, or to the back.
  turned() {
    clearTimeout(this.timers.away);
    this.look.again();
    if (document.visibilityState === "hidden") {
      this.store.fresh.clear();
      this.later("away", () => this.rest(), PACE.hidden);
      return;
    }
    if (!this.store.loaded || this.stream?.failures) this.retry();
    else this.load();
    if (this.resting) this.listen();
    this.resting = false;
  }

  // A tab in the back keeps only its badge right.
  rest() {
    this.stream?.stop();
    this.resting = true;
    this.later("away", () => this.count().finally(() => this.resting && this.rest()), this.api.poll);
  }

  async count() {
    try {
      this.store.badge = await this.api.unread();
      this.show();
    } catch {
      // the next one tells
    }
  }

  async reveal() {
    if (this.store.cut) {
      this.api.tag = null; // what it stands for has dropped off
      await this.load(true);
    } else this.store.reveal();
    this.show();
    this.look.again();
    this.view.scroller.scrollTop = 0;
    this.view.list.querySelector(".open")?.focus({ preventScroll: true });
  }

  // Few ever look: it comes when it is asked for.
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
    if (this.stream && !this.stream.over) {
      this.stream.hurry();
      this.load();
    } else {
      this.shown.trouble = null;
      this.show();
      this.start();
    }
  }

  refused({ status }) {
    if (this.ended.signal.aborted) return;
    this.trouble(status === 401 || status === 403 ? "expired" : navigator.onLine ? "failed" : "offline");
    const alone = this.store.loaded && !this.stream?.failures; // else starting or polling tries again
    if (alone && this.shown.trouble !== "expired") this.later("reload", () => this.load(), this.api.poll);
  }

  trouble(trouble) {
    this.shown.trouble = trouble;
    this.soon();
  }

  // A screen reader hears of new rows together, and of nothing that merely grew.
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

  // A subject that everybody mentions grows a hundred times a second; nobody reads as fast.
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

  // False when somebody cancelled it.
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
    return null; // the row comes again with the next page
  }
}
