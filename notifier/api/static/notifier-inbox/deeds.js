// Actions on a row: open, mark, hide, undo, mute its account.

import { PACE } from "./pace.js";

export class Deeds {
  menu = null;
  sent = new Map(); // by row, the last mark without an answer
  hiding = null; // the row that undo restores

  constructor(inbox) {
    this.inbox = inbox;
  }

  open(burst) {
    const item = this.inbox.store.find(burst);
    if (item && this.inbox.send("open", item) && item.unread) this.mark(item, "read");
  }

  // Loaded when a menu is first opened.
  async menuOf(burst, button) {
    if (this.menu?.button === button) return this.menu.close(true);
    try {
      const [{ Menu }, { Quiet }] = await Promise.all([import("./menu.js"), import("./quiet.js")]);
      this.menu ??= new Menu();
      this.quiet ??= new Quiet(this.inbox);
    } catch {
      return this.say(this.inbox.words.notDone);
    }
    const item = this.inbox.store.find(burst);
    if (!item || this.inbox.ended.signal.aborted) return;
    const choices = [
      [item.unread ? this.inbox.words.read : this.inbox.words.markUnread, () => this.toggle(burst)],
      [this.inbox.words.hide, () => this.hide(burst)],
      ...this.quiet.choices(item),
    ];
    this.menu.open(button, choices, this.inbox.view.scroller);
  }

  toggle(burst) {
    const item = this.inbox.store.find(burst);
    this.mark(item, item.unread ? "read" : "unread");
  }

  hide(burst) {
    const item = this.inbox.store.find(burst);
    this.hiding = item;
    this.place = this.inbox.store.place(burst);
    this.before = !item.unread ? "read" : this.inbox.store.kept.has(burst) ? "unread" : "none"; // an explicit mark would outlast seen
    this.mark(item, "hidden");
    this.inbox.view.offer(this.inbox.words.hidden, this.inbox.words.undo, () => this.undo());
    this.fade();
  }

  // Do not move it while the user is about to use it.
  fade() {
    this.inbox.later("toast", () => (this.inbox.view.toast.matches(":hover, :focus-within") ? this.fade() : this.forget()), PACE.undo);
  }

  undo() {
    const item = this.hiding;
    if (!item) return;
    this.forget();
    this.mark(item, this.before, this.place);
    this.inbox.view.rows.get(item.burst)?.button.focus();
  }

  // A temporary message with an action.
  say(...offer) {
    this.forget();
    this.inbox.view.offer(...offer);
    this.fade();
  }

  forget() {
    this.hiding = null;
    this.inbox.view.offer(null);
  }

  // Shown at once, and undone if the server rejects it. Marks of one row are sent one after the other: on two
  // connections the later could arrive first, and an undone row would stay hidden.
  async mark(item, mark, place) {
    const { order, store } = this.inbox;
    store.mark(item, mark, place);
    const { burst, unread } = store.find(item.burst) ?? {};
    const write = order.begin(new Map([[item.burst, burst ? { burst, unread } : {}], ["count", store.badge]]));
    this.inbox.show();
    const send = () => this.inbox.api.mark(item.burst, mark);
    const earlier = this.sent.get(item.burst);
    const answer = earlier ? earlier.then(send, send) : send();
    this.sent.set(item.burst, answer);
    try {
      await answer;
      this.inbox.answered(write);
    } catch {
      const events = order.end(write);
      if (this.inbox.ended.signal.aborted || this.sent.get(item.burst) !== answer) return;
      store.restore(item);
      order.changed(item.burst, { burst: item.burst, unread: item.unread });
      order.changed("count", store.badge);
      this.say(this.inbox.words.notDone);
      for (const event of events) this.inbox.apply(event);
      this.inbox.show();
    } finally {
      if (this.sent.get(item.burst) === answer) this.sent.delete(item.burst);
    }
  }

  // Hidden on the server: if a page requested from now on shows it, it was restored elsewhere.
  settled() {
    return this.inbox.store.hidden.difference(this.sent);
  }
}
