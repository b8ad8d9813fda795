// Controller: pages, live events and user actions change the store, and the view shows it.

import { Actions } from "./actions.js";
import { Api } from "./api.js";
import { keyboardHandler } from "./keyboard.js";
import { LiveUpdates, isHidden } from "./live-updates.js";
import { Loader } from "./page-loader.js";
import { Store } from "./store.js";
import { TIMING, jitter } from "./delays-and-limits.js";
import { ChangeTracker, MARK_EVENTS } from "./stale-state-guard.js";
import { View } from "./view.js";
import { VisibilityTracker } from "./seen-detector.js";

export class Inbox {
  store = new Store();
  tracker = new ChangeTracker();
  loader = new Loader(this);
  actions = new Actions(this);
  status = { problem: null, busy: false, olderFailed: false };
  unannounced = 0; // number of new rows that a screen reader has not announced
  timers = {};
  abort = new AbortController();

  constructor({ host, base, token, renew, texts, times }) {
    Object.assign(this, { host, texts, api: new Api({ base, token, renew }) });
    const bind = (owner, ...names) => Object.fromEntries(names.map((name) => [name, owner[name].bind(owner)]));
    const handlers = { ...bind(this, "reveal", "retry", "openSettings"), ...bind(this.loader, "loadOlder"), ...bind(this.actions, "open", "openMenu", "toggleRead", "hide", "undo") };
    this.view = new View(texts, times, handlers);
    this.visibility = new VisibilityTracker(host, () => this.markSeen());
    const listen = (target, type, handler) => target.addEventListener(type, handler, { signal: this.abort.signal });
    listen(this.view.list, "keydown", keyboardHandler(this.view, handlers));
    listen(document, "visibilitychange", () => this.onVisibilityChange());
    listen(window, "online", () => (isHidden() ? (this.loader.loadWhenVisible = true) : this.retry()));
    listen(window, "offline", () => this.setProblem("offline"));
    this.footerObserver = new IntersectionObserver((entries) => entries.at(-1).isIntersecting && !this.status.olderFailed && this.loader.loadOlder(), {
      root: this.view.scroller,
      rootMargin: "400px",
    });
    this.footerObserver.observe(this.view.footer);
    this.timers.times = setInterval(() => isHidden() || this.view.updateTimes(), TIMING.relativeTimes);
    this.live = new LiveUpdates(this.api, {
      since: () => this.loader.since,
      onEvent: (event) => this.onEvent(event),
      load: () => this.load(),
      onDisconnect: (error) => (error.status === 401 ? this.onLoadError(error) : navigator.onLine || this.setProblem("offline")),
      onConnect: () => this.setProblem(null),
    });
    this.render();
    if (token || host.getToken) this.start();
  }

  get closed() {
    return this.abort.signal.aborted;
  }

  close() {
    this.abort.abort();
    this.api.close();
    this.live.stop();
    this.loader.close();
    this.visibility.stop();
    this.footerObserver.disconnect();
    this.actions.menu?.close();
    this.settings?.close();
    clearInterval(this.timers.times);
    Object.values(this.timers).forEach(clearTimeout);
  }

  start() {
    this.started = true;
    this.starting ??= this.loadAndFollow().finally(() => (this.starting = null));
  }

  async loadAndFollow() {
    const error = await this.load();
    if (this.closed || this.status.problem === "expired") return;
    if (!error) this.live.start();
    else this.schedule("start", () => isHidden() || this.live.active || this.start(), jitter(Math.max(this.api.pollInterval, error.retryAfter ?? 0)));
  }

  load(show) {
    return this.loader.load(show);
  }

  // Only a new observation reports that the end of the list is still in view.
  recheckFooter() {
    this.footerObserver.unobserve(this.view.footer);
    this.footerObserver.observe(this.view.footer);
  }

  onEvent({ type, data, id }) {
    const value = type === "reset" ? {} : parsed(data);
    if (type === "reset") this.loader.onReset(id);
    else if (value && !this.tracker.holdBack({ type, value })) this.applyEvent({ type, value });
    this.loader.onEventApplied(id); // last: if the event could not be applied, the stream must resume before it
    this.scheduleRender();
  }

  applyEvent({ type, value }) {
    if (type === "count") return this.applyCount(value);
    const known = this.store.get(value.burst);
    const { unread, ...content } = value;
    this.tracker.record(value.burst, known && !MARK_EVENTS.includes(type) ? content : value);
    this.api.invalidate();
    if (type === "row") this.addRow(value);
    if (type === "group" && (known || this.store.isInRange(value))) this.growRow(value);
    if (type === "marked" && this.store.applyMarked(value)) this.loader.scheduleLoad(TIMING.debounce); // to find its place
    if (type === "hidden") this.store.mark(value, "hidden");
  }

  addRow(row) {
    if (this.loader.resetPending) this.loader.isolated.add(row.burst);
    this.announceNew(Number(this.store.upsertLive(row, this.isIdle())));
    this.store.needsToken = true;
    this.visibility.restart();
  }

  growRow(row) {
    const isNew = this.store.upsertLive(row, this.isIdle());
    this.announceNew(Number(isNew));
    if (isNew) this.loader.noteGap(row);
  }

  applyCount(badge) {
    if (badge.count !== this.store.badge.count || badge.more !== this.store.badge.more) {
      this.tracker.record("count", badge);
      this.api.invalidate();
      this.store.badge = badge;
    }
    this.schedule("count", () => this.store.isOutdated() && this.loader.scheduleLoad(0, true), TIMING.debounce);
  }

  // The server has accepted a local write. The write's events follow shortly; earlier events may be older than the write.
  onWriteConfirmed(write) {
    write.confirmed = true;
    setTimeout(() => {
      if (this.closed) return;
      for (const event of this.tracker.endWrite(write)) {
        if (this.agrees(event)) this.applyEvent(event);
        else this.loader.scheduleLoad(0, true); // a page shows which change was last
      }
      this.scheduleRender();
    }, TIMING.debounce);
  }

  agrees({ type, value }) {
    const known = this.store.get(value.burst);
    if (type === "marked") return !this.store.hidden.has(value.burst) && (!known || known.unread === value.unread);
    return type === "count" || !known;
  }

  // Whether the user is not reading: the list is at its very top, without pointer and focus, and no rows wait.
  isIdle() {
    return this.view.scroller.scrollTop < 8 && !this.host.matches(":hover, :focus-within") && !this.store.waiting.size;
  }

  // Marks the shown rows as seen. No seen token covers rows of the stream, so a page is loaded first if there are any.
  async markSeen() {
    const { store } = this;
    if (store.needsToken && store.hasUnseen() && !store.waiting.size) {
      store.needsToken = false;
      if (await this.load()) return;
    }
    if (!store.seenToken || store.seenToken === this.sentToken || !(store.hasUnseen() || (!this.sentToken && store.badge.count))) return;
    this.sentToken = store.seenToken;
    const read = store.markSeen(); // the server may disagree in its next count
    const write = this.tracker.beginWrite(new Map([...read.map((burst) => [burst, { unread: false }]), ["count", store.badge]]));
    this.render();
    try {
      await this.api.markSeen(this.sentToken);
      this.onWriteConfirmed(write);
    } catch {
      this.tracker.endWrite(write);
      this.sentToken = null; // the next page shows what is really seen
      this.loader.scheduleLoad(jitter(this.api.pollInterval), true);
    }
  }

  onVisibilityChange() {
    this.visibility.restart();
    this.live.onVisibilityChange();
    if (isHidden()) this.store.highlighted.clear();
    else if (this.started && !this.live.active) this.retry();
    else if (this.loader.loadWhenVisible) this.load();
  }

  // Shows the waiting rows, or the newest page if they are not all loaded.
  async reveal() {
    if (this.store.topMissing) {
      this.api.invalidate(); // the rows that match the ETag were removed
      await this.load(true);
    } else this.store.revealWaiting();
    this.render();
    this.visibility.restart();
    this.view.scroller.scrollTop = 0;
    this.view.list.querySelector(".open")?.focus({ preventScroll: true });
  }

  // Rarely used, so the code is loaded on demand.
  async openSettings() {
    try {
      const { Settings } = await import("./settings.js");
      this.settings ??= new Settings(this);
    } catch {
      return this.actions.showToast(this.texts.settingsFailed);
    }
    this.settings.open();
  }

  retry() {
    if (this.live.active) {
      this.live.reconnect();
      this.load();
    } else {
      this.status.problem = null;
      this.render();
      this.start();
    }
  }

  onLoadError({ status, retryAfter = 0 }) {
    if (this.closed) return;
    const expired = status === 401 || status === 403;
    this.setProblem(expired ? "expired" : navigator.onLine ? "failed" : "offline");
    if (expired) this.live.stop();
    else if (this.live.stream.open) this.loader.scheduleLoad(jitter(Math.max(this.api.pollInterval, retryAfter)));
  }

  setProblem(problem) {
    if (this.status.problem === problem) return;
    this.status.problem = problem;
    this.scheduleRender();
  }

  // Makes a screen reader announce new rows together. Growing counts are not announced.
  announceNew(count) {
    this.unannounced += count;
    if (!this.unannounced || this.announcing) return;
    this.announcing = true;
    const announce = () => {
      this.view.announce(this.texts.newNotifications(this.unannounced, false));
      this.announcing = false;
      this.unannounced = 0;
    };
    this.schedule("announce", announce, TIMING.debounce);
  }

  // Renders soon, and once for many changes: the stream sends pending events together.
  scheduleRender() {
    if (this.renderScheduled || this.closed) return;
    this.renderScheduled = true;
    this.schedule("render", () => this.render(), TIMING.render);
  }

  render(changes = {}) {
    this.renderScheduled = false;
    Object.assign(this.status, changes);
    this.view.render(this.store, this.status);
    if (this.store.seenToken !== this.renderedToken) this.visibility.restart();
    this.renderedToken = this.store.seenToken;
    const { count, more } = this.store.badge;
    if (`${count}${more}` !== this.sentBadge) this.dispatch("badge", { count, more });
    this.sentBadge = `${count}${more}`;
  }

  dispatch(type, detail) {
    return this.host.dispatchEvent(new CustomEvent(type, { detail, bubbles: true, composed: true, cancelable: type === "open" }));
  }

  // Runs the action later; a further call with this name replaces it.
  schedule(name, action, delay) {
    clearTimeout(this.timers[name]);
    this.timers[name] = setTimeout(action, delay);
  }
}

function parsed(data) {
  try {
    return JSON.parse(data);
  } catch {
    return null; // the next page has the row again
  }
}
