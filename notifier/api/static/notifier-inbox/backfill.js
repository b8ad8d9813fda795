// Loads missed rows: older pages by their cursors, or bursts of single subjects. Rarely needed, so loaded on demand.

import { parseJson } from "./api.js";
import { openedAt } from "./store.js";
import { MAX_PAGE_SIZE, MAX_ROWS, PAGE_SIZE } from "./delays-and-limits.js";

const MAX_ROUNDS = 6; // a page can be empty and still have a next one

// Returns the newest page with the rows behind it: down to the last shown row if `deep`, else until it overlaps the
// shown rows. It stops at MAX_ROWS rows or after MAX_ROUNDS requests.
export async function extendPage(api, store, page, { deep, gap, isolated }) {
  const last = store.items.at(-1);
  let { items, next } = page;
  const isEnough = () => items.length > 0 && (deep ? openedAt(items.at(-1)) < openedAt(last) : !store.hasGap({ ...page, items }, isolated));
  for (let round = 0; round < MAX_ROUNDS && next !== null && items.length < MAX_ROWS && !isEnough(); round++) {
    const missing = Math.max(0, store.items.length - items.length) + PAGE_SIZE;
    const older = await api.olderPage(next, gap ? MAX_PAGE_SIZE : Math.min(missing, MAX_PAGE_SIZE));
    if (older.partial) throw new Error("partial");
    items = [...items, ...older.items];
    next = older.next;
  }
  const extended = { ...page, items, next, oldest: oldestTime(items, next) };
  // Rows older than the last shown one load on scroll.
  return store.hasGap(extended, isolated) ? extended : { ...extended, items: items.filter((item) => openedAt(item) >= openedAt(last)) };
}

// Returns the time back to which the items are complete.
function oldestTime(items, next) {
  if (next === null) return -Infinity;
  return items.length ? openedAt(items.at(-1)) : Infinity;
}

// `gaps` are pairs of a subject and the `seq` from which its bursts may be missing.
export async function loadGaps(inbox, gaps) {
  const { api, loader, store, tracker } = inbox;
  const changes = tracker.beginPage();
  try {
    const pages = await Promise.all(gaps.map(([subject, from]) => subjectBursts(api, subject, from)));
    if (inbox.closed) return;
    if (pages.some(({ partial, next }) => partial || next !== null)) throw new Error("partial");
    const items = pages.flatMap((page) => page.items);
    for (const { burst } of items) if (!store.has(burst)) loader.isolated.add(burst);
    api.invalidate();
    inbox.announceNew(store.insertMissed(items, inbox.isIdle(), changes));
    inbox.scheduleRender();
  } finally {
    tracker.endPage(changes);
  }
}

async function subjectBursts(api, subject, from) {
  return parseJson(await api.get(`/v1/subjects/${encodeURIComponent(subject)}/bursts?${new URLSearchParams({ from, limit: MAX_PAGE_SIZE })}`));
}
