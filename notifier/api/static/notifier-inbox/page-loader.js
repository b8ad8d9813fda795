// Loads pages into the store: the newest one, again after changes, and older ones.

import { isHidden } from "./live-updates.js";
import { openedAt } from "./store.js";
import { PAGE_SIZE, TIMING, jitter } from "./delays-and-limits.js";

const MAX_ROUNDS = 5; // a page can be empty and still have a next one
const MAX_GAPS = 3; // subjects; with more, reloading the rows is cheaper

export class Loader {
  since = null; // id of the page or event from which the stream resumes: nothing before it is missing
  resetCount = 0;
  resolvedResetCount = 0; // resets that a page has resolved
  isolated = new Set(); // rows that came after a reset or a gap: rows below them may be missing
  gaps = new Map(); // subject to the `seq` from which bursts may be missing
  deep = false; // the next load also checks the rows behind the newest page
  loadWhenVisible = false;

  constructor(inbox) {
    Object.assign(this, { inbox });
  }

  get resetPending() {
    return this.resolvedResetCount !== this.resetCount;
  }

  close() {
    this.cancel();
    clearTimeout(this.gapTimer);
  }

  // Loads the newest page. With `show` its rows are shown at once; otherwise new rows may wait behind the pill. Loads one
  // page at a time, so that no older page replaces a newer one. Resolves to the error, or null.
  load(show = false) {
    this.show ||= show;
    if (this.running) return (this.queued ??= this.running.then(() => ((this.queued = null), this.load())));
    this.running = this.loadNewest().finally(() => (this.running = null));
    return this.running;
  }

  // Calls in quick succession share one load. A hidden tab loads when it is visible again.
  scheduleLoad(delay, deep = false) {
    if (this.inbox.closed) return;
    this.deep ||= deep;
    if (this.timer && this.timerAt <= Date.now() + delay) return;
    clearTimeout(this.timer);
    this.timerAt = Date.now() + delay;
    this.timer = setTimeout(() => {
      this.timer = null;
      if (isHidden()) this.loadWhenVisible = true;
      else this.load();
    }, delay);
  }

  cancel() {
    clearTimeout(this.timer);
    this.timer = null;
    this.loadWhenVisible = false;
  }

  // Call it when the stream has missed events. The load waits for further resets, but no longer than a limit.
  onReset(id) {
    this.resetCount += 1;
    this.resetId = id;
    this.firstResetAt ??= Date.now();
    clearTimeout(this.timer);
    this.timer = null;
    this.scheduleLoad(Math.min(TIMING.debounce * (1 + Math.random()), Math.max(0, this.firstResetAt + TIMING.maxDebounce - Date.now())), true);
  }

  // Makes the stream resume after this event. While a reset is pending, the stream resumes before the reset.
  onEventApplied(id) {
    if (!this.resetPending) this.since = id ?? this.since;
  }

  async loadNewest() {
    const { inbox, show, deep, resetCount, resetId } = this;
    const [changes, hidden] = [inbox.tracker.beginPage(), inbox.actions.confirmedHidden()];
    this.cancel();
    this.show = this.deep = false;
    this.firstResetAt = null;
    inbox.live.onPageRequest();
    let newest = null; // null if the page is unchanged
    try {
      newest = await inbox.api.newestPage(PAGE_SIZE);
      const page = await this.extend(newest, show, deep);
      if (inbox.closed) return null;
      if (page) this.apply(page, show, changes, hidden);
      this.lastPage = newest ?? this.lastPage;
      if (newest) this.since = newest.live ?? this.since; // an older id only repeats known events
      else if (this.resolvedResetCount !== resetCount) this.since = resetId ?? this.since;
      if (page?.partial) this.scheduleLoad(jitter(inbox.api.pollInterval), deep);
      else this.resolve(resetCount);
      inbox.setProblem(null);
      return null;
    } catch (error) {
      this.deep ||= deep;
      if (newest) inbox.api.invalidate(); // the page was not applied, so its ETag matches nothing shown
      inbox.onLoadError(error);
      return error;
    } finally {
      inbox.tracker.endPage(changes);
    }
  }

  resolve(resetCount) {
    this.resolvedResetCount = resetCount;
    if (resetCount === this.resetCount) this.isolated.clear();
  }

  // Returns the page with enough rows behind it to leave no gap. Null if nothing has changed.
  async extend(newest, show, deep) {
    const { inbox, isolated } = this;
    const { api, store } = inbox;
    const page = newest ?? this.lastPage;
    if (!page || page.partial || page.next === null || show || store.topMissing || !store.complete || !store.items.length) return newest;
    const gap = store.hasGap(page, isolated);
    const short = deep && openedAt(page.items.at(-1) ?? {}) >= openedAt(store.items.at(-1));
    if (!(gap ? store.items.length > PAGE_SIZE || !inbox.isIdle() : short)) return newest;
    const module = await import("./backfill.js").catch(() => null);
    return module ? module.extendPage(api, store, page, { deep, gap, isolated }) : newest;
  }

  apply(page, show, changes, hidden) {
    const { inbox } = this;
    const { store } = inbox;
    store.restoreHidden(page, hidden, changes);
    inbox.announceNew(store.applyNewest(page, { show: show || inbox.isIdle(), changes, isolated: this.isolated }));
    inbox.render();
    if (!store.items.length) this.loadOlder(); // visible rows may begin behind an empty page
    else if (store.items.length < PAGE_SIZE) inbox.recheckFooter(); // a short page leaves the end of the list in view
  }

  async loadOlder() {
    const { inbox } = this;
    const { api, actions, store, tracker } = inbox;
    if (inbox.status.busy || !store.loaded || store.next === null) return;
    inbox.render({ busy: true, olderFailed: false });
    const changes = tracker.beginPage();
    try {
      for (let round = 0, added = 0; round < MAX_ROUNDS && !added && store.next !== null; round++) {
        const [hidden, cursor] = [actions.confirmedHidden(), store.next];
        const page = await api.olderPage(cursor);
        if (inbox.closed) return;
        if (store.next !== cursor) continue; // the list was reset meanwhile, and this page does not continue the list
        store.restoreHidden(page, hidden, changes);
        added = store.append(page, changes);
        if (page.partial) throw new Error("partial");
      }
      inbox.render({ busy: false });
      inbox.recheckFooter();
    } catch (error) {
      if (!inbox.closed) inbox.render({ busy: false, olderFailed: true });
    } finally {
      tracker.endPage(changes);
    }
  }

  // Call it when a burst that was not shown has grown: other bursts of its subject may be missing, too.
  noteGap({ burst, digest, seq, subject }) {
    this.isolated.add(burst);
    if (this.resetPending || digest) return;
    this.gaps.set(subject, Math.min(seq, this.gaps.get(subject) ?? Infinity));
    this.gapTimer ??= setTimeout(() => this.fillGaps(), TIMING.debounce * Math.random());
  }

  async fillGaps() {
    const gaps = [...this.gaps];
    this.gaps.clear();
    this.gapTimer = null;
    if (isHidden() || gaps.length > MAX_GAPS) return this.scheduleLoad(0, true);
    try {
      const { loadGaps } = await import("./backfill.js");
      await loadGaps(this.inbox, gaps);
    } catch (error) {
      this.scheduleLoad(error.retryAfter ?? 0, true); // also if the server has no gap route
    }
  }
}
