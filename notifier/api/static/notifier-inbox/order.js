// Prevents returning to an older state. A page can be older than stream events received during its request,
// and an event can be older than a mark made here.

export const MARKS = ["marked", "hidden"]; // events that change whether a row is unread or shown

export class Order {
  pages = new Set(); // one Map per requested page: burst or "count" to its changes since the request
  writes = new Map(); // burst or "count" to our last write that changed it

  // Call it when a page is requested, and `taken` with the result when the page was applied or failed.
  asked() {
    const changes = new Map();
    for (const [key, write] of this.writes) if (!write.answered) changes.set(key, write.changes.get(key));
    this.pages.add(changes);
    return changes;
  }

  taken(changes) {
    this.pages.delete(changes);
  }

  changed(key, change) {
    for (const changes of this.pages) changes.set(key, { ...changes.get(key), ...change });
  }

  // A local write begins, and is shown already. Until `end`, events about the same items are held back.
  begin(changes) {
    const write = { changes, events: new Map(), answered: false };
    for (const [key, change] of changes) {
      const event = this.writes.get(key)?.events.get(key);
      if (event) write.events.set(key, event);
      this.writes.set(key, write);
      this.changed(key, change);
    }
    return write;
  }

  // Returns whether the event waits for the end of a write.
  keeps(event) {
    const key = event.type === "count" ? "count" : MARKS.includes(event.type) ? event.value.burst : null;
    return Boolean(this.writes.get(key)?.events.set(key, event));
  }

  // Returns the held events, except those that a later write holds.
  end(write) {
    const keys = [...write.changes.keys()].filter((key) => this.writes.get(key) === write);
    for (const key of keys) this.writes.delete(key);
    return keys.map((key) => write.events.get(key)).filter(Boolean);
  }
}
