// Loads pages into the store: the newest one, also again after changes, and older ones.

import { hidden } from "./live.js";
import { PACE, PAGE, spread } from "./pace.js";
import { at } from "./store.js";

const ROUNDS = 5; // a page can be empty and still have a next one
const MOST_GAPS = 3; // subjects; with more, reloading the rows is cheaper

export class Loader {
  since = null; // id of a page or event up to which nothing is missing
  resets = 0;
  mended = 0; // number of resets that a page has resolved
  loose = new Set(); // rows after a reset or a gap: others below them may be missing
  gaps = new Map(); // subject to the `seq` from which bursts may be missing
  deep = false; // the next load also checks the rows behind the newest page
  due = false; // a load waits until the tab is visible

  constructor(inbox) {
    Object.assign(this, { inbox });
  }

  // A reset that no page has resolved yet.
  get broken() {
    return this.mended !== this.resets;
  }

  close() {
    this.cancel();
    clearTimeout(this.filling);
  }

  // The newest page. `show` scrolls to it; otherwise new rows may have to wait. One page at a time, so that none
  // overtakes a later one. Resolves to the error, or null.
  load(show = false) {
    this.show ||= show;
    if (this.running) return (this.following ??= this.running.then(() => ((this.following = null), this.load())));
    this.running = this.newest().finally(() => (this.running = null));
    return this.running;
  }

  // Calls in quick succession share one load. A hidden tab loads when it is visible again.
  reload(wait, deep = false) {
    if (this.inbox.ended.signal.aborted) return;
    this.deep ||= deep;
    if (this.timer && this.at <= Date.now() + wait) return;
    clearTimeout(this.timer);
    this.at = Date.now() + wait;
    this.timer = setTimeout(() => {
      this.timer = null;
      if (hidden()) this.due = true;
      else this.load();
    }, wait);
  }

  cancel() {
    clearTimeout(this.timer);
    this.timer = null;
    this.due = false;
  }

  // Events were missed. The load waits for further resets, up to a limit.
  reset(id) {
    this.resets += 1;
    this.resetId = id;
    this.firstReset ??= Date.now();
    clearTimeout(this.timer);
    this.timer = null;
    this.reload(Math.min(PACE.settle * (1 + Math.random()), Math.max(0, this.firstReset + PACE.again - Date.now())), true);
  }

  // An event took effect: the stream resumes after it. Until a page has resolved a reset, events are repeated.
  passed(id) {
    if (!this.broken) this.since = id ?? this.since;
  }

  async newest() {
    const { inbox, show, deep, resets, resetId } = this;
    const [changes, gone] = [inbox.order.asked(), inbox.deeds.settled()];
    this.cancel();
    this.show = this.deep = false;
    this.firstReset = null;
    inbox.live.loads();
    let fresh = null;
    try {
      fresh = await inbox.api.newest(PAGE);
      const page = await this.lengthened(fresh, show, deep);
      if (inbox.ended.signal.aborted) return null;
      if (page) this.take(page, show, changes, gone);
      this.page = fresh ?? this.page;
      if (fresh) this.since = fresh.live ?? this.since; // an older id only repeats known events
      else if (this.mended !== resets) this.since = resetId ?? this.since;
      if (page?.partial) this.reload(spread(inbox.api.poll), deep);
      else this.mend(resets);
      inbox.trouble(null);
      return null;
    } catch (error) {
      this.deep ||= deep;
      if (fresh) inbox.api.touched(); // not applied, so its tag matches nothing shown
      inbox.refused(error);
      return error;
    } finally {
      inbox.order.taken(changes);
    }
  }

  mend(resets) {
    this.mended = resets;
    if (resets === this.resets) this.loose.clear();
  }

  // The page with enough rows behind it to leave no gap. Null if nothing has changed.
  async lengthened(fresh, show, deep) {
    const { inbox, loose } = this;
    const { api, store } = inbox;
    const page = fresh ?? this.page;
    if (!page || page.partial || page.next === null || show || store.cut || !store.whole || !store.items.length) return fresh;
    const missing = store.misses(page, loose);
    const short = deep && at(page.items.at(-1) ?? {}) >= at(store.items.at(-1));
    if (!(missing ? store.items.length > PAGE || !inbox.idle() : short)) return fresh;
    const module = await import("./fill.js").catch(() => null);
    return module ? module.fill(api, store, page, { deep, missing, loose }) : fresh;
  }

  take(page, show, changes, gone) {
    const { inbox } = this;
    const { store } = inbox;
    store.recall(page, gone, changes);
    inbox.tell(store.refresh(page, { show: show || inbox.idle(), changes, loose: this.loose }));
    inbox.soon();
    if (!store.items.length) this.older(); // visible rows may begin behind an empty page
  }

  async older() {
    const { inbox } = this;
    const { api, deeds, ended, order, store } = inbox;
    if (inbox.shown.busy || !store.loaded || store.next === null) return;
    inbox.show({ busy: true, olderFailed: false });
    const changes = order.asked();
    try {
      for (let round = 0, added = 0; round < ROUNDS && !added && store.next !== null; round++) {
        const [gone, cursor] = [deeds.settled(), store.next];
        const page = await api.older(cursor);
        if (ended.signal.aborted) return;
        if (store.next !== cursor) continue; // the list was reset meanwhile, and this page does not follow it
        store.recall(page, gone, changes);
        added = store.append(page, changes);
        if (page.partial) throw new Error("partial");
      }
      inbox.show({ busy: false });
      inbox.lookBelow();
    } catch (error) {
      if (!ended.signal.aborted) inbox.show({ busy: false, olderFailed: true });
    } finally {
      order.taken(changes);
    }
  }

  // A burst that is not shown has grown: others of its subject may be missing, too.
  lacks({ burst, digest, seq, subject }) {
    this.loose.add(burst);
    if (this.broken || digest) return;
    this.gaps.set(subject, Math.min(seq, this.gaps.get(subject) ?? Infinity));
    this.filling ??= setTimeout(() => this.fillGaps(), PACE.settle * Math.random());
  }

  async fillGaps() {
    const gaps = [...this.gaps];
    this.gaps.clear();
    this.filling = null;
    if (hidden() || gaps.length > MOST_GAPS) return this.reload(0, true);
    try {
      const { fillSubjects } = await import("./fill.js");
      await fillSubjects(this.inbox, gaps);
    } catch (error) {
      this.reload(error.retryAfter ?? 0, true); // also if the server has no gap route
    }
  }
}
