// User actions on a row: open, mark, hide, undo.

import { TIMING } from "./delays-and-limits.js";

export class Actions {
  menu = null;
  pendingMarks = new Map(); // burst to the promise of its last mark without a response
  undoable = null; // the hidden row that undo restores

  constructor(inbox) {
    this.inbox = inbox;
  }

  open(burst) {
    const item = this.inbox.store.find(burst);
    if (item && this.inbox.dispatch("open", item) && item.unread) this.mark(item, "read");
  }

  // The first menu loads the code. Later menus open at once, so that the user's next key reaches them.
  async openMenu(burst, button) {
    if (!this.menu) {
      try {
        const { RowMenu } = await import("./row-menu.js");
        this.menu ??= new RowMenu(this.inbox);
      } catch {
        return this.showToast(this.inbox.texts.actionFailed);
      }
    }
    this.menu.toggle(burst, button);
  }

  toggleRead(burst) {
    const item = this.inbox.store.find(burst);
    this.mark(item, item.unread ? "read" : "unread");
  }

  hide(burst) {
    const { store, texts, view } = this.inbox;
    const item = store.find(burst);
    this.undoable = item;
    this.priorIndex = store.indexOf(burst);
    this.priorMark = !item.unread ? "read" : store.keptUnread.has(burst) ? "unread" : "none"; // a mark "unread" of the user stays when the row is seen
    this.mark(item, "hidden");
    view.showToast(texts.hidden, texts.undo, () => this.undo());
    this.scheduleDismiss();
  }

  // Removes the toast later, but not while the user is about to use it.
  scheduleDismiss() {
    this.inbox.schedule("toast", () => (this.inbox.view.toast.matches(":hover, :focus-within") ? this.scheduleDismiss() : this.dismissToast()), TIMING.toast);
  }

  undo() {
    const item = this.undoable;
    if (!item) return;
    this.dismissToast();
    this.mark(item, this.priorMark, this.priorIndex);
    this.inbox.view.rows.get(item.burst)?.button.focus();
  }

  // Shows a temporary message, with an action if there is a label.
  showToast(...toast) {
    this.dismissToast();
    this.inbox.view.showToast(...toast);
    this.scheduleDismiss();
  }

  dismissToast() {
    this.undoable = null;
    this.inbox.view.showToast(null);
  }

  // Shows the mark at once, and undoes it if the request fails. Sends marks of one row one after the other: on two
  // connections, "undo" could arrive before "hide", and the row would stay hidden.
  async mark(item, mark, index) {
    const { inbox, pendingMarks } = this;
    const { store, tracker } = inbox;
    store.mark(item, mark, index);
    const { burst, unread } = store.find(item.burst) ?? {};
    const write = tracker.beginWrite(new Map([[item.burst, burst ? { burst, unread } : {}], ["count", store.badge]]));
    inbox.render();
    const send = () => inbox.api.mark(item.burst, mark);
    const earlier = pendingMarks.get(item.burst);
    const request = earlier ? earlier.then(send, send) : send();
    pendingMarks.set(item.burst, request);
    try {
      await request;
      inbox.onWriteConfirmed(write);
    } catch {
      const events = tracker.endWrite(write);
      if (inbox.closed || pendingMarks.get(item.burst) !== request) return;
      store.undoMark(item);
      tracker.record(item.burst, { burst: item.burst, unread: item.unread });
      tracker.record("count", store.badge);
      this.showToast(inbox.texts.actionFailed);
      for (const event of events) inbox.applyEvent(event);
      inbox.render();
    } finally {
      if (pendingMarks.get(item.burst) === request) pendingMarks.delete(item.burst);
    }
  }

  // Returns the rows whose hiding the server has confirmed. If a page that is requested later contains one, another
  // device has restored it.
  confirmedHidden() {
    return this.inbox.store.hidden.difference(this.pendingMarks);
  }
}
