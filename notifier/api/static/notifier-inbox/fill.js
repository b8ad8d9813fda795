// Loads missed rows: by cursor pages, or of single subjects by the gap route. Rarely needed.

import { body } from "./api.js";
import { LARGEST_PAGE, MOST_ROWS, PAGE } from "./pace.js";
import { at } from "./store.js";

const ROUNDS = 6; // a page can be empty and still have a next one

// Returns the newest page with the rows behind it: down to the last shown row if `deep`, else until it meets the shown
// rows. It stops at the maximum number of rows.
export async function fill(api, store, page, { deep, missing, loose }) {
  const last = store.items.at(-1);
  let { items, next } = page;
  const enough = () => items.length > 0 && (deep ? at(items.at(-1)) < at(last) : !store.misses({ ...page, items }, loose));
  for (let round = 0; round < ROUNDS && next !== null && items.length < MOST_ROWS && !enough(); round++) {
    const rest = Math.max(0, store.items.length - items.length) + PAGE;
    const older = await api.older(next, missing ? LARGEST_PAGE : Math.min(rest, LARGEST_PAGE));
    if (older.partial) throw new Error("partial");
    items = [...items, ...older.items];
    next = older.next;
  }
  const whole = { ...page, items, next, reach: reach(items, next) };
  // Rows older than the last shown one load on scroll.
  return store.misses(whole, loose) ? whole : { ...whole, items: items.filter((item) => at(item) >= at(last)) };
}

function reach(items, next) {
  if (next === null) return -Infinity;
  return items.length ? at(items.at(-1)) : Infinity;
}

// `gaps` are pairs of a subject and the `seq` from which its bursts may be missing.
export async function fillSubjects(inbox, gaps) {
  const { api, ended, loader, order, store } = inbox;
  const changes = order.asked();
  try {
    const answers = await Promise.all(gaps.map(([subject, from]) => bursts(api, subject, from)));
    if (ended.signal.aborted) return;
    if (answers.some(({ partial, next }) => partial || next !== null)) throw new Error("partial");
    const items = answers.flatMap((answer) => answer.items);
    for (const { burst } of items) if (!store.has(burst)) loader.loose.add(burst);
    api.touched();
    inbox.tell(store.fit(items, inbox.idle(), changes));
    inbox.soon();
  } finally {
    order.taken(changes);
  }
}

async function bursts(api, subject, from) {
  return body(await api.read(`/v1/subjects/${encodeURIComponent(subject)}/bursts?${new URLSearchParams({ from, limit: LARGEST_PAGE })}`));
}
