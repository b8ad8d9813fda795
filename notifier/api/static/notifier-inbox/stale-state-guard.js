// Prevents an older state from replacing a newer one. A page can be older than stream events received during its
// request, and an event can be older than a local write.

export const MARK_EVENTS = ["marked", "hidden"]; // events that change whether a row is unread or shown

export class ChangeTracker {
  pages = new Set(); // a Map for each page that is being loaded: burst or "count" to its changes since the request
  writes = new Map(); // burst or "count" to the latest local write that changes it

  // Call it when a page is requested. Call `endPage` with the result when the page was applied or the request failed.
  beginPage() {
    const changes = new Map();
    for (const [key, write] of this.writes) if (!write.confirmed) changes.set(key, write.changes.get(key));
    this.pages.add(changes);
    return changes;
  }

  endPage(changes) {
    this.pages.delete(changes);
  }

  record(key, change) {
    for (const changes of this.pages) changes.set(key, { ...changes.get(key), ...change });
  }

  // Call it when the store shows a local write. Until `endWrite`, events about the same items are held back.
  beginWrite(changes) {
    const write = { changes, heldEvents: new Map(), confirmed: false };
    for (const [key, change] of changes) {
      const event = this.writes.get(key)?.heldEvents.get(key);
      if (event) write.heldEvents.set(key, event);
      this.writes.set(key, write);
      this.record(key, change);
    }
    return write;
  }

  // Holds the event back if a write concerns the same item. Returns whether the event is held back.
  holdBack(event) {
    const key = event.type === "count" ? "count" : MARK_EVENTS.includes(event.type) ? event.value.burst : null;
    return Boolean(this.writes.get(key)?.heldEvents.set(key, event));
  }

  // Returns the events that the write held back. A later write of an item has taken over the events of the item.
  endWrite(write) {
    const keys = [...write.changes.keys()].filter((key) => this.writes.get(key) === write);
    for (const key of keys) this.writes.delete(key);
    return keys.map((key) => write.heldEvents.get(key)).filter(Boolean);
  }
}
